//! Disparities of pixels without a trusted one: hidden in the other picture, outside it, or matched wrongly.
//!
//! Such a pixel has no unary energy of its own, so in a dense CRF its label follows from the messages of all other pixels:
//! Gaussians of position and colour, summed here over a grid of trusted pixels. Each source votes with the plane through
//! its surface instead of its own disparity, so that slanted surfaces go on behind what hides them.

use rayon::prelude::*;

/// Distances to which sources are looked for, one after the other until there is enough support.
const REACHES: [usize; 4] = [10, 24, 60, 160];

/// Sources looked at to each side.
const SOURCES_PER_SIDE: usize = 10;

/// Mean colour difference at which the weight of a source has fallen to 1/e.
const COLOUR_SCALE: f32 = 8.0;

/// Weight of the kernel of position alone, beside one of position and colour of weight 1.
const COLOURLESS: f32 = 0.05;

/// Sum of weights at which a pixel does not look further.
const ENOUGH_SUPPORT: f32 = 4.0;

/// Weight of a vote that the other picture contradicts: it should see this pixel, but sees something behind it.
const CONTRADICTED: f32 = 0.1;

/// Half the window that slopes are fitted in.
const SLOPE_RADIUS: usize = 9;

/// The steepest surface that is continued.
const MAX_SLOPE: f32 = 0.5;

/// Adds this many pixels' worth of evidence for a slope of zero to each fit.
const SLOPE_DAMPING: f32 = 150.0;

/// What is known when pixels are filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub width: usize,
    /// Three channels per pixel.
    pub colours: &'a [[u8; 3]],
    /// Disparities of this view; NaN where none is trusted.
    pub own: &'a [f32],
    /// Disparities of the right view; NaN where none is trusted.
    pub other: &'a [f32],
}

/// A plane through a trusted pixel: its disparity and its slopes.
#[derive(Debug, Clone, Copy)]
struct Plane {
    disparity: f32,
    slope: [f32; 2],
}

/// Fills every pixel without a disparity. Returns the disparities and the support of the filled ones, from 0 to 1.
pub(crate) fn fill(known: &Known, most: f32) -> (Vec<f32>, Vec<f32>) {
    let Known { width, own, .. } = *known;
    let n = own.len();
    let mut filled = own.to_vec();
    let mut support = vec![1.0; n];
    let mut open: Vec<u32> = (0..n as u32).filter(|&a| own[a as usize].is_nan()).collect();
    if open.is_empty() {
        return (filled, support);
    }
    let planes = fit_planes(known);
    for (k, reach) in REACHES.into_iter().enumerate() {
        let is_last = k + 1 == REACHES.len();
        let weights = Weights::new(reach);
        let votes =
            |bins: &mut Bins, &a: &u32| vote(known, &planes, a as usize, (reach, &weights), bins, most);
        let answers: Vec<Option<(f32, f32, f32)>> = open.par_iter().map_init(Bins::new, votes).collect();
        let mut left = Vec::new();
        for (&a, answer) in open.iter().zip(&answers) {
            match *answer {
                Some((value, agreement, total)) if is_last || total >= ENOUGH_SUPPORT => {
                    (filled[a as usize], support[a as usize]) = (value, agreement);
                }
                _ => left.push(a),
            }
        }
        open = left;
    }
    for &a in &open {
        support[a as usize] = 0.0;
    }
    fill_from_background(&mut filled, width);
    (filled, support)
}

/// Every second pixel of every second row is a source.
const GRID: usize = 2;

/// Planes at the trusted pixels of the grid.
fn fit_planes(known: &Known) -> Vec<Option<Plane>> {
    let Known { width, own, .. } = *known;
    let height = own.len() / width;
    let columns = width.div_ceil(GRID);
    let mut planes = vec![None; columns * height.div_ceil(GRID)];
    planes.par_chunks_mut(columns).enumerate().for_each(|(row, planes)| {
        for (column, plane) in planes.iter_mut().enumerate() {
            *plane = fit_plane(own, width, height, column * GRID, row * GRID);
        }
    });
    planes
}

fn fit_plane(own: &[f32], width: usize, height: usize, x: usize, y: usize) -> Option<Plane> {
    let disparity = own[y * width + x];
    if disparity.is_nan() {
        return None;
    }
    let (mut xx, mut xy, mut yy, mut dx, mut dy) = (SLOPE_DAMPING, 0.0, SLOPE_DAMPING, 0.0, 0.0);
    let (mut count, mut sum) = (0.0, 0.0);
    for v in (y.saturating_sub(SLOPE_RADIUS)..=(y + SLOPE_RADIUS).min(height - 1)).step_by(2) {
        for u in (x.saturating_sub(SLOPE_RADIUS)..=(x + SLOPE_RADIUS).min(width - 1)).step_by(2) {
            let (i, j) = (u as f32 - x as f32, v as f32 - y as f32);
            let difference = own[v * width + u] - disparity;
            // Pixels of other surfaces, and NaN, do not count.
            if difference.abs() <= 0.6 + MAX_SLOPE * i.abs().max(j.abs()) {
                (xx, xy, yy) = (xx + i * i, xy + i * j, yy + j * j);
                (dx, dy) = (dx + i * difference, dy + j * difference);
                (count, sum) = (count + 1.0, sum + difference);
            }
        }
    }
    let determinant = xx * yy - xy * xy;
    let slope = [(dx * yy - dy * xy) / determinant, (dy * xx - dx * xy) / determinant];
    let slope = slope.map(|s| s.clamp(-MAX_SLOPE, MAX_SLOPE));
    Some(Plane { disparity: disparity + if count > 20.0 { 0.5 * sum / count } else { 0.0 }, slope })
}

