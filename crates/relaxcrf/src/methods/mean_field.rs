//! Mean field: `y ← softmax(-φ - 2 μ K y)`, all pixels at once.
//!
//! The factor 2 belongs to an energy that counts every pair from both ends. Self pairs stay in K: with a
//! positive semi-definite K and Potts (or any conditionally negative) compatibilities the update then
//! minimises a convex upper bound of the free energy
//!
//! `F(y) = Σ y log y + <φ, y> + Σ_ab K_ab y_a' μ y_b`,
//!
//! so F cannot rise. For other models the update is damped in the log domain until it does not.

use super::info::{Answer, MethodInfo};
use super::options::MethodOption;
use super::relay::{Relay, Sums};
use super::updates::FromStart;
use crate::beliefs::Beliefs;
use crate::model::{FilterKind, Model};
use crate::rows;
use crate::solver::{Context, ROUNDING, Solver, Step};
use relaxcrf_filter::fused::Block;
use relaxcrf_filter::reduce::{row_sum, sum_by_rows};
use relaxcrf_filter::simd::keep_rows;

/// A failed update is repeated with half the step; below this the beliefs are as good as stationary.
const SMALLEST_STEP: f32 = 1.0 / 1024.0;

/// Most updates of the method `mfN`.
const MAX_UPDATES: usize = 10_000;

/// The row of `mf`.
pub(super) const TO_CONVERGENCE: MethodInfo = MethodInfo {
    iterations: |_| 200,
    any_kernel_costs: true,
    tolerance: 1e-7,
    answer: Answer::Beliefs,
    needs_row_sums: false,
    bytes: |problem| problem.arrays(2) + problem.fused_table_bytes(),
    used_percent: 100,
    ..MethodInfo::new(
        "mf",
        "mean field to convergence",
        "free energy never rises (symmetric operators)",
        |model, _| Ok(Box::new(MeanField::monotone(model))),
    )
};

/// The row of `mfN`.
pub(super) const UPDATES: MethodInfo = MethodInfo {
    options: &[MethodOption::count("updates", "number of updates", (1, MAX_UPDATES), 5)],
    name_prefix: Some("mf"),
    iterations: |options| options.count("updates"),
    any_kernel_costs: true,
    // Every update is made, whatever it changes.
    tolerance: -1.0,
    answer: Answer::Beliefs,
    preferred_filter: FilterKind::LatticeClassic,
    needs_row_sums: false,
    bytes: |problem| problem.arrays(1) + problem.fused_table_bytes() + problem.skipped_block_bytes(),
    used_percent: 100,
    solver_from_start: |model, iterations| Some(Box::new(FromStart::new(model, iterations)?)),
    ..MethodInfo::new(
        "mf5",
        "five parallel mean-field updates (any number works: mf10)",
        "equals the common code",
        |model, _| Ok(Box::new(MeanField::plain(model))),
    )
};

/// The methods `mf` and `mf5`.
///
/// One pass over the pixels does an update and, since it has K y of the old beliefs at hand, finds their free energy
/// as well. So the guarded method is one update ahead: what it returns has been checked, what it will return next is
/// already made.
pub(super) struct MeanField<'m> {
    /// Whether an update that raises the free energy is taken back.
    guarded: bool,
    /// K of the beliefs, or of `ahead` when there is something there.
    relay: Relay<'m>,
    /// The update of the current beliefs, not yet checked; empty when there is none.
    ahead: Vec<f32>,
    /// Where the next update goes.
    spare: Vec<f32>,
    /// `Σ y (log y + φ)` of the beliefs that the relay holds.
    own: f64,
    /// Free energy of the current beliefs.
    free_energy: Option<f64>,
    /// Share of the way to the full update, in the log domain.
    step: f32,
}

impl<'m> MeanField<'m> {
    /// With a free energy that never rises.
    pub fn monotone(model: &'m Model) -> Self {
        Self { guarded: true, ..Self::plain(model) }
    }

    /// Plain updates, one filter call each.
    pub fn plain(model: &'m Model) -> Self {
        Self {
            guarded: false,
            relay: Relay::new(model),
            ahead: Vec::new(),
            spare: Vec::new(),
            own: 0.0,
            free_energy: None,
            step: 1.0,
        }
    }

    /// Updates `y`, K of which is in the relay, into `next`, and returns the free energy of `y`.
    fn update(&mut self, context: &mut Context, y: &[f32], next: &mut [f32]) -> f64 {
        let (model, step) = (context.model(), self.step);
        let sums =
            self.relay.step(context, y, next, |points, next| update_points(model, points, y, step, next));
        let free_energy = self.own + sums.pairwise;
        self.own = sums.own;
        free_energy
    }

