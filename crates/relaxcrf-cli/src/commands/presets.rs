//! `relaxcrf presets`.

use anyhow::Result;
use relaxcrf::io::read_preset;
use relaxcrf::model::presets::{DEFAULT, PRESETS, Preset};
use serde_json::json;

use crate::args::PresetsArgs;
use crate::report::{self, table};

/// Prints the parameter sets that come with the program, and those in the files given.
pub fn run(args: &PresetsArgs) -> Result<()> {
    let mut all: Vec<Preset> = PRESETS.to_vec();
    for path in &args.files {
        all.push(read_preset(path)?);
    }
    if args.json {
        return report::print_json(&all.iter().map(as_json).collect::<Vec<_>>());
    }
    let mut shown = table(&["preset", "gaussian", "bilateral", "method", "for", "from"]);
    for p in &all {
        let (sigma_xy, sigma_rgb, weight) = p.bilateral;
        let normalization = match p.normalization.to_string().as_str() {
            "symmetric" => String::new(),
            other => format!(", normalization {other}"),
        };
        shown.add_row([
            p.name.to_string(),
            format!("{}:{}", p.gaussian.0, p.gaussian.1),
            format!("{sigma_xy}:{sigma_rgb}:{weight}"),
            p.method.to_string(),
            p.summary.to_string(),
            format!("{}{normalization}", p.source),
        ]);
    }
    report::print(&format!(
        "{shown}\n\nWeights count every pair twice, once from each end: pydensecrf writes twice these numbers. Kernels are \
         SIGMA:WEIGHT and\nSIGMA_XY:SIGMA_RGB:WEIGHT, normalised symmetrically unless said otherwise. mfN makes N \
         mean-field updates.\nWithout --preset and kernels, {DEFAULT} is used.\n"
    ))
}

fn as_json(p: &Preset) -> serde_json::Value {
    json!({
        "name": p.name, "summary": p.summary, "source": p.source,
        "gaussian": { "sigma": p.gaussian.0, "weight": p.gaussian.1 },
        "bilateral": { "sigma_xy": p.bilateral.0, "sigma_rgb": p.bilateral.1, "weight": p.bilateral.2 },
        "method": p.method, "normalization": p.normalization.to_string(),
    })
}
