//! Files in and out: pictures, label maps, NumPy arrays, compressed unaries, PFM.
//!
//! Every reader checks a header against the file's length before it allocates, so a damaged or hostile
//! file costs an error that names it, never the machine's memory. Every writer is atomic: readers of the
//! target see the old file or the complete new one. Formats are recognised by their first bytes, not by
//! their names.
//!
//! | what | reader | writer |
//! |---|---|---|
//! | pictures (PNG, JPEG, BMP, PNM, TIFF, PFM, `.npy`) | [`read_image`] | [`write_image`], [`write_rgb`], [`write_grey16`] |
//! | label maps (indexed or grey PNG, other grey pictures, `.npy`) | [`read_labels`] | [`write_labels`] |
//! | arrays (`.npy`, `.npz`, one grey picture per label) | [`read_array`], [`read_label_images`] | [`write_npy_f32`] |
//! | compressed scores (`.c_unary`) | [`read_c_unary`], [`CompressedScores`] | |
//! | any of the first three by window, also GeoTIFF | [`Raster`], [`GeoTags`] | [`LabelFile`], [`write_npy_f32_by_window`] |
//! | parameter sets (TOML) | [`read_preset`], [`find_preset`] | [`write_preset`] |
//! | real-valued maps (PFM), disparities | [`read_pfm`] | [`write_pfm`], [`write_disparity`] |

mod array;
mod atomic;
mod bmp;
mod c_unary;
mod decode;
mod decoders;
mod jpeg;
mod labels;
mod limits;
mod npy;
mod npz;
mod palette;
mod pfm;
mod picture;
mod png;
mod png_rows;
mod pnm;
mod preset;
mod tiff;
mod windows;

pub use array::{Array, array_shape, energies_from_scores, read_array, read_label_images};
pub use atomic::{is_named_pipe, write_atomically};
pub use c_unary::{CompressedScores, read_c_unary};
pub use decoders::is_decoding;
pub use labels::{LabelMap, read_labels, write_labels};
pub use limits::{MAX_PIXELS, MAX_VALUES};
pub use npy::write_npy_f32;
pub use npz::{list_npz, read_npz};
pub use palette::Palette;
pub use pfm::{read_pfm, write_pfm};
pub use picture::{image_size, read_image, write_disparity, write_grey16, write_image, write_rgb};
pub use preset::{find_preset, read_preset, write_preset};
pub use tiff::GeoTags;
pub use windows::{LabelFile, Raster, Window, npy_shape, write_npy_f32_by_window};

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use relaxcrf::error::{Error, Result};

/// Kind of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Npy,
    Zip,
    Png,
    Jpeg,
    Bmp,
    /// TIFF and BigTIFF.
    Tiff,
    /// Netpbm in all its flavours but PFM.
    Pnm,
    Pfm,
    /// None of these.
    Other,
}

/// An open file with its length and kind, positioned at its start.
struct Source {
    reader: BufReader<File>,
    length: u64,
    kind: Kind,
}

/// Opens a file on disk to be read.
///
/// A pipe has no length to check headers against and may have no end, as some devices; opening one would wait for its
/// writer. A directory has no bytes.
pub fn open_regular(path: &Path) -> Result<File> {
    let about = std::fs::metadata(path).map_err(|e| unreadable(path, e))?;
    if !about.is_file() {
        return Err(Error::file(path, "is not a regular file; give the path of a file on disk"));
    }
    File::open(path).map_err(|e| unreadable(path, e))
}

/// Reads a whole text file.
pub fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    open_regular(path)?.read_to_string(&mut text).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => Error::file(path, "is not text in UTF-8"),
        _ => unreadable(path, e),
    })?;
    Ok(text)
}

fn unreadable(path: &Path, e: std::io::Error) -> Error {
    Error::file(path, format!("cannot be read: {e}"))
}

fn open(path: &Path) -> Result<Source> {
    let fail = |e: std::io::Error| unreadable(path, e);
    let file = open_regular(path)?;
    let about = file.metadata().map_err(fail)?;
    let mut reader = BufReader::new(file);
    let mut start = Vec::with_capacity(8);
    reader.by_ref().take(8).read_to_end(&mut start).map_err(fail)?;
    reader.rewind().map_err(fail)?;
    if start.is_empty() {
        return Err(Error::file(path, "is empty"));
    }
    let kind = kind_of(&start);
    if kind == Kind::Png {
        check_palette(path, &mut reader)?;
        reader.rewind().map_err(fail)?;
    }
    Ok(Source { reader, length: about.len(), kind })
}

/// Refuses a PNG file with a palette of part of a colour, on which the decoder would panic.
fn check_palette(path: &Path, reader: &mut (impl Read + Seek)) -> Result<()> {
    const SIGNATURE: u64 = 8;
    let mut at = SIGNATURE;
    let mut head = [0; 8];
    // The decoder reports chunks that are cut off or damaged.
    while reader.seek(SeekFrom::Start(at)).is_ok() && reader.read_exact(&mut head).is_ok() {
        let [a, b, c, d, kind @ ..] = head;
        let length = u32::from_be_bytes([a, b, c, d]);
        match &kind {
            b"PLTE" if length % 3 != 0 => {
                let why =
                    format!("the picture cannot be read: its palette has {length} bytes, not three a colour");
                return Err(Error::file(path, why));
            }
            b"IDAT" | b"IEND" => break,
            // Length, kind and check sum.
            _ => at += 12 + u64::from(length),
        }
    }
    Ok(())
}

fn kind_of(start: &[u8]) -> Kind {
    match start {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Kind::Npy,
        // The second form is an archive without entries.
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Kind::Zip,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'] => Kind::Png,
        [0xff, 0xd8, 0xff, ..] => Kind::Jpeg,
        [b'B', b'M', ..] => Kind::Bmp,
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Kind::Tiff,
        [b'P', b'F' | b'f', b' ' | b'\n' | b'\r' | b'\t', ..] => Kind::Pfm,
        [b'P', b'1'..=b'7', ..] => Kind::Pnm,
        _ => Kind::Other,
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers of this module's tests.
    use std::path::PathBuf;

    /// A directory for one test's files, removed when dropped.
    pub fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    /// A BMP file of 24 bits per pixel from red, green and blue of each pixel.
    pub fn bmp24(width: usize, height: usize, rgb: &[u8]) -> Vec<u8> {
        let number = |v: usize| (v as u32).to_le_bytes();
        let row = (3 * width).next_multiple_of(4);
        let mut file = b"BM".to_vec();
        for value in [54 + row * height, 0, 54, 40, width, height] {
            file.extend(number(value));
        }
        file.extend([1, 0, 24, 0]);
        file.extend([0; 24]);
        for line in rgb.chunks_exact(3 * width).rev() {
            let start = file.len();
            line.chunks_exact(3).for_each(|p| file.extend([p[2], p[1], p[0]]));
            file.resize(start + row, 0);
        }
        file
    }

    /// A binary PPM file.
    pub fn ppm(width: usize, height: usize, rgb: &[u8]) -> Vec<u8> {
        [format!("P6 {width} {height} 255\n").as_bytes(), rgb].concat()
    }

    /// Measured data that is not part of the project; `None` (said aloud) where it is absent.
    pub fn shared(file: &str) -> Option<PathBuf> {
        let root = std::env::var_os("RELAXCRF_SHARED").map_or_else(
            || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
            PathBuf::from,
        );
        let path = root.join(file);
        if path.exists() {
            return Some(path);
        }
        println!("skipped: {} is absent", path.display());
        None
    }
}
