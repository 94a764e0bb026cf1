//! What every filter promises, checked for every filter: add one with one line at the end.

use proptest::prelude::*;
use relaxcrf::filter::{
    Binned, Blur, Direction, Exact, Lattice, Operator, OrderedMode, Scaling, Separable, Workspace,
    binned_sums, calibrate, ordered, sums_between,
};

/// Points on a grid with a colour each, from which any filter can be built.
#[derive(Debug, Clone)]
struct Scene {
    shape: [usize; 2],
    sigma: f32,
    /// N x `DIMS`: position over sigma, then three colours over their sigma.
    features: Vec<f32>,
    seed: u64,
}

const DIMS: usize = 5;
const TOLERANCE: f64 = 1e-5;

impl Scene {
    fn new(shape: [usize; 2], sigma: f32, seed: u64) -> Self {
        let mut features = Vec::new();
        let mut colour = numbers(shape[0] * shape[1] * 3, seed).into_iter();
        for y in 0..shape[0] {
            for x in 0..shape[1] {
                features.extend([y as f32 / sigma, x as f32 / sigma]);
                features.extend(colour.by_ref().take(3).map(|c| c * 2.0));
            }
        }
        Self { shape, sigma, features, seed }
    }

    /// Numbers from 0 to 1 that belong to this scene; `salt` tells arrays apart.
    fn positive(&self, count: usize, salt: u64) -> Vec<f32> {
        numbers(count, self.seed ^ (salt << 32))
    }

    /// Numbers from -1 to 1.
    fn signed(&self, count: usize, salt: u64) -> Vec<f32> {
        self.positive(count, salt).into_iter().map(|x| 2.0 * x - 1.0).collect()
    }
}

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 24) as f32
    };
    next();
    (0..count).map(|_| next()).collect()
}

fn scenes() -> impl Strategy<Value = Scene> {
    (1_usize..14, 1_usize..14, 0.3_f32..4.0, any::<u64>())
        .prop_map(|(height, width, sigma, seed)| Scene::new([height, width], sigma, seed))
}

/// A filter reduced to what it must define itself: all else takes the trait's defaults.
#[derive(Debug)]
struct Bare<'a>(&'a dyn Operator);

impl Operator for Bare<'_> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn points(&self) -> usize {
        self.0.points()
    }
    fn is_symmetric(&self) -> bool {
        self.0.is_symmetric()
    }
    fn apply(
        &self,
        direction: Direction,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        self.0.apply(direction, input, channels, scaling, out, scratch);
    }
    fn workspace_bytes(&self, channels: usize) -> u64 {
        self.0.workspace_bytes(channels)
    }
    fn diagonal(&self) -> Vec<f32> {
        self.0.diagonal()
    }
}

/// The bare operator; the output starts as NaN, so that a value not written shows.
fn apply(
    filter: &dyn Operator,
    direction: Direction,
    x: &[f32],
    channels: usize,
    scratch: &mut Workspace,
) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len()];
    filter.apply(direction, x, channels, Scaling::NONE, &mut out, scratch);
    out
}

fn forward(filter: &dyn Operator, x: &[f32], channels: usize, scratch: &mut Workspace) -> Vec<f32> {
    apply(filter, Direction::Forward, x, channels, scratch)
}

fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn abs(x: &[f32]) -> Vec<f32> {
    x.iter().map(|v| v.abs()).collect()
}

/// Each value within the tolerance of a size that it cannot reasonably be expected to beat.
fn close(got: &[f32], expected: &[f32], size: f32) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), expected.len());
    for (i, (&g, &w)) in got.iter().zip(expected).enumerate() {
        let error = f64::from((g - w).abs());
        prop_assert!(
            error <= TOLERANCE * f64::from(size),
            "at {}: {} instead of {} (size {})",
            i,
            g,
            w,
            size
        );
    }
    Ok(())
}

fn largest(x: &[f32]) -> f32 {
    x.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()))
}

