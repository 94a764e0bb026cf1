//! The whole way, and each part against its definition.

use proptest::prelude::*;
use relaxcrf::Image;
use relaxcrf::filter::rng::{Rng, mix};

use crate::fill::{Known, fill};
use crate::median::weighted_median;
use crate::pair::View;
use crate::paths::{Steps, sum_over_paths};
use crate::support::{Arms, Support, aggregate};
use crate::volume::{GROUP, Volume};
use crate::*;

const WIDTH: usize = 120;
const HEIGHT: usize = 80;
const DISPARITIES: usize = 24;

/// A slanted wall behind a flat square, both with random texture of the given strength, and the left truth.
fn scene(strength: f64, seed: u64) -> (Image, Image, Vec<f32>) {
    let texture = |surface: u64, x: f64, y: usize| {
        let cell = |i: i64| {
            let key = mix(seed ^ mix(surface << 40 ^ ((i as u64) << 16) ^ y as u64));
            (key >> 40) as f64 / (1u64 << 24) as f64
        };
        let base = x.floor();
        let part = x - base;
        128.0
            + strength * ((1.0 - part) * cell(base as i64) + part * cell(base as i64 + 1) - 0.5)
            + if surface == 1 { 40.0 } else { 0.0 }
    };
    let wall = |x: f64, y: usize| 4.0 + 0.05 * x + 0.02 * y as f64;
    let in_square = |x: f64, y: usize| (50.0..80.0).contains(&x) && (20..60).contains(&y);
    const FRONT: f64 = 18.0;
    let (mut left, mut right, mut truth) = (Vec::new(), Vec::new(), Vec::new());
    let mut noise = Rng::new(seed);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let x = x as f64;
            let (value, d) =
                if in_square(x, y) { (texture(1, x, y), FRONT) } else { (texture(0, x, y), wall(x, y)) };
            left.push((value + noise.normal()) as f32);
            truth.push(d as f32);
            // Right pixel x shows the left coordinate u with u - d(u) = x.
            let u = (x + 4.0 + 0.02 * y as f64) / (1.0 - 0.05);
            let front = x + FRONT;
            let value = if in_square(front, y) { texture(1, front, y) } else { texture(0, u, y) };
            right.push((value + noise.normal()) as f32);
        }
    }
    let image = |data| Image { width: WIDTH, height: HEIGHT, channels: 1, data };
    (image(left), image(right), truth)
}

fn bad(found: &[f32], truth: &[f32], limit: f32) -> f64 {
    found.iter().zip(truth).filter(|(f, t)| (**f - **t).abs() > limit).count() as f64 / truth.len() as f64
}

#[test]
fn slanted_wall_behind_a_square_is_found_at_every_quality() {
    let (left, right, truth) = scene(120.0, 3);
    for quality in [Quality::Fast, Quality::Normal, Quality::Best] {
        let found =
            match_pair(&left, &right, DISPARITIES, &Options { quality, ..Options::default() }).unwrap();
        let wrong = bad(&found.left, &truth, 1.0);
        assert!(wrong < 0.04, "{quality:?}: {wrong}");
        assert!(found.left.iter().all(|d| (0.0..=(DISPARITIES - 1) as f32).contains(d)));
        assert!(found.confidence.iter().all(|c| (0.0..=1.0).contains(c)));
        // Pixels left of the square, hidden behind it in the right picture.
        let hidden = (25..55).flat_map(|y| (42..48).map(move |x| y * WIDTH + x));
        let (count, marked) = hidden.fold((0, 0), |(n, m), a| (n + 1, m + usize::from(found.occluded[a])));
        assert!(10 * marked > 8 * count, "{quality:?}: {marked} of {count} hidden pixels are marked");
    }
}

#[test]
fn subpixel_disparities_follow_the_slant() {
    let (left, right, truth) = scene(120.0, 4);
    let found = match_pair(&left, &right, DISPARITIES, &Options::default()).unwrap();
    let wrong = bad(&found.left, &truth, 0.5);
    assert!(wrong < 0.08, "{wrong}");
    let seen = (0..truth.len()).filter(|&a| !found.occluded[a]);
    let error: f64 = seen.clone().map(|a| f64::from((found.left[a] - truth[a]).abs())).sum();
    let error = error / seen.count() as f64;
    assert!(error < 0.25, "mean error {error}");
}

