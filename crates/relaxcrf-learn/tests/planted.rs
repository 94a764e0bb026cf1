//! A model that generated the labels is found again.

use relaxcrf::model::Normalization;
use relaxcrf::rng::Rng;
use relaxcrf_learn::bootstrap::Measure;
use relaxcrf_learn::costs::LabelCosts;
use relaxcrf_learn::fit::{Memory, Task};
use relaxcrf_learn::kernel::FilterChoice;
use relaxcrf_learn::lbfgs::{Limits, minimize};
use relaxcrf_learn::loss::Loss;
use relaxcrf_learn::parameters::{KernelKind, KernelParameters, Parameters, Part};
use relaxcrf_learn::sample::{RawSample, Sample};
use relaxcrf_learn::unrolled::{Problem, Senders, Updates};

const SIZE: (usize, usize) = (20, 16);
const LABELS: usize = 3;
const IMAGES: usize = 20;

/// Keeps nothing.
struct NoMemory;

impl Memory for NoMemory {
    fn find(&mut self, _: u64) -> Option<Vec<f64>> {
        None
    }

    fn store(&mut self, _: u64, _: &[f64]) -> relaxcrf::Result<()> {
        Ok(())
    }

    fn progress(&mut self, _: &str, _: f64) {}
}

fn planted() -> Parameters {
    let kernel = |kind, weight, widths: &[f64]| KernelParameters { kind, weight, widths: widths.to_vec() };
    let kernels =
        vec![kernel(KernelKind::Gaussian, 0.6, &[2.0]), kernel(KernelKind::Bilateral, 1.2, &[12.0, 20.0])];
    let mut parameters = Parameters::new(LABELS, kernels).unwrap();
    (parameters.temperature, parameters.costs) = (1.2, vec![1.0, 0.7, 1.3]);
    parameters
}

/// Energies and an image of two areas, and labels drawn from the planted model's beliefs.
fn sample(seed: u64) -> Sample {
    let points = SIZE.0 * SIZE.1;
    let mut rng = Rng::new(seed);
    let slope = 0.3 + 0.4 * rng.next_f64();
    let area: Vec<usize> = (0..points)
        .map(|a| usize::from(((a % SIZE.0) as f64) < slope * SIZE.0 as f64) + usize::from(a / SIZE.0 > 9))
        .collect();
    let image: Vec<f32> = area
        .iter()
        .flat_map(|&l| [60.0 + 60.0 * l as f64, 200.0 - 50.0 * l as f64, 90.0])
        .map(|c| (c + 6.0 * rng.normal()) as f32)
        .collect();
    let unary: Vec<f32> = area
        .iter()
        .flat_map(|&l| (0..LABELS).map(move |k| if k == l { -1.0 } else { 0.0 }))
        .map(|e: f64| (e + 1.3 * rng.normal()) as f32)
        .collect();
    let raw = |truth: Vec<u16>| RawSample {
        size: SIZE,
        labels: LABELS,
        unary: &unary,
        image: image.clone(),
        features: Vec::new(),
        truth,
        weights: Vec::new(),
    };
    let p = planted();
    let first = Sample::new(raw((0..points).map(|a| (a % LABELS) as u16).collect())).unwrap();
    let kernels = first.kernels(&p, FilterChoice::Exact, Normalization::Symmetric).unwrap();
    let energies: Vec<f32> = unary.iter().map(|e| e / p.temperature as f32).collect();
    let weights: Vec<f64> = p.kernels.iter().map(|k| k.weight).collect();
    let costs = LabelCosts::PerLabel(p.costs.clone());
    let problem = Problem {
        labels: LABELS,
        unary: &energies,
        kernels: &kernels,
        weights: &weights,
        costs: &costs,
        senders: Senders::All,
    };
    let beliefs = problem.beliefs(&Updates::MeanField(5)).unwrap();
    let draw = |row: &[f32], mut at: f64| {
        for (l, &q) in row.iter().enumerate() {
            at -= f64::from(q);
            if at < 0.0 {
                return l as u16;
            }
        }
        (LABELS - 1) as u16
    };
    let truth = beliefs.chunks_exact(LABELS).map(|row| draw(row, rng.next_f64())).collect();
    Sample::new(raw(truth)).unwrap()
}

