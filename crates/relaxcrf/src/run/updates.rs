//! Mean-field updates for callers that need the beliefs only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rayon::prelude::*;

use crate::beliefs::Beliefs;
use crate::error::{Error, Result};
use crate::memory;
use crate::methods::updates::on_lattices;
use crate::methods::{Method, Pipeline};
use crate::model::Model;
use crate::rows::simplex::{keep_points, softmax_points, softmax_rows};
use crate::solver::{Context, Settings};
use relaxcrf_filter::Workspace;
use relaxcrf_filter::fused::{FusedPass, Tables};
use relaxcrf_filter::reduce::rows_per_chunk;

/// Buffers of mean-field updates, kept between runs.
#[derive(Debug, Default)]
pub struct MeanFieldBuffers {
    tables: Tables,
    product: Vec<f32>,
    workspace: Workspace,
}

/// The beliefs of the method `mfN` with N = `updates`, or of fewer updates once `stop` is set (at least one, if any were asked
/// for). No updates give `softmax(-φ)`.
///
/// Equal to the beliefs of [`Solve`](super::Solve), bit by bit, without the cost of evaluating labellings.
pub fn mean_field_beliefs(
    model: &Model,
    updates: usize,
    stop: &AtomicBool,
    buffers: &mut MeanFieldBuffers,
) -> Result<Beliefs> {
    let method = Method::mean_field_updates(updates);
    memory::require_for_methods(model, &Pipeline::from(method))?;
    if updates > 0
        && let Some(problem) = on_lattices(model)
    {
        let mut beliefs = Beliefs::unwritten(model.pixels(), model.labels());
        problem.run_into(updates, stop, &mut buffers.tables, beliefs.as_mut_slice());
        return Ok(beliefs);
    }
    let mut beliefs = Beliefs::from_energies(model.unary(), model.labels());
    let settings = Settings::default();
    let mut context = Context::new(model, &settings, Instant::now());
    let mut solver = method.solver(model)?;
    for _ in 0..updates {
        solver.step(&mut context, &mut beliefs);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    solver.write_beliefs(&mut context, &mut beliefs);
    Ok(beliefs)
}

/// One plain mean-field update in place, `y ← softmax(-φ - 2 Σ_m μ_m K_m y)`. Rows of `beliefs` need not sum to one.
pub fn mean_field_update(model: &Model, beliefs: &mut [f32], buffers: &mut MeanFieldBuffers) -> Result<()> {
    let (points, labels) = (model.pixels(), model.labels());
    if beliefs.len() != points * labels {
        let expected = format!("{points} pixels x {labels} labels");
        return Err(Error::shape("beliefs", format!("{} values", beliefs.len()), expected));
    }
    let energies = model.linear();
    if let Some(problem) = on_lattices(model)
        && let Some(pass) = FusedPass::new(problem.terms, labels)
    {
        pass.start(beliefs, &mut buffers.tables);
        pass.read(beliefs, &mut buffers.tables, |mut points, out| {
            let energies = &energies[points.first * labels..][..points.count * labels];
            softmax_points(&mut points, labels, Some(energies));
            keep_points(&points, labels, out);
            0.0
        });
        return Ok(());
    }
    let MeanFieldBuffers { product, workspace, .. } = buffers;
    product.clear();
    product.resize(beliefs.len(), 0.0);
    model.product(beliefs, product, workspace);
    let piece = rows_per_chunk(labels) * labels;
    let pieces = beliefs.par_chunks_mut(piece).zip(product.par_chunks(piece)).zip(energies.par_chunks(piece));
    pieces.for_each(|((rows, products), energies)| {
        let sources = products.chunks_exact(labels).zip(energies.chunks_exact(labels));
        for (row, (product, energies)) in rows.chunks_exact_mut(labels).zip(sources) {
            model.messages_of(product, row);
            row.iter_mut().zip(energies).for_each(|(m, &e)| *m = -e - 2.0 * *m);
        }
        softmax_rows(rows, labels);
    });
    Ok(())
}
