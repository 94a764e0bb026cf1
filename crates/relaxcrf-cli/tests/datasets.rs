//! `evaluate`, `presets`, `reproduce segmentation` and `tune` on small generated data.

mod common;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{HEIGHT, LABELS, Place, WIDTH, program};
use relaxcrf_io::{Palette, read_preset, write_image, write_labels, write_npy_f32};
use relaxcrf_lab::synth;
use serde_json::Value;

/// A data directory `data` with four scenes: two in `val`, two in `test`.
fn data(place: &Place) {
    for folder in ["images", "truth", "probs"] {
        fs::create_dir_all(place.path("data").join(folder)).unwrap();
    }
    for k in 0..4u64 {
        let scene = synth::segmentation(WIDTH, HEIGHT, LABELS, 10 + k).unwrap();
        let file = |folder: &str, ending: &str| place.path(&format!("data/{folder}/s{k}.{ending}"));
        write_image(&file("images", "png"), &scene.image).unwrap();
        let mut truth = scene.truth.as_slice().to_vec();
        truth[..WIDTH].fill(9);
        write_labels(&file("truth", "png"), WIDTH, HEIGHT, &truth, &Palette::voc()).unwrap();
        let rows = &scene.probabilities;
        let planes: Vec<f32> =
            (0..LABELS).flat_map(|l| rows.iter().skip(l).step_by(LABELS).copied()).collect();
        write_npy_f32(&file("probs", "npy"), &[LABELS, HEIGHT, WIDTH], &planes).unwrap();
    }
    place.write("data/val.txt", b"s0\ns1\n");
    place.write("data/test.txt", b"# the other two\ns2\n\n  s3\n");
    let names: Vec<Value> =
        (0..LABELS).map(|l| serde_json::json!({ "name": format!("thing {l}") })).collect();
    let labels = serde_json::json!({ "classes": names, "void_index": 9 });
    place.write("data/labels.json", labels.to_string().as_bytes());
}

