//! What several test files need.
#![allow(dead_code)] // each file uses its own share

use std::path::PathBuf;

use relaxcrf::filter::{Direction, Workspace};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{Settings, Solution, Solve};
use relaxcrf::{Labeling, Model, ModelBuilder, energy};

/// Three pixels with K = [1 1/2 1/4; 1/2 1 1/2; 1/4 1/2 1]: a right angle with legs where the kernel is 1/2.
pub fn oracle() -> Model {
    let leg = (2.0 * 2f32.ln()).sqrt();
    ModelBuilder::points(3, 2)
        .unary(vec![0.0, 1.0, 0.2, 0.0, 0.0, 0.6])
        .features(vec![0.0, 0.0, leg, 0.0, leg, leg], 2, 1.0)
        .filter(FilterKind::Exact)
        .normalization(Normalization::None)
        .build()
        .unwrap()
}

/// Solves without an observer.
pub fn run(model: &Model, method: &str, settings: &Settings) -> Solution {
    let solution = Solve::new(model).method_name(method).unwrap().settings(settings).run().unwrap();
    check_bounds(model, &solution, method);
    solution
}

/// What holds for every run of every method: bounds are below energies and never fall, energies never rise.
fn check_bounds(model: &Model, solution: &Solution, method: &str) {
    let change_budget = 1e-9 * model.scale();
    if let Some(bound) = &solution.lower_bound {
        let energy = solution.energy.total();
        assert!(
            bound.value <= energy + change_budget,
            "{method}: bound {} above the energy {energy}",
            bound.value
        );
        assert!(!bound.source.is_empty());
    }
    for pair in solution.trace.windows(2) {
        let fell = pair[0].lower_bound.is_some_and(|b| pair[1].lower_bound.is_none_or(|next| next < b));
        assert!(
            !fell,
            "{method}: the bound fell from {:?} to {:?}",
            pair[0].lower_bound, pair[1].lower_bound
        );
        assert!(pair[1].energy <= pair[0].energy, "{method}: the best energy rose");
    }
}

/// Solves with default settings, or says why it cannot.
pub fn try_run(model: &Model, method: &str) -> relaxcrf::Result<Solution> {
    let solution = Solve::new(model).method_name(method)?.run()?;
    check_bounds(model, &solution, method);
    Ok(solution)
}

/// The best labelling of a tiny problem, by trying all of them.
pub fn exhaustive(model: &Model) -> (Labeling, f64) {
    let (n, l) = (model.pixels(), model.labels());
    let total = (l as u64).pow(n as u32);
    assert!(total <= 1 << 20, "too many labellings to try");
    let mut best = (Labeling::constant(n, 0), f64::INFINITY);
    for code in 0..total {
        let mut rest = code;
        let x = Labeling::new(
            (0..n)
                .map(|_| {
                    let label = (rest % l as u64) as u16;
                    rest /= l as u64;
                    label
                })
                .collect(),
        );
        let e = energy::of_labeling(model, &x).unwrap().total();
        if e < best.1 {
            best = (x, e);
        }
    }
    best
}

/// A small generator of test numbers, so that failures can be repeated.
pub struct Numbers(pub u64);

impl Numbers {
    /// Uniform in [0, 1).
    pub fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// A random problem on `n` points in the plane with two kernels.
pub fn random_model(n: usize, labels: usize, seed: u64, strength: f32, filter: FilterKind) -> Model {
    let mut r = Numbers(seed);
    let near: Vec<f32> = (0..n * 2).map(|_| r.next() * 3.0).collect();
    let far: Vec<f32> = (0..n * 3).map(|_| r.next() * 2.0).collect();
    let unary = (0..n * labels).map(|_| r.next()).collect();
    ModelBuilder::points(n, labels)
        .unary(unary)
        .features(near, 2, strength)
        .features(far, 3, 0.5 * strength)
        .filter(filter)
        .normalization(Normalization::None)
        .build()
        .unwrap()
}

/// The folder of real data beside the project, or `None` with a message when it is not there.
pub fn shared(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("RELAXCRF_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join(part);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

/// The MSRC sample under one of the five published parameter sets.
pub fn msrc_sample(
    folder: &std::path::Path,
    parameters: &str,
    filter: FilterKind,
    normalization: Normalization,
) -> Model {
    let image = relaxcrf_io::read_image(&folder.join("2_14_s.bmp")).unwrap();
    let scores = relaxcrf_io::CompressedScores::read(&folder.join("2_14_s.c_unary")).unwrap();
    let labels = scores.labels();
    let numbers: [f64; 5] = match parameters {
        "msrc_dcneg" => [3.535267, 2.247081, 31.232626, 7.949970, 1.699011],
        "msrc_mf" => [1.0, 7.467846, 35.865959, 11.209644, 4.028773],
        "voc_dcneg" => [3.071772, 0.5, 49.785678, 1.0, 0.960811],
        "voc_mf" => [1.0, 100.0, 50.0, 5.454272, 74.877398],
        "voc_mf5" => [4.105884, 77.047681, 47.793787, 4.693766, 100.0],
        other => panic!("unknown parameters {other}"),
    };
    let [spatial, weight, bilateral, color, bilateral_weight] = numbers.map(|x| x as f32);
    ModelBuilder::image(image.width, image.height, labels)
        .unary(scores.energies().label_rows())
        .gaussian(spatial, weight)
        .bilateral(image.data, bilateral, color, bilateral_weight)
        .filter(filter)
        .normalization(normalization)
        .build()
        .unwrap()
}

/// A stereo pair under the model of the recorded runs.
pub fn stereo_pair(folder: &std::path::Path, disparities: usize, filter: FilterKind) -> Model {
    let left = relaxcrf_io::read_image(&folder.join("im2.png")).unwrap();
    let right = relaxcrf_io::read_image(&folder.join("im6.png")).unwrap();
    let options = relaxcrf_stereo::CostOptions { rounding: Some(0.01), ..Default::default() };
    let cost = relaxcrf_stereo::cost(&left, &right, disparities, &options).unwrap();
    ModelBuilder::image(left.width, left.height, disparities)
        .unary(cost)
        .gaussian(3.0, 40.0)
        .bilateral(left.data, 50.0, 10.0, 50.0)
        .filter(filter)
        .build()
        .unwrap()
}

/// A random problem on `n` points in the plane with the exact filter and any compatibility.
pub fn random_costs(n: usize, compatibility: Compatibility, seed: u64, strength: f32) -> Model {
    let mut r = Numbers(seed);
    let places: Vec<f32> = (0..n * 2).map(|_| r.next() * 3.0).collect();
    let unary = (0..n * compatibility.labels()).map(|_| r.next()).collect();
    ModelBuilder::points(n, compatibility.labels())
        .unary(unary)
        .features(places, 2, strength)
        .compatibility(compatibility)
        .filter(FilterKind::Exact)
        .normalization(Normalization::None)
        .build()
        .unwrap()
}

/// The operator as a matrix, row-major.
pub fn operator(model: &Model) -> Vec<f32> {
    let n = model.pixels();
    let unit: Vec<f32> = (0..n * n).map(|k| f32::from(u8::from(k / n == k % n))).collect();
    let mut out = vec![0.0; n * n];
    model.pairwise().apply(Direction::Forward, &unit, n, &mut out, &mut Workspace::new());
    out
}
