//! Stereo pairs as problems: matching costs, the model, the truth and how far from it a result is.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use relaxcrf::{Image, Model};
use relaxcrf_io as io;
use relaxcrf_stereo::{Aggregation, CostOptions, Measure};
use serde::Serialize;

use crate::inputs::{assemble, check_size, warn_about_image};
use crate::messages::Messages;
use crate::options::ModelOptions;
use crate::specs::{BilateralSpec, GaussianSpec, extension};

/// `ad`, `bt`, `census`, `census:R`, `ad-census`, `zncc` or `zncc:R`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostSpec(pub Measure);

/// A number, or `none`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truncation(Option<f32>);

impl FromStr for CostSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, radius) = text.split_once(':').unwrap_or((text, "2"));
        Ok(Self(match (name, text.contains(':')) {
            ("ad", false) => Measure::AbsoluteDifference,
            ("bt", false) => Measure::BirchfieldTomasi,
            ("census", _) => {
                let fits = |r: &usize| (1..=3).contains(r);
                let radius =
                    radius.parse().ok().filter(fits).ok_or("the radius of census must be 1, 2 or 3")?;
                Measure::Census { radius }
            }
            ("ad-census", false) => Measure::AdCensus,
            ("zncc", _) => {
                let fits = |r: &usize| (1..=5).contains(r);
                let radius = radius.parse().ok().filter(fits).ok_or("the radius of zncc must be 1 to 5")?;
                Measure::Zncc { radius }
            }
            _ => return Err("expected ad, bt, census, census:R, ad-census, zncc or zncc:R".into()),
        }))
    }
}

/// `none`, `box:R`, `cross` or `edge:SXY:SRGB`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AggregationSpec(pub Aggregation);

impl FromStr for AggregationSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| t.parse::<f32>().ok().filter(|v| *v > 0.0 && v.is_finite());
        let parts: Vec<&str> = text.split(':').collect();
        let found = match parts[..] {
            ["none"] => Some(Aggregation::None),
            ["cross"] => Some(Aggregation::Cross),
            ["box", radius] => radius
                .parse()
                .ok()
                .filter(|r| (1..=100).contains(r))
                .map(|radius| Aggregation::Box { radius }),
            ["edge", xy, rgb] => number(xy)
                .zip(number(rgb))
                .map(|(sigma_xy, sigma_rgb)| Aggregation::EdgeAware { sigma_xy, sigma_rgb }),
            _ => None,
        };
        found
            .map(Self)
            .ok_or("expected none, cross, box:R (R from 1 to 100) or edge:SXY:SRGB (above 0)".into())
    }
}

impl FromStr for Truncation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f32>() {
            _ if text == "none" => Ok(Self(None)),
            Ok(value) if value > 0.0 && value.is_finite() => Ok(Self(Some(value))),
            _ => Err("expected a finite number above 0, or none".into()),
        }
    }
}

/// How pixels of a pair are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchingOptions {
    /// Matching cost.
    pub cost: CostSpec,
    /// Largest cost; `None`: the usual one of this cost.
    pub truncate: Option<Truncation>,
    /// What costs are averaged over; `None`: what the command usually does.
    pub aggregation: Option<AggregationSpec>,
    /// Round costs to multiples of this.
    pub cost_step: Option<f64>,
}

/// Files with the true disparities.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TruthFiles {
    /// The truth to compare with.
    pub truth: Option<PathBuf>,
    /// Grey value per pixel of disparity in the truth files.
    pub scale: Option<f64>,
    /// True disparities of the right picture.
    pub truth_right: Option<PathBuf>,
    /// Mask whose largest value marks the pixels that both pictures see.
    pub visible: Option<PathBuf>,
}

impl TruthFiles {
    /// All files, for the check that no input is overwritten.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.truth, &self.truth_right, &self.visible].into_iter().flatten().map(PathBuf::as_path)
    }
}

impl MatchingOptions {
    /// What these options say about costs.
    pub fn options(&self) -> CostOptions {
        let usual = CostOptions::new(self.cost.0);
        CostOptions {
            aggregation: self.aggregation.map_or(usual.aggregation, |a| a.0),
            truncation: self.truncate.map_or(usual.truncation, |t| t.0),
            rounding: self.cost_step,
            ..usual
        }
    }
}

/// A pair of pictures and the problem they pose.
#[derive(Debug)]
pub struct Pair {
    /// The left picture.
    pub left: Image,
    /// The right picture.
    pub right: Image,
    /// The model on the left picture's grid.
    pub model: Model,
}