#[test]
fn weak_texture_is_matched_through_its_neighbourhood() {
    let (left, right, truth) = scene(14.0, 5);
    let found = match_pair(&left, &right, DISPARITIES, &Options::default()).unwrap();
    let wrong = bad(&found.left, &truth, 1.0);
    assert!(wrong < 0.10, "{wrong}");
}

#[test]
fn exposure_of_one_picture_changes_little() {
    let (left, mut right, truth) = scene(120.0, 6);
    right.data.iter_mut().for_each(|v| *v = 0.7 * *v + 10.0);
    let found = match_pair(&left, &right, DISPARITIES, &Options::default()).unwrap();
    let wrong = bad(&found.left, &truth, 1.0);
    assert!(wrong < 0.05, "{wrong}");
}

#[test]
fn right_view_agrees_with_the_left_one() {
    let (left, right, _) = scene(120.0, 7);
    let matching = Matching::new(&left, &right, DISPARITIES, &Options::default()).unwrap();
    let (found, other) = (matching.finish(None), matching.finish_right(None));
    let seen = (0..found.left.len()).filter(|&a| !found.occluded[a]);
    let agrees = |&a: &usize| {
        let x = (a % WIDTH) as f32 - found.left[a].round();
        x >= 0.0 && (other[a / WIDTH * WIDTH + x as usize] - found.left[a]).abs() <= 2.0
    };
    assert!(10 * seen.clone().filter(agrees).count() > 9 * seen.count());
}

#[test]
fn every_measure_and_aggregation_finds_the_scene() {
    let (left, right, truth) = scene(120.0, 8);
    let measures = [
        Measure::AbsoluteDifference,
        Measure::BirchfieldTomasi,
        Measure::Census { radius: 2 },
        Measure::AdCensus,
        Measure::Zncc { radius: 2 },
    ];
    let aggregations = [
        Aggregation::None,
        Aggregation::Box { radius: 1 },
        Aggregation::Cross,
        Aggregation::EdgeAware { sigma_xy: 2.0, sigma_rgb: 20.0 },
    ];
    for (k, measure) in measures.into_iter().enumerate() {
        for (j, aggregation) in aggregations.into_iter().enumerate() {
            if k != 3 && j != 2 {
                continue;
            }
            let cost = CostOptions { aggregation, ..CostOptions::new(measure) };
            let found =
                match_pair(&left, &right, DISPARITIES, &Options { cost, ..Options::default() }).unwrap();
            let wrong = bad(&found.left, &truth, 1.0);
            assert!(wrong < 0.08, "{measure:?}, {aggregation:?}: {wrong}");
        }
    }
}

#[test]
fn result_does_not_depend_on_the_number_of_threads() {
    let (left, right, _) = scene(60.0, 9);
    let run = |threads: usize, quality| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let options = Options { quality, ..Options::default() };
        pool.install(|| match_pair(&left, &right, DISPARITIES, &options).unwrap())
    };
    for quality in [Quality::Fast, Quality::Normal] {
        let (one, three) = (run(1, quality), run(3, quality));
        assert_eq!(one.left, three.left);
        assert_eq!(one.confidence, three.confidence);
    }
}

#[test]
fn labels_of_a_crf_replace_the_best_sums() {
    let (left, right, _) = scene(120.0, 10);
    let matching = Matching::new(&left, &right, DISPARITIES, &Options::default()).unwrap();
    let unaries = matching.unaries(8.0);
    assert!(unaries.iter().all(|u| (0.0..=8.0).contains(u)));
    let argmin = |row: &[f32]| row.iter().position(|&u| u == 0.0).unwrap() as u16;
    let labels: Vec<u16> = unaries.chunks_exact(DISPARITIES).map(argmin).collect();
    assert_eq!(matching.finish(Some(&labels)).left, matching.finish(None).left);
}

#[test]
fn small_memory_goes_from_coarse_to_fine() {
    let (left, right, truth) = scene(120.0, 11);
    let all = Options::default();
    let bounded = Options { max_bytes: 500_000, ..all };
    assert!(bounded.bytes(WIDTH, HEIGHT, DISPARITIES) <= all.bytes(WIDTH, HEIGHT, DISPARITIES));
    assert!(bounded.bytes(WIDTH, HEIGHT, 100) < all.bytes(WIDTH, HEIGHT, 100));
    let found = match_pair(&left, &right, DISPARITIES, &bounded).unwrap();
    assert!(bad(&found.left, &truth, 1.0) < 0.05);
}

