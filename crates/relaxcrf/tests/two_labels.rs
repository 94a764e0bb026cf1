//! `exact`: small crops of a photograph against a maximum flow over all pairs, full photographs against the bound.

mod common;

use common::{exhaustive, random_costs, random_model, run, shared, try_run};
use petgraph::algo::maximum_flow::dinics;
use petgraph::graph::DiGraph;
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{Settings, Status};
use relaxcrf::{Model, ModelBuilder};

const SPATIAL: (f32, f32) = (3.0, 3.0);
const BILATERAL: (f32, f32, f32) = (40.0, 10.0, 8.0);

struct Crop {
    width: usize,
    height: usize,
    colors: Vec<f32>,
    unary: Vec<f32>,
}

/// A piece of a photograph.
fn crop(folder: &std::path::Path, width: usize, height: usize, at: (usize, usize)) -> Crop {
    let image = relaxcrf_io::read_image(&folder.join("2_14_s.bmp")).unwrap();
    let pixels: Vec<usize> =
        (0..width * height).map(|k| (at.1 + k / width) * image.width + at.0 + k % width).collect();
    // Bright against dark, with the median between them, so that both labels have a chance.
    let brightness = |&a: &usize| image.data[3 * a..3 * a + 3].iter().sum::<f32>();
    let lead: Vec<f32> = pixels.iter().map(brightness).collect();
    let mut sorted = lead.clone();
    sorted.sort_by(f32::total_cmp);
    let middle = sorted[sorted.len() / 2];
    let unary = lead.iter().flat_map(|l| [0.0, 0.1 * (l - middle)]).collect();
    let colors = pixels.iter().flat_map(|&a| image.data[3 * a..3 * a + 3].to_vec()).collect();
    Crop { width, height, colors, unary }
}

fn model(crop: &Crop) -> Model {
    ModelBuilder::image(crop.width, crop.height, 2)
        .unary(crop.unary.clone())
        .gaussian(SPATIAL.0, SPATIAL.1)
        .bilateral(crop.colors.clone(), BILATERAL.0, BILATERAL.1, BILATERAL.2)
        .filter(FilterKind::Exact)
        .normalization(Normalization::Symmetric)
        .build()
        .unwrap()
}

/// All pair weights from the formula, in double precision: nothing of the crate is used.
fn pair_weights(crop: &Crop) -> Vec<f64> {
    let n = crop.width * crop.height;
    let mut total = vec![0.0; n * n];
    for (sigma, color, weight) in [(SPATIAL.0, f32::INFINITY, SPATIAL.1), BILATERAL] {
        let kernel = |a: usize, b: usize| {
            let difference = |p: f64, q: f64, s: f32| (p - q) / f64::from(s);
            let mut squared = difference((a % crop.width) as f64, (b % crop.width) as f64, sigma).powi(2)
                + difference((a / crop.width) as f64, (b / crop.width) as f64, sigma).powi(2);
            for c in 0..3 {
                let (p, q) = (crop.colors[3 * a + c], crop.colors[3 * b + c]);
                squared += difference(p.into(), q.into(), color).powi(2);
            }
            (-0.5 * squared).exp()
        };
        let matrix: Vec<f64> = (0..n * n).map(|k| kernel(k / n, k % n)).collect();
        let sums: Vec<f64> = matrix.chunks_exact(n).map(|row| row.iter().sum::<f64>().sqrt()).collect();
        for (k, (t, &v)) in total.iter_mut().zip(&matrix).enumerate() {
            *t += f64::from(weight) * v / (sums[k / n] * sums[k % n]);
        }
    }
    total
}

/// The optimum by a maximum flow over all pairs, in units of 1e-9.
fn by_flow(crop: &Crop) -> f64 {
    const UNIT: f64 = 1e-9;
    let n = crop.width * crop.height;
    let weights = pair_weights(crop);
    let whole = |w: f64| (w / UNIT).round() as u64;
    let mut edges = Vec::new();
    let (source, sink) = (n as u32, n as u32 + 1);
    let mut constant = 0.0;
    for (a, phi) in crop.unary.chunks_exact(2).enumerate() {
        let (zero, one) = (f64::from(phi[0]), f64::from(phi[1]));
        constant += zero.min(one);
        edges.push((source, a as u32, whole((one - zero).max(0.0))));
        edges.push((a as u32, sink, whole((zero - one).max(0.0))));
        for b in 0..n {
            if b != a && whole(2.0 * weights[a * n + b]) > 0 {
                edges.push((a as u32, b as u32, whole(2.0 * weights[a * n + b])));
            }
        }
    }
    let graph = DiGraph::<(), u64>::from_edges(edges);
    let (flow, _) = dinics(&graph, source.into(), sink.into());
    constant + flow as f64 * UNIT
}

#[test]
fn crops_are_solved_to_the_optimum() {
    let Some(folder) = shared("reference/msrc_sample") else { return };
    let mut sizes = vec![(30, 20, (100, 150)), (36, 30, (60, 120))];
    if std::env::var_os("RELAXCRF_ALL_DATA").is_some() {
        sizes.push((60, 45, (80, 130)));
    }
    for (width, height, at) in sizes {
        let crop = crop(&folder, width, height, at);
        let optimum = by_flow(&crop);
        let solution = run(&model(&crop), "exact", &Settings::default());
        let energy = solution.energy.total();
        let what = format!("{width}x{height}: {energy} against {optimum}");
        assert!((energy - optimum).abs() <= 1e-6 * optimum.abs(), "{what}");
        assert_eq!(solution.status, Status::Converged, "{what}");
        assert_eq!(solution.gap(), Some(0.0), "{what}");
        let used = solution.labeling.as_slice();
        assert!(used.contains(&0) && used.contains(&1), "{width}x{height}: a constant proves little");
    }
}

