//! Every command on good input.

mod common;

use std::io::Read;
use std::process::Stdio;

use common::{HEIGHT, LABELS, Place, WIDTH, program};
use relaxcrf::Image;
use relaxcrf::solve::METHODS;
use relaxcrf_io::{Palette, read_array, read_labels, write_image, write_labels, write_npy_f32};

fn accuracy(place: &Place, file: &str) -> f64 {
    let map = read_labels(&place.path(file)).unwrap();
    assert_eq!((map.width, map.height), (WIDTH, HEIGHT));
    let right = map.labels.iter().zip(place.scene.truth.as_slice()).filter(|(a, b)| a == b).count();
    right as f64 / map.labels.len() as f64
}

#[test]
fn help_and_version_are_printed_for_every_command() {
    let place = Place::new();
    for (line, texts) in [
        ("--help", &["segment", "energy", "methods", "demo"][..]),
        (
            "segment --help",
            &[
                "pairs count twice",
                "pydensecrf",
                "the preset `network` is used",
                "--method mf10",
                "--until-gap",
            ],
        ),
        ("energy --help", &["--labels-as-unary", "--exact"]),
        ("demo --help", &["demo-out"]),
        ("methods --help", &["--json"]),
        ("--version", &[env!("CARGO_PKG_VERSION")]),
    ] {
        let shown = place.run(line).fine().out.to_lowercase();
        // Lines are broken anywhere.
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in texts {
            assert!(shown.contains(text), "{line} lacks {text}: {shown}");
        }
    }
    let bare = place.run("");
    assert_eq!(bare.code, 2);
    assert!(bare.err.contains("Usage"), "{}", bare.err);
}

#[test]
fn methods_command_lists_every_method() {
    let place = Place::new();
    let shown = place.run("methods").fine().out;
    let listed = place.run("methods --json").fine().json();
    let in_full = place.run("methods --long").fine().out;
    let in_full = in_full.split_whitespace().collect::<Vec<_>>().join(" ");
    for (k, m) in METHODS.iter().enumerate() {
        assert!(in_full.contains(m.summary) && in_full.contains(m.promise), "{}: {in_full}", m.name);
        assert!(shown.contains(m.name) && listed[k]["name"] == m.name);
        assert_eq!(listed[k]["summary"], m.summary);
    }
}

#[test]
fn segment_improves_accuracy_over_the_probabilities() {
    let place = Place::new();
    let model = "--gaussian 3:1 --bilateral 20:13:3";
    place.run(&format!("segment image.png --probs probs.npy {model} -m unary -o unary.png")).fine();
    let shown = place.run(&format!("segment image.png --probs probs.npy {model} -m mf -o mf.png")).fine().out;
    assert!(shown.contains("energy") && shown.contains("mf"), "{shown}");
    let (before, after) = (accuracy(&place, "unary.png"), accuracy(&place, "mf.png"));
    assert!(after > before + 0.01, "{before} -> {after}");
    // Energies in place of probabilities make the same problem.
    place.run(&format!("segment image.png --unary unary.npy {model} -m mf -o mf.npy --quiet")).fine();
    assert_eq!(
        read_labels(&place.path("mf.npy")).unwrap().labels,
        read_labels(&place.path("mf.png")).unwrap().labels
    );
}

