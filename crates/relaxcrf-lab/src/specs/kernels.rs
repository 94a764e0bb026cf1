//! Kernels and label costs as they are typed.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use relaxcrf::model::{Features, Kernel};

use super::{Parsed, extension};

/// `SIGMA:WEIGHT` or `SIGMA:WEIGHT:COST`, sigma being one number or `SX,SY`.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianSpec {
    sigma: Vec<f32>,
    weight: f32,
    cost: Option<CostSpec>,
}

/// `SIGMA_XY:SIGMA_RGB:WEIGHT` or with `:COST`; both sigmas may be lists, one number per axis or channel.
#[derive(Debug, Clone, PartialEq)]
pub struct BilateralSpec {
    sigma: Vec<f32>,
    sigma_color: Vec<f32>,
    weight: f32,
    cost: Option<CostSpec>,
}

/// The label cost of one kernel: what `--compat` takes, or `potts:S`.
#[derive(Debug, Clone, PartialEq)]
pub enum CostSpec {
    /// `S` for different labels; a negative number favours them.
    Potts(f32),
    /// Any other label cost.
    Table(CompatSpec),
}

impl FromStr for CostSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let Some(scale) = text.strip_prefix("potts:") else { return text.parse().map(Self::Table) };
        match number(scale, "label cost")? {
            scale if scale.is_finite() => Ok(Self::Potts(scale)),
            _ => Err(format!("label cost is {scale}; expected a finite number")),
        }
    }
}

impl std::fmt::Display for CostSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Potts(scale) => write!(f, "potts:{scale}"),
            Self::Table(costs) => write!(f, "{costs}"),
        }
    }
}

/// What a kernel's text ends with.
fn cost_suffix(cost: Option<&CostSpec>) -> String {
    cost.map_or(String::new(), |cost| format!(":{cost}"))
}

impl GaussianSpec {
    /// One standard deviation for both axes.
    pub fn new(sigma: f32, weight: f32) -> Self {
        Self { sigma: vec![sigma], weight, cost: None }
    }

    /// The way it is typed.
    pub fn flag(&self) -> String {
        format!("--gaussian {}:{}{}", list(&self.sigma), self.weight, cost_suffix(self.cost.as_ref()))
    }

    /// Its label cost, if it has one of its own.
    pub fn cost(&self) -> Option<&CostSpec> {
        self.cost.as_ref()
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
        Self { sigma: vec![sigma], sigma_color: vec![sigma_color], weight, cost: None }
    }

    /// The way it is typed.
    pub fn flag(&self) -> String {
        let cost = cost_suffix(self.cost.as_ref());
        format!("--bilateral {}:{}:{}{cost}", list(&self.sigma), list(&self.sigma_color), self.weight)
    }

    /// Its label cost, if it has one of its own.
    pub fn cost(&self) -> Option<&CostSpec> {
        self.cost.as_ref()
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
        match text.splitn(3, ':').collect::<Vec<_>>()[..] {
            [sigma, weight, ref cost @ ..] => Ok(Self {
                sigma: sigmas(sigma, "sigma")?,
                weight: kernel_weight(weight)?,
                cost: cost.first().map(|cost| cost.parse()).transpose()?,
            }),
            ref parts => Err(format!(
                "has {} part(s) separated by `:`; expected SIGMA:WEIGHT, such as 3:1.5 (or SX,SY:WEIGHT, or with a label \
                 cost of its own SIGMA:WEIGHT:COST)",
                parts.len()
            )),
        }
    }
}

impl FromStr for BilateralSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text.splitn(4, ':').collect::<Vec<_>>()[..] {
            [sigma, color, weight, ref cost @ ..] => Ok(Self {
                sigma: sigmas(sigma, "sigma_xy")?,
                sigma_color: sigmas(color, "sigma_rgb")?,
                weight: kernel_weight(weight)?,
                cost: cost.first().map(|cost| cost.parse()).transpose()?,
            }),
            ref parts => Err(format!(
                "has {} part(s) separated by `:`; expected SIGMA_XY:SIGMA_RGB:WEIGHT, such as 80:13:5 (or with a label cost \
                 of its own SIGMA_XY:SIGMA_RGB:WEIGHT:COST)",
                parts.len()
            )),
        }
    }
}

