//! `stereo`, `compare`, `reproduce` and `study` on generated data, good and bad.

mod common;

use std::fs;

use common::{DISPARITIES, HEIGHT, Place, StereoPlace, WIDTH};
use relaxcrf::Image;
use relaxcrf_io::{Palette, read_image, read_labels, read_pfm, write_image, write_labels, write_npy_f32};

const PAIR: &str = "stereo scene/im2.png scene/im6.png -d 8";

#[test]
fn stereo_writes_every_format_and_is_near_the_truth() {
    let place = StereoPlace::new();
    let line = format!(
        "{PAIR} -m graduated --truth scene/disp2.png --scale 4 -o d.png -o d.pfm -o d.npy --colours c.png --json"
    );
    let report = place.run(&line).fine().json();
    let grey = read_labels(&place.path("d.png")).unwrap();
    let real = read_pfm(&place.path("d.pfm")).unwrap();
    let whole = read_labels(&place.path("d.npy")).unwrap();
    assert!(grey.labels.iter().zip(&real.data).all(|(g, d)| f32::from(*g) == 4.0 * d), "the truth's scale");
    assert!(whole.labels.iter().zip(&real.data).all(|(w, d)| f32::from(*w) == *d));
    assert_eq!(read_image(&place.path("c.png")).unwrap().channels, 3);
    place.run(&format!("{PAIR} -m graduated -o e.png --bits 16 -q")).fine();
    let deep = read_labels(&place.path("e.png")).unwrap();
    assert!(deep.labels.iter().zip(&whole.labels).all(|(a, b)| *a == 256 * b));

    // A truth in pixels, as an array, gives the same scores.
    let values: Vec<f32> = place.scene.truth.as_slice().iter().map(|&d| f32::from(d)).collect();
    write_npy_f32(&place.path("t.npy"), &[36, 48], &values).unwrap();
    let again = place.run(&format!("{PAIR} -m graduated --truth t.npy -o f.png --json")).fine().json();
    assert_eq!(again["truth"], report["truth"]);
    write_npy_f32(&place.path("odd.npy"), &[36 * 48], &values).unwrap();
    place.fails(&format!("{PAIR} --truth odd.npy -o g.png"), 1, &["odd.npy", "1728", "height x width"]);

    // Scores are those of the files; 0 in the truth means unknown.
    let truth = place.scene.truth.as_slice();
    let known: Vec<(u16, u16)> =
        whole.labels.iter().copied().zip(truth.iter().copied()).filter(|p| p.1 > 0).collect();
    let bad = known.iter().filter(|(a, b)| a.abs_diff(*b) > 1).count() as f64 / known.len() as f64;
    assert_eq!(report["truth"]["all"]["pixels"], known.len());
    assert!((report["truth"]["all"]["bad_1"].as_f64().unwrap() - bad).abs() < 1e-12);
    assert!(report["truth"]["visible"].is_null());
    assert!(bad < 0.35, "{bad}");
    let alone = place
        .run(&format!("{PAIR} -m unary --truth scene/disp2.png --scale 4 -o u.png --json"))
        .fine()
        .json();
    assert!(alone["truth"]["all"]["bad_1"].as_f64().unwrap() > bad + 0.1, "smoothing helps");
    let shown = place.run(&format!("{PAIR} -m mf5 --truth scene/disp2.png --scale 4 -o s.png")).fine().out;
    assert!(shown.contains("off by more than 0.5") && shown.contains("written"), "{shown}");
}

