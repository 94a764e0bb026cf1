use super::*;
use crate::Exact;
use proptest::prelude::*;

fn cloud(n: usize, dims: usize, side: f32, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    (0..n * dims)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32 * side
        })
        .collect()
}

fn run(filter: &Exact, values: &[f32], mode: OrderedMode) -> Vec<f32> {
    let channels = values.len() / filter.points().max(1);
    let mut out = vec![0.0; values.len()];
    ordered(filter, values, channels, mode, Scaling::NONE, &mut out, &mut Workspace::new());
    out
}

fn modes() -> [OrderedMode; 5] {
    let halves = |leaf| OrderedMode::DivideAndConquer { leaf };
    [OrderedMode::Exact, OrderedMode::Binned { bins: 16 }, halves(0), halves(1), halves(30)]
}

/// Three points whose kernel is [[1, 1/2, 1/4], [1/2, 1, 1/2], [1/4, 1/2, 1]].
fn three_points() -> Exact {
    let s = (2.0 * 2.0_f32.ln()).sqrt();
    Exact::new(vec![s, 0.0, 0.0, 0.0, 0.0, s], 2).unwrap()
}

fn assert_close(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len());
    for (i, (&g, &w)) in got.iter().zip(expected).enumerate() {
        assert!((g - w).abs() <= tolerance, "at {i}: {g} instead of {w}");
    }
}

#[test]
fn oracle_of_three_points() {
    for mode in modes() {
        assert_close(&run(&three_points(), &[0.9, 0.4, 0.7], mode), &[0.75, -1.0, 0.25], 1e-6);
    }
}

#[test]
fn all_ones_kernel_gives_ranks() {
    let filter = Exact::new(vec![0.5; 4], 1).unwrap();
    for mode in modes() {
        assert_eq!(run(&filter, &[0.9, 0.6, 0.3, 0.1], mode), [3.0, 1.0, -1.0, -3.0]);
        assert_eq!(run(&filter, &[0.5; 4], mode), [0.0; 4]);
        assert_eq!(run(&filter, &[0.0, 1.0, 1.0, 0.0], mode), [-2.0, 2.0, 2.0, -2.0]);
    }
}

#[test]
fn channels_and_scalings_are_kept_apart() {
    let filter = three_points();
    let values = [0.9, 0.0, 0.4, 1.0, 0.7, 1.0];
    let (left, right) = ([1.0, 2.0, 3.0], [0.5, 1.0, 4.0]);
    let scaling = Scaling { left: Some(&left), right: Some(&right), gain: -1.0, add: true };
    // First channel: order 1 < 2 < 0; second: point 0 below a tie.
    let expected = [
        10.0 - (0.5 + 1.0),
        10.0 + (0.5 + 1.0),
        10.0 + 2.0 * (0.25 + 2.0),
        10.0 - 2.0 * 0.25,
        10.0 - 3.0 * (0.5 - 0.125),
        10.0 - 3.0 * 0.125,
    ];
    for mode in modes() {
        let mut out = [10.0; 6];
        ordered(&filter, &values, 2, mode, scaling, &mut out, &mut Workspace::new());
        assert_close(&out, &expected, 1e-5);
    }
}

#[test]
fn more_bins_come_closer() {
    let n = 600;
    let filter = Exact::new(cloud(n, 2, 4.0, 3), 2).unwrap();
    let values = cloud(n, 1, 1.0, 4);
    let truth = run(&filter, &values, OrderedMode::Exact);
    let size = truth.iter().map(|z| z * z).sum::<f32>().sqrt();
    let error = |bins| {
        let z = run(&filter, &values, OrderedMode::Binned { bins });
        z.iter().zip(&truth).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() / size
    };
    let errors: Vec<f32> = [4, 8, 16, 32, 64, 128].into_iter().map(error).collect();
    assert!(errors.windows(2).all(|w| w[1] < w[0] * 0.8), "{errors:?}");
    assert!(errors[5] < 0.02, "{errors:?}");
    assert!(error(600) < 1e-5, "every value has its own bin");
}

#[test]
fn huber_table_gives_the_smoothed_gradient() {
    let filter = three_points();
    let values = [0.9, 0.4, 0.7];
    let bins_of = |column: &[f32]| {
        let bins = Bins::adaptive(column, 8);
        let table = super::super::huber_table(bins.representatives(), 0.4);
        (bins, table)
    };
    let mut out = [0.0; 3];
    binned_channels(&filter, &values, 1, bins_of, Scaling::NONE, &mut out, &mut Workspace::new());
    assert_close(&out, &[0.5 + 0.25 * 0.5, -0.5 - 0.5 * 0.75, 0.5 * 0.75 - 0.25 * 0.5], 1e-6);
}

#[test]
fn nothing_and_nan_do_not_panic() {
    let none = Exact::new(Vec::new(), 2).unwrap();
    let odd = Exact::new(vec![0.0; 5], 1).unwrap();
    for mode in modes() {
        assert!(run(&none, &[], mode).is_empty());
        assert!(run(&odd, &[], mode).is_empty());
        let z = run(&odd, &[f32::NAN, 1.0, f32::NAN, -f32::NAN, 0.0], mode);
        assert!(z.iter().all(|z| z.is_finite()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Values on a coarse grid (many ties) or a fine one (hardly any), for odd and even N.
    #[test]
    fn all_modes_agree_and_are_antisymmetric(
        n in 1_usize..180, steps in prop::sample::select(vec![1_u32, 2, 5, 1_000_000]), seed in any::<u64>(),
    ) {
        let filter = Exact::new(cloud(n, 3, 3.0, seed), 3).unwrap();
        let values: Vec<f32> =
            cloud(n, 2, 1.0, seed ^ 1).iter().map(|v| (v * steps as f32).round() / steps as f32).collect();
        let exact = run(&filter, &values, OrderedMode::Exact);
        for mode in [
            OrderedMode::Binned { bins: 200 },
            OrderedMode::DivideAndConquer { leaf: 0 },
            OrderedMode::DivideAndConquer { leaf: 7 },
            OrderedMode::DivideAndConquer { leaf: 30 },
        ] {
            let z = run(&filter, &values, mode);
            for (a, (&got, &expected)) in z.iter().zip(&exact).enumerate() {
                prop_assert!((got - expected).abs() <= 1e-5 * n as f32, "{:?} at {}: {} {}", mode, a, got, expected);
            }
        }
        for c in 0..2 {
            let column = |x: &[f32]| x.iter().skip(c).step_by(2).map(|&v| f64::from(v)).collect::<Vec<_>>();
            let (z, y) = (column(&exact), column(&values));
            prop_assert!(z.iter().sum::<f64>().abs() <= 1e-6 * (n * n) as f64);
            let inner: f64 = z.iter().zip(&y).map(|(z, y)| z * y).sum();
            let mut variation = 0.0;
            for a in 0..n as u32 {
                for b in 0..a {
                    let k = f64::from(filter.pair(a, b).unwrap());
                    variation += k * (y[a as usize] - y[b as usize]).abs();
                }
            }
            prop_assert!((inner - variation).abs() <= 1e-5 * variation.max(1.0));
        }
    }
}
