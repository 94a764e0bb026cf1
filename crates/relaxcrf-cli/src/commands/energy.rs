//! `relaxcrf energy`.

use std::time::Instant;

use anyhow::Result;
use relaxcrf::energy;
use relaxcrf::model::FilterKind;

use super::use_threads;
use crate::args::{EnergyArgs, EnergySource};
use crate::choice;
use crate::inputs::{self, Input, Source};
use crate::progress::Meter;
use crate::report::{self, EnergyReport};

/// Evaluates one labelling.
pub fn run(args: &EnergyArgs) -> Result<()> {
    use_threads(&args.common)?;
    let meter = Meter::new(args.common.quiet, "building the model");
    let messages = meter.messages(args.common.quiet);
    let EnergySource { probs, logits, unary, labels_as_unary } = &args.source;
    let source = Source::choose(probs, logits.as_ref(), unary.as_ref(), labels_as_unary.as_ref());
    let mut model_args = choice::model(&args.model, &args.preset)?;
    if args.exact {
        // The same model as `with_filter(Exact)` gives, without building a filter that is then dropped.
        model_args.filter = FilterKind::Exact;
    }
    let Input { model, values, .. } =
        inputs::read(&args.image, source, &args.unary, &model_args, args.common.seed, &messages)?;
    let labeling = inputs::labeling(&args.labels, &args.image, &model, &values)?;
    meter.say("evaluating");
    let started = Instant::now();
    let energy = energy::of_labeling(&model, &labeling)?;
    let report = EnergyReport::new(&model, &labeling, energy, started.elapsed().as_secs_f64());
    drop(meter);

    if args.common.json {
        return report::print_json(&report);
    }
    report::print(&report::facts(&[
        ("energy", report::number(report.energy)),
        ("unary", report::number(report.unary_energy)),
        ("pairwise", report::number(report.pairwise_energy)),
        ("operator", format!("{}, normalization {}", report.operator, report.normalization)),
        ("labels used", format!("{} of {}", report.labels_used, report.label_count)),
    ]))
}
