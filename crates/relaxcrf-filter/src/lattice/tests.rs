use super::simplices::Runs;
use super::*;
use crate::fused::{FusedPass, FusedTerm, Tables};
use crate::ordered::{Binned, Ordered, between_by_indicator};
use crate::{Direction, Factors, Fused, Operator, Scaling, Workspace, simd};

fn column(lattice: &Lattice, direction: Direction, source: usize) -> Vec<f32> {
    let mut x = vec![0.0; lattice.points()];
    x[source] = 1.0;
    let mut out = vec![0.0; lattice.points()];
    lattice.apply(direction, &x, 1, Scaling::NONE, &mut out, &mut Workspace::new());
    out
}

fn near(got: f32, want: f32) {
    assert!((got - want).abs() < 2e-5, "{got} where {want} is expected");
}

/// Random-looking features with neighbours missing here and there.
fn cloud(points: usize, dims: usize) -> Vec<f32> {
    let mut state = 12345u64;
    (0..points * dims)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32 * 4.0
        })
        .collect()
}

#[test]
fn one_dimension_on_vertices() {
    let spacing = 3f32.sqrt() / 2.0;
    let features: Vec<f32> = (0..9).map(|i| i as f32 * spacing).collect();
    for blur in [Blur::Classic, Blur::Symmetric] {
        let lattice = Lattice::new(&features, 1, blur).unwrap();
        let response = column(&lattice, Direction::Forward, 4);
        for (offset, want) in [(0, 1.0), (1, 2.0 / 3.0), (2, 1.0 / 6.0), (3, 0.0)] {
            near(response[4 + offset], want);
            near(response[4 - offset], want);
        }
    }
}

#[test]
fn two_dimensions_on_vertices() {
    // A hexagonal patch of unit spacing: exactly the vertices of the 2-D lattice.
    let mut features = Vec::new();
    for i in -4i32..=4 {
        for j in -4i32..=4 {
            let (u, v) = (i as f32 + 0.5 * j as f32, 0.75f32.sqrt() * j as f32);
            // The lattice's own orientation: one of its edges lies along the second feature.
            features.extend([v, u]);
        }
    }
    let center = 4 * 9 + 4;
    let lattice = Lattice::new(&features, 2, Blur::Classic).unwrap();
    let response = column(&lattice, Direction::Forward, center);
    for (a, f) in features.chunks_exact(2).enumerate() {
        let distance = (f[0] * f[0] + f[1] * f[1]).sqrt();
        for (at, want) in [(0.0, 1.0), (1.0, 0.6), (3f32.sqrt(), 0.2), (2.0, 0.1)] {
            if (distance - at).abs() < 1e-3 {
                near(response[a], want);
            }
        }
    }
}

#[test]
fn alpha_is_known() {
    let alpha = |d: usize| Lattice::new(&vec![0.0; d], d, Blur::Classic).unwrap().alpha();
    near(alpha(2), 0.8);
    near(alpha(5), 0.969_697);
}

#[test]
fn an_isolated_point_sees_only_itself() {
    for dims in [1, 2, 5, 16] {
        let features = vec![0.37; dims];
        let lattice = Lattice::new(&features, dims, Blur::Symmetric).unwrap();
        let itself = column(&lattice, Direction::Forward, 0)[0];
        near(itself, lattice.normalizer()[0]);
        assert!(itself > 0.0 && itself <= lattice.diagonal()[0] + 1e-6);
    }
}

