//! The LP for label costs that are no known sum of cuts: through trees that stand in for them.
//!
//! Each iteration takes one tree (see `trees.rs`) with distances that are nowhere below the costs, solves the
//! LP over its cuts, rounds the beliefs from the root down, and fuses the labellings into the best one so
//! far (see `fuse.rs`), which never gets worse: the true energy decides. Of several sampled trees it takes
//! the one that overrates the costs least for the pairs of labels that meet in the best labelling.
//!
//! A bound of a tree's LP is none for the costs, since the tree costs more: there is none to report. Where
//! the costs are exact sums of cuts, no tree is needed, and the method is `lp`, bounds included. This holds
//! for Potts, per-label, linear and truncated linear costs, and for matrices that are trees themselves.

use super::info::MethodInfo;
use super::lp::{self, Lp, LpOptions, StepRule};
use super::options::MethodOption;
use super::smooth_lp::SmoothLp;
use crate::beliefs::Beliefs;
use crate::energy;
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use crate::model::trees::LabelTree;
use crate::model::{Compatibility, Cut, Model};
use crate::relaxation::cuts::require_few_labels;
use crate::relaxation::fuse::fuse;
use crate::round;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::MAX_CELLS;
use relaxcrf_filter::rng::Rng;

/// Trees sampled for each one used.
const SAMPLES: u64 = 8;

/// LP iterations per tree.
const LP_STEPS: usize = 40;

/// Roundings of a tree's beliefs that are fused into the best labelling: those of lowest energy.
const FUSED: usize = 2;

/// Trees in a row that may bring nothing.
const PATIENCE: usize = 3;

/// The row of `tree-lp`.
pub(super) const ROW: MethodInfo = MethodInfo {
    options: &{
        let [polyak, dc, paper_step, bins] = lp::OPTIONS;
        [
            polyak,
            dc,
            paper_step,
            bins,
            MethodOption::count("trees", "most trees", (1, 1000), TreeOptions::DEFAULT_TREES),
        ]
    },
    tolerance: 1e-5,
    // The LP alone where no tree is needed.
    bytes: |problem| (problem.arrays(11) + problem.column_bytes()).max((lp::ROW.bytes)(problem)),
    fits: |model, _| require_tree_costs(model),
    ..MethodInfo::new(
        "tree-lp",
        "LP over sampled trees of labels, for any label costs of 0 or more (options: trees=N and those of lp)",
        "energy never rises; where no tree is needed, the same as lp",
        |model, options| {
            solver(model, TreeOptions { trees: options.count("trees"), lp: LpOptions::of(options) })
        },
    )
};

/// Options of the method `tree-lp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeOptions {
    /// Most trees.
    pub trees: usize,
    /// How the LP of each tree is solved.
    pub lp: LpOptions,
}

impl TreeOptions {
    const DEFAULT_TREES: usize = 6;
}

/// Fails unless trees of labels can approximate the label costs.
fn require_tree_costs(model: &Model) -> Result<()> {
    let costs = model.compatibility();
    require_few_labels(model, "tree-lp")?;
    if costs.cuts().is_some() || (costs.is_non_negative() && costs.has_zero_diagonal()) {
        return Ok(());
    }
    Err(Error::Method {
        method: "tree-lp".into(),
        why: match costs.most_negative() {
            Some((i, j)) => format!("labels {i} and {j} cost {}, expected 0 or more", costs.cost(i, j)),
            None => "equal labels cost something, expected 0".into(),
        },
        instead: "`qp+dc-gen`, which takes any symmetric costs".into(),
    })
}

/// A solver for the method `tree-lp`: the plain LP where that is exact.
pub(super) fn solver(model: &Model, options: TreeOptions) -> Result<Box<dyn Solver + '_>> {
    require_tree_costs(model)?;
    let costs = model.compatibility();
    if costs.cuts().is_some() {
        return lp::solver(model, options.lp);
    }
    let nested = LabelTree::nested(costs);
    if nested.equals(costs) {
        if options.lp.rule == StepRule::Softened {
            return Ok(Box::new(SmoothLp::over(model, nested.cuts(), MAX_CELLS)));
        }
        return Ok(Box::new(Lp::over(model, &nested.cuts(), options.lp, true)));
    }
    Ok(Box::new(TreeLp { options, nested: Some(nested), done: Vec::new(), best: None, energies: Vec::new() }))
}

/// The method where trees are needed. The beliefs it hands on are those of the best labelling.
struct TreeLp {
    options: TreeOptions,
    /// The tree of nested neighbourhoods, until it was used.
    nested: Option<LabelTree>,
    /// Cuts of the trees used.
    done: Vec<Vec<Cut>>,
    best: Option<(Labeling, f64)>,
    /// Energy of the best labelling at the start and after each tree.
    energies: Vec<f64>,
}

