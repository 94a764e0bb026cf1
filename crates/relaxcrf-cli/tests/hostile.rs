//! Input that was made to break things: whatever it is, the program ends in time, by itself, with an exit code that
//! says how it went, one clear message if it failed, and no file that was not there before.

mod common;

use std::fs;
use std::process::Command;

use common::{HEIGHT, LABELS, Outcome, Place, WIDTH, crc, ends, program};
use relaxcrf::Image;
use relaxcrf::rng::Rng;
use relaxcrf::solve::METHODS;
use relaxcrf_io::{read_labels, write_image, write_npy_f32, write_pfm};

/// Runs a command that may fail, and says whether it did not. An output `out.*` of a success is removed.
fn survives(place: &Place, line: &str) -> bool {
    let before = place.names();
    let mut command = program(&place.path(""));
    command.args(line.split_whitespace());
    let run = ends(command, line);
    let done = run.code == 0;
    if done {
        for name in place.names().into_iter().filter(|n| n.starts_with("out.")) {
            if name.ends_with(".png") || name.ends_with("out.npy") {
                read_labels(&place.path(&name)).unwrap_or_else(|e| panic!("{line}: {e}"));
            }
            fs::remove_file(place.path(&name)).unwrap();
        }
    } else {
        says_why(&run, line);
    }
    assert_eq!(place.names(), before, "after {line}");
    done
}

/// The program names the reason and prints nothing else.
fn says_why(run: &Outcome, line: &str) {
    assert!(run.err.contains("relaxcrf: ") && run.err.len() > 20, "{line}: {}", run.err);
    assert_eq!(run.out, "", "{line}");
}

/// Cut, flipped, repeated, with bytes that are often limits.
fn damaged(bytes: &[u8], variants: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    let mut all =
        vec![bytes[..bytes.len() - 1].to_vec(), bytes[..bytes.len().min(20)].to_vec(), bytes.repeat(2)];
    while all.len() < variants {
        let mut one = bytes.to_vec();
        // Headers come first, so that is where damage is done most.
        let reach = if all.len() % 3 == 0 { one.len() } else { one.len().min(80) };
        match all.len() % 4 {
            0 => one.truncate(rng.below(reach)),
            1 => one[rng.below(reach)] ^= 1 << rng.below(8),
            2 => one[rng.below(reach)] = [0, 0x7f, 0x80, 0xff][rng.below(4)],
            _ => {
                let at = rng.below(reach);
                let end = (at + 4).min(one.len());
                one[at..end].fill(0xff);
            }
        }
        all.push(one);
    }
    all
}

fn c_unary(place: &Place) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [WIDTH, HEIGHT, LABELS, 2].iter().flat_map(|&v| (v as u32).to_be_bytes()).collect();
    bytes.extend(0.5f32.to_be_bytes());
    bytes.extend((0..2 * LABELS as i32).flat_map(i32::to_be_bytes));
    bytes.extend(place.scene.truth.as_slice().iter().flat_map(|&l| u32::from(l % 2).to_be_bytes()));
    bytes
}

fn tiff_of(place: &Place) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let mut encoder = tiff::encoder::TiffEncoder::new(&mut file).unwrap();
    let bytes = place.scene.image.to_bytes();
    encoder.write_image::<tiff::encoder::colortype::RGB8>(WIDTH as u32, HEIGHT as u32, &bytes).unwrap();
    file.into_inner()
}

