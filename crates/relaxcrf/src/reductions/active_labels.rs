//! Restricts a solver to the active labels, those with nonzero belief at some pixel.
//!
//! After a simplex projection most labels are zero everywhere, so their products with K are zero too. One number per
//! pixel, the least energy among the inactive labels, is enough to detect that one of them must be reactivated: their
//! gradients differ by their own energies only. A step that finds this leaves the beliefs as they are, and is repeated
//! with all labels.
//!
//! This argument needs exact zeros. Mean field has none: its softmax gives every label some belief, and what an inactive
//! label would have received is bounded instead (`methods/updates.rs`).

use rayon::prelude::*;

use crate::beliefs::Beliefs;
use crate::model::Model;
use crate::relaxation::quadratic::Quadratic;
use crate::rows::gather::{active_labels, gather};
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce::{row_max, rows_per_chunk};

/// A method whose steps can be taken on rows of the active labels alone.
pub(crate) trait RestrictLabels<'m> {
    /// The energies of all labels.
    fn quadratic(&self) -> Quadratic<'m>;

    /// Allocates the rows before the first step, and fills them at the beliefs `y`.
    fn start(&mut self, context: &mut Context, y: &[f32]);

    /// Whether [`RestrictLabels::start`] has been called.
    fn has_started(&self) -> bool;

    /// Earlier beliefs that the next step uses besides the current ones.
    fn earlier(&self) -> Option<&[f32]> {
        None
    }

    /// Frees the rows whose content the next step does not need: [`RestrictLabels::remap_labels`] allocates them again.
    fn release_buffers(&mut self);

    /// Converts all rows to other labels, those of `quadratic`, whose beliefs are `y`.
    fn remap_labels(&mut self, convert: &dyn Fn(&[f32]) -> Vec<f32>, quadratic: &Quadratic, y: &[f32]);

    /// Takes one step from the beliefs `y`; `None`, with `y` as it was, if an inactive label would receive belief.
    fn try_step(&mut self, context: &mut Context, input: StepInput, y: &mut Vec<f32>) -> Option<Step>;
}

/// The labels that a step works on.
#[derive(Clone, Copy)]
pub(crate) struct StepInput<'a> {
    /// The energies of the labels that rows have.
    pub quadratic: &'a Quadratic<'a>,
    /// Every pixel's least energy among the inactive labels, if there are any.
    pub least_inactive: Option<&'a [f32]>,
}

/// A solver that runs `S` on the active labels once they are few. Steps equal those with all labels up to rounding.
pub(crate) struct ActiveLabels<S> {
    inner: S,
    active: ActiveSet,
}

/// The problem of the active labels, once they are few, and the beliefs in them.
#[derive(Default)]
struct ActiveSet {
    problem: Option<ActiveProblem>,
    y: Vec<f32>,
    backoff: Backoff,
}

impl<'m, S: RestrictLabels<'m>> ActiveLabels<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, active: ActiveSet::default() }
    }

    /// The method.
    pub fn inner(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Changes to the active labels if they are few.
    fn restrict(&mut self, model: &Model, y: &[f32]) {
        let Self { inner, active } = self;
        let Some(rows) = ActiveRows::find(model, y, inner.earlier().unwrap_or(y)) else { return };
        inner.release_buffers();
        active.y = rows.gathered(y);
        active.problem = ActiveProblem::new(model, rows);
        match &active.problem {
            Some(problem) => {
                let quadratic = Quadratic::new(&problem.model);
                inner.remap_labels(&|rows| problem.rows.gathered(rows), &quadratic, &active.y);
            }
            None => {
                *active = ActiveSet { backoff: active.backoff.longer(), ..ActiveSet::default() };
                inner.remap_labels(&<[f32]>::to_vec, &inner.quadratic(), y);
            }
        }
    }
}

