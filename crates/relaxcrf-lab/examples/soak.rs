//! Many different problems in one process, and the memory it holds: `soak [PROBLEMS [SECONDS]]`.
//!
//! Problems differ in size, labels, kernels, filter, costs and method; each is solved, written and read back. Memory
//! must be flat: its mean over the last quarter of the run at most 5 % above that over the second quarter. (The first
//! is for warming up: every thread keeps buffers of the largest problem it has met.)

use std::error::Error;
use std::time::Instant;

use relaxcrf::ModelBuilder;
use relaxcrf::model::{Compatibility, FilterKind};
use relaxcrf::rng::Rng;
use relaxcrf::solve::{METHODS, Settings, Solve};
use relaxcrf_io::{Palette, read_labels, write_labels};
use relaxcrf_lab::synth;

/// Bytes that the process has in memory; none where the system does not say.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<u64>().ok()? * 4096)
}

fn problem(rng: &mut Rng, folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let (width, height) = (8 + rng.below(100), 8 + rng.below(100));
    let labels = [2, 2, 3, 5, 21][rng.below(5)];
    let scene = synth::segmentation(width, height, labels, rng.next_u64())?;
    let filters = [FilterKind::Auto, FilterKind::Lattice, FilterKind::LatticeClassic, FilterKind::Separable];
    let mut builder = ModelBuilder::image(width, height, labels)
        .probabilities(&scene.probabilities)?
        .filter(filters[rng.below(4)])
        .gaussian(rng.between(0.5, 6.0) as f32, rng.between(0.0, 5.0) as f32);
    if rng.below(4) > 0 {
        let (sigma, color) = (rng.between(5.0, 60.0) as f32, rng.between(3.0, 30.0) as f32);
        builder = builder.bilateral(scene.image.data, sigma, color, rng.between(0.5, 8.0) as f32);
    }
    if rng.below(3) == 0 {
        builder = builder.compatibility(Compatibility::linear(labels, Some(3.0))?);
    }
    let model = builder.build()?;
    let method = METHODS[rng.below(METHODS.len())].name.parse()?;
    let settings = Settings { max_iterations: Some(1 + rng.below(12)), ..Settings::default() };
    // Some methods do not fit some models; their errors are part of the mixture.
    if let Ok(solution) = Solve::new(&model).method(&method).settings(&settings).run() {
        let path = folder.join("labels.png");
        write_labels(&path, width, height, solution.labeling.as_slice(), &Palette::voc())?;
        assert_eq!(read_labels(&path)?.labels, solution.labeling.as_slice());
    }
    Ok(())
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let number = |k: usize| std::env::args().nth(k).map(|a| a.parse::<u64>()).transpose();
    let (problems, seconds) = (number(1)?.unwrap_or(2000), number(2)?.unwrap_or(u64::MAX));
    let folder = tempfile::tempdir()?;
    let (mut rng, started) = (Rng::new(1), Instant::now());
    let mut history = Vec::new();
    for k in 1..=problems {
        problem(&mut rng, folder.path())?;
        let Some(bytes) = resident() else {
            println!("skipped: this system does not say how much memory a process has");
            return Ok(());
        };
        history.push(bytes);
        if k % 200 == 0 {
            println!(
                "{k:6} problems {:7.1} s {:8.1} MiB",
                started.elapsed().as_secs_f64(),
                bytes as f64 / 1048576.0
            );
        }
        if started.elapsed().as_secs() >= seconds {
            break;
        }
    }
    let quarter = history.len() / 4;
    let (early, late) = (mean(&history[quarter..2 * quarter]), mean(&history[3 * quarter..]));
    let growth = 100.0 * (late / early - 1.0);
    println!(
        "{} problems in {:.0} s: mean {:.1} MiB in the second quarter, {:.1} MiB in the last ({growth:+.1} %), most {:.1} MiB",
        history.len(),
        started.elapsed().as_secs_f64(),
        early / 1048576.0,
        late / 1048576.0,
        history.iter().max().copied().unwrap_or(0) as f64 / 1048576.0
    );
    if growth > 5.0 {
        return Err("memory grows".into());
    }
    Ok(())
}
