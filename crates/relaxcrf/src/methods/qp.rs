//! The convex QP relaxation of Ravikumar and Lafferty: `E_c` with c the row sums, minimised over the simplices.
//!
//! Two ways: Frank-Wolfe with the exact step, as in the paper, and a diagonally preconditioned accelerated
//! projected gradient, which is far faster. Both use one filter call an iteration, because K is linear:
//! K of an extrapolated or averaged point is the same combination of stored products.
//!
//! Convexity gives a lower bound at any point v, at no extra cost: the linearisation there, minimised
//! pixel by pixel, is below the relaxation everywhere, and the relaxation agrees with the energy on
//! labellings. This needs a symmetric operator with non-negative entries.

use std::sync::atomic::{AtomicBool, Ordering};

use super::costs_below::OnCostsBelow;
use super::info::MethodInfo;
use super::options::MethodOption;
use crate::beliefs::Beliefs;
use crate::model::Model;
use crate::reductions::active_labels::{ActiveLabels, RestrictLabels, StepInput, remains_inactive};
use crate::relaxation::quadratic::{Quadratic, Share, smallest_curvature};
use crate::rows::simplex::project;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce::{RowStep, for_row_pairs, row_min, row_sum, sum_by_rows};

/// Rounding of sums of `f32` products must not lift a bound above the optimum: this share of the problem's
/// scale is taken off.
pub(super) const BOUND_ALLOWANCE: f64 = 3e-7;

/// The row of `qp`.
pub(super) const ROW: MethodInfo = MethodInfo {
    options: &[MethodOption::flag("fw", "Frank-Wolfe instead of accelerated projected gradient")],
    iterations: |options| if options.flag("fw") { 200 } else { 60 },
    any_kernel_costs: true,
    tolerance: 1e-6,
    bytes: |problem| problem.arrays(4),
    used_percent: 100,
    ..MethodInfo::new(
        "qp",
        "convex QP relaxation, accelerated projected gradient (qp:fw: Frank-Wolfe)",
        "certified lower bound",
        |model, options| {
            let frank_wolfe = options.flag("fw");
            match (frank_wolfe, model.compatibility().is_conditionally_negative()) {
                (false, true) => Ok(Box::new(ActiveLabels::new(Accelerated::new(model)))),
                (true, true) => Ok(Box::new(FrankWolfe::new(model))),
                (false, false) => {
                    OnCostsBelow::boxed(model, |model| Ok(ActiveLabels::new(Accelerated::new(model))))
                }
                (true, false) => OnCostsBelow::boxed(model, |model| Ok(FrankWolfe::new(model))),
            }
        },
    )
};

/// The method `qp`: accelerated projected gradient.
pub(super) struct Accelerated<'m> {
    quadratic: Quadratic<'m>,
    certified: bool,
    /// Beliefs before the last step, K of them, and K of the current ones; empty before the first step.
    previous: Vec<f32>,
    previous_filtered: Vec<f32>,
    filtered: Vec<f32>,
    next: Vec<f32>,
    /// The t of the usual recursion; 1 right after a restart.
    momentum: f64,
    /// Share of the last move that is added once more.
    extrapolation: f32,
    bound: f64,
}

impl<'m> Accelerated<'m> {
    pub fn new(model: &'m Model) -> Self {
        Self {
            quadratic: Quadratic::new(model),
            certified: model.pairwise().is_symmetric(),
            previous: Vec::new(),
            previous_filtered: Vec::new(),
            filtered: Vec::new(),
            next: Vec::new(),
            momentum: 1.0,
            extrapolation: 0.0,
            bound: f64::NEG_INFINITY,
        }
    }
}

