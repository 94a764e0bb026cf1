//! Label maps as tiled, deflated TIFF files (BigTIFF where the offsets of a plain one could not reach).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use tiff::encoder::{DirectoryEncoder, TiffEncoder, TiffKind, TiffKindBig, TiffKindStandard};
use tiff::tags::{CompressionMethod, PhotometricInterpretation, PlanarConfiguration, SampleFormat, Tag};
use tiff::{TiffError, TiffResult};

use super::super::atomic::replace;
use super::GeoTags;
use relaxcrf::error::{Error, Result};

/// Largest side of the file's tiles.
const SIDE: usize = 512;

/// Sides must be multiples of this.
const UNIT: usize = 16;

/// Uncompressed bytes from which 32-bit offsets are not trusted any more.
const BIG: u64 = 1 << 31;

/// The labels of a window, given to be written.
type Put<'a> = &'a mut dyn FnMut(&[Range<usize>], &[u16]) -> Result<()>;

/// Makes a TIFF file of labels (8 bits, or 16 if `wide`) and lets `fill` write windows of it. Windows must begin at
/// multiples of `side` and end there or at the far borders.
pub(crate) fn write_tiles<E: From<Error>>(
    path: &Path,
    size: (usize, usize),
    wide: bool,
    side: usize,
    geo: &GeoTags,
    fill: impl FnOnce(Put) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let (width, height) = size;
    if u32::try_from(width).is_err() || u32::try_from(height).is_err() {
        return Err(
            Error::file(path, format!("cannot be written: {width} x {height} pixels are too many")).into()
        );
    }
    let bytes = width as u64 * height as u64 * if wide { 2 } else { 1 };
    let layout = Layout { width, height, wide, side: tile_side(side) };
    replace(path, |file| {
        let fail = |e: TiffError| Error::file(path, format!("cannot be written: {e}"));
        let out = BufWriter::new(&*file);
        if bytes >= BIG {
            let mut encoder = TiffEncoder::<_, TiffKindBig>::new_generic(out).map_err(fail)?;
            let directory = encoder.image_directory().map_err(fail)?;
            write(path, layout, geo, directory, fill)
        } else {
            let mut encoder = TiffEncoder::<_, TiffKindStandard>::new_generic(out).map_err(fail)?;
            let directory = encoder.image_directory().map_err(fail)?;
            write(path, layout, geo, directory, fill)
        }
    })
}

/// The file's tiles divide the windows.
fn tile_side(side: usize) -> usize {
    if !side.is_multiple_of(UNIT) {
        return UNIT;
    }
    (UNIT..=SIDE.min(side)).rev().step_by(UNIT).find(|&s| side.is_multiple_of(s)).unwrap_or(UNIT)
}

#[derive(Clone, Copy)]
struct Layout {
    width: usize,
    height: usize,
    wide: bool,
    side: usize,
}

fn write<K: TiffKind, E: From<Error>>(
    path: &Path,
    layout: Layout,
    geo: &GeoTags,
    mut directory: DirectoryEncoder<BufWriter<&File>, K>,
    fill: impl FnOnce(Put) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let fail = |e: TiffError| Error::file(path, format!("cannot be written: {e}"));
    let Layout { width, height, wide, side } = layout;
    let (across, down) = (width.div_ceil(side), height.div_ceil(side));
    let mut places = vec![(0u64, 0u64); across * down];
    fill(&mut |window, labels| {
        let (rows, columns) = (&window[0], &window[1]);
        let whole = |r: &Range<usize>, size: usize| {
            r.start.is_multiple_of(side) && (r.end.is_multiple_of(side) || r.end == size)
        };
        if !whole(rows, height) || !whole(columns, width) || labels.len() != rows.len() * columns.len() {
            return Err(Error::value(
                "window of a TIFF file",
                format!("{window:?}"),
                format!("whole tiles of {side}"),
            ));
        }
        for y in rows.clone().step_by(side) {
            for x in columns.clone().step_by(side) {
                let packed = pack(layout, window, labels, (y, x))
                    .map_err(|e| Error::file(path, format!("cannot be written: {e}")))?;
                let at = directory.write_data(&packed[..]).map_err(fail)?;
                places[y / side * across + x / side] = (at, packed.len() as u64);
            }
        }
        Ok(())
    })?;
    if let Some(missing) = places.iter().position(|p| p.1 == 0) {
        let (y, x) = (missing / across * side, missing % across * side);
        return Err(Error::file(path, format!("no labels were given for the tile at {x}, {y}")).into());
    }
    let mut tags = || -> TiffResult<()> {
        directory.write_tag(Tag::ImageWidth, width as u32)?;
        directory.write_tag(Tag::ImageLength, height as u32)?;
        directory.write_tag(Tag::BitsPerSample, if wide { 16u16 } else { 8 })?;
        directory.write_tag(Tag::Compression, CompressionMethod::Deflate.to_u16())?;
        directory
            .write_tag(Tag::PhotometricInterpretation, PhotometricInterpretation::BlackIsZero.to_u16())?;
        directory.write_tag(Tag::SamplesPerPixel, 1u16)?;
        directory.write_tag(Tag::PlanarConfiguration, PlanarConfiguration::Chunky.to_u16())?;
        directory.write_tag(Tag::SampleFormat, SampleFormat::Uint.to_u16())?;
        directory.write_tag(Tag::TileWidth, side as u32)?;
        directory.write_tag(Tag::TileLength, side as u32)?;
        let (offsets, lengths): (Vec<u64>, Vec<u64>) = places.iter().copied().unzip();
        for (tag, numbers) in [(Tag::TileOffsets, offsets), (Tag::TileByteCounts, lengths)] {
            let numbers = numbers.into_iter().map(K::convert_offset).collect::<TiffResult<Vec<_>>>()?;
            directory.write_tag(tag, K::convert_slice(&numbers))?;
        }
        for (tag, value) in &geo.0 {
            directory.write_tag_buf(*tag, value)?;
        }
        Ok(())
    };
    tags().map_err(fail)?;
    Ok(directory.finish().map_err(fail)?)
}

/// One tile of the file, padded to its full size with zeros and deflated.
fn pack(
    layout: Layout,
    window: &[Range<usize>],
    labels: &[u16],
    (top, left): (usize, usize),
) -> std::io::Result<Vec<u8>> {
    let side = layout.side;
    let width = window[1].len();
    let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
    let mut line = vec![0u8; side * if layout.wide { 2 } else { 1 }];
    for y in top..top + side {
        line.fill(0);
        if y < window[0].end {
            let start = (y - window[0].start) * width + left - window[1].start;
            let end = start + side.min(window[1].end - left);
            if layout.wide {
                // The encoder writes files in the machine's own byte order.
                line.chunks_exact_mut(2)
                    .zip(&labels[start..end])
                    .for_each(|(b, l)| b.copy_from_slice(&l.to_ne_bytes()));
            } else {
                line.iter_mut().zip(&labels[start..end]).for_each(|(b, &l)| *b = l as u8);
            }
        }
        out.write_all(&line)?;
    }
    out.finish()
}
