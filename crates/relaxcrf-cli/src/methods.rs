//! Which methods are run when none is named.

use relaxcrf::solve::{METHODS, Pipeline};

use crate::specs::Contestant;

/// The method of `segment` unless told otherwise.
pub const DEFAULT: &str = "mf";

/// Chains that are worth comparing with the single methods.
const CHAINS: [&str; 2] = ["qp+dc-neg", "qp+dc-neg+lp"];

/// Every method on its own, then the chains. Names that this version does not know are left out.
pub fn for_comparison() -> Vec<Pipeline> {
    let names = METHODS.iter().map(|m| m.name).chain(CHAINS);
    names.filter_map(|name| name.parse().ok()).collect()
}

/// The methods of the paper's tables, mean field as its code ran it and as it should be, and the one that goes lowest.
/// A few seconds an image.
const OF_THE_PAPER: [&str; 10] =
    ["unary", "mf5/2", "mf/2", "mf5", "mf", "qp", "qp+dc-gen", "qp+dc-neg", "qp+dc-neg+lp", "graduated"];

/// What `reproduce segmentation` compares unless told otherwise.
pub fn of_the_paper() -> Vec<Contestant> {
    OF_THE_PAPER.iter().filter_map(|name| name.parse().ok()).collect()
}

/// The baseline.
pub fn unary() -> Option<Contestant> {
    "unary".parse().ok()
}
