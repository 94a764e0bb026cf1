//! Which methods are run when none is named.

use relaxcrf::solve::{METHODS, Pipeline};

/// The method of `segment` unless told otherwise.
pub const DEFAULT: &str = "mf";

/// Chains that are worth comparing with the single methods.
const CHAINS: [&str; 2] = ["qp+dc-neg", "qp+dc-neg+lp"];

/// Every method on its own, then the chains. Names that this version does not know are left out.
pub fn for_comparison() -> Vec<Pipeline> {
    let names = METHODS.iter().map(|m| m.name).chain(CHAINS);
    names.filter_map(|name| name.parse().ok()).collect()
}
