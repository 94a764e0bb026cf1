use super::*;
use crate::{Operator, Ordered};

/// Pseudo-random points in a box a few standard deviations wide, so that near and far pairs both occur.
fn cloud(n: usize, dims: usize, side: f32) -> Vec<f32> {
    let mut state = 12345_u64;
    (0..n * dims)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 * side
        })
        .collect()
}

fn truth(features: &[f32], dims: usize, a: usize, b: usize) -> f64 {
    let d2: f64 = (0..dims)
        .map(|k| (f64::from(features[a * dims + k]) - f64::from(features[b * dims + k])).powi(2))
        .sum();
    (-0.5 * d2).exp()
}

#[test]
fn agrees_with_double_precision() {
    for (n, dims, side) in [(1, 1, 1.0), (130, 1, 40.0), (777, 2, 30.0), (900, 5, 6.0), (300, 9, 3.0)] {
        let features = cloud(n, dims, side);
        let filter = Exact::new(features.clone(), dims).unwrap();
        let input: Vec<f32> = cloud(n, 3, 1.0);
        let mut out = vec![0.0; n * 3];
        filter.apply(Direction::Forward, &input, 3, Scaling::NONE, &mut out, &mut Workspace::new());
        for a in 0..n {
            for c in 0..3 {
                let expected: f64 =
                    (0..n).map(|b| truth(&features, dims, a, b) * f64::from(input[b * 3 + c])).sum();
                let error = (f64::from(out[a * 3 + c]) / expected - 1.0).abs();
                assert!(error < 1e-6, "n {n}, dims {dims}, point {a}: {error:e}");
            }
        }
        let some: Vec<u32> = (0..n as u32).step_by(7).collect();
        for (&a, &sum) in some.iter().zip(&filter.row_sums_at(&some)) {
            let expected: f64 = (0..n).map(|b| truth(&features, dims, a as usize, b)).sum();
            assert!((sum / expected - 1.0).abs() < 5e-7);
        }
    }
}

#[test]
fn large_offsets_cost_no_accuracy() {
    let features: Vec<f32> = cloud(200, 2, 5.0).iter().map(|x| x + 1000.0).collect();
    let filter = Exact::new(features.clone(), 2).unwrap();
    for (a, sum) in filter.normalizer().into_iter().enumerate() {
        let expected: f64 = (0..200).map(|b| truth(&features, 2, a, b)).sum();
        assert!((f64::from(sum) / expected - 1.0).abs() < 1e-6);
    }
}

#[test]
fn between_lists_and_pairs_agree_with_the_whole() {
    let features = cloud(300, 3, 4.0);
    let filter = Exact::new(features.clone(), 3).unwrap();
    let sources: Vec<u32> = (0..300).filter(|b| b % 3 == 0).collect();
    let targets: Vec<u32> = (0..300).rev().filter(|a| a % 2 == 0).collect();
    let left: Vec<f32> = (0..300).map(|a| 1.0 + a as f32 * 0.01).collect();
    let right: Vec<f32> = (0..300).map(|b| 2.0 - b as f32 * 0.005).collect();
    let scaling = Scaling { left: Some(&left), right: Some(&right), gain: -2.0, add: true };
    let mut out = vec![1.0; 300];
    filter.apply_between(&sources, &targets, scaling, &mut out, &mut Workspace::new());
    for a in 0..300_u32 {
        let sum: f64 = sources
            .iter()
            .map(|&b| truth(&features, 3, a as usize, b as usize) * f64::from(right[b as usize]))
            .sum();
        let expected = if a % 2 == 0 { 1.0 - 2.0 * f64::from(left[a as usize]) * sum } else { 1.0 };
        assert!((f64::from(out[a as usize]) - expected).abs() < 1e-5 * expected.abs().max(1.0));
        let pair = f64::from(filter.pair(a, 17).unwrap());
        assert!((pair - truth(&features, 3, a as usize, 17)).abs() < 1e-6);
    }
    assert_eq!(filter.pair(5, 5), Some(1.0));
}

#[test]
fn degenerate_inputs_work() {
    let none = Exact::new(Vec::new(), 4).unwrap();
    assert!(none.points() == 0);
    assert!(none.normalizer().is_empty());
    assert!(none.row_sums_at(&[]).is_empty());
    none.apply_between(&[], &[], Scaling::NONE, &mut [], &mut Workspace::new());

    let same = Exact::new(vec![3.0; 500], 1).unwrap();
    assert!(same.normalizer().iter().all(|&s| s == 500.0));
    same.apply(Direction::Forward, &[], 0, Scaling::NONE, &mut [], &mut Workspace::new());

    let huge = Exact::new(vec![-3e38, 0.0, 3e38], 1).unwrap();
    assert!(huge.normalizer().iter().all(|&s| s == 1.0));
}

#[test]
fn bad_features_are_named() {
    let fail = |features: Vec<f32>, dims| Exact::new(features, dims).unwrap_err().to_string();
    assert!(fail(vec![1.0; 7], 2).contains("7 numbers"));
    assert!(fail(vec![1.0; 4], 0).contains("is 0"));
    assert!(fail(vec![1.0; 65], 65).contains("1 to 64"));
    assert!(fail(vec![1.0, 2.0, 3.0, f32::NAN], 2).contains("point 1, feature 1"));
    assert!(fail(vec![f32::INFINITY], 1).contains("inf"));
}