#[test]
fn planted_model_is_found_from_a_start_that_is_wrong_by_a_factor_of_three() {
    let samples: Vec<Sample> = (0..IMAGES as u64).map(sample).collect();
    let truth = planted();
    let mut start = truth.clone();
    start.temperature *= 3.0;
    for (kernel, factor) in start.kernels.iter_mut().zip([3.0, 1.0 / 3.0]) {
        kernel.weight *= factor;
        kernel.widths.iter_mut().for_each(|w| *w *= factor);
    }
    start.costs.iter_mut().zip([3.0, 1.0 / 3.0, 3.0]).for_each(|(c, factor)| *c *= factor);
    let task = Task {
        samples: &samples,
        start: start.clone(),
        loss: Loss::CrossEntropy,
        measure: Measure::Accuracy,
        updates: Updates::MeanField(5),
        filter: FilterChoice::Exact,
        normalization: Normalization::Symmetric,
        folds: 1,
    };
    let all: Vec<usize> = (0..IMAGES).collect();
    let loss = |variables: &[f64]| task.evaluate(&all, variables, &[], &mut NoMemory).unwrap().value;
    let limits = Limits { steps: 25, evaluations: 32, tolerance: 1e-6, max_change: 0.5 };
    let found =
        minimize(&start.variables(), limits, |v| task.evaluate(&all, v, &Part::ALL, &mut NoMemory)).unwrap();
    let (before, planted, learned) = (loss(&start.variables()), loss(&truth.variables()), loss(&found.at));
    println!("cross entropy {before:.4} at the start, {learned:.4} learned, {planted:.4} planted");
    println!("{:?}", start.with_variables(&found.at));
    assert!(before > 1.1 * planted, "the start must be wrong: {before} {planted}");
    assert!(learned <= 1.1 * planted, "{learned} against {planted}");
    // Labels, too, on images that were not learned from.
    let held_back: Vec<Sample> = (100..110).map(sample).collect();
    let wrong = |parameters: &Parameters| {
        let counts: Vec<_> = held_back
            .iter()
            .map(|s| {
                let kernels = s.kernels(parameters, FilterChoice::Exact, Normalization::Symmetric).unwrap();
                let run = s.run(parameters, kernels, &Updates::MeanField(5), false).unwrap();
                s.measure(&run, Loss::Accuracy).1
            })
            .collect();
        1.0 - Measure::Accuracy.of_all(&counts)
    };
    let (planted, learned) = (wrong(&truth), wrong(&start.with_variables(&found.at)));
    println!("wrong labels {:.4} at the start, {learned:.4} learned, {planted:.4} planted", wrong(&start));
    assert!(learned <= 1.1 * planted, "{learned} against {planted}");
}

#[test]
fn cross_validation_accepts_a_part_that_helps_and_fit_never_loses_on_left_out_images() {
    let samples: Vec<Sample> = (0..8).map(sample).collect();
    let mut start = planted();
    start.costs = vec![1.0; LABELS];
    // Far too weak kernels: weights must go up.
    start.kernels.iter_mut().for_each(|k| k.weight *= 0.1);
    let task = Task {
        samples: &samples,
        start,
        loss: Loss::CrossEntropy,
        measure: Measure::Accuracy,
        updates: Updates::MeanField(5),
        filter: FilterChoice::Exact,
        normalization: Normalization::Symmetric,
        folds: 4,
    };
    let fit = task.fit(&[Part::Weights, Part::Bias], &mut NoMemory).unwrap();
    assert!(fit.verdicts[0].is_accepted, "{:?}", fit.verdicts[0]);
    let [_, before, after] = fit.left_out.each_ref().map(|counts| Measure::Accuracy.of_all(counts));
    assert!(after > before, "{before} -> {after}");
    assert!(fit.losses[1] < fit.losses[0]);
    // The same again, to the last bit.
    let again = task.fit(&[Part::Weights, Part::Bias], &mut NoMemory).unwrap();
    assert_eq!(again.parameters, fit.parameters);
}
