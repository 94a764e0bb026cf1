//! A fixed piece of work for the filter's inner loops, one thread: what `bench/instructions/check` counts.
//!
//! The scene is generated, so that the count depends on the code only.

use relaxcrf::filter::{Binned, Blur, Direction, Filter, Lattice, Scaling, Scratch, sign_table};
use relaxcrf::synth;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    let part = std::env::args().nth(1).unwrap_or_default();
    let (width, height, channels) = (160, 120, 21);
    let scene = synth::segmentation(width, height, 6, 1).expect("a scene");
    let pixel = |a: usize| {
        let (x, y) = (a % width, a / width);
        let rgb = scene.image.pixel(x, y);
        [x as f32 / 40.0, y as f32 / 40.0, rgb[0] / 10.0, rgb[1] / 10.0, rgb[2] / 10.0]
    };
    let features: Vec<f32> = (0..width * height).flat_map(pixel).collect();
    let mut scratch = Scratch::new();
    let rounds = if part == "build" { 5 } else { 1 };
    let mut lattice = None;
    for _ in 0..rounds {
        lattice = Lattice::new(&features, 5, Blur::Classic).ok();
    }
    let lattice = lattice.expect("a lattice");
    let values: Vec<f32> = (0..lattice.len() * channels).map(|i| (i % 17) as f32).collect();
    let mut out = vec![0.0; values.len()];
    if part == "apply" {
        for _ in 0..10 {
            lattice.apply(Direction::Forward, &values, channels, Scaling::NONE, &mut out, &mut scratch);
        }
    }
    if part == "bins" {
        let bins: Vec<u16> = (0..lattice.len()).map(|a| (a / 5 % 32) as u16).collect();
        let table = sign_table(32);
        for _ in 0..10 {
            let binned = Binned { bins: &bins, count: 32, table: &table };
            lattice.apply_binned(binned, Scaling::NONE, &mut out[..bins.len()], &mut scratch);
        }
    }
    drop(pool);
    println!("{part} {}", out[out.len() / 2]);
}
