use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{Blur, Lattice, Scaling, simd};

const SIDE: usize = 320;
const POINTS: usize = SIDE * SIDE;
const LABELS: usize = 3;
const STEPS: usize = 8;

/// Two kernels on a grid, so many points that there are several bands.
fn lattices() -> [Lattice; 2] {
    let on_grid = |sigma: f32, dims: usize| {
        let row = move |a: usize| {
            let (x, y) = ((a % SIDE) as f32, (a / SIDE) as f32);
            [x / sigma, y / sigma, if x > 140.0 { 4.0 } else { 0.0 }].into_iter().take(dims)
        };
        let features: Vec<f32> = (0..POINTS).flat_map(row).collect();
        Lattice::new(&features, dims, Blur::Classic).unwrap()
    };
    [on_grid(3.0, 2), on_grid(20.0, 3)]
}

/// Each gives a point some ten in all.
fn terms(lattices: &[Lattice; 2]) -> [FusedTerm<'_>; 2] {
    let term = |lattice, gain| FusedTerm { operator: lattice, scaling: Scaling { gain, ..Scaling::NONE } };
    [term(&lattices[0], 0.15), term(&lattices[1], 0.004)]
}

/// What speaks for each label at a point: clear in most places, with a few mistakes, unclear along the middle.
fn score(a: usize, label: usize) -> f32 {
    let noise = ((a * 7 + label * 13) as f32 * 0.37).sin();
    let likely = match a % SIDE {
        0..=130 => 0,
        131..=160 => a % 3,
        _ => 2,
    };
    noise + if label == if a.is_multiple_of(97) { 1 } else { likely } { 4.0 } else { 0.0 }
}

fn softmax(row: &mut [f32]) {
    let most = row[..LABELS].iter().copied().fold(f32::MIN, f32::max);
    row[..LABELS].iter_mut().for_each(|v| *v = (*v - most).exp());
    let sum: f32 = row[..LABELS].iter().sum();
    row[..LABELS].iter_mut().for_each(|v| *v /= sum);
    row[LABELS..].fill(0.0);
}

/// Beliefs after some updates, and how many blocks were updated on the way.
fn beliefs(
    terms: &[FusedTerm],
    converged: impl Fn(&[f32]) -> Option<ConvergedBlock> + Sync,
) -> (Vec<f32>, usize) {
    let pass = FusedPass::new(terms.to_vec(), LABELS).unwrap();
    let mut tables = Tables::default();
    let updated = AtomicUsize::new(0);
    let update = |block: Block| {
        updated.fetch_add(1, Ordering::Relaxed);
        let rows = &mut block.rows[..block.count * block.stride];
        for (k, row) in rows.chunks_exact_mut(block.stride).enumerate() {
            row[..LABELS].iter_mut().enumerate().for_each(|(l, v)| *v += score(block.first + k, l));
        }
        rows.chunks_exact_mut(block.stride).for_each(softmax);
        (0.0, converged(rows))
    };
    pass.fill(&mut tables, |block| {
        block.rows.fill(0.0);
        update(block);
    });
    for _ in 0..STEPS {
        pass.step_active_blocks::<f64>(&mut tables, update);
    }
    let mut q = vec![0.0; POINTS * LABELS];
    pass.read::<f64>(&mut q, &mut tables, |block, out| {
        let Block { first, count, rows, stride } = block;
        update(Block { first, count, rows, stride });
        simd::keep_rows(&rows[..count * stride], stride, LABELS, out);
        0.0
    });
    (q, updated.into_inner())
}

/// The label that all points of a block have, if they are certain, with a budget as if every change counted
/// `caution` times.
fn agreed(rows: &[f32], caution: f32) -> Option<ConvergedBlock> {
    let mut least = [0.0f32; 8];
    simd::least_of_lanes(rows, 8, &mut least);
    let (lane, &belief) = least.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    let odds = (belief / (1.0 - belief).max(f32::EPSILON)).ln();
    (odds > 9.0).then(|| ConvergedBlock { lane, value: 1.0, change_budget: (odds - 8.0) / caution })
}

#[test]
fn skipping_converged_blocks_changes_beliefs_by_less_than_a_thousandth() {
    let lattices = lattices();
    let terms = terms(&lattices);
    let (all, every_block) = beliefs(&terms, |_| None);
    assert_eq!(every_block, (STEPS + 2) * POINTS.div_ceil(POINTS_PER_BLOCK));
    let furthest = |q: &[f32]| q.iter().zip(&all).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let (q, blocks) = beliefs(&terms, |rows| agreed(rows, 3.0));
    assert!(blocks < every_block * 3 / 4, "{blocks} of {every_block} blocks were updated");
    assert!(furthest(&q) < 1e-3, "beliefs are off by {}", furthest(&q));
    // With a small budget blocks are released at the first change, and taken out of the tables again.
    let (q, more) = beliefs(&terms, |rows| agreed(rows, 30.0));
    assert!(more > blocks && furthest(&q) < 1e-3, "{more} blocks, beliefs are off by {}", furthest(&q));
}

