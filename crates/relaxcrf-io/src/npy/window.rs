//! Parts of `.npy` arrays, by seeking: neither reading nor writing holds more than the part.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::super::atomic::{replace, unwritable};
use super::super::limits::by;
use super::super::open_regular;
use super::header::{self, Class, Header};
use super::{Sample, decode_any};
use relaxcrf::error::{Error, Result};

/// A `.npy` file that is read part by part.
#[derive(Debug)]
pub(crate) struct NpyWindows {
    path: PathBuf,
    file: File,
    header: Header,
}

impl NpyWindows {
    /// Checks the header against the file's length.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |e: std::io::Error| Error::file(path, format!("cannot be read: {e}"));
        let mut file = open_regular(path)?;
        let length = file.metadata().map_err(fail)?.len();
        let header = Header::read(path, &mut file, length)?;
        if header.fortran && header.shape.len() > 1 {
            let why = "holds columns one after the other (Fortran order), of which no window can be read; save \
                       numpy.ascontiguousarray of it";
            return Err(Error::file(path, why));
        }
        let values = header.shape.iter().try_fold(1u64, |n, &s| n.checked_mul(s as u64));
        let needed = values.and_then(|n| n.checked_mul(header.size as u64));
        let left = length - header.bytes;
        if needed.is_none_or(|n| n > left || n == 0) {
            let why = format!(
                "the header claims an array of {} with {} bytes each, but {left} bytes follow; the file is cut off, \
                 empty or damaged",
                by(&header.shape),
                header.size
            );
            return Err(Error::file(path, why));
        }
        Ok(Self { path: path.to_path_buf(), file, header })
    }

    /// The array's sizes.
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// The values in a box, in C order. The ranges must lie within the shape.
    pub fn read<T: Sample>(&mut self, ranges: &[Range<usize>]) -> Result<Vec<T>> {
        assert_eq!(ranges.len(), self.header.shape.len());
        if self.header.class == Class::Float && !T::FLOATS {
            let why =
                format!("holds floating-point numbers; expected {} (convert with .astype)", T::EXPECTED);
            return Err(Error::file(&self.path, why));
        }
        let mut out = Vec::with_capacity(ranges.iter().map(Range::len).product());
        for (start, length) in runs(&self.header.shape, ranges) {
            let at = self.header.bytes + start * self.header.size as u64;
            self.file
                .seek(SeekFrom::Start(at))
                .map_err(|e| Error::file(&self.path, format!("cannot be read: {e}")))?;
            // Reading ahead of a short run would read the neighbouring windows' data.
            let room = (length * self.header.size).clamp(512, 1 << 16);
            let mut reader = BufReader::with_capacity(room, &self.file);
            out.extend(decode_any::<T>(&self.path, &mut reader, length, &self.header)?);
        }
        Ok(out)
    }
}

/// The contiguous pieces of a box in a C-order array: where each begins and how many elements it has.
fn runs(shape: &[usize], ranges: &[Range<usize>]) -> Vec<(u64, usize)> {
    // Axes at the end that are taken whole belong to one piece.
    let mut axis = ranges.len();
    let mut length = 1;
    while axis > 0 {
        axis -= 1;
        length *= ranges[axis].len();
        if ranges[axis].len() != shape[axis] {
            break;
        }
    }
    let stride = |k: usize| shape[k + 1..].iter().map(|&s| s as u64).product::<u64>();
    let mut starts = vec![0u64];
    for (k, range) in ranges.iter().enumerate().take(axis) {
        let step = stride(k);
        starts = starts.iter().flat_map(|s| range.clone().map(move |i| s + i as u64 * step)).collect();
    }
    let first = ranges.get(axis).map_or(0, |r| r.start as u64 * stride(axis));
    starts.into_iter().map(|s| (s + first, length)).collect()
}

