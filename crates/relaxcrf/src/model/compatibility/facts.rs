//! What is true of given label costs, for messages that refuse them.

use super::Compatibility;

impl Compatibility {
    /// Labels i, j, k of which the costs break the triangle inequality most, `μ(i, k) > μ(i, j) + μ(j, k)`; `None` for a metric.
    pub fn broken_triangle(&self) -> Option<[usize; 3]> {
        // Costs on a line that grow ever slower are metrics.
        if !matches!(self.kind(), super::Kind::Matrix(_) | super::Kind::Quadratic { .. }) {
            return None;
        }
        let labels = self.labels();
        let mut worst = (1e-6 * self.largest_cost(), None);
        for i in 0..labels {
            for k in 0..i {
                for j in (0..labels).filter(|&j| j != i && j != k) {
                    let excess = self.cost(i, k) - self.cost(i, j) - self.cost(j, k);
                    if excess > worst.0 {
                        worst = (excess, Some([i, j, k]));
                    }
                }
            }
        }
        worst.1
    }

    /// The pair of labels with the lowest cost, if that is negative.
    pub fn most_negative(&self) -> Option<(usize, usize)> {
        if self.is_non_negative() {
            return None;
        }
        let pairs = (0..self.labels()).flat_map(|i| (0..=i).map(move |j| (j, i)));
        pairs.min_by(|a, b| self.cost(a.0, a.1).total_cmp(&self.cost(b.0, b.1)))
    }

    /// Why the costs are not conditionally negative, in numbers; empty if they are.
    pub(crate) fn why_not_negative(&self) -> String {
        if self.is_conditionally_negative() {
            return String::new();
        }
        let mut why = format!(
            "the label costs are not conditionally negative: over directions that sum to zero their largest eigenvalue is \
             {:.3}, expected 0 or less",
            self.convexity()
        );
        if let Some((i, j)) = self.most_negative() {
            why += &format!("; labels {i} and {j} cost {}", self.cost(i, j));
        } else if let Some([i, j, k]) = self.broken_triangle() {
            why += &format!(
                "; labels {i} and {k} cost {}, more than the {} by way of label {j}",
                self.cost(i, k),
                self.cost(i, j) + self.cost(j, k)
            );
        }
        why
    }
}