impl<'m> RestrictLabels<'m> for Accelerated<'m> {
    fn quadratic(&self) -> Quadratic<'m> {
        self.quadratic.clone()
    }

    fn start(&mut self, context: &mut Context, y: &[f32]) {
        self.filtered = vec![0.0; y.len()];
        context.filter(y, &mut self.filtered);
        self.previous = y.to_vec();
        self.previous_filtered = self.filtered.clone();
        self.next = vec![0.0; y.len()];
    }

    fn has_started(&self) -> bool {
        !self.filtered.is_empty()
    }

    fn earlier(&self) -> Option<&[f32]> {
        Some(&self.previous)
    }

    fn release_buffers(&mut self) {
        self.next = Vec::new();
    }

    fn remap_labels(&mut self, convert: &dyn Fn(&[f32]) -> Vec<f32>, _quadratic: &Quadratic, y: &[f32]) {
        for rows in [&mut self.previous, &mut self.previous_filtered, &mut self.filtered] {
            *rows = convert(rows);
        }
        self.next = vec![0.0; y.len()];
    }

    fn try_step(&mut self, context: &mut Context, input: StepInput, y: &mut Vec<f32>) -> Option<Step> {
        let StepInput { quadratic, least_inactive } = input;
        let model = context.model();
        let c = model.pairwise().row_sums();
        let reactivated = AtomicBool::new(false);
        let forward = Forward {
            quadratic,
            y: [y, &self.previous],
            filtered: [&self.filtered, &self.previous_filtered],
            beta: self.extrapolation,
            c,
            floor: smallest_curvature(model),
            least_inactive,
            reactivated: &reactivated,
        };
        let (bound, uphill) = for_row_pairs(&mut self.next, quadratic.labels(), forward);
        if reactivated.into_inner() {
            return None;
        }

        std::mem::swap(y, &mut self.next);
        std::mem::swap(&mut self.next, &mut self.previous);
        std::mem::swap(&mut self.filtered, &mut self.previous_filtered);
        context.filter_rows(y, quadratic.labels(), &mut self.filtered);
        let objective = quadratic.value(y, &self.filtered, c);

        // The proximal gradient, v - y⁺, against the move: if they point the same way the momentum overshot.
        if uphill > 0.0 {
            (self.momentum, self.extrapolation) = (1.0, 0.0);
        } else {
            let next = 0.5 * (1.0 + (1.0 + 4.0 * self.momentum * self.momentum).sqrt());
            self.extrapolation = ((self.momentum - 1.0) / next) as f32;
            self.momentum = next;
        }
        self.bound = self.bound.max(bound - BOUND_ALLOWANCE * model.scale());
        let lower_bound = self.certified.then_some(self.bound);
        Some(Step { objective, lower_bound, residual: objective - self.bound })
    }
}

/// A projected gradient step from v = y + β (y - y⁻), with the pixel's share of the bound and of the restart test.
struct Forward<'a> {
    quadratic: &'a Quadratic<'a>,
    /// y and y⁻.
    y: [&'a [f32]; 2],
    /// K of them.
    filtered: [&'a [f32]; 2],
    beta: f32,
    c: &'a [f32],
    floor: f32,
    /// Every pixel's least energy among the inactive labels, and whether one of those would receive belief.
    least_inactive: Option<&'a [f32]>,
    reactivated: &'a AtomicBool,
}

impl RowStep for Forward<'_> {
    #[inline(always)]
    fn row(&self, a: usize, out: &mut [f32], work: &mut [f32]) -> (f64, f64) {
        let (labels, beta, c) = (out.len(), self.beta, self.c[a]);
        let row = a * labels..(a + 1) * labels;
        let [y, y0] = self.y.map(|y| &y[row.clone()]);
        let [k, k0] = self.filtered.map(|k| &k[row.clone()]);
        let (v, rest) = work.split_at_mut(labels);
        let (kv, rest) = rest.split_at_mut(labels);
        let gradient = &mut rest[..labels];
        for i in 0..labels {
            v[i] = y[i] + beta * (y[i] - y0[i]);
            kv[i] = k[i] + beta * (k[i] - k0[i]);
        }
        let share = self.quadratic.gradient(a, kv, v, c, gradient);
        let step = 1.0 / (c * self.quadratic.lipschitz()).max(self.floor);
        for i in 0..labels {
            out[i] = v[i] - step * gradient[i];
        }
        let mut lowest = row_min(gradient);
        project(out);
        if let Some(energies) = self.least_inactive {
            // The gradient of the best of them: Potts, no beliefs, nothing filtered.
            let inactive = energies[a] + 2.0 * row_sum([kv, v], |[k, v]| k - c * v);
            lowest = lowest.min(inactive);
            if !remains_inactive(inactive, v, gradient, step, out) {
                self.reactivated.store(true, Ordering::Relaxed);
            }
        }
        let uphill = row_sum([v, out, y], |[v, o, y]| (v - o) * (o - y));
        (bound_of(lowest, &share), f64::from(1.0 / step) * f64::from(uphill))
    }
}

