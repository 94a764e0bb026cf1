//! `learn` on small generated data: what it writes, and that it goes on where it was stopped.

use std::fs;
use std::path::Path;

use relaxcrf::presets;
use relaxcrf_io::{Palette, read_preset, write_image, write_labels, write_npy_f32};
use relaxcrf_lab::learn::{LearnOptions, run};
use relaxcrf_lab::options::DataOptions;
use relaxcrf_lab::progress::Silent;
use relaxcrf_lab::specs::{LearnLoss, LearnPart, PresetSpec};
use relaxcrf_lab::synth::segmentation;

const LABELS: usize = 3;

/// A data directory of a few scenes.
fn data(root: &Path, images: u64) {
    for folder in ["images", "truth", "probs"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let mut ids = String::new();
    for seed in 0..images {
        let scene = segmentation(40, 30, LABELS, seed).unwrap();
        write_image(&root.join(format!("images/s{seed}.png")), &scene.image).unwrap();
        let truth = root.join(format!("truth/s{seed}.png"));
        write_labels(&truth, 40, 30, scene.truth.as_slice(), &Palette::voc()).unwrap();
        let planes: Vec<f32> =
            (0..LABELS).flat_map(|l| scene.probabilities.iter().skip(l).step_by(LABELS).copied()).collect();
        write_npy_f32(&root.join(format!("probs/s{seed}.npy")), &[LABELS, 30, 40], &planes).unwrap();
        ids += &format!("s{seed}\n");
    }
    fs::write(root.join("val.txt"), ids).unwrap();
}

fn options(root: &Path, output: &str) -> LearnOptions {
    LearnOptions {
        data: DataOptions { data: root.to_path_buf(), limit: None, truth: "truth".into(), void: None },
        split: "val".into(),
        method: "mf3".parse().unwrap(),
        loss: LearnLoss::Iou,
        what: vec![LearnPart::Weights, LearnPart::Widths, LearnPart::Unary, LearnPart::Compat],
        start: PresetSpec::default(),
        folds: 2,
        output: root.join(output),
        report: None,
    }
}

#[test]
fn learned_preset_is_written_with_a_report() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    data(root, 4);
    let report = root.join("report.html");
    let learned =
        run(&LearnOptions { report: Some(report.clone()), ..options(root, "a.toml") }, &Silent).unwrap();
    let preset = read_preset(&root.join("a.toml")).unwrap();
    assert_eq!((preset.method.as_ref(), preset.normalization), ("mf3", presets::default().normalization));
    assert!(!root.join("a.toml.progress.jsonl").exists());
    let page = fs::read_to_string(report).unwrap();
    assert!(page.contains("Which parts were freed") && page.contains("Learning curves"));
    let json = learned.as_json();
    assert_eq!(json["parts"].as_array().unwrap().len(), 5);
    let [start, after] = ["before", "after"].map(|k| json["against_start"][k].as_f64().unwrap());
    assert!(after >= start, "left-out images must not get worse: {start} -> {after}");
    assert!(learned.facts().iter().any(|(name, _)| *name == "preset"));
}

#[test]
fn interrupted_run_goes_on_and_ends_with_the_same_file() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    data(root, 3);
    run(&options(root, "a.toml"), &Silent).unwrap();
    // A run that cannot write its result keeps its progress; of that the last part is lost, as after a kill.
    let (again, progress) = (options(root, "b.toml"), root.join("b.toml.progress.jsonl"));
    fs::create_dir(root.join("b.toml")).unwrap();
    assert!(run(&again, &Silent).is_err());
    let stored = fs::read(&progress).unwrap();
    fs::write(&progress, &stored[..stored.len() * 2 / 3]).unwrap();
    fs::remove_dir(root.join("b.toml")).unwrap();
    run(&again, &Silent).unwrap();
    assert_eq!(fs::read(root.join("a.toml")).unwrap(), fs::read(root.join("b.toml")).unwrap());
    // Progress of other options is not taken.
    fs::write(&progress, &stored).unwrap();
    let other = LearnOptions { loss: LearnLoss::CrossEntropy, ..again };
    let e = format!("{:#}", run(&other, &Silent).unwrap_err());
    assert!(e.contains("b.toml.progress.jsonl") && e.contains("another fit"), "{e}");
}

#[test]
fn methods_and_presets_that_cannot_be_learned_for_are_refused() {
    let place = tempfile::tempdir().unwrap();
    data(place.path(), 2);
    let base = options(place.path(), "x.toml");
    let message = |options: LearnOptions| format!("{:#}", run(&options, &Silent).unwrap_err());
    assert!(
        message(LearnOptions { method: "graduated".parse().unwrap(), ..base.clone() }).contains("mf1 to")
    );
    assert!(message(LearnOptions { start: "text".parse().unwrap(), ..base.clone() }).contains("symmetric"));
    assert!(message(LearnOptions { start: "w-net".parse().unwrap(), ..base.clone() }).contains("positive"));
    write_labels(&place.path().join("truth/s1.png"), 3, 2, &[0; 6], &Palette::voc()).unwrap();
    assert!(message(base).contains("3x2"));
}
