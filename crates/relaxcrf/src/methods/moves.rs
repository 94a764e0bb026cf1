//! Move making: a labelling is improved by the best of a great many changes at once.
//!
//! `expand` lets every pixel change to one label t, `swap` lets the pixels of two labels exchange them. Either
//! is a two-label problem in b (who changes), `<θ, b> + Σ_{a≠b} W_ab |b_a - b_b|`. For swaps of s and t
//! `W = K (μ(s, t) - (μ(s, s) + μ(t, t)) / 2)` within the pixels of the two labels, and all others are part of θ. For
//! expansions with Potts costs, since pixels of the same label need not part, `W_ab = K_ab (1 + [x_a = x_b]) / 2`; with other
//! costs W would depend on both labels of a pair. A few accelerated steps on its smoothed relaxation (see `smooth_lp.rs`) show
//! which pixels want to change; a move is made only if the energy falls, so it never rises.

use super::info::MethodInfo;
use crate::beliefs::Beliefs;
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use crate::model::Model;
use crate::relaxation::quadratic::smallest_curvature;
use crate::solver::{Context, Solver, Step};

/// Parts of the softened order for one move, one number after the other, and steps with each. Few parts let votes spread
/// over a whole region in a few steps however strongly its pixels are coupled; more parts then make up their minds.
const CELLS: [usize; 3] = [1, 3, 7];
const STEPS: usize = 8;

/// Shares of change from which on a pixel changes, tried in turn.
const THRESHOLDS: [f32; 3] = [0.5, 0.9, 0.1];

/// The row of `expand`.
pub(super) const EXPAND: MethodInfo = MethodInfo {
    iterations: |_| 5,
    bytes: |problem| problem.arrays(2) + 32 * problem.pixels as u64 + problem.workspace_bytes(8),
    fits: |model, _| require_moves(model, Kind::Expand),
    ..MethodInfo::new(
        "expand",
        "Potts only: every label in turn is offered to all pixels, as a polish",
        "energy never rises",
        |model, _| Ok(Box::new(Moves::new(model, Kind::Expand)?)),
    )
};

/// The row of `swap`.
pub(super) const SWAP: MethodInfo = MethodInfo {
    fits: |model, _| require_moves(model, Kind::Swap),
    solver: |model, _| Ok(Box::new(Moves::new(model, Kind::Swap)?)),
    name: "swap",
    summary: "every pair of labels may be exchanged, as a polish; any costs",
    ..EXPAND
};

/// Fails unless every move is a two-label problem that can be solved.
fn require_moves(model: &Model, kind: Kind) -> Result<()> {
    let name = if kind == Kind::Expand { "expand" } else { "swap" };
    let refuse = |why: &str, instead: &str| Error::Method {
        method: name.into(),
        why: why.into(),
        instead: instead.into(),
    };
    if kind == Kind::Expand && !model.compatibility().is_potts() {
        return Err(refuse("it is for Potts costs", "`swap`, which takes any costs"));
    }
    if !model.pairwise().is_symmetric() {
        return Err(refuse("the operator is not symmetric", "`dc-neg`, or a symmetric filter"));
    }
    Ok(())
}

/// Which moves are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Expand,
    Swap,
}

/// The methods `expand` and `swap`: one step is a sweep over all moves.
pub(super) struct Moves {
    kind: Kind,
}

/// The change that one move may make: who may change, to what, and what it costs on its own.
struct Move {
    target: u16,
    /// Whether a pixel takes part; those that have the target label already count as changed.
    part: Vec<bool>,
    theta: Vec<f32>,
    /// Groups of pixels within which a share of K separates: their indicator and the share.
    groups: Vec<(Vec<bool>, f32)>,
}

impl Moves {
    pub fn new(model: &Model, kind: Kind) -> Result<Self> {
        require_moves(model, kind)?;
        Ok(Self { kind })
    }

