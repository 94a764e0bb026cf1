//! Option values that only the program knows: durations, gaps, amounts, output files.
//!
//! Each error says what was given and what was expected, because clap shows these texts as they are.

mod batch;
mod tiles;

use std::path::{Path, PathBuf};
use std::time::Duration;

use relaxcrf_lab::specs::extension;
use relaxcrf_stereo::Quality;

pub use self::batch::{Shard, bytes, shown_bytes};
pub use self::tiles::SizeSpec;

/// Why an option's value was not understood.
type Parsed<T> = Result<T, String>;

/// A time such as `500ms`, `2s`, `1.5m`; a bare number is seconds.
pub fn duration(text: &str) -> Parsed<Duration> {
    let hint = "expected a time such as 500ms, 2s or 1.5m";
    let (digits, unit) = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)]
        .iter()
        .find_map(|&(name, unit)| text.strip_suffix(name).map(|digits| (digits, unit)))
        .unwrap_or((text, 1.0));
    let amount: f64 = digits.trim().parse().map_err(|_| hint.to_string())?;
    Duration::try_from_secs_f64(amount * unit).map_err(|_| format!("neither negative nor endless; {hint}"))
}

/// A relative gap: `0.1%` or `0.001`.
pub fn gap(text: &str) -> Parsed<f64> {
    let hint = "expected a fraction of the energy, 0 or more, such as 0.1% or 0.001";
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 0.01));
    match digits.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value * unit),
        _ => Err(hint.into()),
    }
}

/// A tolerance: finite, 0 or more.
pub fn tolerance(text: &str) -> Parsed<f64> {
    match text.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a finite number, 0 or more, such as 1e-6".into()),
    }
}

/// A confidence, strictly between 0 and 1.
pub fn confidence(text: &str) -> Parsed<f32> {
    match text.trim().parse::<f32>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("expected a probability above 0 and below 1, such as 0.7".into()),
    }
}

/// A label map to write: `.png` or `.npy`.
pub fn label_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["png", "npy", "tif", "tiff"], "expected a name that ends in .png (indexed), .npy or .tif")
}

/// An array to write: `.npy`.
pub fn array_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["npy"], "expected a name that ends in .npy")
}

/// A disparity map to write.
pub fn disparity_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["png", "pfm", "npy"], "expected a name that ends in .png (grey), .pfm or .npy")
}

/// A map of depths to write.
pub fn depth_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["pfm", "npy"], "expected a name that ends in .pfm or .npy")
}

/// A point cloud to write.
pub fn points_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["ply"], "expected a name that ends in .ply")
}

/// How much work goes into a disparity map.
pub fn quality(text: &str) -> Parsed<Quality> {
    match text {
        "fast" => Ok(Quality::Fast),
        "normal" => Ok(Quality::Normal),
        "best" => Ok(Quality::Best),
        _ => Err("expected fast, normal or best".into()),
    }
}

/// A colour picture to write.
pub fn picture_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["png"], "expected a name that ends in .png")
}

/// A page to write.
pub fn page_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["html", "htm"], "expected a name that ends in .html")
}

/// A preset to write.
pub fn preset_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["toml"], "expected a name that ends in .toml")
}

/// A table to write.
pub fn csv_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["csv"], "expected a name that ends in .csv")
}

/// A finite number above 0.
pub fn positive(text: &str) -> Parsed<f64> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a finite number above 0, such as 0.01".into()),
    }
}

fn output(text: &str, endings: &[&str], hint: &str) -> Parsed<PathBuf> {
    let found = extension(Path::new(text));
    if endings.contains(&found.as_str()) {
        return Ok(text.into());
    }
    if found.is_empty() {
        return Err(format!("the name has no ending; {hint}"));
    }
    Err(format!("unknown ending .{found}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_gaps_are_read_with_units_and_bad_ones_refused() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in ["", "s", "-1s", "1h", "nan", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!((gap("0.1%").unwrap() - 0.001).abs() < 1e-12);
        assert_eq!(gap("0.01"), Ok(0.01));
        for bad in ["", "%", "-1%", "inf", "x"] {
            assert!(gap(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn output_names_with_unknown_endings_are_refused() {
        assert!(label_output("a/b.PNG").is_ok() && label_output("x.npy").is_ok());
        assert!(label_output("x.jpg").unwrap_err().contains(".jpg"));
        assert!(label_output("x").unwrap_err().contains("no ending"));
        assert!(array_output("x.png").is_err());
    }
}
