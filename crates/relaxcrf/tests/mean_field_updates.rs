//! The method `mfN`: fast on lattices from the default start, plain otherwise, and the same either way.

mod common;

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::{Numbers, run};
use relaxcrf::filter::fused::{FusedTerm, Tables};
use relaxcrf::filter::{Direction, Scaling, Workspace};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::updates::{NEGLIGIBLE, Updates};
use relaxcrf::solve::{MeanFieldBuffers, Settings, Solution, Solve, Status, mean_field_beliefs};
use relaxcrf::{Beliefs, Model, ModelBuilder};

const WIDTH: usize = 90;
const HEIGHT: usize = 70;
const PIXELS: usize = WIDTH * HEIGHT;

/// Energies of stripes of three labels, the others less likely; pixels and colours for two kernels.
fn builder(labels: usize, unary: Vec<f32>) -> ModelBuilder {
    let mut r = Numbers(4);
    let color = |a: usize| [120.0 * (3 * (a % WIDTH) / WIDTH) as f32 + 20.0 * r.next(), 40.0 * r.next()];
    let image = (0..PIXELS).flat_map(color).collect();
    ModelBuilder::image(WIDTH, HEIGHT, labels)
        .unary(unary)
        .gaussian(2.0, 1.0)
        .bilateral(image, 15.0, 20.0, 2.0)
        .filter(FilterKind::LatticeClassic)
}

fn energies(labels: usize, others: f32) -> Vec<f32> {
    let mut r = Numbers(7);
    let mut energy = |k: usize| {
        let (a, l) = (k / labels, k % labels);
        let own = [0, labels / 2, labels - 1][3 * (a % WIDTH) / WIDTH];
        2.0 * r.next() + if l == own { 0.0 } else { others }
    };
    (0..PIXELS * labels).map(&mut energy).collect()
}

fn with_forbidden(labels: usize) -> Vec<f32> {
    let mut unary = energies(labels, 6.0);
    for a in (0..PIXELS).step_by(17) {
        unary[a * labels + a % labels] = f32::INFINITY;
    }
    // A whole block with one allowed label.
    unary[64 * labels..128 * labels].fill(f32::INFINITY);
    (64..128).for_each(|a| unary[a * labels] = 3.0);
    unary
}

/// What the updates give that know nothing of models: pairs count twice in a model.
fn by_updates(model: &Model, unary: &[f32], updates: usize) -> Vec<f32> {
    let sums: Vec<Vec<f32>> = model.pairwise().terms().iter().map(|t| t.filter().normalizer()).collect();
    let scale = |n: &Vec<f32>| n.iter().map(|n| 1.0 / (n + 1e-20).sqrt()).collect::<Vec<f32>>();
    let scales: Vec<Vec<f32>> = sums.iter().map(scale).collect();
    let terms = model.pairwise().terms().iter().zip(&scales).map(|(term, scale)| FusedTerm {
        operator: term.filter().fused().unwrap(),
        scaling: Scaling {
            left: Some(scale),
            right: Some(scale),
            gain: 2.0 * term.kernel().weight,
            add: false,
        },
    });
    let problem =
        Updates { labels: model.labels(), points: PIXELS, unary: Some(unary), terms: terms.collect() };
    problem.run(updates, &AtomicBool::new(false), &mut Tables::default())
}

