use std::time::Instant;

use super::*;
use crate::Beliefs;
use crate::energy;
use crate::labeling::Labeling;
use crate::methods::prox_lp::{ProxLp, ProxOptions, Proximal};
use crate::methods::smooth_lp::{SmoothLp, Smoothed};
use crate::model::{Compatibility, FilterKind, ModelBuilder, Normalization};
use crate::run::Solve;
use crate::solver::{Settings, Solver, Step};
use relaxcrf_filter::rng::Rng;

const WIDTH: usize = 32;
const POINTS: usize = WIDTH * 24;

/// Stripes of labels with noise. The right label leads; where stripes meet hardly.
fn model(
    filter: FilterKind,
    normalization: Normalization,
    costs: Compatibility,
    lead: f32,
    rng: &mut Rng,
) -> Model {
    let labels = costs.labels();
    let mut unary = Vec::with_capacity(POINTS * labels);
    let mut features = Vec::with_capacity(POINTS * 3);
    for a in 0..POINTS {
        let (x, y) = ((a % WIDTH) as f32, (a / WIDTH) as f32);
        let place = (x + 0.3 * y) * labels as f32 / (WIDTH + 8) as f32;
        let stripe = place as usize;
        let border = (place - place.round()).abs() < 0.08;
        let lead = if border { 0.1 } else { lead };
        unary.extend((0..labels).map(|i| 1.2 * rng.next_f64() as f32 + if i == stripe { 0.0 } else { lead }));
        features.extend([x / 4.0, y / 4.0, stripe as f32 + 0.4 * rng.next_f64() as f32]);
    }
    let weight = if normalization == Normalization::None { 0.02 } else { 0.8 };
    ModelBuilder::points(POINTS, labels)
        .unary(unary)
        .features(features, 3, weight)
        .compatibility(costs)
        .filter(filter)
        .normalization(normalization)
        .build()
        .unwrap()
}

/// A start in which every sixth pixel is open and the others are sure of some label.
fn beliefs(labels: usize, rng: &mut Rng) -> Vec<f32> {
    let mut y = vec![0.0; POINTS * labels];
    for (a, row) in y.chunks_exact_mut(labels).enumerate() {
        if a % 6 == 0 {
            row.fill(1.0 / labels as f32);
        } else {
            row[rng.next_u64() as usize % labels] = 1.0;
        }
    }
    y
}

fn kinds_of_costs() -> [Compatibility; 4] {
    [
        Compatibility::potts(3),
        Compatibility::potts(2),
        Compatibility::linear(4, Some(2.0)).unwrap(),
        Compatibility::per_label(vec![0.4, 1.0, 2.0]).unwrap(),
    ]
}

