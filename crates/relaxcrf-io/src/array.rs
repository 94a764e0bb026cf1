//! Real-valued arrays: unary energies, scores and probabilities.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::limits::{by, check_shape, reserve};
use super::{Kind, npy, npz, open, picture};
use relaxcrf::error::{Error, Result};
use relaxcrf::reduce;

/// The keys looked for in an `.npz` file that holds several arrays, in this order.
const KEYS: [&str; 5] = ["prob", "probs", "probabilities", "unary", "arr_0"];

/// Endings of the files that make up a folder of label pictures.
const PICTURES: [&str; 11] = ["png", "jpg", "jpeg", "bmp", "pgm", "ppm", "pnm", "pbm", "tif", "tiff", "pfm"];

/// An array of any number of dimensions in C order (last index fastest).
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The sides.
    pub shape: Vec<usize>,
    /// As many values as the product of the sides.
    pub data: Vec<f32>,
}

impl Array {
    /// One row per pixel, one column per label, from an array whose labels lie along `label_axis`.
    ///
    /// The other axes keep their order, so that pixels come out as the core counts them. An array that
    /// already has its labels last is not copied.
    pub fn into_label_rows(self, label_axis: usize) -> Result<Vec<f32>> {
        let Some(&labels) = self.shape.get(label_axis) else {
            return Err(Error::value(
                "label axis",
                label_axis,
                format!("below the {} dimensions of the array ({})", self.shape.len(), by(&self.shape)),
            ));
        };
        let inner: usize = self.shape[label_axis + 1..].iter().product();
        if inner == 1 || self.data.is_empty() {
            return Ok(self.data);
        }
        let mut rows = vec![0.0; self.data.len()];
        let per_chunk = reduce::rows_per_chunk(labels);
        for (outer, block) in rows.chunks_exact_mut(inner * labels).enumerate() {
            let from = &self.data[outer * inner * labels..];
            block.par_chunks_mut(per_chunk * labels).enumerate().for_each(|(c, piece)| {
                for (r, row) in piece.chunks_exact_mut(labels).enumerate() {
                    for (l, v) in row.iter_mut().enumerate() {
                        *v = from[l * inner + c * per_chunk + r];
                    }
                }
            });
        }
        Ok(rows)
    }
}

/// Reads numbers from a `.npy` file, an `.npz` file (its only array, or the one called `prob`, `probs`,
/// `probabilities`, `unary` or `arr_0`), or a folder with one grey picture per label (`L x H x W`, the
/// labels in the order of the names, numbers in them counted: `2.png` before `10.png`).
pub fn read_array(path: &Path) -> Result<Array> {
    if path.is_dir() {
        return read_label_images(&pictures_in(path)?);
    }
    let mut source = open(path)?;
    let (shape, data) = match source.kind {
        Kind::Npy => npy::read(path, &mut source.reader, source.length)?,
        Kind::Zip => npz::read(path, source, &KEYS, true)?,
        _ => return Err(not_an_array(path)),
    };
    Ok(Array { shape, data })
}

/// The shape of what [`read_array`] would return, from headers alone.
pub fn array_shape(path: &Path) -> Result<Vec<usize>> {
    if path.is_dir() {
        let pictures = pictures_in(path)?;
        let (width, height, _) = picture::image_size(&pictures[0])?;
        return Ok(vec![pictures.len(), height, width]);
    }
    let mut source = open(path)?;
    match source.kind {
        Kind::Npy => npy::shape(path, &mut source.reader, source.length),
        Kind::Zip => npz::shape(path, source, &KEYS),
        _ => Err(not_an_array(path)),
    }
}

fn not_an_array(path: &Path) -> Error {
    Error::file(path, "is not an array; expected .npy, .npz, or a folder with one grey picture per label")
}

