//! Plain mean-field updates with all their short cuts against updates by the formula.

mod common;

use std::sync::atomic::AtomicBool;

use common::Numbers;
use relaxcrf::filter::fused::{FusedTerm, Tables};
use relaxcrf::filter::{Blur, Direction, Lattice, Operator, Scaling, Workspace};
use relaxcrf::solve::updates::Updates;

const SIDE: usize = 80;
const POINTS: usize = SIDE * SIDE;

/// `q ← softmax(K q - φ)`, label by label.
fn plainly(lattice: &Lattice, scaling: Scaling, unary: &[f32], labels: usize, iterations: usize) -> Vec<f32> {
    let mut q = vec![0.0; unary.len()];
    let mut messages = vec![0.0; unary.len()];
    for _ in 0..=iterations {
        for ((q, message), phi) in
            q.chunks_exact_mut(labels).zip(messages.chunks_exact(labels)).zip(unary.chunks_exact(labels))
        {
            let logits: Vec<f64> = message.iter().zip(phi).map(|(m, e)| f64::from(m - e)).collect();
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = logits.iter().map(|l| (l - largest).exp()).sum();
            q.iter_mut().zip(&logits).for_each(|(q, l)| *q = ((l - largest).exp() / total) as f32);
        }
        lattice.apply(Direction::Forward, &q, labels, scaling, &mut messages, &mut Workspace::new());
    }
    q
}

/// Stripes of three labels, the more certain the larger `certainty`; a constant for every point, which changes nothing.
fn energies(labels: usize, certainty: f32, constant: f32) -> Vec<f32> {
    let mut r = Numbers(3);
    let mut energy = |k: usize| {
        let (a, l) = (k / labels, k % labels);
        let own = [0, labels / 2, labels - 1][3 * (a / SIDE) / SIDE];
        constant * (a % 11) as f32 + r.next() + if l == own { 0.0 } else { certainty }
    };
    (0..POINTS * labels).map(&mut energy).collect()
}

#[test]
fn updates_are_those_of_the_formula() {
    let features: Vec<f32> =
        (0..POINTS).flat_map(|a| [(a % SIDE) as f32 / 10.0, (a / SIDE) as f32 / 10.0]).collect();
    let lattice = Lattice::new(&features, 2, Blur::Classic).unwrap();
    let scale: Vec<f32> = lattice.normalizer().iter().map(|n| 1.0 / n.sqrt()).collect();
    let scaling = Scaling { left: Some(&scale), right: Some(&scale), gain: 4.0, add: false };
    for (labels, certainty, constant) in
        [(3, 1.0, 0.0), (3, 9.0, 0.0), (12, 8.0, 0.0), (12, 8.0, 3.0), (21, 4.0, -2.0), (40, 14.0, 1.0)]
    {
        let unary = energies(labels, certainty, constant);
        for iterations in [1, 2, 5, 12] {
            let terms = vec![FusedTerm { operator: &lattice, scaling }];
            let updates = Updates { labels, points: POINTS, unary: Some(&unary), terms };
            let got = updates.run(iterations, &AtomicBool::new(false), &mut Tables::default());
            let want = plainly(&lattice, scaling, &unary, labels, iterations);
            let worst = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
            let what = format!("{labels} labels, certainty {certainty}, {constant}, {iterations} updates");
            assert!(worst < 0.01, "{what}: {worst}");
        }
    }
}