/// A pixel's share of the bound at a point: the value there less the gradient along it, which leaves minus the pairs'
/// share, plus the gradient's lowest entry. Each entry was rounded once as it is, whatever constant the energies have.
#[inline(always)]
fn bound_of(lowest: f32, share: &Share) -> f64 {
    let lowest = f64::from(lowest);
    lowest - 0.5 * f64::from(f32::EPSILON) * lowest.abs() - share.pairs
}

/// The method `qp:fw`: Frank-Wolfe with the closed-form step.
pub(super) struct FrankWolfe<'m> {
    quadratic: Quadratic<'m>,
    certified: bool,
    filtered: Vec<f32>,
    vertex: Vec<f32>,
    vertex_filtered: Vec<f32>,
    bound: f64,
}

impl<'m> FrankWolfe<'m> {
    pub fn new(model: &'m Model) -> Self {
        Self {
            quadratic: Quadratic::new(model),
            certified: model.pairwise().is_symmetric(),
            filtered: Vec::new(),
            vertex: Vec::new(),
            vertex_filtered: Vec::new(),
            bound: f64::NEG_INFINITY,
        }
    }
}

impl Solver for FrankWolfe<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        let (labels, c) = (model.labels(), model.pairwise().row_sums());
        if self.filtered.is_empty() {
            self.filtered = vec![0.0; beliefs.as_slice().len()];
            self.vertex = self.filtered.clone();
            self.vertex_filtered = self.filtered.clone();
            context.filter(beliefs.as_slice(), &mut self.filtered);
        }
        let (quadratic, filtered, y) = (&self.quadratic, &self.filtered, beliefs.as_slice());

        // The vertex that the gradient points to, the bound, and the gap to the linearisation's minimum.
        let (bound, gap) =
            for_row_pairs(&mut self.vertex, labels, |a: usize, out: &mut [f32], work: &mut [f32]| {
                let range = a * labels..(a + 1) * labels;
                let gradient = &mut work[..labels];
                let share =
                    quadratic.gradient(a, &filtered[range.clone()], &y[range.clone()], c[a], gradient);
                let best = (0..labels).fold(0, |b, i| if gradient[i] < gradient[b] { i } else { b });
                out.fill(0.0);
                out[best] = 1.0;
                let along = |&g: &f32| f64::from(g - gradient[best]);
                let gap = gradient.iter().zip(&y[range]).map(|(g, &v)| along(g) * f64::from(v)).sum();
                (bound_of(gradient[best], &share), gap)
            });
        let value = bound + gap;
        self.bound = self.bound.max(bound - BOUND_ALLOWANCE * model.scale());

        context.filter(&self.vertex, &mut self.vertex_filtered);
        let (vertex, vertex_filtered) = (&self.vertex, &self.vertex_filtered);
        let curvature = sum_by_rows(model.pixels(), 3 * labels, |a: usize, work: &mut [f32]| {
            let range = a * labels..(a + 1) * labels;
            let (move_, rest) = work.split_at_mut(labels);
            let (filtered_move, product) = rest.split_at_mut(labels);
            for i in 0..labels {
                let at = range.start + i;
                move_[i] = vertex[at] - y[at];
                filtered_move[i] = vertex_filtered[at] - filtered[at];
            }
            quadratic.product(a, filtered_move, move_, c[a], product);
            product.iter().zip(move_.iter()).map(|(&p, &m)| f64::from(p) * f64::from(m)).sum()
        });
        // Next to a vertex rounding can make the gap negative, and the curvature is next to nothing there.
        let step = if curvature > 0.0 { (gap / (2.0 * curvature)).clamp(0.0, 1.0) } else { 1.0 } as f32;
        let objective = value - f64::from(step) * gap + f64::from(step) * f64::from(step) * curvature;
        blend(beliefs.as_mut_slice(), &self.vertex, step);
        blend(&mut self.filtered, &self.vertex_filtered, step);
        let lower_bound = self.certified.then_some(self.bound);
        Step { objective, lower_bound, residual: gap.max(0.0) }
    }
}

