use super::*;
use crate::model::{Compatibility, FilterKind, ModelBuilder, Normalization};
use crate::solver::Settings;
use crate::{Beliefs, energy};
use relaxcrf_filter::reduce;
use relaxcrf_filter::rng::Rng;
use std::time::Instant;

const POINTS: usize = 40;

fn kinds() -> Vec<Compatibility> {
    vec![
        Compatibility::potts(2),
        Compatibility::potts(5),
        Compatibility::per_label(vec![0.5, 0.0, 2.0]).unwrap(),
        Compatibility::linear(5, None).unwrap(),
        Compatibility::linear(5, Some(2.5)).unwrap(),
    ]
}

fn model(costs: &Compatibility, rng: &mut Rng) -> Model {
    let labels = costs.labels();
    let mut numbers = |n: usize| (0..n).map(|_| rng.next_f64() as f32).collect::<Vec<_>>();
    ModelBuilder::points(POINTS, labels)
        .unary(numbers(POINTS * labels))
        .features(numbers(POINTS * 2), 2, 0.3)
        .compatibility(costs.clone())
        .filter(FilterKind::Exact)
        .normalization(Normalization::Symmetric)
        .build()
        .unwrap()
}

/// Rows of the simplex, some of them corners.
fn beliefs(labels: usize, rng: &mut Rng) -> Beliefs {
    let energies: Vec<f32> = (0..POINTS * labels).map(|_| 9.0 * rng.normal() as f32).collect();
    let mut y = Beliefs::from_energies(&energies, labels);
    y.as_mut_slice().chunks_exact_mut(labels).for_each(crate::rows::simplex::project);
    y
}

#[test]
fn subgradients_touch_the_objective_and_stay_below_it() {
    let mut rng = Rng::new(11);
    for costs in kinds() {
        let model = model(&costs, &mut rng);
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let mut terms = CutTerms::new(&model, &costs.cuts().unwrap());
        let pairwise = |y: &Beliefs| energy::lp(&model, y, OrderedMode::Exact).unwrap().pairwise;
        let tiny = 1e-5 * model.scale();
        let exact = Order::Sharp(OrderedMode::Exact);
        let orders = [
            exact,
            Order::Sharp(OrderedMode::Binned { bins: 4 }),
            Order::Softened { cells: 1 },
            Order::Softened { cells: 15 },
        ];
        for order in orders {
            for allowance in [0.0, 0.05 * model.scale()] {
                let y = beliefs(costs.labels(), &mut rng);
                let mut z = vec![0.0; y.as_slice().len()];
                terms.subgradient(&mut context, y.as_slice(), order, allowance, &mut z);
                let here = reduce::dot(&z, y.as_slice());
                assert!(here <= pairwise(&y) + tiny);
                if order == exact {
                    assert!(here >= pairwise(&y) - allowance - tiny, "{here} {}", pairwise(&y));
                }
                for _ in 0..20 {
                    let other = beliefs(costs.labels(), &mut rng);
                    assert!(reduce::dot(&z, other.as_slice()) <= pairwise(&other) + tiny);
                    let value = reduce::dot(model.unary(), other.as_slice()) + pairwise(&other);
                    assert!(bound(&model, &z) <= value + tiny, "a bound on beliefs as on labellings");
                }
            }
        }
    }
}

#[test]
fn pairs_of_some_pixels_keep_the_weights_they_have_among_all() {
    let mut rng = Rng::new(17);
    // So few bins that those of some pixels alone would be others.
    let sharp = Order::Sharp(OrderedMode::Binned { bins: 4 });
    for costs in kinds() {
        let model = model(&costs, &mut rng);
        let labels = model.labels();
        let pixels: Vec<usize> = (0..POINTS).filter(|a| a % 3 == 1).collect();
        let smaller = model.among(&pixels).unwrap();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let cuts = costs.cuts().unwrap();
        let (mut whole, mut part) = (CutTerms::new(&model, &cuts), CutTerms::new(&smaller, &cuts));
        let y = beliefs(labels, &mut rng);
        let mut z = vec![0.0; y.as_slice().len()];
        let made = whole.subgradient(&mut context, y.as_slice(), sharp, 0.0, &mut z);
        let kernel = context.between(&pixels);
        let mut got = vec![0.0; pixels.len() * labels];
        context.on(&smaller, 0.0, |context| {
            part.subgradient_within(context, (&whole, &made), &pixels, &mut got);
        });

        let mut expected = vec![0.0; got.len()];
        for term in made.used.iter().map(|&t| &whole.cuts[t]) {
            let inside = |row: &[f32]| snapped(term.members.iter().map(|&i| row[i]).sum());
            let sums: Vec<f32> = y.as_slice().chunks_exact(labels).map(inside).collect();
            let bins = Bins::adaptive(&sums, 4);
            let bin = |k: usize| f32::from(bins.assignment()[pixels[k]]);
            for k in 0..pixels.len() {
                let sign = |other: usize| (bin(k) - bin(other)).clamp(-1.0, 1.0);
                let sum: f32 = (0..pixels.len()).map(|o| kernel[k * pixels.len() + o] * sign(o)).sum();
                term.members.iter().for_each(|&i| expected[k * labels + i] += 2.0 * term.weight * sum);
            }
        }
        let apart = got.iter().zip(&expected).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{apart}");
    }
}

