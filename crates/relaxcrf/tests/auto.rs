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
        let text = plan.reasons.last().unwrap().clone();
        assert!(text.contains(branch), "{text} lacks {branch}");
        assert!(
            plan.reasons.len() >= 3 && plan.parts.iter().all(|run| text.contains(&run.to_string())),
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

/// A picture with eight labels of which three matter.
fn three_of_eight() -> Model {
    let (width, height, labels) = (24, 18, 8);
    let mut unary = Vec::new();
    let mut image = Vec::new();
    for a in 0..width * height {
        let (x, y) = (a % width, a / width);
        let right = [1, 4, 6][usize::from(x > 10) + usize::from(x > 10 && y > 8)];
        let noise = |k: usize| ((a * 37 + k * 59) % 101) as f32 / 101.0;
        unary.extend((0..labels).map(|i| if i == right { noise(i) } else { 0.6 + noise(i) }));
        image.extend([0, 1, 2].map(|c| 40.0 * right as f32 + noise(c)));
    }
    ModelBuilder::image(width, height, labels)
        .unary(unary)
        .gaussian(1.5, 0.4)
        .bilateral(image, 8.0, 10.0, 0.6)
        .filter(FilterKind::Lattice)
        .build()
        .unwrap()
}

#[test]
fn going_on_with_the_labels_in_use_gives_answers_to_the_whole_problem() {
    let model = three_of_eight();
    let fixed = run(&model, "graduated", &Settings::default()).energy.total();
    let limit = Some(std::time::Duration::from_secs(20));
    for settings in [Settings::default(), Settings { time_limit: limit, ..Settings::default() }] {
        let found = run(&model, "auto", &settings);
        let slack = 1e-6 * model.scale();
        assert!(found.energy.total() <= fixed + slack, "{:?}, graduated {fixed}", found.energy);
        // Labels, beliefs and energy are those of the whole problem.
        let again = energy::of_labeling(&model, &found.labeling).unwrap();
        assert!((again.total() - found.energy.total()).abs() <= slack);
        assert_eq!(found.beliefs.labels(), model.labels());
        assert!(found.lower_bound.is_some());
        // One trace of all runs.
        assert_eq!(found.trace.len(), found.iterations);
        for pair in found.trace.windows(2) {
            assert!(pair[0].stage <= pair[1].stage && pair[0].seconds <= pair[1].seconds);
            assert!(pair[0].counts.filter <= pair[1].counts.filter);
        }
    }
}

#[test]
fn a_schedule_in_limited_time_looks_at_its_labels_near_the_end() {
    let model = random_model(60, 4, 2, 0.1, FilterKind::Exact);
    let settings = Settings { time_limit: Some(std::time::Duration::from_secs(600)), ..Settings::default() };
    let found = run(&model, "auto", &settings);
    let schedule: Vec<_> = found.trace.iter().filter(|p| p.stage == 0).collect();
    let evaluated = schedule.iter().filter(|p| p.own_energy.is_some()).map(|p| p.iteration);
    let last = schedule.len();
    let expected = (1..=last).filter(|k| k % 70 == 0 || *k == last);
    assert_eq!(schedule[0].method, "graduated");
    assert!(last > 70 && evaluated.eq(expected), "of {last} iterations");
}

#[test]
fn a_time_limit_decides_what_comes_first() {
    let model = random_model(60, 4, 2, 0.1, FilterKind::Exact);
    let within = |seconds: f64| {
        let time_limit = Some(std::time::Duration::from_secs_f64(seconds));
        auto::plan(&model, &Settings { time_limit, ..Settings::default() }).parts[0].pipeline.to_string()
    };
    assert_eq!(within(1e-6), "graduated:steps=10");
    assert_eq!(within(3600.0), "graduated");
    // However little time there is, there is an answer, no worse than a constant one.
    let settings = Settings { time_limit: Some(std::time::Duration::ZERO), ..Settings::default() };
    let constant = energy::of_constants(&model).into_iter().fold(f64::INFINITY, f64::min);
    assert!(run(&model, "auto", &settings).energy.total() <= constant + 1e-9 * model.scale());
}
