//! Pictures.

use std::io;
use std::path::Path;

use super::atomic::write_atomically;
use super::decode::{decode, layout};
use super::limits::{by, check_pixels};
use super::windows::Raster;
use super::{Kind, npy, npz, open, pfm, tiff};
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};

/// Reads a PNG, JPEG, BMP, PNM, TIFF or PFM picture, or an `H x W` or `H x W x C` array (`.npy`, `.npz`).
///
/// 8-bit values stay as they are; 16-bit ones are divided by 257, so that they also run from 0 to 255, with
/// fractions. Alpha is dropped; grey gives one channel; indexed colours are looked up. Numbers in
/// floating-point pictures and in arrays are taken as they are, with all their channels.
pub fn read_image(path: &Path) -> Result<Image> {
    let mut source = open(path)?;
    match source.kind {
        Kind::Npy => from_array(path, npy::read(path, &mut source.reader, source.length)?),
        Kind::Zip => from_array(path, npz::read(path, source, &["image", "arr_0"], true)?),
        Kind::Pfm => pfm::read_pfm(path),
        Kind::Tiff if tiff::is_raster(path)? => Raster::image(path)?.into_image(),
        _ => Ok(decode(path, source)?.into_image()),
    }
}

/// Width, height and channels of what [`read_image`] would return, from the file's header alone.
pub fn image_size(path: &Path) -> Result<(usize, usize, usize)> {
    let mut source = open(path)?;
    let shape = match source.kind {
        Kind::Npy => npy::shape(path, &mut source.reader, source.length)?,
        Kind::Zip => npz::shape(path, source, &["image", "arr_0"])?,
        Kind::Pfm => {
            let image = pfm::read_pfm(path)?;
            return Ok((image.width, image.height, image.channels));
        }
        Kind::Tiff if tiff::is_raster(path)? => {
            let raster = Raster::image(path)?;
            return Ok((raster.width(), raster.height(), raster.channels()));
        }
        _ => {
            let length = source.length;
            let layout = layout(path, source)?;
            check_pixels(path, layout.width as u64, layout.height as u64, length)?;
            return Ok((layout.width, layout.height, layout.colours()));
        }
    };
    match shape[..] {
        [height, width] => Ok((width, height, 1)),
        [height, width, channels] => Ok((width, height, channels)),
        _ => Err(Error::file(
            path,
            format!("has shape {}; expected height x width (x channels), none of them zero", by(&shape)),
        )),
    }
}

fn from_array(path: &Path, (shape, data): (Vec<usize>, Vec<f32>)) -> Result<Image> {
    let (height, width, channels) = match shape[..] {
        [height, width] => (height, width, 1),
        [height, width, channels] => (height, width, channels),
        _ => (0, 0, 0),
    };
    Image::new(width, height, channels, data).map_err(|_| {
        Error::file(
            path,
            format!("has shape {}; expected height x width (x channels), none of them zero", by(&shape)),
        )
    })
}

/// Writes a picture of one or three channels as an 8-bit PNG, values rounded and clamped to 0..255.
pub fn write_image(path: &Path, image: &Image) -> Result<()> {
    image.check()?;
    let kind = match image.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        other => return Err(Error::value("number of channels for a PNG file", other, "1 or 3")),
    };
    write_png(path, image.width, image.height, &image.to_bytes(), |e| e.set_color(kind))
}

/// Writes an 8-bit colour PNG from red, green, blue of each pixel in turn.
pub fn write_rgb(path: &Path, width: usize, height: usize, rgb: &[u8]) -> Result<()> {
    check_size("picture", width, height, 3, rgb.len())?;
    write_png(path, width, height, rgb, |e| e.set_color(png::ColorType::Rgb))
}

/// Writes a 16-bit grey PNG.
pub fn write_grey16(path: &Path, width: usize, height: usize, values: &[u16]) -> Result<()> {
    check_size("picture", width, height, 1, values.len())?;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    write_png(path, width, height, &bytes, |e| {
        e.set_color(png::ColorType::Grayscale);
        e.set_depth(png::BitDepth::Sixteen);
    })
}