fn lines(place: &Place, name: &str) -> Vec<Value> {
    let text = String::from_utf8(place.bytes(name)).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

const REPRODUCE: &str = "reproduce segmentation data --gaussian 2:1 --bilateral 20:13:2 --out made";
const TUNE: &str = "tune data --method mf5 --search random --spread 3 --out made";

#[test]
fn evaluate_measures_files_and_directories() {
    let place = Place::new();
    let map =
        |name: &str, labels: &[u16]| write_labels(&place.path(name), 3, 2, labels, &Palette::voc()).unwrap();
    map("p.png", &[0, 0, 1, 1, 2, 2]);
    map("t.png", &[0, 1, 1, 1, 255, 0]);
    let report = &place.run("evaluate p.png t.png --json").fine().json()[0];
    assert_eq!(report["pixels"], 5);
    assert_eq!(report["accuracy"], 0.6);
    assert_eq!(report["mean_accuracy"], (0.5 + 2.0 / 3.0) / 2.0);
    // 0: 1 of 3; 1: 2 of 3.
    assert_eq!(report["mean_iou"], 0.5);
    assert_eq!(report["classes"][2]["iou"], Value::Null);
    let shown = place.run("evaluate p.png t.png --csv e.csv --band 1,2").fine().out;
    assert!(shown.contains("60.00%") && shown.contains("band of 2"), "{shown}");
    let csv = String::from_utf8(place.bytes("e.csv")).unwrap();
    assert!(csv.starts_with("truth,part,label") && csv.contains("t.png,all,,5,0.6,"), "{csv}");
    // With every label counting, 255 is one.
    let all = &place.run("evaluate p.png t.png --void none --json").fine().json()[0];
    assert_eq!((&all["pixels"], all["classes"].as_array().unwrap().len()), (&6.into(), 256));

    data(&place);
    fs::create_dir(place.path("given")).unwrap();
    fs::copy(place.path("data/truth/s1.png"), place.path("given/s1.png")).unwrap();
    let one = place.run("evaluate given data/truth data/truth --json");
    assert!(one.err.contains("3 of 4") && one.err.contains("do not count"), "{}", one.err);
    let reports = one.json();
    assert_eq!(reports.as_array().unwrap().len(), 2);
    assert_eq!((&reports[0]["images"], &reports[0]["accuracy"]), (&1.into(), &1.0.into()));
    assert_eq!(reports[0]["void"], 9);
    assert_eq!(reports[0]["classes"][1]["name"], "thing 1");
}

#[test]
fn evaluate_refuses_maps_that_do_not_fit() {
    let place = Place::new();
    data(&place);
    fs::create_dir(place.path("empty")).unwrap();
    write_labels(&place.path("small.png"), 2, 1, &[0, 1], &Palette::voc()).unwrap();
    write_labels(&place.path("big.png"), 2, 1, &[0, 77], &Palette::voc()).unwrap();
    write_labels(&place.path("void.png"), 2, 1, &[255, 255], &Palette::voc()).unwrap();
    for (line, texts) in [
        ("evaluate gone.png truth.png", &["gone.png", "cannot be read"][..]),
        ("evaluate small.png truth.png", &["small.png", "2x1", "40x30", "same size"]),
        ("evaluate big.png small.png --num-labels 3", &["big.png", "label 77", "pixel 1"]),
        ("evaluate small.png void.png", &["void.png", "nothing to measure"]),
        ("evaluate empty data/truth", &["empty", "holds no files"]),
        ("evaluate data/truth small.png", &["two files or two directories"]),
        ("evaluate data/truth . ", &["has no truth", "s0.png"]),
        ("evaluate small.png small.png --names data/val.txt", &["val.txt", "not understood"]),
        ("evaluate small.png small.png --csv small.png", &["small.png", "is an input"]),
        ("evaluate small.png small.png --csv absent/x.csv", &["absent"]),
    ] {
        place.fails(line, 1, texts);
    }
    place.fails("evaluate small.png", 2, &["TRUTH"]);
    place.fails("evaluate small.png small.png --void x", 2, &["none"]);
}

#[test]
fn presets_are_listed_and_used() {
    let place = Place::new();
    let shown = place.run("presets").fine().out;
    let listed = place.run("presets --json").fine().json();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let in_full = one_line(&place.run("presets --long").fine().out);
    for preset in relaxcrf::presets::PRESETS {
        let ((sigma, weight), (sigma_xy, sigma_rgb, bilateral)) = (preset.gaussian, preset.bilateral);
        let flags = format!("--gaussian {sigma}:{weight} --bilateral {sigma_xy}:{sigma_rgb}:{bilateral}");
        assert!(
            shown.contains(preset.name.as_ref()) && one_line(&shown).contains(&flags),
            "{flags}: {shown}"
        );
        let source = one_line(&preset.source);
        assert!(in_full.contains(&source) && in_full.contains(&flags), "{source}: {in_full}");
        let alone = place.run(&format!("presets {}", preset.name)).fine().out;
        assert!(one_line(&alone).contains(&source) && alone.starts_with(preset.name.as_ref()), "{alone}");
        assert!(listed.as_array().unwrap().iter().any(|p| p["name"] == preset.name.as_ref()));
    }
    let energy = |flags: &str| {
        let line = format!("energy image.png --probs probs.npy --labels truth.png --json {flags}");
        place.run(&line).fine().json()["energy"].as_f64().unwrap()
    };
    assert_eq!(energy("--preset voc"), energy("--gaussian 1:1.5 --bilateral 67:3:2"));
    assert_eq!(energy("--preset network"), energy(""));
    assert_eq!(energy("--preset pydensecrf"), energy("--gaussian 3:1.5 --bilateral 80:13:5"));
    assert_eq!(energy("--preset text"), energy("--gaussian 1:1.5 --bilateral 23:7:10 --normalization none"));
    // Flags win, each over its own part.
    assert_eq!(energy("--preset voc --gaussian 2:3"), energy("--gaussian 2:3 --bilateral 67:3:2"));
    assert_eq!(
        energy("--preset text --normalization symmetric --bilateral 9:9:9"),
        energy("--gaussian 1:1.5 --bilateral 9:9:9")
    );
    place.write(
        "mine.toml",
        b"[gaussian]\nsigma = 2\nweight = 1\n[bilateral]\nsigma_xy = 20\nsigma_rgb = 13\nweight = 2\n",
    );
    assert_eq!(energy("--preset mine.toml"), energy("--gaussian 2:1 --bilateral 20:13:2"));
    assert!(place.run("presets mine.toml").fine().out.contains("20:13:2"));
    place.run("segment image.png --probs probs.npy --preset mine.toml -o out.png -q").fine();

    place.write("bad.toml", b"[gaussian]\nsigma = 2\nwieght = 1\n");
    for command in [
        "segment image.png --probs probs.npy -o o.png",
        "energy image.png --probs probs.npy --labels truth.png",
    ] {
        place.fails(&format!("{command} --preset nosuch"), 2, &["nosuch", "voc", "mine.toml"]);
        place.fails(&format!("{command} --preset gone.toml"), 1, &["gone.toml", "cannot be read"]);
        place.fails(&format!("{command} --preset bad.toml"), 1, &["bad.toml", "line 3", "wieght"]);
        place.fails(&format!("{command} --preset image.png"), 1, &["image.png"]);
    }
    place.fails("presets bad.toml", 1, &["bad.toml"]);
    place.fails("presets nosuch", 2, &["nosuch", "voc", "mine.toml"]);
    assert_eq!(place.run("presets voc mine.toml --json").fine().json().as_array().map(Vec::len), Some(2));
}

#[test]
fn reproduce_segmentation_writes_tables_that_agree_with_segment() {
    let place = Place::new();
    data(&place);
    let shown = place.run(REPRODUCE).fine().out;
    assert!(shown.contains("data (test, 2 images)") && shown.contains("| qp+dc-neg+lp |"), "{shown}");
    for name in ["report.html", "report.md", "summary.csv", "summary.json", "images.csv", "results.jsonl"] {
        assert!(place.exists(&format!("made/{name}")), "{name}");
    }
    let summary: Value = serde_json::from_slice(&place.bytes("made/summary.json")).unwrap();
    let methods = summary["tables"][0]["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 10);
    assert_eq!(lines(&place, "made/results.jsonl").len(), 20);
    assert_eq!(methods[0]["energy"], 0.0);
    // Energies and accuracy are those of `segment` on the same files.
    for (image, id) in [("s2", 0), ("s3", 1)] {
        for (m, method) in [(4, "mf"), (7, "qp+dc-neg")] {
            let line = format!(
                "segment data/images/{image}.png --probs data/probs/{image}.npy --gaussian 2:1 --bilateral 20:13:2 \
                 -m {method} -o out.png --json"
            );
            let alone = place.run(&line).fine().json();
            let row = &csv(&place, "made/images.csv")[id * 10 + m];
            assert_eq!((row[1].as_str(), row[2].as_str()), (image, method));
            assert_eq!(row[4].parse::<f64>().unwrap(), alone["final_energy"].as_f64().unwrap(), "{line}");
            assert_eq!(row[5].parse::<f64>().unwrap(), alone["energy"].as_f64().unwrap(), "{line}");
        }
    }
    // Half the weights on the way, the whole ones for the score.
    let half = "segment data/images/s2.png --probs data/probs/s2.npy --gaussian 2:0.5 --bilateral 20:13:1 -m mf -o h.png";
    place.run(half).fine();
    let line = "energy data/images/s2.png --probs data/probs/s2.npy --gaussian 2:1 --bilateral 20:13:2 --labels h.png";
    let scored = place.run(&format!("{line} --json")).fine().json()["energy"].as_f64().unwrap();
    let row = &csv(&place, "made/images.csv")[3];
    assert_eq!((row[2].as_str(), row[4].parse::<f64>().unwrap()), ("mf (half weights)", scored));
    // No method beats another and is beaten by it on the same image, and all methods beat the unaries here.
    let beats = |row: &Value, column: usize| row["beats"][column].as_f64().unwrap();
    for (a, one) in methods.iter().enumerate() {
        assert_eq!(beats(one, a), 0.0);
        for (b, other) in methods.iter().enumerate() {
            assert!(beats(one, b) + beats(other, a) <= 1.0, "{a} {b}");
        }
        assert!(a == 0 || beats(one, 0) == 1.0, "{one}");
    }
}

fn csv(place: &Place, name: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8(place.bytes(name)).unwrap();
    text.lines().skip(1).map(|l| l.split(',').map(String::from).collect()).collect()
}

#[test]
fn reproduce_resumes_after_a_kill() {
    let place = Place::new();
    data(&place);
    let line = format!("{REPRODUCE} --methods mf5,mf,qp+dc-neg");
    place.run(&line).fine();
    let whole = place.bytes("made/results.jsonl");
    let report = place.bytes("made/summary.csv");
    // As if killed in the middle of a line, with two results on the disk.
    let two = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).nth(1).unwrap();
    place.write("made/results.jsonl", &whole[..two + 30]);
    fs::remove_file(place.path("made/summary.csv")).unwrap();
    place.run(&line).fine();
    let after = lines(&place, "made/results.jsonl");
    assert_eq!(after.len(), 8);
    assert!(place.bytes("made/results.jsonl").starts_with(&whole[..two]), "what was there stays");
    // Times differ; nothing else does.
    let without_seconds = |bytes: &[u8]| -> Vec<Vec<String>> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let keep = |l: &str| l.split(',').rev().skip(2).map(String::from).collect();
        text.lines().map(keep).collect()
    };
    assert_eq!(without_seconds(&place.bytes("made/summary.csv")), without_seconds(&report));
    // Nothing left to do: nothing is done.
    let stored = place.bytes("made/results.jsonl");
    place.run(&line).fine();
    assert_eq!(place.bytes("made/results.jsonl"), stored);
    // Other parameters, other results; the first ones stay, and the report shows what was asked for.
    place.run(&line.replace("20:13:2", "20:13:1")).fine();
    assert!(place.bytes("made/results.jsonl").starts_with(&stored));
    assert_eq!(lines(&place, "made/results.jsonl").len(), 16);
    assert_eq!(csv(&place, "made/images.csv").len(), 8);
    // A damaged file is not written over.
    place.write("made/results.jsonl", b"{\"setup\": 1}\n");
    let before = place.names();
    place.run(&line).failed(1, &["results.jsonl", "line 1", "start anew"]);
    assert_eq!((place.bytes("made/results.jsonl"), place.names()), (b"{\"setup\": 1}\n".to_vec(), before));
}

