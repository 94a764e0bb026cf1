//! Gradients on the lattice, in single precision, against the exact filter in double precision.

use relaxcrf::model::Normalization;
use relaxcrf_lab::synth::segmentation;
use relaxcrf_learn::costs::LabelCosts;
use relaxcrf_learn::kernel::{BuildOperator, FeatureGradients, FilterChoice, Kernel};
use relaxcrf_learn::loss::{Loss, Truth};
use relaxcrf_learn::real::Real;
use relaxcrf_learn::unrolled::{Gradients, Problem, Request, Updates};

/// Positions and, if asked for, colours, divided by their widths.
fn features<T: Real>(width: usize, image: &[f32], sigma: f64, sigma_color: Option<f64>) -> (Vec<T>, usize) {
    let rows = image.chunks_exact(3).enumerate().flat_map(|(a, color)| {
        let mut row = vec![(a % width) as f64 / sigma, (a / width) as f64 / sigma];
        if let Some(s) = sigma_color {
            row.extend(color.iter().map(|&c| f64::from(c) / s));
        }
        row.into_iter().map(T::from_f64)
    });
    (rows.collect(), if sigma_color.is_some() { 5 } else { 2 })
}

struct Scene {
    width: usize,
    labels: usize,
    image: Vec<f32>,
    unary: Vec<f32>,
    truth: Truth,
}

impl Scene {
    fn new(width: usize, height: usize, labels: usize) -> Self {
        let scene = segmentation(width, height, labels, 5).unwrap();
        let unary = scene.probabilities.iter().map(|p| -p.max(1e-4).ln()).collect();
        let truth = Truth { labels: scene.truth.as_slice().to_vec(), weights: Vec::new() };
        Self { width, labels, image: scene.image.data, unary, truth }
    }

    fn gradients<T: BuildOperator>(
        &self,
        widths: [f64; 3],
        choice: FilterChoice,
        negligible_belief: f64,
    ) -> Gradients<T> {
        let kernels = [(widths[0], None), (widths[1], Some(widths[2]))].map(|(sigma, color)| {
            let (rows, dims) = features::<T>(self.width, &self.image, sigma, color);
            Kernel::new(rows, dims, choice, Normalization::Symmetric).unwrap()
        });
        let unary: Vec<T> = self.unary.iter().map(|&e| T::from_f64(f64::from(e))).collect();
        let problem = Problem {
            labels: self.labels,
            unary: &unary,
            kernels: &kernels,
            weights: &[0.75, 1.0],
            costs: &LabelCosts::Potts,
            negligible_belief,
        };
        let updates = Updates::MeanField(5);
        let tape = problem.run(&updates, usize::MAX).unwrap();
        let loss = Loss::CrossEntropy;
        let sums = loss.sums(&tape.beliefs, self.labels, &self.truth);
        let g = loss.gradient(&sums, &tape.beliefs, self.labels, &self.truth);
        let request = Request { features: vec![FeatureGradients::Widths; 2] };
        problem.gradients(&updates, &tape, &g, &request).unwrap()
    }
}

fn cosine(a: impl IntoIterator<Item = f64>, b: impl IntoIterator<Item = f64>) -> f64 {
    let sums = a.into_iter().zip(b).fold([0.0; 3], |s, (a, b)| [s[0] + a * b, s[1] + a * a, s[2] + b * b]);
    sums[0] / (sums[1] * sums[2]).sqrt()
}

/// Widths of the Gaussian and of the bilateral kernel, colours as one.
fn widths<T>(g: &Gradients<T>) -> Vec<f64> {
    let sum = |m: usize, some: std::ops::Range<usize>| g.log_widths[m][some].iter().sum::<f64>();
    vec![sum(0, 0..2), sum(1, 0..2), sum(1, 2..5)]
}

#[test]
fn lattice_gradients_point_where_exact_ones_do() {
    let scene = Scene::new(60, 45, 4);
    for sigmas in [[1.0, 67.0, 3.0], [3.0, 30.0, 10.0], [3.0, 80.0, 13.0]] {
        let exact = scene.gradients::<f64>(sigmas, FilterChoice::Exact, 0.0);
        let lattice = scene.gradients::<f32>(sigmas, FilterChoice::LatticeClassic, 0.0);
        let reduced = scene.gradients::<f32>(sigmas, FilterChoice::LatticeClassic, 1e-3);
        for g in [&lattice, &reduced] {
            let unary = cosine(g.unary.iter().map(|&v| f64::from(v)), exact.unary.iter().copied());
            let weights = cosine(g.weights.iter().copied(), exact.weights.iter().copied());
            let width = cosine(widths(g), widths(&exact));
            println!("{sigmas:?}: unaries {unary:.4} weights {weights:.4} widths {width:.4}");
            println!("   {:?} {:?} | {:?} {:?}", g.weights, exact.weights, widths(g), widths(&exact));
            assert!(unary >= 0.98, "{sigmas:?}: unaries {unary}");
            assert!(weights >= 0.98, "{sigmas:?}: weights {weights}");
            assert!(width >= 0.9, "{sigmas:?}: widths {width}");
        }
    }
}

#[test]
fn single_precision_on_the_exact_filter_agrees_with_double() {
    let scene = Scene::new(40, 30, 3);
    let exact = scene.gradients::<f64>([2.0, 20.0, 10.0], FilterChoice::Exact, 0.0);
    let single = scene.gradients::<f32>([2.0, 20.0, 10.0], FilterChoice::Exact, 0.0);
    for (a, b) in single.weights.iter().zip(&exact.weights).chain(widths(&single).iter().zip(&widths(&exact)))
    {
        assert!((a - b).abs() < 1e-3 * b.abs().max(1e-3), "{a} {b}");
    }
}
