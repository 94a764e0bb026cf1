//! Gradients on the lattice against those on the exact filter.

use relaxcrf::model::Normalization;
use relaxcrf_lab::synth::segmentation;
use relaxcrf_learn::costs::LabelCosts;
use relaxcrf_learn::kernel::{BuildOperator, FeatureGradients, FilterChoice, Kernel};
use relaxcrf_learn::loss::{Loss, Truth};
use relaxcrf_learn::real::Real;
use relaxcrf_learn::unrolled::{Gradients, Problem, Request, Senders, Updates};

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

    /// The same with the sensor noise averaged over 3 x 3 pixels.
    fn without_noise(mut self) -> Self {
        let (width, height) = (self.width, self.image.len() / 3 / self.width);
        let near = |at: usize, size: usize| at.saturating_sub(1)..(at + 2).min(size);
        let mut image = Vec::with_capacity(self.image.len());
        for (y, x, c) in
            (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| (y, x, c))))
        {
            let some = near(y, height).flat_map(|v| near(x, width).map(move |u| (v * width + u) * 3 + c));
            let values: Vec<f32> = some.map(|at| self.image[at]).collect();
            image.push(values.iter().sum::<f32>() / values.len() as f32);
        }
        self.image = image;
        self
    }

    fn gradients<T: BuildOperator>(
        &self,
        widths: [f64; 3],
        choice: FilterChoice,
        senders: Senders,
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
            senders,
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

/// Cosines of unaries, weights and widths between lattice and exact filter.
fn cosines(scene: &Scene, sigmas: [f64; 3], senders: Senders) -> [f64; 3] {
    let exact = scene.gradients::<f32>(sigmas, FilterChoice::Exact, Senders::All);
    let lattice = scene.gradients::<f32>(sigmas, FilterChoice::LatticeClassic, senders);
    let numbers = |g: &Gradients<f32>| g.unary.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let found = [
        cosine(numbers(&lattice), numbers(&exact)),
        cosine(lattice.weights.iter().copied(), exact.weights.iter().copied()),
        cosine(widths(&lattice), widths(&exact)),
    ];
    println!("widths {sigmas:?}: cosines of unaries, weights, widths {found:.4?}");
    found
}

#[test]
fn lattice_gradients_point_where_exact_ones_do() {
    let scene = Scene::new(112, 84, 4).without_noise();
    for sigmas in [[1.0, 67.0, 3.0], [3.0, 30.0, 10.0], [3.0, 80.0, 13.0]] {
        for senders in [Senders::All, Senders::Believed(1e-3)] {
            let [unary, weights, widths] = cosines(&scene, sigmas, senders);
            assert!(unary >= 0.98, "{sigmas:?}: unaries {unary}");
            assert!(weights >= 0.98, "{sigmas:?}: weights {weights}");
            assert!(widths >= 0.9, "{sigmas:?}: widths {widths}");
        }
    }
}

/// Colours that differ from pixel to pixel by more than their width leave the lattice few vertices with neighbours.
#[test]
fn lattice_gradients_stay_close_where_noise_exceeds_the_colour_width() {
    let [unary, weights, widths] = cosines(&Scene::new(112, 84, 4), [1.0, 67.0, 3.0], Senders::All);
    assert!(unary >= 0.96 && weights >= 0.96 && widths >= 0.9, "{unary} {weights} {widths}");
}

#[test]
fn single_precision_on_the_exact_filter_agrees_with_double() {
    let scene = Scene::new(40, 30, 3);
    let exact = scene.gradients::<f64>([2.0, 20.0, 10.0], FilterChoice::Exact, Senders::All);
    let single = scene.gradients::<f32>([2.0, 20.0, 10.0], FilterChoice::Exact, Senders::All);
    for (a, b) in single.weights.iter().zip(&exact.weights).chain(widths(&single).iter().zip(&widths(&exact)))
    {
        assert!((a - b).abs() < 1e-3 * b.abs().max(1e-3), "{a} {b}");
    }
}
