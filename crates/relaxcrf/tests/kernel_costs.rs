//! Models whose kernels have label costs and normalisations of their own, against sums over all pairs.

mod common;

use std::sync::atomic::AtomicBool;

use common::{Numbers, run};
use relaxcrf::energy;
use relaxcrf::filter::{Direction, Workspace};
use relaxcrf::model::{
    Compatibility, Features, FilterKind, Kernel, KernelCost, KernelOptions, Normalization,
};
use relaxcrf::solve::{MeanFieldBuffers, Settings, mean_field_beliefs, mean_field_update};
use relaxcrf::{Beliefs, Labeling, Model, ModelBuilder};

const POINTS: usize = 6;
const LABELS: usize = 3;

fn features(seed: u64) -> Vec<f32> {
    let mut r = Numbers(seed);
    (0..2 * POINTS).map(|_| 2.0 * r.next()).collect()
}

fn matrix(entries: [f32; 9]) -> KernelCost {
    KernelCost::Matrix(Compatibility::matrix(LABELS, entries.to_vec()).unwrap())
}

/// Costs that no single one stands for: (first kernel, second kernel).
fn pairs_of_costs() -> Vec<[KernelCost; 2]> {
    vec![
        [KernelCost::Shared, KernelCost::Potts(-0.5)],
        [KernelCost::Potts(2.0), KernelCost::Matrix(Compatibility::linear(LABELS, None).unwrap())],
        [KernelCost::Diagonal(vec![-1.0, -0.5, -2.0]), KernelCost::Shared],
        [
            matrix([0.0, 1.0, 3.0, 1.0, 0.0, 0.5, 3.0, 0.5, 0.0]),
            matrix([0.2, 1.0, 0.0, 1.0, 0.0, 2.0, 0.0, 2.0, -0.3]),
        ],
    ]
}

fn builder(costs: &[KernelCost; 2], normalizations: [Option<Normalization>; 2], seed: u64) -> ModelBuilder {
    let mut r = Numbers(seed + 77);
    let mut builder = ModelBuilder::points(POINTS, LABELS)
        .unary((0..POINTS * LABELS).map(|_| r.next()).collect())
        .normalization(Normalization::None)
        .filter(FilterKind::Exact);
    for (k, (cost, normalization)) in costs.iter().zip(normalizations).enumerate() {
        let kernel = Kernel {
            features: Features::Given { rows: features(seed + k as u64), dims: 2 },
            weight: 0.4 + 0.3 * k as f32,
        };
        builder = builder.kernel_with(kernel, KernelOptions { cost: cost.clone(), normalization });
    }
    builder
}

fn build(costs: &[KernelCost; 2], seed: u64) -> Model {
    builder(costs, [None, Some(Normalization::Symmetric)], seed).build().unwrap()
}

/// `w_m K_m` of each kernel as matrices.
fn kernels(model: &Model) -> Vec<Vec<f64>> {
    let one = |k: usize| {
        let term = &model.pairwise().terms()[k];
        let single = ModelBuilder::points(POINTS, LABELS)
            .unary(vec![0.0; POINTS * LABELS])
            .filter(FilterKind::Exact)
            .normalization(term.options().normalization.unwrap_or(Normalization::None))
            .kernel(term.kernel().clone())
            .build()
            .unwrap();
        let mut entries = vec![0.0f64; POINTS * POINTS];
        for b in 0..POINTS {
            let mut unit = vec![0.0; POINTS];
            unit[b] = 1.0;
            let mut column = vec![0.0; POINTS];
            single.pairwise().apply(Direction::Forward, &unit, 1, &mut column, &mut Workspace::new());
            column.iter().enumerate().for_each(|(a, &v)| entries[a * POINTS + b] = f64::from(v));
        }
        entries
    };
    (0..2).map(one).collect()
}

fn cost(model: &Model, costs: &[KernelCost; 2], k: usize, i: usize, j: usize) -> f64 {
    match &costs[k] {
        KernelCost::Shared => f64::from(u8::from(i != j)),
        other => {
            assert_eq!(model.labels(), LABELS);
            f64::from(other.cost(i, j))
        }
    }
}

fn energy_by_pairs(model: &Model, costs: &[KernelCost; 2], x: &[usize], self_pairs: bool) -> f64 {
    let unary: f64 = x.iter().enumerate().map(|(a, &i)| f64::from(model.unary()[a * LABELS + i])).sum();
    let kernels = kernels(model);
    let pairs = (0..POINTS * POINTS).filter(|p| self_pairs || p / POINTS != p % POINTS);
    unary
        + pairs
            .map(|p| {
                let (a, b) = (p / POINTS, p % POINTS);
                (0..2).map(|k| kernels[k][p] * cost(model, costs, k, x[a], x[b])).sum::<f64>()
            })
            .sum::<f64>()
}

