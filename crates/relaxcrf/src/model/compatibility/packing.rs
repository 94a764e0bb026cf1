//! The largest sum of cuts that stays below given label costs: a packing problem over sets of labels.
//!
//! `max Σ_T w_T Σ_ij p_ij [T separates i, j]` with `w >= 0` and `Σ_T w_T [T separates i, j] <= μ(i, j)` for every pair. Any
//! feasible w gives a valid lower bound of the energy through the LP over its cuts, so it may be solved approximately.
//! Costs on a line have a closed form. Others of few labels are solved by the simplex method with cuts generated on the way:
//! a set that improves the sum most is a maximum cut for the weights `p - λ` (λ the pairs' prices), found by local search.
//! Many labels are merged greedily into groups.

use std::collections::HashMap;

/// Labels up to which the simplex method is used.
const MAX_SIMPLEX_LABELS: usize = 26;

/// Most pivots of the simplex method per pair of labels.
const PIVOTS_PER_PAIR: usize = 6;

/// Starts of a local search: those of highest value among the sets that are looked at first.
const SEARCH_STARTS: usize = 6;

/// Reduced costs below this fraction of the largest benefit count as none.
const OPTIMAL: f64 = 1e-9;

/// Most sets for each label: those of largest weight. The LP takes time for every one.
const MAX_CUTS_PER_LABEL: usize = 4;

/// Weights are lowered by this fraction so that rounding cannot lift a sum above its cost.
const ROUNDING: f64 = 1e-6;

/// Sets of labels with weights whose cuts add up to at most `costs`, row-major, symmetric, not negative.
///
/// Every pair counts by how much of its cost is covered.
pub(super) fn largest_cuts_below(labels: usize, costs: &[f64]) -> Vec<(Vec<bool>, f64)> {
    let (groups, count) = free_groups(labels, costs);
    if count < 2 {
        return Vec::new();
    }
    // Labels that may be exchanged for nothing cannot be separated: their groups take the least cost of their members.
    let mut limits = vec![f64::INFINITY; count * count];
    for (k, &cost) in costs.iter().enumerate() {
        let (g, h) = (groups[k / labels], groups[k % labels]);
        limits[g * count + h] = limits[g * count + h].min(cost);
    }
    let problem = Problem { count, limits };
    let sets = if let Some(sets) = problem.on_a_line() {
        sets
    } else if count <= MAX_SIMPLEX_LABELS {
        problem.by_simplex()
    } else {
        problem.by_merging()
    };
    let widen = |set: Vec<bool>| groups.iter().map(|&g| set[g]).collect();
    problem.below_limits(sets).into_iter().map(|(set, weight)| (widen(set), weight)).collect()
}

/// Which labels are connected by pairs that cost nothing, as numbers of groups, and how many groups there are.
fn free_groups(labels: usize, costs: &[f64]) -> (Vec<usize>, usize) {
    let nothing = 1e-9 * costs.iter().fold(0.0f64, |m, &c| m.max(c));
    let mut groups = vec![usize::MAX; labels];
    let mut count = 0;
    for first in 0..labels {
        if groups[first] != usize::MAX {
            continue;
        }
        let mut open = vec![first];
        groups[first] = count;
        while let Some(i) = open.pop() {
            for j in (0..labels).filter(|&j| costs[i * labels + j] <= nothing) {
                if groups[j] == usize::MAX {
                    groups[j] = count;
                    open.push(j);
                }
            }
        }
        count += 1;
    }
    (groups, count)
}

/// Sets and the weight of each.
type Weighted = HashMap<Vec<bool>, f64>;

struct Problem {
    count: usize,
    /// Costs of all pairs, above 0 off the diagonal.
    limits: Vec<f64>,
}

