//! `.c_unary`: scores of a classifier with few distinct rows, stored as a table and one row number per pixel.
//!
//! All numbers are 32-bit big-endian: width, height, labels, rows; a step (float); `rows x labels` integers;
//! one row number per pixel, row by row. The score is integer times step.

use std::io::Read;
use std::path::Path;

use super::array::{Array, negative_log_softmax};
use super::limits::{MAX_VALUES, check_shape, reserve};
use super::open;
use relaxcrf::error::{Error, Result};

const HEADER_BYTES: u64 = 20;

/// The scores as the file has them: a table of rows, and which row each pixel uses.
///
/// Work done per distinct row instead of per pixel is what the format is good for: see
/// [`energies`](Self::energies).
#[derive(Debug, Clone, PartialEq)]
pub struct CompressedScores {
    width: usize,
    height: usize,
    labels: usize,
    /// `rows x labels`.
    table: Vec<f32>,
    /// A valid row of `table` for every pixel.
    rows: Vec<u32>,
}

impl CompressedScores {
    /// Reads a file. Every row number is checked.
    pub fn read(path: &Path) -> Result<Self> {
        let mut source = open(path)?;
        let cut = |e: std::io::Error| Error::file(path, format!("the .c_unary data cannot be read: {e}"));
        if source.length < HEADER_BYTES {
            return Err(Error::file(
                path,
                format!("has {} bytes; a .c_unary file has at least 20", source.length),
            ));
        }
        let mut word = [0u8; 4];
        let mut sizes = [0u64; 4];
        for size in &mut sizes {
            source.reader.read_exact(&mut word).map_err(cut)?;
            *size = u64::from(u32::from_be_bytes(word));
        }
        source.reader.read_exact(&mut word).map_err(cut)?;
        let step = f32::from_be_bytes(word);
        let [width, height, labels, rows] = sizes;
        // The products of two 32-bit numbers fit; their sum with the header, in words, might not in bytes.
        let needed = (u128::from(rows * labels) + u128::from(width * height)) * 4 + u128::from(HEADER_BYTES);
        if needed != u128::from(source.length) || sizes.contains(&0) {
            return Err(Error::file(
                path,
                format!(
                    "the .c_unary header claims {width} x {height} pixels, {labels} labels and {rows} rows, \
                     that is {needed} bytes, but the file has {}; it is damaged or of another format",
                    source.length
                ),
            ));
        }
        let (pixels, entries) = ((width * height) as usize, (rows * labels) as usize);
        let mut table = reserve(path, entries)?;
        let mut ids = reserve(path, pixels)?;
        for _ in 0..entries {
            source.reader.read_exact(&mut word).map_err(cut)?;
            table.push((f64::from(i32::from_be_bytes(word)) * f64::from(step)) as f32);
        }
        for pixel in 0..pixels {
            source.reader.read_exact(&mut word).map_err(cut)?;
            let row = u32::from_be_bytes(word);
            if u64::from(row) >= rows {
                return Err(Error::file(
                    path,
                    format!(
                        "pixel {pixel} uses row {row}, but the table has only {rows} rows; the file is damaged"
                    ),
                ));
            }
            ids.push(row);
        }
        let scores = Self {
            width: width as usize,
            height: height as usize,
            labels: labels as usize,
            table,
            rows: ids,
        };
        // So that the methods below cannot fail: a small file can describe a huge array.
        let values = check_shape(path, &[scores.labels, scores.height, scores.width])?;
        drop(reserve::<f32>(path, values)?);
        Ok(scores)
    }

    /// Pixels per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Values per pixel.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The unary energies `-log softmax(score)`, in the same compressed form.
    pub fn energies(mut self) -> Self {
        self.table.chunks_exact_mut(self.labels).for_each(negative_log_softmax);
        self
    }