fn stopped_after(model: &Model, method: &str, settings: &Settings, stop: usize) -> Solution {
    let watch = |p: &relaxcrf::solve::Progress| match p.iteration >= stop {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    Solve::new(model).method_name(method).unwrap().settings(settings).observe(watch).run().unwrap()
}

fn settings(updates: usize) -> Settings {
    Settings { max_iterations: Some(updates), ..Settings::default() }
}

fn furthest(a: &Beliefs, b: &Beliefs) -> f32 {
    a.as_slice().iter().zip(b.as_slice()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Problems whose updates drop labels, keep all, have two labels, forbid some.
fn problems() -> Vec<(&'static str, Model, Vec<f32>)> {
    let all = [
        ("21 labels, 3 active", 21, energies(21, 8.0)),
        ("21 labels, all active", 21, energies(21, 0.5)),
        ("4 labels", 4, energies(4, 2.0)),
        ("2 labels", 2, energies(2, 3.0)),
        ("21 labels, some forbidden", 21, with_forbidden(21)),
        ("2 labels, some forbidden", 2, with_forbidden(2)),
    ];
    all.map(|(what, labels, unary)| (what, builder(labels, unary.clone()).build().unwrap(), unary)).into()
}

#[test]
fn solve_and_the_direct_entry_return_exactly_the_beliefs_of_the_updates() {
    for (what, model, unary) in problems() {
        for updates in [1, 2, 3, 10] {
            let solution = run(&model, &format!("mf{updates}"), &Settings::default());
            let expected = by_updates(&model, &unary, updates);
            assert!(solution.beliefs.as_slice() == expected, "{what}, {updates} updates");
            let direct = mean_field_beliefs(
                &model,
                updates,
                &AtomicBool::new(false),
                &mut MeanFieldBuffers::default(),
            )
            .unwrap();
            assert!(direct == solution.beliefs, "{what}, {updates} updates, directly");
            assert_eq!(solution.iterations, updates);
            assert_eq!(solution.status, Status::MaxIterations);
            assert!(solution.counts.filter >= updates);
        }
    }
}

#[test]
fn fast_updates_equal_plain_ones_within_the_bound() {
    for (what, model, _) in problems() {
        let start = Beliefs::from_energies(model.unary(), model.labels());
        let plain = Solve::new(&model).method_name("mf8").unwrap().init(start).run().unwrap();
        let fast = run(&model, "mf8", &Settings::default());
        assert!(plain.trace.iter().all(|p| p.objective.is_finite()), "{what}: the plain path was not taken");
        // Converged blocks count as certain, which they are to two parts in a thousand.
        let apart = furthest(&plain.beliefs, &fast.beliefs);
        assert!(apart < NEGLIGIBLE, "{what}: {apart}");
        let rows = fast.beliefs.as_slice().chunks_exact(model.labels());
        assert!(rows.map(|row| row.iter().sum::<f32>()).all(|sum| (sum - 1.0).abs() < 1e-5), "{what}");
    }
}

#[test]
fn fast_updates_have_no_objective_and_no_own_energy_before_their_last() {
    let model = builder(4, energies(4, 2.0)).build().unwrap();
    let solution = run(&model, "mf12", &Settings { evaluate_every: 1, ..Settings::default() });
    assert_eq!(solution.trace.len(), 12);
    assert!(solution.trace.iter().all(|p| p.objective.is_nan() && p.method == "mf12"));
    let evaluated: Vec<usize> =
        solution.trace.iter().filter(|p| p.own_energy.is_some()).map(|p| p.iteration).collect();
    assert_eq!(evaluated, [12]);
    assert_eq!(solution.trace[11].own_energy, Some(solution.final_energy.total()));
    // The unary argmin, the labels, and the best constant labelling if that is lower.
    assert!(solution.counts.evaluations <= 3);
}

#[test]
fn run_stopped_by_its_observer_has_the_beliefs_of_the_updates_made() {
    for (what, model, unary) in problems() {
        for stop in [1, 4] {
            let solution = stopped_after(&model, "mf10", &Settings::default(), stop);
            assert_eq!((solution.status, solution.iterations), (Status::Stopped, stop), "{what}");
            // A run that was planned for three updates or more drops labels in the same updates.
            if stop > 2 {
                assert!(solution.beliefs.as_slice() == by_updates(&model, &unary, stop), "{what}");
            }
            let labels = solution.beliefs.argmax();
            assert_eq!(
                solution.final_energy,
                relaxcrf::energy::of_labeling(&model, &labels).unwrap(),
                "{what}"
            );
        }
    }
}

#[test]
fn run_out_of_time_has_the_beliefs_of_its_first_update() {
    for (what, model, unary) in problems() {
        let limited = Settings { time_limit: Some(Duration::ZERO), ..Settings::default() };
        let solution = run(&model, "mf10", &limited);
        assert_eq!((solution.status, solution.iterations), (Status::TimeLimit, 1), "{what}");
        assert!(solution.beliefs.as_slice() == by_updates(&model, &unary, 1), "{what}");
    }
}

#[test]
fn direct_entry_returns_after_the_update_in_which_it_is_stopped() {
    let (_, model, unary) = problems().remove(0);
    let stopped =
        mean_field_beliefs(&model, 10, &AtomicBool::new(true), &mut MeanFieldBuffers::default()).unwrap();
    assert!(stopped.as_slice() == by_updates(&model, &unary, 1));
    let none =
        mean_field_beliefs(&model, 0, &AtomicBool::new(false), &mut MeanFieldBuffers::default()).unwrap();
    assert_eq!(none, Beliefs::from_energies(model.unary(), model.labels()));
}

#[test]
fn number_of_updates_is_the_methods_unless_the_settings_say_otherwise() {
    let model = builder(3, energies(3, 2.0)).build().unwrap();
    let beliefs = |method: &str, settings: &Settings| run(&model, method, settings).beliefs;
    assert_eq!(beliefs("mf7", &Settings::default()), beliefs("mf5", &settings(7)));
    assert_eq!(run(&model, "mf10000", &settings(3)).iterations, 3);
    let none = run(&model, "mf5", &settings(0));
    assert_eq!(none.beliefs, Beliefs::from_energies(model.unary(), 3));
    for (name, written) in [("mf1", "mf1"), ("mf5", "mf5"), ("mf10", "mf10"), ("mf10000", "mf10000")] {
        let pipeline: relaxcrf::solve::Pipeline = name.parse().unwrap();
        assert_eq!(pipeline.to_string(), written);
    }
    for refused in ["mf0", "mf10001", "mf99999999999999999999", "mf5:fast", "mf-1", "mf5x"] {
        assert!(refused.parse::<relaxcrf::solve::Pipeline>().is_err(), "{refused}");
    }
    let error = "mf0".parse::<relaxcrf::solve::Pipeline>().unwrap_err().to_string();
    assert!(error.contains("mf0") && error.contains("1 to 10000"), "{error}");
}

#[test]
fn chains_take_the_plain_path_after_their_first_stage_and_the_fast_one_from_every_start() {
    let model = builder(4, energies(4, 1.0)).build().unwrap();
    let chain = run(&model, "mf3+mf2", &Settings::default());
    let fast = |stage: usize| {
        let mut steps = chain.trace.iter().filter(|p| p.stage == stage);
        steps.all(|p| p.objective.is_nan())
    };
    assert!(fast(0) && !fast(1));
    assert!(furthest(&chain.beliefs, &run(&model, "mf5", &Settings::default()).beliefs) < NEGLIGIBLE);
    let anew = run(&model, "mf3/mf5", &Settings::default());
    assert!(anew.trace.iter().all(|p| p.objective.is_nan()));
    assert_eq!(anew.beliefs, run(&model, "mf5", &Settings::default()).beliefs);
    // What comes after is as good a start as any.
    let onward = run(&model, "mf5+dc-neg", &Settings::default());
    assert!(onward.energy.total() <= run(&model, "mf5", &Settings::default()).energy.total());
}

#[test]
fn models_without_a_fast_path_take_the_plain_one() {
    let four = || builder(4, energies(4, 2.0));
    let models = [
        ("linear costs", four().compatibility(Compatibility::linear(4, None).unwrap()).build().unwrap()),
        ("no kernels", ModelBuilder::image(WIDTH, HEIGHT, 4).unary(energies(4, 2.0)).build().unwrap()),
        ("one label", builder(1, energies(1, 2.0)).build().unwrap()),
        ("a grid filter", four().filter(FilterKind::Auto).kernel(narrow()).build().unwrap()),
    ];
    for (what, model) in models {
        let solution = run(&model, "mf4", &Settings::default());
        assert!(solution.trace.iter().all(|p| p.objective.is_finite()), "{what}");
        let direct =
            mean_field_beliefs(&model, 4, &AtomicBool::new(false), &mut MeanFieldBuffers::default()).unwrap();
        assert!(direct == solution.beliefs, "{what}");
    }
}

/// A kernel that `auto` filters on the grid.
fn narrow() -> relaxcrf::model::Kernel {
    let features = relaxcrf::model::Features::Position { sigma: vec![0.6] };
    relaxcrf::model::Kernel { features, weight: 0.5 }
}

#[test]
fn one_pixel_keeps_its_own_beliefs() {
    for labels in [1, 2, 3, 12] {
        let unary: Vec<f32> = (0..labels).map(|l| (l as f32 * 0.7).sin()).collect();
        let model = ModelBuilder::image(1, 1, labels)
            .unary(unary)
            .gaussian(3.0, 2.0)
            .filter(FilterKind::LatticeClassic)
            .build()
            .unwrap();
        let solution = run(&model, "mf10", &Settings::default());
        // A pixel's message to itself makes it more certain, of the label that it prefers on its own.
        assert_eq!(solution.labeling, model.unary_argmin(), "{labels} labels");
        assert_eq!(solution.beliefs.argmax(), model.unary_argmin(), "{labels} labels");
        let sum: f32 = solution.beliefs.as_slice().iter().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{labels} labels");
    }
}

#[test]
fn forbidden_labels_have_no_belief() {
    for labels in [2, 21] {
        let unary = with_forbidden(labels);
        let model = builder(labels, unary.clone()).build().unwrap();
        let solution = run(&model, "mf10", &Settings::default());
        let mut beliefs = unary.iter().zip(solution.beliefs.as_slice());
        assert!(beliefs.all(|(e, &y)| e.is_finite() || y == 0.0), "{labels} labels");
        assert!(solution.energy.total().is_finite());
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for (what, model, _) in problems() {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run(&model, "mf10", &Settings::default()).beliefs)
        };
        let one = with(1);
        assert!(one == with(2) && one == with(5), "{what}");
    }
}

#[test]
fn models_on_shared_kernels_may_be_solved_at_once() {
    // Values that are computed when first needed must not wait for each other.
    let model = builder(3, energies(3, 1.0)).build().unwrap();
    let models: Vec<Model> = (0..8).map(|_| model.with_unary(energies(3, 2.0)).unwrap()).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let energies: Vec<f64> = pool.install(|| {
        use rayon::prelude::*;
        models.par_iter().map(|m| run(m, "qp", &settings(2)).energy.total()).collect()
    });
    assert!(energies.iter().all(|e| *e == energies[0]));
}

#[test]
fn values_computed_when_needed_are_those_of_the_operator() {
    for normalization in
        [Normalization::None, Normalization::Symmetric, Normalization::Before, Normalization::After]
    {
        let model = builder(3, with_forbidden(3)).normalization(normalization).build().unwrap();
        let pairwise = model.pairwise();
        let mut sums = vec![0.0; PIXELS];
        pairwise.apply(Direction::Forward, &vec![1.0; PIXELS], 1, &mut sums, &mut Workspace::new());
        assert_eq!(pairwise.row_sums(), sums, "{normalization}");
        let ranges = model.unary().chunks_exact(3).map(|row| {
            let allowed: Vec<f32> = row.iter().copied().filter(|e| *e < model.forbidden()).collect();
            let most = allowed.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            f64::from(most - allowed.iter().copied().fold(f32::INFINITY, f32::min))
        });
        let scale = ranges.sum::<f64>() + sums.iter().map(|&s| f64::from(s)).sum::<f64>();
        assert!((model.scale() - scale).abs() < 1e-6 * scale, "{normalization}");
        assert!(model.forbidden().is_finite());
    }
    assert_eq!(builder(3, energies(3, 1.0)).build().unwrap().forbidden(), f32::INFINITY);
}
