//! TIFF pictures that are read as other pictures are: grey, RGB or CMYK of 8 or 16 bits, grey of one bit, and RGB of
//! floating-point numbers, with or without alpha.

use std::io::{Cursor, Read, Seek};
use std::path::Path;

use tiff::ColorType;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::{SampleFormat, Tag};

use super::super::decode::{Layout, MAX_BYTES, Samples, unreadable};
use relaxcrf::error::Result;

/// What the header says.
struct Header<R: Read + Seek> {
    decoder: Decoder<R>,
    layout: Layout,
    /// Values per pixel in the file: four for inks, which become three colours.
    stored: usize,
    bits: u8,
}

fn open<R: Read + Seek>(path: &Path, reader: R) -> Result<Header<R>> {
    let fail = |e| unreadable(path, e);
    let mut decoder = Decoder::new(reader).map_err(fail)?;
    let (width, height) = decoder.dimensions().map_err(fail)?;
    let kind = decoder.colortype().map_err(fail)?;
    let (channels, has_alpha, stored, bits) = match kind {
        ColorType::Gray(bits @ (1 | 8 | 16)) => (1, false, 1, bits),
        ColorType::GrayA(bits @ (8 | 16)) => (2, true, 2, bits),
        ColorType::RGB(bits @ (8 | 16 | 32)) => (3, false, 3, bits),
        ColorType::RGBA(bits @ (8 | 16 | 32)) => (4, true, 4, bits),
        ColorType::CMYK(bits @ (8 | 16)) => (3, false, 4, bits),
        _ => {
            let expected =
                "expected grey, RGB or CMYK of 8 or 16 bits, or RGB of 32-bit floating-point numbers";
            return Err(unreadable(path, format!("it has {kind:?} pixels; {expected}")));
        }
    };
    let expected = if bits == 32 { SampleFormat::IEEEFP } else { SampleFormat::Uint };
    let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).map_err(fail)?;
    let formats = formats.unwrap_or(vec![SampleFormat::Uint.to_u16()]);
    if let Some(other) = formats.into_iter().find(|&f| f != expected.to_u16()) {
        let expected = expected.to_u16();
        let why =
            format!("it has {bits}-bit values in the sample format {other}; expected format {expected}");
        return Err(unreadable(path, why));
    }
    let layout = Layout { width: width as usize, height: height as usize, channels, has_alpha };
    Ok(Header { decoder, layout, stored, bits })
}

/// Size and colours from the header of a file.
pub(crate) fn layout(path: &Path, reader: impl Read + Seek) -> Result<Layout> {
    Ok(open(path, reader)?.layout)
}

/// The values of a whole file, whose size has been checked.
pub(crate) fn decode(path: &Path, file: &[u8]) -> Result<Samples> {
    let Header { decoder, layout, stored, bits } = open(path, Cursor::new(file))?;
    let pixels = layout.width * layout.height;
    let bytes = (pixels * stored).saturating_mul(usize::from(bits).div_ceil(8));
    let mut limits = Limits::default();
    limits.decoding_buffer_size = bytes.min(MAX_BYTES);
    limits.intermediate_buffer_size = MAX_BYTES - limits.decoding_buffer_size;
    limits.ifd_value_size = limits.intermediate_buffer_size;
    let mut result = DecodingResult::U8(Vec::new());
    let mut decoder = decoder.with_limits(limits);
    let plan = decoder.read_image_to_buffer(&mut result).map_err(|e| unreadable(path, e))?;
    let planes = if plan.planes > 1 { plan.plane_stride.map_or(0, |stride| stride.get()) } else { 0 };
    let damaged = || unreadable(path, "it has fewer values than its header claims");
    let values = layout.values();
    Ok(match result {
        DecodingResult::U8(v) if bits == 1 => Samples::Bytes(expand_bits(&v, layout).ok_or_else(damaged)?),
        DecodingResult::U8(v) if stored == layout.channels => {
            Samples::Bytes(interleave(v, planes, layout.channels, values).ok_or_else(damaged)?)
        }
        DecodingResult::U16(v) if stored == layout.channels => {
            Samples::Words(interleave(v, planes / 2, layout.channels, values).ok_or_else(damaged)?)
        }
        DecodingResult::F32(v) => {
            Samples::Floats(interleave(v, planes / 4, layout.channels, values).ok_or_else(damaged)?)
        }
        DecodingResult::U8(v) if planes == 0 && v.len() == 4 * pixels => Samples::Bytes(
            v.as_chunks().0.iter().flat_map(|inks| colours(inks, 255.0).map(|c| c as u8)).collect(),
        ),
        DecodingResult::U16(v) if planes == 0 && v.len() == 4 * pixels => Samples::Words(
            v.as_chunks().0.iter().flat_map(|inks| colours(inks, 65_535.0).map(|c| c as u16)).collect(),
        ),
        _ => return Err(unreadable(path, "it has inks in separate planes, or values of an unexpected type")),
    })
}

/// One value per pixel, 0 or 255, of eight pixels to a byte.
fn expand_bits(packed: &[u8], layout: Layout) -> Option<Vec<u8>> {
    let rows = packed.chunks_exact(layout.width.div_ceil(8)).take(layout.height);
    let pixel = |row: &[u8], x: usize| 255 * (row[x / 8] >> (7 - x % 8) & 1);
    let values: Vec<u8> = rows.flat_map(|row| (0..layout.width).map(move |x| pixel(row, x))).collect();
    (values.len() == layout.values()).then_some(values)
}

/// The values of planes that begin every `stride` values, side by side; as they are for a stride of zero.
fn interleave<T: Copy>(values: Vec<T>, stride: usize, planes: usize, expected: usize) -> Option<Vec<T>> {
    if stride == 0 {
        return (values.len() == expected).then_some(values);
    }
    let pixels = expected / planes;
    if stride < pixels || values.len() < (planes - 1) * stride + pixels {
        return None;
    }
    Some((0..pixels).flat_map(|i| (0..planes).map(move |k| k * stride + i)).map(|at| values[at]).collect())
}

/// Red, green and blue of cyan, magenta, yellow and black, before rounding down.
fn colours<T: Copy + Into<f32>>(inks: &[T; 4], most: f32) -> [f32; 3] {
    let [cyan, magenta, yellow, black] = inks.map(Into::into);
    let light = 1.0 - black / most;
    [cyan, magenta, yellow].map(|ink| (most - ink) * light)
}
