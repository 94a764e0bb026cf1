//! Inputs that are recognised for what they are: masks, foreground maps, logits, and likely mistakes with the way out.

mod common;

use std::fs;

use common::{HEIGHT, LABELS, Place, WIDTH};
use relaxcrf::Image;
use relaxcrf_io::{Palette, read_labels, write_grey16, write_image, write_labels, write_npy_f32};

const PIXELS: usize = WIDTH * HEIGHT;

/// A mask of the first two labels against the others.
fn mask(place: &Place) -> Vec<u16> {
    place.scene.truth.as_slice().iter().map(|&l| u16::from(l < 2)).collect()
}

fn write_map(place: &Place, name: &str, labels: &[u16]) {
    write_labels(&place.path(name), WIDTH, HEIGHT, labels, &Palette::voc()).unwrap();
}

fn values(place: &Place, name: &str) -> Vec<u16> {
    read_labels(&place.path(name)).unwrap().labels
}

fn mapped(labels: &[u16], to: &[u16]) -> Vec<u16> {
    labels.iter().map(|&l| to[usize::from(l)]).collect()
}

#[test]
fn mask_of_0_and_255_is_two_labels_and_is_written_as_0_and_255() {
    let place = Place::new();
    write_map(&place, "01.png", &mask(&place));
    write_map(&place, "mask.png", &mapped(&mask(&place), &[0, 255]));
    place.run("segment image.png --gaussian 1:0.3 --labels 01.png -o 01-out.png -q").fine();
    let run = place.run("segment image.png --gaussian 1:0.3 --labels mask.png -o out.png").with_messages();
    assert_eq!(
        run.err,
        "relaxcrf: note: mask.png: a mask with the values 0 and 255; taken as labels 0 (background) and 1 (foreground), \
         and written as 0 and 255 (--num-labels 256 to take values as they are)\n"
    );
    assert_eq!(values(&place, "out.png"), mapped(&values(&place, "01-out.png"), &[0, 255]));
    assert!(values(&place, "out.png").contains(&0) && values(&place, "out.png").contains(&255));
    // A reader of grey pictures finds the same.
    let grey = relaxcrf_io::read_image(&place.path("out.png")).unwrap();
    let first: Vec<f32> = grey.data.iter().step_by(grey.channels).copied().collect();
    assert_eq!(first, values(&place, "out.png").iter().map(|&v| f32::from(v)).collect::<Vec<_>>());
    for output in ["out.npy", "out.tif"] {
        place.run(&format!("segment image.png --gaussian 1:0.3 --labels mask.png -o {output} -q")).fine();
        assert_eq!(values(&place, output), values(&place, "out.png"), "{output}");
    }
    let wide = place
        .run(
            "segment image.png --gaussian 1:0.3 --labels mask.png --num-labels 256 -m mf5 -o wide.png --json",
        )
        .json();
    assert_eq!(wide["L"], 256, "an explicit number keeps values as they are");
}

