//! TIFF files by window: tiles or strips in, tiles out; BigTIFF and the tags of GeoTIFF.

mod strips;
pub(super) mod whole;
mod write;

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{ByteOrder, PlanarConfiguration, Tag, Type, ValueBuffer};
use tiff::{ColorType, TiffError};

pub(super) use self::write::write_tiles;
use super::decoders::guarded;
use super::limits::zeros;
use super::open_regular;
use relaxcrf::error::{Error, Result};

/// Most bytes of one decoded tile or strip.
const MAX_CHUNK: usize = 1 << 30;

/// What places a raster on the map: pixel scale, tie points, transformation, and the keys of its projection.
const GEO_TAGS: [Tag; 6] = [
    Tag::ModelPixelScaleTag,
    Tag::ModelTiepointTag,
    Tag::ModelTransformationTag,
    Tag::GeoKeyDirectoryTag,
    Tag::GeoDoubleParamsTag,
    Tag::GeoAsciiParamsTag,
];

/// Tags that the labels of a raster inherit from it: where it lies and, for labels, which value means nothing.
#[derive(Default)]
pub struct GeoTags(Vec<(Tag, ValueBuffer)>);

impl std::fmt::Debug for GeoTags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(tag, _)| tag)).finish()
    }
}

impl GeoTags {
    /// The tags of a TIFF file; none for other files and for TIFF files without a place.
    ///
    /// The value for missing data is one of the file's own values, so it is taken from label maps only.
    pub fn read(path: &Path, is_label_map: bool) -> Result<Self> {
        if !is_tiff(path)? {
            return Ok(Self::default());
        }
        let mut decoder = decoder(path)?;
        let mut found = Vec::new();
        let nodata = is_label_map.then_some(Tag::GdalNodata);
        for tag in GEO_TAGS.into_iter().chain(nodata) {
            let mut value = ValueBuffer::empty(Type::BYTE);
            let entry = decoder.image_ifd().find_tag_buf(tag, &mut value).map_err(|e| unreadable(path, e))?;
            if entry.is_some() {
                value.set_byte_order(ByteOrder::native());
                found.push((tag, value));
            }
        }
        Ok(Self(found))
    }

    /// Whether there is nothing to inherit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether the file begins as a TIFF or BigTIFF file does.
pub(super) fn is_tiff(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let fail = |e| Error::file(path, format!("cannot be read: {e}"));
    if path.is_dir() {
        return Ok(false);
    }
    open_regular(path)?.take(4).read_to_end(&mut start).map_err(fail)?;
    Ok(matches!(start[..], [b'I', b'I', 42 | 43, 0] | [b'M', b'M', 0, 42 | 43]))
}

/// Whether this is a TIFF file that common picture readers do not take: BigTIFF, or with other bands than grey and RGB.
pub(super) fn is_raster(path: &Path) -> Result<bool> {
    if !is_tiff(path)? {
        return Ok(false);
    }
    let mut start = [0; 4];
    let read = open_regular(path).is_ok_and(|mut f| f.read_exact(&mut start).is_ok());
    let big = read && (start[2] == 43 || start[3] == 43);
    strips::check(path)?;
    // What cannot even be opened is left to the picture reader to complain about.
    Ok(big || TiffWindows::open(path).is_ok_and(|t| !matches!(t.bands, 1 | 3)))
}

/// Values of one type, as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Samples {
    /// Bytes.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// Other integers.
    Integer,
    /// Floating-point numbers.
    Float,
}

/// A TIFF file that is read window by window.
pub(super) struct TiffWindows {
    path: PathBuf,
    decoder: Decoder<BufReader<File>>,
    pub width: usize,
    pub height: usize,
    /// Values per pixel that are read: colours without alpha, or all bands.
    pub bands: usize,
    pub samples: Samples,
    /// Values per pixel in a decoded chunk.
    stored: usize,
    planar: bool,
    chunk: (usize, usize),
}

impl std::fmt::Debug for TiffWindows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TiffWindows({}, {} x {} x {})", self.path.display(), self.width, self.height, self.bands)
    }
}

