//! The LP relaxation on problems so small that a general LP solver and trying all labellings give the truth.

mod common;

use common::{exhaustive, operator, oracle, random_costs, random_model, run};
use microlp::{ComparisonOp, OptimizationDirection, Problem};
use relaxcrf::filter::OrderedMode;
use relaxcrf::model::{Compatibility, Cut, FilterKind};
use relaxcrf::solve::{Pipeline, Settings, Solution, Solve, Status};
use relaxcrf::{Beliefs, Labeling, Model, energy};

/// The LP with one variable per pair and cut, solved by the simplex method.
fn reference_lp(model: &Model, cuts: &[Cut]) -> f64 {
    let (n, labels) = (model.pixels(), model.labels());
    let k = operator(model);
    let mut lp = Problem::new(OptimizationDirection::Minimize);
    let y: Vec<_> = model.unary().iter().map(|&e| lp.add_var(e.into(), (0.0, f64::INFINITY))).collect();
    for a in 0..n {
        let row: Vec<_> = (0..labels).map(|i| (y[a * labels + i], 1.0)).collect();
        lp.add_constraint(&row[..], ComparisonOp::Eq, 1.0);
    }
    for cut in cuts {
        for a in 0..n {
            for b in 0..a {
                let weight = f64::from(cut.weight) * f64::from(k[a * n + b] + k[b * n + a]);
                let apart = lp.add_var(weight, (0.0, f64::INFINITY));
                for sign in [1.0, -1.0] {
                    let inside = (0..labels).filter(|&i| cut.inside[i]);
                    let mut row: Vec<_> = inside
                        .flat_map(|i| [(y[a * labels + i], sign), (y[b * labels + i], -sign)])
                        .collect();
                    row.push((apart, -1.0));
                    lp.add_constraint(&row[..], ComparisonOp::Le, 0.0);
                }
            }
        }
    }
    lp.solve().unwrap().into_solution().unwrap().objective()
}

fn patient(iterations: usize) -> Settings {
    Settings { max_iterations: Some(iterations), tolerance: Some(0.0), ..Settings::default() }
}

/// Potts, per-label, linear and truncated linear costs.
fn kinds() -> Vec<Compatibility> {
    vec![
        Compatibility::potts(2),
        Compatibility::potts(4),
        Compatibility::per_label(vec![0.5, 1.0, 2.0]).unwrap(),
        Compatibility::linear(4, None).unwrap(),
        Compatibility::linear(4, Some(2.0)).unwrap(),
        Compatibility::linear(4, Some(1.5)).unwrap(),
    ]
}

fn lower_bound(solution: &Solution) -> f64 {
    solution.lower_bound.as_ref().expect("the operator is symmetric").value
}

#[test]
fn value_equals_that_of_a_general_solver() {
    for (k, compatibility) in kinds().into_iter().enumerate() {
        for (seed, strength) in [(1, 0.05), (2, 0.15), (3, 0.4)] {
            let model = random_costs(7, compatibility.clone(), seed + 10 * k as u64, strength);
            let truth = reference_lp(&model, &compatibility.cuts().unwrap());
            let (_, optimum) = exhaustive(&model);
            let solution = run(&model, "lp:polyak", &patient(1000));
            let (bound, tiny) = (lower_bound(&solution), 1e-5 * model.scale());
            let what = format!("{:?}, strength {strength}", compatibility.kind());
            let best = solution.trace.iter().map(|p| p.objective).fold(f64::INFINITY, f64::min);
            assert!(bound <= truth + tiny, "{what}: bound {bound} above the LP's {truth}");
            assert!(truth <= optimum + tiny, "{what}: LP {truth} above the optimum {optimum}");
            let qp = run(&model, "qp", &patient(300)).trace.last().unwrap().objective;
            assert!(qp <= truth + 1e-3 * model.scale(), "{what}: the QP's {qp} above the LP's {truth}");
            assert!(best >= truth - tiny, "{what}: beliefs at {best} below the LP's {truth}");
            // The bound converges; beliefs of subgradient methods come down more slowly.
            assert!(bound >= truth - 2e-3 * model.scale(), "{what}: bound {bound}, LP {truth}");
            assert!(best <= truth + 2e-2 * model.scale(), "{what}: beliefs {best}, LP {truth}");
        }
    }
}

