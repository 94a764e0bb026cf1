//! Checks of images: values on another scale than the kernels, values that wrapped around.

use std::path::Path;

use relaxcrf::Image;

use crate::messages::Messages;
use crate::specs::BilateralSpec;

/// Warns of images whose values are not what the kernels expect.
pub fn warn_about_image(image: &Image, path: &Path, bilateral: &[BilateralSpec], messages: &Messages) {
    warn_about_scale(image, path, bilateral, messages);
    if looks_wrapped(image) {
        messages.warn(&format!(
            "{}: values seem to have wrapped around: many neighbours jump between 0 and 255, as after subtracting a mean \
             and casting to 8 bits. Use the original image; the kernels need no mean subtracted",
            path.display()
        ));
    }
}

fn warn_about_scale(image: &Image, path: &Path, bilateral: &[BilateralSpec], messages: &Messages) {
    let largest = image.data.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let widest = bilateral.iter().map(BilateralSpec::widest_color).fold(0.0, f32::max);
    // A black image is not a sign of another scale.
    if largest > 0.0 && largest <= 1.0 && widest > 1.0 {
        messages.warn(&format!(
            "{}: no value exceeds {largest}, but a colour sigma is {widest}: is the image scaled from 0 to 1? \
             Sigmas are in the image's own units",
            path.display()
        ));
    }
}

/// Largest number of neighbouring pairs examined.
const MAX_PAIRS: usize = 1 << 20;
/// Levels of 8 bits.
const LEVELS: usize = 256;
/// Neighbours this close (on the circle of levels) are on the same surface.
const NEAR_LEVELS: i32 = 32;
/// Fewest pairs that cross from 255 to 0, absolutely and as a fraction of all: fewer may be chance.
const MIN_CROSSINGS: u64 = 100;
const MIN_CROSSING_FRACTION: f64 = 0.002;
/// The cut with the fewest crossings has at most this fraction of those at 0: there the original scale ends.
const MAX_BEST_CUT: f64 = 0.5;
/// Crossings at 0 relative to those a few levels beside it. A scale that ends at 0 has few; text in black and white many.
const BESIDE: usize = 4;
const BESIDE_RATIO: std::ops::RangeInclusive<f64> = 0.25..=2.0;
/// Crossings at 0 relative to the median over all cuts. Label maps have a median of nearly 0.
const MEDIAN_RATIO: std::ops::RangeInclusive<f64> = 0.25..=20.0;

/// Whether an image of 8-bit values looks wrapped around, in some channel.
///
/// On the circle of 256 levels, neighbouring pixels move along short arcs. In a photograph hardly any arc crosses from
/// 255 to 0, since the scale ends there. After subtracting a mean and wrapping, mid-grey surfaces lie at 0 and cross it
/// as often as the levels beside it, and the end of the scale has moved to another level.
pub fn looks_wrapped(image: &Image) -> bool {
    let whole = |v: &f32| v.fract() == 0.0 && (0.0..=255.0).contains(v);
    image.data.iter().all(whole) && (0..image.channels).any(|c| is_wrapped(&crossings(image, c)))
}

/// Counts the arcs between horizontal neighbours of a channel that cross each cut (cut k lies below level k), and the
/// neighbours.
fn crossings(image: &Image, channel: usize) -> ([u64; LEVELS], u64) {
    let (width, channels) = (image.width, image.channels);
    let every = (width * image.height).div_ceil(MAX_PAIRS).max(1);
    // Where arcs begin and end, on two turns of the circle.
    let mut changes = [0i64; 2 * LEVELS + 1];
    let mut pairs = 0;
    for row in image.data.chunks_exact(width * channels).step_by(every) {
        let levels: Vec<i32> = row.iter().skip(channel).step_by(channels).map(|&v| v as i32).collect();
        for pair in levels.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let arc = (to - from + 128).rem_euclid(LEVELS as i32) - 128;
            pairs += 1;
            if arc != 0 && arc.abs() <= NEAR_LEVELS {
                let low = if arc > 0 { from } else { to } as usize;
                changes[low + 1] += 1;
                changes[low + 1 + arc.unsigned_abs() as usize] -= 1;
            }
        }
    }
    let mut counts = [0; LEVELS];
    let mut open = 0;
    for (level, change) in changes[..2 * LEVELS].iter().enumerate() {
        open += change;
        counts[level % LEVELS] += open.unsigned_abs();
    }
    (counts, pairs)
}

