//! Problems small enough to work out by hand.

mod common;

use common::{oracle, run};
use relaxcrf::solve::Settings;
use relaxcrf::{Beliefs, Labeling, energy};

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
