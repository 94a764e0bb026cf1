//! Everything that can be wrong: the exit code, a message that says what and where, and nothing left behind.

mod common;

use std::fs;

use common::{HEIGHT, LABELS, Place, WIDTH};
use relaxcrf::Image;
use relaxcrf_io::{Palette, write_labels, write_npy_f32};

const SEGMENT: &str = "segment image.png --probs probs.npy -o out.png";

#[test]
fn missing_file_is_an_error_that_names_it() {
    let place = Place::new();
    for (line, name) in [
        ("segment gone.png --probs probs.npy -o out.png", "gone.png"),
        ("segment image.png --probs gone.npy -o out.png", "gone.npy"),
        ("segment image.png --probs gone.png -o out.png", "gone.png"),
        ("segment image.png --unary gone.npy -o out.png", "gone.npy"),
        ("segment image.png --unary gone.c_unary -o out.png", "gone.c_unary"),
        ("segment image.png --labels gone.png -o out.png", "gone.png"),
        ("segment image.png --probs probs.npy --compat gone.npy -o out.png", "gone.npy"),
        ("energy image.png --probs probs.npy --labels gone.png", "gone.png"),
    ] {
        place.fails(line, 1, &[name, "cannot be read", "No such file"]);
    }
}

#[test]
fn truncated_file_is_an_error_that_names_it() {
    let place = Place::new();
    for name in ["image.png", "probs.npy", "truth.png"] {
        let whole = place.bytes(name);
        place.write(&format!("cut-{name}"), &whole[..whole.len() / 2]);
        place.write(&format!("stub-{name}"), &whole[..5]);
        place.write(&format!("empty-{name}"), &[]);
    }
    for kind in ["cut", "stub", "empty"] {
        place.fails(&format!("segment {kind}-image.png --probs probs.npy -o out.png"), 1, &["image.png: "]);
        place.fails(&format!("segment image.png --probs {kind}-probs.npy -o out.png"), 1, &["probs.npy: "]);
        place.fails(&format!("segment image.png --labels {kind}-truth.png -o out.png"), 1, &["truth.png: "]);
    }
    place.fails("segment empty-image.png --probs probs.npy -o out.png", 1, &["is empty"]);
    place.fails("segment image.png --probs cut-probs.npy -o out.png", 1, &["bytes"]);
}

#[test]
fn corrupt_file_is_an_error_that_names_it() {
    let place = Place::new();
    place.write("noise", &(0..2000u32).map(|i| (i * i % 251) as u8).collect::<Vec<_>>());
    place.fails(
        "segment noise --probs probs.npy -o out.png",
        1,
        &["noise", "unsupported image format", "expected PNG"],
    );
    place.fails("segment image.png --unary noise -o out.png", 1, &["noise", "not an array", ".npy"]);
    fs::copy(place.path("noise"), place.path("x.c_unary")).unwrap();
    place.fails("segment image.png --unary x.c_unary -o out.png", 1, &["x.c_unary", "damaged"]);
    let mut header = place.bytes("probs.npy");
    header[20] = b'#';
    place.write("header.npy", &header);
    place.fails("segment image.png --probs header.npy -o out.png", 1, &["header.npy", "not understood"]);
    let mut pixels = place.bytes("image.png");
    let middle = pixels.len() / 2;
    pixels[middle] ^= 0xff;
    place.write("flipped.png", &pixels);
    place.fails("segment flipped.png --probs probs.npy -o out.png", 1, &["flipped.png"]);
}

#[test]
fn directory_in_place_of_a_file_is_an_error() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    place.fails("segment folder --probs probs.npy -o out.png", 1, &["folder", "not a regular file"]);
    place.fails("segment image.png --labels folder -o out.png", 1, &["folder", "not a regular file"]);
    place.fails(
        "segment image.png --probs folder -o out.png",
        1,
        &["folder", "no pictures", "one grey picture"],
    );
    fs::create_dir(place.path("out.png")).unwrap();
    place.fails(SEGMENT, 1, &["out.png", "is a directory"]);
    place.fails("demo --out image.png", 1, &["image.png", "is a file", "expected a directory"]);
}

#[test]
fn disagreeing_sizes_are_an_error_with_both_sizes() {
    let place = Place::new();
    let planes = place.planes();
    write_npy_f32(&place.path("turned.npy"), &[LABELS, WIDTH, HEIGHT], &planes).unwrap();
    for option in ["probs", "unary"] {
        let line = format!("segment image.png --{option} turned.npy -o out.png");
        place.fails(&line, 1, &["image.png is 40x30", "turned.npy is 30x40", "transposed?"]);
    }
    write_npy_f32(&place.path("last.npy"), &[HEIGHT, WIDTH, LABELS], &planes).unwrap();
    let texts = ["image.png is 40x30", "last.npy is 4x40 with 30 labels", "--label-axis 2"];
    place.fails("segment image.png --probs last.npy -o out.png", 1, &texts);
    write_npy_f32(&place.path("flat.npy"), &[LABELS, HEIGHT * WIDTH], &planes).unwrap();
    place.fails("segment image.png --probs flat.npy -o out.png", 1, &["flat.npy", "4 x 1200", "three axes"]);
    place.fails(&format!("{SEGMENT} --label-axis 3"), 1, &["--label-axis is 3", "4 x 30 x 40", "-3 to 2"]);
    write_labels(&place.path("small.png"), 10, 12, &[0; 120], &Palette::voc()).unwrap();
    let texts = ["image.png is 40x30", "small.png is 10x12", "same size"];
    place.fails("energy image.png --probs probs.npy --labels small.png", 1, &texts);
    place.fails("segment image.png --labels small.png -o out.png", 1, &texts);
    let images = "segment image.png --probs small.png truth.png -o out.png";
    place.fails(images, 1, &["small.png"]);
}