#[test]
fn stereo_without_a_method_writes_dense_maps_of_all_kinds() {
    let place = StereoPlace::new();
    fs::write(place.path("calib.txt"), "cam0=[100 0 24; 0 100 18; 0 0 1]\ndoffs=0\nbaseline=50\n").unwrap();
    let line = "stereo scene/im2.png scene/im6.png --truth scene/disp2.png --scale 4 --json -o d.pfm -o d.npy -o d.png \
                --right-output r.pfm --occluded o.png --confidence c.pfm --colours t.png --calibration calib.txt \
                --depth z.pfm --points p.ply";
    for quality in ["fast", "normal", "best"] {
        let report = place.run(&format!("{line} -d 8 --quality {quality}")).fine().json();
        assert_eq!((report["disparities"].as_u64(), report["quality"].as_str()), (Some(8), Some(quality)));
        let bad = report["truth"]["all"]["bad_1"].as_f64().unwrap();
        assert!(bad < 0.35, "{quality}: {bad}");
        let map = read_pfm(&place.path("d.pfm")).unwrap().data;
        let confidence = read_pfm(&place.path("c.pfm")).unwrap().data;
        let depth = read_pfm(&place.path("z.pfm")).unwrap().data;
        assert!(confidence.iter().all(|c| (0.0..=1.0).contains(c)));
        assert!(map.iter().zip(&depth).all(|(d, z)| *d == 0.0 || (z * d - 5000.0).abs() < 1.0));
        let grey = read_labels(&place.path("d.png")).unwrap().labels;
        assert!(
            grey.iter().zip(&map).all(|(g, d)| (f32::from(*g) - 4.0 * d).abs() <= 0.51),
            "the truth's scale"
        );
        let occluded = read_labels(&place.path("o.png")).unwrap().labels;
        let fraction = occluded.iter().filter(|v| **v == 255).count() as f64 / occluded.len() as f64;
        assert!((report["occluded"].as_f64().unwrap() - fraction).abs() < 1e-12);
        assert!(fs::read(place.path("p.ply")).unwrap().starts_with(b"ply\n"));
    }
    // Without a number of disparities, and in words.
    let out = place.run("stereo scene/im2.png scene/im6.png -o e.png").fine().out;
    assert!(out.contains("disparities") && out.contains("not confirmed"), "{out}");
}

#[test]
fn stereo_runs_with_every_matching_cost() {
    let place = StereoPlace::new();
    let energy = |cost: &str| {
        place.run(&format!("{PAIR} -m unary -o d.png --json {cost}")).fine().json()["unary_energy"]
            .as_f64()
            .unwrap()
    };
    let usual = energy("");
    assert_eq!(energy("--cost ad --truncate 40"), usual);
    assert!(energy("--truncate 5") < usual);
    assert!(energy("--truncate none") >= usual);
    assert!(energy("--cost bt") < usual, "the smallest within half a pixel");
    assert!(energy("--cost census:1") < energy("--cost census"));
    assert!((energy("--cost-step 0.01") - usual).abs() < 0.01 * 48.0 * 36.0);
}

#[test]
fn occlusions_are_read_from_a_mask_or_from_both_truths() {
    let place = StereoPlace::new();
    let mask: Vec<f32> = (0..48 * 36).map(|a| if a % 48 < 24 { 255.0 } else { 128.0 }).collect();
    write_image(&place.path("mask.png"), &Image::new(48, 36, 1, mask).unwrap()).unwrap();
    let scored = |more: &str| {
        let line = format!("{PAIR} -m unary --truth scene/disp2.png --scale 4 -o d.png --json {more}");
        place.run(&line).fine().json()["truth"].clone()
    };
    let masked = scored("--visible mask.png");
    let truth = place.scene.truth.as_slice();
    let left = truth.iter().enumerate().filter(|(a, d)| a % 48 < 24 && **d > 0).count();
    assert_eq!(masked["visible"]["pixels"], left);
    // The truth as its own right truth: only pixels whose match has the same disparity, give or take one, are seen.
    let both = scored("--truth-right scene/disp2.png");
    let agrees = |(a, d): (usize, &u16)| {
        let (x, d) = (a % 48, usize::from(*d));
        d > 0 && x >= d && truth[a - d] > 0 && truth[a - d].abs_diff(d as u16) <= 1
    };
    assert_eq!(both["visible"]["pixels"], truth.iter().enumerate().filter(|p| agrees(*p)).count());
    assert!(both["visible"]["pixels"].as_u64() < both["all"]["pixels"].as_u64());
}

