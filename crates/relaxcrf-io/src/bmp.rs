//! BMP pictures: palettes of 1 to 8 bits, run lengths, and 16 to 32 bits with or without bit fields.
//!
//! Every picture is read as red, green and blue; alpha is dropped. Numbers are little-endian, rows come from the bottom
//! up unless the height is negative, and each row fills a multiple of four bytes.

use super::decode::Layout;

/// Bytes before the first header: signature, size of the file, and where the pixels begin.
const FILE_HEADER: usize = 14;

/// Where the masks of bit fields are, in the headers that have them and after the one that does not.
const MASKS: usize = FILE_HEADER + 40;

/// Enough bytes for every header with the largest palette.
pub(super) const HEADER_BYTES: usize = FILE_HEADER + 124 + 4 * 256;

type Rgb = [u8; 3];

/// What the headers say, and the palette.
pub(super) struct Bmp {
    width: usize,
    height: usize,
    is_top_down: bool,
    coding: Coding,
    /// Where the pixels begin.
    start: usize,
}

/// How pixels are stored.
enum Coding {
    /// Indices of that many bits.
    Indexed(u32, Vec<Rgb>),
    /// Runs of indices of 4 or 8 bits.
    Runs(u32, Vec<Rgb>),
    /// Numbers of 2, 3 or 4 bytes that hold red, green and blue.
    Direct(usize, [Field; 3]),
}

/// The bits of a number that hold one colour.
struct Field {
    shift: u32,
    /// The colour for each value of the bits.
    colours: Vec<u8>,
}

impl Field {
    fn new(mask: u32, bits: u32) -> Result<Self, String> {
        let (shift, length) = (mask.trailing_zeros(), mask.count_ones());
        if mask == 0 || u64::from(mask) >> shift != (1 << length) - 1 || shift + length > bits {
            return Err(format!("has the colour mask {mask:#x}; expected adjacent bits of {bits}"));
        }
        // Eight bits are all that is kept; fewer are stretched to the range of eight.
        let kept = length.min(8);
        let most = (1u32 << kept) - 1;
        let colours = (0..=most).map(|v| ((2 * 255 * v + most) / (2 * most)) as u8).collect();
        Ok(Self { shift: shift + length - kept, colours })
    }

    fn colour(&self, pixel: u32) -> u8 {
        self.colours[(pixel >> self.shift) as usize & (self.colours.len() - 1)]
    }
}

/// An unsigned number of up to four bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<u32, String> {
    let part = at.checked_add(size).and_then(|end| bytes.get(at..end)).ok_or("the BMP header is cut off")?;
    Ok(part.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b)))
}

impl Bmp {
    /// Reads the headers from the first bytes of a file, [`HEADER_BYTES`] if it has as many.
    pub(super) fn new(bytes: &[u8]) -> Result<Self, String> {
        let start = number(bytes, 10, 4)? as usize;
        let size = number(bytes, FILE_HEADER, 4)? as usize;
        let is_old = size == 12;
        if !matches!(size, 12 | 40 | 52 | 56 | 108 | 124) {
            return Err(format!("has a BMP header of {size} bytes; expected 12, 40, 52, 56, 108 or 124"));
        }
        let (side, rest) = if is_old { (2, FILE_HEADER + 8) } else { (4, FILE_HEADER + 12) };
        let [width, height] =
            [number(bytes, FILE_HEADER + 4, side)?, number(bytes, FILE_HEADER + 4 + side, side)?];
        let is_top_down = !is_old && (height as i32) < 0;
        let height = if is_top_down { (height as i32).unsigned_abs() } else { height };
        if !is_old && (width as i32) < 0 {
            return Err(format!("has a width of {}; expected at least 1", width as i32));
        }
        if number(bytes, rest, 2)? != 1 {
            return Err(format!("has {} colour planes; expected 1", number(bytes, rest, 2)?));
        }
        let bits = number(bytes, rest + 2, 2)?;
        let (compression, colours) = match is_old {
            true => (0, 0),
            false => (number(bytes, rest + 4, 4)?, number(bytes, rest + 20, 4)?),
        };
        let palette = || palette(bytes, FILE_HEADER + size, if is_old { 3 } else { 4 }, bits, colours);
        let fields = |masks: [u32; 3]| -> Result<Coding, String> {
            let [r, g, b] = masks.map(|mask| Field::new(mask, bits));
            Ok(Coding::Direct(bits as usize / 8, [r?, g?, b?]))
        };
        let coding = match (compression, bits) {
            (0, 1 | 4 | 8) => Coding::Indexed(bits, palette()?),
            (0, 2) if !is_old => Coding::Indexed(bits, palette()?),
            (0, 16) if !is_old => fields([0x7c00, 0x3e0, 0x1f])?,
            (0, 24) => fields([0xff_0000, 0xff00, 0xff])?,
            (0, 32) if !is_old => fields([0xff_0000, 0xff00, 0xff])?,
            (1, 8) | (2, 4) if !is_top_down => Coding::Runs(bits, palette()?),
            (3, 16 | 32) => fields([
                number(bytes, MASKS, 4)?,
                number(bytes, MASKS + 4, 4)?,
                number(bytes, MASKS + 8, 4)?,
            ])?,
            _ => {
                let upside = if is_top_down { " from the top down" } else { "" };
                return Err(format!(
                    "is a BMP file of compression {compression} with {bits} bits per pixel{upside}; expected \
                     compression 0 with 1 to 32 bits, 1 with 8, 2 with 4, or 3 with 16 or 32"
                ));
            }
        };
        Ok(Self { width: width as usize, height: height as usize, is_top_down, coding, start })
    }