#[test]
fn every_method_runs_and_agrees_with_the_energy_command() {
    let place = Place::new();
    let model = "--gaussian 2:1 --bilateral 20:13:2";
    // `exact` is for two labels; the scene has four.
    for m in METHODS.iter().filter(|m| m.name != "exact") {
        let line = format!("segment image.png --probs probs.npy {model} -m {} -o out.png --json", m.name);
        let report = place.run(&(line + " --max-iter 20")).fine().json();
        let line = format!("energy image.png --probs probs.npy {model} --labels out.png --json");
        let energy = place.run(&line).fine().json();
        for part in ["energy", "unary_energy", "pairwise_energy"] {
            let (a, b) = (report[part].as_f64().unwrap(), energy[part].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-6 * a.abs().max(1.0), "{} {part}: {a} and {b}", m.name);
        }
        // Mean-field updates alone take the sequential blur, whose energies are the same.
        let kind = if m.name == "mf5" { "lattice-classic" } else { "lattice" };
        assert_eq!(
            (report["energy_kind"].as_str(), energy["operator"].as_str()),
            (Some(kind), Some("lattice"))
        );
        assert!(report["best_energy"].as_f64() <= report["energy"].as_f64(), "{}", m.name);
        if let Some(bound) = report["lower_bound"].as_f64() {
            assert!(bound <= report["energy"].as_f64().unwrap() + 1e-3, "{}", m.name);
        }
    }
}

#[test]
fn segment_without_kernels_uses_the_default_preset() {
    let place = Place::new();
    let report = |kernels: &str| {
        let line = format!("energy image.png --probs probs.npy --labels truth.png --json {kernels}");
        place.run(&line).fine().json()
    };
    let (a, b) = (report(""), report("--gaussian 1:0.75 --bilateral 67:3:1"));
    assert_eq!((&a["energy"], &a["kernels"]), (&b["energy"], &b["kernels"]));
}

#[test]
fn probabilities_are_read_from_images_and_from_other_label_axes() {
    let place = Place::new();
    std::fs::create_dir(place.path("planes")).unwrap();
    let planes = place.planes();
    for (l, plane) in planes.chunks_exact(WIDTH * HEIGHT).enumerate() {
        let grey = Image::new(WIDTH, HEIGHT, 1, plane.iter().map(|p| 255.0 * p).collect()).unwrap();
        write_image(&place.path(&format!("planes/{l}.png")), &grey).unwrap();
    }
    let rows = &place.scene.probabilities;
    write_npy_f32(&place.path("last.npy"), &[HEIGHT, WIDTH, LABELS], rows).unwrap();
    let files: String = (0..LABELS).map(|l| format!(" planes/{l}.png")).collect();
    let energy = |source: &str| {
        let line = format!("energy image.png {source} --labels truth.png --json");
        place.run(&line).fine().json()["energy"].as_f64().unwrap()
    };
    let want = energy("--probs probs.npy");
    assert_eq!(energy("--probs last.npy --label-axis 2"), want);
    assert_eq!(energy("--probs last.npy --label-axis -1"), want);
    let rounded = energy("--probs planes");
    assert_eq!(energy(&format!("--probs{files}")), rounded);
    assert!((rounded - want).abs() < 0.1 * want, "eight bits cost little: {rounded} and {want}");
}

#[test]
fn hard_labels_are_corrected_and_unsure_pixels_filled() {
    let place = Place::new();
    let mut marks = place.scene.truth.as_slice().to_vec();
    let hidden = WIDTH * HEIGHT / 2 + 5..WIDTH * HEIGHT / 2 + 25;
    marks[hidden].fill(255);
    write_labels(&place.path("marks.png"), WIDTH, HEIGHT, &marks, &Palette::voc()).unwrap();
    let report = place
        .run("segment image.png --labels marks.png --unsure 255 --confidence 0.9 -m mf -o out.png --json")
        .fine()
        .json();
    assert_eq!(report["L"], LABELS);
    assert!(accuracy(&place, "out.png") > 0.95);
    let report = place
        .run("segment image.png --labels truth.png --num-labels 9 -m mf5 -o out.png --json")
        .fine()
        .json();
    assert_eq!(report["L"], 9);
    // Undeclared, 255 is a label like any other: said aloud, and still a valid problem.
    let loud = place.run("segment image.png --labels marks.png -m mf5 -o out.png --json");
    assert!(loud.code == 0 && loud.err.contains("--unsure 255"), "{}", loud.err);
}

