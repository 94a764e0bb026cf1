//! A PNG label map from windows in raster order: keeps a row of windows until it is complete, then writes it.

use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use super::atomic::{replace, unwritable};
use super::palette::Palette;
use relaxcrf::error::{Error, Result};

/// Makes an indexed (8 bits) or grey (16 bits, if `wide`) PNG and lets `fill` write windows of it, from left to
/// right and from top to bottom.
pub(super) fn write_png_by_window<E: From<Error>>(
    path: &Path,
    (width, height): (usize, usize),
    wide: bool,
    palette: &Palette,
    fill: impl FnOnce(&mut dyn FnMut(&[Range<usize>], &[u16]) -> Result<()>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let (Ok(w), Ok(h)) = (u32::try_from(width), u32::try_from(height)) else {
        let why = format!("cannot be written: a PNG cannot have {width} x {height} pixels; write .tif");
        return Err(Error::file(path, why).into());
    };
    replace(path, |file| {
        let fail = |e: png::EncodingError| Error::file(path, format!("cannot be written: {e}"));
        let mut encoder = png::Encoder::new(BufWriter::new(&*file), w, h);
        if wide {
            encoder.set_color(png::ColorType::Grayscale);
            encoder.set_depth(png::BitDepth::Sixteen);
        } else {
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette(palette.bytes().to_vec());
        }
        let mut writer = encoder.write_header().map_err(fail)?;
        let mut stream = writer.stream_writer().map_err(fail)?;
        let size = if wide { 2 } else { 1 };
        let mut rows = 0..0;
        let mut band: Vec<u8> = Vec::new();
        let mut filled = 0;
        fill(&mut |window, labels| {
            let (y, x) = (&window[0], &window[1]);
            if filled == 0 {
                rows = y.clone();
                band = vec![0; y.len() * width * size];
            }
            let next = filled / y.len().max(1);
            if *y != rows || x.start != next || x.end > width || labels.len() != y.len() * x.len() {
                let expected = format!("the one at column {next} of rows {rows:?}, and all its labels");
                return Err(Error::value("window of a PNG file", format!("{window:?}"), expected));
            }
            for (line, labels) in labels.chunks_exact(x.len()).enumerate() {
                let to = &mut band[(line * width + x.start) * size..][..x.len() * size];
                if wide {
                    to.chunks_exact_mut(2).zip(labels).for_each(|(b, l)| b.copy_from_slice(&l.to_be_bytes()));
                } else {
                    to.iter_mut().zip(labels).for_each(|(b, &l)| *b = l as u8);
                }
            }
            filled += labels.len();
            if x.end == width {
                stream.write_all(&band).map_err(|e| unwritable(path, e))?;
                filled = 0;
            }
            Ok(())
        })?;
        // Fails unless all rows were written.
        stream.finish().map_err(fail)?;
        Ok(writer.finish().map_err(fail)?)
    })
}