/// `y += step (target - y)`.
pub(super) fn blend(y: &mut [f32], target: &[f32], step: f32) {
    relaxcrf_filter::reduce::for_rows(y, 1, |first, piece| {
        for (v, &t) in piece.iter_mut().zip(&target[first..]) {
            *v += step * (t - *v);
        }
        0.0
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelBuilder;
    use crate::model::FilterKind;
    use relaxcrf_filter::{Direction, Workspace};

    /// A step on the active labels, given the least energy of the inactive ones, equals a step with all labels.
    #[test]
    fn labels_that_nobody_believes_in_count_as_in_full_rows() {
        const POINTS: usize = 12;
        for tempting in [2.0, 0.0, -3.0] {
            let number = |k: usize| ((k * k) as f32 * 0.71).sin().abs();
            let unary = (0..4 * POINTS).map(|k| number(k) + if k % 4 > 1 { tempting } else { 0.0 }).collect();
            let model = ModelBuilder::points(POINTS, 4)
                .unary(unary)
                .features((0..POINTS).map(|a| 0.4 * a as f32).collect(), 1, 0.3)
                .filter(FilterKind::Exact)
                .build()
                .unwrap();
            let narrow = model.restrict(&[0, 1]).unwrap();
            let others: Vec<f32> = model.linear().chunks_exact(4).map(|row| row[2].min(row[3])).collect();
            // Beliefs now and before, and K of them.
            let rows = |labels: usize, salt: usize| -> (Vec<f32>, Vec<f32>) {
                let share = |a: usize| number(7 * a + salt);
                let row = |a: usize| [share(a), 1.0 - share(a), 0.0, 0.0].into_iter().take(labels);
                let y: Vec<f32> = (0..POINTS).flat_map(row).collect();
                let mut filtered = vec![0.0; y.len()];
                let forward = Direction::Forward;
                model.pairwise().apply(forward, &y, labels, &mut filtered, &mut Workspace::new());
                (y, filtered)
            };
            let step = |model: &Model, labels: usize, others: Option<&[f32]>| {
                let quadratic = Quadratic::new(model);
                let [now, before] = [1, 2].map(|salt| rows(labels, salt));
                let reactivated = AtomicBool::new(false);
                let mut out = vec![0.0; POINTS * labels];
                let forward = Forward {
                    quadratic: &quadratic,
                    y: [&now.0, &before.0],
                    filtered: [&now.1, &before.1],
                    beta: 0.2,
                    c: model.pairwise().row_sums(),
                    floor: smallest_curvature(model),
                    least_inactive: others,
                    reactivated: &reactivated,
                };
                let (bound, _) = for_row_pairs(&mut out, labels, forward);
                (out, bound, reactivated.into_inner())
            };
            let (full, bound, _) = step(&model, 4, None);
            let (few, bound_of_few, reactivated) = step(&narrow, 2, Some(&others));
            let tiny = 1e-5 * model.scale();
            assert!((bound - bound_of_few).abs() < tiny, "{bound_of_few} against {bound}");
            assert_eq!(reactivated, full.chunks_exact(4).any(|row| row[2] + row[3] > 0.0), "{tempting}");
            if !reactivated {
                for (full, few) in full.chunks_exact(4).zip(few.chunks_exact(2)) {
                    assert!((full[0] - few[0]).abs() < 1e-5 && (full[1] - few[1]).abs() < 1e-5);
                }
            }
        }
    }
}