#[test]
fn saved_beliefs_have_shape_labels_height_width() {
    let place = Place::new();
    place.run("segment image.png --probs probs.npy -m mf -o out.png --save-probs q.npy").fine();
    let q = read_array(&place.path("q.npy")).unwrap();
    assert_eq!(q.shape, [LABELS, HEIGHT, WIDTH]);
    let n = WIDTH * HEIGHT;
    for a in 0..n {
        let sum: f32 = (0..LABELS).map(|l| q.data[l * n + a]).sum();
        assert!((sum - 1.0).abs() < 1e-4);
    }
    // What was written can be read again as probabilities.
    place.run("segment image.png --probs q.npy -m unary -o again.png").fine();
    assert_eq!(accuracy(&place, "again.png"), {
        let best = |a: usize| (0..LABELS).max_by(|&i, &j| q.data[i * n + a].total_cmp(&q.data[j * n + a]));
        let truth = place.scene.truth.as_slice();
        (0..n).filter(|&a| best(a) == Some(truth[a].into())).count() as f64 / n as f64
    });
}

#[test]
fn json_has_the_documented_fields() {
    let place = Place::new();
    let line = "segment image.png --probs probs.npy -m mf5+mf -o out.png --json --trace --threads 2 --seed 7";
    let report = place.run(line).fine().json();
    for text in ["method", "status", "energy_kind", "version", "normalization", "compatibility"] {
        assert!(report[text].is_string(), "{text}");
    }
    for number in ["energy", "best_energy", "final_energy", "unary_energy", "pairwise_energy", "seconds"] {
        assert!(report[number].is_f64(), "{number}");
    }
    for count in ["filter_calls", "ordered_calls", "evaluations", "iterations", "labels_used", "threads"] {
        assert!(report[count].is_u64(), "{count}");
    }
    assert_eq!(
        (report["method"].as_str(), report["energy_kind"].as_str()),
        (Some("mf5+mf"), Some("lattice"))
    );
    assert_eq!((report["N"].as_u64(), report["L"].as_u64()), (Some(1200), Some(4)));
    assert_eq!(report["threads"], 2);
    assert!(report["lower_bound"].is_null() && report["gap"].is_null(), "mean field has no bound");
    assert_eq!(report["kernels"][0]["kind"], "gaussian");
    assert_eq!(report["kernels"][1]["sigma_rgb"][0], 3.0);
    for filter in report["filter"].as_array().unwrap() {
        assert_eq!(filter["kind"], "lattice");
        assert!(filter["vertices"].as_u64().unwrap() > 0);
        let error = filter["measured_error"].as_f64().unwrap();
        assert!((0.0..0.3).contains(&error), "{error}");
    }
    let trace = report["trace"].as_array().unwrap();
    assert_eq!(trace.len() as u64, report["iterations"].as_u64().unwrap());
    assert_eq!((trace[0]["stage"].as_u64(), trace[5]["stage"].as_u64()), (Some(0), Some(1)));
    for line in trace {
        for field in
            ["stage", "method", "iteration", "seconds", "filter_calls", "objective", "energy", "lower_bound"]
        {
            assert!(line.get(field).is_some(), "{field}");
        }
    }
    assert_eq!(trace[trace.len() - 1]["energy"], report["best_energy"]);
}

#[test]
fn preset_sets_the_method_that_segment_runs() {
    let place = Place::new();
    let method = |options: &str| {
        let line = format!("segment image.png --probs probs.npy -o out.png --json {options}");
        place.run(&line).json()["method"].as_str().unwrap().to_string()
    };
    assert_eq!(method(""), "mf10");
    assert_eq!(method("--preset text"), "mf5");
    assert_eq!(method("--preset paper-voc-dc"), "qp+dc-neg");
    assert_eq!(method("--preset text -m mf3"), "mf3");
    let line = "segment image.png --probs probs.npy -o out.png --json --max-iter 2";
    assert_eq!(place.run(line).fine().json()["iterations"], 2);
}

