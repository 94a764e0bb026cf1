//! Trees over the labels that stand in for a metric: hierarchically separated trees, sampled.
//!
//! A tree's distances are sums of cuts (one per node: the leaves below it against the rest), which is what
//! the LP can handle. Sampling follows Fakcharoenphol, Rao and Talwar: with a random order of the labels
//! and a random scale, every cluster is split by the first label within a radius that halves from level to
//! level. For a metric on L labels the expected distance in the tree is within O(log L) of the true one.
//!
//! The published edges (doubling from level to level) are loose for few labels. Only the clusters are taken
//! from the sample; each edge is then as short as it can be with no distance below the true cost: a node is
//! as high as the largest cost among its leaves. This also needs no triangle inequality.

use crate::model::{Compatibility, Cut};
use relaxcrf_filter::rng::Rng;

/// A rooted tree whose leaves are the labels. Distances between leaves are sums of edge lengths.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelTree {
    labels: usize,
    /// The root is the first; parents come before their children.
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// Labels below this node, rising.
    leaves: Vec<usize>,
    children: Vec<usize>,
    /// Half the largest cost between two leaves; the edge to a child is as long as the drop in height.
    height: f32,
    /// Length of the edge to the parent; 0 at the root.
    edge: f32,
}

impl LabelTree {
    /// A random tree that dominates the costs: `distance(i, j) >= μ(i, j)`.
    ///
    /// The costs should not be negative, and equal labels should cost nothing.
    pub fn sample(costs: &Compatibility, rng: &mut Rng) -> Self {
        let labels = costs.labels();
        let cost = |i: usize, j: usize| f64::from(costs.cost(i, j));
        let pairs = || (0..labels).flat_map(|i| (0..i).map(move |j| (i, j)));
        let largest = pairs().map(|(i, j)| cost(i, j)).fold(0.0, f64::max);
        // Labels at no distance from each other are clusters of their own like all others.
        let smallest = pairs().map(|(i, j)| cost(i, j)).filter(|&c| c > 0.0).fold(largest, f64::min);

        let mut order: Vec<usize> = (0..labels).collect();
        rng.shuffle(&mut order);
        let mut radius = 0.5 * largest * 2f64.powf(rng.next_f64());
        let mut levels = Vec::new();
        let mut clusters: Vec<Vec<usize>> = vec![(0..labels).collect()];
        while clusters.len() < labels && radius > 0.0 && radius >= 0.5 * smallest {
            clusters = clusters.iter().flat_map(|c| split(c, &order, radius, &cost)).collect();
            levels.push(clusters.clone());
            radius *= 0.5;
        }
        Self::tightest(labels, &|i, j| costs.cost(i, j), levels)
    }

    /// The tree of nested neighbourhoods: two labels part at the smallest r at which no chain of labels leads
    /// from one to the other in steps of cost r or less. If any tree with equal depths gives the costs, this
    /// is it.
    pub fn nested(costs: &Compatibility) -> Self {
        let labels = costs.labels();
        let mut pairs: Vec<(f32, usize, usize)> = (0..labels)
            .flat_map(|i| (0..i).map(move |j| (i, j)))
            .map(|(i, j)| (costs.cost(i, j), i, j))
            .collect();
        pairs.sort_by(|p, q| p.0.total_cmp(&q.0));
        let mut group: Vec<usize> = (0..labels).collect();
        let mut members: Vec<Vec<usize>> = (0..labels).map(|i| vec![i]).collect();
        let mut levels = Vec::new();
        let mut reached = None;
        for (cost, i, j) in pairs {
            if group[i] == group[j] {
                continue;
            }
            // All steps of one cost belong to one level.
            if reached.is_some_and(|r| r < cost) {
                levels.push(members.iter().filter(|m| !m.is_empty()).cloned().collect());
            }
            reached = Some(cost);
            let (from, to) = (group[j], group[i]);
            let moved = std::mem::take(&mut members[from]);
            moved.iter().for_each(|&k| group[k] = to);
            members[to].extend(moved);
        }
        levels.reverse();
        Self::tightest(labels, &|i, j| costs.cost(i, j), levels)
    }

    /// The tree of a hierarchy, coarse levels first, with the shortest edges that keep every distance at or
    /// above the cost. Each level refines the one before; single labels need no level of their own.
    pub(crate) fn tightest(
        labels: usize,
        cost: &dyn Fn(usize, usize) -> f32,
        levels: Vec<Vec<Vec<usize>>>,
    ) -> Self {
        let mut tree = Self { labels, nodes: Vec::new() };
        tree.add((0..labels).collect(), None, cost);
        // The lowest node so far above each label.
        let mut above = vec![0; labels];
        let singles = (0..labels).map(|i| vec![i]).collect();
        for cluster in levels.into_iter().chain([singles]).flatten() {
            let Some(&first) = cluster.first() else { continue };
            let parent = above[first];
            let whole = tree.nodes[parent].leaves.len();
            if cluster.len() < whole {
                // A cluster as wide as its parent would get an edge of length 0: its parts go to the parent.
                if let Some(node) = tree.add(cluster.clone(), Some(parent), cost) {
                    cluster.iter().for_each(|&i| above[i] = node);
                }
            }
        }
        tree
    }