#[test]
fn reproduce_takes_presets_and_saves_label_maps() {
    let place = Place::new();
    data(&place);
    let line = "reproduce segmentation data --split all --limit 1 --methods mf --preset voc --preset network \
                --out made --save-labels --json --threads 1";
    let summary = place.run(line).fine().json();
    assert_eq!(summary["images"], 1);
    assert_eq!(summary["tables"][0]["preset"], "voc");
    assert_eq!(summary["tables"][1]["preset"], "network");
    let accuracy = summary["tables"][0]["methods"][1]["accuracy"].as_f64().unwrap();
    let measured =
        place.run("evaluate made/labels/voc/mf/s0.png data/truth/s0.png --names data/labels.json --json");
    assert_eq!(measured.fine().json()[0]["accuracy"].as_f64().unwrap(), accuracy);
    let text = String::from_utf8(place.bytes("made/report.html")).unwrap();
    assert!(text.contains("Parameters voc") && text.contains("<svg"), "{text}");
}

#[test]
fn bad_data_directory_is_an_error_with_the_fix() {
    let place = Place::new();
    data(&place);
    fs::create_dir(place.path("empty")).unwrap();
    fs::create_dir_all(place.path("half/images")).unwrap();
    fs::copy(place.path("image.png"), place.path("half/images/a.png")).unwrap();
    place.write("data/bad.txt", b"s0\nnone-such\n");
    place.write("data/twice.txt", b"s0\ns0\n");
    place.write("data/void.txt", b"\n\n");
    for command in ["reproduce segmentation", "tune"] {
        for (options, texts) in [
            ("gone", &["gone", "not a directory"][..]),
            ("image.png", &["image.png", "not a directory"]),
            ("empty", &["empty", "images"]),
            ("half", &["half", "truth"]),
            ("data --split nosuch", &["nosuch.txt", "all"]),
            ("data --split bad", &["none-such", "images"]),
            ("data --split twice", &["s0", "twice"]),
            ("data --split void", &["lists no images"]),
            ("data --truth truths", &["truths"]),
        ] {
            place.fails(&format!("{command} {options} --out made"), 1, texts);
        }
        place.fails(&format!("{command} data --void x"), 2, &["none"]);
    }
    place.fails("reproduce segmentation data --methods mf,nosuch", 2, &["nosuch", "known methods"]);
    place.fails("reproduce segmentation data --preset nosuch", 2, &["nosuch"]);
    place.fails("reproduce segmentation data --preset voc --preset voc", 1, &["two parameter sets", "voc"]);
    place.fails("reproduce segmentation data --out image.png", 1, &["image.png", "directory"]);
    // The truth of one image does not fit it, or holds labels that the model does not have.
    write_labels(&place.path("data/truth/s3.png"), 3, 2, &[0; 6], &Palette::voc()).unwrap();
    place.run(REPRODUCE).failed(1, &["s3.png", "3x2", "40x30"]);
    let mut odd = vec![0; WIDTH * HEIGHT];
    odd[7] = 8;
    write_labels(&place.path("data/truth/s3.png"), WIDTH, HEIGHT, &odd, &Palette::voc()).unwrap();
    place.run(REPRODUCE).failed(1, &["s3.png", "label 8", "pixel 7"]);
    assert!(!place.exists("made/report.md"), "no report of half the results");
    write_npy_f32(
        &place.path("data/probs/s3.npy"),
        &[LABELS, WIDTH, HEIGHT],
        &vec![0.25; LABELS * WIDTH * HEIGHT],
    )
    .unwrap();
    place.run(REPRODUCE).failed(1, &["s3", "transposed?"]);
    place.run(&TUNE.replace("data", "data --split test")).failed(1, &["s3", "transposed?"]);
}

