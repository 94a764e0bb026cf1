//! What a run says about itself: when labellings are evaluated, what is counted, and how methods are written.

mod common;

use common::{random_model, run};
use relaxcrf::energy;
use relaxcrf::model::FilterKind;
use relaxcrf::solve::{METHODS, Pipeline, Settings, Solve, Status};

#[test]
fn labellings_are_evaluated_as_often_as_asked_and_at_the_end() {
    let model = random_model(20, 3, 8, 0.1, FilterKind::Exact);
    for method in ["mf", "qp", "dc-neg", "dc-gen", "graduated", "lp", "smooth-lp", "prox-lp"] {
        for every in [1, 3, 1000] {
            let settings =
                Settings { max_iterations: Some(10), evaluate_every: every, ..Settings::default() };
            let solution = run(&model, method, &settings);
            for p in &solution.trace {
                let due = p.iteration % every == 0 || p.iteration == solution.iterations;
                assert_eq!(p.own_energy.is_some(), due, "{method}, every {every}, {}", p.iteration);
            }
            let last = solution.trace.last().unwrap();
            assert_eq!(last.own_energy, Some(solution.final_energy.total()), "{method}");
            assert!(solution.energy.total() <= solution.final_energy.total(), "{method}");
        }
    }
}

#[test]
fn stages_end_by_convergence_or_by_their_limit() {
    let model = random_model(20, 3, 8, 0.1, FilterKind::Exact);
    let with =
        |tolerance| Settings { max_iterations: Some(7), tolerance: Some(tolerance), ..Settings::default() };
    for method in ["mf", "qp", "dc-neg", "dc-gen"] {
        let never = run(&model, method, &with(0.0));
        let soon = run(&model, method, &with(0.5));
        assert_eq!((soon.status, soon.iterations), (Status::Converged, 1), "{method}");
        assert!(never.status == Status::Converged || never.iterations == 7, "{method}");
    }
}

#[test]
fn a_gap_that_was_asked_for_ends_the_run() {
    let model = random_model(40, 3, 8, 0.1, FilterKind::Exact);
    for method in ["qp+smooth-lp", "lp", "prox-lp", "auto"] {
        let with = |until_gap| Settings { until_gap, tolerance: Some(0.0), ..Settings::default() };
        let whole = run(&model, method, &with(None));
        let expected = 2.0 * whole.gap().unwrap() + 1e-3;
        let found = run(&model, method, &with(Some(expected)));
        assert_eq!(found.status, Status::GapReached, "{method}");
        assert!(found.gap().unwrap() <= expected && found.iterations < whole.iterations, "{method}");
        let final_bound = found.lower_bound.unwrap().value;
        let energy = found.energy.total();
        assert!((found.trace.last().unwrap().lower_bound.unwrap() - final_bound).abs() < 1e-9);
        // Not reached one iteration earlier by the labellings that the method had arrived at by then.
        let earlier = &found.trace[..found.trace.len() - 1];
        let own = earlier.iter().filter_map(|p| p.own_energy).fold(f64::INFINITY, f64::min);
        let bound = earlier[earlier.len() - 1].lower_bound.filter(|_| own.is_finite());
        let gap = bound.map(|b| (own - b) / own.abs());
        assert!(
            energy - final_bound <= expected * energy.abs() && gap.is_none_or(|g| g > expected),
            "{method}"
        );
    }
}

#[test]
fn methods_are_read_as_they_are_written() {
    let written = [
        "graduated:steps=10",
        "graduated:from=0.5,turn=0.25,to=0.01,steps=7",
        "prox-lp:lambda=2,bins=32",
        "smooth-lp:cells=3",
        "tree-lp:trees=2",
        "qp:fw",
        "mf/qp+dc-neg",
    ];
    for name in written.into_iter().chain(METHODS.iter().map(|m| m.name)) {
        let method: Pipeline = name.parse().unwrap();
        assert_eq!(method.to_string().parse::<Pipeline>().unwrap(), method, "{name} is written {method}");
    }
    let refused = [
        "graduated:from=0",
        "graduated:turn=-1",
        "graduated:to=10.5",
        "graduated:from=nan",
        "graduated:steps=1000001",
        "prox-lp:lambda=0",
        "prox-lp:bins=2",
        "smooth-lp:cells=0",
        "tree-lp:trees=0",
        "tree-lp:trees=1001",
        "qp:wf",
        "mf+",
    ];
    for name in refused {
        assert!(name.parse::<Pipeline>().is_err(), "{name}");
    }
}

/// What the documentation of `Solution::labeling` says, for every method.
#[test]
fn labels_are_those_that_the_method_arrived_at() {
    let model = random_model(30, 3, 5, 0.6, FilterKind::Exact);
    let settings = Settings { max_iterations: Some(7), ..Settings::default() };
    let chains = ["mf1", "mf10", "qp+mf", "qp+mf5", "qp+dc-neg", "mf/qp", "qp/mf"];
    for method in METHODS.iter().map(|m| m.name).chain(chains) {
        // `exact` is for two labels.
        let Ok(found) = Solve::new(&model).method_name(method).unwrap().settings(&settings).run() else {
            continue;
        };
        let (own, best, last) = (found.energy.total(), found.best.energy.total(), found.final_energy.total());
        let constant = energy::of_constants(&model).into_iter().fold(f64::INFINITY, f64::min);
        assert!(
            best <= own && best <= constant + 1e-9 && (found.constant.1 - constant).abs() < 1e-9,
            "{method}"
        );
        assert_eq!(energy::of_labeling(&model, &found.best.labeling).unwrap().total(), best, "{method}");
        let end = method.rsplit('+').next().unwrap();
        let is_one_chain = !method.contains('/');
        if is_one_chain && (end.starts_with("mf") || end == "unary") {
            assert_eq!(found.labeling, found.beliefs.argmax(), "{method}");
            assert_eq!(own, last, "{method}");
        } else if ["auto", "exact"].contains(&method) {
            assert_eq!(found.labeling, found.best.labeling, "{method}");
        } else {
            assert!(own <= last, "{method}: the last labels count as the method's own");
        }
    }
}
