//! Pictures as their files store them, before they become an image or a label map.

use std::io::{BufRead, Cursor, Read, Seek};
use std::path::Path;

use super::bmp::{self, Bmp};
use super::decoders::guarded;
use super::limits::{check_whole, reserve};
use super::pnm::Pnm;
use super::{Kind, Source, jpeg, png, tiff};
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};

/// Most bytes that a decoder may take: room for four 16-bit channels of the largest picture.
pub(super) const MAX_BYTES: usize = 8 * super::MAX_PIXELS;

/// The size of a picture and what its pixels hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub width: usize,
    pub height: usize,
    /// Values per pixel, alpha included.
    pub channels: usize,
    /// Whether the last of them is alpha.
    pub has_alpha: bool,
}

impl Layout {
    /// Values per pixel without alpha.
    pub fn colours(&self) -> usize {
        self.channels - usize::from(self.has_alpha)
    }

    /// Values of the whole picture.
    pub fn values(&self) -> usize {
        self.width * self.height * self.channels
    }
}

/// The values of a picture, row by row, those of a pixel side by side.
#[derive(Debug)]
pub(super) enum Samples {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
    Floats(Vec<f32>),
}

/// A decoded picture.
#[derive(Debug)]
pub(super) struct Picture {
    pub layout: Layout,
    pub samples: Samples,
}

impl Picture {
    /// On the scale of 8-bit pictures, without alpha.
    pub fn into_image(self) -> Image {
        let Layout { width, height, .. } = self.layout;
        let data = match &self.samples {
            Samples::Bytes(values) => self.without_alpha(values, f32::from),
            Samples::Words(values) => self.without_alpha(values, |v| f32::from(v) / 257.0),
            Samples::Floats(values) => self.without_alpha(values, |v| v),
        };
        Image { width, height, channels: self.layout.colours(), data }
    }

    /// The numbers of a grey picture, without alpha; `None` for colours.
    pub fn into_numbers(self) -> Option<Vec<u16>> {
        match &self.samples {
            _ if self.layout.colours() > 1 => None,
            Samples::Bytes(values) => Some(self.without_alpha(values, u16::from)),
            Samples::Words(values) => Some(self.without_alpha(values, |v| v)),
            Samples::Floats(_) => None,
        }
    }

    fn without_alpha<T: Copy, U>(&self, values: &[T], convert: impl Fn(T) -> U) -> Vec<U> {
        let colours = self.layout.colours();
        let pixels = values.chunks_exact(self.layout.channels);
        pixels.flat_map(|p| &p[..colours]).map(|&v| convert(v)).collect()
    }
}

/// Width, height and channels without alpha, from the header alone.
pub(super) fn layout(path: &Path, source: Source) -> Result<Layout> {
    guarded(path, || {
        let Source { mut reader, kind, length } = source;
        match kind {
            Kind::Jpeg => read_all(path, &mut reader, length).and_then(|all| jpeg::layout(path, &all)),
            Kind::Bmp => read_all(path, &mut reader, length.min(bmp::HEADER_BYTES as u64))
                .and_then(|start| Ok(bmp_header(path, &start)?.layout())),
            _ => header(path, kind, &mut reader),
        }
    })
}

/// Decodes a whole picture, after checking the size that its header claims.
pub(super) fn decode(path: &Path, source: Source) -> Result<Picture> {
    guarded(path, || {
        let Source { mut reader, kind, length } = source;
        // The size is asked of one decoder and the pixels of another, so the bytes are kept in between.
        let file = read_all(path, &mut reader, length)?;
        let layout = match kind {
            Kind::Jpeg => jpeg::layout(path, &file)?,
            Kind::Bmp => bmp_header(path, &file)?.layout(),
            _ => header(path, kind, &mut Cursor::new(&file))?,
        };
        check_whole(path, layout.width as u64, layout.height as u64, length)?;
        let samples = match kind {
            Kind::Png => png::decode(path, &file)?,
            Kind::Jpeg => jpeg::decode(path, &file, layout)?,
            Kind::Tiff => tiff::whole::decode(path, &file)?,
            Kind::Bmp => {
                let mut bytes = zero_bytes(path, layout.values())?;
                bmp_header(path, &file)?.decode(&file, &mut bytes).map_err(|why| unreadable(path, why))?;
                Samples::Bytes(bytes)
            }
            _ => {
                let mut reader = &file[..];
                pnm_header(path, &mut reader)?.samples(path, &mut reader, length)?
            }
        };
        Ok(Picture { layout, samples })
    })
}

/// The layout of the formats whose headers are read from front to back.
fn header(path: &Path, kind: Kind, reader: &mut (impl BufRead + Seek)) -> Result<Layout> {
    match kind {
        Kind::Png => png::layout(path, reader),
        Kind::Tiff => tiff::whole::layout(path, reader),
        Kind::Pnm => Ok(pnm_header(path, reader)?.layout()),
        _ => Err(Error::file(
            path,
            "unsupported image format; expected PNG, JPEG, BMP, PNM, TIFF, PFM or .npy",
        )),
    }
}

fn bmp_header(path: &Path, start: &[u8]) -> Result<Bmp> {
    Bmp::new(start).map_err(|why| unreadable(path, why))
}

fn pnm_header(path: &Path, reader: &mut dyn BufRead) -> Result<Pnm> {
    Pnm::new(reader).map_err(|why| unreadable(path, why))
}

/// The error that a picture's decoder gives.
pub(super) fn unreadable(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::file(path, format!("the picture cannot be read: {why}"))
}

/// As many bytes, all zero, or an error instead of an abort when memory is short.
pub(super) fn zero_bytes(path: &Path, n: usize) -> Result<Vec<u8>> {
    let mut bytes = reserve(path, n)?;
    bytes.resize(n, 0);
    Ok(bytes)
}

fn read_all(path: &Path, reader: &mut impl Read, length: u64) -> Result<Vec<u8>> {
    let mut bytes = reserve(path, usize::try_from(length).unwrap_or(usize::MAX))?;
    let read = reader.take(length).read_to_end(&mut bytes);
    read.map_err(|e| Error::file(path, format!("cannot be read: {e}")))?;
    Ok(bytes)
}
