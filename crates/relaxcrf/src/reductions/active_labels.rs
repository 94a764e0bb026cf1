//! Labels that some pixel believes in. Of many labels a picture holds few, and projections make the beliefs in all
//! others exactly zero: K of them is zero too and need not be computed, and their gradients differ by their own energies
//! only, so that one number for each pixel tells whether any of them would come back.

use rayon::prelude::*;

use crate::beliefs::Beliefs;
use crate::model::Model;
use crate::relaxation::quadratic::Quadratic;
use crate::rows::gather::{gather, held_labels};
use crate::solver::{Context, Step};
use relaxcrf_filter::reduce::{row_max, rows_per_chunk};

/// A method whose steps can be taken with rows of the labels that are held alone.
pub(crate) trait OnHeldLabels<'m> {
    /// Where the method keeps what [`step`] needs.
    fn focus(&mut self) -> &mut Focus;

    /// The energies of all labels.
    fn quadratic(&self) -> Quadratic<'m>;

    /// Beliefs besides the current ones that the next step looks at.
    fn earlier(&self) -> Option<&[f32]> {
        None
    }

    /// Frees the rows whose content is of no use for the next step: [`OnHeldLabels::carry`] makes them again.
    fn let_go(&mut self);

    /// Makes all rows that the method keeps those of other labels: of `quadratic`'s, in which the beliefs are `y`.
    fn carry(&mut self, convert: &dyn Fn(&[f32]) -> Vec<f32>, quadratic: &Quadratic, y: &[f32]);

    /// One step from the beliefs `y`; none if labels that the task does not have would get a share.
    fn attempt(&mut self, context: &mut Context, task: Task, y: &mut Vec<f32>) -> Option<Step>;
}

/// What a step works on.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The energies of the labels that rows have.
    pub quadratic: &'a Quadratic<'a>,
    /// Every pixel's least energy of the labels that rows do not have.
    pub others: Option<&'a [f32]>,
}

/// The labels that are held, once they are few, and the beliefs in them.
#[derive(Default)]
pub(crate) struct Focus {
    narrow: Option<Narrow>,
    y: Vec<f32>,
    patience: Patience,
}

/// A step with as few labels as will do: the same as with all of them, but for rounding.
pub(crate) fn step<'m, S: OnHeldLabels<'m>>(
    solver: &mut S,
    context: &mut Context,
    beliefs: &mut Beliefs,
) -> Step {
    let mut focus = std::mem::take(solver.focus());
    if focus.narrow.is_none() && focus.patience.is_over() {
        let (model, y) = (context.model(), beliefs.as_slice());
        if let Some(rows) = HeldRows::find(model, y, solver.earlier().unwrap_or(y)) {
            solver.let_go();
            focus.y = rows.gathered(y);
            focus.narrow = Narrow::new(model, rows);
            match &focus.narrow {
                Some(n) => solver.carry(&|rows| n.rows.gathered(rows), &Quadratic::new(&n.model), &focus.y),
                None => {
                    focus = Focus { patience: focus.patience.longer(), ..Focus::default() };
                    solver.carry(&<[f32]>::to_vec, &solver.quadratic(), y);
                }
            }
        }
    }
    if let Some(narrow) = focus.narrow.take() {
        let task = Task { quadratic: &Quadratic::new(&narrow.model), others: Some(&narrow.others) };
        if let Some(step) = solver.attempt(context, task, &mut focus.y) {
            narrow.rows.write(&focus.y, beliefs.as_mut_slice());
            focus.narrow = Some(narrow);
            *solver.focus() = focus;
            return step;
        }
        // The smaller problem goes before the larger rows come.
        let Narrow { rows: held, .. } = narrow;
        solver.let_go();
        focus = Focus { patience: focus.patience.longer(), ..Focus::default() };
        solver.carry(&|rows| held.widened(rows), &solver.quadratic(), beliefs.as_slice());
    }
    *solver.focus() = focus;
    let all = Task { quadratic: &solver.quadratic(), others: None };
    let step = solver.attempt(context, all, beliefs.rows_mut());
    step.unwrap_or(Step { objective: f64::INFINITY, lower_bound: None, residual: f64::INFINITY })
}

/// When to look whether few labels are held: at every step, but less and less often after one that came back.
#[derive(Debug, Clone, Copy)]
struct Patience {
    left: usize,
    next: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: 0, next: 4 }
    }
}

impl Patience {
    /// Another step: is it time to look?
    fn is_over(&mut self) -> bool {
        let over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        over
    }

    /// It was too early.
    fn longer(self) -> Self {
        Self { left: self.next, next: 2 * self.next }
    }
}

