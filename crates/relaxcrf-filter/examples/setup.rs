//! Times the set-up of a lattice (building it, and its row sums) on generated points: least CPU time of this thread in
//! milliseconds, or least wall time with more threads. `setup [THREADS [ROUNDS [CASE]]]`.
//!
//! The last column is a checksum of all bits of a filtered array: equal code gives equal sums.

use std::time::Instant;

use relaxcrf_filter::rng::Rng;
use relaxcrf_filter::{Blur, Direction, Lattice, Operator, Scaling, Workspace};

/// Name, features, dimensions.
type Case = (&'static str, Vec<f32>, usize);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |k: usize, default| arguments.get(k).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (threads, rounds) = (number(1, 1), number(2, 5));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build();
    pool.expect("a thread pool").install(|| {
        println!("case                 build ms  row sums ms  filter 4 ms  vertices  checksum");
        for (name, features, dims) in cases() {
            if arguments.get(3).is_none_or(|expected| name.contains(expected.as_str())) {
                measure(name, &features, dims, threads, rounds);
            }
        }
    });
}

fn measure(name: &str, features: &[f32], dims: usize, threads: usize, rounds: usize) {
    let mut least = [f64::INFINITY; 3];
    let (mut vertices, mut checksum) = (0, 0u64);
    let values: Vec<f32> = (0..features.len() / dims * 4).map(|k| (k % 17) as f32).collect();
    let mut out = vec![0.0; values.len()];
    for _ in 0..rounds {
        let mut start = now(threads);
        let mut lap = |part: &mut f64| {
            let end = now(threads);
            *part = part.min(end - start);
            start = now(threads);
        };
        let lattice = Lattice::new(features, dims, Blur::Classic).expect("a lattice");
        lap(&mut least[0]);
        let sums = lattice.normalizer();
        lap(&mut least[1]);
        lattice.apply(Direction::Forward, &values, 4, Scaling::NONE, &mut out, &mut Workspace::new());
        lap(&mut least[2]);
        vertices = lattice.vertices();
        let bits = sums.iter().chain(&out).map(|x| u64::from(x.to_bits()));
        checksum = bits.fold(7, |sum: u64, bits| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ bits);
    }
    let [build, sums, apply] = least;
    println!("{name:20} {build:8.1} {sums:12.1} {apply:12.1} {vertices:9}  {checksum:016x}");
}

/// Milliseconds on the clock that counts.
fn now(threads: usize) -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    match nanoseconds {
        Some(nanoseconds) if threads == 1 => 1e-6 * nanoseconds,
        _ => {
            static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
            1e3 * START.get_or_init(Instant::now).elapsed().as_secs_f64()
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, sigma_xy, sigma_rgb) in [("80/13", 80.0, 13.0), ("50/5", 50.0, 5.0), ("67/3", 67.0, 3.0)] {
        cases.push((name, photograph(500, 375, 2.5, sigma_xy, sigma_rgb), 5));
    }
    cases.push(("positions 3", positions(500, 375, 3.0), 2));
    cases.push(("noisy 4/0.1", photograph(512, 512, 25.5, 4.0, 25.5), 5));
    let mut rng = Rng::new(1);
    let sides = [16.0, 16.0, 12.0, 12.0, 12.0, 12.0];
    cases.push(("random 6-D", (0..196_608 * 6).map(|k| (rng.next_f64() * sides[k % 6]) as f32).collect(), 6));
    cases
}

fn positions(width: usize, height: usize, sigma: f32) -> Vec<f32> {
    (0..width * height).flat_map(|a| [(a % width) as f32 / sigma, (a / width) as f32 / sigma]).collect()
}

/// Patches with shading and noise of `noise` grey levels.
fn photograph(width: usize, height: usize, noise: f32, sigma_xy: f32, sigma_rgb: f32) -> Vec<f32> {
    let mut rng = Rng::new(2);
    let mut features = Vec::with_capacity(5 * width * height);
    for a in 0..width * height {
        let (x, y) = ((a % width) as f32, (a / width) as f32);
        let patch = ((x / 90.0).sin() + (y / 70.0).cos() > 0.3) as u8
            + 2 * ((x + 2.0 * y) / 150.0).sin().gt(&0.2) as u8;
        features.extend([x / sigma_xy, y / sigma_xy]);
        for channel in 0..3 {
            let shade = 20.0 * ((x + 3.0 * channel as f32) / 60.0).sin() * (y / 45.0).cos();
            let grain = noise * (0..4).map(|_| rng.next_f64() as f32 - 0.5).sum::<f32>() * 1.7;
            let level = 60.0 + 40.0 * f32::from((patch + channel) % 4) + shade + grain;
            features.push(level.clamp(0.0, 255.0).round() / sigma_rgb);
        }
    }
    features
}
