//! Sweeps over several kernels and more channels than a table holds, and tables that are too short.

use std::panic::catch_unwind;

use super::super::{Blur, Tables};
use super::*;
use crate::rng::Rng;
use crate::simd;
use crate::{Filter, Scratch};

fn numbers(count: usize, most: f64, rng: &mut Rng) -> Vec<f32> {
    (0..count).map(|_| rng.between(0.0, most) as f32).collect()
}

#[test]
fn several_kernels_add_up_in_every_part() {
    let (n, mut rng) = (300, Rng::new(1));
    let lattices: Vec<Lattice> = [(2, 3.0), (5, 2.0), (3, 4.0)]
        .map(|(dims, most)| Lattice::new(&numbers(n * dims, most, &mut rng), dims, Blur::Symmetric).unwrap())
        .into();
    // One channel has code of its own; 40 and 70 need two and three tables for each kernel.
    for channels in [1, 7, 40, 70] {
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
            let gains = [0.5, 2.0, 1.25];
            let term = |k: usize| SweepTerm {
                lattice: &lattices[order[k]],
                scaling: Scaling { gain: gains[k], ..Scaling::NONE },
            };
            let sweep = Sweep::new((0..3).map(term).collect(), channels).unwrap();
            assert_eq!(sweep.parts.len(), channels.div_ceil(WIDEST));
            let values = numbers(n * channels, 1.0, &mut rng);
            let mut tables = Tables::default();
            sweep.start(&values, &mut tables);
            let mut swept = vec![0.0; n * channels];
            sweep.read::<f64>(&mut swept, &mut tables, |points, out| {
                simd::keep_rows(points.rows, points.stride, channels, out);
                0.0
            });
            let mut want = vec![0.0; n * channels];
            for k in 0..3 {
                let scaling = Scaling { gain: gains[k], add: true, ..Scaling::NONE };
                let lattice = &lattices[order[k]];
                lattice.apply(Direction::Forward, &values, channels, scaling, &mut want, &mut Scratch::new());
            }
            for (at, (s, w)) in swept.iter().zip(&want).enumerate() {
                let (point, channel) = (at / channels, at % channels);
                assert!(
                    (s - w).abs() < 1e-4 * (1.0 + w.abs()),
                    "point {point}, {channel} of {channels}: {s}, {w}"
                );
            }
        }
    }
}

/// What is not checked in the inner loops is checked once for each block.
#[test]
fn tables_that_lack_a_row_are_refused() {
    let mut rng = Rng::new(2);
    for dims in [2, 5] {
        let lattice = Lattice::new(&numbers(50 * dims, 3.0, &mut rng), dims, Blur::Symmetric).unwrap();
        let band = &lattice.bands[0];
        let width = 8;
        let run = |rows: usize, values: usize| {
            let runs = || Runs::new(band, 0, &lattice.weights);
            let (mut table, mut out) = (vec![1.0; rows * width], vec![1.0; values]);
            let no_factors = || factors(None, 1.0, 0);
            let sliced = catch_unwind(move || {
                slice_block(width, runs(), no_factors(), &table, &mut out, width, false);
                splat_block(width, runs(), no_factors(), &out, width, &mut table);
            });
            sliced.is_ok()
        };
        let (rows, values) = (band.rows.len(), 50 * width);
        assert!(run(rows, values), "{dims} dimensions");
        assert!(!run(rows - 1, values) && !run(1, values) && !run(0, values), "{dims} dimensions");
        assert!(!run(rows, values - 1) && !run(rows, 0), "{dims} dimensions");
    }
}