#[test]
fn threads_do_not_change_a_bit() {
    let lattices = lattices();
    let terms = terms(&lattices);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| beliefs(&terms, |rows| agreed(rows, 3.0)))
    };
    let one = run(1);
    assert!(one == run(2) && one == run(5));
}

#[test]
fn product_changes_by_no_more_than_its_bound() {
    let lattices = lattices();
    let scaling = Scaling { gain: -0.7, ..Scaling::NONE };
    let pass =
        FusedPass::new(lattices.iter().map(|lattice| FusedTerm { operator: lattice, scaling }).collect(), 1)
            .unwrap();
    let (mut tables, messages) = (Tables::default(), |tables: &mut Tables| {
        let mut out = vec![0.0; POINTS];
        pass.read::<f64>(&mut out, tables, |block, out| {
            out.copy_from_slice(&block.rows[..block.count]);
            0.0
        });
        out
    });
    let number = |a: usize, turn: usize| ((a * (3 + turn)) as f32 * 0.11).sin();
    pass.fill(&mut tables, |block| {
        (0..block.count).for_each(|k| block.rows[k] = number(block.first + k, 0));
    });
    let before = messages(&mut tables);
    pass.step_active_blocks::<f64>(&mut tables, |block| {
        (0..block.count).for_each(|k| block.rows[k] = number(block.first + k, 1));
        (0.0, None)
    });
    let after = messages(&mut tables);
    let per_band = crate::blocks::points_per_band(POINTS);
    for first in (0..POINTS).step_by(per_band) {
        for (k, at) in (first..POINTS.min(first + per_band)).step_by(POINTS_PER_BLOCK).enumerate() {
            let count = POINTS_PER_BLOCK.min(POINTS.min(first + per_band) - at);
            let bound = pass.product_change(
                BlockIndex { band: first / per_band, block: k },
                at,
                count,
                &tables.skipped.row_changes,
            );
            let most = (at..at + count).map(|a| (after[a] - before[a]).abs()).fold(0.0, f32::max);
            assert!(most <= bound * 1.0001 + 1e-5, "a product changed by {most}, the bound is {bound}");
        }
    }
}

/// Where a band's blocks begin: band, block of the band, first point, number of points.
fn blocks(pass: &FusedPass) -> Vec<(usize, usize, usize, usize)> {
    let of_band = |band| pass.blocks(band).map(|(at, first, count)| (at.band, at.block, first, count));
    (0..band_count(POINTS)).flat_map(of_band).collect()
}

#[test]
fn block_is_skipped_while_its_change_budget_lasts() {
    let lattices = lattices();
    let pass = FusedPass::new(terms(&lattices).to_vec(), 1).unwrap();
    let places = blocks(&pass);
    let mut tables = Tables::default();
    pass.fill(&mut tables, |block| block.rows.fill(1.0));
    // The points of every third block swing, less and less; the others converge, with a small budget or a large one.
    let swings = |first: usize| (first / POINTS_PER_BLOCK).is_multiple_of(3);
    let budget = |first: usize| 0.05 * 1.15f32.powi((first / POINTS_PER_BLOCK % 50) as i32);
    let mut left: Vec<Option<f32>> = vec![None; places.len()];
    let (mut out, mut back) = (0, 0);
    for turn in 0..8 {
        let drifts: Vec<f32> = (places.iter())
            .map(|&(b, k, first, count)| {
                pass.product_change(
                    BlockIndex { band: b, block: k },
                    first,
                    count,
                    &tables.skipped.row_changes,
                )
            })
            .collect();
        let seen: Vec<AtomicUsize> = places.iter().map(|_| AtomicUsize::new(0)).collect();
        let number = |first: usize| places.partition_point(|place| place.2 < first);
        pass.step_active_blocks::<f64>(&mut tables, |block| {
            seen[number(block.first)].fetch_add(1, Ordering::Relaxed);
            let value =
                if swings(block.first) { 1.0 + (turn as f32).cos() / (1.0 + turn as f32) } else { 1.0 };
            block.rows.fill(value);
            let converged = ConvergedBlock { lane: 0, value, change_budget: budget(block.first) };
            (0.0, (!swings(block.first)).then_some(converged))
        });
        for (((left, seen), &drift), &(_, _, first, _)) in left.iter_mut().zip(seen).zip(&drifts).zip(&places)
        {
            let before = left.take();
            let lasting = before.map(|budget| budget - drift).filter(|&budget| budget >= 0.0);
            assert_eq!(seen.into_inner(), usize::from(lasting.is_none()), "turn {turn}, point {first}");
            out += usize::from(lasting.is_some());
            back += usize::from(before.is_some() && lasting.is_none());
            // Converged at once only with a budget for two steps of the present size.
            let converges = !swings(first) && budget(first) > MIN_STEPS_AHEAD * drift;
            *left = lasting.or(converges.then(|| budget(first)));
        }
    }
    assert!(out > places.len() / 2 && back > 50, "{out} left out, {back} came back");
}

