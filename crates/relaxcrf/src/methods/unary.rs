//! The unaries alone: no smoothing.

use super::info::{Answer, MethodInfo};
use crate::beliefs::Beliefs;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce;

/// The row of `unary`.
pub(super) const ROW: MethodInfo = MethodInfo {
    iterations: |_| 1,
    any_kernel_costs: true,
    tolerance: f64::INFINITY,
    answer: Answer::Beliefs,
    needs_row_sums: false,
    bytes: |problem| problem.arrays(1),
    used_percent: 100,
    ..MethodInfo::new("unary", "argmin of the unary energies, no smoothing", "", |_, _| {
        Ok(Box::new(UnaryOnly))
    })
};

/// The method `unary`: all belief in the label that each pixel prefers on its own.
#[derive(Debug)]
pub(super) struct UnaryOnly;

impl Solver for UnaryOnly {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        *beliefs = Beliefs::from_labeling(&context.model().unary_argmin(), context.model().labels());
        let objective = reduce::dot(context.model().unary(), beliefs.as_slice());
        Step { objective, lower_bound: None, residual: 0.0 }
    }
}