/// Whether a label without belief, whose gradient is `other`, gets none when `y - step gradient` is projected.
#[inline(always)]
pub(crate) fn stays_out(other: f32, y: &[f32], gradient: &[f32], step: f32, projected: &[f32]) -> bool {
    // The projection took as much off every entry that is left; entries that became zero were at most as large.
    -step * other <= row_max([y, gradient, projected], |[v, g, p]| v - step * g - p)
}

/// A Potts problem with the labels that are held, and what keeps the others out.
struct Narrow {
    model: Model,
    /// Every pixel's least energy of the labels left out.
    others: Vec<f32>,
    rows: HeldRows,
}

impl Narrow {
    /// None where a pixel may have none of these labels.
    fn new(model: &Model, rows: HeldRows) -> Option<Self> {
        let labels = model.labels();
        let left: Vec<usize> = (0..labels).filter(|i| !rows.held.contains(i)).collect();
        let least = |row: &[f32]| left.iter().fold(f32::INFINITY, |m, &i| m.min(row[i]));
        let others = model.linear().par_chunks_exact(labels).map(least).collect();
        Some(Self { model: model.restrict(&rows.held).ok()?, others, rows })
    }
}

/// Between rows of all labels and rows of those that are held.
struct HeldRows {
    held: Vec<usize>,
    labels: usize,
}

impl HeldRows {
    /// If Potts costs tell labels apart, and at most a third of them is held in `y` and `z`: then the smaller problem
    /// needs no more memory than the rows that were let go.
    fn find(model: &Model, y: &[f32], z: &[f32]) -> Option<Self> {
        let labels = model.labels();
        if !model.compatibility().is_potts() {
            return None;
        }
        let mut held = held_labels(y, labels)?;
        held.extend(held_labels(z, labels)?);
        held.sort_unstable();
        held.dedup();
        (!held.is_empty() && 3 * held.len() <= labels).then_some(Self { held, labels })
    }

    /// Rows of the labels held.
    fn gathered(&self, wide: &[f32]) -> Vec<f32> {
        let mut narrow = vec![0.0; wide.len() / self.labels * self.held.len()];
        gather(wide, self.labels, &self.held, &mut narrow);
        narrow
    }

    /// Writes rows of the labels held into rows of all labels, in which all others are zero already.
    fn write(&self, narrow: &[f32], wide: &mut [f32]) {
        let (width, piece) = (self.held.len(), rows_per_chunk(self.labels));
        let pieces = wide.par_chunks_mut(piece * self.labels).zip(narrow.par_chunks(piece * width));
        pieces.for_each(|(wide, narrow)| {
            for (wide, narrow) in wide.chunks_exact_mut(self.labels).zip(narrow.chunks_exact(width)) {
                self.held.iter().zip(narrow).for_each(|(&i, &v)| wide[i] = v);
            }
        });
    }

    /// Rows of all labels.
    fn widened(&self, narrow: &[f32]) -> Vec<f32> {
        let mut wide = vec![0.0; narrow.len() / self.held.len() * self.labels];
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
        fn a_label_stays_out_if_the_projection_gives_it_nothing(
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
            let lower = stays_out(other - 1e-5 / step, &y, &gradient, step, &projected);
            let higher = stays_out(other + 1e-5 / step, &y, &gradient, step, &projected);
            prop_assert!(if share > 0.0 { !lower } else { higher }, "{share}");
        }
    }

    #[test]
    fn a_third_of_the_labels_is_few() {
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
            HeldRows::find(&model(labels, None), &rows(labels, y), &rows(labels, z)).map(|r| r.held)
        };
        assert_eq!(held(9, &[4, 2, 4], &[2, 7, 7]), Some(vec![2, 4, 7]));
        assert_eq!(held(9, &[4, 2, 4], &[0, 7, 7]), None, "four of nine");
        assert_eq!(held(8, &[4, 2, 4], &[2, 7, 7]), None, "three of eight");
        assert_eq!(held(9, &[], &[]), None, "nothing to work with");
        let line = crate::model::Compatibility::linear(9, None).unwrap();
        let y = rows(9, &[4, 4, 4]);
        assert!(HeldRows::find(&model(9, Some(line)), &y, &y).is_none(), "other costs than Potts");
    }

    #[test]
    fn patience_grows() {
        let mut patience = Patience::default();
        assert!(patience.is_over() && patience.is_over(), "at every step at first");
        for wait in [4, 8, 16] {
            patience = patience.longer();
            let steps = (0..100).take_while(|_| !patience.is_over()).count();
            assert_eq!(steps, wait);
        }
    }

    /// More rows than are done at a time.
    #[test]
    fn many_rows_are_gathered_and_widened_again() {
        let (pixels, labels) = (9000, 7);
        let rows = HeldRows { held: vec![1, 4], labels };
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
        crate::rows::gather::spread(&mut spread_out, labels, &rows.held);
        assert!(spread_out == y);
    }
}