    /// One row of values per pixel, as the core wants them (`N x L`).
    pub fn label_rows(&self) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.rows.len() * self.labels);
        for &r in &self.rows {
            out.extend_from_slice(&self.table[r as usize * self.labels..][..self.labels]);
        }
        out
    }

    /// One plane of values per label (`L x H x W`).
    pub fn to_array(&self) -> Array {
        debug_assert!(self.rows.len().saturating_mul(self.labels) <= MAX_VALUES);
        let mut data = Vec::with_capacity(self.rows.len() * self.labels);
        for l in 0..self.labels {
            data.extend(self.rows.iter().map(|&r| self.table[r as usize * self.labels + l]));
        }
        Array { shape: vec![self.labels, self.height, self.width], data }
    }
}

/// The scores of a `.c_unary` file, `L x H x W`. [`CompressedScores`] gives energies and rows without detours.
pub fn read_c_unary(path: &Path) -> Result<Array> {
    Ok(CompressedScores::read(path)?.to_array())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::energies_from_scores;
    use super::super::testing::{folder, shared};
    use super::*;

    fn bytes(sizes: [u32; 4], step: f32, table: &[i32], rows: &[u32]) -> Vec<u8> {
        let mut out: Vec<u8> = sizes.iter().flat_map(|v| v.to_be_bytes()).collect();
        out.extend(step.to_be_bytes());
        out.extend(table.iter().flat_map(|v| v.to_be_bytes()));
        out.extend(rows.iter().flat_map(|v| v.to_be_bytes()));
        out
    }

    #[test]
    fn c_unary_planes_rows_and_energies_agree() {
        let dir = folder();
        let path = dir.path().join("a.c_unary");
        fs::write(&path, bytes([3, 1, 2, 2], 0.5, &[0, 2, -4, 6], &[1, 0, 1])).unwrap();
        let scores = CompressedScores::read(&path).unwrap();
        assert_eq!((scores.width(), scores.height(), scores.labels()), (3, 1, 2));
        assert_eq!(scores.label_rows(), [-2.0, 3.0, 0.0, 1.0, -2.0, 3.0]);
        let mut planes = read_c_unary(&path).unwrap();
        assert_eq!(planes.shape, [2, 1, 3]);
        assert_eq!(planes.data, [-2.0, 0.0, -2.0, 3.0, 1.0, 3.0]);
        energies_from_scores(&mut planes).unwrap();
        assert_eq!(scores.energies().to_array(), planes);
    }

    #[test]
    fn false_c_unary_headers_and_rows_are_errors() {
        let dir = folder();
        let path = dir.path().join("bad.c_unary");
        let whole = bytes([3, 1, 2, 2], 0.5, &[0, 2, -4, 6], &[1, 0, 1]);
        let try_bytes = |b: &[u8]| {
            fs::write(&path, b).unwrap();
            read_c_unary(&path).unwrap_err().to_string()
        };
        for cut in 0..whole.len() {
            assert!(try_bytes(&whole[..cut]).contains("bad.c_unary"));
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(try_bytes(&longer).contains("another format"));
        assert!(try_bytes(&bytes([u32::MAX; 4], 1.0, &[], &[])).contains("4294967295"));
        assert!(try_bytes(&bytes([0, 1, 2, 2], 0.5, &[0; 4], &[])).contains("damaged"));
        assert!(try_bytes(&bytes([3, 1, 2, 2], 0.5, &[0; 4], &[1, 2, 1])).contains("pixel 1 uses row 2"));
        // 800 kB that would unfold to ten thousand million values.
        let bomb = bytes([100_000, 1, 100_000, 1], 1.0, &[0; 100_000], &[0; 100_000]);
        assert!(try_bytes(&bomb).contains("100000 x 1 x 100000"));
    }

    #[test]
    fn real_c_unary_sample_is_read() {
        let Some(path) = shared("reference/msrc_sample/2_14_s.c_unary") else { return };
        let scores = CompressedScores::read(&path).unwrap();
        assert_eq!((scores.width(), scores.height(), scores.labels()), (213, 320, 21));
        let rows = scores.label_rows();
        for row in rows.chunks_exact(21) {
            let (low, high) = row.iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
            assert!(high - low <= 1.0 + 1e-6, "scores span {}", high - low);
        }
        for row in scores.energies().label_rows().chunks_exact(21) {
            let total: f64 = row.iter().map(|&e| (-f64::from(e)).exp()).sum();
            assert!((total - 1.0).abs() < 1e-5);
        }
    }
}