#[test]
fn photographs_are_solved_to_a_hundredth_of_a_percent() {
    let Some(folder) = shared("data/segmentation/voc") else { return };
    // The optimum of the first is one label, that of the second both.
    for (name, used) in [("2007_001955", 1), ("2007_004866", 2)] {
        let array = relaxcrf_io::read_array(&folder.join(format!("probs/{name}.npz"))).unwrap();
        let image = relaxcrf_io::read_image(&folder.join(format!("images/{name}.jpg"))).unwrap();
        let labels = array.shape[0];
        let rows = array.into_label_rows(0).unwrap();
        let two: Vec<f32> = rows.chunks_exact(labels).flat_map(|r| [r[0], 1.0 - r[0]]).collect();
        let model = ModelBuilder::image(image.width, image.height, 2)
            .probabilities(&two)
            .unwrap()
            .gaussian(3.0, 3.0)
            .bilateral(image.data, 80.0, 13.0, 10.0)
            .filter(FilterKind::Lattice)
            .build()
            .unwrap();
        let settings = Settings { max_iterations: Some(100), until_gap: Some(1e-4), ..Settings::default() };
        let solution = run(&model, "exact", &settings);
        assert!(solution.gap().unwrap() <= 1e-4, "{name}: {:?}", solution.gap());
        assert!(solution.counts.ordered <= 100);
        let labels = solution.labeling.as_slice();
        assert_eq!((0..2).filter(|l| labels.contains(l)).count(), used, "{name}");
    }
}

#[test]
fn tiny_problems_are_solved_at_once() {
    for seed in 0..20 {
        for filter in [FilterKind::Exact, FilterKind::Lattice] {
            let model = random_model(9, 2, seed, [0.05, 0.2, 0.6][seed as usize % 3], filter);
            let (_, optimum) = exhaustive(&model);
            let solution = run(&model, "exact", &Settings::default());
            assert!((solution.energy.total() - optimum).abs() <= 1e-5 * (1.0 + optimum.abs()));
            assert_eq!(solution.gap(), Some(0.0));
        }
    }
}

#[test]
fn more_labels_are_refused() {
    let model = random_model(9, 3, 1, 0.3, FilterKind::Exact);
    let error = try_run(&model, "exact").unwrap_err().to_string();
    assert!(error.contains("two labels") && error.contains("3") && error.contains("smooth-lp"), "{error}");
}

#[test]
fn moves_never_raise_the_energy_and_often_reach_the_optimum() {
    let (mut reached, mut tried) = (0, 0);
    for seed in 0..12 {
        let model = random_model(8, 3, 50 + seed, [0.05, 0.15, 0.4][seed as usize % 3], FilterKind::Exact);
        let (_, optimum) = exhaustive(&model);
        let start = run(&model, "unary", &Settings::default()).energy.total();
        for method in ["unary+expand", "unary+swap"] {
            let solution = run(&model, method, &Settings::default());
            assert!(solution.final_energy.total() <= start + 1e-6, "{method} raised {start}");
            for pair in solution.trace[1..].windows(2) {
                assert!(pair[1].objective <= pair[0].objective + 1e-9, "{method}");
            }
            tried += 1;
            reached += usize::from(solution.final_energy.total() <= optimum + 1e-4 * model.scale());
        }
    }
    assert!(2 * reached >= tried, "{reached} of {tried}");
}

#[test]
fn swaps_take_any_costs() {
    let (mut reached, mut better) = (0, 0);
    for seed in 0..12 {
        let costs = match seed % 3 {
            0 => Compatibility::linear(4, None).unwrap(),
            1 => Compatibility::linear(4, Some(2.0)).unwrap(),
            // Two labels that attract, and costs of a label with itself.
            _ => Compatibility::matrix(3, vec![0.3, -0.2, 1.0, -0.2, 0.0, 2.0, 1.0, 2.0, 0.1]).unwrap(),
        };
        let model = random_costs(8, costs, 80 + seed, [0.05, 0.15, 0.4][seed as usize / 4]);
        let (_, optimum) = exhaustive(&model);
        let start = run(&model, "unary", &Settings::default()).energy.total();
        let solution = run(&model, "unary+swap", &Settings::default());
        let found = solution.final_energy.total();
        assert!(
            found <= start + 1e-6 && found >= optimum - 1e-5 * model.scale(),
            "{found}, {optimum} to {start}"
        );
        better += usize::from(found < start - 1e-3);
        reached += usize::from(found <= optimum + 1e-4 * model.scale());
    }
    assert!(better >= 6 && reached >= 4, "better {better}, optimal {reached} of 12");
    let linear = random_costs(8, Compatibility::linear(3, None).unwrap(), 1, 0.1);
    let error = try_run(&linear, "expand").unwrap_err().to_string();
    assert!(error.contains("Potts") && error.contains("swap"), "{error}");
}