impl TreeLp {
    /// The tree that fits best where the labels of the best labelling meet, if a new one is found.
    fn choose(&mut self, context: &mut Context, x: &Labeling) -> Option<LabelTree> {
        let costs = context.model().compatibility();
        let meetings = meetings(context, x);
        let seed = context.settings().seed;
        let first = self.done.len() as u64 * SAMPLES;
        let sampled = (first..first + SAMPLES).map(|k| LabelTree::sample(costs, &mut Rng::stream(seed, k)));
        let fresh = |tree: &LabelTree| !self.done.contains(&tree.cuts());
        let tree = self
            .nested
            .iter()
            .cloned()
            .chain(sampled)
            .filter(fresh)
            .map(|tree| (excess(&tree, costs, &meetings), tree))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, tree)| tree)?;
        self.done.push(tree.cuts());
        Some(tree)
    }

    /// The LP of a tree from the beliefs, rounded in several ways.
    fn proposals(&self, context: &mut Context, tree: &LabelTree, mut beliefs: Beliefs) -> Vec<Labeling> {
        let model = context.model();
        let settings = context.settings();
        let tolerance = settings.tolerance.unwrap_or(1e-5) * model.scale();
        let mut lp = Lp::over(model, &tree.cuts(), self.options.lp, false);
        for _ in 0..LP_STEPS {
            let step = lp.step(context, &mut beliefs);
            if step.residual <= tolerance || context.out_of_time() {
                break;
            }
        }
        let seed = |k: usize| Rng::stream(settings.seed ^ self.done.len() as u64, k as u64).next_u64();
        let rounded = (0..settings.roundings).map(|k| round::top_down(&beliefs, tree, seed(k)));
        let mut proposals: Vec<(f64, Labeling)> = std::iter::once(beliefs.argmax())
            .chain(rounded)
            .map(|x| (context.evaluate(&x).total(), x))
            .collect();
        proposals.sort_by(|p, q| p.0.total_cmp(&q.0));
        proposals.into_iter().take(FUSED).map(|(_, x)| x).collect()
    }
}

impl Solver for TreeLp {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let (mut x, mut energy) = self.best.take().unwrap_or_else(|| {
            let start = start(context, beliefs);
            self.energies.push(start.1);
            start
        });
        let tree = if self.done.len() < self.options.trees { self.choose(context, &x) } else { None };
        if let Some(tree) = &tree {
            for proposal in self.proposals(context, tree, beliefs.clone()) {
                if let Some(better) = fuse(context, &x, energy, &proposal) {
                    (x, energy) = better;
                }
            }
        }
        self.energies.push(energy);
        *beliefs = Beliefs::from_labeling(&x, context.model().labels());
        self.best = Some((x, energy));

        let before = self.energies.len().checked_sub(PATIENCE + 1).map(|k| self.energies[k]);
        let residual = match (&tree, before) {
            (None, _) => 0.0,
            (Some(_), None) => f64::INFINITY,
            (Some(_), Some(before)) => before - energy,
        };
        Step { objective: energy, lower_bound: None, residual }
    }
}

/// The best constant labelling and the most believed labels, fused.
fn start(context: &mut Context, beliefs: &Beliefs) -> (Labeling, f64) {
    let model = context.model();
    let x = beliefs.argmax();
    let energy = context.evaluate(&x).total();
    let constants = energy::of_constants(model).into_iter().enumerate();
    match constants.min_by(|p, q| p.1.total_cmp(&q.1)) {
        Some((label, constant)) if constant < energy => {
            let flat = Labeling::constant(model.pixels(), label as u16);
            fuse(context, &flat, constant, &x).unwrap_or((flat, constant))
        }
        _ => (x, energy),
    }
}

/// How much the labels meet: `Σ K_ab` over pixels a with label i and b with label j, plus a little for all.
fn meetings(context: &mut Context, x: &Labeling) -> Vec<f64> {
    let labels = context.model().labels();
    let rows = Beliefs::from_labeling(x, labels).into_vec();
    let mut filtered = vec![0.0; rows.len()];
    context.filter(&rows, &mut filtered);
    let mut sums = vec![0.0; labels * labels];
    let mut total = 0.0;
    for (row, &l) in filtered.chunks_exact(labels).zip(x.as_slice()) {
        for (sum, &v) in sums[usize::from(l) * labels..].iter_mut().zip(row) {
            *sum += f64::from(v);
            total += f64::from(v);
        }
    }
    let little = 1e-3 * total / sums.len() as f64;
    sums.iter().map(|s| s + little).collect()
}