impl<'m, S: RestrictLabels<'m>> Solver for ActiveLabels<S> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        if !self.inner.has_started() {
            self.inner.start(context, beliefs.as_slice());
        }
        if self.active.problem.is_none() && self.active.backoff.is_over() {
            self.restrict(context.model(), beliefs.as_slice());
        }
        let Self { inner, active } = self;
        if let Some(problem) = active.problem.take() {
            let quadratic = Quadratic::new(&problem.model);
            let input = StepInput { quadratic: &quadratic, least_inactive: Some(&problem.least_inactive) };
            if let Some(step) = inner.try_step(context, input, &mut active.y) {
                problem.rows.write(&active.y, beliefs.as_mut_slice());
                active.problem = Some(problem);
                return step;
            }
            // The smaller problem is freed before the larger rows are allocated.
            let ActiveProblem { rows: active_rows, .. } = problem;
            inner.release_buffers();
            *active = ActiveSet { backoff: active.backoff.longer(), ..ActiveSet::default() };
            inner.remap_labels(&|rows| active_rows.widened(rows), &inner.quadratic(), beliefs.as_slice());
        }
        let input = StepInput { quadratic: &inner.quadratic(), least_inactive: None };
        let step = inner.try_step(context, input, beliefs.rows_mut());
        step.unwrap_or(Step { objective: f64::INFINITY, lower_bound: None, residual: f64::INFINITY })
    }
}

/// Schedules the search for few active labels: every step at first, then exponentially less often after each failure.
#[derive(Debug, Clone, Copy)]
struct Backoff {
    left: usize,
    next: usize,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { left: 0, next: 4 }
    }
}

impl Backoff {
    /// Counts a step, and says whether the search is due.
    fn is_over(&mut self) -> bool {
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }

    /// Twice the wait, after a failure.
    fn longer(self) -> Self {
        Self { left: self.next, next: 2 * self.next }
    }
}

/// Whether an inactive label with the gradient `inactive` receives no belief when `y - step gradient` is projected.
#[inline(always)]
pub(crate) fn remains_inactive(
    inactive: f32,
    y: &[f32],
    gradient: &[f32],
    step: f32,
    projected: &[f32],
) -> bool {
    // The projection took as much off every entry that is left; entries that became zero were at most as large.
    -step * inactive <= row_max([y, gradient, projected], |[v, g, p]| v - step * g - p)
}

/// A Potts problem with the active labels, and what keeps the others inactive.
struct ActiveProblem {
    model: Model,
    /// Every pixel's least energy among the inactive labels.
    least_inactive: Vec<f32>,
    rows: ActiveRows,
}

impl ActiveProblem {
    /// `None` if every active label is forbidden at some pixel.
    fn new(model: &Model, rows: ActiveRows) -> Option<Self> {
        let labels = model.labels();
        let left: Vec<usize> = (0..labels).filter(|i| !rows.active.contains(i)).collect();
        let least = |row: &[f32]| left.iter().fold(f32::INFINITY, |m, &i| m.min(row[i]));
        let least_inactive = model.linear().par_chunks_exact(labels).map(least).collect();
        Some(Self { model: model.restrict(&rows.active).ok()?, least_inactive, rows })
    }
}

/// Gathers rows of the active labels, and scatters them again.
struct ActiveRows {
    active: Vec<usize>,
    labels: usize,
}

impl ActiveRows {
    /// The active labels of the beliefs `y` and `z`, if costs are Potts and at most a third of the labels is active: the
    /// smaller problem then needs no more memory than the rows that are released.
    fn find(model: &Model, y: &[f32], z: &[f32]) -> Option<Self> {
        let labels = model.labels();
        if !model.compatibility().is_potts() || model.has_kernel_costs() {
            return None;
        }
        let mut active = active_labels(y, labels)?;
        active.extend(active_labels(z, labels)?);
        active.sort_unstable();
        active.dedup();
        (!active.is_empty() && 3 * active.len() <= labels).then_some(Self { active, labels })
    }

    /// Rows of the active labels.
    fn gathered(&self, wide: &[f32]) -> Vec<f32> {
        let mut narrow = vec![0.0; wide.len() / self.labels * self.active.len()];
        gather(wide, self.labels, &self.active, &mut narrow);
        narrow
    }

    /// Writes rows of the active labels into rows of all labels, in which all others are zero already.
    fn write(&self, narrow: &[f32], wide: &mut [f32]) {
        let (width, piece) = (self.active.len(), rows_per_chunk(self.labels));
        let pieces = wide.par_chunks_mut(piece * self.labels).zip(narrow.par_chunks(piece * width));
        pieces.for_each(|(wide, narrow)| {
            for (wide, narrow) in wide.chunks_exact_mut(self.labels).zip(narrow.chunks_exact(width)) {
                self.active.iter().zip(narrow).for_each(|(&i, &v)| wide[i] = v);
            }
        });
    }

