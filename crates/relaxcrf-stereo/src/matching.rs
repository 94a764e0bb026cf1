//! From a pair of pictures to dense disparities.

use rayon::prelude::*;
use relaxcrf::Image;
use relaxcrf::ModelBuilder;
use relaxcrf::error::{Error, Result};
use relaxcrf::labeling::MAX_LABELS;
use relaxcrf::solve::Solve;

use crate::costs::{Aggregation, CostOptions, Measure, check_pair, cost};
use crate::fill::{Known, fill};
use crate::median::weighted_median;
use crate::pair::View;
use crate::paths::{Steps, sum_over_paths};
use crate::select::{Sums, distrust_specks, is_consistent_left, is_consistent_right};
use crate::support::{Arms, Support, aggregate};
use crate::volume::{GROUP, Volume};

/// How much work goes into a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Quality {
    /// All disparities at half the size, then those near the result at full size.
    Fast,
    /// All disparities at full size.
    #[default]
    Normal,
    /// As `Normal`, and then a dense CRF on the sums over paths. Takes about ten times as long.
    Best,
}

/// Settings of [`match_pair`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How much work goes into it.
    pub quality: Quality,
    /// The matching cost.
    pub cost: CostOptions,
    /// Bytes that costs and sums of all disparities may take; beyond, matching goes from coarse to fine.
    pub max_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        let cost = CostOptions { aggregation: Aggregation::Cross, ..CostOptions::new(Measure::AdCensus) };
        Self { quality: Quality::Normal, cost, max_bytes: 1 << 31 }
    }
}

impl Options {
    /// Bytes that matching takes beside the pictures, at the most.
    pub fn bytes(&self, width: usize, height: usize, disparities: usize) -> u64 {
        let pixels = width * height;
        let single = match self.cost.aggregation {
            Aggregation::EdgeAware { .. } => 12 * (pixels * disparities) as u64,
            _ => 0,
        };
        let all = Volume::bytes(pixels, disparities) + single;
        // Pictures, signatures, maps and planes of both views.
        let maps = 300 * pixels as u64;
        // Energies, beliefs and vertex tables of the CRF.
        let crf = if self.quality == Quality::Best { 24 * (pixels * disparities) as u64 } else { 0 };
        if self.is_coarse_to_fine(pixels, disparities) {
            let coarse = self.bytes_of_half(width, height, disparities);
            return crf + maps + coarse.max(Volume::bytes(pixels, FINE_CANDIDATES));
        }
        crf + maps + all
    }

    fn bytes_of_half(&self, width: usize, height: usize, disparities: usize) -> u64 {
        let half = Self { quality: Quality::Normal, ..*self };
        half.bytes(width.div_ceil(2), height.div_ceil(2), disparities / 2 + 1)
    }

    fn is_coarse_to_fine(&self, pixels: usize, disparities: usize) -> bool {
        let needed = Volume::bytes(pixels, disparities);
        disparities > FINE_CANDIDATES && (self.quality == Quality::Fast || needed > self.max_bytes)
    }
}

/// Candidates of each pixel after a coarser map is known.
const FINE_CANDIDATES: usize = GROUP;

/// How often costs are averaged over crosses: the second time, crosses of crosses are regions of any shape.
const CROSS_ROUNDS: usize = 2;

/// Surfaces of fewer pixels are taken for mistakes.
const SMALLEST_SURFACE: usize = 40;

/// Window of the average colours that regions are told apart by when pixels are filled.
const COLOUR_RADIUS: usize = 2;

/// Windows of the medians, of filled pixels and of all, and the colour difference that their weights fall with.
const FILLED_MEDIAN_RADIUS: usize = 10;
const MEDIAN_RADIUS: usize = 2;
const MEDIAN_COLOURS: f32 = 10.0;

