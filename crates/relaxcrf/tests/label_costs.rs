//! Label costs of every kind on problems small enough to try every labelling: bounds and energies on both sides of the
//! optimum, and no bound below the unary energies alone.

mod common;

use common::{Numbers, exhaustive, random_costs, run, try_run};
use relaxcrf::Model;
use relaxcrf::model::{Compatibility, Cut};
use relaxcrf::solve::{METHODS, Settings};

/// Random costs from `low` to 1 for every pair of labels.
fn matrix(labels: usize, seed: u64, low: f32) -> Vec<f32> {
    let mut r = Numbers(seed);
    let mut costs = vec![0.0; labels * labels];
    for i in 0..labels {
        for j in 0..i {
            let cost = low + (1.0 - low) * r.next();
            (costs[i * labels + j], costs[j * labels + i]) = (cost, cost);
        }
    }
    costs
}

/// The shortest ways between labels: a metric.
fn metric(labels: usize, seed: u64) -> Compatibility {
    let mut costs = matrix(labels, seed, 0.05);
    for via in 0..labels {
        for i in 0..labels {
            for j in 0..labels {
                let way = costs[i * labels + via] + costs[via * labels + j];
                costs[i * labels + j] = costs[i * labels + j].min(way);
            }
        }
    }
    Compatibility::matrix(labels, costs).unwrap()
}

/// Costs of every kind for four labels.
fn kinds(seed: u64) -> Vec<(&'static str, Compatibility)> {
    let semimetric = Compatibility::matrix(4, matrix(4, seed, 0.1)).unwrap();
    let mut free = matrix(4, seed + 7, 0.2);
    (free[1], free[4]) = (0.0, 0.0);
    let mut own = matrix(4, seed + 8, 0.3);
    (0..4).for_each(|i| own[5 * i] = 0.1 * i as f32);
    let cut = |members: [bool; 4], weight: f32| Cut { inside: members.to_vec(), weight };
    let tree = vec![cut([true, true, false, false], 0.4), cut([true, false, false, false], 0.3)];
    vec![
        ("potts", Compatibility::potts(4)),
        ("per label", Compatibility::per_label(vec![0.5, 1.0, 2.0, 0.1]).unwrap()),
        ("linear", Compatibility::linear(4, None).unwrap()),
        ("truncated linear", Compatibility::linear(4, Some(1.7)).unwrap()),
        ("quadratic", Compatibility::quadratic(4, None).unwrap()),
        ("truncated quadratic", Compatibility::quadratic(4, Some(4.0)).unwrap()),
        ("sum of cuts", Compatibility::sum_of_cuts(4, tree).unwrap()),
        ("metric", metric(4, seed + 1)),
        ("semi-metric", semimetric),
        ("not even that: two labels at no cost", Compatibility::matrix(4, free).unwrap()),
        ("equal labels cost something", Compatibility::matrix(4, own).unwrap()),
    ]
}

fn least_unaries(model: &Model) -> f64 {
    let least = |row: &[f32]| f64::from(row.iter().copied().fold(f32::INFINITY, f32::min));
    model.unary().chunks_exact(model.labels()).map(least).sum()
}

#[test]
fn bounds_and_energies_enclose_the_optimum_for_every_kind_of_costs() {
    let settings = Settings { max_iterations: Some(30), ..Settings::default() };
    for seed in 0..5 {
        let strength = [0.05, 0.2, 1.0][seed as usize % 3];
        for (kind, costs) in kinds(20 + seed) {
            let model = random_costs(6, costs, 300 + seed, strength);
            let (_, optimum) = exhaustive(&model);
            let slack = 1e-5 * (1.0 + optimum.abs());
            let floor = least_unaries(&model);
            for method in METHODS.iter().map(|m| m.name).chain(["qp:fw", "qp+dc-gen", "lp:paper-step"]) {
                if let Err(error) = try_run(&model, method) {
                    let why = error.to_string();
                    let refuses = ["dc-neg", "graduated", "exact", "expand", "tree-lp"].contains(&method);
                    assert!(refuses && why.contains("cannot be used"), "{kind}, {method}: {why}");
                    continue;
                }
                let solution = run(&model, method, &settings);
                let energy = solution.energy.total();
                assert!(energy >= optimum - slack, "{kind}, {method}: {energy} below the optimum {optimum}");
                if let Some(bound) = &solution.lower_bound {
                    assert!(bound.value <= optimum + slack, "{kind}, {method}: {bound:?} above {optimum}");
                    assert!(bound.value >= floor, "{kind}, {method}: {bound:?} below the unaries' {floor}");
                }
                if ["qp", "qp:fw", "lp", "smooth-lp", "prox-lp"].contains(&method) {
                    assert!(solution.lower_bound.is_some(), "{kind}, {method}: no bound");
                }
            }
        }
    }
}

#[test]
fn bound_says_which_problem_it_is_from() {
    let source = |costs: Compatibility, strength: f32| {
        run(&random_costs(6, costs, 5, strength), "smooth-lp", &Settings::default())
            .lower_bound
            .unwrap()
            .source
    };
    assert_eq!(source(Compatibility::linear(4, Some(2.0)).unwrap(), 0.2), "smooth-lp");
    let squares = Compatibility::quadratic(4, None).unwrap();
    assert_eq!(source(squares, 0.2), "smooth-lp with the largest sum of cuts below the label costs");
}

#[test]
fn relaxation_of_costs_that_are_a_sum_of_cuts_is_the_same_however_they_are_given() {
    let line = Compatibility::linear(5, Some(2.0)).unwrap();
    let entries = (0..25).map(|k| line.cost(k / 5, k % 5)).collect();
    let settings = Settings { max_iterations: Some(200), ..Settings::default() };
    let bound = |costs: Compatibility| {
        run(&random_costs(8, costs, 11, 0.1), "smooth-lp", &settings).lower_bound.unwrap().value
    };
    let (named, given) = (bound(line), bound(Compatibility::matrix(5, entries).unwrap()));
    assert!((named - given).abs() < 1e-3 * named.abs(), "{named} against {given}");
}

#[test]
fn refusals_name_the_labels_that_are_to_blame() {
    let refused = |costs: Compatibility, method: &str| {
        try_run(&random_costs(6, costs, 5, 0.2), method).unwrap_err().to_string()
    };
    let why = refused(Compatibility::quadratic(4, Some(4.0)).unwrap(), "dc-neg");
    assert!(why.contains("largest eigenvalue") && why.contains("by way of label"), "{why}");
    let negative = || Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
    let why = refused(negative(), "graduated");
    assert!(why.contains("labels 0 and 1 cost -1"), "{why}");
    let why = refused(negative(), "lp");
    assert!(why.contains("labels 0 and 1 cost -1, and a sum of cuts is 0 or more"), "{why}");
    let why = refused(negative(), "tree-lp");
    assert!(why.contains("labels 0 and 1 cost -1, expected 0 or more"), "{why}");
}
