//! Weighted medians: they remove single wrong disparities and follow the picture's edges.

use rayon::prelude::*;

/// Differences of disparities within a window that stem from one surface.
const ONE_SURFACE: f32 = 1.0;

/// Replaces each marked value by the weighted median of its window. Weights fall with the colour's difference, to 1/e at
/// `colour_scale`.
pub(crate) fn weighted_median(
    disparities: &[f32],
    colours: &[[u8; 3]],
    width: usize,
    radius: usize,
    colour_scale: f32,
    is_marked: impl Fn(usize) -> bool + Sync,
) -> Vec<f32> {
    let height = disparities.len() / width;
    // A sample of large windows will do.
    let step = if radius > 4 { 2 } else { 1 };
    let weights: Vec<f32> = (0..=3 * 255).map(|s| (-(s as f32) / (3.0 * colour_scale)).exp()).collect();
    let one = |window: &mut Vec<(f32, f32)>, a: usize| {
        let own = disparities[a];
        if !is_marked(a) {
            return own;
        }
        let (x, y) = (a % width, a / width);
        let (rows, columns) = (
            y.saturating_sub(radius)..=(y + radius).min(height - 1),
            x.saturating_sub(radius)..=(x + radius).min(width - 1),
        );
        let (mut least, mut largest) = (own, own);
        for v in rows.clone() {
            for &d in &disparities[v * width..][columns.clone()] {
                (least, largest) = (least.min(d), largest.max(d));
            }
        }
        // Windows on one surface are most of a picture, and have nothing to remove.
        if largest - least <= ONE_SURFACE {
            return own;
        }
        window.clear();
        for v in rows.step_by(step) {
            for u in columns.clone().step_by(step) {
                let b = v * width + u;
                let difference: u32 = (0..3).map(|i| u32::from(colours[a][i].abs_diff(colours[b][i]))).sum();
                window.push((disparities[b], weights[difference as usize]));
            }
        }
        window.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let total: f32 = window.iter().map(|w| w.1).sum();
        let mut sum = 0.0;
        let middle = window.iter().find(|w| {
            sum += w.1;
            2.0 * sum >= total
        });
        middle.map_or(own, |w| w.0)
    };
    (0..disparities.len()).into_par_iter().map_init(Vec::new, one).collect()
}
