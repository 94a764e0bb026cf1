//! Every energy against the sum it is defined by, pair by pair over the operator's matrix.

mod common;

use common::{Numbers, operator, random_costs};
use relaxcrf::filter::OrderedMode;
use relaxcrf::model::Compatibility;
use relaxcrf::{Beliefs, Labeling, Model, ModelBuilder, energy};

const POINTS: usize = 12;
const LABELS: usize = 4;

/// Costs of every kind, among them some under which equal labels pay.
fn kinds() -> Vec<Compatibility> {
    let costly_peace = (0..LABELS * LABELS).map(|k| 0.3 + ((k / LABELS + k % LABELS) as f32).sin()).collect();
    vec![
        Compatibility::potts(LABELS),
        Compatibility::linear(LABELS, Some(2.0)).unwrap(),
        Compatibility::matrix(LABELS, costly_peace).unwrap(),
    ]
}

fn labelings() -> impl Iterator<Item = Labeling> {
    (0..20).map(|seed| {
        let mut r = Numbers(seed);
        // Few labels in some of them.
        let used = 1.0 + (seed % LABELS as u64) as f32;
        Labeling::new((0..POINTS).map(|_| (r.next() * used) as u16).collect())
    })
}

fn beliefs(seed: u64) -> Beliefs {
    let mut r = Numbers(seed);
    let mut rows: Vec<f32> = (0..POINTS * LABELS).map(|_| r.next()).collect();
    for row in rows.chunks_exact_mut(LABELS) {
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= sum);
    }
    Beliefs::new(rows, LABELS).unwrap()
}

/// `Σ_{a≠b} K_ab value(a, b)`.
fn over_pairs(model: &Model, value: impl Fn(usize, usize) -> f64) -> f64 {
    let k = operator(model);
    let pairs = (0..POINTS * POINTS).filter(|p| p / POINTS != p % POINTS);
    pairs.map(|p| f64::from(k[p]) * value(p / POINTS, p % POINTS)).sum()
}

fn close(got: f64, want: f64) -> bool {
    (got - want).abs() < 1e-5 * (1.0 + want.abs())
}

#[test]
fn labellings_by_the_double_sum() {
    for (seed, costs) in kinds().into_iter().enumerate() {
        let model = random_costs(POINTS, costs.clone(), seed as u64, 0.4);
        for x in labelings() {
            let x_of = |a: usize| usize::from(x.as_slice()[a]);
            let unary: f64 = (0..POINTS).map(|a| f64::from(model.unary()[a * LABELS + x_of(a)])).sum();
            let pairwise = over_pairs(&model, |a, b| f64::from(costs.cost(x_of(a), x_of(b))));
            let got = energy::of_labeling(&model, &x).unwrap();
            assert!(close(got.unary, unary) && close(got.pairwise, pairwise), "{costs:?} {x:?}: {got:?}");
            assert!(close(got.total(), unary + pairwise));
        }
    }
}

#[test]
fn constants_cost_what_they_cost_as_labellings() {
    for (seed, costs) in kinds().into_iter().enumerate() {
        let model = random_costs(POINTS, costs, seed as u64, 0.4);
        let constants = energy::of_constants(&model);
        assert_eq!(constants.len(), LABELS);
        for (i, &got) in constants.iter().enumerate() {
            let want = energy::of_labeling(&model, &Labeling::constant(POINTS, i as u16)).unwrap().total();
            assert!(close(got, want), "label {i}: {got} against {want}");
        }
    }
}

#[test]
fn the_qp_by_the_double_sum() {
    for (seed, costs) in kinds().into_iter().enumerate() {
        let model = random_costs(POINTS, costs.clone(), seed as u64, 0.4);
        let y = beliefs(seed as u64);
        let row = |a: usize| &y.as_slice()[a * LABELS..][..LABELS];
        let meet = |a: usize, b: usize| {
            let pairs = (0..LABELS * LABELS).map(|k| (k / LABELS, k % LABELS));
            pairs.map(|(i, j)| f64::from(row(a)[i] * row(b)[j] * costs.cost(i, j))).sum()
        };
        let unary: f64 = model.unary().iter().zip(y.as_slice()).map(|(&e, &v)| f64::from(e * v)).sum();
        let got = energy::qp(&model, &y);
        let pairwise = over_pairs(&model, meet);
        assert!(close(got.unary, unary) && close(got.pairwise, pairwise), "{got:?}, {unary} {pairwise}");
    }
}

#[test]
fn the_lp_by_the_double_sum() {
    for (seed, costs) in kinds().into_iter().enumerate() {
        let model = random_costs(POINTS, costs.clone(), seed as u64, 0.4);
        let y = beliefs(10 + seed as u64);
        let Some(cuts) = costs.cuts() else {
            assert!(energy::lp(&model, &y, OrderedMode::Exact).is_none(), "no cuts, no LP");
            continue;
        };
        let mut pairwise = 0.0;
        for cut in &cuts {
            let part = |a: usize| {
                let row = y.as_slice()[a * LABELS..].iter().zip(&cut.inside);
                row.filter(|(_, inside)| **inside).map(|(&v, _)| f64::from(v)).sum::<f64>()
            };
            pairwise += f64::from(cut.weight) * over_pairs(&model, |a, b| (part(a) - part(b)).abs());
        }
        let got = energy::lp(&model, &y, OrderedMode::Exact).unwrap();
        assert!(close(got.pairwise, pairwise), "{costs:?}: {got:?} against {pairwise}");
        // On labellings the relaxation is none.
        for x in labelings() {
            let want = energy::of_labeling(&model, &x).unwrap();
            let got = energy::lp(&model, &Beliefs::from_labeling(&x, LABELS), OrderedMode::Exact).unwrap();
            assert!(close(got.unary, want.unary) && close(got.pairwise, want.pairwise), "{got:?} {want:?}");
        }
    }
}

#[test]
fn only_labellings_that_use_a_forbidden_label_are_infinite() {
    let mut unary: Vec<f32> = (0..POINTS * LABELS).map(|k| 0.1 * k as f32).collect();
    unary[5 * LABELS + 2] = f32::INFINITY;
    let places = (0..POINTS).map(|a| a as f32).collect();
    let model = ModelBuilder::points(POINTS, LABELS).unary(unary).features(places, 1, 0.5).build().unwrap();
    for x in labelings() {
        let got = energy::of_labeling(&model, &x).unwrap();
        assert_eq!(got.unary == f64::INFINITY, x.as_slice()[5] == 2, "{x:?}");
        assert!(got.pairwise.is_finite());
    }
    let constants = energy::of_constants(&model);
    assert!(constants.iter().enumerate().all(|(i, e)| e.is_finite() != (i == 2)), "{constants:?}");
}