    /// The moves from a labelling: targets for expansions, pairs of labels for swaps.
    fn list(&self, model: &Model, x: &Labeling) -> Vec<(u16, u16)> {
        let mut used = vec![false; model.labels()];
        x.as_slice().iter().for_each(|&l| used[usize::from(l)] = true);
        if self.kind == Kind::Expand {
            model.unary_argmin().as_slice().iter().for_each(|&l| used[usize::from(l)] = true);
        }
        let used: Vec<u16> = (0..model.labels() as u16).filter(|&l| used[usize::from(l)]).collect();
        match self.kind {
            Kind::Expand => used.iter().map(|&t| (t, t)).collect(),
            Kind::Swap => used
                .iter()
                .flat_map(|&t| used.iter().filter(move |&&s| s < t).map(move |&s| (s, t)))
                .collect(),
        }
    }

    fn prepare(&self, context: &mut Context, x: &Labeling, s: u16, t: u16) -> Move {
        let model = context.model();
        let (labels, x) = (model.labels(), x.as_slice());
        let phi = |a: usize, l: u16| model.unary()[a * labels + usize::from(l)];
        if self.kind == Kind::Swap {
            let part: Vec<bool> = x.iter().map(|&l| l == s || l == t).collect();
            let mut theta: Vec<f32> = (0..x.len()).map(|a| phi(a, t) - phi(a, s)).collect();
            let costs = model.compatibility();
            let cost = |i: u16, j: u16| costs.cost(usize::from(i), usize::from(j));
            if !costs.is_potts() {
                let sums = neighbours(context, x);
                let difference: Vec<f32> = (0..labels as u16)
                    .map(|l| match l == s || l == t {
                        true => cost(t, t) - cost(s, s),
                        false => 2.0 * (cost(t, l) - cost(s, l)),
                    })
                    .collect();
                let own = model.pairwise().diagonal();
                for ((o, row), own) in theta.iter_mut().zip(sums.chunks_exact(labels)).zip(own) {
                    // A pixel is among its own neighbours there, but no pair with itself.
                    let itself = own * (cost(t, t) - cost(s, s));
                    *o += row.iter().zip(&difference).map(|(n, d)| n * d).sum::<f32>() - itself;
                }
            }
            let share = cost(s, t) - 0.5 * (cost(s, s) + cost(t, t));
            return Move { target: t, theta, groups: vec![(part.clone(), share)], part };
        }
        let sums = neighbours(context, x);
        let row_sums = model.pairwise().row_sums();
        let others = |a: usize| row_sums[a] - sums[a * labels + usize::from(x[a])];
        let theta = (0..x.len()).map(|a| phi(a, t) - phi(a, x[a]) - others(a)).collect();
        let mut groups = vec![(vec![true; x.len()], 0.5)];
        for l in 0..labels as u16 {
            if x.contains(&l) {
                groups.push((x.iter().map(|&m| m == l).collect(), 0.5));
            }
        }
        Move { target: t, part: vec![true; x.len()], theta, groups }
    }

    /// How strongly every pixel favours the change, from 0 to 1.
    fn expansion_votes(&self, context: &mut Context, x: &Labeling, change: &Move) -> Vec<f32> {
        let model = context.model();
        let n = model.pixels();
        let floor = smallest_curvature(model);
        let row_sums = model.pairwise().row_sums();
        let most = change.groups.iter().map(|(_, share)| share).fold(0.0f32, |a, &b| a.max(b));
        // An expansion's groups overlap in pairs.
        let most = if self.kind == Kind::Expand { 2.0 * most } else { most };
        // Row sums within each group.
        let within: Vec<Vec<f32>> = change
            .groups
            .iter()
            .map(|(group, _)| {
                let inside: Vec<f32> = group.iter().map(|&g| f32::from(u8::from(g))).collect();
                let mut sums = vec![0.0; n];
                context.channels(&inside, 1, &mut sums);
                sums
            })
            .collect();
        let changed = |a: usize| self.kind == Kind::Expand && x.as_slice()[a] == change.target;
        let mut u: Vec<f32> = (0..n).map(|a| f32::from(u8::from(x.as_slice()[a] == change.target))).collect();
        let (mut before, mut v) = (u.clone(), u.clone());
        let (mut z, mut values, mut sums) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        for (cells, step) in CELLS.into_iter().flat_map(|cells| (0..STEPS).map(move |step| (cells, step))) {
            if context.out_of_time() {
                break;
            }
            z.fill(0.0);
            for ((group, share), within) in change.groups.iter().zip(&within) {
                values.iter_mut().zip(&v).zip(group).for_each(|((o, &v), &g)| *o = if g { v } else { 0.0 });
                context.softened_sums(&values, cells, within, &mut sums);
                for a in (0..n).filter(|&a| group[a]) {
                    z[a] += 2.0 * share * sums[a];
                }
            }
            for a in 0..n {
                let curvature = (2.0 * cells as f32 * most * row_sums[a]).max(floor);
                let next = (v[a] - (change.theta[a] + z[a]) / curvature).clamp(0.0, 1.0);
                before[a] = u[a];
                u[a] = if changed(a) { 1.0 } else { next };
            }
            let beta = step as f32 / (step + 3) as f32;
            v.iter_mut().zip(&u).zip(&before).for_each(|((v, &u), &b)| *v = u + beta * (u - b));
        }
        u
    }

