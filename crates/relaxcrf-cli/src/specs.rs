//! The small languages of option values: kernels, compatibilities, durations, gaps, output files.
//!
//! Each says what it got and what it wanted, because clap shows these texts as they are.

mod batch;
mod datasets;
mod tiles;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use relaxcrf::model::{Features, Kernel};

pub use self::batch::{Shard, bytes, shown_bytes};
pub use self::datasets::{Contestant, Objective, PARAMETERS, PresetSpec, RangeSpec, SearchKind, VoidSpec};
pub use self::tiles::SizeSpec;

/// Why an option's value was not understood.
type Parsed<T> = Result<T, String>;

/// `SIGMA:WEIGHT`, sigma being one number or `SX,SY`.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianSpec {
    sigma: Vec<f32>,
    weight: f32,
}

/// `SIGMA_XY:SIGMA_RGB:WEIGHT`; both sigmas may be lists, one number per axis or channel.
#[derive(Debug, Clone, PartialEq)]
pub struct BilateralSpec {
    sigma: Vec<f32>,
    sigma_color: Vec<f32>,
    weight: f32,
}

impl GaussianSpec {
    /// One standard deviation for both axes.
    pub fn new(sigma: f32, weight: f32) -> Self {
        Self { sigma: vec![sigma], weight }
    }

    /// The way it is typed.
    pub fn flag(&self) -> String {
        format!("--gaussian {}:{}", list(&self.sigma), self.weight)
    }

    /// The same with half the weight.
    pub fn halved(&self) -> Self {
        Self { weight: 0.5 * self.weight, ..self.clone() }
    }

    /// The kernel it stands for.
    pub fn kernel(&self) -> Kernel {
        Kernel { features: Features::Position { sigma: self.sigma.clone() }, weight: self.weight }
    }
}

impl BilateralSpec {
    /// One standard deviation for both axes, one for all channels.
    pub fn new(sigma: f32, sigma_color: f32, weight: f32) -> Self {
        Self { sigma: vec![sigma], sigma_color: vec![sigma_color], weight }
    }

    /// The way it is typed.
    pub fn flag(&self) -> String {
        format!("--bilateral {}:{}:{}", list(&self.sigma), list(&self.sigma_color), self.weight)
    }

    /// The same with half the weight.
    pub fn halved(&self) -> Self {
        Self { weight: 0.5 * self.weight, ..self.clone() }
    }

    /// The kernel it stands for, on this image.
    pub fn kernel(&self, image: Vec<f32>) -> Kernel {
        let features =
            Features::Bilateral { sigma: self.sigma.clone(), image, sigma_color: self.sigma_color.clone() };
        Kernel { features, weight: self.weight }
    }

    /// The largest colour standard deviation.
    pub fn widest_color(&self) -> f32 {
        self.sigma_color.iter().copied().fold(0.0, f32::max)
    }
}

fn list(numbers: &[f32]) -> String {
    numbers.iter().map(f32::to_string).collect::<Vec<_>>().join(",")
}

impl FromStr for GaussianSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text.split(':').collect::<Vec<_>>()[..] {
            [sigma, weight] => Ok(Self { sigma: sigmas(sigma, "sigma")?, weight: kernel_weight(weight)? }),
            ref parts => Err(format!(
                "has {} part(s) separated by `:`; wanted SIGMA:WEIGHT, such as 3:1.5 (or SX,SY:WEIGHT)",
                parts.len()
            )),
        }
    }
}

impl FromStr for BilateralSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text.split(':').collect::<Vec<_>>()[..] {
            [sigma, color, weight] => Ok(Self {
                sigma: sigmas(sigma, "sigma_xy")?,
                sigma_color: sigmas(color, "sigma_rgb")?,
                weight: kernel_weight(weight)?,
            }),
            ref parts => Err(format!(
                "has {} part(s) separated by `:`; wanted SIGMA_XY:SIGMA_RGB:WEIGHT, such as 80:13:5",
                parts.len()
            )),
        }
    }
}