fn labelings() -> impl Iterator<Item = Vec<usize>> {
    (0..LABELS.pow(POINTS as u32))
        .map(|code| (0..POINTS).map(|a| code / LABELS.pow(a as u32) % LABELS).collect())
}

fn labeling(x: &[usize]) -> Labeling {
    Labeling::new(x.iter().map(|&i| i as u16).collect())
}

#[test]
fn energies_are_sums_over_pairs_with_and_without_self_pairs() {
    for costs in pairs_of_costs() {
        for self_pairs in [false, true] {
            let mut builder = builder(&costs, [None, Some(Normalization::Symmetric)], 5);
            if self_pairs {
                builder = builder.count_self_pairs();
            }
            let model = builder.build().unwrap();
            assert!(model.has_kernel_costs());
            let constants = energy::of_constants(&model);
            for x in labelings().step_by(13).chain((0..LABELS).map(|i| vec![i; POINTS])) {
                let expected = energy_by_pairs(&model, &costs, &x, self_pairs);
                let got = energy::of_labeling(&model, &labeling(&x)).unwrap().total();
                assert!((got - expected).abs() < 1e-4, "{costs:?}: {got} against {expected}");
                let relaxed = energy::qp(&model, &Beliefs::from_labeling(&labeling(&x), LABELS)).total();
                assert!((relaxed - expected).abs() < 1e-4, "{costs:?}: QP {relaxed} against {expected}");
                if x.iter().all(|&i| i == x[0]) {
                    assert!((constants[x[0]] - expected).abs() < 1e-4, "{costs:?}: constant {}", x[0]);
                }
            }
        }
    }
}

#[test]
fn bounds_and_energies_enclose_the_optimum_for_any_kernel_costs() {
    for costs in pairs_of_costs() {
        for seed in 0..4 {
            let model = build(&costs, 10 * seed);
            let optimum = labelings()
                .map(|x| energy::of_labeling(&model, &labeling(&x)).unwrap().total())
                .fold(f64::INFINITY, f64::min);
            for method in ["mf", "mf5", "qp", "qp:fw", "dc-gen", "qp+dc-gen", "auto"] {
                let solution = run(&model, method, &Settings::default());
                assert!(solution.best.energy.total() >= optimum - 1e-5, "{method}");
                if let Some(bound) = &solution.lower_bound {
                    assert!(bound.value <= optimum + 1e-4, "{method}: {} above {optimum}", bound.value);
                }
            }
            assert!(run(&model, "qp", &Settings::default()).lower_bound.is_some(), "{costs:?}");
            for method in ["mf", "qp", "dc-gen"] {
                let trace = run(&model, method, &Settings::default()).trace;
                let objectives: Vec<f64> = trace.iter().map(|p| p.objective).collect();
                let rise = objectives.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
                assert!(method == "qp" || rise < 1e-5, "{method} with {costs:?}: rises by {rise}");
            }
        }
    }
}

#[test]
fn methods_that_need_one_label_cost_refuse_models_with_several() {
    let model = build(&pairs_of_costs()[1], 1);
    for method in ["dc-neg", "graduated", "lp", "smooth-lp", "prox-lp", "tree-lp", "expand", "swap"] {
        let text = model.solve(method).unwrap_err().to_string();
        assert!(text.contains("the kernels have different label costs"), "{method}: {text}");
        assert!(text.contains("qp+dc-gen"), "{method}: {text}");
    }
}

#[test]
fn costs_that_are_multiples_count_as_weights_for_every_method() {
    let three = matrix([0., 3., 3., 3., 0., 3., 3., 3., 0.]);
    let weighted = build(&[three, KernelCost::Potts(0.5)], 3);
    assert!(!weighted.has_kernel_costs() && weighted.compatibility().is_potts());
    let plain = ModelBuilder::points(POINTS, LABELS)
        .unary(weighted.unary().to_vec())
        .filter(FilterKind::Exact)
        .normalization(Normalization::None)
        .kernel(Kernel { features: Features::Given { rows: features(3), dims: 2 }, weight: 3.0 * 0.4 })
        .kernel_with(
            Kernel { features: Features::Given { rows: features(4), dims: 2 }, weight: 0.5 * 0.7 },
            KernelOptions { normalization: Some(Normalization::Symmetric), ..KernelOptions::default() },
        )
        .build()
        .unwrap();
    for method in ["mf", "qp+dc-neg", "smooth-lp"] {
        let energies = [&weighted, &plain].map(|m| run(m, method, &Settings::default()).energy.total());
        assert!((energies[0] - energies[1]).abs() < 1e-4, "{method}: {energies:?}");
    }
}