    /// The labelling after a move, if that lowers the energy.
    fn make(
        &self,
        context: &mut Context,
        x: &Labeling,
        energy: f64,
        pair: (u16, u16),
    ) -> Option<(Labeling, f64)> {
        let change = self.prepare(context, x, pair.0, pair.1);
        let votes = self.expansion_votes(context, x, &change);
        let stay = |a: usize| if self.kind == Kind::Swap { pair.0 } else { x.as_slice()[a] };
        for threshold in THRESHOLDS {
            let moved = Labeling::new(
                (0..votes.len())
                    .map(|a| match (change.part[a], votes[a] >= threshold) {
                        (false, _) => x.as_slice()[a],
                        (true, true) => change.target,
                        (true, false) => stay(a),
                    })
                    .collect(),
            );
            if moved == *x {
                continue;
            }
            let now = context.evaluate(&moved).total();
            if now < energy {
                return Some((moved, now));
            }
        }
        None
    }
}

/// K times every label's indicator: how much of each label there is around each pixel.
fn neighbours(context: &mut Context, x: &[u16]) -> Vec<f32> {
    let labels = context.model().labels();
    let indicators = Beliefs::from_labeling(&Labeling::new(x.to_vec()), labels);
    let mut sums = vec![0.0; indicators.as_slice().len()];
    context.filter(indicators.as_slice(), &mut sums);
    sums
}