/// Makes a `.npy` file of `shape` and lets `fill` write boxes of it, each of them once. What no box covers is zero.
pub(crate) fn write_by_window<T: Copy, const S: usize, E: From<Error>>(
    path: &Path,
    descr: &str,
    shape: &[usize],
    bytes: impl Fn(T) -> [u8; S],
    fill: impl FnOnce(&mut dyn FnMut(&[Range<usize>], &[T]) -> Result<()>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let header = header::bytes(descr, shape);
    let values: u64 = shape.iter().map(|&s| s as u64).product();
    replace(path, |file| {
        let fail = |e| unwritable(path, e);
        file.set_len(header.len() as u64 + values * S as u64).map_err(fail)?;
        file.write_all(&header).map_err(fail)?;
        fill(&mut |ranges, data| {
            let expected: usize = ranges.iter().map(Range::len).product();
            if ranges.len() != shape.len() || expected != data.len() {
                return Err(Error::shape(
                    "window to write",
                    format!("{} values", data.len()),
                    format!("{expected}"),
                ));
            }
            let mut out = BufWriter::new(&*file);
            let mut rest = data;
            for (start, length) in runs(shape, ranges) {
                let (run, after) = rest.split_at(length);
                rest = after;
                let block: Vec<u8> = run.iter().flat_map(|&v| bytes(v)).collect();
                out.seek(SeekFrom::Start(header.len() as u64 + start * S as u64)).map_err(fail)?;
                out.write_all(&block).map_err(fail)?;
            }
            out.flush().map_err(fail)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::folder;
    use super::super::{read, write};
    use super::*;

    #[test]
    fn npy_windows_equal_parts_of_the_whole_array() {
        let dir = folder();
        let path = dir.path().join("a.npy");
        let shape = [3, 4, 5];
        let values: Vec<u16> = (0..60).collect();
        write(&path, "<u2", &shape, &values, |v: u16| v.to_le_bytes()).unwrap();
        let mut file = NpyWindows::open(&path).unwrap();
        assert_eq!(file.shape(), shape);
        for ranges in [
            [0..3, 0..4, 0..5],
            [1..2, 0..4, 0..5],
            [0..3, 1..3, 2..4],
            [2..3, 3..4, 4..5],
            [0..2, 1..4, 0..5],
        ] {
            let inside = |v: u16| {
                let v = usize::from(v);
                ranges[0].contains(&(v / 20))
                    && ranges[1].contains(&(v / 5 % 4))
                    && ranges[2].contains(&(v % 5))
            };
            let expected: Vec<u16> = values.iter().copied().filter(|&v| inside(v)).collect();
            assert_eq!(file.read::<u16>(&ranges).unwrap(), expected, "{ranges:?}");
        }
    }

    #[test]
    fn npy_windows_written_in_any_order_give_the_array() {
        let dir = folder();
        let path = dir.path().join("a.npy");
        let boxes = [[1..3, 2..5], [0..1, 0..5], [1..3, 0..2]];
        write_by_window::<_, 4, Error>(
            &path,
            "<f4",
            &[3, 5],
            |v: f32| v.to_le_bytes(),
            |put| {
                for window in &boxes {
                    let values: Vec<f32> = window[0]
                        .clone()
                        .flat_map(|y| window[1].clone().map(move |x| (y * 5 + x) as f32))
                        .collect();
                    put(window, &values)?;
                }
                Ok(())
            },
        )
        .unwrap();
        let mut source = super::super::super::open(&path).unwrap();
        let (shape, values) = read::<f32>(&path, &mut source.reader, source.length).unwrap();
        assert_eq!(shape, [3, 5]);
        assert_eq!(values, (0..15).map(|v| v as f32).collect::<Vec<_>>());
        // A run that fails leaves the old file, and nothing beside it.
        let e = write_by_window::<_, 1, Error>(
            &path,
            "|u1",
            &[1, 2],
            |v: u8| [v],
            |put| put(&[0..1, 0..2], &[1]),
        )
        .unwrap_err();
        assert!(e.to_string().contains("1 values"), "{e}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(NpyWindows::open(&path).unwrap().shape(), [3, 5]);
    }

    #[test]
    fn npy_that_cannot_be_read_by_window_is_refused() {
        let dir = folder();
        let path = dir.path().join("a.npy");
        write(&path, "<f4", &[2, 3], &[0.0f32; 6], |v| v.to_le_bytes()).unwrap();
        let mut file = NpyWindows::open(&path).unwrap();
        assert!(file.read::<u16>(&[0..1, 0..1]).unwrap_err().to_string().contains("floating-point"));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(NpyWindows::open(&path).unwrap_err().to_string().contains("cut off"));
        let text = String::from_utf8_lossy(&whole[..128]).replace("False", "True ");
        let mut fortran = whole.clone();
        fortran.splice(10..128, text.as_bytes()[text.len() - 118..].iter().copied());
        std::fs::write(&path, &fortran).unwrap();
        assert!(NpyWindows::open(&path).unwrap_err().to_string().contains("Fortran"));
    }
}