/// Reads one grey picture per label as probabilities (value / 255): `L x H x W`.
pub fn read_label_images(paths: &[PathBuf]) -> Result<Array> {
    let Some(first_path) = paths.first() else {
        return Err(Error::value("list of label pictures", "empty", "one picture per label"));
    };
    let first = read_grey(first_path)?;
    let shape = vec![paths.len(), first.height, first.width];
    let mut data = reserve(first_path, check_shape(first_path, &shape)?)?;
    for (i, path) in paths.iter().enumerate() {
        let other = if i == 0 { None } else { Some(read_grey(path)?) };
        let image = other.as_ref().unwrap_or(&first);
        if (image.width, image.height) != (first.width, first.height) {
            return Err(Error::file(
                path,
                format!(
                    "has {} x {} pixels, but {} has {} x {}; all labels need the same size",
                    image.width,
                    image.height,
                    first_path.display(),
                    first.width,
                    first.height
                ),
            ));
        }
        data.extend(image.data.iter().map(|v| v / 255.0));
    }
    Ok(Array { shape, data })
}

fn read_grey(path: &Path) -> Result<relaxcrf::Image> {
    let image = picture::read_image(path)?;
    if image.channels == 1 {
        return Ok(image);
    }
    Err(Error::file(path, format!("has {} channels; expected a grey picture of one label", image.channels)))
}

/// The pictures of a folder in the order people count them.
fn pictures_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let fail = |e: std::io::Error| Error::file(folder, format!("cannot be listed: {e}"));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
        if ending.is_some_and(|e| PICTURES.contains(&e.as_str())) {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(Error::file(folder, "holds no pictures; expected one grey picture per label"));
    }
    found.sort_by(|a, b| natural(&a.to_string_lossy(), &b.to_string_lossy()));
    Ok(found)
}

/// Compares names with their numbers as numbers.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    while let (Some(&c), Some(&d)) = (x.first(), y.first()) {
        let (m, n) = (digits(x), digits(y));
        let order = if m > 0 && n > 0 {
            // Without leading zeros, the longer number is the greater one.
            let (p, q) = (strip_zeros(&x[..m]), strip_zeros(&y[..n]));
            (x, y) = (&x[m..], &y[n..]);
            p.len().cmp(&q.len()).then(p.cmp(q))
        } else {
            (x, y) = (&x[1..], &y[1..]);
            c.cmp(&d)
        };
        if order.is_ne() {
            return order;
        }
    }
    // `1.png` and `01.png` tie so far: any fixed order will do.
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

