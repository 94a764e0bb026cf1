//! The number of disparities of a pair, and what looks wrong with it, from small copies of its pictures.

use std::fmt;

use relaxcrf::Image;
use relaxcrf::error::Result;

use crate::costs::check_pair;
use crate::matching::{Matching, Options, halved};

/// What a pair looks like at a glance.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeEstimate {
    /// Number of disparities that holds those found, with some room.
    pub disparities: usize,
    /// What looks wrong.
    pub notes: Vec<Note>,
}

/// What looks wrong with a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// With the pictures exchanged more pixels match; fractions as given and exchanged.
    Swapped(f64, f64),
    /// Matches lie higher or lower in the other picture: by so many pixels, at this fraction of the places tried.
    Vertical(f64, f64),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let percent = |v: &f64| format!("{:.0}%", 100.0 * v);
        match self {
            Self::Swapped(given, exchanged) => write!(
                f,
                "left and right seem to be exchanged: {} of the pixels have a match as given, {} with the pictures the other \
                 way round; expected the left picture first",
                percent(given),
                percent(exchanged)
            ),
            Self::Vertical(pixels, fraction) => write!(
                f,
                "the pair seems not to be rectified: at {} of the places tried the best match lies {pixels:.1} pixels higher or \
                 lower; expected matches in the same row; rectify the pair first",
                percent(fraction)
            ),
        }
    }
}

/// The largest width at which the whole range is tried.
const GLANCE_WIDTH: usize = 200;

/// Disparities up to this fraction of the width are looked for.
const MAX_FRACTION: f64 = 0.5;

/// Fraction of the trusted pixels whose disparities the range must hold.
const COVERED: f64 = 0.998;

/// Looks at small copies of the pictures.
pub fn estimate_range(left: &Image, right: &Image) -> Result<RangeEstimate> {
    check_pair(left, right)?;
    let (mut a, mut b, mut scale) = (left.clone(), right.clone(), 1usize);
    while a.width > GLANCE_WIDTH {
        (a, b, scale) = (halved(&a), halved(&b), 2 * scale);
    }
    let tried = ((MAX_FRACTION * a.width as f64) as usize).max(1);
    let (found, fraction) = glance(&a, &b, tried)?;
    let (_, exchanged) = glance(&b, &a, tried)?;
    let mut notes = Vec::new();
    if exchanged > 1.5 * fraction && exchanged > fraction + 0.15 {
        notes.push(Note::Swapped(fraction, exchanged));
    }
    notes.extend(
        vertical_offset(&a, &b, &found).map(|(offset, part)| Note::Vertical(offset * scale as f64, part)),
    );
    let mut trusted: Vec<f32> = found.into_iter().filter(|d| !d.is_nan()).collect();
    trusted.sort_unstable_by(f32::total_cmp);
    let rank = ((COVERED * trusted.len() as f64) as usize).min(trusted.len().saturating_sub(1));
    let largest = f64::from(trusted.get(rank).copied().unwrap_or(0.0));
    // Room for what the small copies blur away.
    let disparities = ((largest + 1.0) * 1.08 + 1.0) * scale as f64;
    Ok(RangeEstimate {
        disparities: (disparities.ceil() as usize).clamp(2.min(left.width), left.width),
        notes,
    })
}

/// Disparities of a small pair, NaN where they are not trusted, and the fraction of trusted ones.
fn glance(left: &Image, right: &Image, disparities: usize) -> Result<(Vec<f32>, f64)> {
    let found = Matching::new(left, right, disparities, &Options::default())?.trusted();
    let count = found.iter().filter(|d| !d.is_nan()).count();
    let fraction = count as f64 / found.len() as f64;
    Ok((found, fraction))
}

/// The mean distance of matches from their row and the fraction of places with one, if the better matches of most
/// places lie in other rows.
fn vertical_offset(left: &Image, right: &Image, found: &[f32]) -> Option<(f64, f64)> {
    /// Rows tried to each side.
    const REACH: isize = 3;
    /// Half the windows compared.
    const RADIUS: usize = 3;
    /// Of the places tried, so many must disagree.
    const DOMINANT: f64 = 0.5;
    let (width, height) = (left.width, left.height);
    let margin = RADIUS + REACH as usize;
    if width <= 2 * margin || height <= 2 * margin {
        return None;
    }
    let (a, b) = (left.brightness(), right.brightness());
    let (mut places, mut off, mut distance) = (0usize, 0usize, 0.0);
    for y in (margin..height - margin).step_by(4) {
        for x in (margin..width - margin).step_by(4) {
            // Where no disparity is trusted, none in the row matches: all are tried there.
            let d = found[y * width + x];
            let candidates = if d.is_nan() { 0..=width / 4 } else { d.round() as usize..=d.round() as usize };
            let mut best = (f32::INFINITY, 0);
            let mut same_row = f32::INFINITY;
            for d in candidates {
                if x < d + RADIUS {
                    break;
                }
                for row in -REACH..=REACH {
                    let mut sum = 0.0;
                    for v in y - RADIUS..=y + RADIUS {
                        for u in x - RADIUS..=x + RADIUS {
                            sum += (a[v * width + u] - b[v.wrapping_add_signed(row) * width + u - d]).abs();
                        }
                    }
                    if sum < best.0 {
                        best = (sum, row);
                    }
                    if row == 0 {
                        same_row = same_row.min(sum);
                    }
                }
            }
            if best.0.is_finite() {
                places += 1;
                if best.0 < 0.7 * same_row && best.1 != 0 {
                    (off, distance) = (off + 1, distance + best.1.unsigned_abs() as f64);
                }
            }
        }
    }
    let fraction = off as f64 / places.max(1) as f64;
    (fraction > DOMINANT).then(|| (distance / off as f64, fraction))
}
