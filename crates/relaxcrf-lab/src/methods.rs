//! Which methods are run when none is named, and lists of them.

use std::str::FromStr;

use relaxcrf::solve::{METHODS, Pipeline};

use crate::specs::Contestant;

/// The paper's methods on stereo pairs and our own.
pub const STEREO: &str =
    "unary,mf5,mf,dc-neg,qp,qp+dc-gen,qp+dc-neg,qp+dc-neg+lp,graduated,graduated+smooth-lp";

/// The methods of the paper's tables, and the one that finds the lowest energies. A few seconds an image.
pub const SEGMENTATION: &str = "unary,mf5,mf,qp,qp+dc-gen,qp+dc-neg,qp+dc-neg+lp,graduated";

/// The methods that the paper's code ran with half of all weights.
pub const HALF_WEIGHTS: &str = "mf5,mf";

/// Chains that are worth comparing with the single methods.
const CHAINS: [&str; 3] = ["qp+dc-gen", "qp+dc-neg", "qp+dc-neg+lp"];

/// Every method on its own, then the chains. Names that this version does not know are left out.
pub fn for_comparison() -> MethodList {
    let names = METHODS.iter().map(|m| m.name).chain(CHAINS);
    MethodList(names.filter_map(|name| name.parse().ok()).collect())
}

/// Methods and chains separated by commas; the options of a method may hold commas as well.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodList(pub Vec<Pipeline>);

impl MethodList {
    /// The methods in their order, each after its run with half weights if it is in `half`, which is run in any case.
    pub fn with_half_weights(&self, half: &Self) -> Vec<Contestant> {
        let halved = |chain: &Pipeline| Contestant { chain: chain.clone(), half: true };
        let mut all = Vec::new();
        for chain in &self.0 {
            all.extend(half.0.iter().filter(|h| *h == chain).map(halved));
            all.push(Contestant::new(chain.clone()));
        }
        all.extend(half.0.iter().filter(|h| !self.0.contains(h)).map(halved));
        all
    }
}

impl FromStr for MethodList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found: Vec<(String, Pipeline)> = Vec::new();
        for piece in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match (piece.parse::<Pipeline>(), found.last_mut()) {
                (Ok(chain), _) => found.push((piece.into(), chain)),
                // If this is not a method, it may be one more option of the method before.
                (Err(unknown), Some((before, chain))) if before.contains(':') => {
                    let longer = format!("{before},{piece}");
                    *chain = longer.parse().map_err(|_| unknown.to_string())?;
                    *before = longer;
                }
                (Err(unknown), _) => return Err(unknown.to_string()),
            }
        }
        if found.is_empty() {
            return Err("no method is named; expected some, separated by commas".into());
        }
        let mut list: Vec<Pipeline> = Vec::new();
        for (_, chain) in found {
            if !list.contains(&chain) {
                list.push(chain);
            }
        }
        Ok(Self(list))
    }
}

/// The baseline.
pub fn unary() -> Option<Contestant> {
    "unary".parse().ok().map(Contestant::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> MethodList {
        text.parse().unwrap()
    }

    fn names(text: &str) -> Vec<String> {
        list(text).0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn method_list_splits_at_commas_between_methods_only() {
        assert_eq!(names("mf, qp+dc-neg,mf"), ["mf", "qp+dc-neg"]);
        assert_eq!(
            names("graduated:from=1,turn=0.9,to=0.1,steps=30,mf,graduated:turn=0.9"),
            ["graduated:to=0.1,steps=30", "mf", "graduated"]
        );
        assert_eq!(names("lp:dc,paper-step,qp"), ["lp:dc,paper-step", "qp"]);
        assert_eq!(names("mf,mf/qp"), ["mf", "mf/qp"]);
        for bad in ["", ",", "mf,nonsense", "nonsense", "lp:dc,nonsense", "mf/2"] {
            assert!(bad.parse::<MethodList>().is_err(), "{bad}");
        }
        assert!("magic".parse::<MethodList>().unwrap_err().contains("known methods"));
    }

    #[test]
    fn half_weight_runs_come_before_the_runs_with_full_weights() {
        let all = list("unary,mf,qp").with_half_weights(&list("mf,mf5"));
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["unary", "mf (half weights)", "mf", "qp", "mf5 (half weights)"]);
    }

    #[test]
    fn built_in_lists_are_known() {
        assert_eq!((names(STEREO).len(), names(SEGMENTATION).len(), names(HALF_WEIGHTS).len()), (10, 8, 2));
        assert_eq!(for_comparison().0.len(), METHODS.len() + CHAINS.len());
    }
}
