//! What fuzzing and hostile input found, each case by hand: see docs/robustness.md.

mod common;

use common::{exhaustive, run, try_run};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{METHODS, Settings};
use relaxcrf::{Error, ModelBuilder, energy, tiles};

/// Steps of length 1 / scale overflowed when all energies of a pixel were alike.
#[test]
fn energies_that_leave_no_scale() {
    for labels in [1, 3] {
        let model = ModelBuilder::points(3, labels).unary(vec![5.0; 3 * labels]).build().unwrap();
        assert_eq!(model.scale(), 0.0);
        for method in METHODS.iter().filter(|m| m.name != "exact") {
            let solution = run(&model, method.name, &Settings::default());
            assert_eq!(solution.energy.total(), 15.0, "{}", method.name);
            for row in solution.beliefs.as_slice().chunks_exact(labels) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{}: {row:?}", method.name);
            }
        }
    }
}

/// The bound of the QP was the difference of numbers as large as the energies' constant, or as the stand-in for forbidden
/// labels, and their rounding lifted it above the optimum.
#[test]
fn bounds_hold_whatever_constant_energies_have() {
    let number = |k: usize| ((k as f32 + 0.7) * 12.9898).sin();
    for (constant, size) in [(0.0, 1e-6), (1e4, 1.0), (-1e6, 1.0), (3e7, 100.0)] {
        for forbidden in [false, true] {
            let mut unary: Vec<f32> = (0..300 * 3).map(|k| constant + size * number(k)).collect();
            if forbidden {
                (0..300).for_each(|a| unary[3 * a + a % 3] = f32::INFINITY);
            }
            let positions = (0..300).map(|a| 0.5 * a as f32).collect();
            let model = ModelBuilder::points(300, 3)
                .unary(unary)
                .features(positions, 1, 1e-3 * size)
                .filter(FilterKind::Exact)
                .build()
                .unwrap();
            // So weak a kernel that every pixel gets what it prefers, or nearly so.
            let best = run(&model, "graduated/mf/unary", &Settings::default()).energy.total();
            for method in ["qp", "qp:fw", "lp", "smooth-lp", "prox-lp"] {
                let solution = run(&model, method, &Settings::default());
                let bound = solution.lower_bound.unwrap().value;
                let best = best.min(solution.energy.total());
                assert!(bound <= best, "{method}: {bound} above {best}, constant {constant}, {forbidden}");
                // No tighter than single precision, and not much looser.
                let resolution = f64::from(f32::EPSILON) * best.abs() + 300.0 * 1e-2 * f64::from(size);
                assert!(
                    bound >= best - resolution,
                    "{method}: {bound} far below {best}, constant {constant}"
                );
            }
        }
    }
}

/// The stand-in for infinite energies was one or so above the others: mean field believed in forbidden labels.
#[test]
fn nothing_is_believed_of_forbidden_labels() {
    let infinite = f32::INFINITY;
    for strength in [0.0, 3.0] {
        let model = ModelBuilder::points(2, 3)
            .unary(vec![0.0, infinite, 0.2, 0.1, 0.3, infinite])
            .features(vec![0.0, 1.0], 1, strength)
            .filter(FilterKind::Exact)
            .build()
            .unwrap();
        for method in METHODS.iter().filter(|m| m.name != "exact") {
            let beliefs = run(&model, method.name, &Settings::default()).beliefs;
            let forbidden = [beliefs.as_slice()[1], beliefs.as_slice()[5]];
            assert_eq!(forbidden, [0.0, 0.0], "{}: {beliefs:?}", method.name);
        }
    }
}

