//! Problems small enough to try every labelling: bounds, monotone descent, oracles.

mod common;

use common::{Numbers, exhaustive, oracle, random_model, run};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{METHODS, Settings, Solution, Solve};
use relaxcrf::{Model, ModelBuilder};

fn settings(iterations: usize) -> Settings {
    Settings { max_iterations: Some(iterations), tolerance: Some(0.0), ..Settings::default() }
}

/// Random problems of many strengths, with exact and lattice operators.
fn problems(labels: usize) -> Vec<Model> {
    let mut models = Vec::new();
    for seed in 0..12 {
        let strength = [0.02, 0.1, 0.3, 1.0][seed as usize % 4];
        for filter in [FilterKind::Exact, FilterKind::Lattice] {
            models.push(random_model(if labels <= 3 { 8 } else { 6 }, labels, 1000 + seed, strength, filter));
        }
    }
    models
}

fn assert_monotone(solution: &Solution, what: &str) {
    for pair in solution.trace.windows(2) {
        if pair[0].method == pair[1].method {
            let slack = 1e-5 * (1.0 + pair[0].objective.abs());
            assert!(
                pair[1].objective <= pair[0].objective + slack,
                "{what}: {} then {}",
                pair[0].objective,
                pair[1].objective
            );
        }
    }
}

#[test]
fn lower_bounds_never_exceed_the_optimum_and_nothing_is_below_it() {
    for labels in [2, 3, 4] {
        for model in problems(labels) {
            let (_, optimum) = exhaustive(&model);
            let slack = 1e-5 * (1.0 + optimum.abs());
            for method in
                METHODS.iter().map(|m| m.name).chain(["qp:fw", "qp+dc-neg", "qp+dc-gen", "mf+dc-neg"])
            {
                if method == "exact" && labels != 2 {
                    continue;
                }
                let solution = run(&model, method, &settings(40));
                let energy = solution.energy.total();
                assert!(energy >= optimum - slack, "{method}: {energy} is below the optimum {optimum}");
                if let Some(bound) = &solution.lower_bound {
                    assert!(
                        bound.value <= optimum + slack,
                        "{method}: bound {} above {optimum}",
                        bound.value
                    );
                }
                let bounds: Vec<f64> = solution.trace.iter().filter_map(|p| p.lower_bound).collect();
                assert!(bounds.windows(2).all(|b| b[0] <= b[1]), "{method}: the bound fell");
                let energies: Vec<f64> = solution.trace.iter().map(|p| p.energy).collect();
                assert!(energies.windows(2).all(|e| e[0] >= e[1]), "{method}: the best energy rose");
            }
        }
    }
}

#[test]
fn monotone_methods_are_monotone() {
    for labels in [2, 4] {
        for model in problems(labels) {
            for method in ["mf", "qp:fw", "dc-neg", "dc-gen", "qp+dc-neg", "qp:fw+dc-gen"] {
                let last = method.rsplit('+').next().unwrap();
                let solution = run(&model, method, &settings(30));
                let trace: Vec<_> = solution.trace.iter().filter(|p| p.method == last).cloned().collect();
                assert_monotone(&Solution { trace, ..solution }, method);
            }
        }
    }
}

#[test]
fn the_convex_qp_is_solved_to_its_optimum_both_ways() {
    // At the optimum the bound meets the objective.
    for model in problems(3) {
        let fast = run(&model, "qp", &settings(3000));
        let (objective, bound) = (fast.trace.last().unwrap().objective, fast.lower_bound.unwrap().value);
        assert!(objective - bound < 2e-4 * model.scale(), "{objective} against its bound {bound}");
        let slow = run(&model, "qp:fw", &settings(3000));
        let other = slow.trace.last().unwrap().objective;
        assert!((objective - other).abs() < 2e-3 * model.scale(), "{objective} against {other}");
    }
}

#[test]
fn oracle_of_the_convex_qp() {
    let solution = run(&oracle(), "qp", &settings(500));
    let last = solution.trace.last().unwrap();
    assert!((last.objective - 0.195).abs() < 1e-4, "{}", last.objective);
    assert!((last.lower_bound.unwrap() - 0.195).abs() < 1e-4);
    let y = solution.beliefs.as_slice();
    for (got, want) in [(y[0], 1.0), (y[2], 0.95), (y[4], 1.0)] {
        assert!((got - want).abs() < 1e-2, "{y:?}");
    }
    // First Frank-Wolfe iteration from softmax(-phi): value .692345, gap .613109, full step to (0, 0, 0).
    let first = run(&oracle(), "qp:fw", &settings(1));
    assert!((first.trace[0].lower_bound.unwrap() - 0.079_236).abs() < 1e-4, "{:?}", first.trace[0]);
    assert_eq!(first.beliefs.argmax().as_slice(), [0, 0, 0]);
    assert!((first.beliefs.as_slice()[0] - 1.0).abs() < 1e-6);
}