fn digits(s: &[u8]) -> usize {
    s.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn strip_zeros(s: &[u8]) -> &[u8] {
    &s[s.iter().take_while(|&&b| b == b'0').count()..]
}

/// Unary energies from scores: `-log softmax` over the first axis (the labels), in place.
pub fn energies_from_scores(scores: &mut Array) -> Result<()> {
    let labels = scores.shape.first().copied().unwrap_or(0);
    if labels == 0 {
        return Err(Error::shape("scores", by(&scores.shape), "at least one label along the first axis"));
    }
    let n = scores.data.len() / labels;
    let mut row = vec![0.0; labels];
    for pixel in 0..n {
        for (l, v) in row.iter_mut().enumerate() {
            *v = scores.data[l * n + pixel];
        }
        negative_log_softmax(&mut row);
        for (l, &v) in row.iter().enumerate() {
            scores.data[l * n + pixel] = v;
        }
    }
    Ok(())
}

/// `log(sum(exp(s))) - s` for one row. All of it relative to the maximum: nothing overflows, and a large score
/// does not swallow the logarithm.
pub(super) fn negative_log_softmax(row: &mut [f32]) {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let below = |s: f32| f64::from(s) - f64::from(top);
    let log_sum = row.iter().map(|&s| below(s).exp()).sum::<f64>().ln();
    row.iter_mut().for_each(|s| *s = (log_sum - below(*s)) as f32);
}

#[cfg(test)]
mod tests {
    use super::super::testing::folder;
    use super::super::{write_grey16, write_npy_f32, write_rgb};
    use super::*;

    #[test]
    fn label_images_are_sorted_by_number() {
        let mut names = ["p10.png", "p2.png", "p02.png", "a", "p2", "p"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "p", "p2", "p02.png", "p2.png", "p10.png"]);
        assert_eq!(natural("007", "7"), "007".cmp("7"));
        assert_eq!(natural("x", "x"), Ordering::Equal);
    }

    #[test]
    fn label_rows_are_taken_from_any_axis() {
        let a = Array { shape: vec![2, 3, 4], data: (0..24).map(|v| v as f32).collect() };
        let at = |i: usize, j: usize, k: usize| ((i * 3 + j) * 4 + k) as f32;
        let first = a.clone().into_label_rows(0).unwrap();
        let middle = a.clone().into_label_rows(1).unwrap();
        let last = a.clone().into_label_rows(2).unwrap();
        for (i, j, k) in (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| (i, j, k)))) {
            assert_eq!(first[(j * 4 + k) * 2 + i], at(i, j, k));
            assert_eq!(middle[(i * 4 + k) * 3 + j], at(i, j, k));
            assert_eq!(last[(i * 3 + j) * 4 + k], at(i, j, k));
        }
        assert!(a.into_label_rows(3).unwrap_err().to_string().contains("2 x 3 x 4"));
    }

    #[test]
    fn folder_of_label_images_is_one_array() {
        let dir = folder();
        for (name, v) in [("10.png", 65_535), ("9.png", 0)] {
            write_grey16(&dir.path().join(name), 2, 1, &[v, 257 * 51]).unwrap();
        }
        std::fs::write(dir.path().join("notes.txt"), "not a picture").unwrap();
        let a = read_array(dir.path()).unwrap();
        assert_eq!(a.shape, [2, 1, 2]);
        assert_eq!(a.data, [0.0, 0.2, 1.0, 0.2]);
        write_grey16(&dir.path().join("11.png"), 1, 1, &[0]).unwrap();
        let e = read_array(dir.path()).unwrap_err().to_string();
        assert!(e.contains("11.png") && e.contains("9.png") && e.contains("same size"), "{e}");
        let colour = dir.path().join("8.png");
        write_rgb(&colour, 1, 1, &[1, 2, 3]).unwrap();
        assert!(read_label_images(&[colour]).unwrap_err().to_string().contains("3 channels"));
        assert!(read_label_images(&[]).is_err());
        assert!(read_array(folder().path()).unwrap_err().to_string().contains("no pictures"));
    }

    #[test]
    fn files_that_are_not_arrays_are_refused() {
        let dir = folder();
        let path = dir.path().join("a.png");
        write_rgb(&path, 1, 1, &[1, 2, 3]).unwrap();
        assert!(read_array(&path).unwrap_err().to_string().contains("not an array"));
        assert!(read_array(&dir.path().join("absent.npy")).unwrap_err().to_string().contains("absent.npy"));
        std::fs::write(&path, "").unwrap();
        assert!(read_array(&path).unwrap_err().to_string().contains("empty"));
        // The first bytes decide, not the name.
        write_npy_f32(&path, &[1], &[5.0]).unwrap();
        assert_eq!(read_array(&path).unwrap().data, [5.0]);
    }

    #[test]
    fn scores_become_negative_log_softmax() {
        let mut a = Array { shape: vec![2, 2], data: vec![0.0, 1000.0, 0.0, 998.0] };
        energies_from_scores(&mut a).unwrap();
        let near = |x: f32, y: f64| assert!((f64::from(x) - y).abs() < 1e-5, "{x} {y}");
        near(a.data[0], 2f64.ln());
        near(a.data[2], 2f64.ln());
        near(a.data[1], (1.0 + (-2f64).exp()).ln());
        near(a.data[3], 2.0 + (1.0 + (-2f64).exp()).ln());
        assert!(energies_from_scores(&mut Array { shape: vec![0, 4], data: vec![] }).is_err());
    }
}