/// A pair whose costs are summed: what a dense CRF needs, and what disparities are read from.
#[derive(Debug)]
pub struct Matching {
    left: View,
    right: View,
    sums: Sums,
    /// The best disparities.
    best: [Vec<u16>; 2],
    /// The map of half the size that candidates were taken from.
    coarse: Option<Disparities>,
}

/// Dense disparities of the left view.
#[derive(Debug, Clone)]
pub struct Disparities {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Disparities that were tried: 0 to `count - 1`.
    pub count: usize,
    /// Of the left picture, in pixels.
    pub left: Vec<f32>,
    /// Left pixels whose disparity is not confirmed by the right picture: hidden there, outside it, or matched wrongly.
    /// Their disparities follow from their neighbours.
    pub occluded: Vec<bool>,
    /// From 0 to 1: the belief in each left pixel's disparity; of occluded ones, the agreement of their neighbours.
    pub confidence: Vec<f32>,
}

/// The dense disparities of a pair, from `0..disparities`.
pub fn match_pair(left: &Image, right: &Image, disparities: usize, options: &Options) -> Result<Disparities> {
    let matching = Matching::new(left, right, disparities, options)?;
    let labels = matching.crf_labels(left, options)?;
    Ok(matching.finish(labels.as_deref()))
}

impl Matching {
    /// Compares the pictures.
    pub fn new(left: &Image, right: &Image, disparities: usize, options: &Options) -> Result<Self> {
        check_pair(left, right)?;
        options.cost.check()?;
        let most = MAX_LABELS.min(left.width);
        if !(1..=most).contains(&disparities) {
            return Err(Error::value(
                "number of disparities",
                disparities,
                format!("1 to {most} (the image's width)"),
            ));
        }
        let needed = options.bytes(left.width, left.height, disparities);
        let mut room: Vec<u8> = Vec::new();
        if usize::try_from(needed).map_or(true, |n| room.try_reserve_exact(n).is_err()) {
            let size = format!("{} x {} pixels", left.width, left.height);
            return Err(Error::value(
                "number of disparities",
                disparities,
                format!("fewer for {size}: their costs do not fit into memory"),
            ));
        }
        drop(room);
        Self::of_checked(left, right, disparities, options)
    }

    fn of_checked(left: &Image, right: &Image, disparities: usize, options: &Options) -> Result<Self> {
        let views = (View::new(left), View::new(right));
        let pair = (left, right);
        let pixels = left.width * left.height;
        let mut coarse = None;
        let volume = if options.is_coarse_to_fine(pixels, disparities) {
            let half = Options { quality: Quality::Normal, ..*options };
            let halves = (halved(left), halved(right));
            let found = Self::of_checked(&halves.0, &halves.1, disparities / 2 + 1, &half)?.finish(None);
            let first = first_candidates(&found, left.width, left.height, disparities);
            coarse = Some(found);
            Volume::of_candidates(pair, &options.cost, disparities, FINE_CANDIDATES, first)
        } else {
            averaged_volume(pair, &views.0, options, disparities)?
        };
        let values = sum_over_paths(&volume, &views.0, &Steps::default());
        let sums = Sums { volume: Volume { costs: Vec::new(), ..volume }, values };
        let best = [sums.best_left(), sums.best_right()];
        Ok(Self { left: views.0, right: views.1, sums, best, coarse })
    }

    /// Number of disparities.
    pub fn disparities(&self) -> usize {
        self.sums.volume.disparities
    }

    /// Energies for a dense CRF, one row of all disparities per left pixel: how much more a disparity costs than the
    /// pixel's best one, on a scale on which the costs of one path end near 1, and truncated at `most`.
    pub fn unaries(&self, most: f32) -> Vec<f32> {
        /// Sum over eight paths for each unit of energy.
        const SUMS_PER_UNIT: f32 = 60.0;
        let labels = self.disparities();
        let pixels = self.left.colours.len();
        let mut unaries = vec![most; pixels * labels];
        unaries.par_chunks_mut(labels).enumerate().for_each(|(a, row)| {
            let sums = self.sums.row(a);
            let least = sums.iter().copied().fold(i16::MAX, i16::min);
            for (energy, &sum) in row[self.sums.volume.first(a)..].iter_mut().zip(sums) {
                *energy = (f32::from(sum - least) / SUMS_PER_UNIT).min(most);
            }
        });
        unaries
    }