/// Views of a method's iterates: what they say is below the energy of every labelling.
fn no_labelling_is_below<I: RestrictPixels>(seed: u64, iterates: impl Fn(&Model, &[Cut]) -> I) {
    let mut rng = Rng::new(seed);
    for filter in [FilterKind::Lattice, FilterKind::Exact] {
        for normalization in [Normalization::Symmetric, Normalization::None] {
            for costs in kinds_of_costs() {
                let model = model(filter, normalization, costs.clone(), 0.7, &mut rng);
                let (labels, cuts) = (model.labels(), costs.cuts().unwrap());
                let settings = Settings::default();
                let mut context = Context::new(&model, &settings, Instant::now());
                let mut whole = iterates(&model, &cuts);
                let start = beliefs(labels, &mut rng);
                let mut y = start.clone();
                whole.step(&mut context, &mut start.clone());
                let mut watched = Averaging::choose(&model, &cuts, &whole, &start).unwrap();
                assert_eq!(watched.pixels.len(), POINTS.div_ceil(6));
                for _ in 0..6 {
                    whole.step(&mut context, &mut y);
                    watched.add(&mut context, &whole);
                }
                let share = f64::from(watched.fraction);
                assert!(share > 0.0 && share <= 1.0 && (share == 1.0 || whole.mean_to_continue().is_some()));
                let mut view = watched.restrict(&model, &cuts, &mut whole, &y).unwrap();

                // The smaller problem begins with the bound that it was made from.
                let tiny = 1e-5 * model.scale();
                let bound = |view: &mut Restricted<I>| view.fixed + view.inner.bounds().best;
                let begun = bound(&mut view);
                let merged = cuts::bound(&model, &view.window);
                assert!((begun - merged).abs() <= tiny, "{begun} and {merged}");

                let mut check = |view: &mut Restricted<I>| {
                    for k in 0..40 {
                        // Of any kind: noise, stripes, one label, and what the beliefs say.
                        let any: Vec<u16> = (0..POINTS)
                            .map(|a| match k % 4 {
                                0 => rng.next_u64() as usize % labels,
                                1 => (a % WIDTH + k) * labels / (WIDTH + 40),
                                2 => k % labels,
                                _ => (0..labels)
                                    .max_by(|&i, &j| y[a * labels + i].total_cmp(&y[a * labels + j]))
                                    .unwrap(),
                            } as u16)
                            .collect();
                        let part = view.pixels.iter().map(|&a| any[a]).collect();
                        let part = energy::of_labeling(&view.model, &Labeling::new(part)).unwrap();
                        let mut below = part.unary + share * part.pairwise;
                        for a in (0..POINTS).filter(|a| a % 6 != 0) {
                            let at = a * labels + usize::from(any[a]);
                            below += f64::from(model.unary()[at]) + f64::from(view.window[at]);
                        }
                        let above = energy::of_labeling(&model, &Labeling::new(any)).unwrap().total();
                        assert!(below <= above + tiny, "{below} is above {above}");
                        assert!(bound(view) <= below + tiny);
                    }
                };
                check(&mut view);
                for _ in 0..10 {
                    view.step(&mut context, &mut whole);
                }
                view.scatter(&mut y.clone());
                check(&mut view);
                let (now, merged) = (bound(&mut view), cuts::bound(&model, &view.window));
                assert!(now >= begun, "bounds do not fall");
                // The bound kept is the best so far, that of the mean may be a little lower.
                assert!(merged <= now + tiny && merged >= begun - 0.02 * model.scale(), "{merged} and {now}");
            }
        }
    }
}

#[test]
fn restricted_problem_is_a_lower_bound_for_every_labelling() {
    no_labelling_is_below(5, |model, cuts| Smoothed::new(model, cuts, 31));
    // So few bins that those of the open pixels alone would be others.
    let options = ProxOptions { bins: 4, ..ProxOptions::DEFAULT };
    no_labelling_is_below(6, |model, cuts| Proximal::new(model, cuts, options));
}

/// The bound after so many steps, which must rise and stay below every energy seen.
fn bound_after(
    steps: usize,
    context: &mut Context,
    mut step: impl FnMut(&mut Context, &mut Beliefs) -> Step,
) -> f64 {
    let model = context.model();
    let mut y = Beliefs::from_energies(model.unary(), model.labels());
    let mut bound = f64::NEG_INFINITY;
    for _ in 0..steps {
        let step = step(context, &mut y);
        context.evaluate(&y.argmax());
        let now = step.lower_bound.unwrap();
        assert!(now >= bound && now <= context.lowest_energy() + 1e-6 * model.scale());
        bound = now;
        for row in y.as_slice().chunks_exact(model.labels()) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4);
        }
    }
    bound
}