#[test]
fn sparse_values_are_compacted_and_restored_also_with_an_unsure_mark_and_in_tiles() {
    let place = Place::new();
    let truth = place.scene.truth.as_slice();
    let mut sparse = mapped(truth, &[0, 12, 60, 180]);
    write_map(&place, "sparse.png", &sparse);
    let run = place.run("segment image.png --gaussian 1:0.3 --labels sparse.png -o out.png").with_messages();
    assert_eq!(
        run.err,
        "relaxcrf: note: sparse.png: 4 values between 0 and 180; taken as labels 0 to 3, and written as they were \
         (--num-labels 181 to take values as they are)\n"
    );
    place.run("segment image.png --gaussian 1:0.3 --labels truth.png -o plain.png -q").fine();
    assert_eq!(values(&place, "out.png"), mapped(&values(&place, "plain.png"), &[0, 12, 60, 180]));
    // The unsure mark is no value.
    let mut plain = truth.to_vec();
    for k in (0..PIXELS).step_by(7) {
        (sparse[k], plain[k]) = (1, 99);
    }
    write_map(&place, "holes.png", &sparse);
    write_map(&place, "plain-holes.png", &plain);
    place.run("segment image.png --gaussian 1:0.3 --labels holes.png --unsure 1 -o a.png -q").fine();
    place.run("segment image.png --gaussian 1:0.3 --labels plain-holes.png --unsure 99 --num-labels 4 -o b.png -q").fine();
    assert_eq!(values(&place, "a.png"), mapped(&values(&place, "b.png"), &[0, 12, 60, 180]));
    let run = place
        .run("segment image.png --gaussian 1:0.3 --labels holes.png --unsure 1 --tile 16 -m mf5 -o a.tif")
        .with_messages();
    assert!(run.err.contains("4 values between 0 and 180"), "{}", run.err);
    let plain = "segment image.png --gaussian 1:0.3 --labels plain-holes.png --unsure 99 --num-labels 4 --tile 16 -m mf5 -o b.tif -q";
    place.run(plain).fine();
    assert_eq!(values(&place, "a.tif"), mapped(&values(&place, "b.tif"), &[0, 12, 60, 180]));
    // Evaluating a map uses the values of the other.
    let line = "energy image.png --labels-as-unary sparse.png --json --labels";
    let energy = |map: &str| place.run(&format!("{line} {map}")).json()["energy"].as_f64().unwrap();
    assert!(energy("out.png") <= energy("sparse.png"));
    place.fails(
        &format!("{line} truth.png"),
        1,
        &["truth.png: value", "expected a value of the label map", "0, 12, 60, 180"],
    );
}

#[test]
fn soft_mask_and_void_mark_are_warned_about() {
    let place = Place::new();
    let mut soft = mapped(&mask(&place), &[0, 255]);
    (soft[0], soft[1], soft[2]) = (3, 250, 128);
    write_map(&place, "soft.png", &soft);
    let run = place.run("segment image.png --labels soft.png -m mf5 -o out.png");
    assert!(
        run.err.contains("5 values, nearly all near 0 and 255") && run.err.contains("--probs"),
        "{}",
        run.err
    );
}

#[test]
fn foreground_map_becomes_p_and_one_minus_p() {
    let place = Place::new();
    let p: Vec<f32> = mask(&place).iter().map(|&l| if l == 1 { 0.8 } else { 0.2 }).collect();
    let both: Vec<f32> = p.iter().map(|p| 1.0 - p).chain(p.iter().copied()).collect();
    write_npy_f32(&place.path("both.npy"), &[2, HEIGHT, WIDTH], &both).unwrap();
    write_npy_f32(&place.path("fg.npy"), &[HEIGHT, WIDTH], &p).unwrap();
    write_npy_f32(&place.path("fg1.npy"), &[1, HEIGHT, WIDTH], &p).unwrap();
    let grey: Vec<u16> = p.iter().map(|p| (p * 65_535.0) as u16).collect();
    write_grey16(&place.path("fg.png"), WIDTH, HEIGHT, &grey).unwrap();
    place.run("segment image.png --probs both.npy -m mf5 --gaussian 1:0.3 -o both.png -q").fine();
    let expected = values(&place, "both.png");
    assert!(expected.contains(&0) && expected.contains(&1));
    for name in ["fg.npy", "fg1.npy", "fg.png"] {
        for tile in ["", "--tile 64"] {
            let run = place
                .run(&format!("segment image.png --probs {name} -m mf5 --gaussian 1:0.3 -o out.png {tile}"))
                .with_messages();
            assert_eq!(
                run.err,
                format!(
                    "relaxcrf: note: {name}: one channel p; taken as the probability of label 1 (foreground), and 1 - p for \
                     label 0\n"
                )
            );
            assert_eq!(values(&place, "out.png"), expected, "{name} {tile}");
        }
        let plan = place
            .run(&format!(
                "segment image.png --probs {name} -m mf5 --gaussian 1:0.3 -o no.png --dry-run --json"
            ))
            .json();
        assert_eq!(plan["labels"], 2, "{name}");
    }
    write_npy_f32(&place.path("turned.npy"), &[WIDTH, HEIGHT], &p).unwrap();
    place.fails("segment image.png --probs turned.npy -o no.png", 1, &["turned.npy is 30x40", "transposed?"]);
}

