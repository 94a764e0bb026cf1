//! The lattice applied from a few points to a few others, at a cost that follows their number.
//!
//! Divide and conquer (the LP's ordered filter of the paper) filters ever smaller halves into each other.
//! Only vertices that the sources can reach are visited: the set grows along each axis by the neighbours
//! that exist, so the result is that of the whole operator, not of a lattice with holes.

use super::chains::MISSING;
use super::{Blur, Lattice};
use crate::filter::Scaling;

/// Values on the vertices reached so far. All zero between uses.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// Whether a vertex is in `list`.
    reached: Vec<bool>,
    list: Vec<u32>,
    now: Vec<f32>,
    next: Vec<f32>,
}

impl Reach {
    fn grow(&mut self, vertices: usize) {
        if self.reached.len() < vertices {
            self.reached.resize(vertices, false);
            self.now.resize(vertices, 0.0);
            self.next.resize(vertices, 0.0);
        }
    }

    fn add(&mut self, vertex: u32, value: f32) {
        let v = vertex as usize;
        if !self.reached[v] {
            self.reached[v] = true;
            self.list.push(vertex);
        }
        self.next[v] += value;
    }

    /// Makes `next` current.
    fn turn(&mut self) {
        for &v in &self.list {
            self.now[v as usize] = std::mem::take(&mut self.next[v as usize]);
        }
    }
}

impl Lattice {
    /// Whether visiting reachable vertices only is likely to be cheaper than a pass over all of them.
    pub(super) fn is_small(&self, sources: usize) -> bool {
        // Along each axis a reached set grows about twofold before it meets itself.
        sources * (self.dims + 1) * (self.dims + 1) < self.vertices
    }

    /// `out_a += gain · left_a · Σ_{b in sources} K_ab right_b` for the targets.
    pub(super) fn between(
        &self,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        reach: &mut Reach,
    ) {
        let axes = 0..=self.dims;
        let share = |share: f32| Scaling { gain: scaling.gain * share * self.alpha(), ..scaling };
        match self.blur {
            Blur::Classic => self.pass(axes, sources, targets, share(1.0), out, reach),
            Blur::Symmetric => {
                self.pass(axes.clone(), sources, targets, share(0.5), out, reach);
                self.pass(axes.rev(), sources, targets, share(0.5), out, reach);
            }
        }
    }

    fn pass(
        &self,
        axes: impl Iterator<Item = usize>,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        reach: &mut Reach,
    ) {
        let m = self.dims + 1;
        let corners = |a: u32| {
            let range = a as usize * m..(a as usize + 1) * m;
            self.ids[range.clone()].iter().zip(&self.weights[range])
        };
        reach.grow(self.vertices);
        for &b in sources {
            for (&id, &w) in corners(b) {
                reach.add(id, w * scaling.input(b as usize));
            }
        }
        reach.turn();
        for axis in axes {
            let (forward, backward) = (&self.axes[axis].next, &self.previous()[axis]);
            for k in 0..reach.list.len() {
                let v = reach.list[k];
                let value = reach.now[v as usize];
                reach.add(v, value);
                for neighbour in [forward[v as usize], backward[v as usize]] {
                    if neighbour != MISSING {
                        reach.add(neighbour, 0.5 * value);
                    }
                }
            }
            reach.turn();
        }
        for &a in targets {
            let sum: f32 = corners(a).map(|(&id, &w)| w * reach.now[id as usize]).sum();
            out[a as usize] += scaling.out(a as usize) * sum;
        }
        for v in reach.list.drain(..) {
            reach.reached[v as usize] = false;
            reach.now[v as usize] = 0.0;
        }
    }

    /// Every vertex's predecessor along every axis.
    fn previous(&self) -> &[Vec<u32>] {
        self.previous.get_or_init(|| {
            let invert = |next: &[u32]| {
                let mut previous = vec![MISSING; next.len()];
                for (v, &n) in next.iter().enumerate() {
                    if n != MISSING {
                        previous[n as usize] = v as u32;
                    }
                }
                previous
            };
            self.axes.iter().map(|axis| invert(&axis.next)).collect()
        })
    }
}
