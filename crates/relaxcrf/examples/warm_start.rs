//! Solves again after a small change, from the old beliefs: `cargo run --release -p relaxcrf --example warm_start`.

use relaxcrf::{Method, ModelBuilder, Result, Solve};
use relaxcrf_lab::synth;

fn main() -> Result<()> {
    let (width, height, labels) = (120, 90, 5);
    let scene = synth::segmentation(width, height, labels, 1)?;
    let model = ModelBuilder::image(width, height, labels)
        .probabilities(&scene.probabilities)?
        .gaussian(3.0, 1.5)
        .bilateral(scene.image.data, 40.0, 13.0, 2.5)
        .build()?;
    let first = Solve::new(&model).method(Method::MF).run()?;

    // A user marks a square as label 2. The new model shares the filters of the old one, which are the expensive part.
    let mut unary = model.unary().to_vec();
    for a in
        (0..width * height).filter(|a| (40..50).contains(&(a % width)) && (30..40).contains(&(a / width)))
    {
        unary[a * labels..][..labels].fill(10.0);
        unary[a * labels + 2] = 0.0;
    }
    let marked = model.with_unary(unary)?;
    // With time for a few iterations only, the old beliefs are far ahead of the unaries alone.
    let cold = Solve::new(&marked).method(Method::MF).max_iterations(3).run()?;
    let warm = Solve::new(&marked).method(Method::MF).max_iterations(3).init(first.beliefs).run()?;
    println!("three iterations from the unaries: energy {:.2}", cold.energy.total());
    println!("three iterations from the old beliefs: energy {:.2}", warm.energy.total());

    // Another method can go on from a solution. The trace, counts and bounds of both runs are then one.
    let better = Solve::new(&marked).method(Method::DC_NEG).continue_from(&warm).run()?;
    println!(
        "dc-neg from there: energy {:.2}, {} iterations in all",
        better.energy.total(),
        better.iterations
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn example_runs() {
        super::main().unwrap();
    }
}
