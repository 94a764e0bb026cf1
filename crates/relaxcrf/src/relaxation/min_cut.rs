//! The minimum cut of a small, completely connected graph: the last few pixels of a two-label problem.

/// Two-label energy `Σ_a θ_a x_a + Σ_{a<b} w_ab [x_a ≠ x_b]` with `w` a dense symmetric matrix of numbers >= 0.
pub(crate) struct Dense {
    pub nodes: usize,
    pub theta: Vec<f64>,
    pub weights: Vec<f64>,
}

impl Dense {
    /// The labels of a minimum: the side of the source is 0. By Dinic's algorithm on the matrix of what
    /// the pairs can still carry.
    pub fn minimize(mut self) -> Vec<u16> {
        let n = self.nodes;
        let (mut from_source, mut to_sink): (Vec<f64>, Vec<f64>) =
            self.theta.iter().map(|&t| (t.max(0.0), (-t).max(0.0))).unzip();
        let largest = self.weights.iter().chain(&from_source).chain(&to_sink).fold(0.0f64, |m, &w| m.max(w));
        // Less than this is what rounding left of a full pipe.
        let nothing = 1e-12 * largest;
        loop {
            let level = self.levels(&from_source, nothing);
            let mut reached = false;
            let mut next = vec![0usize; n];
            for start in 0..n {
                while level[start] == 1 && from_source[start] > nothing {
                    let sent = self.send(start, from_source[start], &level, &mut next, &mut to_sink, nothing);
                    if sent <= nothing {
                        break;
                    }
                    from_source[start] -= sent;
                    reached = true;
                }
            }
            if !reached {
                return level.iter().map(|&l| u16::from(l == 0)).collect();
            }
        }
    }

    /// Steps from the source, which is one from the nodes it can still feed; 0 for nodes out of reach.
    fn levels(&self, from_source: &[f64], nothing: f64) -> Vec<u32> {
        let n = self.nodes;
        let mut level: Vec<u32> = from_source.iter().map(|&c| u32::from(c > nothing)).collect();
        let mut queue: Vec<usize> = (0..n).filter(|&a| level[a] == 1).collect();
        let mut head = 0;
        while head < queue.len() {
            let a = queue[head];
            head += 1;
            for b in 0..n {
                if level[b] == 0 && self.weights[a * n + b] > nothing {
                    level[b] = level[a] + 1;
                    queue.push(b);
                }
            }
        }
        level
    }

    /// Sends up to `amount` from node `start` to the sink along rising levels; how much arrived. One path at
    /// a time, without recursion: paths can be long.
    fn send(
        &mut self,
        start: usize,
        amount: f64,
        level: &[u32],
        next: &mut [usize],
        to_sink: &mut [f64],
        nothing: f64,
    ) -> f64 {
        let n = self.nodes;
        let mut path = vec![start];
        while let Some(&a) = path.last() {
            if to_sink[a] > nothing {
                let narrowest = path
                    .windows(2)
                    .map(|p| self.weights[p[0] * n + p[1]])
                    .fold(amount, f64::min)
                    .min(to_sink[a]);
                for p in path.windows(2) {
                    self.weights[p[0] * n + p[1]] -= narrowest;
                    self.weights[p[1] * n + p[0]] += narrowest;
                }
                to_sink[a] -= narrowest;
                return narrowest;
            }
            let onward =
                (next[a]..n).find(|&b| level[b] == level[a] + 1 && self.weights[a * n + b] > nothing);
            next[a] = onward.unwrap_or(n);
            match onward {
                Some(b) => path.push(b),
                None => {
                    path.pop();
                    if let Some(&before) = path.last() {
                        next[before] += 1;
                    }
                }
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relaxcrf_filter::rng::Rng;

    fn energy(theta: &[f64], weights: &[f64], x: &[u16]) -> f64 {
        let n = theta.len();
        let pairs = (0..n).flat_map(|a| (0..a).map(move |b| (a, b)));
        theta.iter().zip(x).map(|(t, &x)| t * f64::from(x)).sum::<f64>()
            + pairs.filter(|&(a, b)| x[a] != x[b]).map(|(a, b)| weights[a * n + b]).sum::<f64>()
    }

    #[test]
    fn cuts_are_minimal() {
        let mut rng = Rng::new(5);
        for trial in 0..200 {
            let n = 1 + rng.below(11);
            let theta: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
            let mut weights = vec![0.0; n * n];
            for a in 0..n {
                for b in 0..a {
                    let w = if rng.next_f64() < 0.7 { 0.6 * rng.next_f64() } else { 0.0 };
                    (weights[a * n + b], weights[b * n + a]) = (w, w);
                }
            }
            let all = (0..1u32 << n).map(|code| (0..n).map(|a| (code >> a & 1) as u16).collect::<Vec<_>>());
            let best = all.map(|x| energy(&theta, &weights, &x)).fold(f64::INFINITY, f64::min);
            // In any unit.
            for unit in [1.0, 1e-14, 1e14] {
                let [theta_here, weights_here] =
                    [&theta, &weights].map(|v| v.iter().map(|x| x * unit).collect());
                let found = Dense { nodes: n, theta: theta_here, weights: weights_here }.minimize();
                let value = energy(&theta, &weights, &found);
                assert!((value - best).abs() < 1e-9, "trial {trial} in {unit}: {value} instead of {best}");
            }
        }
    }

    #[test]
    fn an_empty_graph_has_no_labels() {
        assert!(Dense { nodes: 0, theta: vec![], weights: vec![] }.minimize().is_empty());
    }
}