#[test]
fn batch_axis_is_an_error_with_the_fix() {
    let place = Place::new();
    write_npy_f32(&place.path("nchw.npy"), &[1, LABELS, HEIGHT, WIDTH], &place.planes()).unwrap();
    let texts =
        ["nchw.npy: has shape 1 x 4 x 30 x 40", "expected three axes, labels x height x width", "[0]"];
    for (option, array) in [("probs", "probabilities"), ("logits", "logits"), ("unary", "unary")] {
        for tile in ["", "--tile 16"] {
            let line = format!("segment image.png --{option} nchw.npy -o no.png {tile}");
            place.fails(&line, 1, &[&texts[..], &[&*format!("drop the batch axis: {array}[0]")]].concat());
        }
    }
    let two = [place.planes(), place.planes()].concat();
    write_npy_f32(&place.path("two.npy"), &[2, LABELS, HEIGHT, WIDTH], &two).unwrap();
    place.fails("segment image.png --probs two.npy -o no.png", 1, &["2 x 4 x 30 x 40", "`relaxcrf batch`"]);
}

#[test]
fn logits_are_softmaxed_in_every_command() {
    let place = Place::new();
    let shape = [LABELS, HEIGHT, WIDTH];
    // Probabilities above the floor, so that both ways give the same energies.
    let probs: Vec<f32> = place.planes().iter().map(|p| 0.96 * p + 0.01).collect();
    let logits: Vec<f32> = probs.iter().map(|p| p.ln() + 3.0).collect();
    write_npy_f32(&place.path("p.npy"), &shape, &probs).unwrap();
    write_npy_f32(&place.path("logits.npy"), &shape, &logits).unwrap();
    let energy = |source: &str| {
        let line = format!("energy image.png {source} --labels truth.png --json");
        place.run(&line).json()["energy"].as_f64().unwrap()
    };
    let (a, b) = (energy("--probs p.npy"), energy("--logits logits.npy"));
    assert!((a - b).abs() < 1e-4 * a.abs(), "{a} {b}");
    for tile in ["", "--tile 16"] {
        place.run(&format!("segment image.png --probs p.npy -m mf5 -o a.png -q {tile}")).fine();
        place.run(&format!("segment image.png --logits logits.npy -m mf5 -o b.png -q {tile}")).fine();
        assert!(agreement(&values(&place, "a.png"), &values(&place, "b.png")) > 0.999, "{tile}");
    }
    place.run("compare image.png --logits logits.npy --methods mf5 --json").json();
    place.fails(
        "segment image.png --probs logits.npy -o no.png",
        1,
        &[
            "logits.npy: ",
            "expected probabilities from 0 to 1: if these are logits (scores), pass them with --logits",
        ],
    );
    let bytes: Vec<f32> = place.planes().iter().map(|p| (p * 255.0).round()).collect();
    write_npy_f32(&place.path("bytes.npy"), &shape, &bytes).unwrap();
    place.fails(
        "segment image.png --probs bytes.npy -o no.png",
        1,
        &["bytes.npy: ", "divide the array by 255"],
    );
    for option in ["unary", "logits"] {
        let run = place.run(&format!("segment image.png --{option} p.npy -m mf5 -o c.png"));
        assert!(run.err.contains("p.npy: all values lie in 0 to 1 and sum to 1"), "{}", run.err);
        assert!(run.err.contains("pass probabilities with --probs"), "{}", run.err);
    }
}

fn agreement(a: &[u16], b: &[u16]) -> f64 {
    a.iter().zip(b).filter(|(a, b)| a == b).count() as f64 / a.len() as f64
}

#[test]
fn wrapped_image_is_warned_about() {
    let place = Place::new();
    let level = |k: usize| (20 + k % 200 + (k * 7) % 9) as f32;
    let ramp = Image::new(200, 200, 1, (0..40_000).map(level).collect()).unwrap();
    let wrapped =
        Image { data: ramp.data.iter().map(|v| (v - 117.0).rem_euclid(256.0)).collect(), ..ramp.clone() };
    write_image(&place.path("ramp.png"), &ramp).unwrap();
    write_image(&place.path("wrapped.png"), &wrapped).unwrap();
    let mask: Vec<u16> = (0..40_000).map(|k| u16::from(k % 200 > 100)).collect();
    write_labels(&place.path("m.png"), 200, 200, &mask, &Palette::voc()).unwrap();
    place.run("segment ramp.png --labels m.png -m mf5 -o out.png --json").with_messages();
    for tile in ["", "--tile 208"] {
        let run = place
            .run(&format!("segment wrapped.png --labels m.png -m mf5 -o out.png {tile}"))
            .with_messages();
        assert!(run.err.contains("wrapped.png: values seem to have wrapped around"), "{}", run.err);
    }
}