impl Problem {
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let count = self.count;
        (0..count).flat_map(move |i| (0..i).map(move |j| (i, j)))
    }

    fn limit(&self, (i, j): (usize, usize)) -> f64 {
        self.limits[i * self.count + j]
    }

    /// Costs `g(|i - j|)` whose largest metric below is `Σ_t w_t min(|i - j|, t)` with `w >= 0`: concave in the distance. Its
    /// truncated lines are sums over windows of t labels.
    fn on_a_line(&self) -> Option<Weighted> {
        let mut cost: Vec<f64> = (0..self.count).map(|d| if d == 0 { 0.0 } else { self.limits[d] }).collect();
        let longest = self.count - 1;
        let size = cost.iter().fold(0.0f64, |m, &c| m.max(c));
        let is_line = |(i, j): (usize, usize)| (self.limit((i, j)) - cost[i - j]).abs() <= 1e-6 * size;
        if !self.pairs().all(is_line) {
            return None;
        }
        // No metric costs more than two steps on the way, and a sum of truncated lines never falls.
        for d in 2..=longest {
            cost[d] = (1..d).map(|k| cost[k] + cost[d - k]).fold(cost[d], f64::min);
        }
        for d in (1..longest).rev() {
            cost[d] = cost[d].min(cost[d + 1]);
        }
        let mut sets = Weighted::new();
        for t in 1..=longest {
            let next = cost.get(t + 1).copied().unwrap_or(cost[t]);
            let weight = 2.0 * cost[t] - cost[t - 1] - next;
            if weight < -1e-6 * size {
                return None;
            }
            for end in 1..self.count + t {
                let window: Vec<bool> = (0..self.count).map(|i| i < end && i + t >= end).collect();
                if weight > 1e-9 * size {
                    *sets.entry(window).or_insert(0.0) += 0.5 * weight;
                }
            }
        }
        Some(sets)
    }

    /// The sets that are looked at first: single labels, and intervals.
    fn first_sets(&self) -> Vec<Vec<bool>> {
        let interval = |from: usize, to: usize| (0..self.count).map(|i| (from..to).contains(&i)).collect();
        (1..self.count)
            .flat_map(|length| (0..=self.count - length).map(move |from| (from, from + length)))
            .map(|(from, to)| interval(from, to))
            .collect()
    }

    /// A set with a large sum of `weights` (symmetric, of any sign) over the pairs that it separates, and that sum.
    fn large_cut(&self, weights: &[f64], starts: &[Vec<bool>]) -> (Vec<bool>, f64) {
        let value = |set: &[bool]| {
            let apart = |&(i, j): &(usize, usize)| set[i] != set[j];
            self.pairs().filter(apart).map(|(i, j)| weights[i * self.count + j]).sum::<f64>()
        };
        let mut best: Vec<(f64, &Vec<bool>)> = starts.iter().map(|set| (value(set), set)).collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0));
        best.truncate(SEARCH_STARTS);
        let improved = best.into_iter().map(|(value, set)| self.improve(set.clone(), value, weights));
        improved.reduce(|a, b| if b.1 > a.1 { b } else { a }).unwrap_or((vec![false; self.count], 0.0))
    }

    /// Moves single labels to the other side while that raises the sum.
    fn improve(&self, mut set: Vec<bool>, mut value: f64, weights: &[f64]) -> (Vec<bool>, f64) {
        let row = |i: usize| &weights[i * self.count..][..self.count];
        let gain = |set: &[bool], i: usize| -> f64 {
            let others = row(i).iter().enumerate().filter(|&(j, _)| j != i);
            others.map(|(j, &w)| if set[i] == set[j] { w } else { -w }).sum()
        };
        let mut gains: Vec<f64> = (0..self.count).map(|i| gain(&set, i)).collect();
        for _ in 0..2 * self.count {
            let Some(i) = (0..self.count).max_by(|&i, &j| gains[i].total_cmp(&gains[j])) else { break };
            if gains[i] <= 1e-12 * value.abs() {
                break;
            }
            value += gains[i];
            set[i] = !set[i];
            gains[i] = -gains[i];
            for j in (0..self.count).filter(|&j| j != i) {
                gains[j] += if set[i] == set[j] { 2.0 * row(i)[j] } else { -2.0 * row(i)[j] };
            }
        }
        (set, value)
    }

    /// The simplex method on the packing problem, from no cut at all.
    fn by_simplex(&self) -> Weighted {
        let pairs: Vec<(usize, usize)> = self.pairs().collect();
        let rows = pairs.len();
        let benefit: Vec<f64> = pairs.iter().map(|&p| 1.0 / self.limit(p)).collect();
        let tolerance = OPTIMAL * benefit.iter().fold(0.0f64, |m, &b| m.max(b));
        let mut values: Vec<f64> = pairs.iter().map(|&p| self.limit(p)).collect();
        // What is in the basis: a set, or the slack of a pair.
        let mut basis: Vec<Option<Vec<bool>>> = vec![None; rows];
        let mut inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|r| inverse[r * rows + r] = 1.0);
        let mut prices = vec![0.0f64; rows];
        let starts = self.first_sets();
        let mut weights = vec![0.0; self.count * self.count];
        for _ in 0..PIVOTS_PER_PAIR * rows {
            // --- what enters the basis ---
            for (k, &(i, j)) in pairs.iter().enumerate() {
                weights[i * self.count + j] = benefit[k] - prices[k];
                weights[j * self.count + i] = benefit[k] - prices[k];
            }
            let (set, gain) = self.large_cut(&weights, &starts);
            let slack = (0..rows).min_by(|&a, &b| prices[a].total_cmp(&prices[b])).unwrap_or(0);
            let (entering, column, gain) = if gain >= -prices[slack] {
                let column = pairs.iter().map(|&(i, j)| f64::from(u8::from(set[i] != set[j]))).collect();
                (Some(set), column, gain)
            } else {
                let column: Vec<f64> = (0..rows).map(|r| f64::from(u8::from(r == slack))).collect();
                (None, column, -prices[slack])
            };
            if gain <= tolerance {
                break;
            }
            // --- what leaves it ---
            let used: Vec<usize> = (0..rows).filter(|&r| column[r] != 0.0).collect();
            let direction: Vec<f64> = inverse
                .chunks_exact(rows)
                .map(|row| used.iter().map(|&r| row[r] * column[r]).sum())
                .collect();
            let ratio = |r: usize| values[r].max(0.0) / direction[r];
            let leaving = (0..rows)
                .filter(|&r| direction[r] > 1e-9)
                .min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)).then(direction[b].total_cmp(&direction[a])));
            let Some(leaving) = leaving else { break };
            // --- the exchange ---
            let step = ratio(leaving);
            let pivot_row: Vec<f64> =
                inverse[leaving * rows..][..rows].iter().map(|v| v / direction[leaving]).collect();
            for r in (0..rows).filter(|&r| r != leaving && direction[r] != 0.0) {
                values[r] -= direction[r] * step;
                let row = inverse[r * rows..][..rows].iter_mut();
                row.zip(&pivot_row).for_each(|(v, p)| *v -= direction[r] * p);
            }
            values[leaving] = step;
            inverse[leaving * rows..][..rows].copy_from_slice(&pivot_row);
            prices.iter_mut().zip(&pivot_row).for_each(|(price, p)| *price += gain * p);
            basis[leaving] = entering;
        }
        let weighted = basis.into_iter().zip(values).filter_map(|(set, value)| Some((set?, value)));
        weighted.filter(|(_, value)| *value > 0.0).collect()
    }

    /// Cuts around single labels as large as they can be; then the same with the groups of labels that are left with no cost
    /// between them in place of labels, until there is one group.
    fn by_merging(&self) -> Weighted {
        let mut sets = Weighted::new();
        let mut left = self.limits.clone();
        (0..self.count).for_each(|i| left[i * self.count + i] = 0.0);
        loop {
            let (groups, count) = free_groups(self.count, &left);
            if count < 2 {
                return sets;
            }
            let mut limits = vec![f64::INFINITY; count * count];
            for (k, &cost) in left.iter().enumerate() {
                let at = groups[k / self.count] * count + groups[k % self.count];
                limits[at] = limits[at].min(cost);
            }
            let row = |g: usize| (0..count).filter(move |&h| h != g).map(move |h| (h, g * count + h));
            // Half of the least cost for every group first: no pair is overdrawn. Then whatever room is left.
            let half = |g: usize| 0.5 * row(g).map(|(_, at)| limits[at]).fold(f64::INFINITY, f64::min);
            let mut weights: Vec<f64> = (0..count).map(half).collect();
            for g in 0..count {
                weights[g] = row(g).map(|(h, at)| limits[at] - weights[h]).fold(f64::INFINITY, f64::min);
            }
            for (k, cost) in left.iter_mut().enumerate() {
                let (g, h) = (groups[k / self.count], groups[k % self.count]);
                *cost = if g == h { 0.0 } else { (*cost - weights[g] - weights[h]).max(0.0) };
            }
            for (g, weight) in weights.into_iter().enumerate() {
                *sets.entry(groups.iter().map(|&of| of == g).collect()).or_insert(0.0) += weight;
            }
        }
    }

    /// The sets with weights scaled down to stay below all limits, then raised one by one where there is room.
    fn below_limits(&self, sets: Weighted) -> Vec<(Vec<bool>, f64)> {
        let mut sets: Vec<(Vec<bool>, f64)> = sets.into_iter().collect();
        // The order of a hash map is another in every run.
        sets.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut loads = vec![0.0; self.count * self.count];
        let add = |loads: &mut [f64], set: &[bool], weight: f64| {
            for (i, j) in self.pairs().filter(|&(i, j)| set[i] != set[j]) {
                loads[i * self.count + j] += weight;
            }
        };
        sets.iter().for_each(|(set, weight)| add(&mut loads, set, *weight));
        let worst =
            self.pairs().map(|p| loads[p.0 * self.count + p.1] / self.limit(p)).fold(1.0f64, f64::max);
        sets.iter_mut().for_each(|(_, weight)| *weight /= worst);
        loads.iter_mut().for_each(|load| *load /= worst);
        for (set, weight) in &mut sets {
            let room = self
                .pairs()
                .filter(|&(i, j)| set[i] != set[j])
                .map(|p| self.limit(p) - loads[p.0 * self.count + p.1])
                .fold(f64::INFINITY, f64::min);
            if room > 0.0 && room.is_finite() {
                *weight += room;
                add(&mut loads, set, room);
            }
        }
        sets.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sets.truncate(MAX_CUTS_PER_LABEL * self.count.max(2));
        let least = 1e-7 * sets.iter().fold(0.0f64, |m, s| m.max(s.1));
        sets.retain(|s| s.1 > least);
        sets.iter_mut().for_each(|(_, weight)| *weight *= 1.0 - ROUNDING);
        sets
    }
}
