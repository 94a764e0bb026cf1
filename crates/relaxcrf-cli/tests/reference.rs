//! The energy command against the recorded figures of the released program of the paper.

mod common;

use std::path::Path;

use common::{Place, shared};
use relaxcrf_io::{read_image, write_npy_f32};
use relaxcrf_stereo::{CostOptions, cost};
use serde_json::Value;

const FILTERS: [&str; 2] = ["lattice", "lattice-classic"];

fn energy(line: &str) -> f64 {
    let folder = std::env::temp_dir();
    let output = common::program(&folder).args(line.split_whitespace()).output().unwrap();
    common::outcome(output).fine().json()["energy"].as_f64().unwrap()
}

fn close(got: f64, want: f64, scale: f64, what: &str) {
    assert!((got - want).abs() <= 1e-4 * scale.abs(), "{what}: {got} where {want} was recorded");
}

fn record(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("released_code.json")).unwrap()).unwrap()
}

#[test]
fn segmentations_equal_the_recorded_ones() {
    let Some(folder) = shared("reference/msrc_sample") else { return };
    let folder = std::fs::canonicalize(folder).unwrap();
    let rows = record(&folder);
    let mut checked = 0;
    for parameters in ["msrc_dcneg", "msrc_mf", "voc_dcneg", "voc_mf", "voc_mf5"] {
        // What turns rewards for equal labels into costs of different ones, where it is on record.
        let constant = match parameters {
            "msrc_dcneg" => Some(266_190.0),
            "msrc_mf" => Some(778_326.4),
            _ => None,
        };
        for filter in FILTERS {
            let mut shift = constant;
            for row in rows.as_array().unwrap().iter().filter(|r| r["parameters"] == parameters) {
                let method = row["method"].as_str().unwrap();
                let labels = folder.join(format!("labels_{parameters}/{method}.png"));
                if !labels.exists() {
                    continue;
                }
                let line = |normalization: &str| {
                    format!(
                        "energy {f}/2_14_s.bmp --unary {f}/2_14_s.c_unary --labels {l} --filter {filter} --json \
                         --gaussian {}:{} --bilateral {}:{}:{} --normalization {normalization}",
                        row["spatial_sigma"],
                        row["spatial_weight"],
                        row["bilateral_sigma_xy"],
                        row["bilateral_sigma_rgb"],
                        row["bilateral_weight"],
                        f = folder.display(),
                        l = labels.display(),
                    )
                };
                let what = format!("{parameters} {method} {filter}");
                let want = row["E_raw_ne"].as_f64().unwrap();
                close(energy(&line("none")), want, want, &format!("{what} raw"));
                let (got, equal) = (energy(&line("symmetric")), row["E_norm_eq"].as_f64().unwrap());
                // Without a constant on record, the first method's stands for all.
                let shift = *shift.get_or_insert(got - equal);
                close(got, equal + shift, got, &format!("{what} normalised"));
                checked += 1;
            }
        }
    }
    assert!(checked >= 60, "only {checked} label maps were found");
}

#[test]
fn disparity_maps_equal_the_recorded_ones() {
    for name in ["venus", "teddy"] {
        let (Some(folder), Some(data)) =
            (shared(&format!("reference/stereo/{name}")), shared(&format!("data/stereo/{name}")))
        else {
            return;
        };
        let (folder, data) = (std::fs::canonicalize(folder).unwrap(), std::fs::canonicalize(data).unwrap());
        let record = record(&folder);
        let labels = record["labels"].as_u64().unwrap() as usize;
        let [left, right] = ["im2.png", "im6.png"].map(|file| read_image(&data.join(file)).unwrap());
        let options = CostOptions { rounding: Some(0.01), ..Default::default() };
        let costs = cost(&left, &right, labels, &options).unwrap();
        let place = Place::new();
        let unary = place.path("costs.npy");
        write_npy_f32(&unary, &[left.height, left.width, labels], &costs).unwrap();
        for filter in FILTERS {
            for row in record["rows"].as_array().unwrap() {
                let method = row["method"].as_str().unwrap();
                let got = energy(&format!(
                    "energy {}/im2.png --unary {} --label-axis -1 --labels {}/{method}.png --filter {filter} --json \
                     --gaussian {}:{} --bilateral {}:{}:{}",
                    data.display(),
                    unary.display(),
                    folder.display(),
                    record["spatial_sigma"],
                    record["spatial_weight"],
                    record["bilateral_sigma_xy"],
                    record["bilateral_sigma_rgb"],
                    record["bilateral_weight"],
                ));
                let want = row["E_norm_ne"].as_f64().unwrap();
                close(got, want, want, &format!("{name} {method} {filter}"));
            }
        }
    }
}