fn linear(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    let (x, y) = (scene.signed(n * 3, 1), scene.signed(n * 3, 2));
    let mixed: Vec<f32> = x.iter().zip(&y).map(|(a, b)| 2.0 * a - 0.5 * b).collect();
    let (kx, ky) = (forward(filter, &x, 3, scratch), forward(filter, &y, 3, scratch));
    let expected: Vec<f32> = kx.iter().zip(&ky).map(|(a, b)| 2.0 * a - 0.5 * b).collect();
    close(&forward(filter, &mixed, 3, scratch), &expected, largest(&filter.normalizer()))
}

fn adjoint(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    let (u, v) = (scene.signed(n, 3), scene.signed(n, 4));
    let ku_v = dot(&apply(filter, Direction::Transposed, &u, 1, scratch), &v);
    let kv = forward(filter, &v, 1, scratch);
    let size = dot(&abs(&u), &forward(filter, &abs(&v), 1, scratch));
    prop_assert!((dot(&u, &kv) - ku_v).abs() <= TOLERANCE * size, "{} {}", dot(&u, &kv), ku_v);
    if filter.is_symmetric() {
        let forward_u = dot(&forward(filter, &u, 1, scratch), &v);
        prop_assert!((dot(&u, &kv) - forward_u).abs() <= TOLERANCE * size, "{} {}", dot(&u, &kv), forward_u);
    }
    Ok(())
}

fn non_negative_with_its_diagonal(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    prop_assert!(forward(filter, &scene.positive(n * 2, 5), 2, scratch).iter().all(|&x| x >= 0.0));
    let diagonal = filter.diagonal();
    prop_assert_eq!(diagonal.len(), n);
    for a in [0, n / 2, n - 1] {
        let mut impulse = vec![0.0; n];
        impulse[a] = 1.0;
        let row = forward(filter, &impulse, 1, scratch);
        // The lattice's closed form counts neighbours that may be missing: it is an upper bound there.
        prop_assert!(row[a] <= diagonal[a] + 1e-5, "{} above its diagonal {}", row[a], diagonal[a]);
        if !filter.name().starts_with("lattice") {
            close(&[row[a]], &[diagonal[a]], 1.0)?;
        }
    }
    if filter.name() == "lattice" {
        return Ok(()); // normalised by the classic operator, on purpose
    }
    close(&filter.normalizer(), &forward(filter, &vec![1.0; n], 1, scratch), largest(&filter.normalizer()))
}

fn scaled_and_added(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    let (left, right, x, before) =
        (scene.positive(n, 6), scene.signed(n, 7), scene.signed(n * 2, 8), scene.signed(n * 2, 9));
    let inner: Vec<f32> = x.iter().enumerate().map(|(i, &v)| v * right[i / 2]).collect();
    for direction in [Direction::Forward, Direction::Transposed] {
        let plain = apply(filter, direction, &inner, 2, scratch);
        for add in [false, true] {
            let old = |i: usize| if add { before[i] } else { 0.0 };
            let expected: Vec<f32> =
                plain.iter().enumerate().map(|(i, &v)| old(i) - 3.0 * left[i / 2] * v).collect();
            let mut out = if add { before.clone() } else { vec![f32::NAN; n * 2] };
            let scaling = Scaling { left: Some(&left), right: Some(&right), gain: -3.0, add };
            filter.apply(direction, &x, 2, scaling, &mut out, scratch);
            close(&out, &expected, 3.0 * largest(&filter.normalizer()) + 1.0)?;
        }
    }
    Ok(())
}

fn channels_apart(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    for channels in [1, 2, 7, 16, 19] {
        let x = scene.signed(n * channels, 10);
        let together = forward(filter, &x, channels, scratch);
        for c in [0, channels / 2, channels - 1] {
            let column: Vec<f32> = x.iter().skip(c).step_by(channels).copied().collect();
            let alone = forward(filter, &column, 1, scratch);
            let expected: Vec<f32> = together.iter().skip(c).step_by(channels).copied().collect();
            close(&alone, &expected, largest(&filter.normalizer()))?;
        }
    }
    filter.apply(Direction::Forward, &[], 0, Scaling::NONE, &mut [], scratch);
    Ok(())
}

