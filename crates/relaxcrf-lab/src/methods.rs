//! Which methods are run when none is named, and lists of them.

use std::str::FromStr;

use relaxcrf::solve::METHODS;

use crate::specs::Contestant;

/// The paper's methods on stereo, mean field as its code ran it and as it should be, and our own.
pub const PAPER: &str =
    "unary,mf5/2,mf/2,mf5,mf,dc-neg,qp,qp+dc-gen,qp+dc-neg,qp+dc-neg+lp,graduated,graduated+smooth-lp";

/// Chains that are worth comparing with the single methods.
const CHAINS: [&str; 3] = ["qp+dc-gen", "qp+dc-neg", "qp+dc-neg+lp"];

/// Every method on its own, then the chains. Names that this version does not know are left out.
pub fn for_comparison() -> Vec<Contestant> {
    let names = METHODS.iter().map(|m| m.name).chain(CHAINS);
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Methods and chains separated by commas; the options of a method may hold commas as well.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodList(pub Vec<Contestant>);

impl FromStr for MethodList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found: Vec<(String, Contestant)> = Vec::new();
        for piece in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match (piece.parse::<Contestant>(), found.last_mut()) {
                (Ok(contestant), _) => found.push((piece.into(), contestant)),
                // What is no method may be one more option of the method before.
                (Err(unknown), Some((before, contestant))) if before.contains(':') => {
                    let longer = format!("{before},{piece}");
                    *contestant = longer.parse().map_err(|_| unknown.to_string())?;
                    *before = longer;
                }
                (Err(unknown), _) => return Err(unknown.to_string()),
            }
        }
        if found.is_empty() {
            return Err("no method is named; wanted some, separated by commas".into());
        }
        let mut list: Vec<Contestant> = Vec::new();
        for (_, contestant) in found {
            if !list.contains(&contestant) {
                list.push(contestant);
            }
        }
        Ok(Self(list))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.parse::<MethodList>().unwrap().0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_of_methods() {
        assert_eq!(names("mf, qp+dc-neg,mf"), ["mf", "qp+dc-neg"]);
        assert_eq!(
            names("graduated:from=1,turn=0.9,to=0.1,steps=30,mf,graduated:turn=0.9"),
            ["graduated:to=0.1,steps=30", "mf", "graduated"]
        );
        assert_eq!(names("lp:dc,paper-step,qp"), ["lp:dc,paper-step", "qp"]);
        assert_eq!(names("mf/2,mf,mf/qp"), ["mf/2", "mf", "mf/qp"]);
        for bad in ["", ",", "mf,nonsense", "nonsense", "lp:dc,nonsense"] {
            assert!(bad.parse::<MethodList>().is_err(), "{bad}");
        }
        assert!("magic".parse::<MethodList>().unwrap_err().contains("known methods"));
    }

    #[test]
    fn the_built_in_lists_are_known() {
        assert_eq!(names(PAPER).len(), 12);
        assert_eq!(for_comparison().len(), METHODS.len() + CHAINS.len());
    }
}
