//! What people look at: progress, lists, overlays, colours, names and fractions of labels.

mod common;

use common::{HEIGHT, LABELS, Place, StereoPlace, WIDTH};
use relaxcrf_io::{read_image, read_labels};

const SEGMENT: &str =
    "segment image.png --probs probs.npy --gaussian 3:1 --bilateral 20:13:3 -m mf5 -o out.png";

/// A data directory with this many images.
fn data(place: &Place, count: usize) {
    for folder in ["images", "probs"] {
        std::fs::create_dir_all(place.path("set").join(folder)).unwrap();
    }
    for k in 0..count {
        std::fs::copy(place.path("image.png"), place.path(&format!("set/images/{k}.png"))).unwrap();
        std::fs::copy(place.path("probs.npy"), place.path(&format!("set/probs/{k}.npy"))).unwrap();
    }
}

#[test]
fn batch_prints_lines_of_progress_without_a_terminal_and_none_with_quiet() {
    let place = Place::new();
    data(&place, 20);
    let run = place.run("batch set -o out --method mf5 --jobs 1 --progress-every 1ms").fine();
    let lines = run.progress();
    assert!(lines.len() > 5, "{}", run.err);
    let last = lines[lines.len() - 1];
    // The last images may be done within a millisecond.
    assert!(last.contains(" of 20 images (") && last.contains(" s elapsed"), "{last}");
    assert!(lines.iter().any(|line| line.contains(", about ") && line.contains(" left")), "{}", run.err);
    // Finished images do not slow down what is expected.
    let again = place.run("batch set -o out --method mf5 --jobs 1 --progress-every 1ms").fine();
    assert!(again.progress().iter().all(|line| !line.contains("left")), "{}", again.err);
    assert_eq!(place.run("batch set -o other --method mf5 --progress-every 1ms --quiet").fine().err, "");
}

#[test]
fn long_runs_of_every_command_print_progress_and_short_ones_none() {
    let place = Place::new();
    // Far longer than the run takes on any machine.
    assert_eq!(place.run(&format!("{SEGMENT} --progress-every 1m")).fine().err, "");
    for (command, part) in [
        (SEGMENT.replace("mf5", "qp+dc-neg"), "iteration"),
        (format!("{SEGMENT} --tile 16"), " of 6 tiles"),
        ("compare image.png --probs probs.npy --methods mf5,qp".into(), "method "),
    ] {
        let run = place.run(&format!("{command} --progress-every 1ms")).fine();
        assert!(run.progress().iter().any(|line| line.contains(part)), "{command}: {}", run.err);
        let quiet = place.run(&format!("{command} --progress-every 1ms --quiet")).fine();
        assert_eq!(quiet.err, "", "{command}");
    }
    let place = StereoPlace::new();
    let run =
        place.run("stereo scene/im2.png scene/im6.png -d 8 -o d.png --method qp --progress-every 1ms").fine();
    assert!(run.progress().iter().any(|line| line.contains("qp: energy")), "{}", run.err);
    place.fails(
        "stereo scene/im2.png scene/im6.png -d 8 -o d.png --progress-every x",
        2,
        &["--progress-every", "500ms"],
    );
}

#[test]
fn lists_fit_80_columns_without_a_terminal() {
    let place = Place::new();
    for line in ["methods", "methods --long", "presets", "presets --long", "presets text paper-voc-mf5"] {
        let shown = place.run(line).fine().out;
        for text in shown.lines() {
            // Bytes too: tools that count them should agree.
            assert!(text.len() <= 80, "{line}: {} bytes: {text}", text.len());
            assert!(!text.ends_with("--method"), "an option without its value: {text}");
        }
        assert!(shown.lines().count() > 5, "{line}: {shown}");
    }
    let shown = place.run("presets").fine().out;
    assert!(shown.lines().count() < 45, "{shown}");
}

#[test]
fn trace_is_in_the_json_only_if_asked_for() {
    let place = Place::new();
    let segment = |options: &str| place.run(&format!("{SEGMENT} --json {options}")).fine().json();
    assert!(segment("").get("trace").is_none());
    assert_eq!(segment("--trace")["trace"].as_array().map(Vec::len), Some(5));
    place.fails(&format!("{SEGMENT} --trace"), 2, &["--json"]);
    let compare = |options: &str| {
        place
            .run(&format!("compare image.png --probs probs.npy --methods mf5,qp --json {options}"))
            .fine()
            .json()
    };
    assert!(compare("")["runs"][0].get("trace").is_none());
    assert_eq!(compare("--trace")["runs"][0]["trace"].as_array().map(Vec::len), Some(5));
    let place = StereoPlace::new();
    let stereo = |options: &str| {
        place
            .run(&format!("stereo scene/im2.png scene/im6.png -d 8 -o d.png -m mf5 --json {options}"))
            .fine()
            .json()
    };
    assert!(stereo("").get("trace").is_none());
    assert_eq!(stereo("--trace")["trace"].as_array().map(Vec::len), Some(5));
}

