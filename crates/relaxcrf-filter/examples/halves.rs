//! Times the ordered filter by divide and conquer on generated pictures of growing size, one thread: CPU time and touched
//! vertices over N log2 N, which should stay about the same. `halves [ROUNDS]`.

use std::time::Instant;

use relaxcrf_filter::rng::Rng;
use relaxcrf_filter::{Blur, Lattice, OrderedMode, Scaling, Workspace, ordered};

/// As `lp:dc` uses it.
const LEAF: usize = 32;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(3);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    pool.expect("a thread pool").install(|| {
        println!("| side | least ms | µs a pixel | ns over N log2 N | touched over N log2 N |\n|---|---|---|---|---|");
        for side in [64, 128, 256, 512] {
            let (features, values) = picture(side);
            let lattice = Lattice::new(&features, 5, Blur::Symmetric).expect("a lattice");
            let mut out = vec![0.0; values.len()];
            let (mut least, mut touched) = (f64::INFINITY, 0);
            // Small pictures are repeated: the clock of the CPU is coarse.
            let repeats = (512 / side).pow(2);
            for _ in 0..rounds {
                let mut workspace = Workspace::new();
                let start = now();
                for _ in 0..repeats {
                    let mode = OrderedMode::DivideAndConquer { leaf: LEAF };
                    ordered(&lattice, &values, 1, mode, Scaling::NONE, &mut out, &mut workspace);
                }
                least = least.min((now() - start) / repeats as f64);
                touched = workspace.touched_vertices() / repeats as u64;
            }
            let points = (side * side) as f64;
            let size = points * points.log2();
            println!(
                "| {side} | {least:.1} | {:.2} | {:.1} | {:.3} |",
                1e3 * least / points,
                1e6 * least / size,
                touched as f64 / size
            );
        }
    });
}

/// Milliseconds of this thread, or since the first call where the system does not tell.
fn now() -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    match spent.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok()) {
        Some(nanoseconds) => 1e-6 * nanoseconds,
        None => {
            static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
            1e3 * START.get_or_init(Instant::now).elapsed().as_secs_f64()
        }
    }
}

/// Patches with shading and noise, kernel deviations of 80 pixels and 13 grey levels, and beliefs that follow the patches.
fn picture(side: usize) -> (Vec<f32>, Vec<f32>) {
    let mut rng = Rng::new(side as u64);
    let (mut features, mut values) = (Vec::new(), Vec::new());
    for a in 0..side * side {
        let (x, y) = ((a % side) as f32, (a / side) as f32);
        let inside = (x / 40.0).sin() + (y / 30.0).cos() > 0.2;
        let level = if inside { 160.0 } else { 70.0 } + 25.0 * (x / 60.0).sin() * (y / 45.0).cos();
        features.extend([x / 80.0, y / 80.0]);
        features.extend([0, 1, 2].map(|c| (level + 9.0 * c as f32 + 12.0 * rng.next_f64() as f32) / 13.0));
        let belief = if inside { 0.7 } else { 0.3 } + 0.3 * (rng.next_f64() as f32 - 0.5);
        values.push(belief.clamp(0.0, 1.0));
    }
    (features, values)
}
