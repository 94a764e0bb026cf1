//! Difference of convex for conditionally negative compatibilities, solved exactly for Potts.
//!
//! The QP energy without self pairs is `E_c` with c_a = K_aa: a convex part, `K_aa |y_a|²` for Potts, minus
//! `y'Ky`. Linearising the latter at the current beliefs leaves one small problem per pixel, whose solution is
//! a projection on the simplex:
//!
//! `y_a ← Proj( (K y)_a / K_aa - φ_a / (2 K_aa) )`
//!
//! One filter call an iteration, and the energy never rises if K is positive semi-definite. A lattice is so
//! only up to a tiny negative part; a step that raised the energy is taken back and shortened.

use std::sync::atomic::{AtomicBool, Ordering};

use super::info::MethodInfo;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::reductions::active_labels::{ActiveLabels, RestrictLabels, StepInput, remains_inactive};
use crate::relaxation::quadratic::{Quadratic, smallest_curvature};
use crate::rows::simplex::project;
use crate::solver::{Context, ROUNDING, Step};
use relaxcrf_filter::reduce::{RowStep, for_row_pairs, row_sum};

/// A step shortened this often is as good as none.
const MOST_RETRIES: usize = 12;

/// The row of `dc-neg`.
pub(super) const ROW: MethodInfo = MethodInfo {
    tolerance: 1e-7,
    bytes: |problem| problem.arrays(3),
    used_percent: 100,
    fits: |model, _| require_negative(model, "dc-neg"),
    ..MethodInfo::new(
        "dc-neg",
        "difference of convex for Potts and other conditionally negative compatibilities",
        "energy of the QP never rises",
        |model, _| Ok(Box::new(DcNeg::new(model)?)),
    )
};

/// The method `dc-neg`.
pub(super) struct DcNeg<'m> {
    quadratic: Quadratic<'m>,
    filtered: Vec<f32>,
    next: Vec<f32>,
    next_filtered: Vec<f32>,
    energy: f64,
    /// 1 for the exact step; larger after a step that failed.
    caution: f32,
}

/// Fails unless the compatibility is conditionally negative.
pub(super) fn require_negative(model: &Model, method: &str) -> Result<()> {
    if model.compatibility().is_conditionally_negative() {
        return Ok(());
    }
    Err(Error::Method {
        method: method.into(),
        why: model.compatibility().why_not_negative(),
        instead: "`auto`, or `qp+dc-gen`, which takes any symmetric costs".into(),
    })
}

impl<'m> DcNeg<'m> {
    /// A solver on the active labels.
    pub fn new(model: &'m Model) -> Result<ActiveLabels<Self>> {
        require_negative(model, "dc-neg")?;
        Ok(ActiveLabels::new(Self {
            quadratic: Quadratic::new(model),
            filtered: Vec::new(),
            next: Vec::new(),
            next_filtered: Vec::new(),
            energy: f64::INFINITY,
            caution: 1.0,
        }))
    }
}

/// Where a step is taken from: beliefs y and K y, possibly moved on along the last change.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub y: &'a [f32],
    pub filtered: &'a [f32],
    /// Earlier beliefs and K of them; `share` of the way from there to here is added once more.
    pub earlier: Option<(&'a [f32], &'a [f32])>,
    pub share: f32,
    /// Every pixel's least energy among the inactive labels.
    pub least_inactive: Option<&'a [f32]>,
}

/// Writes `Proj(y - ∇E_c(y) / (2 κ f c))` for every pixel into `next`: the exact minimiser of the convex part
/// plus the linearised concave part when f is one and the compatibility is Potts.
///
/// Returns `false` if an inactive label would receive belief; the caller then repeats the step with all labels.
pub(super) fn projected_step(
    quadratic: &Quadratic,
    floor: f32,
    origin: Origin,
    c: impl Fn(usize) -> f32 + Sync,
    caution: f32,
    next: &mut [f32],
) -> bool {
    let reactivated = AtomicBool::new(false);
    let step = ProjectedStep { quadratic, origin, c, caution, floor, reactivated: &reactivated };
    for_row_pairs(next, quadratic.labels(), step);
    !reactivated.into_inner()
}

struct ProjectedStep<'a, C> {
    quadratic: &'a Quadratic<'a>,
    origin: Origin<'a>,
    c: C,
    caution: f32,
    floor: f32,
    reactivated: &'a AtomicBool,
}

