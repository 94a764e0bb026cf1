//! `relaxcrf energy`: the energy of a labelling.

use std::time::Instant;

use anyhow::Result;
use relaxcrf::energy;
use relaxcrf::model::FilterKind;
use relaxcrf_lab::choice;
use relaxcrf_lab::inputs::{self, Input};
use relaxcrf_lab::progress::RunObserver;
use relaxcrf_lab::report::{self, EnergyReport};

use super::use_threads;
use crate::args::EnergyArgs;
use crate::progress::Meter;
use crate::terminal::{print, print_json};

/// Evaluates one labelling.
pub fn run(args: &EnergyArgs) -> Result<()> {
    use_threads(&args.common)?;
    let meter = Meter::new(args.common.quiet, "building the model");
    let messages = meter.messages();
    let source = args.source.files.or_labels(args.source.labels_as_unary.as_ref());
    let mut model_args = choice::model(&args.model.options(), args.preset.preset.as_ref())?;
    if args.exact {
        // The same model as `with_filter(Exact)` gives, without building a filter that is then dropped.
        model_args.filter = FilterKind::Exact;
    }
    let Input { model, values, .. } =
        inputs::read(&args.image, source, &args.unary.options(), &model_args, args.common.seed, &messages)?;
    let labeling = inputs::labeling(&args.labels, &args.image, &model, &values)?;
    meter.say("evaluating");
    let started = Instant::now();
    let energy = energy::of_labeling(&model, &labeling)?;
    let report = EnergyReport::new(&model, &labeling, energy, started.elapsed().as_secs_f64());
    drop(meter);

    if args.common.json {
        return print_json(&report);
    }
    print(&report::facts(&[
        ("energy", report::number(report.energy)),
        ("unary", report::number(report.unary_energy)),
        ("pairwise", report::number(report.pairwise_energy)),
        ("operator", format!("{}, normalization {}", report.operator, report.normalization)),
        ("labels used", format!("{} of {}", report.labels_used, report.label_count)),
    ]))
}
