//! A run that makes one update at a time, and repeats them when too much was dropped.

use super::two_labels::TwoLabels;
use super::{GROUP, Most, NEGLIGIBLE, Stage, Updates};
use relaxcrf_filter::fused::{FusedPass, Tables};

/// A run of updates, advanced one update at a time.
///
/// Until [`Run::read`] is called the beliefs exist only in the vertex tables, where the next update filters them.
pub(super) struct Run<'a> {
    problem: Updates<'a>,
    state: State<'a>,
    tables: Tables,
    /// Updates made so far.
    done: usize,
    /// Updates made so far, with those that had to be repeated.
    passes: usize,
}

enum State<'a> {
    Two(TwoLabels<'a>),
    Many(Box<ManyLabels<'a>>),
}

impl<'a> Run<'a> {
    /// Prepares a run of at most `planned` updates; `None` without kernels.
    pub fn new(problem: Updates<'a>, planned: usize, tables: Tables) -> Option<Self> {
        let state = match problem.labels {
            2 => State::Two(TwoLabels::new(&problem)?),
            _ => State::Many(Box::new(ManyLabels::new(&problem, problem.looks(planned))?)),
        };
        Some(Self { problem, state, tables, done: 0, passes: 0 })
    }

    /// Makes one more update. Its beliefs are not written yet.
    pub fn step(&mut self) {
        (self.done, self.passes) = (self.done + 1, self.passes + 1);
        let Self { problem, state, tables, .. } = self;
        // The softmax of an update is taken by the next step, or by `read`: the first step only filters the start.
        match (state, self.done) {
            (State::Two(two), 1) => two.start(problem, tables),
            (State::Two(two), _) => two.advance(tables),
            (State::Many(many), 1) => many.start(problem, tables),
            (State::Many(many), _) => {
                many.advance(problem, tables);
                self.repeat_if_denied();
            }
        }
    }

    /// Writes the beliefs after the last update; there must have been one.
    pub fn read(&mut self, q: &mut [f32]) {
        let Self { problem, state, tables, .. } = self;
        match state {
            State::Two(two) => two.read(tables, q),
            State::Many(many) => {
                many.read(problem, tables, q);
                if self.repeat_if_denied() {
                    self.read(q);
                }
            }
        }
    }

    /// The vertex tables, for another run.
    pub fn into_tables(self) -> Tables {
        self.tables
    }

    /// Updates made so far, with those that had to be repeated.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Repeats all updates with all labels if a dropped label may have been denied too large a message.
    fn repeat_if_denied(&mut self) -> bool {
        let Self { problem, state, tables, done, passes } = self;
        match state {
            State::Many(many) if many.denied.0 > NEGLIGIBLE => {
                many.keep_all();
                many.start(problem, tables);
                (1..*done).for_each(|_| many.advance(problem, tables));
                *passes += *done;
                true
            }
            _ => false,
        }
    }
}

/// Updates of three labels or more.
pub(super) struct ManyLabels<'a> {
    /// With all labels.
    all: Stage<'a>,
    /// With those that are left, once labels have been dropped.
    reduced: Option<Stage<'a>>,
    /// How often it is still looked for labels to drop.
    looks: usize,
    /// The largest message that a dropped label may have been denied.
    pub denied: Most,
}

impl<'a> ManyLabels<'a> {
    pub fn new(problem: &Updates<'a>, looks: usize) -> Option<Self> {
        let sweep = FusedPass::new(problem.terms.clone(), problem.labels)?;
        let all = Stage { sweep, kept: (0..problem.labels).collect(), rest: None };
        Some(Self { all, reduced: None, looks, denied: Most(0.0) })
    }

    /// Drops no labels from now on; the updates have to be made anew.
    fn keep_all(&mut self) {
        (self.reduced, self.looks, self.denied) = (None, 0, Most(0.0));
    }

    /// Puts `softmax(-φ)` into the tables.
    pub fn start(&self, problem: &Updates, tables: &mut Tables) {
        self.all.sweep.fill(tables, |points| {
            points.rows.fill(0.0);
            self.all.update(problem, points);
        });
    }

    /// Replaces the beliefs in the tables by those of the next update.
    pub fn advance(&mut self, problem: &Updates<'a>, tables: &mut Tables) {
        let stage = self.reduced.as_ref().unwrap_or(&self.all);
        self.looks = if stage.lanes() > GROUP { self.looks } else { 0 };
        let next = if self.looks > 0 { stage.without_negligible(problem, tables) } else { None };
        self.looks = self.looks.saturating_sub(1);
        self.denied += match &next {
            Some(next) => stage.change(problem, next, tables),
            None => stage.sweep.step_active_blocks(tables, |points| stage.update_and_settle(problem, points)),
        };
        if next.is_some() {
            self.reduced = next;
        }
    }

    /// Writes the beliefs of the next update.
    pub fn read(&mut self, problem: &Updates, tables: &mut Tables, q: &mut [f32]) {
        let stage = self.reduced.as_ref().unwrap_or(&self.all);
        self.denied += stage.finish(problem, &self.all, tables, q);
    }
}