#[test]
fn option_of_another_program_is_answered_with_the_right_one() {
    let place = Place::new();
    let line = "segment image.png --probs probs.npy -o no.png";
    for (option, texts) in [
        ("--sxy 80", &["unknown option `--sxy`", "--bilateral 80:13:5"][..]),
        ("--srgb=13", &["`--srgb", "--bilateral 80:13:5"]),
        ("--sdims 3", &["--gaussian 3:1.5"]),
        ("--iterations 10", &["`--iterations`", "--method mf10", "--max-iter"]),
        ("--n-iters 5", &["`--n-iters`", "--method mf10"]),
        ("--n_labels 5", &["--num-labels"]),
        ("--gt-prob 0.7", &["--confidence"]),
        ("--softmax", &["--logits"]),
        ("--compat 10", &["--compat", "compat=10", "--bilateral 80:13:5"]),
    ] {
        place.fails(&format!("{line} {option}"), 2, texts);
    }
    place.fails(&format!("{line} --frobnicate"), 2, &["--frobnicate", "Usage"]);
}

#[test]
fn tiles_with_a_time_limit_are_refused_with_advice() {
    let place = Place::new();
    let line = "segment image.png --probs probs.npy -o no.png --tile auto";
    let texts = ["--tile cannot be combined with --time-limit", "--max-iter N", "--method mf10"];
    place.fails(&format!("{line} --time-limit 2s"), 1, &texts);
    place.fails(&format!("{line} --until-gap 1%"), 1, &["--tile cannot be combined with --until-gap"]);
    assert!(fs::metadata(place.path("no.png")).is_err());
}

#[test]
fn messages_about_inputs_are_in_errors_md() {
    let here = env!("CARGO_MANIFEST_DIR");
    let read = |name: &str| fs::read_to_string(format!("{here}/{name}")).unwrap();
    let page = read("../../docs/errors.md");
    let sources: Vec<String> = ["labels", "values", "unary", "images", "mod"]
        .map(|name| read(&format!("../relaxcrf-lab/src/inputs/{name}.rs")))
        .into_iter()
        .chain([read("src/commands/segment/tiled.rs"), read("src/commands/batch/items.rs")])
        // Texts go over several lines of code.
        .map(|code| code.split("\\\n").map(str::trim_start).collect::<String>())
        .collect();
    for words in [
        "a mask with the values 0 and 255; taken as labels 0 (background) and 1 (foreground), and written as 0 and 255",
        ", and written as they were",
        "nearly all near 0 and 255, each taken as a label",
        "value 255 occurs and is taken as a label",
        "expected a value of the label map that the unary energies are from",
        "one channel p; taken as the probability of label 1 (foreground), and 1 - p for label 0",
        "one channel; taken as the logit of label 1",
        "drop the batch axis: ",
        "expected three axes, labels x height x width",
        "expected finite logits, or -inf to forbid a label",
        "expected finite energies, or +inf to forbid a label",
        "expected probabilities from 0 to 1: ",
        "if these are logits (scores), pass them with --logits; if energies (lower is better), with --unary",
        "divide the array by 255",
        "pixels do not sum to 1",
        "all values lie in 0 to 1 and sum to 1 at every pixel, as probabilities do",
        "seem to have wrapped around",
        "--tile cannot be combined with --time-limit",
        "--tile cannot be combined with --until-gap",
        "expected a .npy, .npz or .c_unary file of the same name beside it, or a file in ",
        "images has unary energies",
    ] {
        assert!(page.contains(words), "not on the page: {words}");
        let said = ["finite logits", "finite energies"].iter().find(|w| words.contains(*w)).unwrap_or(&words);
        assert!(sources.iter().any(|code| code.contains(said)), "no longer said: {words}");
    }
}
