//! Problems small enough to work out by hand.

mod common;

use common::{oracle, run};
use relaxcrf::filter::{Blur, Direction, Exact, Lattice, Operator, Workspace};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::Settings;
use relaxcrf::{Beliefs, Labeling, ModelBuilder, energy};

#[test]
fn all_eight_energies() {
    let model = oracle();
    let want = [0.20, 2.30, 2.00, 2.10, 2.70, 3.80, 2.50, 1.60];
    for (code, want) in want.iter().enumerate() {
        let x = Labeling::new((0..3).map(|a| (code >> (2 - a) & 1) as u16).collect());
        let e = energy::of_labeling(&model, &x).unwrap();
        assert!((e.total() - want).abs() < 1e-6, "{x:?}: {e:?}");
        let qp = energy::qp(&model, &Beliefs::from_labeling(&x, 2));
        assert!((qp.total() - want).abs() < 1e-6, "the QP agrees on labellings: {qp:?}");
    }
    assert_eq!(energy::of_constants(&model).len(), 2);
    assert!((energy::of_constants(&model)[0] - 0.2).abs() < 1e-6);
}

#[test]
fn first_mean_field_update() {
    let one = Settings { max_iterations: Some(1), ..Settings::default() };
    for method in ["mf", "mf5"] {
        let solution = run(&oracle(), method, &one);
        let first: Vec<f32> = solution.beliefs.as_slice().iter().step_by(2).copied().collect();
        for (got, want) in first.iter().zip([0.877_635, 0.587_610, 0.788_184]) {
            assert!((got - want).abs() < 1e-5, "{method}: {first:?}");
        }
    }
}

/// More labels in use than fit into one table of costs: the sum goes block by block.
#[test]
fn more_than_a_thousand_labels() {
    let (width, height) = (37, 30);
    let pixels = width * height;
    let model = ModelBuilder::image(width, height, pixels)
        .unary(vec![0.0; pixels * pixels])
        .gaussian(1.2, 0.4)
        .filter(FilterKind::Separable)
        .normalization(Normalization::None)
        .build()
        .unwrap();
    // Some labels twice, some not at all.
    let x: Vec<u16> = (0..pixels).map(|a| (a % 1070) as u16).collect();
    let mut want = 0.0;
    for a in 0..pixels {
        for b in (0..pixels).filter(|&b| x[b] != x[a]) {
            let apart = |p: usize, q: usize| (p as f64 - q as f64).powi(2);
            let squared = apart(a % width, b % width) + apart(a / width, b / width);
            want += 0.4 * (-0.5 * squared / (1.2 * 1.2)).exp();
        }
    }
    let got = energy::of_labeling(&model, &Labeling::new(x)).unwrap();
    assert!((got.pairwise - want).abs() < 1e-5 * want && got.unary == 0.0, "{got:?} against {want}");
}

/// An update of more pixels than are done at a time, by the formula.
#[test]
fn mean_field_of_many_pixels() {
    let (width, height) = (160, 120);
    let mut r = common::Numbers(9);
    let line = || Compatibility::linear(3, None).unwrap();
    let cases = [
        (Compatibility::potts(3), FilterKind::Separable),
        (line(), FilterKind::Separable),
        (line(), FilterKind::Lattice),
    ];
    for (costs, filter) in cases {
        let unary: Vec<f32> = (0..3 * width * height).map(|_| 2.0 * r.next()).collect();
        let model = ModelBuilder::image(width, height, 3)
            .unary(unary.clone())
            .gaussian(1.5, 0.8)
            .compatibility(costs.clone())
            .filter(filter)
            .build()
            .unwrap();
        let start = Beliefs::from_energies(&unary, 3);
        let mut filtered = vec![0.0; unary.len()];
        model.pairwise().apply(Direction::Forward, start.as_slice(), 3, &mut filtered, &mut Workspace::new());
        let solution = run(&model, "mf5", &Settings { max_iterations: Some(1), ..Settings::default() });
        let rows = unary.chunks_exact(3).zip(filtered.chunks_exact(3));
        for (a, ((phi, k), got)) in rows.zip(solution.beliefs.as_slice().chunks_exact(3)).enumerate() {
            let paid = |i: usize| (0..3).map(|j| costs.cost(i, j) * k[j]).sum::<f32>();
            let weights = [0, 1, 2].map(|i| (-phi[i] - 2.0 * paid(i)).exp());
            for (w, g) in weights.iter().zip(got) {
                let want = w / weights.iter().sum::<f32>();
                assert!((g - want).abs() < 1e-5, "pixel {a}: {g} against {want}");
            }
        }
    }
}

/// Points far apart touch a simplex each, of three vertices in the plane.
#[test]
fn lattices_tell_their_size() {
    let far: Vec<f32> = (0..20).map(|k| 50.0 * k as f32).collect();
    assert_eq!(Lattice::new(&far, 2, Blur::Symmetric).unwrap().size_hint(), 30);
    assert_eq!(Exact::new(far, 2).unwrap().size_hint(), 0, "it has none");
}