#[test]
fn other_steps_come_to_the_same_value() {
    // A share of the scale that each may be away from the truth.
    for (method, slack, iterations) in
        [("prox-lp", 1e-3, 200), ("smooth-lp", 1e-3, 200), ("lp:paper-step", 1e-2, 300)]
    {
        for (k, compatibility) in kinds().into_iter().enumerate() {
            let model = random_costs(6, compatibility.clone(), 3 + k as u64, [0.15, 0.4][k % 2]);
            let truth = reference_lp(&model, &compatibility.cuts().unwrap());
            let solution = run(&model, method, &patient(iterations));
            let (bound, scale) = (lower_bound(&solution), model.scale());
            let what = format!("{method} on {:?}", compatibility.kind());
            assert!(bound <= truth + 1e-5 * scale, "{what}: bound {bound} above the LP's {truth}");
            assert!(bound >= truth - slack * scale, "{what}: bound {bound}, LP {truth}, scale {scale}");
            if method == "prox-lp" {
                let want = energy::lp(&model, &solution.beliefs, OrderedMode::Exact).unwrap().total();
                let last = solution.trace.last().unwrap().objective;
                assert!(
                    (last - want).abs() <= 1e-3 * scale,
                    "{what}: objective {last}, by definition {want}"
                );
            }
        }
    }
}

#[test]
fn two_labels_and_labels_on_a_line_are_solved() {
    for seed in 0..8 {
        for compatibility in [Compatibility::potts(2), Compatibility::linear(4, None).unwrap()] {
            let model = random_costs(7, compatibility, 40 + seed, 0.2);
            let (_, optimum) = exhaustive(&model);
            let solution = run(&model, "lp:polyak", &patient(1000));
            let tiny = 1e-3 * model.scale();
            assert!((solution.energy.total() - optimum).abs() <= 1e-5, "{solution:?}");
            assert!((optimum - lower_bound(&solution)).abs() <= tiny, "no gap in these relaxations");
        }
    }
}

#[test]
fn bounds_stay_below_the_optimum_at_every_step() {
    let methods = ["lp", "lp:polyak", "lp:dc", "lp:paper-step", "lp:bins=3"];
    for seed in 0..6 {
        for filter in [FilterKind::Exact, FilterKind::Lattice] {
            let model = random_model(9, 3, seed, 0.1 * (1 + seed) as f32, filter);
            let (_, optimum) = exhaustive(&model);
            for method in methods {
                let solution = run(&model, method, &patient(60));
                let mut before = f64::NEG_INFINITY;
                let mut best = f64::INFINITY;
                for p in &solution.trace {
                    let bound = p.lower_bound.unwrap();
                    assert!(bound <= optimum + 1e-5, "{method}: {bound} above {optimum}");
                    assert!(bound >= before, "{method}: bounds never fall");
                    assert!(p.energy <= best, "{method}: the best labelling never gets worse");
                    (before, best) = (bound, p.energy);
                }
                assert!(solution.energy.total() >= optimum - 1e-5);
            }
        }
    }
}

#[test]
fn classic_lattice_has_no_bound() {
    let model = random_model(9, 3, 3, 0.2, FilterKind::LatticeClassic);
    assert!(run(&model, "lp", &patient(20)).lower_bound.is_none(), "it is not symmetric");
}

#[test]
fn ways_to_find_the_order_agree() {
    // Fewer pixels than bins: every pixel has a bin of its own.
    for compatibility in kinds() {
        let model = random_costs(10, compatibility, 7, 0.2);
        let [binned, halved] = ["lp:polyak", "lp:dc"].map(|m| run(&model, m, &patient(5)));
        for (p, q) in binned.trace.iter().zip(&halved.trace) {
            assert!((p.objective - q.objective).abs() < 1e-4 * model.scale(), "{p:?} {q:?}");
            assert!((p.lower_bound.unwrap() - q.lower_bound.unwrap()).abs() < 1e-4 * model.scale());
        }
    }
}

#[test]
fn objective_is_the_lp_of_the_energy_module() {
    for compatibility in kinds() {
        let model = random_costs(10, compatibility, 3, 0.2);
        let start = Beliefs::from_energies(model.unary(), model.labels());
        let want = energy::lp(&model, &start, OrderedMode::Exact).unwrap().total();
        let first = &run(&model, "lp:polyak", &patient(1)).trace[0];
        assert!((first.objective - want).abs() < 1e-5 * model.scale(), "{} {want}", first.objective);
    }
}

