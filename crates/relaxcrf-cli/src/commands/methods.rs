//! `relaxcrf methods`.

use anyhow::Result;
use relaxcrf::model::presets;
use relaxcrf::solve::METHODS;
use serde_json::json;

use crate::args::MethodsArgs;
use crate::report::{self, table};

/// Prints what there is.
pub fn run(args: &MethodsArgs) -> Result<()> {
    if args.json {
        let all: Vec<_> = METHODS
            .iter()
            .map(|m| json!({ "name": m.name, "summary": m.summary, "promise": m.promise }))
            .collect();
        return report::print_json(&all);
    }
    let mut shown = table(&["method", "what it does", "what it promises"]);
    for m in METHODS {
        shown.add_row([m.name, m.summary, m.promise]);
    }
    report::print(&format!(
        "{shown}\n\nChain methods with +, each starts where the one before ended: mf5+mf. The default is {}.\n",
        presets::default().method
    ))
}
