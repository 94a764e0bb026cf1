//! Labels that nobody believes in are left out of the work of `qp`, `dc-neg` and `graduated`, and come back when they
//! should.

use proptest::prelude::*;
use relaxcrf::filter::{Direction, Workspace};
use relaxcrf::model::{FilterKind, Normalization};
use relaxcrf::solve::{Settings, Solution, Solve, Status, simplex};
use relaxcrf::{Beliefs, Labeling, Model, ModelBuilder};

const PIXELS: usize = 14;
const LABELS: usize = 9;

/// Labels 0 to 2 compete; of the others `tempting` wins at one pixel, and all are dear elsewhere.
fn problem(seed: u64, tempting: usize) -> Model {
    let numbers = |n: usize, salt: u64| -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761) ^ salt;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1u64 << 24) as f32
            })
            .collect()
    };
    let mut unary = numbers(PIXELS * LABELS, 1);
    for (a, row) in unary.chunks_exact_mut(LABELS).enumerate() {
        for (i, e) in row.iter_mut().enumerate() {
            *e = match i {
                0..3 => 2.0 * *e,
                _ if i == tempting && a == 5 => -40.0,
                _ => 4.0 + 3.0 * *e,
            };
        }
    }
    ModelBuilder::points(PIXELS, LABELS)
        .unary(unary)
        .features(numbers(2 * PIXELS, 7).into_iter().map(|v| 3.0 * v).collect(), 2, 0.6)
        .filter(FilterKind::Exact)
        .normalization(Normalization::None)
        .build()
        .unwrap()
}

/// The update in the words of the paper: project K y / K_aa - φ / (2 K_aa), for all labels at once.
fn plain_update(model: &Model, y: &[f32]) -> Vec<f32> {
    let mut filtered = vec![0.0; y.len()];
    model.pairwise().apply(Direction::Forward, y, LABELS, &mut filtered, &mut Workspace::new());
    let mut next = vec![0.0; y.len()];
    for a in 0..PIXELS {
        let k = model.pairwise().diagonal()[a];
        for i in 0..LABELS {
            let at = a * LABELS + i;
            next[at] = filtered[at] / k - model.unary()[at] / (2.0 * k);
        }
        simplex::project(&mut next[a * LABELS..(a + 1) * LABELS]);
    }
    next
}

fn after(model: &Model, method: &str, init: &Beliefs, iterations: usize) -> Solution {
    let settings = Settings { max_iterations: Some(iterations), tolerance: Some(0.0), ..Settings::default() };
    Solve::new(model).method_name(method).unwrap().init(init.clone()).settings(&settings).run().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn dc_neg_takes_the_plain_steps(seed in 0u64..1 << 32, tempting in 0usize..LABELS, first in 0u16..3) {
        let model = problem(seed, tempting);
        // Everybody believes in one label: all others are left out at once, and some must come back.
        let init = Beliefs::from_labeling(&Labeling::constant(PIXELS, first), LABELS);
        let mut expected = init.as_slice().to_vec();
        for iterations in 1..12 {
            expected = plain_update(&model, &expected);
            let got = after(&model, "dc-neg", &init, iterations);
            for (g, w) in got.beliefs.as_slice().iter().zip(&expected) {
                prop_assert!((g - w).abs() < 1e-3, "{g} against {w} after {iterations}");
            }
            if got.status == Status::Converged {
                break;
            }
        }
        if tempting >= 3 {
            prop_assert!(expected[5 * LABELS + tempting] > 0.5, "the tempting label came in");
        }
    }

    #[test]
    fn the_convex_optimum_does_not_depend_on_the_start(seed in 0u64..1 << 32, tempting in 0usize..LABELS) {
        let model = problem(seed, tempting);
        let usual = after(&model, "qp", &Beliefs::uniform(PIXELS, LABELS), 800);
        let goal = usual.trace.last().unwrap().objective;
        for label in [0, 4, tempting as u16] {
            let init = Beliefs::from_labeling(&Labeling::constant(PIXELS, label), LABELS);
            let found = after(&model, "qp", &init, 800);
            let objective = found.trace.last().unwrap().objective;
            let change_budget = 3e-6 * model.scale();
            prop_assert!((objective - goal).abs() < change_budget, "{objective} against {goal} from {label}");
            let bound = found.lower_bound.unwrap().value;
            prop_assert!(bound <= goal + change_budget && bound > goal - 10.0 * change_budget, "{bound} against {goal}");
        }
    }

    #[test]
    fn graduated_lets_labels_back_in(seed in 0u64..1 << 32, tempting in 3usize..LABELS, first in 0u16..3) {
        let model = problem(seed, tempting);
        let init = Beliefs::from_labeling(&Labeling::constant(PIXELS, first), LABELS);
        let found = after(&model, "graduated:steps=8", &init, 12);
        prop_assert_eq!(found.beliefs.argmax().as_slice()[5], tempting as u16);
    }
}