#[test]
fn meaningless_numbers_are_an_error_with_the_place() {
    let place = Place::new();
    let shape = [LABELS, HEIGHT, WIDTH];
    let with = |name: &str, value: f32| {
        let mut planes = place.planes();
        planes[WIDTH * HEIGHT + 7] = value;
        write_npy_f32(&place.path(name), &shape, &planes).unwrap();
    };
    with("nan.npy", f32::NAN);
    let texts = ["nan.npy", "NaN at x 7, y 0, label 1", "expected"];
    place.fails("segment image.png --probs nan.npy -o out.png", 1, &texts);
    place.fails("segment image.png --unary nan.npy -o out.png", 1, &texts);
    place.fails("energy image.png --unary nan.npy --labels truth.png", 1, &texts);
    with("minus.npy", f32::NEG_INFINITY);
    place.fails(
        "segment image.png --unary minus.npy -o out.png",
        1,
        &["minus.npy", "-inf at x 7, y 0, label 1", "+inf"],
    );
    with("five.npy", 5.0);
    let texts = ["five.npy", "5 at x 7, y 0, label 1", "0 to 1", "--logits", "--unary"];
    place.fails("segment image.png --probs five.npy -o out.png", 1, &texts);
    let mut picture = place.scene.image.data.clone();
    picture[10] = f32::NAN;
    write_npy_f32(&place.path("nan-image.npy"), &[HEIGHT, WIDTH, 3], &picture).unwrap();
    place.fails("segment nan-image.npy --probs probs.npy -o out.png", 1, &["nan-image.npy", "NaN"]);
}

#[test]
fn label_count_out_of_range_is_an_error() {
    let place = Place::new();
    write_npy_f32(&place.path("none.npy"), &[0, HEIGHT, WIDTH], &[]).unwrap();
    place.fails("segment image.png --unary none.npy -o out.png", 1, &["none.npy", "0 labels", "1 to 65535"]);
    place.fails("segment image.png --probs none.npy -o out.png", 1, &["none.npy", "0 labels", "1 to 65535"]);
    write_npy_f32(&place.path("many.npy"), &[65_536, 1, 1], &[0.5; 65_536]).unwrap();
    let dot = Image::new(1, 1, 1, vec![9.0]).unwrap();
    relaxcrf_io::write_image(&place.path("dot.png"), &dot).unwrap();
    place.fails(
        "segment dot.png --unary many.npy -o out.png",
        1,
        &["many.npy", "65536 labels", "1 to 65535"],
    );
    place.fails("segment image.png --labels truth.png --num-labels 0 -o out.png", 2, &["--num-labels", "0"]);
}

#[test]
fn label_out_of_range_is_an_error_with_the_place() {
    let place = Place::new();
    let mut labels = place.scene.truth.as_slice().to_vec();
    labels[9] = 77;
    write_labels(&place.path("wild.png"), WIDTH, HEIGHT, &labels, &Palette::voc()).unwrap();
    let texts = ["wild.png", "label 77 at pixel 9", "0 to 3"];
    place.fails("energy image.png --probs probs.npy --labels wild.png", 1, &texts);
    let texts = ["wild.png", "value 77 at x 9, y 0; expected 0 to 3 (4 labels)", "pass --unsure 77"];
    place.fails("segment image.png --labels wild.png --num-labels 4 -o out.png", 1, &texts);
    write_labels(&place.path("blank.png"), WIDTH, HEIGHT, &[255; WIDTH * HEIGHT], &Palette::voc()).unwrap();
    let texts = ["blank.png", "unsure", "--num-labels"];
    place.fails("segment image.png --labels blank.png --unsure 255 -o out.png", 1, &texts);
    place.fails(
        "segment image.png --labels image.png -o out.png",
        1,
        &["image.png", "colour image", "indexed or grey"],
    );
}