/// More simplices than a band remembers, many of them of one shape: none may be taken for another.
#[test]
fn points_far_apart_do_not_see_each_other() {
    for dims in [2, 3, 5] {
        let side = if dims == 2 { 80 } else { 20 };
        let place = |a: usize, k: usize| {
            let cell = [a % side, a / side % side, a / (side * side)][k % 3];
            cell as f32 * 37.3 + (a % 16) as f32 * 0.01
        };
        let features: Vec<f32> = (0..6000 * dims).map(|i| place(i / dims, i % dims)).collect();
        let lattice = Lattice::new(&features, dims, Blur::Symmetric).unwrap();
        let alone = lattice.normalizer();
        for a in (0..6000).step_by(97) {
            let single = Lattice::new(&features[a * dims..][..dims], dims, Blur::Symmetric).unwrap();
            near(alone[a], single.normalizer()[0]);
        }
        let values: Vec<f32> = (0..6000).map(|a| (a % 7) as f32).collect();
        let mut out = vec![0.0; 6000];
        lattice.apply(Direction::Forward, &values, 1, Scaling::NONE, &mut out, &mut Workspace::new());
        for a in 0..6000 {
            assert!((out[a] - values[a] * alone[a]).abs() < 1e-4, "{dims} dimensions: {} at {a}", out[a]);
        }
    }
}

#[test]
fn sizes_are_known_beforehand() {
    for (points, dims) in [(1, 1), (500, 2), (40_000, 2), (40_000, 5)] {
        // Bands whose boxes are apart from each other.
        let place = |i: usize| ((i * 7919) % 1013) as f32 * 0.01 + (i / dims) as f32 * 0.005;
        let features: Vec<f32> = (0..points * dims).map(place).collect();
        let rows = |band: std::ops::Range<usize>| features[band.start * dims..band.end * dims].to_vec();
        let size = LatticeSize::measure(points, dims, rows).unwrap();
        assert_eq!(size, Lattice::new(&features, dims, Blur::Classic).unwrap().size());
    }
}

#[test]
fn closed_form_diagonal_is_exact_inside_and_an_upper_bound_outside() {
    let mut grid = Vec::new();
    for y in 0..24 {
        for x in 0..24 {
            grid.extend([x as f32 / 2.3, y as f32 / 2.3]);
        }
    }
    let lattice = Lattice::new(&grid, 2, Blur::Classic).unwrap();
    let diagonal = lattice.diagonal();
    for (a, &closed_form) in diagonal.iter().enumerate() {
        let true_value = column(&lattice, Direction::Forward, a)[a];
        assert!(true_value <= closed_form + 1e-6);
        let (x, y) = (a % 24, a / 24);
        if (8..16).contains(&x) && (8..16).contains(&y) {
            near(true_value, closed_form);
        }
    }
}

#[test]
fn reverse_order_is_the_transpose() {
    for dims in [1, 2, 3, 5] {
        let features = cloud(60, dims);
        let lattice = Lattice::new(&features, dims, Blur::Classic).unwrap();
        let forward: Vec<_> = (0..60).map(|b| column(&lattice, Direction::Forward, b)).collect();
        let reverse: Vec<_> = (0..60).map(|b| column(&lattice, Direction::Transposed, b)).collect();
        let symmetric = Lattice::new(&features, dims, Blur::Symmetric).unwrap();
        let mut asymmetry = 0.0f32;
        for b in 0..60 {
            let mean = column(&symmetric, Direction::Forward, b);
            for a in 0..60 {
                near(forward[b][a], reverse[a][b]);
                near(mean[a], 0.5 * (forward[b][a] + forward[a][b]));
                asymmetry = asymmetry.max((forward[b][a] - forward[a][b]).abs());
            }
        }
        assert!(dims == 1 || asymmetry > 1e-3, "the test cloud should show the asymmetry: {asymmetry}");
    }
}

#[test]
fn dense_data_has_the_known_ratio_to_the_gaussian() {
    // Interior of a fine grid: the true sum is 2 pi sigma^2 pixels.
    let (size, sigma) = (80, 5.0);
    let grid: Vec<f32> =
        (0..size * size).flat_map(|i| [(i % size) as f32 / sigma, (i / size) as f32 / sigma]).collect();
    let lattice = Lattice::new(&grid, 2, Blur::Classic).unwrap();
    let sums = lattice.normalizer();
    let exact = 2.0 * std::f32::consts::PI * sigma * sigma;
    let (mut mean, mut count) = (0.0, 0.0);
    for y in 30..50 {
        for x in 30..50 {
            mean += exact / sums[y * size + x];
            count += 1.0;
        }
    }
    let ratio = mean / count;
    assert!((ratio - 1.133_625).abs() < 0.02 * 1.133_625, "{ratio}");
}