fn is_wrapped((counts, pairs): &([u64; LEVELS], u64)) -> bool {
    let at_zero = counts[0];
    let fewest = counts.iter().copied().min().unwrap_or(0);
    let beside = counts[BESIDE].max(counts[LEVELS - BESIDE]);
    let mut sorted = *counts;
    sorted.sort_unstable();
    let median = sorted[LEVELS / 2].max(1);
    let ratio = |n: u64| at_zero as f64 / n.max(1) as f64;
    at_zero >= MIN_CROSSINGS
        && at_zero as f64 > MIN_CROSSING_FRACTION * *pairs as f64
        && fewest as f64 <= MAX_BEST_CUT * at_zero as f64
        && BESIDE_RATIO.contains(&ratio(beside))
        && MEDIAN_RATIO.contains(&ratio(median))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::synth;
    use relaxcrf_io as io;

    fn wrapped(image: &Image, mean: impl Fn(usize) -> f32) -> Image {
        let level = |(k, &v): (usize, &f32)| (v - mean(k % image.channels)).trunc().rem_euclid(256.0);
        Image { data: image.data.iter().enumerate().map(level).collect(), ..image.clone() }
    }

    fn grey(width: usize, height: usize, level: impl Fn(usize, usize) -> usize) -> Image {
        let at = |k: usize| level(k % width, k / width) as f32;
        Image::new(width, height, 1, (0..width * height).map(at).collect()).unwrap()
    }

    #[test]
    fn wrapped_scene_is_recognised_and_the_scene_itself_is_not() {
        let ramp = grey(200, 200, |x, y| 20 + x + (x * 7 + y * 13) % 9);
        assert!(!looks_wrapped(&ramp));
        assert!(looks_wrapped(&wrapped(&ramp, |_| 117.0)));
    }

    #[test]
    fn drawings_noise_and_other_scales_are_not_taken_for_wrapped() {
        let hash = |x: usize, y: usize| (x * 7919 + y * 104_729 + x * y * 31) % 65_521;
        let text = grey(200, 200, |x, y| if hash(x / 2, y / 3) % 3 == 0 { 0 } else { 255 });
        let noise = grey(200, 200, |x, y| hash(x, y) % 256);
        let labels = grey(200, 200, |x, y| [0, 224, 128][(x / 3 + y / 5) % 3]);
        let mut fractions = wrapped(&grey(200, 200, |x, y| 20 + x + y % 7), |_| 117.0);
        fractions.data[0] = 0.5;
        for (name, image) in [("text", text), ("noise", noise), ("labels", labels), ("fractions", fractions)]
        {
            assert!(!looks_wrapped(&image), "{name}");
        }
        let scene = synth::segmentation(150, 120, 4, 1).unwrap().image;
        assert!(!looks_wrapped(&scene));
    }

    /// Pictures of a folder and the folders in it.
    fn pictures(folder: PathBuf, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() {
                pictures(path, found);
            } else if [".png", ".jpg", ".ppm", ".bmp"].iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }

    #[test]
    fn real_pictures_are_not_taken_for_wrapped_and_wrapped_photographs_are_recognised() {
        let root = std::env::var_os("RELAXCRF_SHARED").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
            PathBuf::from,
        );
        if !root.join("data").is_dir() {
            println!("skipped: {} is absent", root.join("data").display());
            return;
        }
        let mut files = Vec::new();
        pictures(root.join("data"), &mut files);
        let (mut photographs, mut hits) = (0, 0);
        for path in files {
            let Ok(image) = io::read_image(&path) else { continue };
            assert!(!looks_wrapped(&image), "{}", path.display());
            if path.parent().is_some_and(|folder| folder.ends_with("images")) {
                photographs += 1;
                hits += usize::from(looks_wrapped(&wrapped(&image, |c| [123.68, 116.78, 103.94][c % 3])));
            }
        }
        println!("{hits} of {photographs} wrapped photographs found");
        assert!(photographs > 100 && 100 * hits >= 95 * photographs, "{hits} of {photographs}");
    }
}