/// Beliefs of skipped blocks are in the tables as if they had been splatted with the others.
#[test]
fn skipped_blocks_are_splatted_with_the_value_they_converged_to() {
    let lattices = lattices();
    let pass = FusedPass::new(terms(&lattices).to_vec(), LABELS).unwrap();
    let row_of = |first: usize, turn: usize| match first / POINTS_PER_BLOCK % 4 {
        0 => [0.0, 1.0, 0.0],
        1 => [0.75, 0.0, 0.0],
        _ => [0.1 * turn as f32, 0.2, 0.3],
    };
    let put = |block: &mut Block, turn: usize| {
        for row in block.rows.chunks_exact_mut(block.stride) {
            row[..LABELS].copy_from_slice(&row_of(block.first, turn));
        }
    };
    let messages = |tables: &mut Tables| {
        let mut out = vec![0.0; POINTS * LABELS];
        pass.read::<f64>(&mut out, tables, |block, out| {
            simd::keep_rows(&block.rows[..block.count * block.stride], block.stride, LABELS, out);
            0.0
        });
        out
    };
    let (mut with, mut without) = (Tables::default(), Tables::default());
    pass.fill(&mut with, |block| block.rows.fill(0.0));
    for turn in 0..5 {
        // Enough budget for the first turns, not for all: blocks come back and converge again.
        pass.step_active_blocks::<f64>(&mut with, |mut block| {
            let change_budget = if turn < 3 { 20.0 } else { 0.0 };
            put(&mut block, turn);
            let converged = match block.first / POINTS_PER_BLOCK % 4 {
                0 => Some(ConvergedBlock { lane: 1, value: 1.0, change_budget }),
                1 => Some(ConvergedBlock { lane: 0, value: 0.75, change_budget }),
                _ => None,
            };
            (0.0, converged)
        });
        pass.fill(&mut without, |mut block| put(&mut block, turn));
        let (got, want) = (messages(&mut with), messages(&mut without));
        let most = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let off = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        assert!(off < 1e-4 * most, "turn {turn}: messages are off by {off} of {most}");
    }
}

/// Where everything changes alike, the bound on what messages change by is not far above what they do.
#[test]
fn bound_on_changes_is_within_twice_the_change_where_all_rows_change_alike() {
    let lattices = lattices();
    let left: Vec<f32> = (0..POINTS).map(|a| if (a / SIDE).is_multiple_of(2) { -0.5 } else { 0.4 }).collect();
    let scaling = Scaling { gain: 0.3, left: Some(&left), ..Scaling::NONE };
    let pass =
        FusedPass::new(lattices.iter().map(|lattice| FusedTerm { operator: lattice, scaling }).collect(), 1)
            .unwrap();
    let mut tables = Tables::default();
    let messages = |tables: &mut Tables| {
        let mut out = vec![0.0; POINTS];
        pass.read::<f64>(&mut out, tables, |block, out| {
            out.copy_from_slice(&block.rows[..block.count]);
            0.0
        });
        out
    };
    pass.fill(&mut tables, |block| block.rows.fill(1.0));
    let before = messages(&mut tables);
    pass.step_active_blocks::<f64>(&mut tables, |block| {
        block.rows.fill(0.25);
        (0.0, None)
    });
    let after = messages(&mut tables);
    for (b, k, first, count) in blocks(&pass) {
        let bound =
            pass.product_change(BlockIndex { band: b, block: k }, first, count, &tables.skipped.row_changes);
        let most = (first..first + count).map(|a| (after[a] - before[a]).abs()).fold(0.0, f32::max);
        assert!(most <= bound * 1.0001, "point {first}: {most} against {bound}");
        assert!(bound <= 2.0 * most, "point {first}: {most} against {bound}");
    }
}
