//! Windows of files against the files as a whole.

use std::fs::File;
use std::path::PathBuf;

use ::tiff::encoder::{TiffEncoder, colortype};
use ::tiff::tags::Tag;

use super::super::testing::folder;
use super::super::{read_image, read_labels, write_grey16, write_npy_f32, write_rgb};
use super::*;

const WINDOWS: [Window; 4] = [[0..37, 0..50], [3..5, 7..8], [10..37, 20..50], [36..37, 0..50]];

fn part(image: &Image, window: &Window) -> Vec<f32> {
    let [rows, columns] = window.clone();
    rows.flat_map(|y| columns.clone().flat_map(move |x| image.pixel(x, y).to_vec())).collect()
}

#[test]
fn picture_windows_equal_parts_of_the_whole() {
    let dir = folder();
    let places = || (0..37u32).flat_map(|y| (0..50u32).map(move |x| (x, y)));
    let colour: Vec<u8> = places().flat_map(|(x, y)| [x, y, x * y].map(|v| v as u8)).collect();
    let grey: Vec<u16> = places().map(|(x, y)| (x * 900 + y) as u16).collect();
    for name in ["a.tif", "a.png", "b.tif", "b.png", "c.npy"] {
        let path = dir.path().join(name);
        let tiff = || TiffEncoder::new(File::create(&path).unwrap()).unwrap();
        match name {
            "a.tif" => tiff().write_image::<colortype::RGB8>(50, 37, &colour).unwrap(),
            "a.png" => write_rgb(&path, 50, 37, &colour).unwrap(),
            "b.tif" => tiff().write_image::<colortype::Gray16>(50, 37, &grey).unwrap(),
            "b.png" => write_grey16(&path, 50, 37, &grey).unwrap(),
            _ => {
                write_npy_f32(&path, &[37, 50, 2], &(0..3700).map(|v| v as f32).collect::<Vec<_>>()).unwrap()
            }
        }
        let whole = read_image(&path).unwrap();
        let mut raster = Raster::image(&path).unwrap();
        assert_eq!((raster.width(), raster.height(), raster.channels()), (50, 37, whole.channels), "{name}");
        for window in &WINDOWS {
            let (got, expected) = (raster.read(window).unwrap(), part(&whole, window));
            assert!(got.iter().zip(&expected).all(|(g, w)| (g - w).abs() < 1e-4), "{name} {window:?}");
            assert_eq!(got.len(), expected.len());
        }
    }
}

