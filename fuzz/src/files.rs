//! Files of any content: read, or refused with an error that names the file; the ways to read one agree.

use std::fmt::Display;
use std::path::Path;

use relaxcrf_io::{self as io, Raster};

/// Runs `check` on a file with that content.
fn with_file(data: &[u8], ending: &str, check: impl FnOnce(&Path)) {
    let file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
    std::fs::write(file.path(), data).unwrap();
    check(file.path());
}

/// What was read, if anything; otherwise the error must be one line that names the file.
fn named<T, E: Display>(path: &Path, result: Result<T, E>) -> Option<T> {
    result
        .map_err(|e| {
            let text = e.to_string();
            assert!(text.contains(&*path.to_string_lossy()), "the error does not name the file: {text}");
        })
        .ok()
}

/// The same numbers, NaN included.
fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()))
}

/// A raster read in four windows is the raster read at once.
fn by_windows(path: &Path, raster: Option<Raster>) {
    let Some(mut raster) = raster else { return };
    let (width, height, bands) = (raster.width(), raster.height(), raster.channels());
    assert!(width > 0 && height > 0);
    // Larger ones are only opened: a header may claim a map of the world.
    if width.saturating_mul(height).saturating_mul(bands) > 1 << 20 {
        return;
    }
    let Some(whole) = named(path, raster.read(&[0..height, 0..width])) else { return };
    assert_eq!(whole.len(), width * height * bands);
    let (x, y) = (width / 2, height / 2);
    for rows in [0..y, y..height] {
        for columns in [0..x, x..width] {
            if rows.is_empty() || columns.is_empty() {
                continue;
            }
            let part = raster.read(&[rows.clone(), columns.clone()]).expect("a part of what was read whole");
            let expected: Vec<f32> = rows
                .clone()
                .flat_map(|r| whole[(r * width + columns.start) * bands..][..columns.len() * bands].iter())
                .copied()
                .collect();
            assert!(same(&part, &expected), "rows {rows:?}, columns {columns:?}");
        }
    }
}

/// Everything that reads pictures and label maps.
fn as_picture(path: &Path) {
    let size = named(path, io::image_size(path));
    let image = named(path, io::read_image(path));
    if let Some(image) = &image {
        assert_eq!(image.data.len(), image.width * image.height * image.channels);
        let (width, height, _) = size.expect("a picture that can be read has a size");
        assert_eq!((width, height), (image.width, image.height));
    }
    if let Some(map) = named(path, io::read_labels(path)) {
        assert_eq!(map.labels.len(), map.width * map.height);
    }
    by_windows(path, named(path, Raster::image(path)));
    by_windows(path, named(path, Raster::labels(path)));
}

/// `.npy` and `.npz`.
pub fn arrays(data: &[u8]) {
    with_file(data, ".npy", |path| {
        let shape = named(path, io::array_shape(path));
        if let Some(array) = named(path, io::read_array(path)) {
            assert_eq!(shape.as_ref(), Some(&array.shape), "the header alone gives the same shape");
            assert_eq!(array.data.len(), array.shape.iter().product::<usize>());
            for axis in 0..array.shape.len().min(3) {
                assert_eq!(array.clone().into_label_rows(axis).unwrap().len(), array.data.len());
            }
            let mut scores = array.clone();
            if io::energies_from_scores(&mut scores).is_ok() {
                assert_eq!(scores.data.len(), array.data.len());
            }
        }
        for key in named(path, io::list_npz(path)).unwrap_or_default() {
            named(path, io::read_npz(path, &key));
        }
        named(path, io::npy_shape(path));
        for axis in 0..4 {
            by_windows(path, named(path, Raster::array(path, axis)));
        }
        as_picture(path);
    });
}

/// `.c_unary`.
pub fn c_unary(data: &[u8]) {
    with_file(data, ".c_unary", |path| {
        let Some(scores) = named(path, io::CompressedScores::read(path)) else { return };
        let values = scores.width() * scores.height() * scores.labels();
        if values > 1 << 22 {
            return;
        }
        let array = scores.to_array();
        assert_eq!((array.data.len(), scores.label_rows().len()), (values, values));
        assert!(same(&array.into_label_rows(0).unwrap(), &scores.label_rows()));
        // The energies of a row belong to probabilities, unless its scores are out of range.
        let labels = scores.labels();
        let usable: Vec<bool> =
            scores.label_rows().chunks_exact(labels).map(|r| r.iter().all(|s| s.abs() < 1e30)).collect();
        for (row, usable) in scores.energies().label_rows().chunks_exact(labels).zip(usable) {
            let total: f64 = row.iter().map(|&e| (-f64::from(e)).exp()).sum();
            assert!(!usable || (total - 1.0).abs() < 1e-3, "{row:?} sums to {total}");
        }
    });
}

/// PNG, JPEG, BMP, PNM and PFM.
pub fn pictures(data: &[u8]) {
    with_file(data, ".png", |path| {
        as_picture(path);
        named(path, io::read_pfm(path));
    });
}

/// TIFF, BigTIFF and their tags.
pub fn tiff(data: &[u8]) {
    with_file(data, ".tif", |path| {
        as_picture(path);
        let paths = [path.to_path_buf(), path.to_path_buf()];
        by_windows(path, named(path, Raster::bands(&paths[..1])));
        by_windows(path, named(path, Raster::probabilities(&paths)));
        named(path, io::GeoTags::read(path, true));
    });
}