fn number(text: &str, what: &str) -> Parsed<f32> {
    text.trim().parse().map_err(|_| format!("{what} is `{text}`; wanted a number"))
}

fn sigmas(text: &str, what: &str) -> Parsed<Vec<f32>> {
    let positive = |part: &str| {
        let sigma = number(part, what)?;
        if sigma > 0.0 && sigma.is_finite() {
            return Ok(sigma);
        }
        Err(format!("{what} is {}; a standard deviation must be positive and finite", part.trim()))
    };
    text.split(',').map(positive).collect()
}

fn kernel_weight(text: &str) -> Parsed<f32> {
    let weight = number(text, "weight")?;
    if weight >= 0.0 && weight.is_finite() {
        return Ok(weight);
    }
    Err(format!("weight is {}; must be finite, 0 or more (positive weights smooth)", text.trim()))
}

/// `potts`, `linear`, `linear:T`, `w:1,2,3` or a file with a matrix.
#[derive(Debug, Clone, PartialEq)]
pub enum CompatSpec {
    /// Different labels cost 1.
    Potts,
    /// `min(|i - j|, T)`.
    Linear(Option<f32>),
    /// `(w_i + w_j) / 2` for different labels.
    Weights(Vec<f32>),
    /// A square matrix in a `.npy` or `.npz` file.
    File(PathBuf),
}

impl std::fmt::Display for CompatSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Potts => f.write_str("potts"),
            Self::Linear(None) => f.write_str("linear"),
            Self::Linear(Some(t)) => write!(f, "linear:{t}"),
            Self::Weights(weights) => write!(f, "w:{}", list(weights)),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for CompatSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        if let Some(truncation) = text.strip_prefix("linear:") {
            let t = number(truncation, "truncation")?;
            return if t > 0.0 && t.is_finite() {
                Ok(Self::Linear(Some(t)))
            } else {
                Err(format!("truncation is {truncation}; must be positive and finite"))
            };
        }
        if let Some(list) = text.strip_prefix("w:") {
            return list.split(',').map(kernel_weight).collect::<Parsed<_>>().map(Self::Weights);
        }
        match (text, extension(Path::new(text)).as_str()) {
            ("potts", _) => Ok(Self::Potts),
            ("linear", _) => Ok(Self::Linear(None)),
            (_, "npy" | "npz") => Ok(Self::File(text.into())),
            _ if text.parse::<f32>().is_ok() => Err("a number is no table of label costs. For pydensecrf's compat=10 give \
                 the kernel half of it as its weight (here every pair counts twice): --bilateral 80:13:5; expected potts, \
                 linear, linear:T, w:W0,W1,... or a FILE.npy with a matrix"
                .into()),
            _ => Err("expected potts, linear, linear:T, w:W0,W1,... (a weight per label) or a FILE.npy with \
                     a matrix"
                .into()),
        }
    }
}

/// A time such as `500ms`, `2s`, `1.5m`; a bare number is seconds.
pub fn duration(text: &str) -> Parsed<Duration> {
    let wanted = "wanted a time such as 500ms, 2s or 1.5m";
    let (digits, unit) = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)]
        .iter()
        .find_map(|&(name, unit)| text.strip_suffix(name).map(|digits| (digits, unit)))
        .unwrap_or((text, 1.0));
    let amount: f64 = digits.trim().parse().map_err(|_| wanted.to_string())?;
    Duration::try_from_secs_f64(amount * unit).map_err(|_| format!("neither negative nor endless; {wanted}"))
}

/// A relative gap: `0.1%` or `0.001`.
pub fn gap(text: &str) -> Parsed<f64> {
    let wanted = "wanted a share of the energy, 0 or more, such as 0.1% or 0.001";
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits, 0.01));
    match digits.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value * unit),
        _ => Err(wanted.into()),
    }
}

/// A tolerance: finite, 0 or more.
pub fn tolerance(text: &str) -> Parsed<f64> {
    match text.trim().parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("wanted a finite number, 0 or more, such as 1e-6".into()),
    }
}

