//! From the convex end to the tight end of the family `E_c`, one filter call a step.
//!
//! Each step is the difference-of-convex step of the current member (see `dc_neg.rs`), taken from a point
//! moved on by momentum, while c falls from the typical row sum, where the problem is convex, to a small share
//! of it; `dc-neg` finishes. What matters happens near the convex end: where labels compete there, they
//! settle by consensus of the neighbourhood instead of by the noise of single pixels. So the schedule spends
//! most of its steps there and walks the rest of the way fast. Under a time limit that is too short for all steps it
//! takes longer ones.

use std::time::Instant;

use super::dc_neg::{DcNeg, Origin, projected_step, require_negative};
use super::info::MethodInfo;
use super::options::{MethodOption, Options};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::model::Model;
use crate::reductions::active_labels::{ActiveLabels, RestrictLabels, StepInput};
use crate::relaxation::quadratic::{Quadratic, smallest_curvature};
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce;

/// Largest c of a schedule, as a fraction of the median row sum, and most steps.
const MAX_FRACTION: f32 = 10.0;
const MAX_STEPS: usize = 1_000_000;

/// The row of `graduated`.
pub(super) const ROW: MethodInfo = MethodInfo {
    options: &[
        MethodOption::number("from", "first c / median row sum", MAX_FRACTION, Schedule::DEFAULT.from),
        MethodOption::number(
            "turn",
            "c / median row sum where it begins to fall fast",
            MAX_FRACTION,
            Schedule::DEFAULT.turn,
        ),
        MethodOption::number("to", "last c / median row sum", MAX_FRACTION, Schedule::DEFAULT.to),
        MethodOption::count("steps", "steps of the schedule", (0, MAX_STEPS), Schedule::DEFAULT.steps),
    ],
    // The steps of the schedule, then those of `dc-neg`.
    iterations: |options| options.count("steps") + 100,
    tolerance: 1e-7,
    bytes: |problem| problem.arrays(5),
    used_percent: 100,
    fits: |model, _| require_negative(model, "graduated"),
    ..MethodInfo::new(
        "graduated",
        "from the convex QP to the plain one by a schedule, finished by dc-neg",
        "",
        |model, options| Ok(Box::new(Graduated::new(model, Schedule::of(options))?)),
    )
};

/// How c falls: slowly from `from` to `turn`, then fast to `to`, geometrically in both parts.
///
/// c is one number for all pixels: following each pixel's own row sum was measurably worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Schedule {
    /// First c, as a share of the median row sum.
    pub from: f32,
    /// c where the fall becomes fast, as a share of the median row sum.
    pub turn: f32,
    /// Last c, as a share of the median row sum.
    pub to: f32,
    /// Steps in all.
    pub steps: usize,
}

impl Schedule {
    const DEFAULT: Self = Self { from: 1.0, turn: 0.9, to: 0.02, steps: 80 };

    fn of(options: &Options) -> Self {
        let number = |name: &str| options.number(name);
        Self { from: number("from"), turn: number("turn"), to: number("to"), steps: options.count("steps") }
    }

    /// Share of the steps that go into the slow part.
    const SLOW: f32 = 0.6;

    /// The step where the fast part begins.
    fn slow(&self) -> usize {
        (Self::SLOW * self.steps as f32) as usize
    }

    /// c at the given step, as a share of the median row sum.
    fn share(&self, step: f32) -> f32 {
        let fall = |from: f32, to: f32, progress: f32| from * (to / from).powf(progress.min(1.0));
        let slow = self.slow();
        if step < slow as f32 {
            fall(self.from, self.turn, step / slow as f32)
        } else {
            fall(self.turn, self.to, (step - slow as f32) / ((self.steps - slow).max(2) - 1) as f32)
        }
    }

    /// How far to go on from a place in the schedule when so many steps fit into the time that is left: one
    /// step, or more when the end would not be reached.
    fn stride(&self, at: f32, affordable: f32) -> f32 {
        // The slow part decides what the labels will be, so a delay is left to the fast part to make up, and at first steps
        // are still becoming faster, as labels are given up.
        let (slow, steps) = (self.slow() as f32, self.steps as f32);
        let patience = match at {
            at if at < 0.25 * slow => 4.0,
            at if at < 0.5 * slow => 2.0,
            at if at < slow => 1.5,
            at if at < 0.85 * steps => 1.15,
            _ => 1.0,
        };
        let needed = (self.steps as f32 - at) / affordable.max(1.0);
        if needed > patience { needed } else { 1.0 }
    }
}

