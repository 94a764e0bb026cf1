//! Segments a volume, or any grid: `cargo run --release -p relaxcrf --example volume`.

use relaxcrf::model::{Features, Kernel};
use relaxcrf::rng::Rng;
use relaxcrf::{Method, ModelBuilder, Result, Solve};

fn main() -> Result<()> {
    // A noisy ball in a volume of 24 slices, 32 rows and 32 columns. Voxels are 2 mm thick and 1 mm wide.
    let sizes = [24, 32, 32];
    let is_inside = |v: usize| {
        let (z, y, x) = (v / 1024, v / 32 % 32, v % 32);
        let from_centre =
            |at: usize, centre: f32, millimetres: f32| ((at as f32 - centre) * millimetres).powi(2);
        from_centre(z, 12.0, 2.0) + from_centre(y, 16.0, 1.0) + from_centre(x, 16.0, 1.0) < 100.0
    };
    let mut rng = Rng::new(1);
    let voxels = sizes.iter().product();
    let intensity: Vec<f32> = (0..voxels)
        .map(|v| 60.0 * f32::from(u8::from(is_inside(v))) + 100.0 * rng.next_f64() as f32)
        .collect();
    // The unary energies of label 0 (outside) and 1 (inside) fall off with the distance to its typical intensity.
    let unary = intensity.iter().flat_map(|v| [(v - 50.0).abs() / 50.0, (v - 110.0).abs() / 50.0]).collect();

    let model = ModelBuilder::grid(&sizes, 2)
        .unary(unary)
        // One standard deviation per axis, in voxels, the fastest axis (columns) first: 2 mm along each.
        .kernel(Kernel { features: Features::Position { sigma: vec![2.0, 2.0, 1.0] }, weight: 1.0 })
        .build()?;
    let solution = Solve::new(&model).method(Method::MF).run()?;
    let wrong = |labels: &[u16]| (0..voxels).filter(|&v| (labels[v] == 1) != is_inside(v)).count();
    println!("unaries alone: {} of {voxels} voxels are wrong", wrong(model.unary_argmin().as_slice()));
    println!("mean field: {}", wrong(solution.labeling.as_slice()));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn example_runs() {
        super::main().unwrap();
    }
}
