//! Label maps: one small integer per pixel.

use std::path::Path;

use super::decode::decode;
use super::decoders::guarded;
use super::limits::{by, check_whole, reserve};
use super::palette::Palette;
use super::windows::Raster;
use super::{Kind, Source, npy, npz, open, picture, pnm, tiff};
use relaxcrf::error::{Error, Result};

/// A label for every pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// One label per pixel, row by row.
    pub labels: Vec<u16>,
}

/// Reads the numbers of a label map: the indices of an indexed PNG (its colours are ignored), the values
/// of a grey picture, or an integer `.npy`/`.npz` array of `H x W`.
pub fn read_labels(path: &Path) -> Result<LabelMap> {
    let mut source = open(path)?;
    match source.kind {
        Kind::Npy => from_array(path, npy::read(path, &mut source.reader, source.length)?),
        Kind::Zip => from_array(path, npz::read(path, source, &["labels", "label", "arr_0"], true)?),
        Kind::Png => guarded(path, || read_png(path, source)),
        Kind::Pnm => match pnm::read_grey(path, &mut source)? {
            Some((width, height, labels)) => Ok(LabelMap { width, height, labels }),
            None => from_picture(path, open(path)?),
        },
        Kind::Pfm => {
            Err(Error::file(path, "holds floating-point numbers; expected an indexed or grey picture"))
        }
        Kind::Tiff if tiff::is_raster(path)? => Raster::labels(path)?.into_labels(),
        _ => from_picture(path, source),
    }
}

fn colour(path: &Path) -> Error {
    Error::file(path, "colour image; expected indexed or grey (one number per pixel)")
}

fn from_array(path: &Path, (shape, labels): (Vec<usize>, Vec<u16>)) -> Result<LabelMap> {
    match shape[..] {
        [height, width] if !labels.is_empty() => Ok(LabelMap { width, height, labels }),
        _ => Err(Error::file(path, format!("has shape {}; expected height x width", by(&shape)))),
    }
}

fn from_picture(path: &Path, source: Source) -> Result<LabelMap> {
    let picture = decode(path, source)?;
    let (width, height) = (picture.layout.width, picture.layout.height);
    let labels = picture.into_numbers().ok_or_else(|| colour(path))?;
    Ok(LabelMap { width, height, labels })
}

/// The samples of a PNG without the expansion to colours or to eight bits that picture readers do.
fn read_png(path: &Path, source: Source) -> Result<LabelMap> {
    let fail = |e: png::DecodingError| Error::file(path, format!("the PNG cannot be read: {e}"));
    let mut decoder = png::Decoder::new(source.reader);
    decoder.set_transformations(png::Transformations::IDENTITY);
    let mut reader = decoder.read_info().map_err(fail)?;
    let info = reader.info();
    let (width, height) = (info.width as usize, info.height as usize);
    let pixels = check_whole(path, info.width.into(), info.height.into(), source.length)?;
    let (kind, depth) = reader.output_color_type();
    let samples = match kind {
        png::ColorType::Indexed | png::ColorType::Grayscale => 1,
        png::ColorType::GrayscaleAlpha => 2,
        png::ColorType::Rgb | png::ColorType::Rgba => return Err(colour(path)),
    };
    let bits = depth as usize;
    let row_bytes = (width * samples * bits).div_ceil(8);
    let mut bytes = reserve(path, row_bytes * height)?;
    bytes.resize(row_bytes * height, 0u8);
    let frame = reader.next_frame(&mut bytes).map_err(fail)?;
    // Reads the checksums of what follows, so that damage at the end is noticed too.
    reader.finish().map_err(fail)?;
    debug_assert_eq!(frame.line_size, row_bytes);
    let mut labels = reserve(path, pixels)?;
    for row in bytes.chunks_exact(row_bytes) {
        match bits {
            16 => labels.extend(row.chunks_exact(2 * samples).map(|b| u16::from_be_bytes([b[0], b[1]]))),
            8 => labels.extend(row.chunks_exact(samples).map(|b| u16::from(b[0]))),
            // Several pixels to a byte, the first in the highest bits; only one sample a pixel then.
            _ => labels.extend((0..width).map(|x| {
                let shift = 8 - bits - x * bits % 8;
                u16::from(row[x * bits / 8] >> shift) & ((1 << bits) - 1)
            })),
        }
    }
    Ok(LabelMap { width, height, labels })
}