/// Writes disparities as a 16-bit grey PNG of `disparity * scale`, rounded; 0 stands for unknown (NaN or
/// infinite), and a disparity that rounds to 0 looks the same. The KITTI files use a scale of 256.
pub fn write_disparity(
    path: &Path,
    width: usize,
    height: usize,
    disparities: &[f32],
    scale: f32,
) -> Result<()> {
    let mut values = Vec::with_capacity(disparities.len());
    for (pixel, &d) in disparities.iter().enumerate() {
        let value = if d.is_finite() { (f64::from(d) * f64::from(scale)).round() } else { 0.0 };
        if !(0.0..=65_535.0).contains(&value) {
            return Err(Error::Element {
                what: "disparity map".into(),
                got: format!("{d}, at scale {scale} {value}"),
                place: format!("pixel {pixel}"),
                expected: "0 to 65535 after scaling".into(),
                fix: "choose a smaller scale, or write .pfm".into(),
            });
        }
        values.push(value as u16);
    }
    write_grey16(path, width, height, &values)
}

/// Fails unless there are `width * height * channels` values, at least one.
pub(super) fn check_size(what: &str, width: usize, height: usize, channels: usize, got: usize) -> Result<()> {
    let expected = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
    if expected == Some(got) && got > 0 {
        return Ok(());
    }
    Err(Error::shape(
        what,
        format!("{got} values"),
        format!("{width} x {height} x {channels}, at least one,"),
    ))
}

