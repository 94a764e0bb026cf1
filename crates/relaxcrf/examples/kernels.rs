//! A fixed piece of work for the filter's inner loops or for one method, one thread: what `bench/instructions/check`
//! counts. `kernels PART`; without a part, or with `none`, only the scene and the lattice are made.
//!
//! The scene is generated, so that the count depends on the code only.

use std::sync::atomic::AtomicBool;

use relaxcrf::filter::{Binned, Blur, Direction, Lattice, Operator, Ordered, Scaling, Workspace, sign_table};
use relaxcrf::solve::{MeanFieldBuffers, mean_field_beliefs};
use relaxcrf::solve::{Settings, Solve};
use relaxcrf::{Model, ModelBuilder};
use relaxcrf_lab::synth::{self, SegmentationScene};

const SIZE: [usize; 2] = [160, 120];
const LABELS: usize = 6;
const CHANNELS: usize = 21;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    let part = std::env::args().nth(1).unwrap_or_default();
    let scene = synth::segmentation(SIZE[0], SIZE[1], LABELS, 1).expect("a scene");
    let rounds = if part == "build" { 5 } else { 1 };
    let lattice = (1..rounds).fold(lattice(&scene), |_, _| lattice(&scene));
    let result = match part.as_str() {
        "apply" => apply(&lattice),
        "bins" => bins(&lattice),
        "fused" => {
            mean_field_beliefs(&model(&scene), 10, &AtomicBool::new(false), &mut MeanFieldBuffers::default())
                .expect("beliefs")
                .as_slice()[7]
        }
        "model" => model(&scene).unary()[7],
        "mf" | "dc-neg" | "smooth-lp" => run(&model(&scene), &part, 12),
        _ => lattice.points() as f32,
    };
    drop(pool);
    println!("{part} {result}");
}

fn lattice(scene: &SegmentationScene) -> Lattice {
    let pixel = |a: usize| {
        let (x, y) = (a % SIZE[0], a / SIZE[0]);
        let rgb = scene.image.pixel(x, y);
        [x as f32 / 40.0, y as f32 / 40.0, rgb[0] / 10.0, rgb[1] / 10.0, rgb[2] / 10.0]
    };
    let features: Vec<f32> = (0..SIZE[0] * SIZE[1]).flat_map(pixel).collect();
    Lattice::new(&features, 5, Blur::Classic).expect("a lattice")
}

fn apply(lattice: &Lattice) -> f32 {
    let values: Vec<f32> = (0..lattice.points() * CHANNELS).map(|i| (i % 17) as f32).collect();
    let (mut out, mut scratch) = (vec![0.0; values.len()], Workspace::new());
    for _ in 0..10 {
        lattice.apply(Direction::Forward, &values, CHANNELS, Scaling::NONE, &mut out, &mut scratch);
    }
    out[out.len() / 2]
}

fn bins(lattice: &Lattice) -> f32 {
    let bins: Vec<u16> = (0..lattice.points()).map(|a| (a / 5 % 32) as u16).collect();
    let (table, mut out, mut scratch) = (sign_table(32), vec![0.0; bins.len()], Workspace::new());
    for _ in 0..10 {
        let binned = Binned { bins: &bins, count: 32, table: &table };
        lattice.apply_binned(binned, Scaling::NONE, &mut out, &mut scratch);
    }
    out[out.len() / 2]
}

fn model(scene: &SegmentationScene) -> Model {
    let builder = ModelBuilder::image(SIZE[0], SIZE[1], LABELS).probabilities(&scene.probabilities);
    let builder = builder.expect("probabilities").gaussian(3.0, 3.0);
    builder.bilateral(scene.image.data.clone(), 40.0, 10.0, 5.0).build().expect("a model")
}

/// The energy after so many iterations.
fn run(model: &Model, method: &str, iterations: usize) -> f32 {
    let settings = Settings { max_iterations: Some(iterations), tolerance: Some(0.0), ..Settings::default() };
    let method = method.parse().expect("a method");
    let solution = Solve::new(model).method(&method).settings(&settings).run().expect("a solution");
    solution.energy.total() as f32
}
