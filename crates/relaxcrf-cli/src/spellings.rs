//! Options as other dense CRF programs spell them, and ours that do the same.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const BILATERAL: &str = "pydensecrf's sxy=80, srgb=13, compat=10 is --bilateral 80:13:5, and sxy=3, compat=3 is --gaussian 3:1.5: \
                         SIGMA_XY:SIGMA_RGB:WEIGHT, the weight half of compat because every pair counts twice here";
const UPDATES: &str = "--method mf10 runs ten mean-field updates (mfN runs N); --max-iter N bounds the iterations of other methods";

/// Names without dashes and underscores, and the advice.
const SPELLINGS: &[(&[&str], &str)] = &[
    (&["sxy", "srgb", "schan", "sdims", "sigmaxy", "sigmargb", "sigmacolor", "sigma", "pairwise"], BILATERAL),
    (
        &[
            "iterations",
            "iteration",
            "iters",
            "iter",
            "niters",
            "niter",
            "niterations",
            "numiterations",
            "maxiters",
            "steps",
        ],
        UPDATES,
    ),
    (
        &["nlabels", "numclasses", "nclasses", "classes"],
        "give the number of labels of a label map with --num-labels N",
    ),
    (&["gtprob"], "give the probability that a hard label is right with --confidence P"),
    (&["zerounsure"], "mark label 0 as undecided with --unsure 0"),
    (&["softmax", "scores", "score", "logit"], "give logits or other scores with --logits FILE"),
    (&["probabilities", "probability", "prob"], "give probabilities with --probs FILE"),
    (&["energies", "unaries"], "give energies with --unary FILE"),
    (&["mask", "annotation", "anno"], "give a mask or label map with --labels FILE"),
    (&["normalisation"], "it is spelled --normalization"),
];

/// The message for an option that other programs have, if the usage error is about one.
pub fn explain(usage: &clap::Error) -> Option<String> {
    if usage.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = usage.get(ContextKind::InvalidArg) else { return None };
    let bare = given.split('=').next().unwrap_or(given).trim_start_matches('-');
    let plain: String =
        bare.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_ascii_lowercase();
    let advice =
        SPELLINGS.iter().find(|(names, _)| names.contains(&plain.as_str())).map(|(_, advice)| advice)?;
    Some(format!("unknown option `{given}`; {advice}. See --help for all options"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn spellings_of_other_programs_are_not_options_of_this_one() {
        let command = Cli::command();
        for sub in command
            .get_subcommands()
            .filter(|sub| ["segment", "batch", "energy", "compare"].contains(&sub.get_name()))
        {
            for option in sub.get_arguments().filter_map(|a| a.get_long()) {
                let plain = option.replace('-', "");
                assert!(
                    !SPELLINGS.iter().any(|(names, _)| names.contains(&plain.as_str())),
                    "--{option} of {}",
                    sub.get_name()
                );
            }
        }
    }
}
