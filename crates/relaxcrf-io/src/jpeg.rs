//! JPEG pictures. Orientation and colour profiles are not applied.

use std::path::Path;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::decode::{Layout, Samples, unreadable, zero_bytes};
use relaxcrf::error::Result;

/// As many small mistakes are forgiven as common viewers forgive; sizes are checked by the caller.
fn options() -> DecoderOptions {
    DecoderOptions::default().set_strict_mode(false).set_max_width(usize::MAX).set_max_height(usize::MAX)
}

/// Size and colours from the headers of a file.
pub(super) fn layout(path: &Path, file: &[u8]) -> Result<Layout> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options());
    decoder.decode_headers().map_err(|e| unreadable(path, e))?;
    let (Some((width, height)), Some(space)) = (decoder.dimensions(), decoder.input_colorspace()) else {
        return Err(unreadable(path, "it has no picture in it"));
    };
    let channels = if space == ColorSpace::Luma { 1 } else { 3 };
    Ok(Layout { width, height, channels, has_alpha: false })
}

/// Grey or red, green and blue; inks are converted.
pub(super) fn decode(path: &Path, file: &[u8], layout: Layout) -> Result<Samples> {
    let space = if layout.channels == 1 { ColorSpace::Luma } else { ColorSpace::RGB };
    let options = options().jpeg_set_out_colorspace(space);
    let mut bytes = zero_bytes(path, layout.values())?;
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_into(&mut bytes).map_err(|e| unreadable(path, e))?;
    Ok(Samples::Bytes(bytes))
}