/// Steps' worth of time to keep for the finish.
const FINISH: f32 = 2.0;

/// Seconds a step, with more weight on the last ones: steps become faster as labels are given up.
struct Pace {
    last: Instant,
    seconds: Option<f32>,
}

impl Pace {
    /// Weight of a new step.
    const NEW: f32 = 0.2;

    fn new() -> Self {
        Self { last: Instant::now(), seconds: None }
    }

    /// A step has ended: seconds that the next ones will take.
    fn stepped(&mut self) -> f32 {
        let took = self.last.elapsed().as_secs_f32();
        self.last = Instant::now();
        let before = self.seconds.unwrap_or(took);
        let now = before + Self::NEW * (took - before);
        self.seconds = Some(now);
        now
    }
}

/// Share of the last change that is added once more, once the run is under way.
const MOMENTUM: f32 = 0.85;

/// The method `graduated`.
pub(super) struct Graduated<'m> {
    descent: ActiveLabels<Descent<'m>>,
    pace: Pace,
    finish: ActiveLabels<DcNeg<'m>>,
}

impl<'m> Graduated<'m> {
    pub fn new(model: &'m Model, schedule: Schedule) -> Result<Self> {
        require_negative(model, "graduated")?;
        let descent = ActiveLabels::new(Descent::new(model, schedule));
        Ok(Self { descent, pace: Pace::new(), finish: DcNeg::new(model)? })
    }
}

impl Solver for Graduated<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        if self.descent.inner().is_over() {
            return self.finish.step(context, beliefs);
        }
        if !self.descent.inner().has_started() {
            self.pace = Pace::new();
        }
        let step = self.descent.step(context, beliefs);
        let descent = self.descent.inner();
        let stride = match context.time_left() {
            None => 1.0,
            Some(left) => {
                let step = self.pace.stepped();
                descent.schedule.stride(descent.at, left.as_secs_f32() / step.max(1e-9) - FINISH)
            }
        };
        descent.advance(stride);
        if descent.is_over() {
            // The finish has buffers of its own.
            self.descent = ActiveLabels::new(descent.without_buffers());
        }
        step
    }
}

/// The steps of the schedule.
struct Descent<'m> {
    quadratic: Quadratic<'m>,
    schedule: Schedule,
    median_row_sum: f32,
    taken: usize,
    /// Position in the schedule: the number of steps taken, unless time is short.
    at: f32,
    filtered: Vec<f32>,
    earlier: Vec<f32>,
    earlier_filtered: Vec<f32>,
    next: Vec<f32>,
}

impl<'m> Descent<'m> {
    fn new(model: &'m Model, schedule: Schedule) -> Self {
        Self {
            quadratic: Quadratic::new(model),
            schedule,
            median_row_sum: reduce::quantile(model.pairwise().row_sums(), 0.5).unwrap_or(0.0),
            taken: 0,
            at: 0.0,
            filtered: Vec::new(),
            earlier: Vec::new(),
            earlier_filtered: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Whether the end of the schedule has been reached.
    fn is_over(&self) -> bool {
        self.at >= self.schedule.steps as f32
    }

    fn advance(&mut self, stride: f32) {
        self.taken += 1;
        self.at += stride;
    }

    /// The same position in the schedule, with nothing allocated.
    fn without_buffers(&self) -> Self {
        Self {
            quadratic: self.quadratic.clone(),
            filtered: Vec::new(),
            earlier: Vec::new(),
            earlier_filtered: Vec::new(),
            next: Vec::new(),
            ..*self
        }
    }
}

impl<'m> RestrictLabels<'m> for Descent<'m> {
    fn quadratic(&self) -> Quadratic<'m> {
        self.quadratic.clone()
    }

    fn start(&mut self, _context: &mut Context, y: &[f32]) {
        let zeros = vec![0.0; y.len()];
        (self.filtered, self.earlier_filtered, self.next) = (zeros.clone(), zeros.clone(), zeros.clone());
        self.earlier = zeros;
    }

    fn has_started(&self) -> bool {
        !self.filtered.is_empty()
    }

    fn earlier(&self) -> Option<&[f32]> {
        Some(&self.earlier)
    }

    fn release_buffers(&mut self) {
        (self.filtered, self.next) = Default::default();
    }

    fn remap_labels(&mut self, convert: &dyn Fn(&[f32]) -> Vec<f32>, _quadratic: &Quadratic, y: &[f32]) {
        self.earlier = convert(&self.earlier);
        self.earlier_filtered = convert(&self.earlier_filtered);
        self.filtered = vec![0.0; y.len()];
        self.next = vec![0.0; y.len()];
    }

