//! Updates of two labels: beliefs sum to one, so only one label is filtered.

use rayon::prelude::*;

use super::{CERTAIN, SETTLED, Updates};
use crate::rows::simplex::logistic;
use relaxcrf_filter::fused::{Block, ConvergedBlock, FusedPass, Tables};

/// The messages for label 1 less those for label 0 are `K (q_1 - q_0) = K (2 q_1 - 1)`.
pub(super) struct TwoLabels<'a> {
    sweep: FusedPass<'a>,
    /// By how much each point's energies prefer label 1.
    preference: Vec<f32>,
}

impl<'a> TwoLabels<'a> {
    /// `None` without kernels.
    pub fn new(problem: &Updates<'a>) -> Option<Self> {
        Some(Self { sweep: FusedPass::new(problem.terms.clone(), 1)?, preference: Vec::new() })
    }

    /// Puts `softmax(-φ)` into the tables.
    pub fn start(&mut self, problem: &Updates, tables: &mut Tables) {
        self.preference.resize(problem.points, 0.0);
        if let Some(unary) = problem.unary {
            let preference = self.preference.par_iter_mut().with_min_len(1 << 14);
            preference.zip(unary.par_chunks_exact(2)).for_each(|(p, u)| {
                let difference = u[0] - u[1];
                // A forbidden label stays forbidden; if both are, neither is preferred.
                *p = if difference.is_nan() { 0.0 } else { difference };
            });
        }
        self.sweep.fill(tables, |points| {
            let rows = &mut points.rows[..points.count];
            rows.copy_from_slice(&self.preference[points.first..][..points.count]);
            logistic(rows);
            rows.iter_mut().for_each(|q| *q = 2.0 * *q - 1.0);
        });
    }

    /// Replaces the beliefs in the tables by those of the next update.
    pub fn advance(&self, tables: &mut Tables) {
        self.sweep.step_active_blocks(tables, |mut points| (0.0, self.update(&mut points, &mut [])));
    }

    /// Writes the beliefs of the next update, two per point.
    pub fn read(&self, tables: &mut Tables, q: &mut [f32]) {
        self.sweep.read(q, tables, |mut points, out| {
            self.update(&mut points, out);
            0.0
        });
    }

    /// From messages to `2 q_1 - 1`, and to both beliefs in `out`.
    fn update(&self, points: &mut Block, out: &mut [f32]) -> Option<ConvergedBlock> {
        let rows = &mut points.rows[..points.count];
        rows.iter_mut().zip(&self.preference[points.first..]).for_each(|(m, &p)| *m += p);
        let settlement = settlement(rows);
        logistic(rows);
        for (to, &q) in out.chunks_exact_mut(2).zip(&*rows) {
            to.copy_from_slice(&[1.0 - q, q]);
        }
        rows.iter_mut().for_each(|q| *q = 2.0 * *q - 1.0);
        settlement
    }
}

/// Whether all points of a block clearly prefer the same label.
fn settlement(logits: &[f32]) -> Option<ConvergedBlock> {
    let sign = logits.first()?.signum();
    // NaN, after an overflow, prefers none.
    if !logits.iter().all(|&v| sign * v > SETTLED) {
        return None;
    }
    let odds = logits.iter().fold(f32::INFINITY, |least, &v| least.min(sign * v));
    Some(ConvergedBlock { lane: 0, value: sign, change_budget: odds - CERTAIN })
}
