//! The row of a method in the table of all methods.

use super::options::{MethodOption, Options};
use crate::error::Result;
use crate::model::{FilterKind, Model, Problem};
use crate::solver::Solver;

/// Which labelling a method or a pipeline gives as its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The most believed labels of the last beliefs.
    Beliefs,
    /// The lowest energy among the methods' own iterates and roundings.
    LowestOwn,
    /// The lowest energy of all labellings seen.
    BestSeen,
}

/// Everything about a method that does not depend on a model: its name, what it promises, how it is built.
///
/// Each method's file has one, and [`METHODS`](super::METHODS) lists them.
#[derive(Debug)]
pub struct MethodInfo {
    /// Name on the command line and in Python.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it guarantees.
    pub promise: &'static str,
    /// The options that it has.
    pub options: &'static [MethodOption],
    /// For a name with a number in it, such as `mf5`: the text before the number. The number is the first option.
    pub(super) name_prefix: Option<&'static str>,
    /// Iterations after which the loop gives up unless told otherwise.
    pub(super) iterations: fn(&Options) -> usize,
    /// Fraction of the model's scale below which an iteration counts as converged, unless told otherwise.
    pub(super) tolerance: f64,
    /// Which labelling a chain that ends with this method gives.
    pub(super) answer: Answer,
    /// The filter that suits the method alone.
    pub(super) preferred_filter: FilterKind,
    /// Whether it uses the row sums and the diagonal of K.
    pub(super) needs_row_sums: bool,
    /// Whether it takes kernels with different label costs.
    pub(super) any_kernel_costs: bool,
    /// Bytes that it allocates besides the beliefs and the evaluation of labellings, at most.
    pub(super) bytes: fn(&Problem) -> u64,
    /// Percent of them that a run has been seen to use.
    pub(super) used_percent: u64,
    /// Whether the method is valid for a model; if not, why and what to use instead.
    pub(super) fits: fn(&Model, &Options) -> Result<()>,
    /// A solver for a model that fits.
    pub(super) solver: for<'m> fn(&'m Model, &Options) -> Result<Box<dyn Solver + 'm>>,
    /// A faster solver for stages of at most so many iterations that begin with `softmax(-unary)`, if there is one.
    pub(super) solver_from_start: for<'m> fn(&'m Model, usize) -> Option<Box<dyn Solver + 'm>>,
}

impl MethodInfo {
    /// A row in which everything else is what most methods have.
    pub(super) const fn new(
        name: &'static str,
        summary: &'static str,
        promise: &'static str,
        solver: for<'m> fn(&'m Model, &Options) -> Result<Box<dyn Solver + 'm>>,
    ) -> Self {
        Self {
            name,
            summary,
            promise,
            options: &[],
            name_prefix: None,
            iterations: |_| 100,
            tolerance: 0.0,
            answer: Answer::LowestOwn,
            preferred_filter: FilterKind::Auto,
            needs_row_sums: true,
            any_kernel_costs: false,
            bytes: |_| 0,
            used_percent: 80,
            fits: |_, _| Ok(()),
            solver,
            solver_from_start: |_, _| None,
        }
    }

    /// The number of options that are part of the name.
    pub(super) fn options_in_name(&self) -> usize {
        usize::from(self.name_prefix.is_some())
    }
}