/// The stand-in for a forbidden label was lost in rounding, and an allowed energy of 1e30 looked like one.
#[test]
fn large_energies_are_not_forbidden() {
    let unary = vec![-0.2, 1e30, -1e30, 24.0];
    let one = ModelBuilder::points(4, 1).unary(unary.clone()).build().unwrap();
    assert!(run(&one, "mf", &Settings::default()).energy.total().is_finite());
    let two = ModelBuilder::points(2, 2).unary(vec![1e30, f32::INFINITY, 0.0, 1.0]).build().unwrap();
    assert!(two.forbidden() > 1e30);
    for method in METHODS {
        let solution = run(&two, method.name, &Settings::default());
        assert_eq!(solution.labeling.as_slice()[0], 0, "{}", method.name);
        assert_eq!(solution.energy.total(), f64::from(1e30f32), "{}", method.name);
    }
}

/// Weights whose sums over neighbours and labels overflow gave NaN; now they are refused.
#[test]
fn kernels_too_strong_for_single_precision() {
    let build = |weight: f32, cost: f32| {
        ModelBuilder::points(3, 2)
            .unary(vec![0.0, 1.0, 1.0, 0.0, 0.5, 0.5])
            .features(vec![0.0, 0.1, 0.2], 1, weight)
            .compatibility(Compatibility::per_label(vec![cost, cost]).unwrap())
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
    };
    for (weight, cost) in [(3e38, 1.0), (1e30, 1.0), (1.0, 3e38), (1e20, 1e20)] {
        let error = build(weight, cost).unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{error}");
        assert!(error.to_string().contains("strength of the pairwise term"), "{error}");
    }
    // Up to there every method finds the optimum: all pixels alike.
    let model = build(1e28, 1.0).unwrap();
    let (_, optimum) = exhaustive(&model);
    for method in METHODS.iter().filter(|m| !["unary", "expand"].contains(&m.name)) {
        let solution = try_run(&model, method.name).unwrap();
        assert!((solution.energy.total() - optimum).abs() < 1e-5, "{}", method.name);
        let again = energy::of_labeling(&model, &solution.labeling).unwrap();
        assert_eq!(again, solution.energy, "{}", method.name);
    }
}

/// The halo of a kernel as wide as the world overflowed.
#[test]
fn halos_without_bounds() {
    let error = tiles::side(1 << 30, 100, tiles::halo([1e30]), 2).unwrap_err().to_string();
    assert!(error.contains("memory for a tile"), "{error}");
}

mod files {
    use std::fs;
    use std::path::Path;

    use relaxcrf_io as io;

    const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/tiff/");

    /// The logarithm of the sum was swallowed by scores of 1e20: both labels came out as certain.
    #[test]
    fn large_scores_keep_their_logarithm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.c_unary");
        let mut bytes: Vec<u8> = [1u32, 1, 2, 1].iter().flat_map(|v| v.to_be_bytes()).collect();
        bytes.extend(1e20f32.to_be_bytes());
        bytes.extend([7i32, 7, 0].iter().flat_map(|v| v.to_be_bytes()));
        fs::write(&path, &bytes).unwrap();
        let energies = io::CompressedScores::read(&path).unwrap().energies().label_rows();
        assert!(energies.iter().all(|&e| (e - 2f32.ln()).abs() < 1e-6), "{energies:?}");
    }

    /// A raster of many bands could be read, but not measured beforehand: `--max-memory` failed on it.
    #[test]
    fn every_picture_that_can_be_read_has_a_size() {
        for name in ["bands.tif", "big.tif", "planes.tif", "rgb.tif"] {
            let path = Path::new(SEEDS).join(name);
            let image = io::read_image(&path).unwrap();
            let size = io::image_size(&path).unwrap();
            assert_eq!(size, (image.width, image.height, image.channels), "{name}");
        }
    }

    /// A header of a hundred bytes asked for 70 TB at once.
    #[test]
    fn rasters_are_believed_only_as_far_as_their_length() {
        let path = Path::new(SEEDS).join("found-claims-terabytes.tif");
        for error in [io::read_image(&path).unwrap_err(), io::read_labels(&path).unwrap_err()] {
            assert!(error.to_string().contains("terabytes.tif"), "{error}");
        }
    }
}
