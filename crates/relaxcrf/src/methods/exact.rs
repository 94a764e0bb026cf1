//! Two labels: the global optimum, and a proof of it.
//!
//! With two labels the LP is tight, so the steps of `smooth-lp` close the gap from both sides. The end comes
//! sooner than they would get there: with a labelling of energy U, a bound B, and z the bound's certificate,
//! a pixel whose two values of φ + z differ by more than U - B has the same label in every optimum, since
//! the other label alone would lift the bound above U. Once few pixels are undecided, theirs is a minimum
//! cut of a small dense graph, found directly; and then there is nothing better.

use super::info::{Answer, MethodInfo};
use super::smooth_lp::SmoothLp;
use crate::beliefs::Beliefs;
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use crate::model::Model;
use crate::reductions::open_pixels;
use crate::relaxation::cuts;
use crate::relaxation::min_cut::Dense;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::MAX_CELLS;

/// Most undecided pixels whose cut is found directly.
const FEW: usize = 1000;

/// Iterations between two looks at the undecided pixels.
const LOOK_EVERY: usize = 5;

/// A gap of this share of the problem's scale is a reason to look at once.
const CLOSE: f64 = 1e-7;

/// The row of `exact`.
pub(super) const ROW: MethodInfo = MethodInfo {
    iterations: |_| 300,
    tolerance: 1e-8,
    answer: Answer::BestSeen,
    bytes: |problem| problem.arrays(6) + problem.layer_bytes() + open_pixels::bytes(problem),
    fits: |model, _| require_two_labels(model),
    ..MethodInfo::new(
        "exact",
        "two labels only: smooth-lp until the optimum is proved",
        "the global optimum once it has converged, with the proof",
        |model, _| Ok(Box::new(Exact::new(model)?)),
    )
};

/// Fails unless the optimum can be found and proved.
fn require_two_labels(model: &Model) -> Result<()> {
    let refuse = |why: String, instead: &str| {
        Err(Error::Method { method: "exact".into(), why, instead: instead.into() })
    };
    if model.labels() != 2 {
        return refuse(format!("it is for two labels, and there are {}", model.labels()), "`smooth-lp`");
    }
    if !model.pairwise().is_symmetric() {
        return refuse("the operator is not symmetric".into(), "`dc-neg`, or a symmetric filter");
    }
    cuts::cuts_for(model, "smooth-lp").map(drop)
}

/// The method `exact`.
pub(super) struct Exact<'m> {
    model: &'m Model,
    lp: SmoothLp<'m>,
    taken: usize,
    /// The optimum, or before it is found what the beliefs say.
    found: Option<Labeling>,
}

impl<'m> Exact<'m> {
    pub fn new(model: &'m Model) -> Result<Self> {
        require_two_labels(model)?;
        let lp = SmoothLp::new(model, MAX_CELLS)?;
        Ok(Self { model, lp, taken: 0, found: None })
    }

    /// For every pixel the label it must have, or `None` where that is open; all open without a bound.
    fn decided(&self, context: &Context) -> Vec<Option<u16>> {
        let z = self.lp.certificate();
        let room = context.lowest_energy() - cuts::bound(self.model, z) + rounding(self.model);
        let decide = |(phi, z): (&[f32], &[f32])| {
            let lead = f64::from(phi[1]) + f64::from(z[1]) - f64::from(phi[0]) - f64::from(z[0]);
            (lead.abs() > room).then_some(u16::from(lead < 0.0))
        };
        self.model.unary().chunks_exact(2).zip(z.chunks_exact(2)).map(decide).collect()
    }

    /// The optimum, if few pixels are undecided.
    fn finish(&self, context: &mut Context) -> Option<Labeling> {
        let decided = self.decided(context);
        let open: Vec<usize> = (0..decided.len()).filter(|&a| decided[a].is_none()).collect();
        if open.len() > FEW {
            return None;
        }
        // Both orders of a pair count.
        let cost = 2.0 * f64::from(self.model.compatibility().cost(0, 1));
        let mut inside = vec![0.0; 2 * decided.len()];
        for (row, label) in inside.chunks_exact_mut(2).zip(&decided) {
            if let Some(label) = label {
                row[usize::from(*label)] = 1.0;
            }
        }
        let mut sums = vec![0.0; inside.len()];
        context.filter(&inside, &mut sums);
        let phi = self.model.unary();
        let theta = open.iter().map(|&a| {
            let (phi, sums) = (&phi[2 * a..2 * a + 2], &sums[2 * a..2 * a + 2]);
            f64::from(phi[1]) - f64::from(phi[0]) + cost * (f64::from(sums[0]) - f64::from(sums[1]))
        });
        let theta = theta.collect();
        let weights = context.between(&open).iter().map(|&k| cost * f64::from(k)).collect();
        let found = Dense { nodes: open.len(), theta, weights }.minimize();
        let mut labels: Vec<u16> = decided.iter().map(|d| d.unwrap_or(0)).collect();
        for (&a, x) in open.iter().zip(found) {
            labels[a] = x;
        }
        Some(Labeling::new(labels))
    }
}