#[test]
fn label_maps_are_written_by_window_in_every_format() {
    let dir = folder();
    let geo = GeoTags::default();
    let sides = |side: usize| {
        (0..37usize).step_by(side).flat_map(move |y| (0..50usize).step_by(side).map(move |x| (y, x)))
    };
    for (name, labels, side) in [
        ("a.tif", 3, 16),
        ("b.tiff", 1000, 32),
        ("c.npy", 7, 10),
        ("d.npy", 300, 64),
        ("e.png", 21, 9),
        ("f.png", 999, 16),
    ] {
        let path = dir.path().join(name);
        let label = |y: usize, x: usize| ((y * 50 + x) % labels) as u16;
        let file = LabelFile { path: &path, width: 50, height: 37, labels, side, geo: &geo };
        file.write::<Error>(&Palette::voc(), |put| {
            for (y, x) in sides(side) {
                let window = [y..37.min(y + side), x..50.min(x + side)];
                let values: Vec<u16> =
                    window[0].clone().flat_map(|y| window[1].clone().map(move |x| label(y, x))).collect();
                put(&window, &values)?;
            }
            Ok(())
        })
        .unwrap();
        let map = read_labels(&path).unwrap();
        assert_eq!((map.width, map.height), (50, 37));
        assert!(map.labels.iter().enumerate().all(|(i, &l)| usize::from(l) == i % labels), "{name}");
        let mut raster = Raster::labels(&path).unwrap();
        for [rows, columns] in WINDOWS {
            let expected: Vec<u16> = rows
                .clone()
                .flat_map(|y| columns.clone().map(move |x| (y * 50 + x) as u16 % labels as u16))
                .collect();
            assert_eq!(raster.read_labels(&[rows, columns]).unwrap(), expected, "{name}");
        }
        // What fails half way leaves nothing behind, and the old file as it was.
        let before = std::fs::read(&path).unwrap();
        let failed = file.write::<Error>(&Palette::voc(), |put| {
            let window = [0..37.min(side), 0..50.min(side)];
            put(&window, &vec![0; window[0].len() * window[1].len()])?;
            Err(Error::value("disk", "full", "empty"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 6);
}

#[test]
fn files_lacking_windows_are_refused() {
    let dir = folder();
    let geo = GeoTags::default();
    for name in ["a.tif", "a.png"] {
        let path = dir.path().join(name);
        let file = LabelFile { path: &path, width: 40, height: 40, labels: 2, side: 32, geo: &geo };
        assert!(
            file.write::<Error>(&Palette::voc(), |put| put(&[0..32, 0..32], &[1; 1024])).is_err(),
            "{name}"
        );
        assert!(
            file.write::<Error>(&Palette::voc(), |put| put(&[0..30, 1..31], &[1; 900])).is_err(),
            "{name}"
        );
        assert!(!path.exists());
    }
}

/// A striped TIFF file with these tags and one band of floats, or three of bytes.
fn geotiff(path: &Path, floats: bool, nodata: &str) {
    let mut encoder = TiffEncoder::new(File::create(path).unwrap()).unwrap();
    let tags = |d: &mut ::tiff::encoder::DirectoryEncoder<File, _>| {
        d.write_tag(Tag::ModelPixelScaleTag, &[10.0f64, 10.0, 0.0][..]).unwrap();
        d.write_tag(Tag::ModelTiepointTag, &[0.0f64, 0.0, 0.0, 5e5, 4.1e6, 0.0][..]).unwrap();
        d.write_tag(Tag::GeoKeyDirectoryTag, &[1u16, 1, 0, 1, 3072, 0, 1, 32633][..]).unwrap();
        d.write_tag(Tag::GdalNodata, nodata).unwrap();
    };
    if floats {
        let mut image = encoder.new_image::<colortype::Gray32Float>(50, 37).unwrap();
        image.rows_per_strip(5).unwrap();
        tags(image.encoder());
        image.write_data(&(0..1850).map(|v| v as f32 / 1850.0).collect::<Vec<_>>()).unwrap();
    } else {
        let mut image = encoder.new_image::<colortype::RGB8>(50, 37).unwrap();
        image.rows_per_strip(7).unwrap();
        tags(image.encoder());
        image.write_data(&(0..5550).map(|v| (v % 251) as u8).collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn label_map_inherits_the_georeference_of_its_raster() {
    let dir = folder();
    let (from, to) = (dir.path().join("from.tif"), dir.path().join("to.tif"));
    geotiff(&from, false, "0");
    let geo = GeoTags::read(&from, false).unwrap();
    assert!(!geo.is_empty());
    let file = LabelFile { path: &to, width: 50, height: 37, labels: 2, side: 64, geo: &geo };
    file.write::<Error>(&Palette::voc(), |put| put(&[0..37, 0..50], &[1; 1850])).unwrap();
    let mut decoder = ::tiff::decoder::Decoder::new(File::open(&to).unwrap()).unwrap();
    assert_eq!(decoder.get_tag_f64_vec(Tag::ModelPixelScaleTag).unwrap(), [10.0, 10.0, 0.0]);
    assert_eq!(decoder.get_tag_f64_vec(Tag::ModelTiepointTag).unwrap()[3..5], [5e5, 4.1e6]);
    assert_eq!(decoder.get_tag_u16_vec(Tag::GeoKeyDirectoryTag).unwrap(), [1, 1, 0, 1, 3072, 0, 1, 32633]);
    // A picture's black is no missing label; a label map's mark is.
    assert!(decoder.find_tag(Tag::GdalNodata).unwrap().is_none());
    let geo = GeoTags::read(&from, true).unwrap();
    let file = LabelFile { geo: &geo, ..file };
    file.write::<Error>(&Palette::voc(), |put| put(&[0..37, 0..50], &[1; 1850])).unwrap();
    let mut decoder = ::tiff::decoder::Decoder::new(File::open(&to).unwrap()).unwrap();
    assert_eq!(decoder.get_tag_ascii_string(Tag::GdalNodata).unwrap(), "0");
    assert!(GeoTags::read(&dir.path().join("absent.tif"), false).is_err());
}

#[test]
fn probabilities_are_read_from_arrays_and_bands() {
    let dir = folder();
    let path = dir.path().join("p.npy");
    let planes: Vec<f32> = (0..2 * 37 * 50).map(|v| v as f32).collect();
    write_npy_f32(&path, &[2, 37, 50], &planes).unwrap();
    let mut raster = Raster::array(&path, 0).unwrap();
    assert_eq!((raster.width(), raster.height(), raster.channels()), (50, 37, 2));
    let at = |y: usize, x: usize| [(y * 50 + x) as f32, (1850 + y * 50 + x) as f32];
    let got = raster.read(&[3..5, 10..12]).unwrap();
    assert_eq!(got, [at(3, 10), at(3, 11), at(4, 10), at(4, 11)].concat());
    assert!(Raster::array(&path, 3).is_err());
    // Two files, one band each.
    let files: Vec<PathBuf> = ["0.tif", "1.tif"].iter().map(|n| dir.path().join(n)).collect();
    files.iter().for_each(|f| geotiff(f, true, "nan"));
    let mut raster = Raster::probabilities(&files).unwrap();
    assert_eq!(raster.channels(), 2);
    assert_eq!(raster.read(&[1..2, 0..1]).unwrap(), [50.0 / 1850.0; 2]);
    // Bytes are fractions of 255.
    geotiff(&files[0], false, "0");
    let mut raster = Raster::probabilities(&files[..1]).unwrap();
    assert_eq!(raster.read(&[0..1, 0..1]).unwrap(), [0.0, 1.0 / 255.0, 2.0 / 255.0]);
    assert!(Raster::probabilities(&files).unwrap_err().to_string().contains("0.tif"));
    assert!(Raster::labels(&files[0]).unwrap_err().to_string().contains("3 bands"));
}

#[test]
fn raster_is_read_as_a_picture_too() {
    // BigTIFF, and more bands than colours: read whole through the same door as any picture.
    let dir = folder();
    let path = dir.path().join("a.tif");
    let mut encoder = TiffEncoder::new_big(File::create(&path).unwrap()).unwrap();
    encoder.write_image::<colortype::Gray16>(5, 4, &(0..20).map(|v| v * 257).collect::<Vec<u16>>()).unwrap();
    drop(encoder);
    assert_eq!(read_image(&path).unwrap().pixel(3, 2), &[13.0]);
    assert_eq!(read_labels(&path).unwrap().labels[13], 13 * 257);
    let mut encoder = TiffEncoder::new(File::create(&path).unwrap()).unwrap();
    let mut directory = encoder.image_directory().unwrap();
    let values: Vec<u8> = (0..40).collect();
    let at = directory.write_data(&values[..]).unwrap();
    for (tag, value) in [(256, 4), (257, 2), (262, 1), (277, 5), (273, at as u32), (278, 2), (279, 40)] {
        directory.write_tag(Tag::from_u16_exhaustive(tag), value).unwrap();
    }
    directory.write_tag(Tag::BitsPerSample, &[8u16; 5][..]).unwrap();
    directory.finish().unwrap();
    let image = read_image(&path).unwrap();
    assert_eq!((image.width, image.height, image.channels), (4, 2, 5));
    assert_eq!(image.pixel(1, 1), &[25.0, 26.0, 27.0, 28.0, 29.0]);
}

#[test]
fn damaged_raster_is_an_error() {
    let dir = folder();
    let path = dir.path().join("a.tif");
    geotiff(&path, false, "0");
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 3, 8, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let read = Raster::image(&path).and_then(|mut r| r.read(&[0..37, 0..50]));
        assert!(read.unwrap_err().to_string().contains("a.tif"), "cut at {cut}");
    }
}