impl<C: Fn(usize) -> f32 + Sync> RowStep for ProjectedStep<'_, C> {
    #[inline(always)]
    fn row(&self, a: usize, out: &mut [f32], work: &mut [f32]) -> (f64, f64) {
        let (labels, share, c) = (out.len(), self.origin.share, (self.c)(a));
        let row = a * labels..(a + 1) * labels;
        let (mut y, mut filtered) = (&self.origin.y[row.clone()], &self.origin.filtered[row.clone()]);
        let (gradient, rest) = work.split_at_mut(labels);
        if let Some((y0, filtered0)) = self.origin.earlier {
            let (y0, filtered0) = (&y0[row.clone()], &filtered0[row]);
            let (v, rest) = rest.split_at_mut(labels);
            let kv = &mut rest[..labels];
            for i in 0..labels {
                v[i] = y[i] + share * (y[i] - y0[i]);
                kv[i] = filtered[i] + share * (filtered[i] - filtered0[i]);
            }
            (y, filtered) = (v, kv);
        }
        self.quadratic.gradient(a, filtered, y, c, gradient);
        let step = 1.0 / (2.0 * c * self.quadratic.curvature() * self.caution).max(self.floor);
        for i in 0..labels {
            out[i] = y[i] - step * gradient[i];
        }
        project(out);
        if let Some(energies) = self.origin.least_inactive {
            let inactive = energies[a] + 2.0 * row_sum([filtered, y], |[k, v]| k - c * v);
            if !remains_inactive(inactive, y, gradient, step, out) {
                self.reactivated.store(true, Ordering::Relaxed);
            }
        }
        (0.0, 0.0)
    }
}

