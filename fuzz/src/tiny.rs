//! Problems so small that every labelling can be tried: what a method returns is checked against all of them.

use arbitrary::Unstructured;
use relaxcrf::model::{Compatibility, Features, FilterKind, Kernel, Normalization};
use relaxcrf::solve::{METHODS, Pipeline, Settings, Solve, Status};
use relaxcrf::{Labeling, Model, ModelBuilder, energy};

use super::numbers::{byte, number, numbers, one_of, up_to};

const ENERGIES: [f32; 9] = [0.0, 1.0, 1e-40, 1e30, -1e30, 1e36, f32::INFINITY, f32::NAN, 1e9];
const FEATURES: [f32; 7] = [0.0, 1.0, 1e-9, 1e9, -1e30, f32::NAN, f32::INFINITY];
const SIGMAS: [f32; 8] = [1e-9, 1e-3, 1.0, 1e3, 1e9, 0.0, -1.0, f32::NAN];
const WEIGHTS: [f32; 9] = [0.0, 1e-30, 1e-3, 1.0, 50.0, 1e9, 1e30, -1.0, f32::INFINITY];
const CHAINS: [&str; 7] =
    ["qp:fw", "qp+dc-neg", "mf+dc-gen", "mf/qp+expand", "tree-lp:trees=2", "lp:dc", "smooth-lp:cells=3"];

/// Most models of odd numbers are refused, so most are made of numbers that are not: `tame` ones.
fn tamed(numbers: Vec<f32>, tame: bool, most: f32) -> Vec<f32> {
    numbers.into_iter().map(|v| if !tame || v.abs() <= most { v } else { 0.5 }).collect()
}

fn kernel(data: &mut Unstructured, points: usize, tame: bool) -> Kernel {
    let positive = |v: f32| if tame { v.abs().clamp(1e-3, 1e3) } else { v };
    let weight = positive(number(data, &WEIGHTS));
    let sigma = |data: &mut Unstructured| vec![positive(number(data, &SIGMAS))];
    let features = match byte(data) % 3 {
        0 => Features::Position { sigma: sigma(data) },
        1 => Features::Bilateral {
            sigma: sigma(data),
            image: tamed(numbers(data, points, &FEATURES), tame, 1e4),
            sigma_color: sigma(data),
        },
        _ => {
            let dims = 1 + up_to(data, 2);
            Features::Given { rows: tamed(numbers(data, points * dims, &FEATURES), tame, 1e4), dims }
        }
    };
    Kernel { features, weight }
}

fn compatibility(data: &mut Unstructured, labels: usize, tame: bool) -> relaxcrf::Result<Compatibility> {
    match byte(data) % 6 {
        0 => Compatibility::per_label(
            tamed(numbers(data, labels, &WEIGHTS), tame, 1e3)
                .iter()
                .map(|w| if tame { w.abs() } else { *w })
                .collect(),
        ),
        1 => Compatibility::linear(labels, None),
        2 => Compatibility::linear(labels, Some(number(data, &WEIGHTS))),
        3 => {
            let mut entries = vec![0.0; labels * labels];
            for i in 0..labels {
                for j in 0..=i {
                    let cost = tamed(vec![number(data, &WEIGHTS)], tame, 1e3)[0];
                    (entries[i * labels + j], entries[j * labels + i]) = (cost, cost);
                }
            }
            Compatibility::matrix(labels, entries)
        }
        _ => Ok(Compatibility::potts(labels)),
    }
}

/// A model from bytes, or none where the builder refuses.
fn model(data: &mut Unstructured) -> relaxcrf::Result<Model> {
    let (points, labels) = (1 + up_to(data, 5), 1 + up_to(data, 2));
    let tame = !byte(data).is_multiple_of(4);
    let mut builder = match byte(data) % 2 {
        0 => ModelBuilder::points(points, labels),
        _ => ModelBuilder::image(points, 1, labels),
    };
    builder = builder.filter(one_of(
        data,
        &[
            FilterKind::Auto,
            FilterKind::Exact,
            FilterKind::Lattice,
            FilterKind::LatticeClassic,
            FilterKind::Separable,
        ],
    ));
    let symmetric = Normalization::Symmetric;
    let none = Normalization::None;
    builder = builder.normalization(one_of(
        data,
        &[symmetric, none, Normalization::Before, Normalization::After, symmetric, none],
    ));
    for _ in 0..up_to(data, 2) {
        builder = builder.kernel(kernel(data, points, tame));
    }
    builder = builder.compatibility(compatibility(data, labels, tame)?);
    let unary = tamed(numbers(data, points * labels, &ENERGIES), tame, 1e4);
    if byte(data).is_multiple_of(8) {
        builder.probabilities(&unary)?.build()
    } else {
        builder.unary(unary).build()
    }
}

