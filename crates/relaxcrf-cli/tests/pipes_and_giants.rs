//! Files that are no files, and label numbers so large that tables of all pairs would not fit: each is an error, in time.

mod common;

use common::{Place, ends, program};
use relaxcrf_io::Palette;
use relaxcrf_io::write_labels;

/// Fails with all the texts, and leaves nothing behind.
fn refuses(place: &Place, line: &str, texts: &[&str]) {
    let before = place.names();
    let mut command = program(&place.path(""));
    command.args(line.split_whitespace());
    let run = ends(command, line).failed(1, texts);
    assert_eq!(run.out, "", "{line}");
    assert_eq!(place.names(), before, "after {line}");
}

#[cfg(unix)]
fn pipe(place: &Place, name: &str) {
    let made = std::process::Command::new("mkfifo").arg(place.path(name)).status();
    assert!(made.is_ok_and(|s| s.success()), "mkfifo {name}");
}

#[cfg(unix)]
#[test]
fn pipe_as_a_file_is_refused_without_waiting() {
    let place = Place::new();
    for name in ["p.png", "p.npy", "p.tif", "p.csv", "p.txt"] {
        pipe(&place, name);
    }
    for line in [
        "segment p.png --probs probs.npy -o out.png",
        "segment p.tif --probs probs.npy -o out.png",
        "segment image.png --probs p.npy -o out.png",
        "segment image.png --unary p.npy -o out.png",
        "segment image.png --labels p.png -o out.png",
        "segment image.png --probs p.npy --tile 16 -o out.tif",
        "segment p.png --probs probs.npy --dry-run -o out.png",
        "energy image.png --probs probs.npy --labels p.png",
        "evaluate p.png p.png",
        "evaluate truth.png truth.png --names p.txt",
        "batch p.csv -o made",
    ] {
        refuses(&place, line, &["p."]);
    }
    for line in [
        "segment image.png --probs probs.npy -o p.png",
        "segment image.png --probs probs.npy -o p.npy",
        "segment image.png --probs probs.npy -o p.tif",
        "segment image.png --probs probs.npy -o out.png --save-probs p.npy",
        "evaluate truth.png truth.png --csv p.csv",
        "stereo image.png image.png --disparities 4 -o p.png",
    ] {
        refuses(&place, line, &["p."]);
    }
}

#[cfg(unix)]
#[test]
fn log_that_is_a_pipe_or_a_device_is_refused() {
    let place = Place::new();
    let line = "batch image.png --probs . -o made";
    std::fs::create_dir(place.path("made")).unwrap();
    std::fs::copy(place.path("probs.npy"), place.path("image.npy")).unwrap();
    pipe(&place, "made/log.jsonl");
    let mut command = program(&place.path(""));
    command.args(line.split_whitespace());
    ends(command, line).failed(1, &["log.jsonl", "not a regular file"]);

    refuses(&place, "evaluate truth.png truth.png --names /dev/zero", &["/dev/zero", "not a regular file"]);
}

#[test]
fn large_label_numbers_are_measured_without_large_tables() {
    let place = Place::new();
    let mut far: Vec<u16> = vec![0; common::WIDTH * common::HEIGHT];
    far[7] = 65_534;
    write_labels(&place.path("far.png"), common::WIDTH, common::HEIGHT, &far, &Palette::voc()).unwrap();

    let line = "evaluate far.png far.png --json";
    let mut command = program(&place.path(""));
    command.args(line.split_whitespace());
    let measures = ends(command, line).fine().json();
    let measures = &measures[0];
    assert_eq!(measures["accuracy"], 1.0);
    assert_eq!(measures["mean_iou"], 1.0);
    assert_eq!(measures["classes"].as_array().map(Vec::len), Some(2));

    for costs in ["linear", "linear:2"] {
        let line = format!("segment image.png --labels far.png --compat {costs} -m mf5 -o out.png");
        refuses(&place, &line, &["65535", "1024", "Potts"]);
    }
    for method in ["lp", "prox-lp", "smooth-lp", "tree-lp"] {
        let line = format!("segment image.png --labels far.png --num-labels 65535 -m {method} -o out.png");
        refuses(&place, &line, &[method, "65535 labels", "dc-neg"]);
    }
}

#[test]
fn palette_with_part_of_a_colour_is_an_error() {
    let place = Place::new();
    place.write("broken.png", &png_with_palette(&[1, 2, 3, 4]));
    refuses(
        &place,
        "segment broken.png --probs probs.npy -o out.png",
        &["broken.png", "palette has 4 bytes"],
    );
    refuses(&place, "evaluate broken.png broken.png", &["broken.png", "palette has 4 bytes"]);
    refuses(&place, "study filter --image broken.png --out made", &["broken.png", "palette has 4 bytes"]);
}

