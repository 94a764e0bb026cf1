//! `relaxcrf evaluate`: label maps measured against the truth.

use std::path::{Path, PathBuf};

use anyhow::Result;
use relaxcrf_lab::evaluate::{self, EvaluateOptions};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::outputs::check_writable;
use relaxcrf_lab::report::page::write_text;

use super::use_threads;
use crate::args::EvaluateArgs;
use crate::terminal::{complain, print, print_json};

/// Measures and prints one table for each truth.
pub fn run(args: &EvaluateArgs) -> Result<()> {
    if let Some(csv) = &args.csv {
        let mut inputs: Vec<&Path> = args.truth.iter().map(PathBuf::as_path).collect();
        inputs.push(&args.predicted);
        check_writable(csv, &inputs)?;
    }
    use_threads(&args.common)?;
    let messages = Messages::new(args.common.quiet, complain);
    let options = EvaluateOptions {
        predicted: args.predicted.clone(),
        void: args.void,
        num_labels: args.num_labels,
        names: args.names.clone(),
        bands: args.band.clone(),
    };
    let measure = |truth: &PathBuf| evaluate::measure(&options, truth, &messages);
    let all = args.truth.iter().map(measure).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.csv {
        write_text(path, &evaluate::csv(&all))?;
    }
    if args.common.json {
        return print_json(&all);
    }
    all.iter().try_for_each(|measures| print(&evaluate::terminal(measures)))
}
