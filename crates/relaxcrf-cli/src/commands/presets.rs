//! `relaxcrf presets`: the list of parameter sets.

use anyhow::Result;
use relaxcrf::model::Normalization;
use relaxcrf::presets::{DEFAULT, PRESETS, Preset};
use relaxcrf_lab::report::wrap::{entry, wrap};
use relaxcrf_lab::specs::{BilateralSpec, GaussianSpec, PresetSpec};
use serde_json::json;

use crate::args::PresetsArgs;
use crate::terminal::{print, print_json};

/// Column of the text about a preset.
const COLUMN: usize = 15;

const NOTE: &str = "Kernels are --gaussian SIGMA:WEIGHT and --bilateral SIGMA_XY:SIGMA_RGB:WEIGHT. Weights count every pair \
                    of pixels twice, once from each end: pydensecrf writes twice these numbers.";

/// Prints the parameter sets that come with the program, or those asked for.
pub fn run(args: &PresetsArgs) -> Result<()> {
    let all: Vec<Preset> = if args.presets.is_empty() {
        PRESETS.to_vec()
    } else {
        args.presets.iter().map(PresetSpec::resolve).collect::<relaxcrf::Result<_>>()?
    };
    if args.json {
        return print_json(&all.iter().map(as_json).collect::<Vec<_>>());
    }
    let in_full = args.long || !args.presets.is_empty();
    let mut out: String = all.iter().map(|p| if in_full { full(p) } else { short(p) }).collect();
    let more = if in_full {
        ""
    } else {
        " Where the numbers come from: relaxcrf presets --long, or relaxcrf presets NAME."
    };
    let gap = if in_full { "" } else { "\n" };
    out += &wrap(&format!("{gap}{NOTE}{more}"), 0);
    print(&out)
}

/// Keeps lines from being broken between an option and its value.
const NO_BREAK: &str = "\u{a0}";

fn unbroken(lines: String) -> String {
    lines.replace(NO_BREAK, " ")
}

/// The preset as options, to be typed or pasted; [`unbroken`] makes the spaces inside them plain ones.
fn flags(p: &Preset) -> String {
    let (sigma_xy, sigma_rgb, weight) = p.bilateral;
    let mut flags = vec![
        GaussianSpec::new(p.gaussian.0, p.gaussian.1).flag(),
        BilateralSpec::new(sigma_xy, sigma_rgb, weight).flag(),
    ];
    if p.normalization != Normalization::default() {
        flags.push(format!("--normalization {}", p.normalization));
    }
    flags.push(format!("--method {}", p.method));
    flags.iter().map(|flag| flag.replace(' ', NO_BREAK)).collect::<Vec<_>>().join(" ")
}

fn purpose(p: &Preset) -> String {
    let default = if p.name == DEFAULT { " (the default)" } else { "" };
    entry(&p.name, COLUMN, &format!("{}{default}", p.summary))
}

/// Purpose and options: two lines.
fn short(p: &Preset) -> String {
    purpose(p) + &unbroken(wrap(&format!("  {}", flags(p)), 2))
}

/// The whole preset and an empty line.
fn full(p: &Preset) -> String {
    let (sigma_xy, sigma_rgb, weight) = p.bilateral;
    let facts = [
        ("  gaussian", format!("sigma {} pixels, weight {}", p.gaussian.0, p.gaussian.1)),
        ("  bilateral", format!("sigma {sigma_xy} pixels and {sigma_rgb} colour units, weight {weight}")),
        ("  normalised", p.normalization.to_string()),
        ("  method", p.method.to_string()),
        ("  from", p.source.to_string()),
    ];
    let facts: String = facts.iter().map(|(name, value)| entry(name, COLUMN, value)).collect();
    let options = unbroken(entry("  options", COLUMN, &flags(p)));
    format!("{}{facts}{options}\n", purpose(p))
}

fn as_json(p: &Preset) -> serde_json::Value {
    json!({
        "name": p.name, "summary": p.summary, "source": p.source,
        "gaussian": { "sigma": p.gaussian.0, "weight": p.gaussian.1 },
        "bilateral": { "sigma_xy": p.bilateral.0, "sigma_rgb": p.bilateral.1, "weight": p.bilateral.2 },
        "method": p.method, "normalization": p.normalization.to_string(),
    })
}