#[test]
fn kernel_added_later_gives_the_model_that_has_it_from_the_start() {
    for costs in pairs_of_costs() {
        let whole = build(&costs, 9);
        let terms = whole.pairwise().terms();
        let mut grown = ModelBuilder::points(POINTS, LABELS)
            .unary(whole.unary().to_vec())
            .normalization(Normalization::None)
            .filter(FilterKind::Exact)
            .build()
            .unwrap();
        for term in terms {
            grown = grown.with_kernel(term.kernel().clone(), term.options().clone()).unwrap();
        }
        let solve = |m: &Model| run(m, "mf5", &Settings::default()).beliefs;
        assert_eq!(solve(&whole), solve(&grown), "{costs:?}");
        let exact = whole.with_filter(FilterKind::Exact).unwrap();
        assert_eq!(solve(&whole), solve(&exact));
        let kept = whole.restrict(&[2, 0]).unwrap();
        let x = [0, 1, 1, 0, 1, 0];
        let small = energy::of_labeling(&kept, &labeling(&x)).unwrap().total();
        let large = energy::of_labeling(&whole, &labeling(&x.map(|i| [2, 0][i]))).unwrap().total();
        assert!((small - large).abs() < 1e-4, "{costs:?}: {small} against {large}");
    }
}

/// The update and the divergence of the common code, written out: self pairs count.
#[test]
fn updates_and_divergence_are_those_of_the_common_code() {
    let mut all = pairs_of_costs();
    all.push([KernelCost::Potts(1.5), KernelCost::Shared]);
    for costs in all {
        for filter in [FilterKind::Exact, FilterKind::LatticeClassic] {
            let normalizations = [None, Some(Normalization::Symmetric)];
            let model =
                builder(&costs, normalizations, 20).filter(filter).count_self_pairs().build().unwrap();
            let exact = model.with_filter(FilterKind::Exact).unwrap();
            let kernels = kernels(&exact);
            let mut q: Vec<f32> = Beliefs::from_energies(model.unary(), LABELS).into_vec();
            let before = q.clone();
            mean_field_update(&model, &mut q, &mut MeanFieldBuffers::default()).unwrap();
            let from_start =
                mean_field_beliefs(&model, 1, &AtomicBool::new(false), &mut MeanFieldBuffers::default());
            let apart =
                from_start.unwrap().into_vec().iter().zip(&q).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-5, "{costs:?}, {filter}: {apart} apart");
            if filter != FilterKind::Exact {
                continue;
            }
            let message = |a: usize, i: usize| -> f64 {
                let pair = |k: usize, b: usize, j: usize| {
                    let mu = match &costs[k] {
                        KernelCost::Shared => -f64::from(u8::from(i == j)),
                        KernelCost::Potts(scale) => -f64::from(*scale) * f64::from(u8::from(i == j)),
                        other => f64::from(other.cost(i, j)),
                    };
                    2.0 * kernels[k][a * POINTS + b] * mu * f64::from(before[b * LABELS + j])
                };
                let places =
                    (0..2).flat_map(|k| (0..POINTS).flat_map(move |b| (0..LABELS).map(move |j| (k, b, j))));
                places.map(|(k, b, j)| pair(k, b, j)).sum()
            };
            let mut divergence = 0.0;
            for a in 0..POINTS {
                let unary = |i: usize| f64::from(model.unary()[a * LABELS + i]);
                let weights: Vec<f64> = (0..LABELS).map(|i| (-unary(i) - message(a, i)).exp()).collect();
                let total: f64 = weights.iter().sum();
                for i in 0..LABELS {
                    let expected = weights[i] / total;
                    assert!((f64::from(q[a * LABELS + i]) - expected).abs() < 1e-5, "{costs:?}");
                    let v = f64::from(before[a * LABELS + i]);
                    divergence += v * (v.ln() + unary(i) + message(a, i));
                }
            }
            let got = energy::common_code_divergence(&model, &before).unwrap();
            assert!((got - divergence).abs() < 1e-4, "{costs:?}: {got} against {divergence}");
        }
    }
}

#[test]
fn bad_kernel_costs_are_refused() {
    let bad = |cost: KernelCost| {
        builder(&[cost, KernelCost::Shared], [None, None], 0).build().unwrap_err().to_string()
    };
    assert!(bad(KernelCost::Potts(f32::NAN)).contains("label cost of a kernel is NaN"));
    assert!(bad(KernelCost::Diagonal(vec![1.0; 2])).contains("2 labels"));
    assert!(bad(KernelCost::Matrix(Compatibility::potts(4))).contains("4 labels"));
}