    /// Adds a node, unless it would be inside the tree with an edge of length 0.
    fn add(
        &mut self,
        mut leaves: Vec<usize>,
        parent: Option<usize>,
        cost: &dyn Fn(usize, usize) -> f32,
    ) -> Option<usize> {
        leaves.sort_unstable();
        let pairs =
            leaves.iter().flat_map(|&i| leaves.iter().take_while(move |&&j| j < i).map(move |&j| (j, i)));
        let height = 0.5 * pairs.fold(0.0f32, |m, (j, i)| m.max(cost(j, i)));
        let edge = parent.map_or(0.0, |p| self.nodes[p].height - height);
        if parent.is_some() && edge <= 0.0 && leaves.len() > 1 {
            return None;
        }
        let node = self.nodes.len();
        self.nodes.push(Node { leaves, children: Vec::new(), height, edge });
        if let Some(p) = parent {
            self.nodes[p].children.push(node);
        }
        Some(node)
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The root's number.
    pub fn root(&self) -> usize {
        0
    }

    /// The nodes right below one.
    pub fn children(&self, node: usize) -> &[usize] {
        &self.nodes[node].children
    }

    /// The labels below a node, rising.
    pub fn leaves(&self, node: usize) -> &[usize] {
        &self.nodes[node].leaves
    }

    /// Length of the path between two leaves.
    pub fn distance(&self, i: usize, j: usize) -> f32 {
        if i == j {
            return 0.0;
        }
        // Both paths to the lowest common node are as long as it is high.
        let mut node = 0;
        let holds = |n: usize, i: usize| self.nodes[n].leaves.binary_search(&i).is_ok();
        while let Some(&next) = self.nodes[node].children.iter().find(|&&c| holds(c, i) && holds(c, j)) {
            node = next;
        }
        2.0 * self.nodes[node].height
    }

    /// One cut per edge, as heavy as the edge is long: their sum is the distance in the tree.
    pub fn cuts(&self) -> Vec<Cut> {
        let cut = |node: &Node| {
            let mut inside = vec![false; self.labels];
            node.leaves.iter().for_each(|&i| inside[i] = true);
            Cut { inside, weight: node.edge }
        };
        self.nodes.iter().filter(|n| n.edge > 0.0).map(cut).collect()
    }

    /// Whether the tree's distances are the costs themselves, up to rounding.
    pub fn equals(&self, costs: &Compatibility) -> bool {
        let tiny = 1e-6 * costs.largest_cost();
        let mut pairs = (0..self.labels).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.all(|(i, j)| (self.distance(i, j) - costs.cost(i, j)).abs() <= tiny)
    }
}

/// The parts of a cluster: each label goes to the first label of the order within the radius.
fn split(
    cluster: &[usize],
    order: &[usize],
    radius: f64,
    cost: &impl Fn(usize, usize) -> f64,
) -> Vec<Vec<usize>> {
    let mut left = cluster.to_vec();
    let mut parts = Vec::new();
    for &centre in order {
        if left.is_empty() {
            break;
        }
        let (near, far) = left.into_iter().partition(|&i| i == centre || cost(i, centre) <= radius);
        left = far;
        if !Vec::is_empty(&near) {
            parts.push(near);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    // Named, since proptest brings a trait of that name.
    use proptest::prelude::*;
    use relaxcrf_filter::rng::Rng;

    fn path_metric(steps: &[f32]) -> Compatibility {
        let l = steps.len() + 1;
        let at = |i: usize| steps[..i].iter().sum::<f32>();
        let entries = (0..l * l).map(|k| (at(k / l) - at(k % l)).abs()).collect();
        Compatibility::matrix(l, entries).unwrap()
    }

    #[test]
    fn potts_is_a_star() {
        let potts =
            Compatibility::matrix(4, (0..16).map(|k| f32::from(u8::from(k % 5 != 0))).collect()).unwrap();
        for seed in 0..20 {
            let tree = LabelTree::sample(&potts, &mut Rng::new(seed));
            assert!(tree.equals(&potts));
            assert_eq!(tree.children(tree.root()).len(), 4);
            assert!(tree.cuts().iter().all(|c| c.weight == 0.5), "edges of 1/2");
        }
    }

    #[test]
    fn known_tree() {
        let tree = LabelTree::tightest(
            3,
            &|i, j| if (i, j) == (0, 1) { 2.0 } else { 3.0 },
            vec![vec![vec![0, 1], vec![2]]],
        );
        assert_eq!((tree.distance(0, 1), tree.distance(0, 2), tree.distance(1, 2)), (2.0, 3.0, 3.0));
        assert_eq!(tree.leaves(tree.children(0)[0]), [0, 1]);
    }

    #[test]
    fn nested_neighbourhoods_find_trees() {
        let seen = |entries: &[f32]| {
            let costs = Compatibility::matrix(4, entries.to_vec()).unwrap();
            LabelTree::nested(&costs).equals(&costs)
        };
        assert!(seen(&[0., 1., 4., 4., 1., 0., 4., 4., 4., 4., 0., 2., 4., 4., 2., 0.]), "((0 1) (2 3))");
        assert!(seen(&[0., 1., 1., 1., 1., 0., 1., 1., 1., 1., 0., 1., 1., 1., 1., 0.]), "a star");
        assert!(!seen(&[0., 1., 2., 3., 1., 0., 1., 2., 2., 1., 0., 1., 3., 2., 1., 0.]), "a line");
    }

    #[test]
    fn nothing_to_tell_apart_gives_no_cuts() {
        for labels in [1, 3] {
            let free = Compatibility::matrix(labels, vec![0.0; labels * labels]).unwrap();
            let tree = LabelTree::sample(&free, &mut Rng::new(0));
            assert!(tree.cuts().is_empty());
            assert_eq!(tree.leaves(tree.root()).len(), labels);
        }
    }

    /// On the line the distortion grows with the logarithm of the number of labels, not with the number.
    #[test]
    fn line_is_kept_on_average() {
        let line = path_metric(&[1.0; 15]);
        let draws = 400;
        let mut mean = 0.0;
        for seed in 0..draws {
            let tree = LabelTree::sample(&line, &mut Rng::stream(9, seed));
            mean += (0..15).map(|i| tree.distance(i, i + 1)).sum::<f32>() / 15.0 / draws as f32;
        }
        assert!((1.0..8.0).contains(&mean), "neighbours are {mean} apart on average");
    }

    proptest! {
        #[test]
        fn trees_dominate_any_costs(
            entries in prop::collection::vec(prop_oneof![Just(0.0f32), 1e-6f32..1e6, 1.0f32..2.0], 28),
            seed: u64,
        ) {
            // Any symmetric matrix with a zero diagonal, triangle inequality or not.
            let mut m = vec![0.0; 64];
            let mut next = entries.iter();
            for i in 0..8 {
                for j in 0..i {
                    let v = *next.next().unwrap();
                    (m[i * 8 + j], m[j * 8 + i]) = (v, v);
                }
            }
            let costs = Compatibility::matrix(8, m).unwrap();
            for tree in [LabelTree::sample(&costs, &mut Rng::new(seed)), LabelTree::nested(&costs)] {
                let cuts = tree.cuts();
                for (i, j) in (0..64).map(|k| (k / 8, k % 8)) {
                    let d = tree.distance(i, j);
                    prop_assert!(d >= costs.cost(i, j), "{i} {j}: {d}");
                    let sum: f64 = cuts
                        .iter()
                        .filter(|t| t.inside[i] != t.inside[j])
                        .map(|t| f64::from(t.weight))
                        .sum();
                    prop_assert!((sum - f64::from(d)).abs() <= 1e-5 * f64::from(d), "cuts add up: {sum}, {d}");
                }
            }
        }

        #[test]
        fn every_label_is_one_leaf(
            seed: u64,
            // Labels at no distance from each other are leaves of their own too.
            steps in prop::collection::vec(prop_oneof![Just(0.0f32), 0.1f32..5.0], 1..12),
        ) {
            let metric = path_metric(&steps);
            let tree = LabelTree::sample(&metric, &mut Rng::new(seed));
            let mut seen = vec![0; metric.labels()];
            let mut open = vec![tree.root()];
            while let Some(node) = open.pop() {
                if tree.children(node).is_empty() {
                    prop_assert_eq!(tree.leaves(node).len(), 1);
                    seen[tree.leaves(node)[0]] += 1;
                }
                let below: usize = tree.children(node).iter().map(|&c| tree.leaves(c).len()).sum();
                prop_assert!(tree.children(node).is_empty() || below == tree.leaves(node).len());
                open.extend(tree.children(node));
            }
            prop_assert!(seen.iter().all(|&s| s == 1), "{:?}", seen);
        }
    }
}