fn unreadable(path: &Path, e: impl Display) -> Error {
    Error::file(path, format!("the TIFF file cannot be read: {e}"))
}

fn decoder(path: &Path) -> Result<Decoder<BufReader<File>>> {
    strips::check(path)?;
    let file = open_regular(path)?;
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MAX_CHUNK;
    limits.intermediate_buffer_size = MAX_CHUNK;
    // Offsets of a million tiles.
    limits.ifd_value_size = 1 << 26;
    let decoder = guarded(path, || Decoder::new(BufReader::new(file)).map_err(|e| unreadable(path, e)))?;
    Ok(decoder.with_limits(limits))
}

impl TiffWindows {
    /// Looks at the first image of the file.
    pub fn open(path: &Path) -> Result<Self> {
        guarded(path, || Self::open_checked(path))
    }

    fn open_checked(path: &Path) -> Result<Self> {
        let fail = |e: TiffError| unreadable(path, e);
        let mut decoder = decoder(path)?;
        let (width, height) = decoder.dimensions().map_err(fail)?;
        if width == 0 || height == 0 {
            return Err(Error::file(
                path,
                format!("claims {width} x {height} pixels; expected at least one"),
            ));
        }
        let planar = decoder
            .find_tag_unsigned::<u16>(Tag::PlanarConfiguration)
            .map_err(fail)?
            .is_some_and(|p| p == PlanarConfiguration::Planar.to_u16());
        let bands = decoder.find_tag_unsigned::<u16>(Tag::SamplesPerPixel).map_err(fail)?.unwrap_or(1);
        let (stored, bands) = match decoder.colortype().map_err(fail)? {
            ColorType::Gray(_) | ColorType::Palette(_) => (1, 1),
            ColorType::GrayA(_) => (2, 1),
            ColorType::RGB(_) | ColorType::YCbCr(_) | ColorType::Lab(_) => (3, 3),
            ColorType::RGBA(_) => (4, 3),
            ColorType::Multiband { num_samples, .. } => {
                let kinds = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).map_err(fail)?;
                // 1 and 2 stand for alpha, which is no colour.
                let alpha = kinds.is_some_and(|k| matches!(k.last(), Some(1 | 2)));
                (usize::from(num_samples), usize::from(bands) - usize::from(alpha && bands > 1))
            }
            other => {
                return Err(Error::file(path, format!("has {other:?} pixels; expected grey, RGB or bands")));
            }
        };
        let bits = decoder.find_tag_unsigned_vec::<u16>(Tag::BitsPerSample).map_err(fail)?.unwrap_or(vec![1]);
        let format =
            decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(fail)?.unwrap_or(vec![1]);
        let samples = match (format.first(), bits.first()) {
            (Some(3), _) => Samples::Float,
            (Some(2), _) => Samples::Integer,
            (_, Some(8)) => Samples::U8,
            (_, Some(16)) => Samples::U16,
            (_, Some(32 | 64)) => Samples::Integer,
            (_, other) => {
                let bits = other.copied().unwrap_or(0);
                return Err(Error::file(path, format!("has {bits} bits a sample; expected 8, 16, 32 or 64")));
            }
        };
        let (w, h) = decoder.chunk_dimensions();
        if w == 0 || h == 0 || bands == 0 || (bands > stored && !planar) {
            let why = format!("claims tiles or strips of {w} x {h} with {stored} values for {bands} bands");
            return Err(Error::file(path, format!("{why}; the file is damaged")));
        }
        Ok(Self {
            path: path.to_path_buf(),
            decoder,
            width: width as usize,
            height: height as usize,
            bands,
            samples,
            stored,
            planar,
            chunk: (w as usize, h as usize),
        })
    }

    /// The values of a window as they are stored, one row of bands per pixel.
    pub fn read(&mut self, rows: Range<usize>, columns: Range<usize>) -> Result<Vec<f32>> {
        assert!(
            rows.end <= self.height && columns.end <= self.width && !rows.is_empty() && !columns.is_empty()
        );
        let (across, down) = (self.width.div_ceil(self.chunk.0), self.height.div_ceil(self.chunk.1));
        let planes = if self.planar { self.bands } else { 1 };
        let mut out = zeros(&self.path, rows.len() * columns.len() * self.bands)?;
        for plane in 0..planes {
            for cy in rows.start / self.chunk.1..=(rows.end - 1) / self.chunk.1 {
                for cx in columns.start / self.chunk.0..=(columns.end - 1) / self.chunk.0 {
                    let index = (plane * down + cy) * across + cx;
                    let data = u32::try_from(index)
                        .map_err(|_| unreadable(&self.path, "more than 2^32 tiles"))
                        .and_then(|i| {
                            guarded(&self.path, || {
                                self.decoder.read_chunk(i).map_err(|e| unreadable(&self.path, e))
                            })
                        })?;
                    let (stored, band) = if self.planar { (1, Some(plane)) } else { (self.stored, None) };
                    let at = (cy * self.chunk.1, cx * self.chunk.0);
                    let width = self.chunk.0.min(self.width - at.1);
                    let height = self.chunk.1.min(self.height - at.0);
                    let values = Chunk { at, width, height, stored, band };
                    if length(&data) < width * height * stored {
                        return Err(unreadable(&self.path, format!("tile {index} is too short")));
                    }
                    values.copy(&data, self.bands, &rows, &columns, &mut out);
                }
            }
        }
        Ok(out)
    }
}