#[test]
fn oracle_is_solved_by_hand() {
    let model = oracle();
    let y = Beliefs::new(vec![0.9, 0.1, 0.4, 0.6, 0.7, 0.3], 2).unwrap();
    // z of label 0 is (3/4, -1, 1/4), of label 1 the opposite: <φ, y> + <z, y>.
    let pairwise = 2.0 * (0.75 * 0.9 - 0.4 + 0.25 * 0.7) + (-0.75 + 1.0 - 0.25);
    let unary = 0.1 + 0.2 * 0.4 + 0.6 * 0.3;
    let e = energy::lp(&model, &y, OrderedMode::Exact).unwrap();
    assert!((e.unary - unary).abs() < 1e-6 && (e.pairwise - pairwise).abs() < 1e-6, "{e:?}");

    assert!((reference_lp(&model, &Compatibility::potts(2).cuts().unwrap()) - 0.2).abs() < 1e-6);
    let solution = run(&model, "lp:polyak", &patient(500));
    assert_eq!(solution.labeling, Labeling::new(vec![0, 0, 0]));
    assert!((lower_bound(&solution) - 0.2).abs() < 1e-3, "{:?}", solution.lower_bound);
}

#[test]
fn ends_by_itself() {
    let model = random_model(9, 3, 5, 0.1, FilterKind::Exact);
    let generous = Settings { max_iterations: Some(100_000), ..Settings::default() };
    for method in ["lp:polyak", "lp:paper-step"] {
        assert_eq!(run(&model, method, &generous).status, Status::Converged, "{method}");
    }
}

#[test]
fn where_no_step_is_left_the_bound_meets_the_objective() {
    for seed in 0..6 {
        let model = random_model(9, 3, seed, 0.01, FilterKind::Exact);
        let solution = run(&model, "lp:polyak", &patient(2000));
        let last = solution.trace.last().unwrap();
        assert_eq!(solution.status, Status::Converged, "seed {seed}");
        assert!(last.objective - last.lower_bound.unwrap() <= 1e-6 * model.scale(), "seed {seed}: {last:?}");
    }
}

#[test]
fn a_good_start_is_kept() {
    let model = random_costs(9, Compatibility::potts(3), 77, 0.2);
    let (best, optimum) = exhaustive(&model);
    let start = Some(Beliefs::from_labeling(&best, 3));
    let solution =
        Solve::new(&model).method_name("lp:polyak").unwrap().init(start).settings(&patient(5)).run().unwrap();
    assert!((solution.energy.total() - optimum).abs() < 1e-6, "labels are left out, but never lost");
}

#[test]
fn names_with_options_round_trip() {
    for name in
        ["lp", "lp:polyak", "lp:dc", "lp:paper-step", "lp:dc,paper-step,bins=32", "lp:bins=7", "qp+lp:dc"]
    {
        assert_eq!(name.parse::<Pipeline>().unwrap().to_string(), name);
    }
    for bad in ["lp:bins=2", "lp:bins=5000", "lp:bins", "lp:steps=3", "lp:DC"] {
        assert!(bad.parse::<Pipeline>().is_err(), "{bad}");
    }
}

#[test]
fn thread_count_changes_no_bit() {
    let model = random_model(3000, 4, 9, 0.05, FilterKind::Lattice);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&model, "lp:polyak", &patient(12)))
    };
    let (one, two) = (with(1), with(2));
    assert_eq!(one.beliefs, two.beliefs);
    assert_eq!((lower_bound(&one).to_bits(), one.labeling), (lower_bound(&two).to_bits(), two.labeling));
}

#[test]
fn where_the_bound_meets_the_energy_there_is_nothing_left() {
    let generous = Settings { max_iterations: Some(2000), ..Settings::default() };
    for method in ["prox-lp", "smooth-lp"] {
        for seed in 0..2 {
            // Energies above zero and so little coupling that the LP is as good as the problem.
            let model = random_model(9, 3, seed, 0.01, FilterKind::Exact);
            let solution = run(&model, method, &generous);
            assert_eq!(solution.status, Status::Converged, "{method}, seed {seed}");
            let left = solution.energy.total() - lower_bound(&solution);
            assert!(left <= 1e-4 * model.scale(), "{method}, seed {seed}: {left} left");
        }
    }
}