#[test]
fn oracle_of_a_dc_step() {
    // From the labelling (0, 1, 0) one step gives [[1, 0], [.45, .55], [1, 0]].
    let model = oracle();
    let start = relaxcrf::Beliefs::from_labeling(&relaxcrf::Labeling::new(vec![0, 1, 0]), 2);
    let solution =
        Solve::new(&model).method_name("dc-neg").unwrap().init(start).settings(&settings(1)).run().unwrap();
    let want = [1.0, 0.0, 0.45, 0.55, 1.0, 0.0];
    for (got, want) in solution.beliefs.as_slice().iter().zip(want) {
        assert!((got - want).abs() < 1e-5, "{:?}", solution.beliefs);
    }
}

/// A random symmetric matrix with zero diagonal.
fn random_compatibility(labels: usize, seed: u64, low: f32) -> Compatibility {
    let mut r = Numbers(seed);
    let mut m = vec![0.0; labels * labels];
    for i in 0..labels {
        for j in 0..i {
            let v = low + (1.0 - low) * r.next();
            m[i * labels + j] = v;
            m[j * labels + i] = v;
        }
    }
    Compatibility::matrix(labels, m).unwrap()
}

#[test]
fn general_compatibilities() {
    for seed in 0..10 {
        for (labels, mu) in [
            (3, random_compatibility(3, seed, -1.0)),
            (4, random_compatibility(4, seed, 0.0)),
            (4, Compatibility::linear(4, None).unwrap()),
            (4, Compatibility::linear(4, Some(1.5)).unwrap()),
            (3, Compatibility::per_label(vec![0.5, 1.0, 2.0]).unwrap()),
            (2, Compatibility::matrix(2, vec![0.3, 1.0, 1.0, -0.4]).unwrap()),
        ] {
            let mut r = Numbers(77 + seed);
            let n = 6;
            let model = ModelBuilder::points(n, labels)
                .unary((0..n * labels).map(|_| r.next()).collect())
                .features((0..n * 2).map(|_| 2.0 * r.next()).collect(), 2, 0.2)
                .compatibility(mu)
                .filter(FilterKind::Exact)
                .normalization(Normalization::None)
                .build()
                .unwrap();
            let (_, optimum) = exhaustive(&model);
            for method in ["mf", "qp", "qp:fw", "dc-gen", "dc-neg", "qp+dc-gen", "graduated"] {
                let negative = model.compatibility().is_conditionally_negative();
                if !negative && (method == "dc-neg" || method == "graduated") {
                    let error = common::try_run(&model, method).unwrap_err().to_string();
                    assert!(error.contains("dc-gen"), "the error names the method to use: {error}");
                    continue;
                }
                let solution = run(&model, method, &settings(60));
                assert!(solution.energy.total() >= optimum - 1e-5);
                if let Some(bound) = &solution.lower_bound {
                    assert!(bound.value <= optimum + 1e-5, "{method}: {} above {optimum}", bound.value);
                }
                if ["mf", "qp:fw", "dc-gen", "dc-neg"].contains(&method) {
                    assert_monotone(&solution, method);
                }
            }
        }
    }
}

#[test]
fn one_filter_call_an_iteration() {
    let model = random_model(200, 5, 3, 0.3, FilterKind::Lattice);
    for method in ["qp", "qp:fw", "dc-neg", "mf"] {
        let solution = run(&model, method, &settings(10));
        assert!(solution.iterations >= 3, "{method}");
        assert_eq!(solution.counts.filter, solution.iterations + 1, "{method}: one to start, then one each");
    }
    assert_eq!(run(&model, "mf5", &Settings::default()).counts.filter, 5);
}

#[test]
fn forbidden_labels_are_never_used() {
    let mut r = Numbers(5);
    let (n, labels) = (40, 3);
    let forbidden = |a: usize, i: usize| (a + i).is_multiple_of(3);
    let unary = (0..n * labels)
        .map(|k| if forbidden(k / labels, k % labels) { f32::INFINITY } else { r.next() })
        .collect();
    let model = ModelBuilder::points(n, labels)
        .unary(unary)
        .features((0..n * 2).map(|_| 2.0 * r.next()).collect(), 2, 2.0)
        .build()
        .unwrap();
    for method in METHODS.iter().map(|m| m.name).filter(|m| *m != "exact") {
        let solution = run(&model, method, &Settings::default());
        assert!(solution.energy.total().is_finite(), "{method}");
        for (a, &l) in solution.labeling.as_slice().iter().enumerate() {
            assert!(!forbidden(a, usize::from(l)), "{method} gave pixel {a} the forbidden label {l}");
        }
    }
    let e = relaxcrf::energy::of_labeling(&model, &relaxcrf::Labeling::constant(n, 0)).unwrap();
    assert_eq!(e.total(), f64::INFINITY);
}
