//! The lattice applied from a few points to a few others, at a cost that follows their number.
//!
//! Divide and conquer (the LP's ordered filter of the paper) filters ever smaller halves into each other.
//! Only vertices that the sources can reach are visited: the set grows along each axis by the neighbours
//! that exist, so the result is that of the whole operator, not of a lattice with holes.

use super::super::build::MISSING;
use super::super::{Blur, Lattice};
use crate::operator::Scaling;

/// What single vertices need to know, by row of the vertex table.
#[derive(Debug)]
pub(in crate::lattice) struct Neighbours {
    /// The row that owns each row: itself, or the vertex that it is a copy of.
    owner: Vec<u32>,
    /// Successor and predecessor along each axis, or [`MISSING`].
    next: Vec<Vec<u32>>,
    previous: Vec<Vec<u32>>,
}

/// Values on the vertices reached so far. All zero between uses.
#[derive(Debug, Default)]
pub(crate) struct LocalValues {
    /// Whether a vertex is in `list`.
    reached: Vec<bool>,
    list: Vec<u32>,
    now: Vec<f32>,
    next: Vec<f32>,
}

impl LocalValues {
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
    pub(in crate::lattice) fn is_small(&self, sources: usize) -> bool {
        // Along each axis a reached set grows about twofold before it meets itself.
        sources * (self.dims + 1) * (self.dims + 1) < self.vertices
    }

    /// `out_a += gain · left_a · Σ_{b in sources} K_ab right_b` for the targets.
    pub(in crate::lattice) fn between(
        &self,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        local: &mut LocalValues,
    ) {
        let axes = 0..=self.dims;
        let fraction = |fraction: f32| Scaling { gain: scaling.gain * fraction * self.alpha(), ..scaling };
        match self.blur {
            Blur::Classic => self.pass(axes, sources, targets, fraction(1.0), out, local),
            Blur::Symmetric => {
                self.pass(axes.clone(), sources, targets, fraction(0.5), out, local);
                self.pass(axes.rev(), sources, targets, fraction(0.5), out, local);
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
        local: &mut LocalValues,
    ) {
        let m = self.dims + 1;
        let neighbours = self.neighbours();
        let corners = |a: u32| {
            let (simplex, start) = self.simplex(a);
            let own = move |&id: &u32| neighbours.owner[start + id as usize];
            simplex.iter().map(own).zip(&self.weights[a as usize * m..][..m])
        };
        local.grow(self.rows);
        for &b in sources {
            for (id, &w) in corners(b) {
                local.add(id, w * scaling.input(b as usize));
            }
        }
        local.turn();
        for axis in axes {
            let (forward, backward) = (&neighbours.next[axis], &neighbours.previous[axis]);
            for k in 0..local.list.len() {
                let v = local.list[k];
                let value = local.now[v as usize];
                local.add(v, value);
                for neighbour in [forward[v as usize], backward[v as usize]] {
                    if neighbour != MISSING {
                        local.add(neighbour, 0.5 * value);
                    }
                }
            }
            local.turn();
        }
        for &a in targets {
            let sum: f32 = corners(a).map(|(id, &w)| w * local.now[id as usize]).sum();
            out[a as usize] += scaling.out(a as usize) * sum;
        }
        for v in local.list.drain(..) {
            local.reached[v as usize] = false;
            local.now[v as usize] = 0.0;
        }
    }

    fn neighbours(&self) -> &Neighbours {
        self.neighbours.get_or_init(|| {
            let owner = self.owners();
            let missing = || vec![vec![MISSING; self.rows]; self.axes.len()];
            let (mut next, mut previous) = (missing(), missing());
            for ((axis, next), previous) in self.axes.iter().zip(&mut next).zip(&mut previous) {
                for run in axis.starts.windows(2) {
                    for pair in axis.order[run[0] as usize..run[1] as usize].windows(2) {
                        next[pair[0] as usize] = pair[1];
                        previous[pair[1] as usize] = pair[0];
                    }
                }
            }
            Neighbours { owner, next, previous }
        })
    }
}