#[test]
fn wide_features_need_long_keys_and_still_match() {
    // 2^20 standard deviations apart in 5-D: more than 64 bits of key.
    let mut features = cloud(40, 5);
    let reference = Lattice::new(&features, 5, Blur::Symmetric).unwrap();
    let want = column(&reference, Direction::Forward, 3);
    for k in 0..5 {
        features.push(if k % 2 == 0 { 1.0e6 } else { -1.0e6 });
    }
    let lattice = Lattice::new(&features, 5, Blur::Symmetric).unwrap();
    let got = column(&lattice, Direction::Forward, 3);
    for a in 0..40 {
        near(got[a], want[a]);
    }
    assert_eq!(got[40], 0.0);
}

#[test]
fn features_that_cannot_be_indexed_are_refused() {
    let err = Lattice::new(&[0.0, 1e30], 1, Blur::Classic).unwrap_err().to_string();
    assert!(err.contains("span 1.000e30 standard deviations"), "{err}");
    let err = Lattice::new(&[-1e30, 7.0, 0.0, 7.0, 2e30, 8.0], 2, Blur::Classic).unwrap_err().to_string();
    assert!(err.contains("span 3.000e30 standard deviations"), "{err}");
    assert!(Lattice::new(&[0.0, f32::NAN], 1, Blur::Classic).is_err());
    assert!(Lattice::new(&[], 1, Blur::Classic).is_err());
    assert!(Lattice::new(&[0.0; 3], 2, Blur::Classic).is_err());
    assert!(Lattice::new(&[0.0; 80], 80, Blur::Classic).is_err());
}

#[test]
fn threads_do_not_change_a_bit() {
    let features = cloud(5000, 5);
    let values: Vec<f32> = cloud(5000, 21);
    let bins: Vec<u16> = (0..5000u16).map(|i| i * 7 % 37).collect();
    let table: Vec<f32> = (0..37 * 37).map(|i| (i % 11) as f32 - 5.0).collect();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let lattice = Lattice::new(&features, 5, Blur::Symmetric).unwrap();
            let mut workspace = Workspace::new();
            let mut out = vec![0.0; values.len()];
            lattice.apply(Direction::Forward, &values, 21, Scaling::NONE, &mut out, &mut workspace);
            let mut binned = vec![0.0; 5000];
            let b = Binned { bins: &bins, count: 37, table: &table };
            lattice.apply_binned(b, Scaling::NONE, &mut binned, &mut workspace);
            out.extend(binned);
            out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(3) && one == run(8));
}

#[test]
fn between_sets_equals_the_whole_operator() {
    let features = cloud(400, 3);
    let (sources, targets): (Vec<u32>, Vec<u32>) = ((0..7).collect(), (100..400).collect());
    for blur in [Blur::Classic, Blur::Symmetric] {
        let lattice = Lattice::new(&features, 3, blur).unwrap();
        let weights: Vec<f32> = (0..400).map(|a| 1.0 + (a % 5) as f32).collect();
        let scaling = Scaling { left: Some(&weights), right: Some(&weights), gain: 0.3, add: false };
        let mut workspace = Workspace::new();
        let mut want = vec![0.5; 400];
        between_by_indicator(&lattice, &sources, &targets, scaling, &mut want, &mut workspace);
        for _ in 0..2 {
            let mut got = vec![0.5; 400];
            lattice.between(&sources, &targets, scaling, &mut got, &mut workspace.local);
            for (g, w) in got.iter().zip(&want) {
                assert!((g - w).abs() < 1e-4 * (1.0 + w.abs()), "{g} against {w}");
            }
        }
    }
}