/// Encodes samples in PNG's own order; `set` chooses colour type, depth and palette.
pub(super) fn write_png(
    path: &Path,
    width: usize,
    height: usize,
    bytes: &[u8],
    set: impl FnOnce(&mut png::Encoder<&mut dyn io::Write>),
) -> Result<()> {
    let (Ok(w), Ok(h)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(Error::file(
            path,
            format!("cannot be written: a PNG cannot have {width} x {height} pixels"),
        ));
    };
    write_atomically(path, |out| {
        let mut encoder = png::Encoder::new(out, w, h);
        set(&mut encoder);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(bytes)?;
        Ok(writer.finish()?)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::{bmp24, folder, ppm, shared};
    use super::super::{read_labels, write_npy_f32};
    use super::*;

    /// A PNG of 8 bits, or of 16 if there are twice as many bytes.
    fn write_any_png(path: &Path, (width, height): (usize, usize), kind: png::ColorType, bytes: &[u8]) {
        let wide = bytes.len() == 2 * width * height * kind.samples();
        let depth = if wide { png::BitDepth::Sixteen } else { png::BitDepth::Eight };
        write_png(path, width, height, bytes, |e| {
            e.set_color(kind);
            e.set_depth(depth);
        })
        .unwrap();
    }

    fn write_tiff<C: ::tiff::encoder::colortype::ColorType>(
        path: &Path,
        size: (u32, u32),
        values: &[C::Inner],
    ) where
        [C::Inner]: ::tiff::encoder::TiffValue,
    {
        let mut encoder = ::tiff::encoder::TiffEncoder::new(fs::File::create(path).unwrap()).unwrap();
        encoder.write_image::<C>(size.0, size.1, values).unwrap();
    }

    #[test]
    fn image_size_is_read_from_the_header() {
        let dir = folder();
        let path = |name: &str| dir.path().join(name);
        write_any_png(&path("a.png"), (5, 3), png::ColorType::Rgb, &[7; 45]);
        write_any_png(&path("b.png"), (5, 3), png::ColorType::Rgba, &[7; 60]);
        fs::write(path("c.bmp"), bmp24(7, 2, &[1; 42])).unwrap();
        write_tiff::<::tiff::encoder::colortype::Gray16>(&path("d.tiff"), (7, 2), &[1; 14]);
        write_npy_f32(&path("e.npy"), &[4, 6], &[0.0; 24]).unwrap();
        write_npy_f32(&path("f.npy"), &[4, 3, 2], &[0.0; 24]).unwrap();
        fs::write(path("g.jpg"), GRADIENT_JPEG).unwrap();
        fs::write(path("h.ppm"), ppm(2, 1, &[1; 6])).unwrap();
        for name in ["a.png", "b.png", "c.bmp", "d.tiff", "e.npy", "f.npy", "g.jpg", "h.ppm"] {
            let image = read_image(&path(name)).unwrap();
            let expected = (image.width, image.height, image.channels);
            assert_eq!(image_size(&path(name)).unwrap(), expected, "{name}");
        }
        assert_eq!(crate::array_shape(&path("f.npy")).unwrap(), [4, 3, 2]);
        assert!(crate::array_shape(&path("a.png")).unwrap_err().to_string().contains("not an array"));
        fs::write(path("cut.png"), &fs::read(path("a.png")).unwrap()[..10]).unwrap();
        assert!(image_size(&path("cut.png")).is_err() && image_size(&path("absent")).is_err());
    }

    #[test]
    fn every_lossless_format_gives_the_same_picture() {
        let dir = folder();
        let bytes: Vec<u8> =
            (0..15u8).map(|i| (i % 5, i / 5)).flat_map(|(x, y)| [x * 50, y * 100, x * y]).collect();
        for ending in ["png", "bmp", "ppm", "tiff"] {
            let path = dir.path().join(format!("a.{ending}"));
            match ending {
                "png" => write_rgb(&path, 5, 3, &bytes).unwrap(),
                "bmp" => fs::write(&path, bmp24(5, 3, &bytes)).unwrap(),
                "ppm" => fs::write(&path, ppm(5, 3, &bytes)).unwrap(),
                _ => write_tiff::<::tiff::encoder::colortype::RGB8>(&path, (5, 3), &bytes),
            }
            let image = read_image(&path).unwrap();
            assert_eq!((image.width, image.height, image.channels), (5, 3, 3), "{ending}");
            assert_eq!(image.pixel(4, 2), &[200.0, 200.0, 8.0], "{ending}");
            assert_eq!(image.to_bytes(), bytes, "{ending}");
            let copy = dir.path().join("copy.png");
            write_image(&copy, &image).unwrap();
            assert_eq!(read_image(&copy).unwrap(), image);
        }
    }

    /// Red 4 x, green 100 + y, blue 60 on 32 x 16 pixels, and how far a decoder may be from that.
    const GRADIENT_JPEG: &[u8] = include_bytes!("../tests/pictures/gradient.jpg");

    #[test]
    fn jpeg_is_close_to_the_original() {
        let dir = folder();
        let path = dir.path().join("a.jpg");
        fs::write(&path, GRADIENT_JPEG).unwrap();
        let image = read_image(&path).unwrap();
        assert_eq!((image.width, image.height, image.channels), (32, 16, 3));
        for (i, pixel) in image.data.chunks_exact(3).enumerate() {
            let expected = [4 * (i % 32), 100 + i / 32, 60];
            let worst = pixel.iter().zip(expected).map(|(a, b)| (a - b as f32).abs()).fold(0.0, f32::max);
            assert!(worst < 8.0, "{pixel:?} instead of {expected:?}");
        }
        for cut in [0, 2, 20, 100] {
            fs::write(&path, &GRADIENT_JPEG[..cut]).unwrap();
            assert!(read_image(&path).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn alpha_is_dropped_and_16_bits_are_scaled() {
        let dir = folder();
        let path = dir.path().join("a.png");
        write_any_png(&path, (1, 1), png::ColorType::Rgba, &[1, 2, 3, 4]);
        assert_eq!(read_image(&path).unwrap().data, [1.0, 2.0, 3.0]);
        write_any_png(&path, (2, 1), png::ColorType::GrayscaleAlpha, &[9, 4, 8, 5]);
        let grey = read_image(&path).unwrap();
        assert_eq!((grey.channels, &grey.data[..]), (1, &[9.0, 8.0][..]));
        write_any_png(&path, (1, 1), png::ColorType::Grayscale, &[255, 255]);
        assert_eq!(read_image(&path).unwrap().data, [255.0]);
        write_any_png(&path, (1, 1), png::ColorType::Rgb, &[1, 1, 0, 128, 0, 0]);
        assert_eq!(read_image(&path).unwrap().data, [1.0, 128.0 / 257.0, 0.0]);
        write_grey16(&path, 2, 1, &[514, 0]).unwrap();
        assert_eq!(read_image(&path).unwrap().data, [2.0, 0.0]);
    }

    #[test]
    fn tiff_of_cmyk_bits_or_planes_is_read_in_colour() {
        use ::tiff::encoder::colortype::{CMYK8, RGB32Float, RGBA16};
        let dir = folder();
        let path = dir.path().join("a.tif");
        write_tiff::<CMYK8>(&path, (2, 1), &[0, 255, 0, 0, 100, 0, 50, 51]);
        assert_eq!(read_image(&path).unwrap().data, [255.0, 0.0, 255.0, 124.0, 204.0, 164.0]);
        write_tiff::<RGBA16>(&path, (1, 1), &[257, 514, 65_535, 9]);
        assert_eq!(read_image(&path).unwrap().data, [1.0, 2.0, 255.0]);
        write_tiff::<RGB32Float>(&path, (1, 1), &[0.25, -3.0, 1e9]);
        assert_eq!(read_image(&path).unwrap().data, [0.25, -3.0, 1e9]);
        assert!(read_labels(&path).unwrap_err().to_string().contains("colour image"));
        write_tiff::<::tiff::encoder::colortype::RGB64>(&path, (1, 1), &[1, 2, 3]);
        let e = read_image(&path).unwrap_err().to_string();
        assert!(e.contains("RGB(64) pixels; expected grey, RGB or CMYK"), "{e}");
    }

    #[test]
    fn array_is_read_as_a_picture() {
        let dir = folder();
        let path = dir.path().join("a.npy");
        write_npy_f32(&path, &[1, 2, 4], &[0.5; 8]).unwrap();
        let image = read_image(&path).unwrap();
        assert_eq!((image.height, image.width, image.channels), (1, 2, 4));
        write_npy_f32(&path, &[2, 3], &[7.0; 6]).unwrap();
        assert_eq!(read_image(&path).unwrap().channels, 1);
        for shape in [&[6][..], &[1, 1, 2, 3], &[0, 2, 3]] {
            write_npy_f32(&path, shape, &vec![0.0; shape.iter().product()]).unwrap();
            assert!(read_image(&path).unwrap_err().to_string().contains("height x width"));
        }
    }

    #[test]
    fn disparities_are_written_in_16_bits() {
        let dir = folder();
        let path = dir.path().join("d.png");
        write_disparity(&path, 3, 1, &[1.5, f32::INFINITY, 20.0], 256.0).unwrap();
        assert_eq!(read_labels(&path).unwrap().labels, [384, 0, 5120]);
        for bad in [-1.0, 300.0] {
            let e = write_disparity(&path, 1, 1, &[bad], 256.0).unwrap_err().to_string();
            assert!(e.contains("pixel 0"), "{e}");
        }
        assert!(write_disparity(&path, 2, 1, &[1.0], 1.0).is_err());
        assert_eq!(read_labels(&path).unwrap().labels, [384, 0, 5120]);
    }

    #[test]
    fn unreadable_picture_is_an_error_that_names_the_file() {
        let dir = folder();
        let path = dir.path().join("nonsense.png");
        // A BMP, a TIFF and two Netpbm headers that promise far more than the file holds.
        let mut bmp = bmp24(1, 1, &[1, 2, 3]);
        bmp[18..22].copy_from_slice(&60_000u32.to_le_bytes());
        bmp[22..26].copy_from_slice(&60_000u32.to_le_bytes());
        let bad: [&[u8]; 6] = [
            b"",
            b"no picture at all",
            b"\x89PNG\r\n\x1a\n",
            b"P6 60000 60000 255\n123",
            b"P3 100 100 255\n1 2 3",
            &bmp,
        ];
        for bytes in bad {
            fs::write(&path, bytes).unwrap();
            let e = read_image(&path).unwrap_err().to_string();
            assert!(e.contains("nonsense.png"), "{e}");
        }
        assert!(read_image(dir.path()).unwrap_err().to_string().contains("regular file"));
        assert!(write_image(&path, &Image { width: 1, height: 1, channels: 2, data: vec![0.0; 2] }).is_err());
        assert!(write_rgb(&path, 1, 1, &[0; 4]).is_err());
    }

    #[test]
    fn real_bmp_is_read() {
        let Some(path) = shared("reference/msrc_sample/2_14_s.bmp") else { return };
        let image = read_image(&path).unwrap();
        assert_eq!((image.width, image.height, image.channels), (213, 320, 3));
    }
}
