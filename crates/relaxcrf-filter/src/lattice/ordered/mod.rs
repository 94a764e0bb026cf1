//! The lattice's sums by rank, by bin and by the softened order.

mod bins;
mod halves;
mod local;
mod softened;

pub(crate) use self::local::LocalValues;
pub(super) use self::local::Neighbours;
use super::Lattice;
use super::kernels::with_width;
use crate::operator::{Scaling, Workspace};
use crate::ordered::{Binned, Layers, Ordered, between_by_indicator};

impl Ordered for Lattice {
    fn apply_binned(&self, binned: Binned, scaling: Scaling, out: &mut [f32], workspace: &mut Workspace) {
        binned.check(self.points);
        if !scaling.add {
            out.fill(0.0);
        }
        let step = self.block_width(binned.count).max(1);
        for first in (0..binned.count).step_by(step) {
            let range = first..(first + step).min(binned.count);
            with_width!(range.len(), W => self.run_bins::<W>(binned, range, scaling, out, workspace));
        }
    }

    fn apply_softened(&self, layers: Layers, scaling: Scaling, out: &mut [f32], workspace: &mut Workspace) {
        layers.check(self.points);
        with_width!(layers.cells + 1, W => self.run_layers::<W>(layers, scaling, out, workspace));
    }

    fn apply_between(
        &self,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        if self.is_small(sources.len()) {
            self.between(sources, targets, scaling, out, &mut workspace.local);
        } else {
            between_by_indicator(self, sources, targets, scaling, out, workspace);
        }
    }

    fn apply_by_halves(
        &self,
        values: &[f32],
        order: &[u32],
        leaf: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        workspace.touched_vertices += self.halves(values, order, leaf, scaling, out);
    }
}
