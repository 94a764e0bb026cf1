//! Compares methods by energy, bound and cost: `cargo run --release -p relaxcrf --example compare_methods`.

use relaxcrf::{ModelBuilder, Result};
use relaxcrf_lab::synth;

fn main() -> Result<()> {
    let scene = synth::segmentation(120, 90, 5, 1)?;
    let model = ModelBuilder::image(120, 90, 5)
        .probabilities(&scene.probabilities)?
        .gaussian(3.0, 1.5)
        .bilateral(scene.image.data, 40.0, 13.0, 2.5)
        .build()?;
    println!("{:16} {:>12} {:>12} {:>8} {:>8}", "method", "energy", "bound", "filter", "ordered");
    // A chain passes beliefs on: each method starts where the one before ended.
    for method in ["unary", "mf5", "mf", "qp+dc-neg", "graduated", "qp+dc-neg+lp", "smooth-lp"] {
        let solution = model.solve(method)?;
        // No labelling has lower energy than the bound: what is left between the two is all that can be gained.
        let bound = solution.lower_bound.map_or("-".into(), |bound| format!("{:.2}", bound.value));
        let (energy, counts) = (solution.energy.total(), solution.counts);
        println!("{method:16} {energy:>12.2} {bound:>12} {:>8} {:>8}", counts.filter, counts.ordered);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn example_runs() {
        super::main().unwrap();
    }
}