#[test]
fn bad_stereo_pair_is_an_error_with_the_fix() {
    let place = StereoPlace::new();
    write_image(&place.path("small.png"), &Image::new(40, 36, 3, vec![7.0; 40 * 36 * 3]).unwrap()).unwrap();
    write_image(&place.path("grey.png"), &Image::new(48, 36, 1, vec![7.0; 48 * 36]).unwrap()).unwrap();
    write_image(&place.path("black.png"), &Image::new(48, 36, 1, vec![0.0; 48 * 36]).unwrap()).unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    let im2 = "scene/im2.png";
    for (line, code, texts) in [
        (format!("stereo gone.png {im2} -d 8 -o d.png"), 1, &["gone.png", "No such file"][..]),
        (format!("stereo {im2} gone.png -d 8 -o d.png"), 1, &["gone.png", "No such file"]),
        (format!("stereo {im2} small.png -d 8 -o d.png"), 1, &["48x36", "40x36", "small.png"]),
        (format!("stereo {im2} grey.png -d 8 -o d.png"), 1, &["1 channels", "3 channels"]),
        (format!("stereo {im2} {im2} -d 49 -o d.png"), 1, &["49", "1 to 48", "width"]),
        (format!("stereo {im2} {im2} -d 0 -o d.png"), 1, &["disparities", "0", "1 to 48"]),
        (format!("{PAIR} -o d.png --quality good"), 2, &["good", "fast, normal or best"]),
        (format!("{PAIR} -o d.png --aggregate box:0"), 2, &["box:0", "cross"]),
        (format!("{PAIR} -o d.png --points p.ply"), 2, &["--calibration"]),
        (format!("{PAIR} -o d.png --calibration grey.png --points p.ply"), 1, &["grey.png"]),
        (format!("{PAIR} -o d.png -m mf5 --occluded o.png"), 1, &["--occluded", "method"]),
        (format!("stereo {im2} {im2} -d 8"), 2, &["--output"]),
        (format!("{PAIR} -o d.jpg"), 2, &[".jpg", ".pfm"]),
        (format!("{PAIR} -o gone/d.png"), 1, &["gone/d.png", "does not exist"]),
        (format!("{PAIR} -o folder.png -o folder.png"), 1, &["twice"]),
        (format!("{PAIR} -o {im2}"), 1, &["is an input"]),
        (format!("{PAIR} -o d.png --method magic"), 2, &["magic", "known methods"]),
        (format!("{PAIR} -o d.png --cost sad"), 2, &["sad", "census"]),
        (format!("{PAIR} -o d.png --cost census:9"), 2, &["1, 2 or 3"]),
        (format!("{PAIR} -o d.png --truncate -1"), 2, &["-1"]),
        (format!("{PAIR} -o d.png --output-scale 100"), 1, &["8 bits", "--bits 16"]),
        (format!("{PAIR} -o d.png --truth scene/disp2.png"), 1, &["disp2.png", "--scale", "up to"]),
        (format!("{PAIR} -o d.png --truth small.png --scale 4"), 1, &["small.png", "colour"]),
        (format!("{PAIR} -o d.png --truth black.png --scale 4"), 1, &["black.png", "no disparity"]),
        (format!("{PAIR} -o d.png --scale 4"), 2, &["--truth"]),
        (
            format!("{PAIR} -o d.png --truth scene/disp2.png --scale 4 --visible black.png"),
            1,
            &["black.png", "mask"],
        ),
        (format!("{PAIR} -o d.png --truth scene/disp2.png --scale 4 --visible gone.png"), 1, &["gone.png"]),
    ] {
        place.fails(&line, code, texts);
    }
    let flat = place.run(&format!("{PAIR} -m mf5 -o d.png --gaussian 9:4000"));
    assert!(flat.code == 0 && flat.err.contains("weights are too large"), "{}", flat.err);
    let warned = place.run(&format!("{PAIR} -m unary -o d.png --truth scene/disp2.png --scale 1"));
    assert!(warned.code == 0 && warned.err.contains("beyond the 8"), "{}", warned.err);
}