    /// Rows of all labels.
    fn widened(&self, narrow: &[f32]) -> Vec<f32> {
        let mut wide = vec![0.0; narrow.len() / self.active.len() * self.labels];
        self.write(narrow, &mut wide);
        wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_label_remains_inactive_if_the_projection_gives_it_nothing(
            entries in prop::collection::vec((0.01f32..1.0, -3.0f32..3.0), 1..6),
            other in -3.0f32..3.0,
            step in 0.05f32..1.0,
        ) {
            let total: f32 = entries.iter().map(|e| e.0).sum();
            let y: Vec<f32> = entries.iter().map(|e| e.0 / total).collect();
            let gradient: Vec<f32> = entries.iter().map(|e| e.1).collect();
            let mut projected: Vec<f32> = y.iter().zip(&gradient).map(|(v, g)| v - step * g).collect();
            let mut with_other = projected.clone();
            with_other.push(-step * other);
            crate::rows::simplex::project(&mut projected);
            crate::rows::simplex::project(&mut with_other);
            let share = with_other[entries.len()];
            // Rounding decides where the label is just about to come in.
            prop_assume!(share == 0.0 || share > 1e-5);
            let lower = remains_inactive(other - 1e-5 / step, &y, &gradient, step, &projected);
            let higher = remains_inactive(other + 1e-5 / step, &y, &gradient, step, &projected);
            prop_assert!(if share > 0.0 { !lower } else { higher }, "{share}");
        }
    }

    #[test]
    fn labels_are_restricted_if_at_most_a_third_is_active() {
        let model = |labels: usize, costs: Option<crate::model::Compatibility>| {
            let builder = crate::ModelBuilder::points(3, labels).unary(vec![0.0; 3 * labels]);
            costs.into_iter().fold(builder, crate::ModelBuilder::compatibility).build().unwrap()
        };
        let rows = |labels: usize, held: &[usize]| {
            let mut y = vec![0.0; 3 * labels];
            held.iter().enumerate().for_each(|(a, &i)| y[a * labels + i] = 1.0);
            y
        };
        let held = |labels: usize, y: &[usize], z: &[usize]| {
            ActiveRows::find(&model(labels, None), &rows(labels, y), &rows(labels, z)).map(|r| r.active)
        };
        assert_eq!(held(9, &[4, 2, 4], &[2, 7, 7]), Some(vec![2, 4, 7]));
        assert_eq!(held(9, &[4, 2, 4], &[0, 7, 7]), None, "four of nine");
        assert_eq!(held(8, &[4, 2, 4], &[2, 7, 7]), None, "three of eight");
        assert_eq!(held(9, &[], &[]), None, "nothing to work with");
        let line = crate::model::Compatibility::linear(9, None).unwrap();
        let y = rows(9, &[4, 4, 4]);
        assert!(ActiveRows::find(&model(9, Some(line)), &y, &y).is_none(), "other costs than Potts");
    }

    #[test]
    fn backoff_doubles_after_each_failure() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_over() && backoff.is_over(), "at every step at first");
        for wait in [4, 8, 16] {
            backoff = backoff.longer();
            let steps = (0..100).take_while(|_| !backoff.is_over()).count();
            assert_eq!(steps, wait);
        }
    }

    /// More rows than are done at a time.
    #[test]
    fn rows_of_several_chunks_are_gathered_and_scattered_back() {
        let (pixels, labels) = (9000, 7);
        let rows = ActiveRows { active: vec![1, 4], labels };
        let value = |k: usize| match k % labels {
            1 => 1.0 + (k / labels) as f32,
            4 => -0.5 * (k / labels) as f32,
            _ => 0.0,
        };
        let y: Vec<f32> = (0..pixels * labels).map(value).collect();
        let narrow = rows.gathered(&y);
        assert!(narrow.chunks_exact(2).enumerate().all(|(a, r)| r == [1.0 + a as f32, -0.5 * a as f32]));
        assert!(rows.widened(&narrow) == y);
        let mut spread_out = vec![f32::NAN; y.len()];
        spread_out[..narrow.len()].copy_from_slice(&narrow);
        crate::rows::gather::spread(&mut spread_out, labels, &rows.active);
        assert!(spread_out == y);
    }
}
