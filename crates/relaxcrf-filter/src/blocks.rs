//! How points are cut: into bands, the parallel tasks, and these into blocks, the unit of the inner loops.
//!
//! Both cuts depend on the number of points only, never on that of threads.

use std::ops::Range;

/// Points per block: their rows stay in the nearest cache.
pub const POINTS_PER_BLOCK: usize = 64;

/// Fewer points than this are not worth a band of their own.
const MIN_POINTS_PER_BAND: usize = 1 << 14;

/// Bands share lattice vertices, and each copy of a vertex costs: more bands than this are for very large machines.
const MAX_BANDS: usize = 16;

/// Points per band, a multiple of [`POINTS_PER_BLOCK`].
pub(crate) fn points_per_band(points: usize) -> usize {
    let bands = (points / MIN_POINTS_PER_BAND).clamp(1, MAX_BANDS);
    points.div_ceil(bands).next_multiple_of(POINTS_PER_BLOCK)
}

/// Number of bands.
pub(crate) fn band_count(points: usize) -> usize {
    points.div_ceil(points_per_band(points).max(1))
}

/// The points of a band.
pub(crate) fn band_points(points: usize, band: usize) -> Range<usize> {
    let per_band = points_per_band(points);
    (band * per_band).min(points)..((band + 1) * per_band).min(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_all_points_once_in_whole_blocks() {
        for points in [0, 1, 63, 64, 65, 16_384, 40_000, 300_000, 10_000_000] {
            let mut next = 0;
            for band in 0..band_count(points) {
                let range = band_points(points, band);
                assert!(
                    range.start == next && !range.is_empty() && range.start.is_multiple_of(POINTS_PER_BLOCK)
                );
                next = range.end;
            }
            assert!(next == points && band_count(points) <= MAX_BANDS, "{points} points");
        }
    }
}