/// Weights of sources by their distance along one axis, and by their colour's difference summed over the channels.
struct Weights {
    by_distance: Vec<f32>,
    by_colour: Vec<f32>,
}

impl Weights {
    fn new(reach: usize) -> Self {
        let per_distance = -0.5 / (0.5 * reach as f32).powi(2);
        let reach = reach + 2 * GRID;
        Self {
            by_distance: (0..=reach).map(|i| (per_distance * (i * i) as f32).exp()).collect(),
            by_colour: (0..=3 * 255)
                .map(|s| COLOURLESS + (-(s as f32) / (3.0 * COLOUR_SCALE)).exp())
                .collect(),
        }
    }
}

/// Votes sorted into bins of half a disparity: weights, and weights times disparities.
type Bins = Vec<[f32; 2]>;
const BINS_PER_DISPARITY: f32 = 2.0;

/// Bins whose votes support each other.
const SUPPORTING_BINS: usize = 4;

/// The disparity with most support among the sources within reach, its fraction of the votes, and all votes' weight.
fn vote(
    known: &Known,
    planes: &[Option<Plane>],
    a: usize,
    (reach, weights): (usize, &Weights),
    bins: &mut Bins,
    most: f32,
) -> Option<(f32, f32, f32)> {
    let Known { width, colours, other, .. } = *known;
    let height = colours.len() / width;
    let (x, y) = (a % width, a / width);
    let columns = width.div_ceil(GRID);
    let step = reach.div_ceil(SOURCES_PER_SIDE * GRID).max(1);
    let reach = reach / GRID;
    let (column, row) = (x / GRID, y / GRID);
    bins.clear();
    bins.resize((BINS_PER_DISPARITY * most) as usize + 1, [0.0; 2]);
    let mut total = 0.0;
    let first = |at: usize| at - (at.min(reach) / step) * step;
    for v in (first(row)..=(row + reach).min(height.div_ceil(GRID) - 1)).step_by(step) {
        let by_row = weights.by_distance[y.abs_diff(v * GRID)];
        let line = &planes[v * columns..][..columns];
        for u in (first(column)..=(column + reach).min(columns - 1)).step_by(step) {
            let Some(plane) = line[u] else { continue };
            let (p, q) = (colours[a], colours[v * GRID * width + u * GRID]);
            let difference: u32 = (0..3).map(|k| u32::from(p[k].abs_diff(q[k]))).sum();
            let mut weight =
                by_row * weights.by_distance[x.abs_diff(u * GRID)] * weights.by_colour[difference as usize];
            let (i, j) = (x as f32 - (u * GRID) as f32, y as f32 - (v * GRID) as f32);
            let value = (plane.disparity + plane.slope[0] * i + plane.slope[1] * j).clamp(0.0, most);
            let seen = x as f32 - value;
            if seen >= 0.0 && other[y * width + (seen + 0.5) as usize] < value - 1.0 {
                weight *= CONTRADICTED;
            }
            total += weight;
            let bin = &mut bins[(BINS_PER_DISPARITY * value) as usize];
            *bin = [bin[0] + weight, bin[1] + weight * value];
        }
    }
    let mut best = [0.0f32; 2];
    for window in bins.windows(SUPPORTING_BINS.min(bins.len())) {
        let sum = window.iter().fold([0.0f32; 2], |s, b| [s[0] + b[0], s[1] + b[1]]);
        if sum[0] > best[0] {
            best = sum;
        }
    }
    (best[0] > 0.0).then(|| ((best[1] / best[0]).clamp(0.0, most), (best[0] / total).min(1.0), total))
}

/// Gives each pixel that still has none the lower disparity of its nearest neighbours in the row: what is hidden lies
/// behind what hides it. Rows without any take a neighbouring row's.
fn fill_from_background(disparities: &mut [f32], width: usize) {
    disparities.par_chunks_mut(width).for_each(|row| {
        let mut from_left = vec![f32::NAN; width];
        let mut last = f32::NAN;
        for (from, &d) in from_left.iter_mut().zip(row.iter()) {
            last = if d.is_nan() { last } else { d };
            *from = last;
        }
        last = f32::NAN;
        for (d, &from) in row.iter_mut().zip(&from_left).rev() {
            last = if d.is_nan() { last } else { *d };
            // The smaller of two; of one NaN and a number, the number.
            *d = if d.is_nan() { from.min(last) } else { *d };
        }
    });
    let height = disparities.len() / width;
    let copy_row = |disparities: &mut [f32], from: usize, to: usize| {
        if disparities[to * width].is_nan() && !disparities[from * width].is_nan() {
            disparities.copy_within(from * width..(from + 1) * width, to * width);
        }
    };
    (1..height).for_each(|y| copy_row(disparities, y - 1, y));
    (1..height).rev().for_each(|y| copy_row(disparities, y, y - 1));
    disparities.iter_mut().filter(|d| d.is_nan()).for_each(|d| *d = 0.0);
}
