use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{Blur, Lattice, SweepTerm};
use super::*;
use crate::Scaling;
use crate::simd;

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
fn terms(lattices: &[Lattice; 2]) -> [SweepTerm<'_>; 2] {
    let term = |lattice, gain| SweepTerm { lattice, scaling: Scaling { gain, ..Scaling::NONE } };
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
fn beliefs(terms: &[SweepTerm], settle: impl Fn(&[f32]) -> Option<Settlement> + Sync) -> (Vec<f32>, usize) {
    let sweep = Sweep::new(terms.to_vec(), LABELS).unwrap();
    let mut tables = Tables::default();
    let updated = AtomicUsize::new(0);
    let update = |points: Points| {
        updated.fetch_add(1, Ordering::Relaxed);
        let rows = &mut points.rows[..points.count * points.stride];
        for (k, row) in rows.chunks_exact_mut(points.stride).enumerate() {
            row[..LABELS].iter_mut().enumerate().for_each(|(l, v)| *v += score(points.first + k, l));
        }
        rows.chunks_exact_mut(points.stride).for_each(softmax);
        (0.0, settle(rows))
    };
    sweep.fill(&mut tables, |points| {
        points.rows.fill(0.0);
        update(points);
    });
    for _ in 0..STEPS {
        sweep.step_unsettled::<f64>(&mut tables, update);
    }
    let mut q = vec![0.0; POINTS * LABELS];
    sweep.read::<f64>(&mut q, &mut tables, |points, out| {
        let Points { first, count, rows, stride } = points;
        update(Points { first, count, rows, stride });
        simd::keep_rows(&rows[..count * stride], stride, LABELS, out);
        0.0
    });
    (q, updated.into_inner())
}

/// The label that all points of a block have, if they are certain, with a slack as if every change was felt
/// `caution` times.
fn agreed(rows: &[f32], caution: f32) -> Option<Settlement> {
    let mut least = [0.0f32; 8];
    simd::least_of_lanes(rows, 8, &mut least);
    let (lane, &belief) = least.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    let odds = (belief / (1.0 - belief).max(f32::EPSILON)).ln();
    (odds > 9.0).then(|| Settlement { lane, value: 1.0, slack: (odds - 8.0) / caution })
}

#[test]
fn leaving_settled_blocks_out_changes_next_to_nothing() {
    let lattices = lattices();
    let terms = terms(&lattices);
    let (all, every_block) = beliefs(&terms, |_| None);
    assert_eq!(every_block, (STEPS + 2) * POINTS.div_ceil(BLOCK));
    let furthest = |q: &[f32]| q.iter().zip(&all).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let (q, blocks) = beliefs(&terms, |rows| agreed(rows, 3.0));
    assert!(blocks < every_block * 3 / 4, "{blocks} of {every_block} blocks were updated");
    assert!(furthest(&q) < 1e-3, "beliefs are off by {}", furthest(&q));
    // With next to no slack blocks are released at the first change, and taken out of the tables again.
    let (q, more) = beliefs(&terms, |rows| agreed(rows, 30.0));
    assert!(more > blocks && furthest(&q) < 1e-3, "{more} blocks, beliefs are off by {}", furthest(&q));
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
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
fn no_message_moves_further_than_told() {
    let lattices = lattices();
    let scaling = Scaling { gain: -0.7, ..Scaling::NONE };
    let sweep =
        Sweep::new(lattices.iter().map(|lattice| SweepTerm { lattice, scaling }).collect(), 1).unwrap();
    let (mut tables, messages) = (Tables::default(), |tables: &mut Tables| {
        let mut out = vec![0.0; POINTS];
        sweep.read::<f64>(&mut out, tables, |points, out| {
            out.copy_from_slice(&points.rows[..points.count]);
            0.0
        });
        out
    });
    let number = |a: usize, turn: usize| ((a * (3 + turn)) as f32 * 0.11).sin();
    sweep.fill(&mut tables, |points| {
        (0..points.count).for_each(|k| points.rows[k] = number(points.first + k, 0));
    });
    let before = messages(&mut tables);
    sweep.step_unsettled::<f64>(&mut tables, |points| {
        (0..points.count).for_each(|k| points.rows[k] = number(points.first + k, 1));
        (0.0, None)
    });
    let after = messages(&mut tables);
    let per_band = lattices[0].bands[0].points.len();
    for first in (0..POINTS).step_by(per_band) {
        for (k, at) in (first..POINTS.min(first + per_band)).step_by(BLOCK).enumerate() {
            let count = BLOCK.min(POINTS.min(first + per_band) - at);
            let told = sweep.drift(first / per_band, k, at, count, &tables.settled.moved);
            let most = (at..at + count).map(|a| (after[a] - before[a]).abs()).fold(0.0, f32::max);
            assert!(most <= told * 1.0001 + 1e-5, "a message moved by {most}, told was {told}");
        }
    }
}

/// Where a band's blocks begin: band, block of the band, first point, number of points.
fn blocks(lattice: &Lattice) -> Vec<(usize, usize, usize, usize)> {
    let of_band = |(b, points): (usize, std::ops::Range<usize>)| {
        let end = points.end;
        points.step_by(BLOCK).enumerate().map(move |(k, first)| (b, k, first, BLOCK.min(end - first)))
    };
    lattice.bands.iter().map(|band| band.points.clone()).enumerate().flat_map(of_band).collect()
}

#[test]
fn a_block_is_left_out_for_as_long_as_its_slack_lasts() {
    let lattices = lattices();
    let sweep = Sweep::new(terms(&lattices).to_vec(), 1).unwrap();
    let places = blocks(&lattices[0]);
    let mut tables = Tables::default();
    sweep.fill(&mut tables, |points| points.rows.fill(1.0));
    // The points of every third block swing, less and less; the others could be settled, with little slack or much.
    let swings = |first: usize| (first / BLOCK).is_multiple_of(3);
    let slack = |first: usize| 0.05 * 1.15f32.powi((first / BLOCK % 50) as i32);
    let mut left: Vec<Option<f32>> = vec![None; places.len()];
    let (mut out, mut back) = (0, 0);
    for turn in 0..8 {
        let drifts: Vec<f32> = (places.iter())
            .map(|&(b, k, first, count)| sweep.drift(b, k, first, count, &tables.settled.moved))
            .collect();
        let seen: Vec<AtomicUsize> = places.iter().map(|_| AtomicUsize::new(0)).collect();
        let number = |first: usize| places.partition_point(|place| place.2 < first);
        sweep.step_unsettled::<f64>(&mut tables, |points| {
            seen[number(points.first)].fetch_add(1, Ordering::Relaxed);
            let value =
                if swings(points.first) { 1.0 + (turn as f32).cos() / (1.0 + turn as f32) } else { 1.0 };
            points.rows.fill(value);
            let settlement = Settlement { lane: 0, value, slack: slack(points.first) };
            (0.0, (!swings(points.first)).then_some(settlement))
        });
        for (((left, seen), &drift), &(_, _, first, _)) in left.iter_mut().zip(seen).zip(&drifts).zip(&places)
        {
            let before = left.take();
            let lasting = before.map(|slack| slack - drift).filter(|&slack| slack >= 0.0);
            assert_eq!(seen.into_inner(), usize::from(lasting.is_none()), "turn {turn}, point {first}");
            out += usize::from(lasting.is_some());
            back += usize::from(before.is_some() && lasting.is_none());
            // Settled at once only with slack for two steps of the present size.
            let settles = !swings(first) && slack(first) > STEPS_AHEAD * drift;
            *left = lasting.or(settles.then(|| slack(first)));
        }
    }
    assert!(out > places.len() / 2 && back > 50, "{out} left out, {back} came back");
}

/// Beliefs of settled blocks are in the tables as if they had been splatted with the others.
#[test]
fn settled_blocks_are_splatted_with_the_value_they_settled_for() {
    let lattices = lattices();
    let sweep = Sweep::new(terms(&lattices).to_vec(), LABELS).unwrap();
    let row_of = |first: usize, turn: usize| match first / BLOCK % 4 {
        0 => [0.0, 1.0, 0.0],
        1 => [0.75, 0.0, 0.0],
        _ => [0.1 * turn as f32, 0.2, 0.3],
    };
    let put = |points: &mut Points, turn: usize| {
        for row in points.rows.chunks_exact_mut(points.stride) {
            row[..LABELS].copy_from_slice(&row_of(points.first, turn));
        }
    };
    let messages = |tables: &mut Tables| {
        let mut out = vec![0.0; POINTS * LABELS];
        sweep.read::<f64>(&mut out, tables, |points, out| {
            simd::keep_rows(&points.rows[..points.count * points.stride], points.stride, LABELS, out);
            0.0
        });
        out
    };
    let (mut with, mut without) = (Tables::default(), Tables::default());
    sweep.fill(&mut with, |points| points.rows.fill(0.0));
    for turn in 0..5 {
        // Enough slack for the first turns, not for all: blocks come back and settle again.
        sweep.step_unsettled::<f64>(&mut with, |mut points| {
            let slack = if turn < 3 { 20.0 } else { 0.0 };
            put(&mut points, turn);
            let settlement = match points.first / BLOCK % 4 {
                0 => Some(Settlement { lane: 1, value: 1.0, slack }),
                1 => Some(Settlement { lane: 0, value: 0.75, slack }),
                _ => None,
            };
            (0.0, settlement)
        });
        sweep.fill(&mut without, |mut points| put(&mut points, turn));
        let (got, want) = (messages(&mut with), messages(&mut without));
        let most = want.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let off = got.iter().zip(&want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        assert!(off < 1e-4 * most, "turn {turn}: messages are off by {off} of {most}");
    }
}

/// Where everything changes alike, the bound on what messages change by is not far above what they do.
#[test]
fn told_changes_are_not_far_too_large() {
    let lattices = lattices();
    let left: Vec<f32> = (0..POINTS).map(|a| if (a / SIDE).is_multiple_of(2) { -0.5 } else { 0.4 }).collect();
    let scaling = Scaling { gain: 0.3, left: Some(&left), ..Scaling::NONE };
    let sweep =
        Sweep::new(lattices.iter().map(|lattice| SweepTerm { lattice, scaling }).collect(), 1).unwrap();
    let mut tables = Tables::default();
    let messages = |tables: &mut Tables| {
        let mut out = vec![0.0; POINTS];
        sweep.read::<f64>(&mut out, tables, |points, out| {
            out.copy_from_slice(&points.rows[..points.count]);
            0.0
        });
        out
    };
    sweep.fill(&mut tables, |points| points.rows.fill(1.0));
    let before = messages(&mut tables);
    sweep.step_unsettled::<f64>(&mut tables, |points| {
        points.rows.fill(0.25);
        (0.0, None)
    });
    let after = messages(&mut tables);
    for (b, k, first, count) in blocks(&lattices[0]) {
        let told = sweep.drift(b, k, first, count, &tables.settled.moved);
        let most = (first..first + count).map(|a| (after[a] - before[a]).abs()).fold(0.0, f32::max);
        assert!(most <= told * 1.0001, "point {first}: {most} against {told}");
        assert!(told <= 2.0 * most, "point {first}: {most} against {told}");
    }
}