impl Solver for Moves {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        let mut x = beliefs.argmax();
        let before = context.evaluate(&x).total();
        let mut energy = before;
        let costs = model.compatibility();
        let attracts = |(s, t): (u16, u16)| {
            let (s, t) = (usize::from(s), usize::from(t));
            s != t && 2.0 * costs.cost(s, t) <= costs.cost(s, s) + costs.cost(t, t)
        };
        // Labels that like to be mixed make no two-label problem of this kind.
        for pair in self.list(model, &x).into_iter().filter(|&pair| !attracts(pair)) {
            if context.out_of_time() {
                break;
            }
            if let Some((moved, now)) = self.make(context, &x, energy, pair) {
                (x, energy) = (moved, now);
            }
        }
        *beliefs = Beliefs::from_labeling(&x, model.labels());
        Step { objective: energy, lower_bound: None, residual: before - energy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy;
    use crate::model::{Compatibility, FilterKind, ModelBuilder, Normalization};
    use crate::solver::Settings;
    use relaxcrf_filter::rng::Rng;
    use std::time::Instant;

    const POINTS: usize = 10;
    const WEIGHT: f32 = 0.4;

    /// The two-label problem of a move is the change of the energy, whoever changes.
    fn moves_cost_what_they_say(kind: Kind, costs: &Compatibility, seed: u64) {
        let (labels, mut rng) = (costs.labels(), Rng::new(seed));
        let mut numbers = |n: usize| (0..n).map(|_| 2.0 * rng.next_f64() as f32).collect::<Vec<_>>();
        let places = numbers(2 * POINTS);
        let model = ModelBuilder::points(POINTS, labels)
            .unary(numbers(POINTS * labels))
            .features(places.clone(), 2, WEIGHT)
            .compatibility(costs.clone())
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap();
        let kernel = |a: usize, b: usize| {
            let square = |d: usize| f64::from(places[2 * a + d] - places[2 * b + d]).powi(2);
            f64::from(WEIGHT) * (-0.5 * (square(0) + square(1))).exp()
        };
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let x = Labeling::new((0..POINTS).map(|_| rng.below(labels) as u16).collect());
        let moves = Moves::new(&model, kind).unwrap();
        for (s, t) in moves.list(&model, &x) {
            let change = moves.prepare(&mut context, &x, s, t);
            assert_eq!(change.target, t);
            let cost = |b: &[bool]| {
                let alone =
                    (0..POINTS).filter(|&a| change.part[a] && b[a]).map(|a| f64::from(change.theta[a]));
                let mut total: f64 = alone.sum();
                for (group, share) in &change.groups {
                    let inside: Vec<usize> = (0..POINTS).filter(|&a| group[a]).collect();
                    let apart = |(&a, &c): (&usize, &usize)| if b[a] == b[c] { 0.0 } else { kernel(a, c) };
                    let pairs = inside.iter().flat_map(|a| inside.iter().map(move |c| (a, c)));
                    total += f64::from(*share) * pairs.map(apart).sum::<f64>();
                }
                total
            };
            let moved = |b: &[bool]| {
                let stay = |a: usize| if kind == Kind::Swap { s } else { x.as_slice()[a] };
                let label = |a: usize| match (change.part[a], b[a]) {
                    (false, _) => x.as_slice()[a],
                    (true, true) => t,
                    (true, false) => stay(a),
                };
                energy::of_labeling(&model, &Labeling::new((0..POINTS).map(label).collect())).unwrap().total()
            };
            let has: Vec<bool> = x.as_slice().iter().map(|&l| l == t).collect();
            for _ in 0..10 {
                // Those that have the label already count as changed; in a swap they may change back.
                let b: Vec<bool> =
                    has.iter().map(|&h| rng.below(2) == 1 || (h && kind == Kind::Expand)).collect();
                let (want, got) = (moved(&b) - moved(&has), cost(&b) - cost(&has));
                assert!((want - got).abs() < 1e-4, "{kind:?} of {s} and {t}: {got} instead of {want}");
            }
        }
    }

    #[test]
    fn problems_of_moves_are_the_change_of_the_energy() {
        let odd = Compatibility::matrix(3, vec![0.3, -0.2, 1.0, -0.2, 0.0, 2.0, 1.0, 2.0, 0.1]).unwrap();
        for seed in 0..5 {
            moves_cost_what_they_say(Kind::Expand, &Compatibility::potts(4), seed);
            moves_cost_what_they_say(Kind::Swap, &Compatibility::potts(4), seed);
            moves_cost_what_they_say(Kind::Swap, &Compatibility::linear(4, Some(2.0)).unwrap(), seed);
            moves_cost_what_they_say(Kind::Swap, &odd, seed);
        }
    }

    #[test]
    fn labels_that_like_to_be_mixed_are_not_swapped() {
        // To differ is free, or less than what equal labels pay.
        let free = Compatibility::matrix(2, vec![0.0; 4]).unwrap();
        let peace = Compatibility::matrix(2, vec![1.0, 0.4, 0.4, 0.0]).unwrap();
        let war = Compatibility::matrix(2, vec![1.0, 0.6, 0.6, 0.0]).unwrap();
        for (costs, swapped) in [(free, false), (peace, false), (war, true)] {
            let model = ModelBuilder::points(POINTS, 2)
                .unary((0..2 * POINTS).map(|k| (k as f32).sin()).collect())
                .features((0..POINTS).map(|a| 0.3 * a as f32).collect(), 1, WEIGHT)
                .compatibility(costs)
                .filter(FilterKind::Exact)
                .build()
                .unwrap();
            let settings = Settings::default();
            let mut context = Context::new(&model, &settings, Instant::now());
            let x = Labeling::new((0..POINTS).map(|a| (a % 2) as u16).collect());
            let mut beliefs = Beliefs::from_labeling(&x, 2);
            let step = Moves::new(&model, Kind::Swap).unwrap().step(&mut context, &mut beliefs);
            assert_eq!(context.counts().filter > 0, swapped);
            assert!(swapped || (step.residual == 0.0 && beliefs.argmax() == x));
        }
    }
}