/// Kernels that give good disparities: measured, see docs/experiments.md. Census counts neighbours instead of grey
/// values, so its weights follow its usual truncation.
pub fn with_usual_kernels(args: &ModelOptions, measure: Measure) -> ModelOptions {
    let mut args = args.clone();
    if args.gaussian.is_empty() && args.bilateral.is_empty() {
        let share = match (measure, CostOptions::new(measure).truncation) {
            (Measure::Census { .. } | Measure::AdCensus | Measure::Zncc { .. }, Some(most)) => most / 40.0,
            _ => 1.0,
        };
        args.gaussian = vec![GaussianSpec::new(3.0, 8.0 * share)];
        args.bilateral = vec![BilateralSpec::new(20.0, 10.0, 16.0 * share)];
    }
    args
}

/// Reads a pair and builds its model.
pub fn read_pair(
    (left_path, right_path): (&Path, &Path),
    disparities: usize,
    cost: &MatchingOptions,
    model: &ModelOptions,
    seed: u64,
    messages: &Messages,
) -> Result<Pair> {
    let names = || format!("{} with {}", left_path.display(), right_path.display());
    let (left, right, costs) = read_costs((left_path, right_path), disparities, cost)?;
    let args = with_usual_kernels(model, cost.cost.0);
    warn_about_image(&left, left_path, &args.bilateral, messages);
    let model = assemble(&left, disparities, costs, &args, seed).with_context(names)?;
    Ok(Pair { left, right, model })
}

/// Reads a pair and computes the cost of each disparity at each pixel of the left picture.
pub fn read_costs(
    (left_path, right_path): (&Path, &Path),
    disparities: usize,
    cost: &MatchingOptions,
) -> Result<(Image, Image, Vec<f32>)> {
    let left = io::read_image(left_path)?;
    let right = io::read_image(right_path)?;
    check_size(
        "right picture",
        right_path,
        (right.width, right.height),
        left_path,
        (left.width, left.height),
    )?;
    let names = || format!("{} with {}", left_path.display(), right_path.display());
    let costs = relaxcrf_stereo::cost(&left, &right, disparities, &cost.options()).with_context(names)?;
    Ok((left, right, costs))
}

/// The true disparities of the left picture, as far as they are known.
#[derive(Debug, Clone)]
pub struct Truth {
    /// NaN where it is not known.
    pub disparities: Vec<f32>,
    /// Pixels that both pictures see, if that is known.
    pub visible: Option<Vec<bool>>,
}

/// Errors of a disparity map.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Score {
    /// Pixels whose truth is known.
    pub pixels: usize,
    /// Fraction that is off by more than half a pixel.
    pub bad_0_5: f64,
    /// Fraction that is off by more than one pixel.
    pub bad_1: f64,
    /// Fraction that is off by more than two pixels.
    pub bad_2: f64,
    /// Mean absolute error in pixels.
    pub mean_error: f64,
}

/// The score of all pixels, and of those that both pictures see.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Scores {
    /// All pixels whose truth is known.
    pub all: Score,
    /// Those that both pictures see, if that is known.
    pub visible: Option<Score>,
}

impl Truth {
    /// Reads the files; `None` without a truth.
    pub fn read(args: &TruthFiles, left: &Path, size: (usize, usize)) -> Result<Option<Self>> {
        let Some(path) = &args.truth else { return Ok(None) };
        let disparities = read_disparities(path, args.scale, left, size)?;
        let visible = if let Some(right) = &args.truth_right {
            let right = read_disparities(right, args.scale, left, size)?;
            Some(agreeing(&disparities, &right, size.0))
        } else if let Some(mask) = &args.visible {
            let map = io::read_labels(mask)?;
            check_size("mask", mask, (map.width, map.height), left, size)?;
            let largest = map.labels.iter().copied().max().filter(|&m| m > 0);
            let Some(largest) = largest else {
                bail!(
                    "{}: every value is 0; expected a mask whose largest value marks visible pixels",
                    mask.display()
                );
            };
            Some(map.labels.iter().map(|&v| v == largest).collect())
        } else {
            None
        };
        Ok(Some(Self { disparities, visible }))
    }

    /// The largest true disparity.
    pub fn largest(&self) -> f32 {
        self.disparities.iter().copied().filter(|d| d.is_finite()).fold(0.0, f32::max)
    }

    /// The error of each pixel; NaN where the truth is unknown.
    pub fn errors(&self, labels: &[u16]) -> Vec<f32> {
        labels.iter().zip(&self.disparities).map(|(&l, t)| (f32::from(l) - t).abs()).collect()
    }