/// The lowest energy there is, by trying everything.
fn optimum(model: &Model) -> f64 {
    let (n, labels) = (model.pixels(), model.labels());
    (0..labels.pow(n as u32))
        .map(|code| {
            let label = |a: usize| (code / labels.pow(a as u32) % labels) as u16;
            energy::of_labeling(model, &Labeling::new((0..n).map(label).collect())).unwrap().total()
        })
        .fold(f64::INFINITY, f64::min)
}

/// What is needed to repeat a failure by hand.
fn about(model: &Model) -> String {
    let kernels: Vec<_> = model.pairwise().terms().iter().map(|t| t.kernel()).collect();
    format!(
        "unary {:?}, forbidden {:e}, row sums {:?}, {:?}, {}, {kernels:?}",
        model.unary(),
        model.forbidden(),
        model.pairwise().row_sums(),
        model.compatibility(),
        model.pairwise().normalization()
    )
}

/// One method on one problem.
pub fn solve(data: &[u8]) {
    let mut data = Unstructured::new(data);
    let names: Vec<&str> = METHODS.iter().map(|m| m.name).chain(CHAINS).collect();
    let name = one_of(&mut data, &names);
    let settings = Settings {
        max_iterations: Some(1 + up_to(&mut data, 59)),
        tolerance: one_of(&mut data, &[None, Some(0.0), Some(1e-3)]),
        evaluate_every: 1 + up_to(&mut data, 3),
        seed: u64::from(byte(&mut data)),
        ..Settings::default()
    };
    let Ok(model) = model(&mut data) else { return };
    let pipeline: Pipeline = name.parse().unwrap();
    let Ok(solution) = Solve::new(&model).method(pipeline).settings(&settings).run() else {
        return;
    };
    let found = solution.energy.total();
    assert!(found.is_finite(), "{name}: energy {found}; {}", about(&model));
    let again = energy::of_labeling(&model, &solution.labeling).unwrap();
    assert_eq!(again, solution.energy, "{name}: the energy is not that of the labels");
    for row in solution.beliefs.as_slice().chunks_exact(model.labels()) {
        let sum: f32 = row.iter().sum();
        assert!(
            (sum - 1.0).abs() < 1e-3 && row.iter().all(|&y| y >= 0.0),
            "{name}: beliefs {row:?}; {}",
            about(&model)
        );
    }

    // Rounding: numbers of 32 bits as large as the largest energies.
    let forbidden = model.forbidden();
    let largest =
        |row: &[f32]| f64::from(row.iter().filter(|e| **e < forbidden).fold(0.0f32, |m, e| m.max(e.abs())));
    let unary: f64 = model.unary().chunks_exact(model.labels()).map(largest).sum();
    let slack = 1e-5 * (unary + model.scale()) + 1e-12;
    let best = optimum(&model);
    assert!(found >= best - slack, "{name}: {found} is below the optimum {best}; {}", about(&model));
    if let Some(bound) = &solution.lower_bound {
        let bound = bound.value;
        // Neither a constant in the energies nor forbidden labels may cost a bound its truth.
        let slack = 1e-6 * model.scale() + 1e-12 * unary + 1e-30;
        assert!(
            bound <= best + slack,
            "{name}: the bound {bound} is above the optimum {best}; {}",
            about(&model)
        );
    }
    if name == "exact" && solution.status == Status::Converged {
        assert!(found <= best + slack, "exact: {found} instead of {best}; {}", about(&model));
    }
}