#[test]
fn tune_finds_better_parameters_and_writes_a_preset() {
    let place = Place::new();
    data(&place);
    let shown = place.run(&format!("{TUNE} --evaluations 14 --start pydensecrf --objective both")).fine().out;
    assert!(
        shown.contains("--gaussian") && shown.contains("best.toml") && shown.contains("pydensecrf"),
        "{shown}"
    );
    let all = lines(&place, "made/evaluations.jsonl");
    assert_eq!((all.len(), all[0]["kind"].as_str()), (15, Some("search")));
    assert_eq!(all[1]["start"], "pydensecrf");
    let score = |e: &Value| e["score"].as_f64().unwrap();
    let best = all[1..].iter().map(score).fold(0.0, f64::max);
    assert!(best > score(&all[1]), "{best} after {}", score(&all[1]));
    // The preset labels the images as well as the search said, through the other commands.
    let preset = read_preset(&place.path("made/best.toml")).unwrap();
    assert!(preset.name.contains("data-mf5"), "{}", preset.name);
    let line =
        "reproduce segmentation data --split val --methods mf5 --preset made/best.toml --out again --json";
    let again = place.run(line).fine().json();
    let mf5 = &again["tables"][0]["methods"][1];
    let mean = 0.5 * (mf5["best_accuracy"].as_f64().unwrap() + mf5["best_mean_iou"].as_f64().unwrap());
    // `tune` runs mean-field updates on the sequential blur, `reproduce` all methods on the symmetric operator.
    assert!((mean - best).abs() < 2e-3, "{mean} {best}");
    place.run("segment image.png --probs probs.npy --preset made/best.toml -o out.png -q").fine();
    assert!(String::from_utf8(place.bytes("made/search.svg")).unwrap().starts_with("<svg"));
    let report = place
        .run(&format!("{TUNE} --evaluations 14 --start pydensecrf --objective both --json"))
        .fine()
        .json();
    assert_eq!(report["best"]["score"], best);
    assert_eq!(report["evaluations"].as_array().unwrap().len(), 14);
}

