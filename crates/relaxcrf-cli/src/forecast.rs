//! Forecast of a run's time, from a timed piece of the problem. The number of iterations differs between images, so the
//! forecast may be wrong.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result};
use relaxcrf::Image;
use relaxcrf::solve::{Pipeline, Settings, Solve};
use relaxcrf_lab::inputs;
use relaxcrf_lab::options::ModelOptions;
use relaxcrf_lab::parallel::STACK;

/// Largest number of pixels of the piece. Large enough for kernels of the usual width, small enough to be quick.
const MAX_PIXELS: usize = 1 << 14;

/// Seconds per pixel on one thread, from the middle of an image with its unary energies.
pub fn seconds_per_pixel(
    image: &Image,
    rows: &[f32],
    labels: usize,
    model: &ModelOptions,
    method: &Pipeline,
    settings: &Settings,
) -> Result<f64> {
    let pool = rayon::ThreadPoolBuilder::new().stack_size(STACK).num_threads(1).build();
    let pool = pool.context("no thread can be started")?;
    let (columns, lines) = middle(image.width, image.height);
    let data = cut(&image.data, image.width, image.channels, &columns, &lines);
    let piece = Image { width: columns.len(), height: lines.len(), channels: image.channels, data };
    let rows = cut(rows, image.width, labels, &columns, &lines);
    let started = Instant::now();
    pool.install(|| -> Result<()> {
        let problem = inputs::assemble(&piece, labels, rows, model, settings.seed)?;
        Solve::new(&problem).method(method).settings(settings).run()?;
        Ok(())
    })?;
    Ok(started.elapsed().as_secs_f64() / (piece.width * piece.height) as f64)
}

/// Columns and lines in the middle of an image, in its own proportions.
fn middle(width: usize, height: usize) -> (Range<usize>, Range<usize>) {
    let scale = (MAX_PIXELS as f64 / (width * height) as f64).sqrt().min(1.0);
    let part = |whole: usize| {
        let length = ((whole as f64 * scale) as usize).clamp(1, whole);
        let start = (whole - length) / 2;
        start..start + length
    };
    (part(width), part(height))
}

/// Cuts columns and lines out of an array with `each` values per pixel.
fn cut(values: &[f32], width: usize, each: usize, columns: &Range<usize>, lines: &Range<usize>) -> Vec<f32> {
    let line = |y: usize| &values[(y * width + columns.start) * each..(y * width + columns.end) * each];
    lines.clone().flat_map(line).copied().collect()
}

/// Formats a duration for people.
pub fn shown_time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", 1e3 * s),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_piece_is_cut_from_the_middle() {
        assert_eq!(middle(100, 50), (0..100, 0..50));
        let (columns, lines) = middle(1000, 500);
        assert!(columns.len() * lines.len() <= MAX_PIXELS && columns.len().abs_diff(2 * lines.len()) <= 1);
        assert_eq!(columns.start + columns.end, 1000 - columns.len() % 2);
        assert_eq!(middle(1, 1 << 20).0, 0..1);
        let values: Vec<f32> = (0..24).map(|v| v as f32).collect();
        assert_eq!(cut(&values, 4, 2, &(1..3), &(1..2)), [10.0, 11.0, 12.0, 13.0]);
    }
}
