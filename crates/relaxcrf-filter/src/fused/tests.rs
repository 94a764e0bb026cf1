//! Passes over several kernels and more channels than a table holds, and tables that are too short.

use super::*;
use crate::rng::Rng;
use crate::{Blur, Direction, Lattice, Workspace, simd};

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
            let term = |k: usize| FusedTerm {
                operator: &lattices[order[k]],
                scaling: Scaling { gain: gains[k], ..Scaling::NONE },
            };
            let pass = FusedPass::new((0..3).map(term).collect(), channels).unwrap();
            assert_eq!(pass.parts.len(), channels.div_ceil(MAX_ROW_WIDTH));
            let values = numbers(n * channels, 1.0, &mut rng);
            let mut tables = Tables::default();
            pass.start(&values, &mut tables);
            let mut read = vec![0.0; n * channels];
            pass.read::<f64>(&mut read, &mut tables, |block, out| {
                simd::keep_rows(block.rows, block.stride, channels, out);
                0.0
            });
            let mut want = vec![0.0; n * channels];
            for k in 0..3 {
                let scaling = Scaling { gain: gains[k], add: true, ..Scaling::NONE };
                let lattice = &lattices[order[k]];
                lattice.apply(
                    Direction::Forward,
                    &values,
                    channels,
                    scaling,
                    &mut want,
                    &mut Workspace::new(),
                );
            }
            for (at, (s, w)) in read.iter().zip(&want).enumerate() {
                let (point, channel) = (at / channels, at % channels);
                assert!(
                    (s - w).abs() < 1e-4 * (1.0 + w.abs()),
                    "point {point}, {channel} of {channels}: {s}, {w}"
                );
            }
        }
    }
}
