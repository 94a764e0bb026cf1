//! What a method supplies, one step, and what the loop gives it: the model, buffers, counters and settings.

mod context;
mod settings;

pub use self::context::{Context, Counts};
pub use self::settings::{Settings, Status};
use crate::beliefs::Beliefs;
use crate::labeling::Labeling;

/// One iteration of a method. Everything else (stopping, time, the best labelling, the trace) is the loop's.
pub trait Solver {
    /// Improves the beliefs once.
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step;

    /// Whether the last step has written its beliefs. If not, they are written by [`Solver::write_beliefs`].
    fn has_beliefs(&self) -> bool {
        true
    }

    /// Writes the beliefs of a solver that has not done so: called when the stage ends.
    fn write_beliefs(&mut self, _context: &mut Context, _beliefs: &mut Beliefs) {}

    /// A labelling that the last step came across, if it is worth evaluating.
    fn proposal(&mut self) -> Option<Labeling> {
        None
    }

    /// Labellings worth evaluating at the end of the stage besides the most believed labels.
    fn candidates(&mut self, _context: &mut Context, _beliefs: &Beliefs) -> Vec<Labeling> {
        Vec::new()
    }

    /// What has to be said about the lower bounds besides the method's name; empty if there is nothing to say.
    fn bound_remark(&self) -> &'static str {
        ""
    }
}

/// What one iteration achieved.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The method's own objective at the new beliefs; NaN where it is not computed, as by `mfN` on lattices.
    pub objective: f64,
    /// A certified lower bound on the energy of every labelling, if the method has one.
    pub lower_bound: Option<f64>,
    /// What this iteration gained, or what is at most left to gain: compared with the tolerance.
    pub residual: f64,
}

/// A rise of an objective by less than this share of the problem's scale is rounding, not a failed step:
/// the method has converged as far as `f32` lets it.
pub(crate) const ROUNDING: f64 = 1e-8;