/// Writes a label map: `.npy` by that ending (unsigned, 8 or 16 bits), else a PNG, indexed with the palette
/// while all labels are below 256, 16-bit grey beyond.
pub fn write_labels(
    path: &Path,
    width: usize,
    height: usize,
    labels: &[u16],
    palette: &Palette,
) -> Result<()> {
    picture::check_size("labels", width, height, 1, labels.len())?;
    let small = labels.iter().all(|&l| l < 256);
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        return if small {
            npy::write(path, "|u1", &[height, width], labels, |l| [l as u8])
        } else {
            npy::write(path, "<u2", &[height, width], labels, u16::to_le_bytes)
        };
    }
    if !small {
        return picture::write_grey16(path, width, height, labels);
    }
    let bytes: Vec<u8> = labels.iter().map(|&l| l as u8).collect();
    picture::write_png(path, width, height, &bytes, |encoder| {
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_palette(palette.bytes().to_vec());
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::super::testing::{folder, shared};
    use super::super::{read_image, write_npy_f32, write_rgb};
    use super::*;

    fn png_file(
        dir: &Path,
        width: u32,
        set: impl FnOnce(&mut png::Encoder<fs::File>),
        rows: &[u8],
    ) -> PathBuf {
        let path = dir.join("made.png");
        let row = rows.len() as u32;
        let mut encoder = png::Encoder::new(fs::File::create(&path).unwrap(), width, 1);
        set(&mut encoder);
        let mut writer = encoder.write_header().unwrap();
        assert!(row > 0);
        writer.write_image_data(rows).unwrap();
        writer.finish().unwrap();
        path
    }

    #[test]
    fn indexed_png_keeps_indices_and_shows_colours() {
        let dir = folder();
        let path = dir.path().join("a.png");
        let labels = [0, 1, 2, 20, 255, 15];
        write_labels(&path, 3, 2, &labels, &Palette::voc()).unwrap();
        assert_eq!(read_labels(&path).unwrap(), LabelMap { width: 3, height: 2, labels: labels.to_vec() });
        let colours = read_image(&path).unwrap();
        assert_eq!((colours.width, colours.height, colours.channels), (3, 2, 3));
        assert_eq!(colours.pixel(1, 0), &[128.0, 0.0, 0.0]);
        assert_eq!(colours.pixel(0, 1), &[0.0, 64.0, 128.0]);
    }

    #[test]
    fn label_maps_of_many_labels_and_arrays_survive() {
        let dir = folder();
        let palette = Palette::voc();
        for (name, labels) in [("a.png", [0, 65_535]), ("a.npy", [0, 255]), ("b.NPY", [7, 256])] {
            let path = dir.path().join(name);
            write_labels(&path, 2, 1, &labels, &palette).unwrap();
            assert_eq!(read_labels(&path).unwrap().labels, labels, "{name}");
        }
        assert!(fs::read(dir.path().join("a.npy")).unwrap().windows(3).any(|w| w == b"|u1"));
        assert!(fs::read(dir.path().join("b.NPY")).unwrap().windows(3).any(|w| w == b"<u2"));
        let e = write_labels(&dir.path().join("c.png"), 3, 1, &[0, 1], &palette).unwrap_err().to_string();
        assert!(e.contains("2 values") && e.contains("3 x 1"), "{e}");
        assert!(!dir.path().join("c.png").exists());
    }

    #[test]
    fn packed_and_grey_pngs_are_read_as_labels() {
        let dir = folder();
        let read = |path: PathBuf| read_labels(&path).unwrap().labels;
        let packed = |kind, depth| {
            move |e: &mut png::Encoder<fs::File>| {
                e.set_color(kind);
                e.set_depth(depth);
                e.set_palette(vec![9; 48]);
            }
        };
        use png::{BitDepth::*, ColorType::*};
        assert_eq!(read(png_file(dir.path(), 3, packed(Indexed, Four), &[0x1f, 0x30])), [1, 15, 3]);
        assert_eq!(
            read(png_file(dir.path(), 5, packed(Indexed, Two), &[0b00_01_10_11, 0b10_000000])),
            [0, 1, 2, 3, 2]
        );
        assert_eq!(
            read(png_file(dir.path(), 9, packed(Grayscale, One), &[0b1010_0001, 0x80])),
            [1, 0, 1, 0, 0, 0, 0, 1, 1]
        );
        assert_eq!(read(png_file(dir.path(), 2, packed(GrayscaleAlpha, Eight), &[7, 255, 8, 0])), [7, 8]);
        assert_eq!(read(png_file(dir.path(), 1, packed(GrayscaleAlpha, Sixteen), &[1, 2, 9, 9])), [258]);
    }

    #[test]
    fn label_maps_in_colour_or_of_wrong_shape_are_refused() {
        let dir = folder();
        let path = dir.path().join("x");
        write_rgb(&path, 1, 1, &[1, 1, 1]).unwrap();
        assert!(
            read_labels(&path).unwrap_err().to_string().contains("colour image; expected indexed or grey")
        );
        fs::write(&path, b"P6 1 1 255\n123").unwrap();
        assert!(read_labels(&path).unwrap_err().to_string().contains("colour image"));
        write_npy_f32(&path, &[1, 1], &[1.0]).unwrap();
        assert!(read_labels(&path).unwrap_err().to_string().contains("floating-point"));
        npy::write(&path, "|u1", &[2, 1, 1], &[1u8, 2], |v| [v]).unwrap();
        assert!(read_labels(&path).unwrap_err().to_string().contains("2 x 1 x 1"));
        npy::write(&path, "|u1", &[0, 4], &[0u8; 0], |v| [v]).unwrap();
        assert!(read_labels(&path).is_err());
    }

    #[test]
    fn damaged_png_label_maps_are_errors() {
        let dir = folder();
        let path = dir.path().join("a.png");
        write_labels(&path, 20, 20, &[3; 400], &Palette::voc()).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in (0..whole.len() - 12).step_by(7) {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(read_labels(&path).is_err(), "cut at {cut} of {}", whole.len());
            assert!(read_image(&path).is_err(), "cut at {cut}");
        }
        // A size of 2^30 squared, with the checksum of the header made right.
        let mut lie = whole.clone();
        lie[16..24].copy_from_slice(&[0x40, 0, 0, 0, 0x40, 0, 0, 0]);
        let crc = crc(&lie[12..29]);
        lie[29..33].copy_from_slice(&crc.to_be_bytes());
        fs::write(&path, &lie).unwrap();
        for e in [read_labels(&path).unwrap_err(), read_image(&path).unwrap_err()] {
            assert!(e.to_string().contains("a.png"), "{e}");
        }
        // Few enough pixels for the limit, but not for so short a file.
        lie[16..24].copy_from_slice(&[0, 0, 0x3f, 0, 0, 0, 0x3f, 0]);
        let crc = self::crc(&lie[12..29]);
        lie[29..33].copy_from_slice(&crc.to_be_bytes());
        fs::write(&path, &lie).unwrap();
        for e in [read_labels(&path).unwrap_err(), read_image(&path).unwrap_err()] {
            assert!(e.to_string().contains("a.png"), "{e}");
        }
    }

    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0u32, |mut c, &b| {
            c ^= u32::from(b);
            (0..8).for_each(|_| c = if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 });
            c
        })
    }

    #[test]
    fn reference_label_maps_are_read() {
        let Some(path) = shared("reference/msrc_sample/labels_msrc_dcneg") else { return };
        let mut read = 0;
        for entry in fs::read_dir(path).unwrap() {
            let map = read_labels(&entry.unwrap().path()).unwrap();
            assert_eq!((map.width, map.height), (213, 320));
            assert!(map.labels.iter().all(|&l| l < 21));
            read += 1;
        }
        assert!(read > 0);
        let Some(path) = shared("data/segmentation/voc/truth") else { return };
        for entry in fs::read_dir(path).unwrap().take(5) {
            let map = read_labels(&entry.unwrap().path()).unwrap();
            assert!(map.labels.iter().all(|&l| l < 21 || l == 255));
        }
    }

    proptest! {
        #[test]
        fn round_trip(width in 1usize..9, height in 1usize..9, most in prop::sample::select(vec![1u16, 255, 256, 65_535]),
                      seed in any::<u64>()) {
            let labels: Vec<u16> = (0..width * height)
                .map(|i| (seed.rotate_left(i as u32 * 7) % (u64::from(most) + 1)) as u16).collect();
            let dir = folder();
            for name in ["a.png", "a.npy"] {
                let path = dir.path().join(name);
                write_labels(&path, width, height, &labels, &Palette::voc()).unwrap();
                prop_assert_eq!(read_labels(&path).unwrap(), LabelMap { width, height, labels: labels.clone() });
            }
        }
    }
}