#[test]
fn restricted_iterations_reach_the_bound_of_full_ones() {
    let mut rng = Rng::new(8);
    let (mut opened, mut opened_by_proximal) = (0, 0);
    for (labels, lead) in [(2, 2.0), (4, 2.0), (3, 1.0), (2, 1.0), (4, 0.7)] {
        let costs = Compatibility::potts(labels);
        let model = model(FilterKind::Lattice, Normalization::Symmetric, costs, lead, &mut rng);
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let mut solver = SmoothLp::new(&model, relaxcrf_filter::MAX_CELLS).unwrap();
        let bound = bound_after(120, &mut context, |context, y| solver.step(context, y));
        opened += solver.lp.opened;
        let mut proximal = ProxLp::new(&model, ProxOptions::DEFAULT).unwrap();
        let other = bound_after(120, &mut context, |context, y| proximal.step(context, y));
        opened_by_proximal += proximal.lp.opened;
        // The whole problem alone, for as long as it takes.
        let mut whole = Smoothed::new(&model, &model.compatibility().cuts().unwrap(), 31);
        let mut alone = Beliefs::from_energies(model.unary(), labels);
        for _ in 0..400 {
            whole.step(&mut context, alone.as_mut_slice());
        }
        let alone = whole.bounds().best;
        let apart = |bound: f64| (bound - alone).abs() / context.lowest_energy();
        let (of_smoothed, of_proximal) = (apart(bound), apart(other));
        println!(
            "{labels} labels, lead {lead}: {opened} and {opened_by_proximal} views so far, {of_smoothed:.1e} and {of_proximal:.1e} apart"
        );
        assert!(of_smoothed < 2e-3, "{bound}");
        assert!(of_proximal < 1e-2, "{other}");
    }
    assert!(opened > 5 && opened_by_proximal > 2, "{opened} and {opened_by_proximal} views");
}

#[test]
fn calls_for_some_pixels_count_as_a_fraction_of_a_call() {
    let mut rng = Rng::new(2);
    let model = model(FilterKind::Lattice, Normalization::Symmetric, Compatibility::potts(3), 2.0, &mut rng);
    let settings = Settings { max_iterations: Some(60), ..Settings::default() };
    let method = "smooth-lp".parse().unwrap();
    let solution = Solve::new(&model).method(&method).settings(&settings).run().unwrap();
    // One for each iteration, and at most a fifth more while a view is watched.
    let most = solution.iterations + solution.iterations / 5 + 1;
    assert!(solution.counts.ordered <= most, "{} in {}", solution.counts.ordered, solution.iterations);
}

/// A view that was just opened, of every sixth pixel.
fn view(context: &mut Context, rng: &mut Rng) -> (Restricted<Smoothed>, Smoothed, Vec<f32>) {
    let model = context.model();
    let cuts = model.compatibility().cuts().unwrap();
    let mut whole = Smoothed::new(model, &cuts, 31);
    let y = beliefs(model.labels(), rng);
    let mut watched = Averaging::choose(model, &cuts, &whole, &y).unwrap();
    context.evaluate(&Labeling::constant(POINTS, 0));
    whole.step(context, &mut y.clone());
    watched.add(context, &whole);
    let view = watched.restrict(model, &cuts, &mut whole, &y).unwrap();
    (view, whole, y)
}

#[test]
fn rise_is_that_of_the_last_iterations() {
    let mut bounds = Bounds::new(1.0);
    assert_eq!(bounds.rise(0), f64::INFINITY);
    for (k, raised) in [2.0, 1.5, 4.0, 8.0].into_iter().enumerate() {
        bounds.raise(raised);
        bounds.note();
        assert_eq!(bounds.rise(k + 1), f64::INFINITY, "there were not so many");
    }
    assert_eq!([0, 1, 2, 3].map(|n| bounds.rise(n)), [0.0, 4.0, 6.0, 6.0]);
}

#[test]
fn averaging_ends_after_enough_iterations_or_weight() {
    let mut rng = Rng::new(14);
    let model = model(FilterKind::Lattice, Normalization::Symmetric, Compatibility::potts(3), 0.7, &mut rng);
    let cuts = model.compatibility().cuts().unwrap();
    let whole = Smoothed::new(&model, &cuts, 31);
    let mut watched = Averaging::choose(&model, &cuts, &whole, &beliefs(3, &mut rng)).unwrap();
    let mut ready = |averaged: f32, share: f32| {
        (watched.averaged, watched.fraction) = (averaged, share);
        watched.is_ready()
    };
    assert!(!ready(9.0, 1.0) && ready(10.0, 0.91) && !ready(10.0, 0.89) && !ready(39.0, 0.89));
    assert!(ready(40.0, 0.5) && ready(41.0, 0.0));
}