/// Everything that is compiled twice, on one set of inputs: build, apply, bins, one step of a pass.
fn all_kernels(features: &[f32], dims: usize, channels: usize) -> Vec<u32> {
    let n = features.len() / dims;
    let lattice = Lattice::new(features, dims, Blur::Symmetric).unwrap();
    let values = cloud(n, channels);
    let weights: Vec<f32> = (0..n).map(|a| 1.0 + (a % 7) as f32 * 0.3).collect();
    let scaling = Scaling { left: Some(&weights), right: Some(&weights), gain: 0.7, add: false };
    let mut workspace = Workspace::new();
    let mut out = vec![0.0; n * channels];
    lattice.apply(Direction::Forward, &values, channels, scaling, &mut out, &mut workspace);
    for count in [20, 50] {
        let bins: Vec<u16> = (0..n).map(|a| ((a / 3) % count) as u16).collect();
        let table: Vec<f32> = (0..count * count).map(|i| (i % 11) as f32 - 5.0).collect();
        let mut binned = vec![0.0; n];
        let b = Binned { bins: &bins, count, table: &table };
        lattice.apply_binned(b, scaling, &mut binned, &mut workspace);
        out.extend(binned);
    }
    let pass = FusedPass::new(vec![FusedTerm { operator: &lattice, scaling }], channels).unwrap();
    let mut tables = Tables::default();
    pass.start(&values, &mut tables);
    let mut beliefs = vec![0.0; n * channels];
    pass.step::<f64>(&mut beliefs, &mut tables, |block, out| {
        let rows = &mut block.rows[..block.count * block.stride];
        rows.iter_mut().for_each(|v| *v /= 1.0 + v.abs());
        simd::keep_rows(rows, block.stride, channels, out);
        0.0
    });
    out.extend(beliefs);
    out.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn vector_code_gives_the_bits_of_scalar_code() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for (dims, channels) in [(5, 21), (2, 21), (3, 5), (5, 1), (2, 2), (9, 7), (5, 45)] {
        let features = cloud(3000, dims);
        let run = |scalar: bool| {
            pool.install(|| {
                let bits = || all_kernels(&features, dims, channels);
                if scalar { simd::without_vectors(bits) } else { bits() }
            })
        };
        assert!(run(false) == run(true), "{dims} dimensions, {channels} channels");
    }
}

#[test]
fn several_bands_equal_the_plain_sums() {
    // More points than one band holds, so that vertices have copies.
    let (n, dims, channels) = (40_000, 3, 3);
    let features = cloud(n, dims);
    let lattice = Lattice::new(&features, dims, Blur::Classic).unwrap();
    assert!(lattice.bands.len() > 1 && lattice.rows() > lattice.vertices());
    let values = cloud(n, channels);
    let mut out = vec![0.0; n * channels];
    lattice.apply(Direction::Forward, &values, channels, Scaling::NONE, &mut out, &mut Workspace::new());
    // A few sources at a time go through the other code, vertex by vertex.
    let targets: Vec<u32> = (0..n as u32).step_by(97).collect();
    let mut want = vec![0.0; n];
    let mut local = LocalValues::default();
    for (b, row) in values.chunks_exact(channels).enumerate() {
        let scaling = Scaling { gain: row[1], ..Scaling::NONE };
        if b % 400 == 0 {
            lattice.between(&[b as u32], &targets, scaling, &mut want, &mut local);
        }
    }
    let mut few = vec![0.0; n];
    for b in (0..n).step_by(400) {
        few[b] = values[b * channels + 1];
    }
    let mut got = vec![0.0; n];
    lattice.apply(Direction::Forward, &few, 1, Scaling::NONE, &mut got, &mut Workspace::new());
    for &a in &targets {
        let (g, w) = (got[a as usize], want[a as usize]);
        assert!((g - w).abs() < 1e-4 * (1.0 + w.abs()), "point {a}: {g} against {w}");
    }
    let pass =
        FusedPass::new(vec![FusedTerm { operator: &lattice, scaling: Scaling::NONE }], channels).unwrap();
    let mut tables = Tables::default();
    pass.start(&values, &mut tables);
    let mut read = vec![0.0; n * channels];
    pass.read::<f64>(&mut read, &mut tables, |block, out| {
        simd::keep_rows(block.rows, block.stride, channels, out);
        0.0
    });
    for (s, o) in read.iter().zip(&out) {
        assert!((s - o).abs() < 1e-5 * (1.0 + o.abs()));
    }
}