#[test]
fn labels_of_mean_field_are_the_most_believed_ones() {
    let place = Place::new();
    for options in
        ["", "--preset pydensecrf", "-m mf", "-m mf5 --gaussian 3:40 --bilateral 80:13:40", "-m qp+mf3"]
    {
        let line =
            format!("segment image.png --probs probs.npy -o out.npy --save-probs q.npy --quiet {options}");
        place.run(&line).fine();
        let q = read_array(&place.path("q.npy")).unwrap();
        let n = WIDTH * HEIGHT;
        let best =
            |a: usize| (0..LABELS).rev().max_by(|&i, &j| q.data[i * n + a].total_cmp(&q.data[j * n + a]));
        let expected: Vec<u16> = (0..n).map(|a| best(a).unwrap() as u16).collect();
        assert_eq!(read_labels(&place.path("out.npy")).unwrap().labels, expected, "{options}");
    }
}

#[test]
fn constant_labelling_of_lower_energy_is_warned_about_and_written_only_on_request() {
    let place = Place::new();
    let strong = "segment image.png --probs probs.npy -o out.png --gaussian 3:400 --normalization none";
    let run = |options: &str| place.run(&format!("{strong} {options}")).with_messages();
    let own = run("--max-iter 1");
    for text in ["has lower energy", "--preset network", "--take best"] {
        assert!(own.err.contains(text), "{}", own.err);
    }
    let used = |options: &str| run(&format!("{options} --json")).json()["labels_used"].as_u64().unwrap();
    assert!(used("--max-iter 1") > 1);
    assert_eq!(used("--max-iter 1 --take best"), 1);
    assert!(!run("--max-iter 1 --take best").err.contains("has lower energy"));
    let weak = place.run("segment image.png --probs probs.npy -o out.png").fine();
    assert!(!weak.err.contains("has lower energy"), "{}", weak.err);
}

#[test]
fn energy_is_the_sum_of_its_parts_and_near_the_exact_one() {
    let place = Place::new();
    let line = "energy image.png --probs probs.npy --labels truth.png --normalization none --gaussian 3:1";
    let shown = place.run(line).fine().out;
    assert!(shown.contains("pairwise") && shown.contains("lattice"), "{shown}");
    let fast = place.run(&format!("{line} --json")).fine().json();
    let exact = place.run(&format!("{line} --json --exact")).fine().json();
    assert_eq!(exact["operator"], "exact");
    for report in [&fast, &exact] {
        let part = |name: &str| report[name].as_f64().unwrap();
        assert!((part("unary_energy") + part("pairwise_energy") - part("energy")).abs() < 1e-6);
    }
    assert_eq!(
        exact["pairwise_energy"].as_f64().map(|e| (e / gaussian_cut(&place) - 1.0).abs() < 1e-5),
        Some(true)
    );
    let ratio = fast["pairwise_energy"].as_f64().unwrap() / exact["pairwise_energy"].as_f64().unwrap();
    assert!((0.7..1.4).contains(&ratio), "{ratio}");
    // Calibration brings the lattice to the scale of the true sums.
    let scaled = place.run(&format!("{line} --json --calibrate")).fine().json();
    let better = scaled["pairwise_energy"].as_f64().unwrap() / exact["pairwise_energy"].as_f64().unwrap();
    assert!((better - 1.0).abs() < 0.1, "{better}");
}

/// The pairwise energy of the truth under a Gaussian of standard deviation 3, pair by pair.
fn gaussian_cut(place: &Place) -> f64 {
    let x = place.scene.truth.as_slice();
    let mut sum = 0.0;
    for a in 0..x.len() {
        for b in 0..x.len() {
            if x[a] != x[b] {
                let (dx, dy) = ((a % WIDTH).abs_diff(b % WIDTH), (a / WIDTH).abs_diff(b / WIDTH));
                sum += (-((dx * dx + dy * dy) as f64) / 18.0).exp();
            }
        }
    }
    sum
}

