//! Gradients against finite differences, in double precision on the exact filter.

use relaxcrf::model::Normalization;
use relaxcrf::rng::Rng;
use relaxcrf_learn::costs::LabelCosts;
use relaxcrf_learn::kernel::{FeatureGradients, FilterChoice, Kernel};
use relaxcrf_learn::unrolled::{Gradients, Problem, Request, Senders, Updates};

const ALL: [Normalization; 4] =
    [Normalization::None, Normalization::Symmetric, Normalization::Before, Normalization::After];

/// A small random problem: everything that gradients are taken of.
#[derive(Clone)]
struct Case {
    labels: usize,
    unary: Vec<f64>,
    features: Vec<(Vec<f64>, usize)>,
    weights: Vec<f64>,
    costs: LabelCosts,
    normalization: Normalization,
    updates: Updates,
    of_beliefs: Vec<f64>,
}

impl Case {
    fn new(
        points: usize,
        labels: usize,
        costs: LabelCosts,
        normalization: Normalization,
        updates: Updates,
    ) -> Self {
        let mut rng = Rng::stream(11, (points * labels) as u64);
        let mut numbers =
            |count: usize, scale: f64| (0..count).map(|_| scale * rng.normal()).collect::<Vec<f64>>();
        let features = vec![(numbers(points * 2, 1.0), 2), (numbers(points * 3, 0.8), 3)];
        Self {
            labels,
            unary: numbers(points * labels, 1.0),
            features,
            weights: vec![0.4, 0.7],
            costs,
            normalization,
            updates,
            of_beliefs: numbers(points * labels, 1.0),
        }
    }

    fn kernels(&self) -> Vec<Kernel<f64>> {
        let build = |(f, dims): &(Vec<f64>, usize)| {
            Kernel::new(f.clone(), *dims, FilterChoice::Exact, self.normalization).unwrap()
        };
        self.features.iter().map(build).collect()
    }

    fn with<R>(&self, work: impl FnOnce(Problem<f64>) -> R) -> R {
        let kernels = self.kernels();
        let Self { labels, unary, weights, costs, .. } = self;
        work(Problem { labels: *labels, unary, kernels: &kernels, weights, costs, senders: Senders::All })
    }

    fn value(&self) -> f64 {
        let q = self.with(|problem| problem.beliefs(&self.updates).unwrap());
        q.iter().zip(&self.of_beliefs).map(|(q, g)| q * g).sum()
    }

    fn gradients(&self, of: FeatureGradients, memory: usize) -> Gradients<f64> {
        self.with(|problem| {
            let tape = problem.run(&self.updates, memory).unwrap();
            problem
                .gradients(&self.updates, &tape, &self.of_beliefs, &Request { features: vec![of; 2] })
                .unwrap()
        })
    }

    /// Central difference of fourth order of the value, when `change` moves something by the given number.
    fn difference(&self, change: impl Fn(&mut Case, f64)) -> f64 {
        // Projections have kinks, which a short step is unlikely to meet.
        let step = if matches!(self.updates, Updates::MeanField(_)) { 2e-3 } else { 1e-5 };
        let at = |h: f64| {
            let mut case = self.clone();
            change(&mut case, h);
            case.value()
        };
        (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step)
    }

    /// Checks every kind of parameter; entries are sampled.
    fn check(&self, tolerance: f64) {
        let rows = self.gradients(FeatureGradients::Rows, usize::MAX);
        let widths = self.gradients(FeatureGradients::Widths, 1);
        let size = rows.unary.iter().map(|g| g * g).sum::<f64>().sqrt();
        let near = |what: &str, got: f64, expected: f64| {
            let error = (got - expected).abs() / expected.abs().max(0.01 * size);
            assert!(error <= tolerance, "{what}: {got} expected {expected}, off by {error:e}");
        };
        for at in (0..self.unary.len()).step_by(5) {
            near("unary", rows.unary[at], self.difference(|c, h| c.unary[at] += h));
        }
        for m in 0..2 {
            near("weight", rows.weights[m], self.difference(|c, h| c.weights[m] += h));
            let dims = self.features[m].1;
            for at in (0..self.features[m].0.len()).step_by(7) {
                near("feature", rows.features[m][at], self.difference(|c, h| c.features[m].0[at] += h));
            }
            for k in 0..dims {
                let expected = self.difference(|c, h| {
                    c.features[m].0.iter_mut().skip(k).step_by(dims).for_each(|f| *f *= (-h).exp());
                });
                near("log width by rows", rows.log_widths[m][k], expected);
                near("log width", widths.log_widths[m][k], expected);
            }
        }
        let own = self.costs.pull_back(self.labels, &rows.cost_entries);
        match &self.costs {
            LabelCosts::Potts => {}
            LabelCosts::PerLabel(costs) => {
                for i in 0..costs.len() {
                    let expected = self.difference(|c, h| {
                        if let LabelCosts::PerLabel(costs) = &mut c.costs {
                            costs[i] += h;
                        }
                    });
                    near("cost of a label", own[i], expected);
                }
            }
            LabelCosts::Matrix(_) => {
                let labels = self.labels;
                for (i, j) in [(0, 1), (1, 2), (0, labels - 1)] {
                    let expected = self.difference(|c, h| {
                        if let LabelCosts::Matrix(entries) = &mut c.costs {
                            entries[i * labels + j] += h;
                            entries[j * labels + i] += h;
                        }
                    });
                    near("entry", own[i * labels + j] + own[j * labels + i], expected);
                }
            }
        }
        // Without a full tape beliefs are computed again.
        assert_eq!(rows.unary, widths.unary);
        assert_eq!(rows.weights, widths.weights);
    }
}