#[test]
fn a_channel_left_over_by_full_blocks_is_filtered_as_alone() {
    // So many rows that a block holds eight channels.
    let features: Vec<f32> = cloud(40_000, 3).iter().map(|f| 40.0 * f).collect();
    let lattice = Lattice::new(&features, 3, Blur::Symmetric).unwrap();
    let channels = 9;
    assert_eq!(lattice.block_width(channels), 8, "{} rows", lattice.rows());
    let values: Vec<f32> = cloud(40_000, channels).iter().map(|v| v - 2.0).collect();
    let mut together = vec![0.0; values.len()];
    lattice.apply(Direction::Forward, &values, channels, Scaling::NONE, &mut together, &mut Workspace::new());
    let last: Vec<f32> = values.iter().skip(channels - 1).step_by(channels).copied().collect();
    let mut alone = vec![0.0; last.len()];
    lattice.apply(Direction::Forward, &last, 1, Scaling::NONE, &mut alone, &mut Workspace::new());
    for (row, want) in together.chunks_exact(channels).zip(&alone) {
        near(row[channels - 1], *want);
    }
}

/// The same with few rows, where it takes three full blocks, in the dimensions that have kernels of their own.
#[test]
fn a_channel_left_over_by_wide_blocks_is_filtered_as_alone() {
    let channels = 97;
    for dims in [2, 5] {
        let lattice = Lattice::new(&cloud(150, dims), dims, Blur::Symmetric).unwrap();
        assert_eq!(lattice.block_width(channels), 32);
        let values: Vec<f32> = cloud(150, channels).iter().map(|v| v - 2.0).collect();
        let mut together = vec![0.0; values.len()];
        let forward = Direction::Forward;
        lattice.apply(forward, &values, channels, Scaling::NONE, &mut together, &mut Workspace::new());
        let last: Vec<f32> = values.iter().skip(channels - 1).step_by(channels).copied().collect();
        let mut alone = vec![0.0; last.len()];
        lattice.apply(forward, &last, 1, Scaling::NONE, &mut alone, &mut Workspace::new());
        for (row, want) in together.chunks_exact(channels).zip(&alone) {
            assert!((row[channels - 1] - want).abs() < 1e-4 * (1.0 + want.abs()), "{dims} dimensions");
        }
    }
}

/// Bins that are weighed at the vertices, more of these than are weighed at a time, against a channel for each bin.
#[test]
fn bins_weighed_at_many_vertices_are_sums_of_indicators() {
    let (points, count) = (30_000, 20);
    let features: Vec<f32> = cloud(points, 2).iter().map(|f| 12.0 * f).collect();
    let lattice = Lattice::new(&features, 2, Blur::Symmetric).unwrap();
    assert!(lattice.rows > 1024 && lattice.rows * count <= 8 * points, "{} rows", lattice.rows);
    let bins: Vec<u16> = (0..points).map(|a| (a * a % count) as u16).collect();
    let table: Vec<f32> = (0..count * count).map(|k| (k as f32).sin()).collect();
    let mut got = vec![0.0; points];
    let binned = Binned { bins: &bins, count, table: &table };
    lattice.apply_binned(binned, Scaling::NONE, &mut got, &mut Workspace::new());
    let mut indicators = vec![0.0; points * count];
    bins.iter().enumerate().for_each(|(a, &b)| indicators[a * count + usize::from(b)] = 1.0);
    let mut sums = vec![0.0; points * count];
    lattice.apply(Direction::Forward, &indicators, count, Scaling::NONE, &mut sums, &mut Workspace::new());
    for (a, (got, sums)) in got.iter().zip(sums.chunks_exact(count)).enumerate() {
        let weights = &table[usize::from(bins[a]) * count..][..count];
        let want: f32 = weights.iter().zip(sums).map(|(w, s)| w * s).sum();
        assert!((got - want).abs() < 1e-3 * sums.iter().sum::<f32>(), "point {a}: {got} against {want}");
    }
}