#[test]
fn bad_kernels_are_usage_errors() {
    let place = Place::new();
    for (option, texts) in [
        ("--gaussian -3:1", &["--gaussian", "-3", "positive"][..]),
        ("--gaussian 0:1", &["--gaussian", "sigma is 0", "positive"]),
        ("--gaussian nan:1", &["nan", "finite"]),
        ("--gaussian 3", &["expected SIGMA:WEIGHT"]),
        ("--gaussian 3:x", &["weight is `x`", "number"]),
        ("--gaussian 3:-1", &["weight is -1", "0 or more"]),
        ("--bilateral 80:13", &["2 part(s)", "SIGMA_XY:SIGMA_RGB:WEIGHT"]),
        ("--bilateral 80:0:5", &["sigma_rgb is 0", "positive"]),
        ("--bilateral -80:13:5", &["sigma_xy is -80", "positive"]),
        ("--compat pots", &["pots", "expected potts"]),
        ("--compat linear:0", &["truncation is 0", "positive"]),
        ("--normalization both", &["both", "none, symmetric, before or after"]),
        ("--filter quick", &["quick", "lattice-classic"]),
    ] {
        place.fails(&format!("{SEGMENT} {option}"), 2, texts);
        let line = format!("energy image.png --probs probs.npy --labels truth.png {option}");
        place.fails(&line, 2, texts);
    }
    for (option, texts) in [
        ("--gaussian 3,4,5:1", &["sigma is 3 values", "each of 2"][..]),
        ("--bilateral 80:1,2:1", &["colour sigma is 2 values", "each of 3"]),
        ("--compat w:1,2", &["2 weights", "4 labels"]),
    ] {
        place.fails(&format!("{SEGMENT} {option}"), 1, texts);
    }
    write_npy_f32(&place.path("mu.npy"), &[2, 3], &[1.0; 6]).unwrap();
    place.fails(&format!("{SEGMENT} --compat mu.npy"), 1, &["mu.npy", "2 x 3", "4 x 4"]);
    let skew: Vec<f32> = (0..16).map(|k| k as f32).collect();
    write_npy_f32(&place.path("skew.npy"), &[4, 4], &skew).unwrap();
    place.fails(&format!("{SEGMENT} --compat skew.npy"), 1, &["skew.npy", "row 0, column 1", "symmetric"]);
}

#[test]
fn bad_methods_and_limits_are_usage_errors() {
    let place = Place::new();
    for (option, texts) in [
        ("--method magic", &["magic", "known methods", "mf5"][..]),
        ("--method mf+", &["known methods"]),
        ("--max-iter 0", &["--max-iter", "0"]),
        ("--tol -1", &["-1", "0 or more"]),
        ("--time-limit soon", &["soon", "500ms"]),
        ("--time-limit -1s", &["-1s", "500ms"]),
        ("--until-gap x%", &["x%", "0.1%"]),
        ("--threads 0", &["--threads", "0"]),
        ("--confidence 1", &["--confidence", "below 1"]),
        ("--seed x", &["--seed"]),
        ("--frobnicate", &["--frobnicate", "Usage"]),
        ("--unary unary.npy", &["cannot be used with", "--probs"]),
    ] {
        place.fails(&format!("{SEGMENT} {option}"), 2, texts);
    }
    place.fails("segment image.png -o out.png", 2, &["--probs", "--unary", "--labels", "IMAGE"]);
    place.fails("segment image.png --probs probs.npy", 2, &["--output"]);
    place.fails("energy image.png --probs probs.npy", 2, &["--labels"]);
    place.fails("refine", 2, &["refine", "Usage"]);
    let bad = place.run_with(SEGMENT, &[("RELAXCRF_NUM_THREADS", "many")]);
    bad.failed(2, &["many", "--threads"]);
}

#[test]
fn impossible_outputs_are_refused_before_the_run() {
    let place = Place::new();
    let to = |out: &str| format!("segment image.png --probs probs.npy -o {out}");
    place.fails(&to("no/such/out.png"), 1, &["no/such/out.png", "no/such does not exist"]);
    place.fails(&to("image.png/out.png"), 1, &["image.png/out.png", "image.png is no directory"]);
    place.fails(&to("out.jpg"), 2, &["out.jpg", ".jpg", ".png", ".npy"]);
    place.fails(&to("out"), 2, &["no ending", ".png", ".npy"]);
    place.fails(&format!("{SEGMENT} --save-probs q.npz"), 2, &["q.npz", ".npy"]);
    place.fails(&format!("{SEGMENT} --save-probs no/q.npy"), 1, &["no/q.npy", "does not exist"]);
    let before = place.bytes("image.png");
    place.fails(&to("./image.png"), 1, &["image.png", "is an input"]);
    place.fails(&format!("{SEGMENT} --save-probs probs.npy"), 1, &["probs.npy", "is an input"]);
    place.fails("segment image.png --probs probs.npy -o q.npy --save-probs q.npy", 1, &["q.npy", "both"]);
    assert_eq!(place.bytes("image.png"), before);
}

#[cfg(unix)]
#[test]
fn directory_without_permission_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let locked = place.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("try"), b"").is_ok() {
        println!("skipped: this user may write anywhere");
        return;
    }
    let line = "segment image.png --probs probs.npy -o locked/out.png";
    place.fails(line, 1, &["locked/out.png", "cannot be written", "denied"]);
}
