//! Parameter sets in TOML files: what tuning writes and everything else reads.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::write_atomically;
use relaxcrf::error::{Error, Result};
use relaxcrf::model::{Learned, Normalization};
use relaxcrf::presets::{self, Preset};

/// The file as it is written. Unknown keys are mistakes: a misspelt weight must not be ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// Number of mean-field updates, instead of a method.
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<usize>,
    #[serde(default = "usual_normalization")]
    normalization: String,
    gaussian: GaussianPart,
    bilateral: BilateralPart,
    #[serde(skip_serializing_if = "Option::is_none")]
    unary: Option<UnaryPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<LabelsPart>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnaryPart {
    #[serde(default = "no_temperature")]
    temperature: f32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bias: Vec<f32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelsPart {
    costs: Vec<f32>,
}

fn no_temperature() -> f32 {
    1.0
}

/// The parts of a file that were learned, if any.
fn learned(unary: Option<UnaryPart>, labels: Option<LabelsPart>) -> Option<Learned> {
    if unary.is_none() && labels.is_none() {
        return None;
    }
    let UnaryPart { temperature, bias } = unary.unwrap_or(UnaryPart { temperature: 1.0, bias: Vec::new() });
    Some(Learned { temperature, bias, label_costs: labels.map(|l| l.costs).unwrap_or_default() })
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GaussianPart {
    sigma: f32,
    weight: f32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BilateralPart {
    sigma_xy: f32,
    sigma_rgb: f32,
    weight: f32,
}

fn usual_normalization() -> String {
    Normalization::default().to_string()
}

/// Longest file that is taken for a preset.
const MAX_BYTES: u64 = 1 << 16;

const EXPECTED: &str = "expected a preset in TOML: [gaussian] with sigma and weight, [bilateral] with sigma_xy, \
                      sigma_rgb and weight";

/// Reads a preset file:
///
/// ```toml
/// name = "mine"                  # optional, as are summary, source and normalization
/// method = "mf10"                # optional: ten mean-field updates; or iterations = 10
/// [gaussian]
/// sigma = 3.0                    # pixels
/// weight = 1.5                   # every pair counts twice: half of what pydensecrf calls compat
/// [bilateral]
/// sigma_xy = 80.0
/// sigma_rgb = 13.0               # on the 0 to 255 scale
/// weight = 5.0
/// [unary]                        # optional: what `relaxcrf learn` found
/// temperature = 1.2              # unary energies are divided by this
/// bias = [0.0, -0.1]             # added to the energies of each label
/// [labels]                       # optional
/// costs = [1.0, 0.8]             # labels i and j cost (c_i + c_j) / 2
/// ```
pub fn read_preset(path: &Path) -> Result<Preset> {
    let fail = |e: std::io::Error| Error::file(path, format!("cannot be read: {e}"));
    let about = std::fs::metadata(path).map_err(fail)?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(Error::file(path, format!("is no preset file; {EXPECTED}")));
    }
    let bytes = std::fs::read(path).map_err(fail)?;
    let text =
        String::from_utf8(bytes).map_err(|_| Error::file(path, format!("is not a text; {EXPECTED}")))?;
    let file: File = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(String::new(), |s| {
            format!(
                "line {}: ",
                1 + text.as_bytes()[..s.start.min(text.len())].iter().filter(|&&b| b == b'\n').count()
            )
        });
        Error::file(path, format!("{line}{}; {EXPECTED}", e.message().replace('\n', " ")))
    })?;
    let stem = || path.file_stem().map_or("preset".into(), |s| s.to_string_lossy().into_owned());
    let preset = Preset {
        name: if file.name.is_empty() { stem().into() } else { file.name.into() },
        summary: file.summary.into(),
        source: if file.source.is_empty() { path.display().to_string().into() } else { file.source.into() },
        gaussian: (file.gaussian.sigma, file.gaussian.weight),
        bilateral: (file.bilateral.sigma_xy, file.bilateral.sigma_rgb, file.bilateral.weight),
        method: method(file.method, file.iterations).map_err(|why| Error::file(path, why))?.into(),
        learned: learned(file.unary, file.labels),
        normalization: file.normalization.parse().map_err(|e| Error::file(path, format!("{e}")))?,
    };
    preset.check().map_err(|e| Error::file(path, e.to_string()))?;
    Ok(preset)
}

/// The method of a file that names one, or a number of mean-field updates, or neither.
fn method(method: Option<String>, iterations: Option<usize>) -> std::result::Result<String, String> {
    match (method, iterations) {
        (Some(_), Some(_)) => Err("has both `method` and `iterations`; expected one of them \
                                   (`iterations = 10` is short for `method = \"mf10\"`)"
            .into()),
        (Some(method), None) => Ok(method),
        (None, Some(iterations)) => Ok(format!("mf{iterations}")),
        (None, None) => Ok(presets::default().method.to_string()),
    }
}

/// Writes a preset file, whole or not at all.
pub fn write_preset(path: &Path, preset: &Preset) -> Result<()> {
    preset.check()?;
    let file = File {
        name: preset.name.to_string(),
        summary: preset.summary.to_string(),
        source: preset.source.to_string(),
        method: Some(preset.method.to_string()),
        iterations: None,
        normalization: preset.normalization.to_string(),
        gaussian: GaussianPart { sigma: preset.gaussian.0, weight: preset.gaussian.1 },
        bilateral: BilateralPart {
            sigma_xy: preset.bilateral.0,
            sigma_rgb: preset.bilateral.1,
            weight: preset.bilateral.2,
        },
        unary: preset
            .learned
            .as_ref()
            .map(|l| UnaryPart { temperature: l.temperature, bias: l.bias.clone() }),
        labels: preset
            .learned
            .as_ref()
            .filter(|l| !l.label_costs.is_empty())
            .map(|l| LabelsPart { costs: l.label_costs.clone() }),
    };
    let text = toml::to_string(&file).map_err(|e| Error::file(path, format!("cannot be written: {e}")))?;
    write_atomically(path, |out| {
        out.write_all(
            b"# Kernels of a dense CRF. Sigmas are standard deviations, colours on the 0 to 255 scale. Every pair\n\
              # counts twice, once from each end: weights are half of those in codes that count it once (pydensecrf).\n",
        )?;
        out.write_all(text.as_bytes())
    })
}