    /// Puts the current beliefs into the relay.
    fn start(&mut self, context: &mut Context, beliefs: &Beliefs) {
        self.relay.start(beliefs.as_slice());
        self.own = own_part(context.model(), beliefs.as_slice());
    }
}

/// New beliefs of some pixels, in their rows and in `next`; their own part of the free energy, and the pairwise part
/// of the old beliefs `y`.
fn update_points(model: &Model, points: Block, y: &[f32], step: f32, next: &mut [f32]) -> Sums {
    let (labels, stride) = (model.labels(), points.stride);
    let range = points.first * labels..(points.first + points.count) * labels;
    let (linear, old) = (&model.linear()[range.clone()], &y[range]);
    let rows = &mut points.rows[..points.count * stride];
    let mut pairwise = 0.0f64;
    if model.compatibility().is_potts() && !model.has_kernel_costs() && step == 1.0 {
        // The sum of the row is the same for all labels: softmax does not see it.
        pairwise += rows::potts_value(rows, stride, labels, old);
        let own = rows::softmax_rows_with_value(rows, stride, labels, 2.0, Some(linear));
        keep_rows(rows, stride, labels, next);
        return Sums { own, pairwise };
    }
    let given = linear.chunks_exact(labels).zip(old.chunks_exact(labels));
    // `next` serves as work space before it is written.
    for ((row, next), (linear, old)) in
        rows.chunks_exact_mut(stride).zip(next.chunks_exact_mut(labels)).zip(given)
    {
        model.messages_of(&row[..labels], next);
        pairwise += f64::from(row_sum([old, &next[..labels]], |[y, k]| y * k));
        for (i, v) in row[..labels].iter_mut().enumerate() {
            let full = -linear[i] - 2.0 * next[i];
            // log of an exact zero: far below the cut of the softmax, but finite.
            let logit = if step == 1.0 { full } else { (1.0 - step) * old[i].max(1e-38).ln() + step * full };
            // The softmax takes the energies off again.
            *v = logit + linear[i];
        }
    }
    let own = rows::softmax_rows_with_value(rows, stride, labels, 1.0, Some(linear));
    keep_rows(rows, stride, labels, next);
    Sums { own, pairwise }
}

/// `Σ y (log y + φ)`.
fn own_part(model: &Model, y: &[f32]) -> f64 {
    let labels = model.labels();
    sum_by_rows(model.pixels(), labels, |a: usize, _: &mut [f32]| {
        let (y, linear) = (&y[a * labels..][..labels], &model.linear()[a * labels..][..labels]);
        f64::from(row_sum([y, linear], |[y, e]| if y > 0.0 { y * (y.ln() + e) } else { 0.0 }))
    })
}

impl Solver for MeanField<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        let mut spare = std::mem::take(&mut self.spare);
        spare.resize(beliefs.as_slice().len(), 0.0);
        if !self.guarded {
            if self.free_energy.is_none() {
                self.start(context, beliefs);
            }
            let objective = self.update(context, beliefs.as_slice(), &mut spare);
            self.free_energy = Some(objective);
            beliefs.swap(&mut spare);
            self.spare = spare;
            return Step { objective, lower_bound: None, residual: f64::INFINITY };
        }

        let outcome = loop {
            if self.ahead.is_empty() {
                self.start(context, beliefs);
                let mut ahead = vec![0.0; spare.len()];
                let free_energy = self.update(context, beliefs.as_slice(), &mut ahead);
                self.free_energy.get_or_insert(free_energy);
                self.ahead = ahead;
            }
            let old = self.free_energy.unwrap_or(f64::INFINITY);
            let ahead = std::mem::take(&mut self.ahead);
            let new = self.update(context, &ahead, &mut spare);
            if new <= old {
                self.free_energy = Some(new);
                self.ahead = spare;
                spare = ahead;
                beliefs.swap(&mut spare);
                break Step { objective: new, lower_bound: None, residual: old - new };
            }
            // Back to the beliefs: `ahead` stays empty, so the next round starts from them.
            self.step *= 0.5;
            let rounding = new - old <= ROUNDING * model.scale();
            if rounding || self.step < SMALLEST_STEP || context.out_of_time() {
                break Step { objective: old, lower_bound: None, residual: 0.0 };
            }
        };
        self.spare = spare;
        outcome
    }
}