fn number(text: &str, what: &str) -> Parsed<f32> {
    text.trim().parse().map_err(|_| format!("{what} is `{text}`; expected a number"))
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

/// `potts`, `linear`, `linear:T`, `quadratic`, `quadratic:T`, `w:1,2,3`, or a file with a matrix or a tree.
#[derive(Debug, Clone, PartialEq)]
pub enum CompatSpec {
    /// Different labels cost 1.
    Potts,
    /// `min(|i - j|, T)`.
    Linear(Option<f32>),
    /// `min((i - j)², T)`.
    Quadratic(Option<f32>),
    /// `(w_i + w_j) / 2` for different labels.
    Weights(Vec<f32>),
    /// A square matrix in a `.npy` or `.npz` file.
    File(PathBuf),
    /// A tree of labels in a `.csv` file.
    Tree(PathBuf),
}

impl std::fmt::Display for CompatSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Potts => f.write_str("potts"),
            Self::Linear(None) => f.write_str("linear"),
            Self::Linear(Some(t)) => write!(f, "linear:{t}"),
            Self::Quadratic(None) => f.write_str("quadratic"),
            Self::Quadratic(Some(t)) => write!(f, "quadratic:{t}"),
            Self::Weights(weights) => write!(f, "w:{}", list(weights)),
            Self::File(path) | Self::Tree(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for CompatSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        for (name, truncated) in
            [("linear:", Self::Linear as fn(Option<f32>) -> Self), ("quadratic:", Self::Quadratic)]
        {
            let Some(truncation) = text.strip_prefix(name) else { continue };
            let t = number(truncation, "truncation")?;
            return if t > 0.0 && t.is_finite() {
                Ok(truncated(Some(t)))
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
            ("quadratic", _) => Ok(Self::Quadratic(None)),
            (_, "csv") => Ok(Self::Tree(text.into())),
            (_, "npy" | "npz") => Ok(Self::File(text.into())),
            _ if text.parse::<f32>().is_ok() => Err("a number is no table of label costs. For pydensecrf's compat=10 give \
                 the kernel half of it as its weight (here every pair counts twice): --bilateral 80:13:5; expected potts, \
                 linear, linear:T, quadratic, quadratic:T, w:W0,W1,..., a FILE.npy with a matrix or a FILE.csv with a tree"
                .into()),
            _ => Err("expected potts, linear, linear:T, quadratic, quadratic:T, w:W0,W1,... (a weight per label), a FILE.npy with \
                     a matrix or a FILE.csv with a tree"
                .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_with_single_numbers_or_lists() {
        assert_eq!("3:1.5".parse(), Ok(GaussianSpec::new(3.0, 1.5)));
        assert_eq!("3,4:1".parse(), Ok(GaussianSpec { sigma: vec![3.0, 4.0], weight: 1.0, cost: None }));
        assert_eq!("80:13:5".parse(), Ok(BilateralSpec::new(80.0, 13.0, 5.0)));
        let lists: BilateralSpec = "8,9:1,2,3:0".parse().unwrap();
        assert_eq!((lists.sigma.len(), lists.widest_color()), (2, 3.0));
        for (bad, why) in [
            ("3", "1 part"),
            ("3:1:2", "a number is no table"),
            ("3:1:potts:nan", "label cost is nan"),
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
    fn kernels_take_a_label_cost_behind_their_weight() {
        for text in ["3:1.5:linear:2", "3:1.5:potts:-0.5", "3:1.5:w:1,2", "3:1.5:m.npy", "3:1.5"] {
            let spec: GaussianSpec = text.parse().unwrap();
            assert_eq!(spec.flag(), format!("--gaussian {text}"));
            assert_eq!(spec.cost().is_some(), text != "3:1.5");
        }
        let spec: BilateralSpec = "80:13:5:potts:2".parse().unwrap();
        assert_eq!(
            (spec.cost(), spec.halved().flag()),
            (Some(&CostSpec::Potts(2.0)), "--bilateral 80:13:2.5:potts:2".into())
        );
    }

    #[test]
    fn label_costs_are_read_by_name_list_or_file() {
        assert_eq!("potts".parse(), Ok(CompatSpec::Potts));
        assert_eq!("linear".parse(), Ok(CompatSpec::Linear(None)));
        assert_eq!("linear:2.5".parse(), Ok(CompatSpec::Linear(Some(2.5))));
        assert_eq!("w:1,2,3".parse(), Ok(CompatSpec::Weights(vec![1.0, 2.0, 3.0])));
        assert_eq!("m.npy".parse(), Ok(CompatSpec::File("m.npy".into())));
        assert_eq!("t.csv".parse(), Ok(CompatSpec::Tree("t.csv".into())));
        assert_eq!("quadratic".parse(), Ok(CompatSpec::Quadratic(None)));
        assert_eq!("quadratic:4".parse(), Ok(CompatSpec::Quadratic(Some(4.0))));
        assert_eq!(CompatSpec::Quadratic(Some(4.0)).to_string(), "quadratic:4");
        for bad in ["", "linear:0", "quadratic:-1", "linear:x", "w:", "w:1,-2", "pots"] {
            assert!(bad.parse::<CompatSpec>().is_err(), "{bad}");
        }
    }
}
