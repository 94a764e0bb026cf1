//! The methods, each of which supplies one step, and chains of them.
//!
//! Read one method first, for example `mean_field.rs`: its row of the table says what it is, its solver does one step.

mod auto;
mod costs_below;
mod dc_gen;
mod dc_neg;
mod exact;
mod graduated;
mod info;
mod lp;
mod mean_field;
mod method;
mod moves;
mod options;
mod pipeline;
pub(crate) mod prox_lp;
mod qp;
mod relay;
pub(crate) mod smooth_lp;
mod tree_lp;
mod unary;
pub mod updates;

pub(crate) use self::info::Answer;
pub use self::info::MethodInfo;
pub use self::method::Method;
pub use self::options::MethodOption;
pub use self::pipeline::Pipeline;

/// Makes the table of methods, and a constant of [`Method`] for each.
macro_rules! table {
    ($($name:ident = $row:path, $doc:literal;)*) => {
        /// All methods, in the order in which they are shown.
        pub const METHODS: &[&MethodInfo] = &[$(&$row),*];

        impl Method {
            $(#[doc = $doc] pub const $name: Self = Self::new(&$row);)*
        }
    };
}

table! {
    UNARY = unary::ROW, "Each pixel's lowest unary energy.";
    MF = mean_field::TO_CONVERGENCE, "Mean field to convergence, with a free energy that never rises.";
    MF5 = mean_field::UPDATES, "Five parallel mean-field updates; see [`Method::mean_field_updates`].";
    QP = qp::ROW, "The convex QP relaxation.";
    DC_GEN = dc_gen::ROW, "Difference of convex for any symmetric label costs.";
    DC_NEG = dc_neg::ROW, "Difference of convex for Potts and other conditionally negative label costs.";
    GRADUATED = graduated::ROW, "From the convex QP to the plain one by a schedule.";
    LP = lp::ROW, "The LP relaxation by projected subgradients.";
    SMOOTH_LP = smooth_lp::ROW, "The smoothed LP relaxation by accelerated gradients.";
    EXACT = exact::ROW, "The optimum of a problem with two labels.";
    PROX_LP = prox_lp::ROW, "The LP relaxation by proximal steps.";
    EXPAND = moves::EXPAND, "Alpha-expansion moves.";
    SWAP = moves::SWAP, "Alpha-beta-swap moves.";
    AUTO = auto::ROW, "A choice of methods for the model; see [`plan`](crate::auto::plan).";
    TREE_LP = tree_lp::ROW, "The LP relaxation over trees of labels.";
}