    fn try_step(&mut self, context: &mut Context, input: StepInput, y: &mut Vec<f32>) -> Option<Step> {
        let StepInput { quadratic, least_inactive } = input;
        let model = context.model();
        context.filter_rows(y, quadratic.labels(), &mut self.filtered);
        let diagonal = model.pairwise().diagonal();
        let objective = quadratic.value(y, &self.filtered, diagonal);

        let c = self.schedule.share(self.at) * self.median_row_sum;
        let started = self.taken > 0;
        let origin = Origin {
            y,
            filtered: &self.filtered,
            earlier: started.then_some((&self.earlier[..], &self.earlier_filtered[..])),
            share: MOMENTUM.min(self.taken as f32 / (self.taken + 3) as f32),
            least_inactive,
        };
        let floor = smallest_curvature(model);
        if !projected_step(quadratic, floor, origin, |a| c.max(diagonal[a]), 1.0, &mut self.next) {
            return None;
        }
        std::mem::swap(y, &mut self.next);
        std::mem::swap(&mut self.earlier, &mut self.next);
        std::mem::swap(&mut self.earlier_filtered, &mut self.filtered);
        Some(Step { objective, lower_bound: None, residual: f64::INFINITY })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn c_falls_from_first_to_last_without_a_jump() {
        for steps in [1, 2, 3, 10, 80] {
            let schedule = Schedule { steps, ..Schedule::DEFAULT };
            let shares: Vec<f32> = (0..steps).map(|k| schedule.share(k as f32)).collect();
            assert!(shares.windows(2).all(|s| s[1] <= s[0]), "{shares:?}");
            assert!(shares.iter().all(|s| (schedule.to * 0.999..=schedule.from).contains(s)), "{shares:?}");
            if steps >= 10 {
                assert_eq!(shares[0], schedule.from);
                assert!((shares[steps - 1] - schedule.to).abs() < 1e-3);
            }
        }
    }

    #[test]
    fn the_schedule_ends_in_time() {
        let schedule = Schedule::DEFAULT;
        for affordable in [1usize, 2, 7, 30, 70, 79, 80, 200] {
            let (mut at, mut taken) = (0.0, 0);
            while at < schedule.steps as f32 {
                taken += 1;
                at += schedule.stride(at, affordable as f32 - taken as f32);
            }
            assert!(taken <= affordable.max(2) + 1 && taken <= 80, "{taken} of {affordable}");
            // Nothing is skipped without need.
            assert!(taken + 2 >= affordable.min(80), "{taken} of {affordable}");
        }
    }

    #[test]
    fn only_delays_that_the_later_parts_cannot_make_up_are_made_up_at_once() {
        let schedule = Schedule::DEFAULT;
        let (slow, steps) = (schedule.slow() as f32, schedule.steps as f32);
        // From these places on the schedule hurries if so many times the steps that fit into the time are left.
        for (from, needed) in [
            (0.0, 4.5),
            (0.25 * slow, 3.0),
            (0.5 * slow, 1.8),
            (slow, 1.3),
            (0.85 * steps, 1.1),
            (steps, 0.9),
        ] {
            for k in 0..8 * schedule.steps {
                let at = k as f32 / 8.0;
                let affordable = (steps - at) / needed;
                // With less than a step's time there is no choice.
                if affordable < 1.0 {
                    continue;
                }
                let want = if at >= from { needed } else { 1.0 };
                let got = schedule.stride(at, affordable);
                assert!((got - want).abs() < 1e-3, "at {at} with {needed} times too many: {got}");
            }
        }
    }

    #[test]
    fn the_pace_follows_the_last_steps() {
        let ago = |seconds: u64| Instant::now().checked_sub(Duration::from_secs(seconds));
        // Clocks may be younger than that.
        let (Some(slower), Some(faster)) = (ago(40), ago(10)) else { return };
        let next = |last: Instant, seconds: Option<f32>| {
            let mut pace = Pace { last, seconds };
            let told = pace.stepped();
            assert_eq!(pace.seconds, Some(told));
            told
        };
        // A fifth of the way from what steps took before to what this one took; the clock runs on a little.
        for (last, before, want) in [(slower, 20.0, 24.0), (faster, 20.0, 18.0)] {
            let told = next(last, Some(before));
            assert!((want - 0.01..want + 1.0).contains(&told), "{told} against {want}");
        }
        assert!((40.0..45.0).contains(&next(slower, None)), "nothing is known before the first");
    }
}
