//! `relaxcrf demo`: its page, its files, and the commands that it prints.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{outcome, program};
use relaxcrf_io::{read_array, read_image, read_labels};

/// Labels of the landscape.
const CLASSES: usize = 8;

const FILES: [&str; 10] = [
    "photo.png",
    "probs.npy",
    "truth.png",
    "network.png",
    "refined.png",
    "left.png",
    "right.png",
    "disparity-truth.png",
    "disparity.png",
    "index.html",
];

fn run(folder: &Path, line: &str) -> common::Outcome {
    outcome(program(folder).args(line.split_whitespace()).output().unwrap())
}

/// A directory in which `relaxcrf` is a name in `PATH`, and that `PATH`.
#[cfg(unix)]
fn installed() -> (tempfile::TempDir, std::ffi::OsString) {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_relaxcrf"), folder.path().join("relaxcrf")).unwrap();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.path().to_path_buf()).chain(std::env::split_paths(&others));
    let path = std::env::join_paths(folders).unwrap();
    (folder, path)
}

/// The commands among what was printed.
fn commands(shown: &str) -> Vec<String> {
    let (_, rest) = shown.split_once("Commands to try").unwrap();
    rest.lines().skip(1).filter_map(|line| line.strip_prefix("  ")).map(String::from).collect()
}

fn shell(folder: &Path, line: &str, path: Option<&std::ffi::OsString>) -> common::Outcome {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder);
    path.map(|path| command.env("PATH", path));
    outcome(command.output().unwrap())
}

#[test]
#[cfg(unix)]
fn demo_prints_tables_and_commands_that_work_as_typed() {
    let place = tempfile::tempdir().unwrap();
    let shown = run(place.path(), "demo").fine().out;
    for text in [
        "accuracy",
        "mean IoU",
        "lower bound",
        "network alone",
        "mf5",
        "mf10 (default)",
        "qp+dc-neg",
        "graduated",
        "auto",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(shown.contains("for any browser: demo-out/index.html"), "{shown}");
    assert!(!shown.contains("time limit"), "every method runs to its end: {shown}");
    let mut names: Vec<String> = fs::read_dir(place.path().join("demo-out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected = FILES.map(String::from).to_vec();
    expected.sort();
    assert_eq!(names, expected, "these files and no others");

    let lines = commands(&shown);
    assert_eq!(lines.len(), 3, "{shown}");
    assert!(lines.iter().all(|line| line.contains(env!("CARGO_BIN_EXE_relaxcrf"))), "not in PATH: {lines:?}");
    for line in &lines {
        shell(place.path(), line, None).fine();
    }
    let labels = |name: &str| read_labels(&place.path().join(name)).unwrap().labels;
    assert!(place.path().join("compare.html").exists());
    assert_eq!(labels("disparity.png"), labels("demo-out/disparity.png"), "the same defaults");
    assert_eq!(labels("labels.png"), labels("demo-out/refined.png"), "the same defaults");
}

#[test]
#[cfg(unix)]
fn demo_json_is_documented_and_commands_name_the_installed_program() {
    let place = tempfile::tempdir().unwrap();
    let (_folder, path) = installed();
    let out = "demo --out 'my demo' --seed 2";
    let shown = shell(place.path(), &format!("relaxcrf {out}"), Some(&path)).fine().out;
    let lines = commands(&shown);
    assert!(
        lines[0].starts_with("relaxcrf segment 'my demo/photo.png' --probs 'my demo/probs.npy'"),
        "{lines:?}"
    );
    shell(place.path(), &lines[0], Some(&path)).fine();

    let found = shell(place.path(), &format!("relaxcrf {out} --json"), Some(&path)).fine().json();
    let scenes = found.as_array().unwrap();
    assert_eq!(scenes.len(), 2);
    for (scene, name) in scenes.iter().zip(["segmentation", "stereo"]) {
        assert_eq!(scene["name"], name);
        assert!(scene["width"].is_u64() && scene["height"].is_u64());
        assert_eq!(scene["page"], "my demo/index.html");
        for file in scene["files"].as_array().unwrap() {
            assert!(place.path().join(file.as_str().unwrap()).exists(), "{file}");
        }
        let quality = if name == "stereo" { "mean_error" } else { "mean_iou" };
        let start = &scene["start"];
        assert!(start["energy"].is_f64() && start["accuracy"].is_f64() && start[quality].is_f64());
        let runs = scene["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 5);
        for run in runs {
            for field in ["energy", "accuracy", "seconds", quality] {
                assert!(run[field].is_f64(), "{field}: {run}");
            }
            assert!(run["method"].is_string() && run["status"] != "time limit");
            let bound = run["lower_bound"].as_f64().unwrap_or(f64::NEG_INFINITY);
            assert!(run["energy"].as_f64().unwrap() >= bound - 1e-6 * bound.abs());
        }
    }
    // The refinement improves the generated network's labels.
    let runs = &scenes[0]["runs"];
    let default = runs.as_array().unwrap().iter().find(|run| run["method"] == "mf10").unwrap();
    for field in ["accuracy", "mean_iou"] {
        assert!(default[field].as_f64() > scenes[0]["start"][field].as_f64(), "{field}");
    }
}

#[test]
fn demo_inputs_belong_together_and_page_is_self_contained() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(run(place.path(), "demo -q --out here/demo").fine().out, "", "quiet");
    let file = |name: &str| -> PathBuf { place.path().join("here/demo").join(name) };
    let photo = read_image(&file("photo.png")).unwrap();
    let size = (photo.width, photo.height);
    assert_eq!(read_array(&file("probs.npy")).unwrap().shape, [CLASSES, size.1, size.0]);
    for name in ["truth.png", "network.png", "refined.png"] {
        let map = read_labels(&file(name)).unwrap();
        assert_eq!((map.width, map.height), size, "{name}");
        assert!(map.labels.iter().all(|&l| usize::from(l) < CLASSES), "{name}");
    }
    let left = read_image(&file("left.png")).unwrap();
    for name in ["right.png", "disparity-truth.png", "disparity.png"] {
        let picture = read_image(&file(name)).unwrap();
        assert_eq!((picture.width, picture.height), (left.width, left.height), "{name}");
    }
    let html = fs::read_to_string(file("index.html")).unwrap();
    let pictures = html.matches("<figure").count();
    assert_eq!((pictures, html.matches("<figcaption>").count()), (14, 14), "every picture has a caption");
    assert_eq!(html.matches("src=\"data:image/png;base64,").count(), pictures, "no picture is another file");
    for text in ["Photograph", "Network alone", "Refined by mf10", "Truth", "What changed", "Lowest energy:"]
    {
        assert!(html.contains(text), "{text}");
    }
}