/// The preset of that name, or the one in that file: names with a dot or a slash are files.
pub fn find_preset(name_or_file: &str) -> Result<Preset> {
    match presets::find(name_or_file) {
        Ok(preset) => Ok(preset.clone()),
        Err(_) if name_or_file.contains(['.', '/', '\\']) => read_preset(Path::new(name_or_file)),
        Err(Error::Parse { what, got, why }) => {
            Err(Error::Parse { what, got, why: format!("{why}; or give a file such as mine.toml") })
        }
        Err(other) => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::folder;
    use super::*;

    #[test]
    fn every_preset_survives_its_file() {
        let dir = folder();
        let path = dir.path().join("p.toml");
        for preset in presets::PRESETS {
            write_preset(&path, preset).unwrap();
            assert_eq!(&read_preset(&path).unwrap(), preset);
            assert_eq!(&find_preset(path.to_str().unwrap()).unwrap(), preset);
            assert_eq!(&find_preset(&preset.name).unwrap(), preset);
        }
        assert!(fs::read_to_string(&path).unwrap().contains("counts twice"));
    }

    #[test]
    fn learned_parts_survive_the_file() {
        let dir = folder();
        let path = dir.path().join("learned.toml");
        let all = Learned { temperature: 1.25, bias: vec![0.5, -0.25], label_costs: vec![1.0, 0.75] };
        for learned in [
            all.clone(),
            Learned { label_costs: Vec::new(), ..all.clone() },
            Learned { bias: Vec::new(), ..all },
        ] {
            let preset = Preset { learned: Some(learned), ..presets::default().clone() };
            write_preset(&path, &preset).unwrap();
            assert_eq!(read_preset(&path).unwrap(), preset);
        }
    }

    #[test]
    fn preset_file_without_optional_keys_is_read() {
        let dir = folder();
        let path = dir.path().join("mine.toml");
        let short = "gaussian = { sigma = 2, weight = 1 }\nbilateral = { sigma_xy = 40, sigma_rgb = 5, weight = 0.5 }\n";
        fs::write(&path, short).unwrap();
        let preset = read_preset(&path).unwrap();
        assert_eq!((preset.name.as_ref(), preset.method.as_ref()), ("mine", "mf10"));
        for (line, method) in [("iterations = 5", "mf5"), ("method = \"qp+dc-neg\"", "qp+dc-neg")] {
            fs::write(&path, format!("{line}\n{short}")).unwrap();
            assert_eq!(read_preset(&path).unwrap().method, method);
        }
        assert_eq!((preset.gaussian, preset.bilateral), ((2.0, 1.0), (40.0, 5.0, 0.5)));
        assert_eq!(preset.normalization, Normalization::Symmetric);
    }

    #[test]
    fn damaged_preset_is_an_error_with_file_and_line() {
        let dir = folder();
        let path = dir.path().join("bad.toml");
        let whole =
            "[gaussian]\nsigma = 2\nweight = 1\n[bilateral]\nsigma_xy = 40\nsigma_rgb = 5\nweight = 1\n";
        for (text, says) in [
            (String::new(), "missing field"),
            ("\u{1f}garbage".into(), "line 1"),
            (whole.replace("weight = 1\n[", "wieght = 1\n["), "wieght"),
            (whole.replace("sigma = 2", "sigma = \"two\""), "line 2"),
            (whole.replace("sigma = 2", "sigma = 0"), "positive"),
            (whole.replace("sigma_rgb = 5", "sigma_rgb = nan"), "positive"),
            (whole.replace("weight = 1\n[", "weight = -1\n["), "0 or more"),
            (format!("normalization = \"half\"\n{whole}"), "symmetric"),
            (format!("iterations = -3\n{whole}"), "line 1"),
            (format!("iterations = 0\n{whole}"), "mf0"),
            (format!("method = \"magic\"\n{whole}"), "known methods"),
            (format!("method = \"mf5\"\niterations = 5\n{whole}"), "both `method` and `iterations`"),
            (whole.replace("sigma_rgb = 5\n", ""), "sigma_rgb"),
            (format!("{whole}[unary]\ntemperature = 0\n"), "positive"),
            (format!("{whole}[labels]\ncosts = [1, -1]\n"), "0 or more"),
            (format!("{whole}[unary]\nheat = 1\n"), "heat"),
        ] {
            fs::write(&path, &text).unwrap();
            let e = read_preset(&path).unwrap_err().to_string();
            assert!(e.contains("bad.toml") && e.contains(says) && !e.contains('\n'), "{text:?}: {e}");
        }
        fs::write(&path, [0xff, 0xfe, 0]).unwrap();
        assert!(read_preset(&path).unwrap_err().to_string().contains("not a text"));
        assert!(read_preset(dir.path()).unwrap_err().to_string().contains("no preset file"));
        assert!(find_preset("gone.toml").unwrap_err().to_string().contains("gone.toml"));
        let e = find_preset("vok").unwrap_err().to_string();
        assert!(e.contains("vok") && e.contains("voc") && e.contains(".toml"), "{e}");
    }
}