/// By how much a tree overrates the costs, pairs of labels counting as much as they meet.
fn excess(tree: &LabelTree, costs: &Compatibility, meetings: &[f64]) -> f64 {
    let labels = costs.labels();
    let over = |i: usize, j: usize| f64::from(tree.distance(i, j) - costs.cost(i, j));
    meetings.iter().enumerate().map(|(k, m)| m * over(k / labels, k % labels)).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::options::Options;
    use super::*;
    use crate::model::{FilterKind, ModelBuilder};
    use crate::solver::Settings;
    use relaxcrf_filter::{Direction, Workspace};

    const POINTS: usize = 9;
    const LABELS: usize = 4;

    /// A line of points under costs that no tree gives.
    fn model() -> Model {
        let costs =
            (0..LABELS * LABELS).map(|k| ((k / LABELS).abs_diff(k % LABELS) as f32).powf(1.5)).collect();
        ModelBuilder::points(POINTS, LABELS)
            .unary((0..POINTS * LABELS).map(|k| (k as f32).sin().abs()).collect())
            .features((0..POINTS).map(|a| 0.3 * a as f32).collect(), 1, 0.2)
            .compatibility(Compatibility::matrix(LABELS, costs).unwrap())
            .filter(FilterKind::Exact)
            .build()
            .unwrap()
    }

    /// Label 3 is not used: it meets none.
    fn labeling() -> Labeling {
        Labeling::new(vec![0, 0, 1, 1, 1, 2, 0, 2, 2])
    }

    #[test]
    fn labels_meet_as_much_as_their_pixels_see_of_each_other() {
        let (model, settings) = (model(), Settings::default());
        let mut context = Context::new(&model, &settings, Instant::now());
        let got = meetings(&mut context, &labeling());
        assert_eq!(got.len(), LABELS * LABELS);

        let unit: Vec<f32> =
            (0..POINTS * POINTS).map(|k| f32::from(u8::from(k / POINTS == k % POINTS))).collect();
        let mut k = vec![0.0; POINTS * POINTS];
        model.pairwise().apply(Direction::Forward, &unit, POINTS, &mut k, &mut Workspace::new());
        let all: f64 = k.iter().map(|&v| f64::from(v)).sum();
        let label = |a: usize| usize::from(labeling().as_slice()[a]);
        for (pair, got) in got.iter().enumerate() {
            let (i, j) = (pair / LABELS, pair % LABELS);
            let meet = (0..POINTS * POINTS).filter(|p| label(p / POINTS) == i && label(p % POINTS) == j);
            // A thousandth of all is spread over the pairs of labels.
            let want = meet.map(|p| f64::from(k[p])).sum::<f64>() + 1e-3 * all / (LABELS * LABELS) as f64;
            assert!((got - want).abs() < 1e-5 * all, "labels {i} and {j}: {got} against {want}");
            assert!(*got > 0.0, "even those that do not meet count a little");
        }
    }

    #[test]
    fn trees_that_were_used_are_not_chosen_again_and_those_that_fit_come_first() {
        let (model, settings) = (model(), Settings::default());
        let costs = model.compatibility();
        let mut context = Context::new(&model, &settings, Instant::now());
        let met = meetings(&mut context, &labeling());
        let nested = LabelTree::nested(costs);
        let mut solver = TreeLp {
            options: TreeOptions {
                trees: TreeOptions::DEFAULT_TREES,
                lp: LpOptions::of(&Options::defaults(&lp::OPTIONS)),
            },
            nested: Some(nested.clone()),
            done: Vec::new(),
            best: None,
            energies: Vec::new(),
        };
        for turn in 0..6 {
            let used = solver.done.clone();
            let sampled = (turn * SAMPLES..(turn + 1) * SAMPLES)
                .map(|k| LabelTree::sample(costs, &mut Rng::stream(settings.seed, k)));
            let fresh: Vec<LabelTree> =
                sampled.chain([nested.clone()]).filter(|tree| !used.contains(&tree.cuts())).collect();
            let Some(tree) = solver.choose(&mut context, &labeling()) else {
                assert!(fresh.is_empty(), "there were trees to choose from");
                break;
            };
            assert!(!used.contains(&tree.cuts()) && solver.done.last() == Some(&tree.cuts()));
            let overrated = |tree: &LabelTree| -> f64 {
                let pairs = (0..LABELS * LABELS).map(|k| (k / LABELS, k % LABELS));
                let over = |(i, j)| f64::from(tree.distance(i, j)) - f64::from(costs.cost(i, j));
                pairs.zip(&met).map(|(pair, m)| m * over(pair)).sum()
            };
            let least = fresh.iter().map(overrated).fold(f64::INFINITY, f64::min);
            assert!(overrated(&tree) <= least * (1.0 + 1e-5), "turn {turn}: {} {least}", overrated(&tree));
        }
        assert!(solver.done.len() > 1);
    }

    #[test]
    fn the_start_is_no_worse_than_what_it_is_made_of() {
        let settings = Settings::default();
        for (strength, seed) in [(0.01, 1), (0.3, 2), (3.0, 3)] {
            let mut r = Rng::new(seed);
            let model = ModelBuilder::points(POINTS, LABELS)
                .unary((0..POINTS * LABELS).map(|_| r.next_f64() as f32).collect())
                .features((0..POINTS).map(|a| 0.3 * a as f32).collect(), 1, strength)
                .compatibility(model().compatibility().clone())
                .filter(FilterKind::Exact)
                .build()
                .unwrap();
            let mut context = Context::new(&model, &settings, Instant::now());
            let beliefs = Beliefs::from_energies(model.unary(), LABELS);
            let (x, energy) = start(&mut context, &beliefs);
            let of = |x: &Labeling| energy::of_labeling(&model, x).unwrap().total();
            assert!((of(&x) - energy).abs() < 1e-5, "{} {energy}", of(&x));
            assert!(energy <= of(&beliefs.argmax()) + 1e-6);
            assert!(energy::of_constants(&model).iter().all(|&e| energy <= e + 1e-6));
        }
    }
}
