//! Mean field on real images: its promises, image by image.
//! A few of each set by default; all of them with `RELAXCRF_ALL_DATA=1`.

mod common;

use std::path::{Path, PathBuf};

use common::{msrc_sample, run, shared, stereo_pair};
use relaxcrf::model::{FilterKind, Normalization};
use relaxcrf::solve::Settings;
use relaxcrf::{Model, ModelBuilder, energy};

fn check(model: &Model, what: &str) {
    let solution = run(model, "mf", &Settings { max_iterations: Some(30), ..Settings::default() });
    for pair in solution.trace.windows(2) {
        assert!(
            pair[1].objective <= pair[0].objective,
            "{what}: the free energy rose from {} to {}",
            pair[0].objective,
            pair[1].objective
        );
    }
    let found = solution.best.energy.total();
    let unary = energy::of_labeling(model, &model.unary_argmin()).unwrap().total();
    let constant = energy::of_constants(model).into_iter().fold(f64::INFINITY, f64::min);
    assert!(found <= unary && found <= constant, "{what}: {found}, unary {unary}, constant {constant}");
}

fn picture(folder: &Path, name: &str) -> PathBuf {
    ["png", "jpg", "bmp"]
        .map(|e| folder.join(format!("{name}.{e}")))
        .into_iter()
        .find(|p| p.exists())
        .unwrap()
}

#[test]
fn mean_field_keeps_its_promises_on_the_segmentation_sets() {
    let all = std::env::var_os("RELAXCRF_ALL_DATA").is_some();
    for set in ["msrc", "voc", "camvid"] {
        let Some(folder) = shared(&format!("data/segmentation/{set}")) else { return };
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder.join("probs")).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        files.truncate(if all { files.len() } else { 2 });
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let image = relaxcrf_io::read_image(&picture(&folder.join("images"), name)).unwrap();
            let array = relaxcrf_io::read_array(&file).unwrap();
            let labels = array.shape[0];
            let model = ModelBuilder::image(image.width, image.height, labels)
                .probabilities(&array.into_label_rows(0).unwrap())
                .unwrap()
                .gaussian(3.0, 1.5)
                .bilateral(image.data, 80.0, 13.0, 5.0)
                .build()
                .unwrap();
            check(&model, &format!("{set} {name}"));
        }
    }
}

#[test]
fn mean_field_keeps_its_promises_on_strongly_coupled_problems() {
    if let Some(folder) = shared("reference/msrc_sample") {
        for parameters in ["msrc_dcneg", "msrc_mf", "voc_mf5"] {
            for normalization in [Normalization::Symmetric, Normalization::None] {
                let model = msrc_sample(&folder, parameters, FilterKind::Lattice, normalization);
                check(&model, &format!("sample {parameters} {normalization}"));
            }
        }
    }
    if let Some(folder) = shared("data/stereo/venus") {
        check(&stereo_pair(&folder, 20, FilterKind::Lattice), "venus");
    }
}