    /// Disparities of the left pixels that the right picture confirms; NaN elsewhere.
    pub(crate) fn trusted(&self) -> Vec<f32> {
        let [left, _] = self.known(&self.best[0]);
        left
    }

    /// Labels of the left pixels by a dense CRF whose unary energies are the sums over paths; none below the quality
    /// that has it.
    pub fn crf_labels(&self, left: &Image, options: &Options) -> Result<Option<Vec<u16>>> {
        /// Standard deviations of position and colour, and weight, of the kernel.
        const KERNEL: (f32, f32, f32) = (8.0, 10.0, 6.0);
        const MOST_ENERGY: f32 = 8.0;
        const UPDATES: &str = "mf3";
        if options.quality != Quality::Best || self.disparities() < 2 {
            return Ok(None);
        }
        let (xy, rgb, weight) = KERNEL;
        let model = ModelBuilder::image(left.width, left.height, self.disparities())
            .unary(self.unaries(MOST_ENERGY))
            .bilateral(left.data.clone(), xy, rgb, weight)
            .build()?;
        let solution = Solve::new(&model).method_name(UPDATES)?.run()?;
        Ok(Some(solution.labeling.as_slice().to_vec()))
    }

    /// Dense disparities of the left picture: of the labels, where a dense CRF found some, else of the best sums.
    pub fn finish(&self, labels: Option<&[u16]>) -> Disparities {
        let width = self.left.width;
        let best = labels.unwrap_or(&self.best[0]);
        let [known, other] = self.known(best);
        let (left, support) = match &self.coarse {
            Some(coarse) => self.dense_from(coarse, &known),
            None => dense(&self.left, &known, &other, self.most()),
        };
        let mut confidence = self.sums.confidence(best);
        let filled = confidence.iter_mut().zip(&support).zip(&known).filter(|(_, d)| d.is_nan());
        // Agreement of neighbours is weaker evidence than a match.
        filled.for_each(|((c, s), _)| *c = 0.5 * s);
        Disparities {
            width,
            height: self.left.height,
            count: self.disparities(),
            left,
            occluded: known.iter().map(|d| d.is_nan()).collect(),
            confidence,
        }
    }

    /// Dense disparities of the right picture, with the same labels.
    pub fn finish_right(&self, labels: Option<&[u16]>) -> Vec<f32> {
        let width = self.left.width;
        // In a mirror, the right view is a left one.
        let mirror = |map: &[f32]| {
            let mut map = map.to_vec();
            map.chunks_exact_mut(width).for_each(<[_]>::reverse);
            map
        };
        let [left, right] = self.known(labels.unwrap_or(&self.best[0])).map(|d| mirror(&d));
        mirror(&dense(&self.right.mirrored(), &right, &left, self.most()).0)
    }

    fn most(&self) -> f32 {
        (self.disparities() - 1) as f32
    }

    /// Disparities of both views where they agree, to fractions of a pixel; NaN elsewhere.
    fn known(&self, best_left: &[u16]) -> [Vec<f32>; 2] {
        let (width, best_right) = (self.left.width, &self.best[1]);
        let left = (self.sums.refine_left(best_left), is_consistent_left(best_left, best_right, width));
        let right = (self.sums.refine_right(best_right), is_consistent_right(best_left, best_right, width));
        [left, right].map(|(mut disparities, mut trusted)| {
            distrust_specks(&disparities, &mut trusted, width, SMALLEST_SURFACE);
            disparities.iter_mut().zip(&trusted).filter(|(_, t)| !**t).for_each(|(d, _)| *d = f32::NAN);
            disparities
        })
    }