#[test]
fn energy_follows_the_label_costs() {
    let place = Place::new();
    let matrix: Vec<f32> = (0..16).map(|k| if k % 5 == 0 { 0.0 } else { 2.0 }).collect();
    write_npy_f32(&place.path("double.npy"), &[4, 4], &matrix).unwrap();
    let pairwise = |compat: &str| {
        let line = format!("energy image.png --labels-as-unary truth.png --labels truth.png --json {compat}");
        place.run(&line).fine().json()["pairwise_energy"].as_f64().unwrap()
    };
    let potts = pairwise("");
    let same = |got: f64, want: f64| assert!((got - want).abs() < 1e-5 * want, "{got} is not {want}");
    same(pairwise("--compat potts"), potts);
    same(pairwise("--compat w:1,1,1,1"), potts);
    same(pairwise("--compat linear:1"), potts);
    same(pairwise("--compat double.npy"), 2.0 * potts);
    assert!(pairwise("--compat linear") > 1.1 * potts);
}

#[test]
fn limits_stop_a_run() {
    let place = Place::new();
    let run = |limit: &str| {
        place
            .run(&format!("segment image.png --probs probs.npy -m mf -o out.png --json {limit}"))
            .fine()
            .json()
    };
    let one = run("--max-iter 1");
    assert_eq!((one["iterations"].as_u64(), one["status"].as_str()), (Some(1), Some("iteration limit")));
    assert_eq!(run("--time-limit 0ms")["status"], "time limit");
    assert!(run("--tol 1e-1")["iterations"].as_u64() < run("--tol 0")["iterations"].as_u64());
}

#[test]
fn same_bytes_for_any_number_of_threads() {
    let place = Place::new();
    let mut all = Vec::new();
    for threads in 1..=3 {
        let line = format!(
            "segment image.png --probs probs.npy -m mf -o t{threads}.png --save-probs t{threads}.npy"
        );
        let report = place.run(&format!("{line} --json --threads {threads}")).fine().json();
        assert_eq!(report["threads"], threads);
        let (labels, beliefs) =
            (place.bytes(&format!("t{threads}.png")), place.bytes(&format!("t{threads}.npy")));
        all.push((labels, beliefs, report["energy"].to_string(), report["filter"].to_string()));
    }
    assert!(all.windows(2).all(|w| w[0] == w[1]));
    // The variables do the same as the option; ours comes first.
    let line = "segment image.png --probs probs.npy -m mf -o v.png --json";
    let threads = |v: &[(&str, &str)]| place.run_with(line, v).fine().json()["threads"].as_u64();
    assert_eq!(threads(&[("RELAXCRF_NUM_THREADS", "3")]), Some(3));
    assert_eq!(threads(&[("RAYON_NUM_THREADS", "3")]), Some(3));
    assert_eq!(threads(&[("RELAXCRF_NUM_THREADS", "1"), ("RAYON_NUM_THREADS", "3")]), Some(1));
    assert_eq!(place.bytes("v.png"), all[0].0);
}

#[test]
fn quiet_prints_nothing() {
    let place = Place::new();
    write_npy_f32(&place.path("one.npy"), &[1, HEIGHT, WIDTH], &[1.0; WIDTH * HEIGHT]).unwrap();
    for (option, said) in
        [("--probs", "note: one.npy: one channel"), ("--unary", "warning: one.npy: there is only one label")]
    {
        let line = format!("segment image.png {option} one.npy -o out.png");
        assert!(place.run(&line).err.contains(said));
        let run = place.run(&format!("{line} --quiet")).fine();
        assert_eq!(run.out, "");
    }
    // What was asked for is still there.
    let line = "energy image.png --probs probs.npy --labels truth.png --quiet";
    assert!(place.run(line).fine().out.contains("energy"));
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    let place = Place::new();
    for line in ["methods", "--help", "energy image.png --probs probs.npy --labels truth.png"] {
        let mut child = program(&place.path(""))
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{line}");
    }
}
