//! Refines noisy class probabilities of an image: `cargo run --release -p relaxcrf --example segment`.

use relaxcrf::{Method, ModelBuilder, Result, Solve};
use relaxcrf_lab::synth;

fn main() -> Result<()> {
    // An image with known labels, and the probabilities that a poor classifier might give.
    let scene = synth::segmentation(120, 90, 5, 1)?;
    let model = ModelBuilder::image(120, 90, 5)
        .probabilities(&scene.probabilities)?
        // Smoothness: neighbours within about 3 pixels prefer equal labels ...
        .gaussian(3.0, 1.5)
        // ... and so do pixels of similar colour (13 of 255) within about 40 pixels.
        .bilateral(scene.image.data.clone(), 40.0, 13.0, 2.5)
        .build()?;
    let solution = Solve::new(&model).method(Method::MF).run()?;

    let accuracy = |labels: &[u16]| {
        let right = labels.iter().zip(scene.truth.as_slice()).filter(|(a, b)| a == b).count();
        100.0 * right as f64 / labels.len() as f64
    };
    println!("classifier alone: {:.1} % of the pixels are right", accuracy(model.unary_argmin().as_slice()));
    println!("after mean field: {:.1} %", accuracy(solution.labeling.as_slice()));
    println!(
        "energy {:.1}, {} after {} iterations",
        solution.energy.total(),
        solution.status,
        solution.iterations
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
