//! Energies in another unit: the same labels, and everything that is said of them times the unit.

mod common;

use common::Numbers;
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{Settings, Solution, Solve};
use relaxcrf::{Beliefs, Model, ModelBuilder};

fn problem(costs: &Compatibility, unit: f32, seed: u64) -> Model {
    let mut r = Numbers(seed);
    let places: Vec<f32> = (0..40).map(|_| 3.0 * r.next()).collect();
    let unary = (0..20 * costs.labels()).map(|_| unit * r.next()).collect();
    ModelBuilder::points(20, costs.labels())
        .unary(unary)
        .features(places, 2, 0.08 * unit)
        .compatibility(costs.clone())
        .filter(FilterKind::Exact)
        .normalization(Normalization::None)
        .build()
        .unwrap()
}

/// From the same beliefs in any unit.
fn run(model: &Model, method: &str, settings: &Settings) -> Solution {
    let start = Beliefs::uniform(model.pixels(), model.labels());
    Solve::new(model).method_name(method).unwrap().init(start).settings(settings).run().unwrap()
}

#[test]
fn every_method_works_in_any_unit() {
    // Powers of two change no digit of a number.
    let units = [1.0f32 / 4096.0, 4096.0];
    let any = ["qp", "qp:fw", "dc-neg", "dc-gen", "graduated", "lp", "lp:paper-step", "prox-lp", "smooth-lp"];
    let potts = ["exact", "unary+expand", "unary+swap"];
    let cases = [
        (Compatibility::potts(2), [any.as_slice(), potts.as_slice()].concat()),
        (Compatibility::linear(4, Some(2.0)).unwrap(), any.to_vec()),
    ];
    for (costs, methods) in cases {
        for method in methods {
            for seed in 0..2 {
                let settings =
                    Settings { max_iterations: Some(40), tolerance: Some(1e-5), ..Settings::default() };
                let plain = run(&problem(&costs, 1.0, seed), method, &settings);
                for unit in units {
                    let other = run(&problem(&costs, unit, seed), method, &settings);
                    let what = format!("{method} with {} labels in units of {unit}", costs.labels());
                    assert_eq!(plain.labeling, other.labeling, "{what}");
                    assert_eq!(plain.iterations, other.iterations, "{what}");
                    let tiny = 1e-6 * problem(&costs, 1.0, seed).scale();
                    for (p, q) in plain.trace.iter().zip(&other.trace) {
                        let objective = q.objective / f64::from(unit);
                        assert!(
                            (p.objective - objective).abs() < tiny,
                            "{what}: {} {objective}",
                            p.objective
                        );
                        let bounds = p.lower_bound.zip(q.lower_bound.map(|b| b / f64::from(unit)));
                        assert!(bounds.is_none_or(|(b, c)| (b - c).abs() < tiny), "{what}: {bounds:?}");
                    }
                }
            }
        }
    }
}