    /// Takes what is not known from a map of half the size.
    fn dense_from(&self, coarse: &Disparities, known: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let width = self.left.width;
        let from = |a: usize| (a / width / 2) * coarse.width + (a % width) / 2;
        let one = |(a, &d): (usize, &f32)| {
            if d.is_nan() { (2.0 * coarse.left[from(a)]).min(self.most()) } else { d }
        };
        let filled: Vec<f32> = known.par_iter().enumerate().map(one).collect();
        let support = (0..filled.len()).map(|a| coarse.confidence[from(a)]).collect();
        (
            weighted_median(&filled, &self.left.colours, width, MEDIAN_RADIUS, MEDIAN_COLOURS, |_| true),
            support,
        )
    }
}

/// Costs of all disparities, averaged as the options say. (Candidates of neighbours differ after a coarser map: their
/// costs cannot be averaged.)
fn averaged_volume(
    pair: (&Image, &Image),
    left: &View,
    options: &Options,
    disparities: usize,
) -> Result<Volume> {
    let (width, height) = (left.width, left.height);
    match options.cost.aggregation {
        Aggregation::EdgeAware { .. } => {
            let costs = cost(pair.0, pair.1, disparities, &options.cost)?;
            Ok(Volume::of_costs((width, height), &costs, options.cost.largest()))
        }
        Aggregation::None => Ok(Volume::of_all(pair, &options.cost, disparities)),
        Aggregation::Box { radius } => {
            let mut volume = Volume::of_all(pair, &options.cost, disparities);
            aggregate(&mut volume, &Arms::square(width, height, radius), true);
            Ok(volume)
        }
        Aggregation::Cross => {
            let mut volume = Volume::of_all(pair, &options.cost, disparities);
            let arms = Arms::new(left, &Support::default());
            (0..CROSS_ROUNDS).for_each(|k| aggregate(&mut volume, &arms, k % 2 == 0));
            Ok(volume)
        }
    }
}

/// Fills what is not known, and smooths. Also returns the support of the filled pixels.
fn dense(view: &View, own: &[f32], other: &[f32], most: f32) -> (Vec<f32>, Vec<f32>) {
    let width = view.width;
    let regions = view.averaged_colours(COLOUR_RADIUS);
    let (filled, support) = fill(&Known { width, colours: &regions, own, other }, most);
    let colours = &view.colours;
    let filled =
        weighted_median(&filled, colours, width, FILLED_MEDIAN_RADIUS, MEDIAN_COLOURS, |a| own[a].is_nan());
    (weighted_median(&filled, colours, width, MEDIAN_RADIUS, MEDIAN_COLOURS, |_| true), support)
}

/// The picture at half the size: means of 2 x 2 pixels.
pub(crate) fn halved(image: &Image) -> Image {
    let (width, height, channels) = (image.width.div_ceil(2), image.height.div_ceil(2), image.channels);
    let mut data = Vec::with_capacity(width * height * channels);
    for a in 0..width * height {
        let (x, y) = (2 * (a % width), 2 * (a / width));
        let (right, below) = ((x + 1).min(image.width - 1), (y + 1).min(image.height - 1));
        let four =
            [image.pixel(x, y), image.pixel(right, y), image.pixel(x, below), image.pixel(right, below)];
        data.extend((0..channels).map(|c| 0.25 * four.iter().map(|p| p[c]).sum::<f32>()));
    }
    Image { width, height, channels, data }
}

/// The first candidate of each pixel, so that those of a coarser map and its neighbours lie within.
fn first_candidates(coarse: &Disparities, width: usize, height: usize, disparities: usize) -> Vec<u16> {
    let last = disparities.saturating_sub(FINE_CANDIDATES);
    let one = |a: usize| {
        let (x, y) = ((a % width) / 2, (a / width) / 2);
        let d = 2.0 * coarse.left[y * coarse.width + x];
        (d.round() as usize).saturating_sub(FINE_CANDIDATES / 2).min(last) as u16
    };
    (0..width * height).map(one).collect()
}
