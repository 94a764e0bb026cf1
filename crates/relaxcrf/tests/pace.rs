//! How far the methods get in so many steps: steps and bounds that are merely valid are not enough.

mod common;

use common::{random_costs, random_model, run};
use relaxcrf::Model;
use relaxcrf::model::{Compatibility, FilterKind};
use relaxcrf::solve::Settings;

fn problems() -> Vec<Model> {
    let line = |seed| random_costs(30, Compatibility::linear(4, Some(2.0)).unwrap(), seed, 0.04);
    let potts = |seed| random_model(30, 4, seed, [0.02, 0.05][seed as usize % 2], FilterKind::Exact);
    (1..5).map(potts).chain((5..7).map(line)).collect()
}

/// Steps until the bound is this close to the lowest objective, as a share of the scale, added up over all problems.
fn steps(method: &str, limit: usize, gap: f64) -> usize {
    let settings = Settings { max_iterations: Some(limit), tolerance: Some(0.0), ..Settings::default() };
    let until = |model: &Model| {
        let solution = run(model, method, &settings);
        let lowest = solution.trace.iter().map(|p| p.objective).fold(f64::INFINITY, f64::min);
        let near = |bound: Option<f64>| bound.is_some_and(|b| lowest - b <= gap * model.scale());
        solution.trace.iter().position(|p| near(p.lower_bound)).unwrap_or(limit)
    };
    problems().iter().map(until).sum()
}

/// The limits of both tests are about an eighth above what was needed when they were written.
#[test]
fn gaps_close_as_fast_as_they_did() {
    for (method, limit, gap, most) in [
        ("qp", 100, 1e-5, 153),
        ("qp:fw", 300, 3e-3, 496),
        ("lp:polyak", 300, 1e-2, 261),
        ("lp:paper-step", 300, 2e-2, 42),
        ("smooth-lp", 150, 1e-3, 87),
        ("prox-lp", 150, 1e-3, 638),
    ] {
        let steps = steps(method, limit, gap);
        assert!(steps <= most, "{method}: {steps} steps, {most} should do");
    }
}

/// `graduated` stands for the optimum, which it finds here as far as anybody knows.
#[test]
fn methods_come_as_far_as_they_did() {
    for (method, best, most) in [
        ("unary+swap", 5, 123),
        ("dc-neg", 4, 75),
        ("dc-gen", 4, 353),
        ("smooth-lp", 5, 404),
        ("prox-lp", 4, 474),
    ] {
        let (mut reached, mut calls) = (0, 0);
        for model in problems() {
            let solution = run(&model, method, &Settings::default());
            let known = run(&model, "graduated", &Settings::default()).energy.total();
            reached += usize::from(solution.final_energy.total() <= known + 1e-6 * model.scale());
            calls += solution.counts.filter + solution.counts.ordered;
        }
        assert!(reached >= best && calls <= most, "{method}: {reached} of 6 with {calls} calls");
    }
}