#[test]
fn range_is_estimated_and_mistakes_are_noticed() {
    let (left, right, truth) = scene(120.0, 12);
    let found = estimate_range(&left, &right).unwrap();
    let largest = truth.iter().copied().fold(0.0, f32::max) as usize;
    assert!((largest + 1..=largest + 10).contains(&found.disparities), "{found:?}");
    assert!(found.notes.is_empty(), "{found:?}");
    let swapped = estimate_range(&right, &left).unwrap();
    assert!(matches!(swapped.notes[..], [Note::Swapped(..), ..]), "{swapped:?}");
    let mut moved = right.clone();
    moved.data.rotate_right(2 * WIDTH);
    let vertical = estimate_range(&left, &moved).unwrap();
    assert!(vertical.notes.iter().any(|n| matches!(n, Note::Vertical(..))), "{vertical:?}");
    for note in swapped.notes.iter().chain(&vertical.notes) {
        assert!(note.to_string().contains("expected"));
    }
}

#[test]
fn tiny_and_flat_pictures_give_some_map() {
    for (width, height) in [(1, 1), (2, 1), (1, 5), (3, 3), (17, 2)] {
        let flat = Image { width, height, channels: 3, data: vec![7.0; 3 * width * height] };
        for quality in [Quality::Fast, Quality::Normal] {
            let options = Options { quality, ..Options::default() };
            let found = match_pair(&flat, &flat, width, &options).unwrap();
            assert_eq!(found.left.len(), width * height);
            assert!(found.left.iter().all(|d| d.is_finite()));
        }
        let range = estimate_range(&flat, &flat).unwrap();
        assert!((1..=width).contains(&range.disparities));
    }
}

#[test]
fn bad_pairs_are_refused() {
    let (left, _, _) = scene(60.0, 1);
    let small = Image { width: 1, height: 1, channels: 1, data: vec![0.0] };
    let message =
        |d, right: &Image| match_pair(&left, right, d, &Options::default()).unwrap_err().to_string();
    assert!(message(8, &small).contains("1 x 1 pixels"));
    assert!(message(0, &left).contains("1 to 120"));
    assert!(message(121, &left).contains("1 to 120"));
}

fn random_view(width: usize, height: usize, seed: u64) -> View {
    let values = (0..width * height).map(|i| (mix(seed ^ i as u64) >> 56) as f32).collect();
    View::new(&Image { width, height, channels: 1, data: values })
}

