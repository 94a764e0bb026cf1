//! `relaxcrf segment --tile`: files by window, tiles that fit together, and what cannot be tiled.

mod common;

use std::fs::File;

use common::Place;
use relaxcrf::Image;
use relaxcrf_io::{Raster, read_labels, write_image, write_npy_f32};
use relaxcrf_lab::synth;

/// Narrow kernels, so that a small image has many tiles beyond each other's sight.
const KERNELS: &str = "--gaussian 1:0.5 --bilateral 4:20:3";

const SIDE: usize = 192;

/// A mosaic of small scenes, so that there is something to decide everywhere.
fn mosaic(place: &Place) -> (Image, Vec<f32>) {
    let part = SIDE / 4;
    let (mut image, mut planes) = (vec![0.0; SIDE * SIDE * 3], vec![0.0; SIDE * SIDE * 2]);
    for k in 0..16 {
        let scene = synth::segmentation(part, part, 2, k as u64 + 1).unwrap();
        for (i, p) in scene.probabilities.chunks_exact(2).enumerate() {
            let at = (k / 4 * part + i / part) * SIDE + k % 4 * part + i % part;
            image[at * 3..at * 3 + 3].copy_from_slice(&scene.image.data[i * 3..i * 3 + 3]);
            (planes[at], planes[SIDE * SIDE + at]) = (p[0], p[1]);
        }
    }
    let image = Image::new(SIDE, SIDE, 3, image).unwrap();
    write_image(&place.path("mosaic.png"), &image).unwrap();
    write_npy_f32(&place.path("mosaic.npy"), &[SIDE, SIDE, 3], &image.data).unwrap();
    write_npy_f32(&place.path("p.npy"), &[2, SIDE, SIDE], &planes).unwrap();
    (image, planes)
}

fn labels(place: &Place, name: &str) -> Vec<u16> {
    read_labels(&place.path(name)).unwrap().labels
}

