//! `relaxcrf batch`: where it finds its inputs, and which results it points out.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{Outcome, outcome, program};
use relaxcrf::Image;
use relaxcrf_io::{Palette, read_labels, write_image, write_labels, write_npy_f32};
use relaxcrf_lab::synth;
use serde_json::Value;

const WIDTH: usize = 24;
const HEIGHT: usize = 20;

/// A directory with images, probabilities of two labels and truth in `set`, removed at the end.
struct Place {
    folder: tempfile::TempDir,
    names: Vec<String>,
}

impl Place {
    fn new(count: usize) -> Self {
        let names = (0..count).map(|k| format!("im{k:02}")).collect();
        let place = Self { folder: tempfile::tempdir().unwrap(), names };
        for (k, name) in place.names.iter().enumerate() {
            let scene = synth::segmentation(WIDTH, HEIGHT, 2, k as u64).unwrap();
            let foreground: Vec<f32> = scene.probabilities.iter().skip(1).step_by(2).copied().collect();
            place.image(name, &scene.image);
            place.probabilities("probs", name, &foreground);
            place.map("truth", name, scene.truth.as_slice());
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, folder: &str, name: &str, ending: &str) -> PathBuf {
        fs::create_dir_all(self.path("set").join(folder)).unwrap();
        self.path(&format!("set/{folder}/{name}.{ending}"))
    }

    fn image(&self, name: &str, image: &Image) {
        write_image(&self.file("images", name, "png"), image).unwrap();
    }

    fn probabilities(&self, folder: &str, name: &str, foreground: &[f32]) {
        let both: Vec<f32> = foreground.iter().map(|p| 1.0 - p).chain(foreground.iter().copied()).collect();
        write_npy_f32(&self.file(folder, name, "npy"), &[2, HEIGHT, WIDTH], &both).unwrap();
    }

    fn map(&self, folder: &str, name: &str, labels: &[u16]) {
        write_labels(&self.file(folder, name, "png"), WIDTH, HEIGHT, labels, &Palette::voc()).unwrap();
    }

    fn run(&self, line: &str) -> Outcome {
        let mut command = program(self.folder.path());
        outcome(command.args(line.split_whitespace()).output().unwrap())
    }

    /// The label maps that a run wrote.
    fn results(&self, out: &str) -> Vec<Vec<u16>> {
        let read = |name| read_labels(&self.path(&format!("{out}/labels/{name}.png"))).unwrap().labels;
        self.names.iter().map(read).collect()
    }

    fn log(&self, out: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(&format!("{out}/log.jsonl"))).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn probabilities_and_truth_are_found_in_folders_beside_the_images() {
    let place = Place::new(3);
    place.run("batch set -o whole --method mf5 -q").fine();
    for (k, input) in
        ["set/images", "set/images/*.png", "set/images/im00.png set/images/im01.png set/images/im02.png"]
            .iter()
            .enumerate()
    {
        let run = place.run(&format!("batch {input} -o out{k} --method mf5 --json"));
        assert_eq!(run.err, "relaxcrf: note: truth for 3 of 3 images found in set/truth\n");
        assert_eq!(run.json()["with_truth"], 3);
        assert_eq!(place.results(&format!("out{k}")), place.results("whole"), "{input}");
    }
    // Files beside the image come first.
    place.probabilities("images", "im00", &[0.01; WIDTH * HEIGHT]);
    place.run("batch set/images/im00.png -o beside --method mf5 -q").fine();
    let map = read_labels(&place.path("beside/labels/im00.png")).unwrap();
    assert!(map.labels.iter().all(|&l| l == 0));
}

#[test]
fn missing_probabilities_are_one_error_that_names_the_searched_places() {
    let place = Place::new(3);
    fs::rename(place.path("set/probs"), place.path("set/elsewhere")).unwrap();
    let texts = [
        "none of the 3 images has unary energies",
        "a .npy, .npz or .c_unary file of the same name beside it",
        "a file in set/probs",
        "--probs, --logits, --unary or --labels",
    ];
    let run = place.run("batch set/images -o out").failed(1, &texts);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    place
        .run("batch set -o out")
        .failed(1, &["set: has none of probs/, logits/, unary/ and labels/", "--probs"]);
    place.map("other", "unrelated", &[0; WIDTH * HEIGHT]);
    let texts = ["none of the 3 images", "set/other: holds no file for `im00`; expected im00.png"];
    place.run("batch set -o out --labels set/other").failed(1, &texts);
    assert!(!place.path("out").exists());
    // One that is missing is that image's failure.
    fs::rename(place.path("set/elsewhere"), place.path("set/probs")).unwrap();
    fs::remove_file(place.path("set/probs/im01.npy")).unwrap();
    let run = place.run("batch set/images -o out --method mf5");
    assert!(
        run.code == 1 && run.out.contains("2 done, 0 finished before, 1 failed"),
        "{}{}",
        run.out,
        run.err
    );
    assert!(run.err.contains("im01: ") && run.err.contains("a file in set/probs"), "{}", run.err);
}

#[test]
fn masks_are_written_with_their_own_values_and_measured() {
    let place = Place::new(3);
    for name in &place.names {
        let truth = read_labels(&place.path(&format!("set/truth/{name}.png"))).unwrap().labels;
        place.map("01", name, &truth);
        let mask: Vec<u16> = truth.iter().map(|l| 255 * l).collect();
        place.map("masks", name, &mask);
        place.map("mask-truth", name, &mask);
    }
    let json = place.run("batch set --labels set/01 -o plain --method mf5 --json").fine().json();
    let run = place.run("batch set --labels set/masks --truth set/mask-truth -o out --method mf5 --json");
    assert_eq!(run.err.matches("a mask with the values 0 and 255").count(), 1, "said once: {}", run.err);
    assert_eq!(run.json()["accuracy"], json["accuracy"]);
    let restored: Vec<Vec<u16>> =
        place.results("plain").iter().map(|map| map.iter().map(|l| 255 * l).collect()).collect();
    assert_eq!(place.results("out"), restored);
    let notes =
        place.log("out").iter().filter(|r| r["notes"][0].as_str().unwrap().contains("a mask")).count();
    assert_eq!(notes, 3);
    // Probabilities of two labels with a mask as the truth.
    let plain = place.run("batch set -o a --method mf5 --json").fine().json();
    let masks = place.run("batch set -o b --method mf5 --truth set/mask-truth --json").json();
    assert_eq!(masks["accuracy"], plain["accuracy"]);
}

#[test]
fn logits_and_foreground_pictures_are_taken_from_their_folders() {
    let place = Place::new(2);
    place.run("batch set -o plain --method mf5 -q").fine();
    for name in &place.names {
        let p = relaxcrf_io::read_array(&place.path(&format!("set/probs/{name}.npy"))).unwrap();
        let logits: Vec<f32> = p.data.iter().map(|p| p.max(1e-5).ln()).collect();
        write_npy_f32(&place.file("logits", name, "npy"), &p.shape, &logits).unwrap();
        let grey: Vec<u16> = p.data[WIDTH * HEIGHT..].iter().map(|p| (p * 65_535.0) as u16).collect();
        relaxcrf_io::write_grey16(&place.file("fg", name, "png"), WIDTH, HEIGHT, &grey).unwrap();
    }
    for (k, input) in ["set --logits set/logits", "set --probs set/fg"].iter().enumerate() {
        place.run(&format!("batch {input} -o out{k} --method mf5 -q")).fine();
        let differing: usize = place
            .results(&format!("out{k}"))
            .concat()
            .iter()
            .zip(place.results("plain").concat())
            .filter(|(a, b)| **a != *b)
            .count();
        assert!(differing <= 2, "{input}: {differing}");
    }
    fs::remove_dir_all(place.path("set/probs")).unwrap();
    place.run("batch set -o found --method mf5 -q").fine();
    assert_eq!(place.results("found"), place.results("out0"), "logits/ of a data directory");
}

#[test]
fn images_that_lost_a_label_or_changed_much_are_flagged_and_come_first() {
    let place = Place::new(1);
    let plain = Image::new(WIDTH, HEIGHT, 3, vec![128.0; 3 * WIDTH * HEIGHT]).unwrap();
    // A weak foreground of a twelfth of the pixels on a plain picture: smoothing removes it.
    let weak: Vec<f32> = (0..WIDTH * HEIGHT).map(|k| if k % WIDTH < 2 { 0.55 } else { 0.3 }).collect();
    // Alternating columns: half of all pixels change.
    let stripes: Vec<f32> = (0..WIDTH * HEIGHT).map(|k| if k % 2 == 0 { 0.2 } else { 0.6 }).collect();
    for (name, p) in [("lost", &weak), ("striped", &stripes)] {
        place.image(name, &plain);
        place.probabilities("probs", name, p);
    }
    // Probabilities that no kernel outweighs.
    let truth = read_labels(&place.path("set/truth/im00.png")).unwrap().labels;
    let certain: Vec<f32> = truth.iter().map(|&l| if l == 1 { 0.9999 } else { 0.0001 }).collect();
    place.probabilities("probs", "im00", &certain);
    let json = r#"{"classes": [{"name": "ground"}, {"name": "person"}], "void_index": 255}"#;
    fs::write(place.path("set/labels.json"), json).unwrap();
    let line = "batch set -o out --method mf --gaussian 3:3 --report page.html";
    let run = place.run(line).with_messages();
    assert!(
        run.out.contains("look at") && run.out.contains("2: 2 lost a label, 1 changed by more than a tenth"),
        "{}",
        run.out
    );
    let log = place.log("out");
    let record = |name: &str| log.iter().find(|r| r["item"] == name).unwrap();
    assert_eq!(record("lost")["removed"][0]["label"], 1);
    assert!(
        record("lost")["changed"].as_f64() < Some(0.1) && record("striped")["changed"].as_f64() > Some(0.1)
    );
    assert_eq!(record("im00")["removed"].as_array().unwrap().len(), 0);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    let table = &page[page.find("flagged, then most changed first").unwrap()..];
    let places = ["striped", "lost", "im00"]
        .map(|name| table.find(&format!(">{name}<")).unwrap_or_else(|| panic!("{name}: {table}")));
    assert!(places.is_sorted(), "{places:?}");
    for text in ["person removed (8.33% of the pixels)", "more than a tenth changed", "2 images flagged"] {
        assert!(page.contains(text), "{text} is missing on the page");
    }
    assert_eq!(place.run(&format!("{line} --json")).json()["flagged"], 2);
}
