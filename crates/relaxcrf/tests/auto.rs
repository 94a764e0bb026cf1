//! `auto`: every branch runs, and none is worse than what it promises.

mod common;

use common::{random_costs, random_model, run, try_run};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{Settings, auto};
use relaxcrf::{Model, ModelBuilder, energy};

fn problems() -> Vec<(&'static str, Model)> {
    let plain = |normalization, weight| {
        let numbers = |n: usize, by: usize| (0..n).map(|k| (k * by % 97) as f32 / 97.0).collect::<Vec<_>>();
        ModelBuilder::points(60, 3)
            .unary(numbers(180, 31))
            .features(numbers(120, 53), 2, weight)
            .filter(FilterKind::Lattice)
            .normalization(normalization)
            .build()
            .unwrap()
    };
    let attracting = Compatibility::matrix(3, vec![0.0, -1.0, 0.5, -1.0, 0.0, 0.5, 0.5, 0.5, 0.0]).unwrap();
    let squared = Compatibility::matrix(3, vec![0.0, 1.0, 2.5, 1.0, 0.0, 1.0, 2.5, 1.0, 0.0]).unwrap();
    vec![
        ("exact", random_model(60, 2, 1, 0.1, FilterKind::Exact)),
        ("smooth-lp", random_model(60, 4, 2, 0.1, FilterKind::Exact)),
        ("smooth-lp", random_model(60, 4, 3, 0.5, FilterKind::Lattice)),
        ("unary", plain(Normalization::Symmetric, 0.0)),
        ("graduated", plain(Normalization::Before, 1.0)),
        ("dc-gen", random_costs(40, attracting, 5, 0.1)),
        ("graduated", random_costs(40, squared, 6, 0.1)),
    ]
}

#[test]
fn no_worse_than_promised_on_any_branch() {
    for (branch, model) in problems() {
        let settings = Settings::default();
        let plan = auto::plan(&model, &settings);
        let text = plan.pipeline.to_string();
        assert!(text.contains(branch), "{text} lacks {branch}");
        assert!(
            plan.reasons.len() >= 3 && plan.reasons.last().unwrap().contains(&text),
            "{:?}",
            plan.reasons
        );
        let found = run(&model, "auto", &settings).energy.total();
        let slack = 1e-6 * model.scale();
        for method in ["mf5", "mf", "qp+dc-neg"] {
            if let Ok(other) = try_run(&model, method) {
                assert!(
                    found <= other.energy.total() + slack,
                    "{text}: {found}, {method} {}",
                    other.energy.total()
                );
            }
        }
        let constant = energy::of_constants(&model).into_iter().fold(f64::INFINITY, f64::min);
        assert!(found <= constant + slack);
    }
}

#[test]
fn chains_after_a_slash_begin_anew() {
    let model = random_model(40, 3, 9, 0.2, FilterKind::Exact);
    let settings = Settings::default();
    let both = run(&model, "mf/qp+dc-neg", &settings);
    let alone = run(&model, "qp+dc-neg", &settings);
    assert_eq!(both.beliefs.as_slice(), alone.beliefs.as_slice());
    assert!(both.energy.total() <= run(&model, "mf", &settings).energy.total());
    assert_eq!("mf / qp+dc-neg".parse::<relaxcrf::solve::Pipeline>().unwrap().to_string(), "mf/qp+dc-neg");
    assert!(try_run(&model, "mf+auto").unwrap_err().to_string().contains("auto"));
}
