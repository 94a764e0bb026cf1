//! The LP over trees of labels, on problems small enough to try all labellings.

mod common;

use common::{Numbers, exhaustive, random_costs, run};
use relaxcrf::Model;
use relaxcrf::model::Compatibility;
use relaxcrf::solve::{Pipeline, Settings, Solve, Status};

/// Random costs between four labels, triangle inequality or not.
fn semimetric(seed: u64) -> Compatibility {
    let mut r = Numbers(seed);
    let mut m = vec![0.0; 16];
    for i in 0..4 {
        for j in 0..i {
            let v = 0.2 + r.next();
            (m[i * 4 + j], m[j * 4 + i]) = (v, v);
        }
    }
    Compatibility::matrix(4, m).unwrap()
}

fn as_matrix(costs: &Compatibility) -> Compatibility {
    let l = costs.labels();
    Compatibility::matrix(l, (0..l * l).map(|k| costs.cost(k / l, k % l)).collect()).unwrap()
}

fn fails(model: &Model, method: &str) -> String {
    Solve::new(model).method_name(method).unwrap().run().unwrap_err().to_string()
}

#[test]
fn semimetrics_are_solved_without_ever_rising() {
    let (mut optimal, trials) = (0, 20);
    for seed in 0..trials {
        let model = random_costs(7, semimetric(seed), 100 + seed, 0.2);
        let (_, optimum) = exhaustive(&model);
        let solution = run(&model, "tree-lp", &Settings::default());
        assert!(solution.lower_bound.is_none(), "a tree's bound is not one for the costs");
        assert_eq!(solution.status, Status::Converged);
        let mut before = f64::INFINITY;
        for p in &solution.trace {
            assert!(p.objective <= before, "{p:?}");
            before = p.objective;
        }
        let energy = solution.energy.total();
        assert!(energy >= optimum - 1e-5);
        assert!((solution.final_energy.total() - before).abs() < 1e-6, "the beliefs hold the best labelling");
        optimal += u64::from(energy <= optimum + 1e-5);
    }
    assert!(optimal * 10 >= trials * 9, "optimal in {optimal} of {trials}");
}

#[test]
fn matrices_that_are_trees_need_none() {
    let potts = Compatibility::potts(4);
    let two_pairs = vec![0., 1., 3., 3., 1., 0., 3., 3., 3., 3., 0., 2., 3., 3., 2., 0.];
    for costs in [as_matrix(&potts), Compatibility::matrix(4, two_pairs).unwrap()] {
        let model = random_costs(7, costs, 5, 0.1);
        let (_, optimum) = exhaustive(&model);
        let solution = run(&model, "tree-lp", &Settings::default());
        let bound = solution.lower_bound.expect("the LP's bound is valid here").value;
        assert!(bound <= optimum + 1e-5 && bound >= optimum - 0.02 * model.scale(), "{bound} {optimum}");
    }
    // The same as the LP with the cuts that come with the name.
    let [named, matrix] = [potts.clone(), as_matrix(&potts)].map(|c| random_costs(7, c, 5, 0.1));
    let settings = Settings { max_iterations: Some(50), ..Settings::default() };
    let [named, matrix] = [run(&named, "lp", &settings), run(&matrix, "tree-lp", &settings)];
    for (p, q) in named.trace.iter().zip(&matrix.trace) {
        assert!((p.objective - q.objective).abs() < 1e-4);
    }
}

#[test]
fn known_cuts_are_used_as_they_are() {
    let model = random_costs(7, Compatibility::linear(4, None).unwrap(), 8, 0.2);
    let settings = Settings { max_iterations: Some(30), ..Settings::default() };
    let [lp, tree] = ["lp", "tree-lp"].map(|m| run(&model, m, &settings));
    assert_eq!(lp.beliefs, tree.beliefs);
    assert_eq!(lp.lower_bound.map(|b| b.value), tree.lower_bound.map(|b| b.value));
}

#[test]
fn seeds_decide_and_repeat() {
    let model = random_costs(8, semimetric(3), 4, 0.3);
    let with = |seed| run(&model, "tree-lp", &Settings { seed, ..Settings::default() });
    assert_eq!(with(1).labeling, with(1).labeling);
    assert_eq!(with(1).beliefs, with(1).beliefs);
}

#[test]
fn costs_that_no_tree_dominates_are_refused() {
    let negative = Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
    let diagonal = Compatibility::matrix(2, vec![0.5, 1.0, 1.0, 0.0]).unwrap();
    for costs in [negative, diagonal] {
        assert!(fails(&random_costs(4, costs, 1, 0.1), "tree-lp").contains("dc-gen"));
    }
}

#[test]
fn names_with_options_round_trip() {
    for name in ["tree-lp", "tree-lp:trees=3", "tree-lp:dc,bins=32,trees=3", "tree-lp:paper-step"] {
        assert_eq!(name.parse::<Pipeline>().unwrap().to_string(), name);
    }
    assert!("tree-lp:trees=0".parse::<Pipeline>().is_err());
}