    /// Scores the labels as disparities.
    pub fn scores(&self, labels: &[u16]) -> Scores {
        self.scores_of(&labels.iter().map(|&l| f32::from(l)).collect::<Vec<_>>())
    }

    /// How good disparities are that need not be whole numbers.
    pub fn scores_of(&self, values: &[f32]) -> Scores {
        let errors: Vec<f32> = values.iter().zip(&self.disparities).map(|(v, t)| (v - t).abs()).collect();
        let visible = self
            .visible
            .as_ref()
            .map(|v| score(errors.iter().zip(v).filter(|(_, visible)| **visible).map(|(e, _)| *e)));
        Scores { all: score(errors.iter().copied()), visible }
    }
}

fn score(errors: impl Iterator<Item = f32>) -> Score {
    let known: Vec<f32> = errors.filter(|e| e.is_finite()).collect();
    let n = known.len().max(1) as f64;
    let above = |limit: f32| known.iter().filter(|e| **e > limit).count() as f64 / n;
    Score {
        pixels: known.len(),
        bad_0_5: above(0.5),
        bad_1: above(1.0),
        bad_2: above(2.0),
        mean_error: known.iter().map(|&e| f64::from(e)).sum::<f64>() / n,
    }
}

fn read_disparities(path: &Path, scale: Option<f64>, left: &Path, size: (usize, usize)) -> Result<Vec<f32>> {
    let (got, values) = match extension(path).as_str() {
        "pfm" => {
            let image = io::read_pfm(path)?;
            if image.channels != 1 {
                bail!("{}: has {} channels; expected one, the disparity", path.display(), image.channels);
            }
            let scale = scale.unwrap_or(1.0) as f32;
            let known = |&v: &f32| if v.is_finite() { v / scale } else { f32::NAN };
            ((image.width, image.height), image.data.iter().map(known).collect::<Vec<_>>())
        }
        "npy" | "npz" => {
            let array = io::read_array(path)?;
            let [height, width] = array.shape[..] else {
                let by = array.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
                bail!("{}: has shape {by}; expected height x width disparities", path.display());
            };
            let scale = scale.unwrap_or(1.0) as f32;
            let known = |&v: &f32| if v.is_finite() && v > 0.0 { v / scale } else { f32::NAN };
            ((width, height), array.data.iter().map(known).collect())
        }
        _ => {
            let map = io::read_labels(path)?;
            let Some(scale) = scale else {
                bail!(
                    "{}: holds grey values up to {}; say with --scale how many make a pixel of disparity (Middlebury: 8 \
                     in 2001, 4 in 2003; KITTI: 256)",
                    path.display(),
                    map.labels.iter().max().unwrap_or(&0)
                );
            };
            let known = |&v: &u16| if v > 0 { (f64::from(v) / scale) as f32 } else { f32::NAN };
            ((map.width, map.height), map.labels.iter().map(known).collect())
        }
    };
    check_size("truth", path, got, left, size)?;
    if values.iter().all(|v| v.is_nan()) {
        bail!("{}: no disparity is known in it", path.display());
    }
    Ok(values)
}

/// Left pixels whose match in the right picture has the same disparity, give or take one.
fn agreeing(left: &[f32], right: &[f32], width: usize) -> Vec<bool> {
    let agrees = |(a, &d): (usize, &f32)| {
        let x = (a % width) as f32 - d;
        // Comparisons with NaN fail, so the unknown is not visible.
        x.round() >= 0.0 && (right[a / width * width + x.round() as usize] - d).abs() <= 1.0
    };
    left.iter().enumerate().map(agrees).collect()
}

/// Writes disparities by the file's ending.
pub fn write(
    path: &Path,
    size: (usize, usize),
    labels: &[u16],
    scale: Option<f64>,
    bits: &str,
    most: usize,
) -> Result<()> {
    if extension(path) == "npy" {
        return Ok(io::write_labels(path, size.0, size.1, labels, &io::Palette::voc())?);
    }
    write_values(path, size, &labels.iter().map(|&l| f32::from(l)).collect::<Vec<_>>(), scale, bits, most)
}