/// A confidence, strictly between 0 and 1.
pub fn confidence(text: &str) -> Parsed<f32> {
    match text.trim().parse::<f32>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("wanted a probability above 0 and below 1, such as 0.7".into()),
    }
}

/// A label map to write: `.png` or `.npy`.
pub fn label_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["png", "npy", "tif", "tiff"], "wanted a name that ends in .png (indexed), .npy or .tif")
}

/// An array to write: `.npy`.
pub fn array_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["npy"], "wanted a name that ends in .npy")
}

/// A disparity map to write.
pub fn disparity_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["png", "pfm", "npy"], "wanted a name that ends in .png (grey), .pfm or .npy")
}

/// A colour picture to write.
pub fn picture_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["png"], "wanted a name that ends in .png")
}

/// A page to write.
pub fn page_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["html", "htm"], "wanted a name that ends in .html")
}

/// A table to write.
pub fn csv_output(text: &str) -> Parsed<PathBuf> {
    output(text, &["csv"], "wanted a name that ends in .csv")
}

/// A finite number above 0.
pub fn positive(text: &str) -> Parsed<f64> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("wanted a finite number above 0, such as 0.01".into()),
    }
}

fn output(text: &str, endings: &[&str], wanted: &str) -> Parsed<PathBuf> {
    let found = extension(Path::new(text));
    if endings.contains(&found.as_str()) {
        return Ok(text.into());
    }
    if found.is_empty() {
        return Err(format!("the name has no ending; {wanted}"));
    }
    Err(format!("the ending .{found} is unknown here; {wanted}"))
}

/// The ending of a file name in small letters, empty if there is none.
pub fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels() {
        assert_eq!("3:1.5".parse(), Ok(GaussianSpec::new(3.0, 1.5)));
        assert_eq!("3,4:1".parse(), Ok(GaussianSpec { sigma: vec![3.0, 4.0], weight: 1.0 }));
        assert_eq!("80:13:5".parse(), Ok(BilateralSpec::new(80.0, 13.0, 5.0)));
        let lists: BilateralSpec = "8,9:1,2,3:0".parse().unwrap();
        assert_eq!((lists.sigma.len(), lists.widest_color()), (2, 3.0));
        for (bad, why) in [
            ("3", "1 part"),
            ("3:1:2", "3 part"),
            ("-3:1", "-3"),
            ("0:1", "positive"),
            ("nan:1", "positive"),
            ("inf:1", "finite"),
            ("1e-60:1", "1e-60"),
            ("x:1", "`x`"),
            ("3:", "weight is ``"),
            ("3:-1", "weight is -1"),
            ("3:inf", "finite"),
        ] {
            let e = bad.parse::<GaussianSpec>().unwrap_err();
            assert!(e.contains(why), "{bad}: {e}");
        }
        for bad in ["80:13", "80:0:1", "80:13:nan", "80::1", ""] {
            assert!(bad.parse::<BilateralSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn compatibilities() {
        assert_eq!("potts".parse(), Ok(CompatSpec::Potts));
        assert_eq!("linear".parse(), Ok(CompatSpec::Linear(None)));
        assert_eq!("linear:2.5".parse(), Ok(CompatSpec::Linear(Some(2.5))));
        assert_eq!("w:1,2,3".parse(), Ok(CompatSpec::Weights(vec![1.0, 2.0, 3.0])));
        assert_eq!("m.npy".parse(), Ok(CompatSpec::File("m.npy".into())));
        for bad in ["", "linear:0", "linear:x", "w:", "w:1,-2", "pots"] {
            assert!(bad.parse::<CompatSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_and_gaps() {
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
    fn output_names() {
        assert!(label_output("a/b.PNG").is_ok() && label_output("x.npy").is_ok());
        assert!(label_output("x.jpg").unwrap_err().contains(".jpg"));
        assert!(label_output("x").unwrap_err().contains("no ending"));
        assert!(array_output("x.png").is_err());
    }
}