proptest! {
    /// Path sums with candidates that differ between pixels, against the recursion written down pixel by pixel.
    #[test]
    fn path_sums_follow_their_definition(seed in any::<u64>(), shifts in any::<bool>()) {
        const BIG: i32 = 1_000_000;
        let (width, height, disparities) = (6, 5, 24);
        let mut rng = Rng::new(seed);
        let stride = GROUP;
        let n = width * height;
        let first: Vec<u16> = (0..n).map(|_| if shifts { rng.below(9) as u16 } else { 0 }).collect();
        let costs: Vec<u8> = (0..n * stride).map(|_| rng.below(201) as u8).collect();
        let volume = Volume { width, height, disparities, stride, first: first.clone(), costs: costs.clone() };
        let view = random_view(width, height, seed);
        let steps = Steps { small: 20, large: 90, contrast: 30.0 };
        let found = sum_over_paths(&volume, &view, &steps);
        let mut expected = vec![0i32; n * stride];
        for (dx, dy) in [(1i32, 0i32), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1)] {
            let mut path = vec![vec![BIG; disparities + 2]; n];
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by_key(|&a| (dx * (a % width) as i32 + dy * (a / width) as i32) * 100 + dx * (a % width) as i32);
            for a in order {
                let (x, y) = ((a % width) as i32 - dx, (a / width) as i32 - dy);
                let inside = (0..width as i32).contains(&x) && (0..height as i32).contains(&y);
                let old = inside.then(|| path[(y * width as i32 + x) as usize].clone());
                for k in 0..stride {
                    let d = usize::from(first[a]) + k;
                    let own = i32::from(costs[a * stride + k]);
                    let value = match &old {
                        None => own,
                        Some(old) => {
                            let b = (y * width as i32 + x) as usize;
                            let (p, q) = (view.colours[a][0], view.colours[b][0]);
                            let large = ((90.0 / (1.0 + f32::from(p.abs_diff(q)) / 30.0)).max(20.0)) as i32;
                            let least = *old.iter().min().unwrap();
                            let at = |d: Option<usize>| d.and_then(|d| old.get(d)).copied().unwrap_or(BIG);
                            let near = at(d.checked_sub(1)).min(at(Some(d + 1))) + 20;
                            own + at(Some(d)).min(near).min(least + large) - least
                        }
                    };
                    path[a][d] = value;
                    expected[a * stride + k] += value;
                }
            }
        }
        for (f, e) in found.iter().zip(&expected) {
            prop_assert_eq!(i32::from(*f), *e);
        }
    }

    /// Averages over crosses, against their definition.
    #[test]
    fn crosses_average_rows_then_columns(seed in any::<u64>()) {
        let (width, height, stride) = (9, 7, GROUP);
        let mut rng = Rng::new(seed);
        let costs: Vec<u8> = (0..width * height * stride).map(|_| rng.below(201) as u8).collect();
        let arms = Arms::new(&random_view(width, height, seed), &Support { reach: 4, colour: 120 });
        let mut volume = Volume { width, height, disparities: stride, stride, first: vec![], costs: costs.clone() };
        aggregate(&mut volume, &arms, true);
        let row_mean = |a: usize, d: usize| {
            let (l, r) = (usize::from(arms.left[a]), usize::from(arms.right[a]));
            let sum: f64 = (a - l..=a + r).map(|b| f64::from(costs[b * stride + d])).sum();
            sum / (l + r + 1) as f64
        };
        for a in 0..width * height {
            let (u, l) = (usize::from(arms.up[a]), usize::from(arms.down[a]));
            for d in 0..stride {
                let sum: f64 = (0..=u + l).map(|k| row_mean(a + k * width - u * width, d)).sum();
                let expected = sum / (u + l + 1) as f64;
                prop_assert!((f64::from(volume.costs[a * stride + d]) - expected).abs() <= 1.6);
            }
        }
    }

    /// Nothing stays open, known values stay as they are, and a plane goes on behind what hides it.
    #[test]
    fn filling_continues_planes(seed in any::<u64>(), slope in -0.2f32..0.2, every in 1usize..5) {
        let (width, height) = (40, 20);
        let mut rng = Rng::new(seed);
        let plane = |a: usize| 15.0 + slope * (a % width) as f32;
        let own: Vec<f32> = (0..width * height)
            .map(|a| if (14..22).contains(&(a % width)) || rng.below(8) < every { f32::NAN } else { plane(a) })
            .collect();
        let colours = vec![[100u8; 3]; own.len()];
        let other = vec![f32::NAN; own.len()];
        let (filled, support) = fill(&Known { width, colours: &colours, own: &own, other: &other }, 30.0);
        for a in 0..own.len() {
            prop_assert!((0.0..=1.0).contains(&support[a]));
            prop_assert!(own[a].is_nan() || filled[a] == own[a]);
            prop_assert!((filled[a] - plane(a)).abs() < 1.0, "{} at {}, {}", filled[a], a % width, plane(a));
        }
    }
}

#[test]
fn picture_without_any_trusted_pixel_is_filled_with_zero() {
    let own = vec![f32::NAN; 12];
    let (filled, support) =
        fill(&Known { width: 4, colours: &[[0; 3]; 12], own: &own, other: &own.clone() }, 5.0);
    assert_eq!(filled, [0.0; 12]);
    assert_eq!(support, [0.0; 12]);
}

#[test]
fn median_removes_single_values_and_keeps_edges_of_colour() {
    let mut disparities: Vec<f32> = (0..100).map(|a| if a % 10 < 5 { 3.0 } else { 9.0 }).collect();
    let colours: Vec<[u8; 3]> = (0..100).map(|a| if a % 10 < 5 { [10; 3] } else { [200; 3] }).collect();
    let clean = disparities.clone();
    disparities[33] = 20.0;
    assert_eq!(weighted_median(&disparities, &colours, 10, 2, 10.0, |_| true), clean);
    assert_eq!(weighted_median(&disparities, &colours, 10, 2, 10.0, |a| a != 33), disparities);
}