#[test]
fn overlay_shows_image_colours_and_borders() {
    let place = Place::new();
    place.write("colours.txt", b"0 0 200 water\n#00c800 tall grass\n200 0 0 roof\n100 100 100 road\n");
    let out = place.run(&format!("{SEGMENT} --overlay over.png --colors colours.txt")).fine().out;
    assert!(out.contains("over.png") && out.contains("tall grass ") && out.contains(" -> "), "{out}");
    let labels = read_labels(&place.path("out.png")).unwrap().labels;
    let (picture, photo) = (read_image(&place.path("over.png")).unwrap(), &place.scene.image);
    assert_eq!((picture.width, picture.height, picture.channels), (WIDTH, HEIGHT, 3));
    let colours = [[0.0, 0.0, 200.0], [0.0, 200.0, 0.0], [200.0, 0.0, 0.0], [100.0f32; 3]];
    let (mut blended, mut borders) = (0, 0);
    for y in 0..HEIGHT - 1 {
        for x in 0..WIDTH - 1 {
            let label = labels[y * WIDTH + x];
            let shown = picture.pixel(x, y);
            if label == labels[y * WIDTH + x + 1] && label == labels[(y + 1) * WIDTH + x] {
                blended += 1;
                let mean = |c: usize| 0.5 * (photo.pixel(x, y)[c] + colours[usize::from(label)][c]);
                assert!((0..3).all(|c| (shown[c] - mean(c)).abs() <= 1.0), "{x}, {y}: {shown:?}");
            } else {
                borders += 1;
                assert_eq!(shown, [255.0; 3]);
            }
        }
    }
    assert!(blended > 500 && borders > 20, "{blended} and {borders}");
    // The label map has the colours too.
    let map = read_image(&place.path("out.png")).unwrap();
    assert_eq!(map.pixel(0, 0), colours[usize::from(labels[0])]);

    place.fails(&format!("{SEGMENT} --overlay over.jpg"), 2, &["over.jpg", ".png"]);
    place.fails(&format!("{SEGMENT} --overlay out.png"), 1, &["out.png", "give two names"]);
    place.fails(&format!("{SEGMENT} --overlay image.png"), 1, &["image.png", "is an input"]);
    place.fails(&format!("{SEGMENT} --overlay new.png --tile 16"), 1, &["--overlay new.png", "--tile"]);
}

#[test]
fn summary_names_the_labels_and_their_fractions_before_and_after() {
    let place = Place::new();
    let fractions = |options: &str| {
        let report = place.run(&format!("{SEGMENT} --json {options}")).fine().json();
        report["classes"].as_array().unwrap().clone()
    };
    let classes = fractions("");
    assert_eq!(classes.len(), LABELS);
    assert!(classes[0]["name"].is_null());
    for part in ["before", "after"] {
        let sum: f64 = classes.iter().map(|c| c[part].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
    let labels = read_labels(&place.path("out.png")).unwrap().labels;
    let first = classes[0]["label"].as_u64().unwrap();
    let count = labels.iter().filter(|&&l| u64::from(l) == first).count();
    assert_eq!(classes[0]["after"].as_f64(), Some(count as f64 / labels.len() as f64));
    assert!(place.run(SEGMENT).fine().out.contains(&format!("label {first} ")));

    place.write("names.txt", b"water\ntall grass\nroof\nroad\n");
    let named = fractions("--names names.txt");
    assert_eq!(named[0]["name"], ["water", "tall grass", "roof", "road"][first as usize]);
    // Names beside the data need no option, unless there are too few.
    let json = |names: &[&str]| {
        let list: Vec<String> = names.iter().map(|n| format!("{{\"name\": \"{n}\"}}")).collect();
        format!("{{\"classes\": [{}]}}", list.join(", "))
    };
    place.write("labels.json", json(&["a", "b", "c", "d"]).as_bytes());
    assert_eq!(fractions("")[0]["name"], ["a", "b", "c", "d"][first as usize]);
    place.write("labels.json", json(&["a", "b"]).as_bytes());
    assert!(fractions("")[0]["name"].is_null());
    place.write("labels.json", b"something else");
    assert!(fractions("")[0]["name"].is_null());
}

#[test]
fn colours_too_few_are_a_warning_and_bad_ones_an_error() {
    let place = Place::new();
    place.write("few.txt", b"1 2 3\n4 5 6\n");
    let run = place.run(&format!("{SEGMENT} --colours few.txt"));
    assert_eq!(run.code, 0);
    assert!(run.err.contains("few.txt: has 2 colours for 4 labels"), "{}", run.err);
    place.write("bad.txt", b"1 2 3\n4 5 red\n");
    for command in [SEGMENT.replace("out.png", "new.png"), "batch image.png -o new".into()] {
        place.fails(
            &format!("{command} --colours bad.txt"),
            1,
            &["bad.txt", "line 2 is `4 5 red`", "#800000 sky"],
        );
        place.fails(&format!("{command} --colours gone.txt"), 1, &["gone.txt"]);
    }
}

#[test]
fn batch_writes_label_maps_in_the_chosen_colours() {
    let place = Place::new();
    data(&place, 2);
    let line = "batch set -o out --method mf5 --json";
    let done = |line: &str| place.run(line).fine().json()["done"].as_u64();
    assert_eq!(done(line), Some(2));
    let before = place.bytes("out/labels/0.png");
    place.write("colours.csv", b"name,r,g,b\nw,1,2,3\nx,4,5,6\ny,7,8,9\nz,10,11,12\n");
    // Other colours are other results.
    assert_eq!(done(&format!("{line} --colours colours.csv")), Some(2));
    assert_eq!(done(&format!("{line} --colours colours.csv")), Some(0));
    assert_ne!(place.bytes("out/labels/0.png"), before);
    let picture = read_image(&place.path("out/labels/0.png")).unwrap();
    assert!(picture.data.iter().all(|&v| v <= 12.0));
}
