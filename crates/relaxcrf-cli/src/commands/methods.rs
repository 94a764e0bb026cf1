//! `relaxcrf methods`: the list of methods.

use anyhow::Result;
use relaxcrf::presets;
use relaxcrf::solve::METHODS;
use relaxcrf_lab::report::wrap::{entry, wrap};
use serde_json::json;

use crate::args::MethodsArgs;
use crate::terminal::{print, print_json};

/// Spaces between the names and the texts about them.
const GUTTER: usize = 2;

/// Prints the list of methods.
pub fn run(args: &MethodsArgs) -> Result<()> {
    if args.json {
        let all: Vec<_> = METHODS
            .iter()
            .map(|m| json!({ "name": m.name, "summary": m.summary, "promise": m.promise }))
            .collect();
        return print_json(&all);
    }
    let column = METHODS.iter().map(|m| m.name.len()).max().unwrap_or(0) + GUTTER;
    let mut out = String::new();
    for m in METHODS {
        if args.long {
            out += &entry(m.name, column, m.summary);
            if !m.promise.is_empty() {
                out += &wrap(&format!("{:column$}promise: {}", "", m.promise), column);
            }
        } else {
            out += &entry(m.name, column, brief(m.summary));
        }
    }
    let more = if args.long { "" } else { " Options and guarantees: relaxcrf methods --long." };
    out += &wrap(
        &format!(
            "\nChain methods with +, such as qp+dc-neg: each starts where the one before ended. The default is {}.{more}",
            presets::default().method
        ),
        0,
    );
    print(&out)
}

/// A summary without options and remarks.
fn brief(summary: &str) -> &str {
    let end = [" (", "; "].iter().filter_map(|mark| summary.find(mark)).min();
    &summary[..end.unwrap_or(summary.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_summaries_have_no_options_and_remarks() {
        assert_eq!(brief("convex QP (qp:fw: Frank-Wolfe)"), "convex QP");
        assert_eq!(brief("exchanges labels; any costs"), "exchanges labels");
        assert_eq!(brief("mean field"), "mean field");
        assert!(METHODS.iter().all(|m| brief(m.summary).len() > 10), "a summary begins with a remark");
    }
}
