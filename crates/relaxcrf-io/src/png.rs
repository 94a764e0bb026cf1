//! PNG pictures: palettes looked up, less than 8 bits stretched to 8, 16 bits kept. Gamma and profiles are not applied.

use std::io::{BufRead, Cursor, Seek};
use std::path::Path;

use png::{BitDepth, ColorType, Decoder, Reader, Transformations};

use super::decode::{Layout, MAX_BYTES, Samples, unreadable, zero_bytes};
use relaxcrf::error::Result;

fn open<R: BufRead + Seek>(path: &Path, reader: R) -> Result<Reader<R>> {
    let mut decoder = Decoder::new_with_limits(reader, png::Limits { bytes: MAX_BYTES });
    decoder.set_transformations(Transformations::EXPAND);
    // Texts, which may be large once they are unpacked, are of no use here.
    decoder.set_ignore_text_chunk(true);
    decoder.read_info().map_err(|e| unreadable(path, e))
}

fn layout_of<R: BufRead + Seek>(reader: &Reader<R>) -> Layout {
    let (width, height) = reader.info().size();
    let (channels, has_alpha) = match reader.output_color_type().0 {
        ColorType::Grayscale | ColorType::Indexed => (1, false),
        ColorType::GrayscaleAlpha => (2, true),
        ColorType::Rgb => (3, false),
        ColorType::Rgba => (4, true),
    };
    Layout { width: width as usize, height: height as usize, channels, has_alpha }
}

/// Size and colours from the header of a file.
pub(super) fn layout(path: &Path, reader: &mut (impl BufRead + Seek)) -> Result<Layout> {
    Ok(layout_of(&open(path, reader)?))
}

/// The values of a whole file.
pub(super) fn decode(path: &Path, file: &[u8]) -> Result<Samples> {
    let mut reader = open(path, Cursor::new(file))?;
    let (values, depth) = (layout_of(&reader).values(), reader.output_color_type().1);
    let is_wide = depth == BitDepth::Sixteen;
    let mut bytes = zero_bytes(path, if is_wide { 2 * values } else { values })?;
    reader.next_frame(&mut bytes).map_err(|e| unreadable(path, e))?;
    Ok(match is_wide {
        true => Samples::Words(bytes.as_chunks().0.iter().map(|&pair| u16::from_be_bytes(pair)).collect()),
        false => Samples::Bytes(bytes),
    })
}