/// Writes disparities that need not be whole numbers.
pub fn write_values(
    path: &Path,
    size: (usize, usize),
    values: &[f32],
    scale: Option<f64>,
    bits: &str,
    most: usize,
) -> Result<()> {
    let (width, height) = size;
    match (extension(path).as_str(), bits) {
        ("pfm", _) => io::write_pfm(path, &Image::new(width, height, 1, values.to_vec())?)?,
        ("npy", _) => io::write_npy_f32(path, &[height, width], values)?,
        (_, "16") => io::write_disparity(path, width, height, values, scale.unwrap_or(256.0) as f32)?,
        _ => {
            let scale = eight_bit_scale(scale, most)?;
            let scaled = values.iter().map(|v| (f64::from(*v) * scale).round() as f32).collect();
            io::write_image(path, &Image::new(width, height, 1, scaled)?)?;
        }
    }
    Ok(())
}

/// The scale of an 8-bit map: as given, or the largest whole one that fits all `most` disparities.
pub fn eight_bit_scale(given: Option<f64>, most: usize) -> Result<f64> {
    let last = most.saturating_sub(1).max(1) as f64;
    let scale = given.unwrap_or_else(|| (255.0 / last).floor());
    if scale < 1.0 && given.is_none() || scale * last > 255.5 {
        bail!(
            "disparities up to {last} at scale {scale} do not fit into 8 bits; choose a smaller --output-scale, --bits 16, \
             or a .pfm file"
        );
    }
    Ok(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_costs_and_truncations_are_read() {
        assert_eq!("ad".parse(), Ok(CostSpec(Measure::AbsoluteDifference)));
        assert_eq!("bt".parse(), Ok(CostSpec(Measure::BirchfieldTomasi)));
        assert_eq!("census".parse(), Ok(CostSpec(Measure::Census { radius: 2 })));
        assert_eq!("ad-census".parse(), Ok(CostSpec(Measure::AdCensus)));
        assert_eq!("zncc:5".parse(), Ok(CostSpec(Measure::Zncc { radius: 5 })));
        assert_eq!("box:2".parse(), Ok(AggregationSpec(Aggregation::Box { radius: 2 })));
        let edge = Aggregation::EdgeAware { sigma_xy: 3.0, sigma_rgb: 10.0 };
        assert_eq!("edge:3:10".parse(), Ok(AggregationSpec(edge)));
        for bad in ["", "box", "box:0", "edge:3", "edge:0:1", "cross:2", "edge:nan:1"] {
            assert!(bad.parse::<AggregationSpec>().is_err(), "{bad}");
        }
        assert_eq!("census:3".parse(), Ok(CostSpec(Measure::Census { radius: 3 })));
        for bad in ["", "ad:1", "census:4", "census:x", "sad"] {
            assert!(bad.parse::<CostSpec>().is_err(), "{bad}");
        }
        assert_eq!("none".parse(), Ok(Truncation(None)));
        assert_eq!("12.5".parse(), Ok(Truncation(Some(12.5))));
        for bad in ["", "0", "-1", "nan", "inf", "x"] {
            assert!(bad.parse::<Truncation>().is_err(), "{bad}");
        }
    }

    #[test]
    fn scores_of_a_small_example_equal_values_by_hand() {
        let truth = Truth {
            disparities: vec![1.0, 2.25, f32::NAN, 4.0, 8.0],
            visible: Some(vec![true, true, true, true, false]),
        };
        let Scores { all, visible } = truth.scores(&[1, 3, 9, 6, 3]);
        // Errors 0, 0.75, unknown, 2, 5.
        assert_eq!((all.pixels, all.bad_0_5, all.bad_1, all.bad_2), (4, 0.75, 0.5, 0.25));
        assert!((all.mean_error - 7.75 / 4.0).abs() < 1e-9);
        let visible = visible.unwrap();
        assert_eq!((visible.pixels, visible.bad_1, visible.bad_2), (3, 1.0 / 3.0, 0.0));
        assert_eq!(truth.largest(), 8.0);
    }

    #[test]
    fn pixels_whose_truths_disagree_are_occluded() {
        // Right pixel 1 belongs to the nearer surface: left pixel 1, which maps there too, is hidden.
        let left = [0.0, 0.0, 0.0, 2.0, 7.0, f32::NAN];
        let right = [0.0, 2.0, 0.0, 0.0, 0.0, 0.0];
        assert_eq!(agreeing(&left, &right, 6), [true, false, true, true, false, false]);
    }

    #[test]
    fn eight_bit_scale_fits_all_disparities_or_is_refused() {
        assert_eq!(eight_bit_scale(None, 60).unwrap(), 4.0);
        assert_eq!(eight_bit_scale(Some(4.0), 60).unwrap(), 4.0);
        assert!(eight_bit_scale(Some(8.0), 60).is_err());
        assert!(eight_bit_scale(None, 400).is_err());
        assert_eq!(eight_bit_scale(None, 1).unwrap(), 255.0);
    }
}