fn bins_are_indicators(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    for count in [1, 2, 5, 40] {
        let bins: Vec<u16> = scene.positive(n, 11).iter().map(|v| (v * count as f32) as u16).collect();
        let table = scene.signed(count * count, 12);
        let (left, right) = (scene.positive(n, 13), scene.positive(n, 14));
        for (left, right, add) in [(None, None, false), (Some(&left), Some(&right), true)] {
            let scaling =
                Scaling { left: left.map(|l| &l[..]), right: right.map(|r| &r[..]), gain: 2.0, add };
            let binned = Binned { bins: &bins, count, table: &table };
            let start = if add { 0.5 } else { f32::NAN };
            let (mut got, mut expected) = (vec![start; n], vec![start; n]);
            binned_sums(filter, binned, scaling, &mut got, scratch);
            binned_sums(&Bare(filter), binned, scaling, &mut expected, scratch);
            close(&got, &expected, 2.0 * largest(&filter.normalizer()) + 0.5)?;
        }
    }
    Ok(())
}

/// Sums between two lists agree with filtering an indicator of the sources.
fn between_lists(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    let draw = scene.positive(n, 15);
    let sources: Vec<u32> = (0..n as u32).filter(|&b| draw[b as usize] < 0.4).collect();
    let targets: Vec<u32> = (0..n as u32).rev().filter(|&a| draw[a as usize] >= 0.3).collect();
    let (left, right) = (scene.positive(n, 16), scene.positive(n, 17));
    let scaling = Scaling { left: Some(&left), right: Some(&right), gain: -1.5, add: false };
    let (mut got, mut expected) = (vec![0.25; n], vec![0.25; n]);
    sums_between(filter, &sources, &targets, scaling, &mut got, scratch);
    sums_between(&Bare(filter), &sources, &targets, scaling, &mut expected, scratch);
    close(&got, &expected, 1.5 * largest(&filter.normalizer()) + 0.25)
}

/// Between some of the points: symmetric if it was, no entry negative or above what it was, single points as before.
fn no_more_among_some(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let keep: Vec<usize> =
        (0..filter.points()).filter(|&a| a == 0 || numbers(1, scene.seed ^ a as u64)[0] < 0.4).collect();
    let points: Vec<u32> = keep.iter().map(|&a| a as u32).collect();
    let Some(part) = filter.subset(&points) else { return Ok(()) };
    prop_assert_eq!(part.points(), keep.len());
    prop_assert_eq!(part.is_symmetric(), filter.is_symmetric());
    let mut scratch = Workspace::new();
    for (k, &a) in keep.iter().enumerate().take(6) {
        let (mut all, mut some) = (vec![0.0; filter.points()], vec![0.0; keep.len()]);
        (all[a], some[k]) = (1.0, 1.0);
        let whole = forward(filter, &all, 1, &mut scratch);
        let among = forward(&*part, &some, 1, &mut scratch);
        for (&b, &value) in keep.iter().zip(&among) {
            prop_assert!(
                value >= 0.0 && value <= whole[b] * (1.0 + 1e-4) + 1e-6,
                "{} of {}",
                value,
                whole[b]
            );
        }
        prop_assert!(among[k] > 0.0);
    }
    Ok(())
}

/// Whatever the mode, contributions are antisymmetric: they add up to nothing if K is symmetric.
fn ordered_sums_vanish(scene: &Scene, filter: &dyn Operator) -> Result<(), TestCaseError> {
    let n = filter.points();
    let scratch = &mut Workspace::new();
    let values = scene.positive(n * 2, 18);
    let total: f64 = filter.normalizer().iter().map(|&s| f64::from(s)).sum();
    for mode in [
        OrderedMode::Exact,
        OrderedMode::Binned { bins: 6 },
        OrderedMode::DivideAndConquer { leaf: 1 },
        OrderedMode::DivideAndConquer { leaf: 8 },
    ] {
        let mut z = vec![f32::NAN; n * 2];
        ordered(filter, &values, 2, mode, Scaling::NONE, &mut z, scratch);
        prop_assert!(z.iter().all(|v| v.is_finite()));
        if filter.is_symmetric() {
            for c in 0..2 {
                let sum: f64 = z.iter().skip(c).step_by(2).map(|&v| f64::from(v)).sum();
                prop_assert!(sum.abs() <= TOLERANCE * total, "{:?}: {}", mode, sum);
            }
        }
    }
    Ok(())
}