#[test]
fn killed_search_loses_at_most_one_evaluation() {
    let place = Place::new();
    data(&place);
    let options = format!("{TUNE} --evaluations 12");
    let evaluations = |name: &str| -> Vec<Value> {
        let text = String::from_utf8(fs::read(place.path(name)).unwrap_or_default()).unwrap();
        // The last line may be half there.
        let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
        whole.lines().skip(1).map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    place.run(&options.replace("made", "whole")).fine();
    let mut child = program(&place.path(""))
        .args(options.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while evaluations("made/evaluations.jsonl").len() < 4 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let seen = evaluations("made/evaluations.jsonl").len();
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = evaluations("made/evaluations.jsonl");
    assert!(seen >= 4 && kept.len() >= seen, "{} of {seen} evaluations kept", kept.len());
    place.run(&options).fine();
    let after = evaluations("made/evaluations.jsonl");
    assert_eq!(after[..kept.len()], kept[..], "nothing is evaluated again");
    // The search went on as if it had never been interrupted.
    let parameters = |all: &[Value]| -> Vec<Value> { all.iter().map(|e| e["parameters"].clone()).collect() };
    assert_eq!(parameters(&after), parameters(&evaluations("whole/evaluations.jsonl")));
    let without_time = |name: &str| read_preset(&place.path(name)).unwrap();
    assert_eq!(without_time("made/best.toml"), without_time("whole/best.toml"));
}

#[test]
fn search_resumed_with_other_options_is_refused() {
    let place = Place::new();
    data(&place);
    place.run(&format!("{TUNE} --evaluations 3 -q")).fine();
    let stored = place.bytes("made/evaluations.jsonl");
    for (options, texts) in [
        ("--objective iou", &["objective", "accuracy", "iou"][..]),
        ("--range sigma-rgb=2:5", &["ranges", "sigma-rgb=2:5"]),
        ("--split test", &["split", "val", "test"]),
        ("--seed 5", &["seed"]),
        ("--start voc", &["start", "voc"]),
        ("--limit 1", &["images"]),
    ] {
        place.fails(&format!("{TUNE} --evaluations 4 {options}"), 1, texts);
        place.fails(&format!("{TUNE} --evaluations 4 {options}"), 1, &["another search", "--out"]);
        assert_eq!(place.bytes("made/evaluations.jsonl"), stored);
    }
    place.fails(&format!("{TUNE} --range sigma-rgb=5:2"), 2, &["LO:HI"]);
    place.fails(&format!("{TUNE} --range sigma-rgb=1:2 --range sigma-rgb=1:2"), 1, &["twice"]);
    place.fails(&format!("{TUNE} --evaluations 0"), 2, &["0"]);
    place.fails("tune data --search nosuch", 2, &["gp or random"]);
    place.write("made/evaluations.jsonl", b"{}\n");
    place.fails(&format!("{TUNE} --evaluations 4"), 1, &["evaluations.jsonl", "line 1"]);
    // More evaluations of the same search are welcome.
    place.write("made/evaluations.jsonl", &stored);
    place.run(&format!("{TUNE} --evaluations 4 -q")).fine();
    assert_eq!(lines(&place, "made/evaluations.jsonl").len(), 5);
}

#[test]
fn tune_searches_with_the_gaussian_process_and_repeats_itself() {
    let place = Place::new();
    data(&place);
    let line = "tune data --method mf5 --spread 4 --evaluations 7 --out made --json";
    let report = place.run(line).fine().json();
    assert_eq!((report["search"].as_str(), report["evaluations"].as_array().unwrap().len()), (Some("gp"), 7));
    place.run(&line.replace("made", "again")).fine();
    let parameters = |name: &str| -> Vec<Value> {
        lines(&place, name)[1..].iter().map(|e| e["parameters"].clone()).collect()
    };
    assert_eq!(parameters("made/evaluations.jsonl"), parameters("again/evaluations.jsonl"));
}