#[test]
fn only_what_rounding_leaves_is_snapped() {
    for end in [0.0, 1e-7, 9e-7] {
        assert_eq!((snapped(end), snapped(1.0 - end)), (0.0, 1.0));
    }
    for within in [2e-6, 1e-3, 0.5, 1.0 - 1e-3, 1.0 - 2e-6] {
        assert_eq!(snapped(within), within);
    }
}

#[test]
fn cuts_that_separate_the_same_are_one() {
    assert_eq!(simplify(&Compatibility::potts(2).cuts().unwrap()), [Term { members: vec![0], weight: 1.0 }]);
    assert_eq!(simplify(&Compatibility::potts(5).cuts().unwrap()).len(), 5);
    // Without truncation, one per place on the line; sums over the shorter side.
    let line = simplify(&Compatibility::linear(6, None).unwrap().cuts().unwrap());
    assert_eq!(line.len(), 5);
    assert!(line.iter().all(|t| t.members.len() <= 3));
    let free = Cut { inside: vec![true, false], weight: 0.0 };
    let all = Cut { inside: vec![true, true], weight: 1.0 };
    assert!(simplify(&[free, all]).is_empty());
}

#[test]
fn cuts_that_do_not_vary_cost_nothing() {
    let mut rng = Rng::new(3);
    let costs = Compatibility::potts(3);
    let model = model(&costs, &mut rng);
    let settings = Settings::default();
    let mut context = Context::new(&model, &settings, Instant::now());
    let mut terms = CutTerms::new(&model, &costs.cuts().unwrap());
    let constant = Beliefs::from_labeling(&crate::Labeling::constant(POINTS, 1), 3);
    let mut z = vec![1.0; POINTS * 3];
    terms.subgradient(&mut context, constant.as_slice(), Order::Sharp(OrderedMode::Exact), 0.0, &mut z);
    assert!(z.iter().all(|&v| v == 0.0));
    assert_eq!(context.counts().ordered, 0);
}

/// More pixels than are done at a time, by the formula.
#[test]
fn sums_of_many_pixels() {
    let (width, height) = (100, 90);
    for costs in kinds() {
        let labels = costs.labels();
        let mut rng = Rng::new(6);
        let model = ModelBuilder::image(width, height, labels)
            .unary(vec![0.0; width * height * labels])
            .gaussian(2.0, 0.3)
            .compatibility(costs.clone())
            .filter(FilterKind::Separable)
            .build()
            .unwrap();
        let energies: Vec<f32> = (0..width * height * labels).map(|_| rng.normal() as f32).collect();
        let y = Beliefs::from_energies(&energies, labels);
        let mut terms = CutTerms::new(&model, &costs.cuts().unwrap());
        let worth = terms.sum_up(&model, y.as_slice());
        let count = terms.cuts.len();
        assert_eq!(worth.len(), count);
        for (t, (term, worth)) in terms.cuts.iter().zip(worth).enumerate() {
            let mut sides = [0.0; 2];
            let rows = y.as_slice().chunks_exact(labels).zip(terms.inside.chunks_exact(count));
            for ((row, inside), &d) in rows.zip(model.pairwise().row_sums()) {
                let sum: f32 = term.members.iter().map(|&i| row[i]).sum();
                assert!((inside[t] - sum).abs() < 1e-5, "{} against {sum}", inside[t]);
                sides[0] += f64::from(d * sum);
                sides[1] += f64::from(d * (1.0 - sum));
            }
            let want = 2.0 * f64::from(term.weight) * sides[0].min(sides[1]);
            assert!((worth - want).abs() < 1e-4 * want, "{worth} against {want}");
        }
    }
}

#[test]
fn a_set_and_the_rest_of_the_labels_are_one_cut() {
    let cut = |inside: [u8; 4], weight| Cut { inside: inside.map(|i| i == 1).to_vec(), weight };
    let halves = [cut([1, 1, 0, 0], 0.5), cut([0, 0, 1, 1], 0.25), cut([1, 0, 1, 0], 1.0)];
    let terms = simplify(&halves);
    let found: Vec<(&[usize], f32)> = terms.iter().map(|t| (&*t.members, t.weight)).collect();
    assert_eq!(found, [(&[0, 1][..], 0.75), (&[0, 2][..], 1.0)]);
    let single = simplify(&[cut([0, 1, 1, 1], 1.0), cut([1, 0, 0, 0], 2.0), cut([1, 1, 1, 1], 3.0)]);
    assert_eq!(single.iter().map(|t| (&*t.members, t.weight)).collect::<Vec<_>>(), [(&[0][..], 3.0)]);
}
