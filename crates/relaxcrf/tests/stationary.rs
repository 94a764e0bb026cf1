//! Where the methods of the QP family stop, nothing is left to gain: gradients are worked out from the formula, in double
//! precision, pair by pair.

mod common;

use common::{Numbers, run};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{Settings, Solve};
use relaxcrf::{Beliefs, Model, ModelBuilder};

const PIXELS: usize = 12;
const WEIGHT: f32 = 0.3;

/// A problem, its unaries, and the kernel of every pair of different pixels.
struct Problem {
    model: Model,
    costs: Compatibility,
    unary: Vec<f32>,
    pairs: Vec<f64>,
}

impl Problem {
    fn new(costs: Compatibility, seed: u64) -> Self {
        let mut r = Numbers(seed);
        let places: Vec<f32> = (0..2 * PIXELS).map(|_| 3.0 * r.next()).collect();
        let unary: Vec<f32> = (0..PIXELS * costs.labels()).map(|_| 1.5 * r.next()).collect();
        let kernel = |a: usize, b: usize| {
            let square = |d: usize| f64::from(places[2 * a + d] - places[2 * b + d]).powi(2);
            if a == b { 0.0 } else { f64::from(WEIGHT) * (-0.5 * (square(0) + square(1))).exp() }
        };
        let pairs = (0..PIXELS * PIXELS).map(|k| kernel(k / PIXELS, k % PIXELS)).collect();
        let model = ModelBuilder::points(PIXELS, costs.labels())
            .unary(unary.clone())
            .features(places, 2, WEIGHT)
            .compatibility(costs.clone())
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap();
        Self { model, costs, unary, pairs }
    }

    /// What label `i` would pay to all other pixels, from both ends of every pair.
    fn others(&self, y: &[f32], a: usize, i: usize) -> f64 {
        let labels = self.costs.labels();
        let to = |b: usize| {
            let cost = |j: usize| f64::from(self.costs.cost(i, j)) * f64::from(y[b * labels + j]);
            self.pairs[a * PIXELS + b] * (0..labels).map(cost).sum::<f64>()
        };
        2.0 * (0..PIXELS).map(to).sum::<f64>()
    }

    /// The same with what the pixel would pay to itself, as mean field counts it.
    fn with_self(&self, y: &[f32], a: usize, i: usize) -> f64 {
        let labels = self.costs.labels();
        let own = |j: usize| f64::from(self.costs.cost(i, j)) * f64::from(y[a * labels + j]);
        self.others(y, a, i) + 2.0 * f64::from(WEIGHT) * (0..labels).map(own).sum::<f64>()
    }

    /// `Σ y (log y + φ) + Σ_ab K_ab y_a' μ y_b`.
    fn free_energy(&self, beliefs: &Beliefs) -> f64 {
        let (y, labels) = (beliefs.as_slice(), self.costs.labels());
        let term = |at: usize| {
            let (v, e) = (f64::from(y[at]), f64::from(self.unary[at]));
            let entropy = if v > 0.0 { v.ln() } else { 0.0 };
            v * (entropy + e + 0.5 * self.with_self(y, at / labels, at % labels))
        };
        (0..y.len()).map(term).sum()
    }

    /// The QP relaxation, and the most that moving every pixel to one label could gain to first order.
    fn energy_and_gain(&self, beliefs: &Beliefs) -> (f64, f64) {
        let (y, labels) = (beliefs.as_slice(), self.costs.labels());
        let (mut energy, mut gain) = (0.0, 0.0);
        for a in 0..PIXELS {
            let (mut mean, mut least) = (0.0, f64::INFINITY);
            for i in 0..labels {
                let (at, others) = (a * labels + i, self.others(y, a, i));
                energy += f64::from(y[at]) * (f64::from(self.unary[at]) + 0.5 * others);
                let gradient = f64::from(self.unary[at]) + others;
                mean += f64::from(y[at]) * gradient;
                least = least.min(gradient);
            }
            gain += mean - least;
        }
        (energy, gain)
    }
}