#[test]
fn wait_doubles_after_a_restriction_without_gain() {
    let mut rng = Rng::new(15);
    let model = model(FilterKind::Lattice, Normalization::Symmetric, Compatibility::potts(3), 0.7, &mut rng);
    let settings = Settings::default();
    for (before, between) in [(f64::INFINITY, [4, 8, 16]), (f64::NEG_INFINITY, [FULL_ITERATIONS_BETWEEN; 3])]
    {
        let mut waited = FULL_ITERATIONS_BETWEEN;
        for waits in between {
            let mut context = Context::new(&model, &settings, Instant::now());
            let (mut view, mut whole, mut y) = view(&mut context, &mut rng);
            let gap = absolute_gap(&context, &mut whole);
            assert!(gap > 0.0 && gap == context.lowest_energy() - whole.bounds().best);
            // The last step that it may take.
            (view.steps, view.bound_before) = (MAX_RESTRICTED_ITERATIONS - 1, before);
            let mut open = OpenPixels::new(&model, model.compatibility().cuts().unwrap(), whole);
            (open.phase, open.between) = (Phase::Restricted(Box::new(view)), waited);
            assert!(!open.is_whole());
            open.step(&mut context, &mut y);
            assert!(matches!(open.phase, Phase::Full { wait } if wait == waits), "{waits} after {before}");
            assert!(open.is_whole() && open.between == waits);
            waited = open.between;
        }
    }
}

#[test]
fn restricted_problem_has_converged_when_bound_stalls() {
    let mut rng = Rng::new(16);
    let model = model(FilterKind::Lattice, Normalization::Symmetric, Compatibility::potts(3), 0.7, &mut rng);
    let settings = Settings::default();
    let mut context = Context::new(&model, &settings, Instant::now());
    let (mut view, mut whole, _) = view(&mut context, &mut rng);
    let lowest = context.lowest_energy();
    whole.bounds().best = lowest - 10.0;
    // Every iteration raises the bound by so much, of 10 that are left.
    for (rise, spent) in [(0.02, false), (0.005, true)] {
        view.inner.bounds = Bounds::new(0.0);
        for k in 0..=RISE_WINDOW {
            assert!(!view.has_converged(&context, &mut whole), "after {k}");
            view.inner.bounds().best += rise;
            view.inner.bounds().note();
        }
        assert_eq!(view.has_converged(&context, &mut whole), spent, "{rise} an iteration");
    }
    // A closed gap is the end of it, and so are too many steps.
    view.inner.bounds = Bounds::new(0.0);
    view.steps = MAX_RESTRICTED_ITERATIONS;
    assert!(view.has_converged(&context, &mut whole));
    view.steps = 0;
    assert!(!view.has_converged(&context, &mut whole));
    whole.bounds().best = lowest + 1.0;
    assert_eq!(absolute_gap(&context, &mut whole), 0.0);
    assert!(view.has_converged(&context, &mut whole));
}

/// With one z instead of a mean of many, the objective of both problems is the same at the same beliefs.
#[test]
fn decided_pixels_keep_their_part_of_the_objective() {
    let mut rng = Rng::new(13);
    for costs in [Compatibility::potts(3), Compatibility::linear(4, Some(2.0)).unwrap()] {
        let model = model(FilterKind::Exact, Normalization::Symmetric, costs.clone(), 0.7, &mut rng);
        let cuts = costs.cuts().unwrap();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let mut whole = Smoothed::new(&model, &cuts, 31);
        let start = beliefs(model.labels(), &mut rng);
        let mut watched = Averaging::choose(&model, &cuts, &whole, &start).unwrap();
        // The first z is that of the start itself.
        let (objective, _) = whole.step(&mut context, &mut start.clone());
        watched.add(&mut context, &whole);
        let view = watched.restrict(&model, &cuts, &mut whole, &start).unwrap();
        let of_open: f64 = (view.model.unary().iter().zip(view.inner.certificate()).zip(&view.y))
            .map(|((&phi, &z), &y)| (f64::from(phi) + f64::from(z)) * f64::from(y))
            .sum();
        let got = view.objective + of_open;
        assert!((got - objective).abs() < 1e-5 * model.scale(), "{got} against {objective}");
    }
}