/// Everything a filter can compute, as bits, in a pool of a given size.
fn all_results(build: &(dyn Fn(&Scene) -> Box<dyn Operator> + Sync), threads: usize) -> Vec<u32> {
    let scene = Scene::new([47, 61], 3.0, 5);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let filter = build(&scene);
        let n = filter.points();
        let scratch = &mut Workspace::new();
        let x = scene.signed(n * 5, 19);
        let mut all = forward(&*filter, &x, 5, scratch);
        all.extend(apply(&*filter, Direction::Transposed, &x, 5, scratch));
        all.extend(filter.normalizer());
        all.extend(filter.diagonal());
        let unit = scene.positive(n, 20);
        for mode in [
            OrderedMode::Exact,
            OrderedMode::Binned { bins: 12 },
            OrderedMode::DivideAndConquer { leaf: 400 },
        ] {
            let mut z = vec![0.0; n];
            ordered(&*filter, &unit, 1, mode, Scaling::NONE, &mut z, scratch);
            all.extend(z);
        }
        let calibration = calibrate(&*filter, &scene.features, DIMS, 50, 1).unwrap();
        all.extend([calibration.scale, calibration.rms_error]);
        all.into_iter().map(f32::to_bits).collect()
    })
}

/// The whole suite for one filter, built from a [`Scene`].
macro_rules! contract {
    ($name:ident, $build:expr) => {
        mod $name {
            use super::*;

            fn build(scene: &Scene) -> Box<dyn Operator> {
                let build: fn(&Scene) -> Box<dyn Operator> = $build;
                build(scene)
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(40))]

                #[test]
                fn is_linear(scene in scenes()) {
                    linear(&scene, &*build(&scene))?;
                }

                #[test]
                fn has_its_adjoint(scene in scenes()) {
                    adjoint(&scene, &*build(&scene))?;
                }

                #[test]
                fn is_non_negative_with_its_diagonal(scene in scenes()) {
                    non_negative_with_its_diagonal(&scene, &*build(&scene))?;
                }

                #[test]
                fn scales_and_adds(scene in scenes()) {
                    scaled_and_added(&scene, &*build(&scene))?;
                }

                #[test]
                fn keeps_channels_apart(scene in scenes()) {
                    channels_apart(&scene, &*build(&scene))?;
                }

                #[test]
                fn bins_like_indicators(scene in scenes()) {
                    bins_are_indicators(&scene, &*build(&scene))?;
                }

                #[test]
                fn sums_between_lists(scene in scenes()) {
                    between_lists(&scene, &*build(&scene))?;
                }

                #[test]
                fn is_no_more_among_some(scene in scenes()) {
                    no_more_among_some(&scene, &*build(&scene))?;
                }

                #[test]
                fn ordered_filter_is_antisymmetric(scene in scenes()) {
                    ordered_sums_vanish(&scene, &*build(&scene))?;
                }
            }

            #[test]
            fn thread_count_changes_no_bit() {
                let one = all_results(&build, 1);
                assert_eq!(one, all_results(&build, 2));
                assert_eq!(one, all_results(&build, 3));
            }
        }
    };
}

contract!(exact, |scene| Box::new(Exact::new(scene.features.clone(), DIMS).unwrap()));
contract!(separable, |scene| Box::new(Separable::new(&scene.shape, &[scene.sigma, scene.sigma]).unwrap()));
contract!(lattice, |scene| Box::new(Lattice::new(&scene.features, DIMS, Blur::Symmetric).unwrap()));
contract!(lattice_classic, |scene| Box::new(Lattice::new(&scene.features, DIMS, Blur::Classic).unwrap()));