#[test]
fn compare_writes_page_table_and_json() {
    let place = Place::new();
    let line = "compare image.png --probs probs.npy --truth truth.png --gaussian 2:1 --bilateral 20:13:2 \
                -m unary,mf,qp,qp+dc-neg --report r.html --csv r.csv --json";
    let found = place.run(line).fine().json();
    let runs = found["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|r| r["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["unary", "mf", "qp", "qp+dc-neg"]);
    // The same as each method on its own.
    for run in runs {
        let name = run["method"].as_str().unwrap();
        let line = format!(
            "segment image.png --probs probs.npy --gaussian 2:1 --bilateral 20:13:2 -m {name} -o s.png --json"
        );
        let alone = place.run(&line).fine().json();
        assert!(run["energy"].as_f64().unwrap() <= alone["energy"].as_f64().unwrap() + 1e-6, "{name}");
        let map = read_labels(&place.path("s.png")).unwrap();
        let right = map.labels.iter().zip(place.scene.truth.as_slice()).filter(|(a, b)| a == b).count();
        let accuracy = run["quality"]["accuracy"].as_f64().unwrap();
        assert!((accuracy - right as f64 / map.labels.len() as f64).abs() < 0.02, "{name}");
    }
    let csv = fs::read_to_string(place.path("r.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 4 + 1, "a heading, four methods, the best constant: {csv}");
    assert!(csv.starts_with("method,energy,end point,lower bound,gap,seconds") && csv.contains("accuracy"));
    let html = fs::read_to_string(place.path("r.html")).unwrap();
    for text in [
        "qp+dc-neg",
        "Energy against time",
        "Energy against filter calls",
        "lower bound",
        "class=\"best\"",
        "Uncertainty",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert_eq!(html.matches("<img src=\"data:image/png;base64,").count(), 2 + 4 * 2 + 3);
    // People get a table.
    let shown = place.run("compare image.png --labels truth.png -m mf5,unary").fine().out;
    assert!(shown.contains("mf5") && shown.contains("constant label"), "{shown}");
}

#[test]
fn compare_takes_a_pair_and_all_methods() {
    let place = StereoPlace::new();
    let line = "compare scene/im2.png --right scene/im6.png -d 8 --truth scene/disp2.png --scale 4 --max-iter 3 \
                --time-limit 20s --report r.html --json";
    let found = place.run(line);
    let found = found.json();
    let names: Vec<&str> =
        found["runs"].as_array().unwrap().iter().map(|r| r["method"].as_str().unwrap()).collect();
    let all = relaxcrf::solve::METHODS.iter().map(|m| m.name).chain(["qp+dc-neg", "qp+dc-neg+lp"]);
    for name in all {
        let skipped =
            found["skipped"].as_array().unwrap().iter().any(|s| s.as_str().unwrap().starts_with(name));
        assert!(names.contains(&name) || skipped, "{name}");
    }
    assert!(found["runs"][1]["quality"]["all"]["bad_1"].is_number());
    assert!(place.path("r.html").exists());
}

#[test]
fn bad_comparison_is_an_error_with_the_fix() {
    let place = Place::new();
    write_labels(
        &place.path("narrow.png"),
        WIDTH - 1,
        HEIGHT,
        &vec![0; (WIDTH - 1) * HEIGHT],
        &Palette::voc(),
    )
    .unwrap();
    write_labels(&place.path("void.png"), WIDTH, HEIGHT, &vec![255; WIDTH * HEIGHT], &Palette::voc())
        .unwrap();
    let base = "compare image.png --probs probs.npy --report r.html";
    for (line, code, texts) in [
        ("compare gone.png --probs probs.npy --report r.html".to_string(), 1, &["gone.png"][..]),
        ("compare image.png --report r.html".into(), 2, &["--probs"]),
        ("compare image.png --right image.png --report r.html".into(), 2, &["--disparities"]),
        ("compare image.png --probs probs.npy -d 3 --report r.html".into(), 1, &["--disparities", "--right"]),
        ("compare image.png --probs probs.npy --right image.png -d 3".into(), 2, &["cannot be used with"]),
        (format!("{base} -m mf,magic"), 2, &["magic", "known methods"]),
        (format!("{base} -m ,"), 2, &["no method"]),
        (format!("{base} --truth narrow.png"), 1, &["narrow.png", "39x30", "40x30"]),
        (format!("{base} --truth void.png"), 1, &["void.png", "below 4"]),
        (format!("{base} --truth truth.png --scale 4"), 1, &["--scale", "stereo"]),
        (format!("{base} --csv r.txt"), 2, &[".txt", ".csv"]),
        ("compare image.png --probs probs.npy --report r.pdf".into(), 2, &[".pdf", ".html"]),
        ("compare image.png --probs probs.npy --report gone/r.html".into(), 1, &["gone", "does not exist"]),
    ] {
        place.fails(&line, code, texts);
    }
}

#[test]
fn reproduce_stereo_finds_pairs_and_writes_all_files() {
    let place = StereoPlace::new();
    let run = place.run("reproduce stereo . --methods mf5,qp,qp+dc-neg --time-limit 5s --out out");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(
        run.out.contains("scene: E - K") && run.err.contains("scene: qp+dc-neg: energy"),
        "{}{}",
        run.out,
        run.err
    );
    for file in [
        "stereo.html",
        "stereo.md",
        "stereo.csv",
        "scene/mf5.png",
        "scene/qp+dc-neg.png",
        "scene/energy-time.svg",
    ] {
        assert!(place.path("out").join(file).is_file(), "{file}");
    }
    let csv = fs::read_to_string(place.path("out/stereo.csv")).unwrap();
    let cells = |line: &str| line.split(',').map(String::from).collect::<Vec<_>>();
    let names = cells(csv.lines().next().unwrap());
    let column = |name: &str| names.iter().position(|n| n == name).unwrap();
    let rows: Vec<Vec<String>> = csv.lines().skip(1).map(cells).collect();
    assert_eq!(rows.len(), 4);
    // Both conventions differ by the same constant.
    let number = |row: &[String], name: &str| row[column(name)].parse::<f64>().unwrap();
    let shift = |row: &[String]| number(row, "energy") - number(row, "E - K");
    assert!(rows.iter().all(|r| (shift(r) - shift(&rows[0])).abs() < 1e-6 && shift(r) > 0.0));
    let markdown = fs::read_to_string(place.path("out/stereo.md")).unwrap();
    assert!(markdown.contains("## scene") && markdown.contains("(scene/energy-time.svg)"));

    // A list instead of folders, under a name that the paper has.
    fs::write(
        place.path("scene/pairs.csv"),
        format!("name,left,right,disparities,truth,scale\nTeddy,im2.png,im6.png,{DISPARITIES},disp2.png,4\n"),
    )
    .unwrap();
    place.run("reproduce stereo scene --methods mf --time-limit 2s --out listed -q").fine();
    let markdown = fs::read_to_string(place.path("listed/stereo.md")).unwrap();
    assert!(markdown.contains("Teddy: paper") && markdown.contains("-1.137e7"), "{markdown}");
}

#[test]
fn bad_directory_of_pairs_is_an_error_with_the_fix() {
    let place = StereoPlace::new();
    fs::create_dir(place.path("empty")).unwrap();
    fs::create_dir(place.path("odd")).unwrap();
    fs::write(place.path("odd/pairs.csv"), "name,left\n").unwrap();
    fs::create_dir_all(place.path("blind/a")).unwrap();
    for name in ["im0", "im1"] {
        fs::copy(place.path("scene/im2.png"), place.path(&format!("blind/a/{name}.png"))).unwrap();
    }
    fs::write(place.path("file"), "x").unwrap();
    for (line, code, texts) in [
        ("reproduce stereo gone", 1, &["gone", "not a directory"][..]),
        ("reproduce stereo empty", 1, &["empty", "no stereo pair", "pairs.csv"]),
        ("reproduce stereo odd", 1, &["odd/pairs.csv", "`right` is missing"]),
        ("reproduce stereo blind", 1, &["how many disparities", "pairs.csv"]),
        ("reproduce stereo scene --only other", 1, &["`other`", "scene"]),
        ("reproduce stereo scene --out file", 1, &["file", "expected a directory"]),
        ("reproduce stereo scene --methods magic", 2, &["magic"]),
        ("reproduce", 2, &[]),
        ("study filter --sigmas 0", 2, &["above 0"]),
        ("study filter --sides 1", 2, &["2..="]),
        ("study filter --out file", 1, &["expected a directory"]),
    ] {
        if line == "reproduce" {
            assert_eq!(place.run(line).code, 2);
        } else {
            place.fails(line, code, texts);
        }
    }
}

#[test]
fn study_filter_writes_page_table_and_plots() {
    let place = StereoPlace::new();
    let found = place
        .run("study filter --sigmas 2,4 --sides 16,48 --image scene/im2.png --out s --json")
        .fine()
        .json();
    let lines = found["positions"].as_array().unwrap();
    assert_eq!(lines.len(), 2 * 2 + 1);
    for line in lines {
        let ratio = line["full"]["ratio"].as_f64().unwrap();
        assert!((1.0..1.3).contains(&ratio) && line["full"]["cosine"].as_f64().unwrap() > 0.98, "{line}");
        assert!((0.45..0.75).contains(&line["full_paper"]["ratio"].as_f64().unwrap()), "{line}");
    }
    // Position and colour: no constant fits.
    let ratios: Vec<f64> =
        found["bilateral"].as_array().unwrap().iter().map(|s| s["ratio"].as_f64().unwrap()).collect();
    let (low, high) = ratios.iter().fold((f64::MAX, 0f64), |(l, h), &r| (l.min(r), h.max(r)));
    assert!(high > 1.05 * low && low > 1.3 * found["plane_constant"].as_f64().unwrap(), "{ratios:?}");
    for file in [
        "filter.html",
        "filter.md",
        "filter.csv",
        "filter-full.svg",
        "filter-half.svg",
        "filter-full-no-half.svg",
    ] {
        assert!(place.path("s").join(file).is_file(), "{file}");
    }
}