impl<'m> RestrictLabels<'m> for DcNeg<'m> {
    fn quadratic(&self) -> Quadratic<'m> {
        self.quadratic.clone()
    }

    fn start(&mut self, context: &mut Context, y: &[f32]) {
        self.filtered = vec![0.0; y.len()];
        context.filter(y, &mut self.filtered);
        self.remap_labels(&<[f32]>::to_vec, &self.quadratic(), y);
    }

    fn has_started(&self) -> bool {
        !self.filtered.is_empty()
    }

    fn release_buffers(&mut self) {
        (self.next, self.next_filtered) = Default::default();
    }

    fn remap_labels(&mut self, convert: &dyn Fn(&[f32]) -> Vec<f32>, quadratic: &Quadratic, y: &[f32]) {
        self.filtered = convert(&self.filtered);
        self.next = vec![0.0; y.len()];
        self.next_filtered = vec![0.0; y.len()];
        // Sums of other terms are rounded otherwise.
        self.energy = quadratic.value(y, &self.filtered, quadratic.model().pairwise().diagonal());
    }

    fn try_step(&mut self, context: &mut Context, input: StepInput, y: &mut Vec<f32>) -> Option<Step> {
        let StepInput { quadratic, least_inactive } = input;
        let model = context.model();
        let c = model.pairwise().diagonal();
        for _ in 0..MOST_RETRIES {
            let origin = Origin { y, filtered: &self.filtered, earlier: None, share: 0.0, least_inactive };
            let floor = smallest_curvature(model);
            if !projected_step(quadratic, floor, origin, |a| c[a], self.caution, &mut self.next) {
                return None;
            }
            context.filter_rows(&self.next, quadratic.labels(), &mut self.next_filtered);
            let energy = quadratic.value(&self.next, &self.next_filtered, c);
            if energy <= self.energy {
                let gained = self.energy - energy;
                self.energy = energy;
                std::mem::swap(y, &mut self.next);
                std::mem::swap(&mut self.filtered, &mut self.next_filtered);
                return Some(Step { objective: energy, lower_bound: None, residual: gained });
            }
            self.caution *= 1.5;
            if energy - self.energy <= ROUNDING * model.scale() || context.out_of_time() {
                break;
            }
        }
        Some(Step { objective: self.energy, lower_bound: None, residual: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::beliefs::Beliefs;
    use crate::model::{FilterKind, ModelBuilder, Normalization};
    use crate::solver::{Settings, Solver};
    use relaxcrf_filter::rng::Rng;

    const POINTS: usize = 30;
    const LABELS: usize = 6;

    fn model(rng: &mut Rng) -> Model {
        let mut numbers = |n: usize| (0..n).map(|_| 2.0 * rng.next_f64() as f32).collect::<Vec<_>>();
        ModelBuilder::points(POINTS, LABELS)
            .unary(numbers(POINTS * LABELS))
            .features(numbers(POINTS * 2), 2, 0.5)
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap()
    }

    #[test]
    fn steps_that_raise_the_energy_are_shortened_and_given_up() {
        let model = model(&mut Rng::new(3));
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let mut solver = DcNeg::new(&model).unwrap();
        let mut beliefs = Beliefs::from_energies(model.unary(), LABELS);
        while solver.step(&mut context, &mut beliefs).residual > 0.0 {}
        let (lowest, arrived) = (solver.inner().energy, beliefs.clone());
        let rounding = ROUNDING * model.scale();
        // As if the beliefs had been better by so much: what only rounding explains is tried once.
        for (better, tried) in [(1e-3 * rounding, 1), (3.0 * rounding, MOST_RETRIES), (1e9, MOST_RETRIES)] {
            (solver.inner().energy, solver.inner().caution) = (lowest - better, 1.0);
            let before = context.counts().filter;
            let step = solver.step(&mut context, &mut beliefs);
            assert_eq!((step.objective, step.residual), (lowest - better, 0.0));
            assert_eq!(context.counts().filter - before, tried, "{better} better");
            assert_eq!(solver.inner().caution, (0..tried).fold(1.0, |caution, _| caution * 1.5));
            assert_eq!(beliefs.as_slice(), arrived.as_slice(), "what raised the energy is taken back");
        }
    }

    #[test]
    fn caution_shortens_steps() {
        let mut rng = Rng::new(4);
        let model = model(&mut rng);
        let quadratic = Quadratic::new(&model);
        let y = Beliefs::from_energies(model.unary(), LABELS).into_vec();
        let (filtered, mut next) = (vec![0.1; y.len()], vec![0.0; y.len()]);
        let origin = Origin { y: &y, filtered: &filtered, earlier: None, share: 0.0, least_inactive: None };
        let moved = [1.0, 10.0, 100.0, 1000.0].map(|caution| {
            projected_step(&quadratic, 0.0, origin, |_| 0.5, caution, &mut next);
            y.iter().zip(&next).map(|(y, n)| (y - n).abs()).sum::<f32>()
        });
        assert!(moved[0] > moved[1] && moved[2] > 8.0 * moved[3], "{moved:?}");
        assert!(moved[3] < 0.01 * moved[0]);
    }

    /// Labels that no row has come back if and only if the projection of whole rows gives them a share.
    #[test]
    fn labels_left_out_are_missed_when_they_should_come_back() {
        const HELD: usize = 2;
        let mut rng = Rng::new(5);
        let mut came = [0, 0];
        for round in 0..60 {
            let model = model(&mut rng);
            let narrow = model.restrict(&[0, 1]).unwrap();
            let lead = 0.1 * round as f32;
            let unary = model.unary().chunks_exact(LABELS);
            let unary: Vec<f32> = unary
                .flat_map(|row| (0..LABELS).map(|i| row[i] + if i < HELD { 0.0 } else { lead }))
                .collect();
            let model = model.with_unary(unary).unwrap();
            let others: Vec<f32> = (model.unary().chunks_exact(LABELS))
                .map(|row| row[HELD..].iter().copied().fold(f32::INFINITY, f32::min))
                .collect();
            let (mut wide, mut slim) = ([vec![], vec![]], [vec![], vec![]]);
            for _ in 0..POINTS {
                let (share, k) = (rng.next_f64() as f32, [rng.next_f64() as f32, rng.next_f64() as f32]);
                for (at, pair) in [[share, 1.0 - share], k].into_iter().enumerate() {
                    slim[at].extend(pair);
                    wide[at].extend(pair.into_iter().chain([0.0; LABELS - HELD]));
                }
            }
            let step = |model: &Model, [y, filtered]: &[Vec<f32>; 2], others: Option<&[f32]>| {
                let mut next = vec![0.0; y.len()];
                let origin = Origin { y, filtered, earlier: None, share: 0.0, least_inactive: others };
                let alone = projected_step(&Quadratic::new(model), 0.0, origin, |_| 0.3, 1.0, &mut next);
                (alone, next)
            };
            let (_, next) = step(&model, &wide, None);
            let expected = next.chunks_exact(LABELS).all(|row| row[HELD..].iter().all(|&v| v == 0.0));
            let (found, few) = step(&narrow, &slim, Some(&others));
            assert_eq!(found, expected, "inactive labels more expensive by {lead}");
            came[usize::from(found)] += 1;
            if found {
                for (row, few) in next.chunks_exact(LABELS).zip(few.chunks_exact(HELD)) {
                    assert!(row.iter().zip(few).all(|(v, w)| (v - w).abs() < 1e-5));
                }
            }
        }
        assert!(came.iter().all(|&n| n > 8), "{came:?}");
    }
}
