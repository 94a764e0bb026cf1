//! Build, application and methods on generated scenes: `cargo bench -p relaxcrf`, one thread unless
//! RAYON_NUM_THREADS says otherwise. Comparisons with other programs are in `bench/peers`.

use divan::{Bencher, black_box};
use relaxcrf::Solve;
use relaxcrf::filter::{Binned, Blur, Direction, Lattice, Operator, Ordered, Scaling, Workspace, sign_table};
use relaxcrf::model::Compatibility;
use relaxcrf::solve::Settings;
use relaxcrf::{Model, ModelBuilder};
use relaxcrf_lab::synth;

fn main() {
    let threads = std::env::var("RAYON_NUM_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("one pool");
    divan::main();
}

const WIDTH: usize = 500;
const HEIGHT: usize = 375;
/// Standard deviations of position and colour: easy, harder, hardest.
const KERNELS: [(f32, f32); 3] = [(80.0, 13.0), (50.0, 5.0), (67.0, 3.0)];

fn features((place, colour): (f32, f32)) -> Vec<f32> {
    let scene = synth::segmentation(WIDTH, HEIGHT, 6, 1).expect("a scene");
    let pixel = |a: usize| {
        let (x, y) = (a % WIDTH, a / WIDTH);
        let rgb = scene.image.pixel(x, y);
        [x as f32 / place, y as f32 / place, rgb[0] / colour, rgb[1] / colour, rgb[2] / colour]
    };
    (0..WIDTH * HEIGHT).flat_map(pixel).collect()
}

fn model(labels: usize) -> Model {
    let scene = synth::segmentation(320, 240, labels, 1).expect("a scene");
    ModelBuilder::image(320, 240, labels)
        .probabilities(&scene.probabilities)
        .and_then(|m| m.gaussian(3.0, 1.5).bilateral(scene.image.data, 80.0, 13.0, 5.0).build())
        .expect("a model")
}

#[divan::bench(args = [0, 1, 2], sample_count = 10)]
fn lattice_build(bencher: Bencher, kernel: usize) {
    let features = features(KERNELS[kernel]);
    bencher.bench_local(|| Lattice::new(black_box(&features), 5, Blur::Classic));
}

#[divan::bench(args = [1, 2, 21, 81], sample_count = 10)]
fn lattice_apply(bencher: Bencher, channels: usize) {
    let lattice = Lattice::new(&features(KERNELS[0]), 5, Blur::Classic).expect("a lattice");
    let values: Vec<f32> = (0..lattice.points() * channels).map(|i| (i % 17) as f32).collect();
    let (mut out, mut scratch) = (vec![0.0; values.len()], Workspace::new());
    bencher.bench_local(|| {
        lattice.apply(Direction::Forward, &values, channels, Scaling::NONE, &mut out, &mut scratch);
    });
}

#[divan::bench(args = [8, 32], sample_count = 10)]
fn lattice_bins(bencher: Bencher, count: usize) {
    let lattice = Lattice::new(&features(KERNELS[0]), 5, Blur::Symmetric).expect("a lattice");
    let bins: Vec<u16> = (0..lattice.points()).map(|a| (a / 5 % count) as u16).collect();
    let (table, mut out, mut scratch) = (sign_table(count), vec![0.0; lattice.points()], Workspace::new());
    bencher.bench_local(|| {
        let binned = Binned { bins: &bins, count, table: &table };
        lattice.apply_binned(binned, Scaling::NONE, &mut out, &mut scratch);
    });
}

#[divan::bench(args = ["mf", "mf5", "qp", "qp+dc-gen", "qp+dc-neg", "graduated", "qp+dc-neg+lp"], sample_count = 3)]
fn method(bencher: Bencher, name: &str) {
    let model = model(6);
    let pipeline = name.parse().expect("a method");
    bencher.bench_local(|| Solve::new(&model).method(&pipeline).run());
}

/// Iterations of a method with 60 labels and label costs of one kind: divide the times by those of `potts`.
#[divan::bench(
    args = [
        "mf potts", "mf linear", "mf matrix", "qp potts", "qp linear", "qp matrix", "dc-neg potts", "dc-neg linear",
        "dc-neg matrix", "graduated potts", "graduated linear", "graduated matrix",
    ],
    sample_count = 5
)]
fn iterations_by_label_costs(bencher: Bencher, name: &str) {
    const LABELS: usize = 60;
    let (method, costs) = name.split_once(' ').expect("two words");
    let linear = Compatibility::linear(LABELS, Some(3.0)).expect("costs");
    let costs = match costs {
        "potts" => Compatibility::potts(LABELS),
        "linear" => linear,
        // The same costs, as any other matrix.
        _ => {
            let entries = (0..LABELS * LABELS).map(|k| linear.cost(k / LABELS, k % LABELS)).collect();
            Compatibility::matrix(LABELS, entries).expect("costs")
        }
    };
    let scene = synth::segmentation(160, 120, 6, 1).expect("a scene");
    // Every label is some pixel's choice.
    let unary = (0..160 * 120 * LABELS).map(|k| (k * 7919 % 1009) as f32 / 300.0).collect();
    let model = ModelBuilder::image(160, 120, LABELS)
        .unary(unary)
        .gaussian(3.0, 0.3)
        .bilateral(scene.image.data, 80.0, 13.0, 0.5)
        .compatibility(costs)
        .build()
        .expect("a model");
    let pipeline = method.parse().expect("a method");
    let settings = Settings { max_iterations: Some(10), tolerance: Some(0.0), ..Settings::default() };
    bencher.bench_local(|| Solve::new(&model).method(&pipeline).settings(&settings).run());
}