/// What single precision may do to the difference of an energy and a certificate: errors of the pixels add up like
/// random numbers. Without it the label of an optimum is ruled out where the certificate touches it.
fn rounding(model: &Model) -> f64 {
    4.0 * f64::from(f32::EPSILON) * model.scale() / (model.pixels() as f64).sqrt()
}

impl Solver for Exact<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let mut step = self.lp.step(context, beliefs);
        self.taken += 1;
        // Only a closed gap is an end here.
        step.residual = step.lower_bound.map_or(f64::INFINITY, |b| context.lowest_energy() - b);
        if self.taken.is_multiple_of(LOOK_EVERY) || step.residual <= CLOSE * self.model.scale() {
            let seen = beliefs.argmax();
            context.evaluate(&seen);
            self.found = Some(seen);
            if let Some(optimum) = self.finish(context) {
                // Rounding in the last cut must not put the answer above a labelling seen before.
                let energy = context.evaluate(&optimum).total().min(context.lowest_energy());
                *beliefs = Beliefs::from_labeling(&optimum, 2);
                self.found = Some(optimum);
                return Step { objective: energy, lower_bound: Some(energy), residual: 0.0 };
            }
        }
        step
    }

    fn proposal(&mut self) -> Option<Labeling> {
        self.found.take().or_else(|| self.lp.proposal())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::energy;
    use crate::model::{Compatibility, FilterKind, ModelBuilder, Normalization};
    use crate::solver::Settings;
    use relaxcrf_filter::rng::Rng;

    const POINTS: usize = 11;

    fn model(cost: f32, rng: &mut Rng) -> Model {
        let mut numbers = |n: usize| (0..n).map(|_| 2.0 * rng.next_f64() as f32).collect::<Vec<_>>();
        ModelBuilder::points(POINTS, 2)
            .unary(numbers(POINTS * 2))
            .features(numbers(POINTS * 2), 2, 0.12)
            .compatibility(Compatibility::per_label(vec![0.5 * cost, 1.5 * cost]).unwrap())
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap()
    }

    fn optimum(model: &Model) -> Labeling {
        let all = (0..1u32 << POINTS)
            .map(|code| Labeling::new((0..POINTS).map(|a| (code >> a & 1) as u16).collect()));
        let of = |x: &Labeling| energy::of_labeling(model, x).unwrap().total();
        all.min_by(|x, y| of(x).total_cmp(&of(y))).unwrap()
    }

    #[test]
    fn decided_pixels_are_right_and_the_cut_of_the_others_is_the_optimum() {
        let mut rng = Rng::new(21);
        let (mut decided, mut open) = (0, 0);
        for round in 0..24 {
            let model = model([0.4, 1.0, 1.7][round % 3], &mut rng);
            let best = optimum(&model);
            let settings = Settings::default();
            let mut context = Context::new(&model, &settings, Instant::now());
            let mut solver = Exact::new(&model).unwrap();
            let mut beliefs = Beliefs::from_energies(model.unary(), 2);
            for _ in 0..14 {
                solver.lp.step(&mut context, &mut beliefs);
                context.evaluate(&beliefs.argmax());
                for (label, expected) in solver.decided(&context).into_iter().zip(best.as_slice()) {
                    assert!(label.is_none_or(|l| l == *expected));
                    decided += usize::from(label.is_some());
                    open += usize::from(label.is_none());
                }
                assert_eq!(solver.finish(&mut context), Some(best.clone()));
            }
        }
        assert!(decided > 300 && open > 300, "{decided} and {open}");
    }

    #[test]
    fn the_optimum_is_proposed_and_ends_the_run() {
        let model = model(1.0, &mut Rng::new(4));
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let mut solver = Exact::new(&model).unwrap();
        let mut beliefs = Beliefs::from_energies(model.unary(), 2);
        context.evaluate(&beliefs.argmax());
        for taken in 1..=LOOK_EVERY {
            let step = solver.step(&mut context, &mut beliefs);
            if taken < LOOK_EVERY {
                let gap = context.lowest_energy() - step.lower_bound.unwrap();
                assert!(step.residual == gap && gap > 0.0 && solver.proposal().is_none());
            } else {
                let best = optimum(&model);
                let energy = energy::of_labeling(&model, &best).unwrap().total();
                assert!((step.objective - energy).abs() < 1e-9 * model.scale());
                assert_eq!((step.lower_bound, step.residual), (Some(step.objective), 0.0));
                assert_eq!((solver.proposal(), beliefs.argmax()), (Some(best.clone()), best));
            }
        }
    }
}
