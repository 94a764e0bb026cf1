//! The row of `auto`, which is a plan of other methods: see [`plan`](crate::auto::plan).

use super::info::{Answer, MethodInfo};
use crate::error::Error;
use crate::reductions::open_pixels;

/// The row of `auto`.
pub(super) const ROW: MethodInfo = MethodInfo {
    iterations: |_| 0,
    any_kernel_costs: true,
    answer: Answer::BestSeen,
    // The most of what it may choose, and the beliefs that it starts from.
    bytes: |problem| {
        let arrays = problem.arrays(if problem.labels == 2 { 8 } else { 11 });
        let lp = problem.layer_bytes() + open_pixels::bytes(problem);
        arrays + lp.max(problem.fused_table_bytes())
    },
    fits: |_, _| {
        Err(Error::Method {
            method: "auto".into(),
            why: "it makes a chain of its own and cannot be a part of another".into(),
            instead: "`auto` alone".into(),
        })
    },
    ..MethodInfo::new(
        "auto",
        "what fits the model; `--explain` says what and why",
        "no worse than mf5, mf, qp+dc-neg or a constant labelling",
        |_, _| Ok(Box::new(super::unary::UnaryOnly)),
    )
};