/// A zip archive with one entry, not compressed.
fn stored_zip(name: &str, content: &[u8]) -> Vec<u8> {
    let (size, sum) = (content.len() as u32, crc(content));
    let common = |out: &mut Vec<u8>| {
        out.extend([20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        [sum, size, size].iter().for_each(|v| out.extend(v.to_le_bytes()));
        out.extend((name.len() as u16).to_le_bytes());
        out.extend([0, 0]);
    };
    let mut out = b"PK\x03\x04".to_vec();
    common(&mut out);
    out.extend(name.as_bytes());
    out.extend(content);
    let directory = out.len() as u32;
    out.extend(b"PK\x01\x02\x14\x00");
    common(&mut out);
    out.extend([0; 14]);
    out.extend(name.as_bytes());
    let length = out.len() as u32 - directory;
    out.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    [length, directory].iter().for_each(|v| out.extend(v.to_le_bytes()));
    out.extend([0, 0]);
    out
}

#[test]
fn damaged_file_of_any_kind_ends_with_one_message() {
    let place = Place::new();
    let image = &place.scene.image;
    write_pfm(&place.path("image.pfm"), image).unwrap();
    let ppm = [format!("P6 {WIDTH} {HEIGHT} 255\n").as_bytes(), &image.to_bytes()].concat();
    let segment = |image: &str, source: &str| format!("segment {image} {source} -m mf5 -o out.png");
    let probs = place.bytes("probs.npy");
    let kinds = [
        ("bad.png", place.bytes("image.png"), segment("bad.png", "--probs probs.npy")),
        ("bad.pfm", place.bytes("image.pfm"), segment("bad.pfm", "--probs probs.npy")),
        ("bad.ppm", ppm, segment("bad.ppm", "--probs probs.npy")),
        ("bad.tif", tiff_of(&place), segment("bad.tif", "--probs probs.npy")),
        ("bad.tif", tiff_of(&place), segment("bad.tif", "--probs probs.npy --tile 16 --halo 2")),
        ("bad.npy", probs.clone(), segment("image.png", "--probs bad.npy")),
        ("bad.npy", place.bytes("unary.npy"), segment("image.png", "--unary bad.npy --tile 16 --halo 2")),
        ("bad.npz", stored_zip("probs.npy", &probs), segment("image.png", "--probs bad.npz")),
        ("bad.c_unary", c_unary(&place), segment("image.png", "--unary bad.c_unary")),
        ("bad.png", place.bytes("truth.png"), segment("image.png", "--labels bad.png")),
        ("bad.png", place.bytes("truth.png"), "energy image.png --probs probs.npy --labels bad.png".into()),
    ];
    for (k, (name, whole, line)) in kinds.iter().enumerate() {
        place.write(name, whole);
        assert!(survives(&place, line), "undamaged: {line}");
        for bytes in damaged(whole, 14, k as u64) {
            place.write(name, &bytes);
            survives(&place, line);
        }
        fs::remove_file(place.path(name)).unwrap();
    }
}

/// Headers that claim terabytes, in files of a few bytes.
fn liars(place: &Place) -> Vec<(&'static str, Vec<u8>)> {
    let npy = |shape: &str| {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}\n");
        [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), b"12345678"].concat()
    };
    let png = |sizes: [u8; 8]| {
        let mut bytes = place.bytes("image.png");
        bytes[16..24].copy_from_slice(&sizes);
        let sum = crc(&bytes[12..29]).to_be_bytes();
        bytes[29..33].copy_from_slice(&sum);
        bytes
    };
    let entry = |tag: u16, value: u32| {
        [&tag.to_le_bytes()[..], &4u16.to_le_bytes(), &1u32.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    let raster = |side: u32, bands: u32| {
        let tags = [
            entry(256, side),
            entry(257, side),
            entry(258, 8),
            entry(259, 1),
            entry(262, 1),
            entry(273, 8),
            entry(277, bands),
            entry(278, side),
            entry(279, 100),
        ];
        [b"II\x2a\0\x08\0\0\0", &(tags.len() as u16).to_le_bytes()[..], &tags.concat(), &[0; 4]].concat()
    };
    let mut bmp = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    bmp.extend([0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f, 1, 0, 24, 0]);
    bmp.resize(80, 0);
    vec![
        ("lie.png", png([0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff])),
        // Within the limits, but not for so short a file.
        ("wide.png", png([0, 1, 0, 0, 0, 0, 0x0f, 0xff])),
        ("lie.tif", raster(u32::MAX, 1)),
        ("bands.tif", raster(16_384, 65_535)),
        ("square.tif", raster(60_000, 4)),
        ("lie.bmp", bmp),
        ("lie.pfm", b"PF\n2000000000 2000000000\n-1.0\n1234".to_vec()),
        ("lie.pgm", b"P5 4000000000 4000000000 255\n1234".to_vec()),
        ("image.npy", npy("1000000, 1000000, 3")),
        ("lie.npy", npy("4, 1000000000, 1000000000")),
        ("wraps.npy", npy("4294967296, 4294967296, 4294967296")),
        ("lie.npz", stored_zip("probs.npy", &npy("4, 1000000000, 1000000000"))),
        ("lie.c_unary", [[0xff; 16], [0x3f; 16]].concat()),
    ]
}

#[test]
fn headers_that_claim_terabytes_cost_no_memory() {
    let place = Place::new();
    for (name, bytes) in liars(&place) {
        place.write(name, &bytes);
        let lines = [
            format!("segment {name} --probs probs.npy -o out.png"),
            format!("segment {name} --probs probs.npy -o out.png --max-memory 1G"),
            format!("segment {name} --probs probs.npy -o out.tif --tile 16"),
            format!("segment image.png --probs {name} -o out.png"),
            format!("segment image.png --unary {name} -o out.png"),
            format!("segment image.png --unary {name} -o out.npy --tile 16"),
            format!("segment image.png --labels {name} -o out.png"),
            format!("energy image.png --probs probs.npy --labels {name}"),
            format!("stereo {name} image.png --disparities 8 -o out.png"),
        ];
        for line in lines {
            let before = place.names();
            // Two gigabytes of addresses hold the program, but nothing that these files claim.
            let mut command = Command::new("sh");
            command.args(["-c", "ulimit -v 2000000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_relaxcrf")]);
            command
                .args(line.split_whitespace())
                .current_dir(place.path(""))
                .env("RELAXCRF_NUM_THREADS", "2");
            let run = ends(command, &line);
            assert_eq!(run.code, 1, "{line}: {}", run.err);
            says_why(&run, &line);
            assert_eq!(place.names(), before, "after {line}");
        }
        fs::remove_file(place.path(name)).unwrap();
    }
}

#[test]
fn odd_numbers_in_arrays_end_with_a_result_or_one_message() {
    let place = Place::new();
    let shape = [LABELS, HEIGHT, WIDTH];
    for odd in [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e30,
        -1e30,
        f32::MAX,
        f32::MIN,
        1e-40,
        f32::MIN_POSITIVE,
        -0.0,
        1.0,
    ] {
        for (name, everywhere) in [("one.npy", false), ("all.npy", true)] {
            let mut planes = place.planes();
            let mut picture = place.scene.image.data.clone();
            if everywhere {
                planes.fill(odd);
                picture.fill(odd);
            } else {
                (planes[77], picture[77]) = (odd, odd);
            }
            write_npy_f32(&place.path(name), &shape, &planes).unwrap();
            write_npy_f32(&place.path("picture.npy"), &[HEIGHT, WIDTH, 3], &picture).unwrap();
            for method in ["mf5", "auto"] {
                let options = format!("-m {method} --max-iter 20 -o out.png");
                survives(&place, &format!("segment image.png --probs {name} {options}"));
                survives(&place, &format!("segment image.png --unary {name} {options}"));
                survives(&place, &format!("segment picture.npy --probs probs.npy {options}"));
            }
            survives(&place, &format!("segment image.png --probs {name} --tile 16 --halo 3 -o out.npy"));
            survives(&place, "segment picture.npy --unary unary.npy --tile 16 --halo 3 -o out.tif");
            survives(&place, &format!("energy image.png --unary {name} --labels truth.png"));
        }
        fs::remove_file(place.path("picture.npy")).unwrap();
    }
}

#[test]
fn odd_kernels_end_with_a_result_or_one_message_for_every_method() {
    let place = Place::new();
    let (width, height) = (7, 5);
    let image = Image::new(width, height, 3, place.scene.image.data[..105].to_vec()).unwrap();
    write_image(&place.path("small.png"), &image).unwrap();
    write_npy_f32(&place.path("two.npy"), &[2, height, width], &place.planes()[..70]).unwrap();
    let mut done = 0;
    for kernels in [
        "--gaussian 1e-9:1",
        "--gaussian 1e9:1",
        "--gaussian 1e-9:1 --bilateral 1e9:1e9:1",
        "--bilateral 1e9:1e-9:1 --filter lattice",
        "--bilateral 1e-9:1e9:1 --filter exact",
        "--gaussian 3:0",
        "--gaussian 3:1e-30",
        "--gaussian 3:1e20 --normalization none",
        "--gaussian 3:1e30 --filter lattice",
        "--gaussian 3:1e38 --normalization none --filter exact",
        "--gaussian 1e9:1e9 --filter separable",
        "--gaussian 2:3 --compat linear",
        "--gaussian 2:3 --compat w:0,1e20",
    ] {
        for method in METHODS {
            let line = format!(
                "segment small.png --unary two.npy {kernels} -m {} --max-iter 30 -o out.png",
                method.name
            );
            done += usize::from(survives(&place, &line));
        }
    }
    assert!(done > 120, "only {done} runs had an answer");
}

#[test]
fn odd_sizes_end_with_a_result_or_one_message_for_every_method() {
    let place = Place::new();
    for (width, height, labels) in
        [(1, 1, 1), (1, 1, 3), (1, 13, 2), (17, 1, 2), (13, 17, 5), (3, 2, 255), (3, 2, 256), (2, 2, 1000)]
    {
        let n = width * height;
        let flat = Image::new(width, height, 1, vec![128.0; n]).unwrap();
        write_image(&place.path("flat.png"), &flat).unwrap();
        // Equal energies everywhere: any constant labelling is best.
        write_npy_f32(&place.path("flat.npy"), &[labels, height, width], &vec![1.5; n * labels]).unwrap();
        for method in METHODS {
            let line = format!(
                "segment flat.png --unary flat.npy -m {} --max-iter 20 -o out.png --json --quiet",
                method.name
            );
            let mut command = program(&place.path(""));
            command.args(line.split_whitespace());
            let run = ends(command, &line);
            if run.code != 0 {
                assert!(run.err.contains(method.name) && labels != 2, "{line}: {}", run.err);
                continue;
            }
            let energy = run.json()["energy"].as_f64().unwrap();
            assert!((energy - 1.5 * n as f64).abs() < 1e-4 * n as f64, "{line}: energy {energy}");
            let map = read_labels(&place.path("out.png")).unwrap();
            assert_eq!((map.width, map.height), (width, height), "{line}");
        }
    }
}

#[test]
fn odd_input_for_tiles_ends_with_a_result_or_one_message() {
    let place = Place::new();
    write_npy_f32(&place.path("flat.npy"), &[HEIGHT, WIDTH], &place.planes()[..HEIGHT * WIDTH]).unwrap();
    write_npy_f32(&place.path("four.npy"), &[1, LABELS, HEIGHT, WIDTH], &place.planes()).unwrap();
    write_npy_f32(&place.path("small.npy"), &[LABELS, 10, 10], &place.planes()[..400]).unwrap();
    write_npy_f32(&place.path("dot.npy"), &[2, 1, 1], &[0.3, 0.7]).unwrap();
    write_npy_f32(&place.path("point.npy"), &[1, 1, 1], &[9.0]).unwrap();
    write_npy_f32(&place.path("void.npy"), &[0, HEIGHT, WIDTH], &[]).unwrap();
    for source in ["flat.npy", "four.npy", "small.npy", "dot.npy", "void.npy"] {
        for option in ["--probs", "--unary"] {
            let line = format!("segment image.png {option} {source} --tile 16 -o out.png");
            // Height x width is a foreground map.
            let is_map = (source, option) == ("flat.npy", "--probs");
            assert_eq!(survives(&place, &line), is_map, "{line}");
        }
    }
    assert!(survives(&place, "segment point.npy --probs dot.npy --tile 16 -o out.tif"));
    assert!(survives(
        &place,
        "segment point.npy --probs dot.npy --tile auto -o out.npy --save-probs out.q.npy"
    ));
    for tile in [
        "--tile 1 --halo 0",
        "--tile 16 --halo 1000000",
        "--tile 16 --halo 18446744073709551615",
        "--tile 18446744073709551615",
        "--tile 18446744073709551615 --halo 18446744073709551615",
        "--tile 16 --gaussian 1e9:1",
        "--tile 16 --gaussian 1e30:1",
        "--tile auto --gaussian 1e30:1",
        "--tile auto --tile-memory 1",
        "--tile auto --tile-memory 99999999999999T",
    ] {
        survives(&place, &format!("segment image.png --probs probs.npy {tile} -m mf5 -o out.png"));
    }
}

#[test]
fn odd_options_end_with_a_result_or_one_message() {
    let place = Place::new();
    for option in [
        "--max-iter 18446744073709551615 -m mf",
        "--max-iter 99999999999999999999999",
        "--time-limit 1e300s",
        "--time-limit 99999999999999999999h",
        "--time-limit nans",
        "--time-limit 0s -m graduated",
        "--until-gap 1e999%",
        "--until-gap 0 -m qp --max-iter 5",
        "--tol 1e999",
        "--tol 1e308 -m mf",
        "--max-memory 99999999999999999999T",
        "--max-memory 1",
        "--seed 18446744073709551615 -m lp --max-iter 3",
        "--method mf:x=1",
        "--method graduated:steps=1000000 --max-iter 3",
        "--method graduated:from=1e-38,to=1e-38 --max-iter 3",
        "--method smooth-lp:cells=0",
        "--method lp:bins=4294967296",
        "--gaussian 1,2,3,4:1",
        "--gaussian 3:1:1:1",
        "--confidence nan",
    ] {
        survives(&place, &format!("segment image.png --probs probs.npy -o out.png {option}"));
    }
    for disparities in ["0", "1", "40", "41", "65535", "65536", "18446744073709551615"] {
        let line = format!(
            "stereo image.png image.png --disparities {disparities} -m mf5 --max-memory 1G -o out.png"
        );
        survives(&place, &line);
    }
}

#[test]
fn damaged_list_ends_with_one_message() {
    let place = Place::new();
    let csv = b"image,probs,truth,output\nimage.png,probs.npy,truth.png,a/one\nimage.png,probs.npy,,two\n";
    let json = b"{\"image\": \"image.png\", \"probabilities\": \"probs.npy\", \"output\": \"x/one\"}\n";
    let pairs = b"name,left,right,disparities,truth,scale\na,image.png,image.png,8,truth.png,4\n";
    for (name, whole) in [("list.csv", &csv[..]), ("list.jsonl", json), ("pairs.csv", pairs)] {
        for (k, bytes) in damaged(whole, 30, 7).into_iter().enumerate() {
            place.write(name, &bytes);
            let line = match name {
                "pairs.csv" => format!("reproduce stereo . --methods mf5 --out made{k}"),
                _ => format!("batch {name} -o made{k} -m mf5"),
            };
            let mut command = program(&place.path(""));
            command.args(line.split_whitespace());
            ends(command, &line);
        }
        fs::remove_file(place.path(name)).unwrap();
    }
}