/// One black pixel, indexed, with check sums that are right.
fn png_with_palette(palette: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let checked = [&kind[..], data].concat();
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(&checked);
        bytes.extend(common::crc(&checked).to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 3, 0, 0, 0]);
    chunk(b"PLTE", palette);
    // A stored deflate block of two zeros: filter and pixel.
    chunk(b"IDAT", &[0x78, 1, 1, 2, 0, 0xfd, 0xff, 0, 0, 0, 2, 0, 1]);
    chunk(b"IEND", &[]);
    bytes
}

#[test]
fn sizes_are_compared_before_memory_is_estimated() {
    let place = Place::new();
    let line = "segment other.png --probs probs.npy --dry-run -o out.png";
    let other = relaxcrf::Image::new(5, 4, 3, vec![9.0; 60]).unwrap();
    relaxcrf_io::write_image(&place.path("other.png"), &other).unwrap();
    refuses(&place, line, &["other.png is 5x4", "probs.npy is 40x30"]);
}

#[test]
fn absurd_number_of_threads_is_refused() {
    let place = Place::new();
    let line = "segment image.png --probs probs.npy -o out.png";
    let mut command = program(&place.path(""));
    command.args(line.split_whitespace()).env("RAYON_NUM_THREADS", "1000000000");
    ends(command, line).failed(1, &["RAYON_NUM_THREADS", "1000000000", "1024"]);
}

#[cfg(unix)]
#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let place = Place::new();
    for (line, variable) in [
        ("segment image.png --probs probs.npy -o out.png", "500"),
        ("segment image.png --probs probs.npy -o out.png --threads 500", "1"),
        ("evaluate truth.png truth.png", "500"),
    ] {
        // Each has a stack of two megabytes.
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -v 600000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_relaxcrf")]);
        command.args(line.split_whitespace()).current_dir(place.path("")).env("RAYON_NUM_THREADS", variable);
        ends(command, line).failed(1, &["threads cannot be started", "--threads"]);
        assert!(!place.exists("out.png"), "{line}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn little_memory_ends_with_a_result_or_one_message() {
    let place = Place::new();
    let line = "segment image.png --probs probs.npy --threads 1 -o out.png";
    // Enough to start, and not to work without fear.
    for limit in ["45056", "49152"] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -v \"$0\" && exec \"$@\"", limit, env!("CARGO_BIN_EXE_relaxcrf")]);
        command.args(line.split_whitespace()).current_dir(place.path(""));
        ends(command, line).failed(1, &["memory for the ", "MiB", "a higher limit?"]);
        assert!(!place.exists("out.png"), "{limit}");
    }
}

#[cfg(unix)]
#[test]
fn small_stack_of_the_first_thread_is_enough() {
    let place = Place::new();
    place.write("list.csv", b"image,probabilities\nimage.png,probs.npy\n");
    for line in [
        "segment image.png --probs probs.npy -o out.png",
        "segment image.png --probs probs.npy --method auto --max-iter 3 -o out.png",
        "batch list.csv -o made",
    ] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -s 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_relaxcrf")]);
        command.args(line.split_whitespace()).current_dir(place.path("")).env("RUST_MIN_STACK", "1");
        let run = ends(command, line);
        assert_eq!(run.code, 0, "{line}: {}", run.err);
    }
}

#[test]
fn control_characters_in_names_are_not_printed() {
    let place = Place::new();
    for (name, start) in [("red.npy", "'\x1b[31m"), ("long.npy", "'")] {
        let text =
            format!("{{'descr': {start}{}', 'fortran_order': False, 'shape': (1,)}}\n", "A".repeat(5000));
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        place.write(name, &bytes);
    }
    place.write("list.csv", b"image,probabilities\nimage.png,\x1b[31mprobs.npy\n");
    place.write("bad.csv", b"image,\x1b[31mprobabilities\n");
    for line in [
        "segment image.png --probs red.npy -o out.png",
        "segment image.png --probs long.npy -o out.png",
        "batch list.csv -o made",
        "batch bad.csv -o made",
    ] {
        let run = place.run(line);
        assert_eq!(run.code, 1, "{line}: {}", run.err);
        assert!(!run.err.contains(|c: char| c.is_control() && c != '\n'), "{line}: {:?}", run.err);
        assert!(run.err.len() < 1000, "{line}: {} bytes", run.err.len());
    }
}
