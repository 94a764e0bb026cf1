//! Recorded outputs of other implementations on real data: filters and energies.
//! Skipped, with a message, where the data are not beside the project.

mod common;

use std::path::Path;

use common::{msrc_sample, shared, stereo_pair};
use relaxcrf::filter::{Blur, Direction, Exact, Lattice, Operator, Scaling, Workspace};
use relaxcrf::filter::{Separable, calibrate};
use relaxcrf::model::{FilterKind, Normalization};
use relaxcrf::{Labeling, Model, energy};
use relaxcrf_io::{list_npz, read_labels, read_npz};

fn relative_rms(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(want).map(|(&g, &w)| square(f64::from(g) - f64::from(w))).sum();
    let size: f64 = want.iter().map(|&w| square(f64::from(w))).sum();
    (error / size).sqrt()
}

fn apply(filter: &dyn Operator, direction: Direction, x: &[f32], channels: usize) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    filter.apply(direction, x, channels, Scaling::NONE, &mut out, &mut Workspace::new());
    out
}

#[test]
fn filters_on_the_recorded_crop() {
    let Some(file) = shared("reference/filter/crop_60x45.npz") else { return };
    let array = |name: &str| read_npz(&file, name).unwrap();
    let values = array("values");
    let channels = values.shape[1];
    let kernels: Vec<String> = list_npz(&file)
        .unwrap()
        .iter()
        .filter_map(|k| k.trim_end_matches(".npy").strip_suffix("/features").map(String::from))
        .collect();
    assert_eq!(kernels.len(), 4);
    for kernel in kernels {
        let get = |part: &str| array(&format!("{kernel}/{part}"));
        let features = get("features");
        let dims = features.shape[1];
        let classic = Lattice::new(&features.data, dims, Blur::Classic).unwrap();
        for (direction, name) in
            [(Direction::Forward, "lattice_forward"), (Direction::Transposed, "lattice_reverse")]
        {
            let error = relative_rms(&apply(&classic, direction, &values.data, channels), &get(name).data);
            assert!(error < 1e-4, "{kernel} {name}: {error}");
        }
        let vertices = get("lattice_vertices").data[0];
        assert!((classic.vertices() as f32 - vertices).abs() <= 1e-3 * vertices, "{kernel}: {vertices}");
        let error = relative_rms(&classic.diagonal(), &get("lattice_diagonal").data);
        assert!(error < 1e-4, "{kernel} diagonal: {error}");

        let exact = Exact::new(features.data.clone(), dims).unwrap();
        let error =
            relative_rms(&apply(&exact, Direction::Forward, &values.data, channels), &get("exact").data);
        assert!(error < 1e-5, "{kernel} exact: {error}");

        let symmetric = Lattice::new(&features.data, dims, Blur::Symmetric).unwrap();
        let found = calibrate(&symmetric, &features.data, dims, 200, 7).unwrap();
        let ones = vec![1.0; exact.points()];
        let truth = apply(&exact, Direction::Forward, &ones, 1);
        let scaled: Vec<f32> =
            apply(&symmetric, Direction::Forward, &ones, 1).iter().map(|x| x * found.scale).collect();
        let error = relative_rms(&scaled, &truth);
        let limit = if dims == 2 { 0.02 } else { 0.10 };
        println!("{kernel}: {dims}-d, scale {:.3}, K1 off by {error:.4} rms", found.scale);
        assert!(error < limit, "{kernel}: calibrated K1 is off by {error}");
        if dims == 2 {
            let sigma = 1.0 / features.data[2];
            let separable = Separable::new(&array("image").shape[..2], &[sigma, sigma]).unwrap();
            let error = relative_rms(&apply(&separable, Direction::Forward, &ones, 1), &truth);
            assert!(error < 1e-4, "separable: {error}");
        }
    }
}

fn labels(path: &Path) -> Labeling {
    Labeling::new(read_labels(path).unwrap().labels)
}

fn close(got: f64, want: f64, what: &str) {
    assert!((got - want).abs() <= 1e-4 * want.abs(), "{what}: {got} where {want} was recorded");
}

/// `Σ_ab K_ab`, self pairs included: turns rewards for equal labels into costs of different ones.
fn total_weight(model: &Model) -> f64 {
    relaxcrf::reduce::sum(model.pairwise().row_sums())
}

#[test]
fn energies_of_the_recorded_segmentations() {
    let Some(folder) = shared("reference/msrc_sample") else { return };
    let rows: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("released_code.json")).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    let mut checked = 0;
    for parameters in ["msrc_dcneg", "msrc_mf", "voc_dcneg", "voc_mf", "voc_mf5"] {
        let rows: Vec<_> = rows.iter().filter(|r| r["parameters"] == parameters).collect();
        for filter in [FilterKind::Lattice, FilterKind::LatticeClassic] {
            let [raw, normalized] = [Normalization::None, Normalization::Symmetric]
                .map(|n| msrc_sample(&folder, parameters, filter, n));
            for row in &rows {
                let method = row["method"].as_str().unwrap();
                let file = folder.join(format!("labels_{parameters}/{method}.png"));
                if !file.exists() {
                    continue;
                }
                let x = labels(&file);
                let what = format!("{parameters} {method} {filter}");
                let got = energy::of_labeling(&raw, &x).unwrap().total();
                close(got, row["E_raw_ne"].as_f64().unwrap(), &format!("{what} raw"));
                let got = energy::of_labeling(&normalized, &x).unwrap().total();
                let want = row["E_norm_eq"].as_f64().unwrap() + total_weight(&normalized);
                close(got, want, &format!("{what} normalised"));
                checked += 1;
            }
        }
    }
    assert!(checked >= 40, "only {checked} label maps were found");
}

#[test]
fn energies_of_the_recorded_disparity_maps() {
    for name in ["venus", "teddy"] {
        let (Some(folder), Some(data)) =
            (shared(&format!("reference/stereo/{name}")), shared(&format!("data/stereo/{name}")))
        else {
            return;
        };
        let record: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(folder.join("released_code.json")).unwrap())
                .unwrap();
        let model = stereo_pair(&data, record["labels"].as_u64().unwrap() as usize, FilterKind::Lattice);
        close(total_weight(&model), record["sum_of_K_including_self"].as_f64().unwrap(), name);
        for row in record["rows"].as_array().unwrap() {
            let method = row["method"].as_str().unwrap();
            let x = labels(&folder.join(format!("{method}.png")));
            let got = energy::of_labeling(&model, &x).unwrap().total();
            close(got, row["E_norm_ne"].as_f64().unwrap(), &format!("{name} {method}"));
        }
    }
}