fn differences(a: &[u16], b: &[u16]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

#[test]
fn tiles_with_a_halo_give_the_labels_of_the_whole_image() {
    let place = Place::new();
    mosaic(&place);
    let inputs = format!("--probs p.npy {KERNELS} --method mf5");
    // One tile is the whole image.
    place.run(&format!("segment mosaic.png {inputs} --tile {SIDE} -o whole.npy")).with_messages();
    let report = place.run(&format!("segment mosaic.npy {inputs} --tile 64 -o tiled.tif --json")).json();
    assert_eq!((report["tiles"].as_u64(), report["tile"].as_u64()), (Some(9), Some(64)));
    assert_eq!(report["halo"], serde_json::json!([20, 20]));
    let (whole, tiled) = (labels(&place, "whole.npy"), labels(&place, "tiled.tif"));
    assert_eq!(differences(&whole, &tiled), 0);
    // Without a halo the seams show: the test above can fail.
    place.run(&format!("segment mosaic.png {inputs} --tile 64 --halo 0 -o cut.png")).with_messages();
    let cut = labels(&place, "cut.png");
    assert!(differences(&whole, &cut) > 20, "{}", differences(&whole, &cut));
    // What a single run without tiles believes in the end.
    let single =
        place.run(&format!("segment mosaic.png {inputs} -o single.tif --save-probs q.npy --json")).json();
    assert!(single["energy"].is_number());
    let believed = Raster::array(&place.path("q.npy"), 0).unwrap().read(&[0..SIDE, 0..SIDE]).unwrap();
    let believed: Vec<u16> = believed.chunks_exact(2).map(|q| u16::from(q[1] > q[0])).collect();
    assert_eq!(differences(&whole, &believed), 0);
}

#[test]
fn tiles_take_every_source_and_write_every_output() {
    let place = Place::new();
    let (_, planes) = mosaic(&place);
    let energies: Vec<f32> = planes.iter().map(|p| -p.max(1e-5).ln()).collect();
    write_npy_f32(&place.path("u.npy"), &[2, SIDE, SIDE], &energies).unwrap();
    let rows: Vec<f32> = (0..SIDE * SIDE).flat_map(|a| [planes[a], planes[SIDE * SIDE + a]]).collect();
    write_npy_f32(&place.path("last.npy"), &[SIDE, SIDE, 2], &rows).unwrap();
    float_tiff(&place, "p0.tif", &planes[..SIDE * SIDE]);
    float_tiff(&place, "p1.tif", &planes[SIDE * SIDE..]);
    let run = |source: &str, out: &str| {
        place
            .run(&format!("segment mosaic.png {source} {KERNELS} --method mf5 --tile 64 -o {out}"))
            .with_messages();
        labels(&place, out)
    };
    let expected = run("--probs p.npy", "a.npy");
    for (source, out) in [
        ("--unary u.npy", "b.tif"),
        ("--probs last.npy --label-axis -1", "c.png"),
        ("--probs p0.tif p1.tif", "d.tiff"),
    ] {
        assert_eq!(differences(&expected, &run(source, out)), 0, "{source}");
    }
    // Hard labels in, from files that were written by window.
    let again = run("--labels a.npy", "e.tif");
    assert_eq!(again, run("--labels b.tif --num-labels 2", "f.npy"));
    // Beliefs by window agree with the labels.
    place
        .run(&format!(
            "segment mosaic.png --probs p.npy {KERNELS} --method mf5 --tile 64 -o g.npy --save-probs q.npy"
        ))
        .with_messages();
    let q = Raster::array(&place.path("q.npy"), 0).unwrap().read(&[0..SIDE, 0..SIDE]).unwrap();
    assert!(q.chunks_exact(2).zip(&expected).all(|(q, &l)| u16::from(q[1] > q[0]) == l));
}

/// A striped TIFF of one band of floats with a place on the map.
fn float_tiff(place: &Place, name: &str, values: &[f32]) {
    use tiff::encoder::{TiffEncoder, colortype::Gray32Float};
    let mut encoder = TiffEncoder::new_big(File::create(place.path(name)).unwrap()).unwrap();
    let mut image = encoder.new_image::<Gray32Float>(SIDE as u32, SIDE as u32).unwrap();
    image.rows_per_strip(7).unwrap();
    image.encoder().write_tag(tiff::tags::Tag::ModelPixelScaleTag, &[2.0f64, 2.0, 0.0][..]).unwrap();
    image.write_data(values).unwrap();
}

#[test]
fn tiled_label_map_inherits_the_georeference() {
    let place = Place::new();
    let (image, planes) = mosaic(&place);
    float_tiff(&place, "grey.tif", &image.brightness());
    float_tiff(&place, "p0.tif", &planes[..SIDE * SIDE]);
    float_tiff(&place, "p1.tif", &planes[SIDE * SIDE..]);
    for line in [
        "segment grey.tif --probs p.npy --tile 64 -o a.tif",
        "segment grey.tif --probs p.npy -o a.tif",
        "segment mosaic.png --probs p0.tif p1.tif --tile 64 -o a.tif",
    ] {
        place.run(&format!("{line} {KERNELS} --method mf5")).with_messages();
        let mut decoder = tiff::decoder::Decoder::new(File::open(place.path("a.tif")).unwrap()).unwrap();
        let scale = decoder.get_tag_f64_vec(tiff::tags::Tag::ModelPixelScaleTag).unwrap();
        assert_eq!(scale, [2.0, 2.0, 0.0], "{line}");
    }
}

#[test]
fn automatic_tile_size_follows_tile_memory() {
    let place = Place::new();
    mosaic(&place);
    let line = format!("segment mosaic.npy --probs p.npy {KERNELS} --method mf5 --tile auto -o a.npy --json");
    let roomy = place.run(&line).json();
    assert_eq!(roomy["tiles"], 1);
    assert!(roomy["tile"].as_u64().unwrap() >= 1024, "{roomy}");
    let tight = place.run(&format!("{line} --tile-memory 64M")).json();
    assert!(
        tight["tile"].as_u64() < roomy["tile"].as_u64()
            && tight["estimated_memory"].as_u64().unwrap() <= 64 << 20
    );
    place.fails(&line.replace("--json", "--tile-memory 1M"), 1, &["1 MiB", "at least"]);
}

#[test]
fn options_that_tiles_cannot_take_are_refused() {
    let place = Place::new();
    mosaic(&place);
    let base = format!("segment mosaic.npy --probs p.npy {KERNELS} -o out.tif --tile 64");
    for (flags, texts) in [
        ("--method auto", vec!["auto", "tile"]),
        ("--time-limit 1s", vec!["--tile", "--time-limit", "--max-iter"]),
        ("--until-gap 1%", vec!["--tile", "--until-gap", "--max-iter"]),
        ("--calibrate --normalization none", vec!["--calibrate"]),
        ("--explain", vec!["--explain"]),
    ] {
        place.fails(&format!("{base} {flags}"), 1, &texts);
    }
    place.fails(&base.replace("--tile 64", "--tile 0"), 1, &["--tile is 0"]);
    place.fails(&base.replace("--tile 64", "--tile big"), 2, &["auto", "pixels"]);
    place.fails(&base.replace("--tile 64", "--halo 3"), 2, &["--tile"]);
    place.fails(&base.replace("p.npy", "probs.npy"), 1, &["192x192", "40x30"]);
    place.fails(&base.replace("out.tif", "out.jpg"), 2, &[".tif"]);
    // A bad value is found in its tile, and nothing is left behind.
    let mut planes = vec![0.5; 2 * SIDE * SIDE];
    planes[100 * SIDE + 150] = 7.0;
    write_npy_f32(&place.path("bad.npy"), &[2, SIDE, SIDE], &planes).unwrap();
    place.fails(&base.replace("p.npy", "bad.npy"), 1, &["column 128, row 64", "7"]);
    let cut = place.bytes("p.npy");
    place.write("short.npy", &cut[..cut.len() - 5]);
    place.fails(&base.replace("p.npy", "short.npy"), 1, &["short.npy", "cut off"]);
}