fn metrics() -> Vec<Compatibility> {
    vec![
        Compatibility::potts(4),
        Compatibility::per_label(vec![0.5, 2.0, 1.0]).unwrap(),
        Compatibility::linear(4, None).unwrap(),
    ]
}

#[test]
fn differences_of_convex_functions_end_at_stationary_points() {
    let with = |method: &'static str, costs: Vec<Compatibility>| costs.into_iter().map(move |c| (method, c));
    let settings = Settings { max_iterations: Some(600), tolerance: Some(0.0), ..Settings::default() };
    for (method, costs) in with("dc-neg", metrics()).chain(with("dc-gen", metrics())) {
        for seed in 0..4 {
            let problem = Problem::new(costs.clone(), seed);
            let solution = run(&problem.model, method, &settings);
            let scale = problem.model.scale();
            let (energy, gain) = problem.energy_and_gain(&solution.beliefs);
            let objective = solution.trace.last().unwrap().objective;
            let what = format!("{method} on {:?}, seed {seed}", costs.kind());
            assert!((objective - energy).abs() <= 1e-5 * scale, "{what}: {objective}, by hand {energy}");
            assert!(gain <= 1e-3 * scale, "{what}: {gain} of {scale} left after {}", solution.iterations);
            for pair in solution.trace.windows(2) {
                assert!(pair[1].objective <= pair[0].objective + 1e-7 * scale, "{what} rose");
            }
        }
    }
}

/// Updates that overshoot are damped: here all pixels would like to differ from each other.
fn repelled() -> Compatibility {
    Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap()
}

#[test]
fn mean_field_ends_at_a_fixed_point() {
    let settings = Settings { max_iterations: Some(500), tolerance: Some(0.0), ..Settings::default() };
    for costs in metrics().into_iter().chain([repelled()]) {
        for seed in 0..4 {
            let problem = Problem::new(costs.clone(), seed);
            let solution = run(&problem.model, "mf", &settings);
            let (y, labels) = (solution.beliefs.as_slice(), costs.labels());
            for a in 0..PIXELS {
                let energy = |i| f64::from(problem.unary[a * labels + i]) + problem.with_self(y, a, i);
                let weights: Vec<f64> = (0..labels).map(|i| (-energy(i)).exp()).collect();
                for (i, weight) in weights.iter().enumerate() {
                    let (got, want) = (f64::from(y[a * labels + i]), weight / weights.iter().sum::<f64>());
                    assert!((got - want).abs() < 2e-3, "{:?}, seed {seed}: {got}, not {want}", costs.kind());
                }
            }
        }
    }
}

#[test]
fn the_objective_of_mean_field_is_the_free_energy() {
    for costs in metrics().into_iter().chain([repelled()]) {
        let problem = Problem::new(costs.clone(), 7);
        let (labels, tiny) = (costs.labels(), 1e-5 * problem.model.scale());
        // Some beliefs are zero, which count as such.
        let mut start = Beliefs::from_energies(&problem.unary, labels).as_slice().to_vec();
        start[..labels]
            .copy_from_slice(&(0..labels).map(|i| f32::from(u8::from(i == 1))).collect::<Vec<_>>());
        let start = Beliefs::new(start, labels).unwrap();
        let after = |method: &str, iterations: usize| {
            let settings = Settings { max_iterations: Some(iterations), ..Settings::default() };
            Solve::new(&problem.model)
                .method_name(method)
                .unwrap()
                .init(start.clone())
                .settings(&settings)
                .run()
                .unwrap()
        };
        // Plain updates know it of the beliefs before, guarded ones of the beliefs after.
        let plain = after("mf5", 1);
        let (got, want) = (plain.trace[0].objective, problem.free_energy(&start));
        assert!((got - want).abs() < tiny, "{:?}: {got} at the start, by hand {want}", costs.kind());
        for iterations in 1..4 {
            let guarded = after("mf", iterations);
            let (got, now) = (guarded.trace.last().unwrap().objective, problem.free_energy(&guarded.beliefs));
            assert!((got - now).abs() < tiny && got <= want, "{:?}: {got}, by hand {now}", costs.kind());
            assert!(got < want - 100.0 * tiny, "{:?}: nothing was gained", costs.kind());
        }
    }
}