/// What is not checked in the inner loops is checked once for each block.
#[test]
fn tables_that_lack_a_row_are_refused() {
    for dims in [2, 5] {
        let lattice = Lattice::new(&cloud(50, dims), dims, Blur::Symmetric).unwrap();
        let band = &lattice.bands[0];
        let width = 8;
        let run = |rows: usize, values: usize| {
            let runs = || Runs::new(band, 0, &lattice.weights);
            let (mut table, mut out) = (vec![1.0; rows * width], vec![1.0; values]);
            let no_factors = || Factors::from_point(None, 1.0, 0);
            let sliced = std::panic::catch_unwind(move || {
                kernels::slice_block(width, runs(), no_factors(), &table, &mut out, width, false);
                kernels::splat_block(width, runs(), no_factors(), &out, width, &mut table);
            });
            sliced.is_ok()
        };
        let (rows, values) = (band.rows.len(), 50 * width);
        assert!(run(rows, values), "{dims} dimensions");
        assert!(!run(rows - 1, values) && !run(1, values) && !run(0, values), "{dims} dimensions");
        assert!(!run(rows, values - 1) && !run(rows, 0), "{dims} dimensions");
    }
}

#[test]
fn subset_equals_the_lattice_built_on_its_points() {
    for (points, dims) in [(3000, 2), (40_000, 5)] {
        let features = cloud(points, dims);
        for blur in [Blur::Classic, Blur::Symmetric] {
            let whole = Lattice::new(&features, dims, blur).unwrap();
            let kept: Vec<u32> = (0..points as u32).filter(|a| a % 7 < 3).rev().collect();
            let rows: Vec<f32> =
                kept.iter().flat_map(|&a| &features[a as usize * dims..][..dims]).copied().collect();
            let (subset, built) = (whole.among(&kept).unwrap(), Lattice::new(&rows, dims, blur).unwrap());
            assert_eq!(subset.size(), built.size());
            let values = cloud(kept.len(), 4);
            let apply = |lattice: &Lattice| {
                let mut out = vec![0.0; values.len()];
                let scaling = Scaling::NONE;
                lattice.apply(Direction::Forward, &values, 4, scaling, &mut out, &mut Workspace::new());
                out
            };
            assert_eq!(apply(&subset), apply(&built), "{points} points");
        }
    }
    assert!(Lattice::new(&[0.5], 1, Blur::Classic).unwrap().among(&[]).is_none());
}

#[test]
fn workspace_is_no_larger_than_stated() {
    for (dims, channels) in [(2, 1), (2, 21), (5, 7), (5, 70)] {
        let lattice = Lattice::new(&cloud(20_000, dims), dims, Blur::Symmetric).unwrap();
        let (mut out, mut workspace) = (vec![0.0; 20_000 * channels], Workspace::new());
        let values = cloud(20_000, channels);
        lattice.apply(Direction::Forward, &values, channels, Scaling::NONE, &mut out, &mut workspace);
        assert!(workspace.bytes() > 0 && workspace.bytes() <= lattice.workspace_bytes(channels));
    }
}