fn matrix() -> LabelCosts {
    LabelCosts::Matrix(vec![0.0, 1.0, 0.3, 1.0, 0.0, 0.8, 0.3, 0.8, 0.0])
}

#[test]
fn gradients_equal_finite_differences_for_all_normalizations_and_costs() {
    for normalization in ALL {
        for costs in [LabelCosts::Potts, LabelCosts::PerLabel(vec![0.7, 1.2, 0.9]), matrix()] {
            Case::new(12, 3, costs, normalization, Updates::MeanField(5)).check(1e-6);
        }
    }
}

#[test]
fn gradients_through_projections_equal_finite_differences() {
    for costs in [LabelCosts::Potts, matrix()] {
        let updates = Updates::Projections(vec![3.0, 2.5, 2.0]);
        Case::new(12, 3, costs, Normalization::Symmetric, updates).check(1e-6);
    }
}

#[test]
fn gradient_at_the_fixed_point_equals_a_long_unrolled_one() {
    for normalization in [Normalization::Symmetric, Normalization::After] {
        let case = Case::new(12, 3, matrix(), normalization, Updates::MeanField(150));
        let unrolled = case.gradients(FeatureGradients::Widths, usize::MAX);
        let implicit = case.with(|problem| {
            let beliefs = problem.beliefs(&case.updates).unwrap();
            let request = Request { features: vec![FeatureGradients::Widths; 2] };
            problem.gradients_at_fixed_point(&beliefs, &case.of_beliefs, &request, 1e-12, 500).unwrap()
        });
        let near = |a: &[f64], b: &[f64]| {
            let size = a.iter().map(|v| v * v).sum::<f64>().sqrt();
            let apart = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
            assert!(apart <= 1e-8 * size, "{a:?} {b:?}");
        };
        near(&unrolled.unary, &implicit.unary);
        near(&unrolled.weights, &implicit.weights);
        near(&unrolled.cost_entries, &implicit.cost_entries);
        for m in 0..2 {
            near(&unrolled.log_widths[m], &implicit.log_widths[m]);
        }
    }
}

#[test]
fn unary_gradient_without_kernels_is_that_of_the_softmax() {
    let (unary, costs) = (vec![0.3, -0.2, 0.9], LabelCosts::Potts);
    let problem = Problem {
        labels: 3,
        unary: &unary,
        kernels: &[],
        weights: &[],
        costs: &costs,
        senders: Senders::All,
    };
    let updates = Updates::MeanField(1);
    let tape = problem.run(&updates, usize::MAX).unwrap();
    let q = tape.beliefs.clone();
    // The gradient of log q_1 is q_k - [k = 1].
    let gradients = problem.gradients(&updates, &tape, &[0.0, 1.0 / q[1], 0.0], &Request::default()).unwrap();
    for (k, (g, q)) in gradients.unary.iter().zip(&q).enumerate() {
        assert!((g - (q - f64::from(u8::from(k == 1)))).abs() < 1e-14);
    }
}

#[test]
fn bad_input_is_an_error() {
    let (unary, costs) = (vec![0.3, f64::NAN], LabelCosts::Potts);
    let problem = |labels, unary| Problem::<f64> {
        labels,
        unary,
        kernels: &[],
        weights: &[],
        costs: &costs,
        senders: Senders::All,
    };
    let message = |problem: Problem<f64>| problem.run(&Updates::MeanField(1), 0).unwrap_err().to_string();
    assert!(message(problem(2, &unary)).contains("finite"));
    assert!(message(problem(3, &unary)).contains("3 labels"));
    assert!(message(problem(0, &unary)).contains("rows"));
    assert!(LabelCosts::PerLabel(vec![1.0]).check(2).is_err());
    assert!(
        LabelCosts::Matrix(vec![1.0, 0.0, 0.0, 0.0]).check(2).unwrap_err().to_string().contains("diagonal")
    );
    assert!(
        LabelCosts::Matrix(vec![0.0, 1.0, 0.5, 0.0]).check(2).unwrap_err().to_string().contains("symmetric")
    );
}