    pub(super) fn layout(&self) -> Layout {
        Layout { width: self.width, height: self.height, channels: 3, has_alpha: false }
    }

    /// Red, green and blue of every pixel of the whole file, row by row from the top, in `out`, which is all zero.
    pub(super) fn decode(&self, file: &[u8], out: &mut [u8]) -> Result<(), String> {
        let stored = file.get(self.start..).unwrap_or_default();
        let pixels = out.as_chunks_mut::<3>().0;
        match &self.coding {
            Coding::Runs(bits, palette) => self.decode_runs(stored, *bits, palette, pixels),
            Coding::Indexed(bits, palette) => {
                let mask = (1u32 << bits) - 1;
                self.decode_rows(stored, *bits as usize, pixels, |row, x| {
                    // The first pixel of a byte is in its highest bits.
                    let at = x * *bits as usize;
                    let index = u32::from(row[at / 8]) >> (8 - *bits as usize - at % 8) & mask;
                    palette[index as usize]
                })
            }
            Coding::Direct(size, fields) => self.decode_rows(stored, 8 * size, pixels, |row, x| {
                let pixel = row[x * size..][..*size].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
                fields.each_ref().map(|f| f.colour(pixel))
            }),
        }
    }

    /// Where a row of the file belongs, counted from the top.
    fn place(&self, row: usize) -> usize {
        if self.is_top_down { row } else { self.height - 1 - row }
    }

    fn decode_rows(
        &self,
        stored: &[u8],
        bits: usize,
        pixels: &mut [Rgb],
        colour: impl Fn(&[u8], usize) -> Rgb,
    ) -> Result<(), String> {
        let stride = (self.width * bits).div_ceil(32) * 4;
        if stored.len() / stride < self.height {
            return Err(format!(
                "claims {} x {} pixels in {} bytes, but {} bytes are left; the file is cut off",
                self.width,
                self.height,
                stride * self.height,
                stored.len()
            ));
        }
        for (y, row) in stored.chunks_exact(stride).take(self.height).enumerate() {
            let line = &mut pixels[self.place(y) * self.width..][..self.width];
            line.iter_mut().enumerate().for_each(|(x, pixel)| *pixel = colour(row, x));
        }
        Ok(())
    }

    /// Decodes run lengths. Pixels that no run covers stay black.
    fn decode_runs(
        &self,
        stored: &[u8],
        bits: u32,
        palette: &[Rgb],
        pixels: &mut [Rgb],
    ) -> Result<(), String> {
        let mut bytes = stored.iter().map(|&b| usize::from(b));
        let mut next = || bytes.next().ok_or("the runs of pixels are cut off".to_string());
        let beyond = || "has a run of pixels beyond the end of its row or of the picture".to_string();
        let is_narrow = bits == 4;
        // The pixel of a run of pairs of indices: the first of a pair is in the higher bits.
        let index = |byte: usize, k: usize| match is_narrow {
            true => byte >> (4 * (1 - k % 2)) & 15,
            false => byte,
        };
        let (mut x, mut y) = (0, 0);
        while y < self.height {
            let line = self.place(y) * self.width;
            match (next()?, next()?) {
                (0, 0) => (x, y) = (0, y + 1),
                (0, 1) => break,
                (0, 2) => {
                    (x, y) = (x + next()?, y + next()?);
                    if x > self.width || y >= self.height {
                        return Err(beyond());
                    }
                }
                (0, count) => {
                    if x + count > self.width {
                        return Err(beyond());
                    }
                    let packed = if is_narrow { count.div_ceil(2) } else { count };
                    let mut byte = 0;
                    for k in 0..count {
                        if k % 2 == 0 || !is_narrow {
                            byte = next()?;
                        }
                        pixels[line + x + k] = palette[index(byte, k)];
                    }
                    // Filled up to an even number of bytes.
                    if packed % 2 == 1 {
                        next()?;
                    }
                    x += count;
                }
                (count, byte) => {
                    // Some programs write runs of bytes that are longer than what is left of the row.
                    if is_narrow && x + count > self.width {
                        return Err(beyond());
                    }
                    let end = (x + count).min(self.width);
                    let run = pixels[line + x..line + end].iter_mut().enumerate();
                    run.for_each(|(k, pixel)| *pixel = palette[index(byte, k)]);
                    x = end;
                }
            }
        }
        Ok(())
    }
}

/// 256 colours, black beyond those that the file has.
fn palette(bytes: &[u8], start: usize, size: usize, bits: u32, colours: u32) -> Result<Vec<Rgb>, String> {
    let count = if colours == 0 { 1 << bits } else { colours };
    if count > 1 << bits {
        return Err(format!("has a palette of {count} colours; expected at most {}", 1 << bits));
    }
    let end = start + size * count as usize;
    let stored = bytes.get(start..end).ok_or("the BMP palette is cut off")?;
    let mut palette: Vec<Rgb> = stored.chunks_exact(size).map(|c| [c[2], c[1], c[0]]).collect();
    palette.resize(256, [0; 3]);
    Ok(palette)
}

#[cfg(test)]
mod tests;