/// Where a decoded chunk lies and what it holds.
struct Chunk {
    at: (usize, usize),
    width: usize,
    height: usize,
    /// Values per pixel.
    stored: usize,
    /// The band that it holds, or all.
    band: Option<usize>,
}

impl Chunk {
    /// Copies what the chunk shares with the window.
    fn copy(
        &self,
        data: &DecodingResult,
        bands: usize,
        rows: &Range<usize>,
        columns: &Range<usize>,
        out: &mut [f32],
    ) {
        let shared_rows = rows.start.max(self.at.0)..rows.end.min(self.at.0 + self.height);
        let shared = columns.start.max(self.at.1)..columns.end.min(self.at.1 + self.width);
        for y in shared_rows {
            for x in shared.clone() {
                let from = ((y - self.at.0) * self.width + x - self.at.1) * self.stored;
                let to = ((y - rows.start) * columns.len() + x - columns.start) * bands;
                match self.band {
                    Some(band) => out[to + band] = value(data, from),
                    None => (0..bands).for_each(|b| out[to + b] = value(data, from + b)),
                }
            }
        }
    }
}

fn length(data: &DecodingResult) -> usize {
    match data {
        DecodingResult::U8(v) => v.len(),
        DecodingResult::U16(v) => v.len(),
        DecodingResult::U32(v) => v.len(),
        DecodingResult::U64(v) => v.len(),
        DecodingResult::I8(v) => v.len(),
        DecodingResult::I16(v) => v.len(),
        DecodingResult::I32(v) => v.len(),
        DecodingResult::I64(v) => v.len(),
        DecodingResult::F16(v) => v.len(),
        DecodingResult::F32(v) => v.len(),
        DecodingResult::F64(v) => v.len(),
    }
}

fn value(data: &DecodingResult, at: usize) -> f32 {
    match data {
        DecodingResult::U8(v) => f32::from(v[at]),
        DecodingResult::U16(v) => f32::from(v[at]),
        DecodingResult::U32(v) => v[at] as f32,
        DecodingResult::U64(v) => v[at] as f32,
        DecodingResult::I8(v) => f32::from(v[at]),
        DecodingResult::I16(v) => f32::from(v[at]),
        DecodingResult::I32(v) => v[at] as f32,
        DecodingResult::I64(v) => v[at] as f32,
        DecodingResult::F16(v) => v[at].to_f32(),
        DecodingResult::F32(v) => v[at],
        DecodingResult::F64(v) => v[at] as f32,
    }
}
