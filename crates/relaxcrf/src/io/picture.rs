//! Pictures.

use std::io::{self, Cursor, Read};
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageReader};

use super::atomic::write_atomically;
use super::decoders::guarded;
use super::limits::{by, check_pixels, check_whole};
use super::windows::Raster;
use super::{Kind, Source, npy, npz, open, pfm, tiff};
use crate::error::{Error, Result};
use crate::image::Image;

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
        Kind::Other if tiff::is_raster(path)? => Raster::image(path)?.into_image(),
        Kind::Png | Kind::Pnm | Kind::Other => Ok(from_picture(decode(path, source)?)),
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
        Kind::Other if tiff::is_raster(path)? => {
            let raster = Raster::image(path)?;
            return Ok((raster.width(), raster.height(), raster.channels()));
        }
        Kind::Png | Kind::Pnm | Kind::Other => {
            return guarded(path, || picture_size(path, source));
        }
    };
    match shape[..] {
        [height, width] => Ok((width, height, 1)),
        [height, width, channels] => Ok((width, height, channels)),
        _ => Err(Error::file(
            path,
            format!(
                "holds an array of {}; wanted height x width (x channels), none of them zero",
                by(&shape)
            ),
        )),
    }
}

fn picture_size(path: &Path, source: Source) -> Result<(usize, usize, usize)> {
    let fail = |why: String| Error::file(path, format!("the picture cannot be read: {why}"));
    let decoder = ImageReader::new(source.reader)
        .with_guessed_format()
        .map_err(|e| fail(e.to_string()))?
        .into_decoder()
        .map_err(|e| fail(e.to_string()))?;
    let (width, height) = decoder.dimensions();
    check_pixels(path, width.into(), height.into(), source.length)?;
    let colour = decoder.color_type();
    let channels = usize::from(colour.channel_count()) - usize::from(colour.has_alpha());
    Ok((width as usize, height as usize, channels))
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
            format!(
                "holds an array of {}; wanted height x width (x channels), none of them zero",
                by(&shape)
            ),
        )
    })
}

/// Decodes with the image library, after checking the size that the header claims.
pub(super) fn decode(path: &Path, source: Source) -> Result<DynamicImage> {
    guarded(path, || decode_checked(path, source))
}

fn decode_checked(path: &Path, source: Source) -> Result<DynamicImage> {
    let fail = |e: image::ImageError| Error::file(path, format!("the picture cannot be read: {e}"));
    let Source { mut reader, length, .. } = source;
    // The size is asked of one decoder and the pixels of another, so the bytes are held in between.
    let mut bytes = super::limits::reserve(path, usize::try_from(length).unwrap_or(usize::MAX))?;
    reader
        .by_ref()
        .take(length)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::file(path, format!("cannot be read: {e}")))?;
    let guess = |bytes| ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let unreadable = |e: io::Error| Error::file(path, format!("cannot be read: {e}"));
    let first = guess(&bytes).map_err(unreadable)?;
    if first.format().is_none() {
        return Err(Error::file(
            path,
            "is no picture known here; wanted PNG, JPEG, BMP, PNM, TIFF, PFM or .npy",
        ));
    }
    let (width, height) = first.into_dimensions().map_err(fail)?;
    check_whole(path, width.into(), height.into(), length)?;
    let mut second = guess(&bytes).map_err(unreadable)?;
    let mut limits = image::Limits::no_limits();
    // Room for four 16-bit channels of the largest picture; its size has been checked above.
    limits.max_alloc = Some(8 * super::MAX_PIXELS as u64);
    second.limits(limits);
    second.decode().map_err(fail)
}

fn from_picture(picture: DynamicImage) -> Image {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let has_alpha = picture.color().has_alpha();
    let stored = usize::from(picture.color().channel_count());
    let channels = stored - usize::from(has_alpha);
    let keep = |values: &mut dyn Iterator<Item = f32>| -> Vec<f32> {
        let mut at = 0;
        values
            .filter(|_| {
                let kept = at < channels;
                at = (at + 1) % stored;
                kept
            })
            .collect()
    };
    use DynamicImage as D;
    let byte = |v: &u8| f32::from(*v);
    let word = |v: &u16| f32::from(*v) / 257.0;
    let data = match &picture {
        D::ImageLuma8(p) => keep(&mut p.iter().map(byte)),
        D::ImageLumaA8(p) => keep(&mut p.iter().map(byte)),
        D::ImageRgb8(p) => keep(&mut p.iter().map(byte)),
        D::ImageRgba8(p) => keep(&mut p.iter().map(byte)),
        D::ImageLuma16(p) => keep(&mut p.iter().map(word)),
        D::ImageLumaA16(p) => keep(&mut p.iter().map(word)),
        D::ImageRgb16(p) => keep(&mut p.iter().map(word)),
        D::ImageRgba16(p) => keep(&mut p.iter().map(word)),
        D::ImageRgb32F(p) => keep(&mut p.iter().copied()),
        D::ImageRgba32F(p) => keep(&mut p.iter().copied()),
        // The library may add kinds of pictures; all of them convert to this one.
        other => return from_picture(D::ImageRgb16(other.to_rgb16())),
    };
    Image { width, height, channels, data }
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
/// infinite), and a disparity that rounds to 0 cannot be told from it. The KITTI files use a scale of 256.
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
                wanted: "0 to 65535 after scaling".into(),
                fix: "choose a smaller scale, or write .pfm".into(),
            });
        }
        values.push(value as u16);
    }
    write_grey16(path, width, height, &values)
}

/// Fails unless there are `width * height * channels` values, at least one.
pub(super) fn check_size(what: &str, width: usize, height: usize, channels: usize, got: usize) -> Result<()> {
    let wanted = width.checked_mul(height).and_then(|n| n.checked_mul(channels));
    if wanted == Some(got) && got > 0 {
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

    use image::{ImageBuffer, Luma, LumaA, Rgb, Rgba};

    use super::super::testing::{folder, shared};
    use super::super::{read_labels, write_npy_f32};
    use super::*;

    #[test]
    fn sizes_are_known_from_headers() {
        let dir = folder();
        let path = |name: &str| dir.path().join(name);
        ImageBuffer::from_fn(5, 3, |_, _| Rgb([1u8, 2, 3])).save(path("a.png")).unwrap();
        ImageBuffer::from_fn(5, 3, |_, _| Rgba([1u8, 2, 3, 4])).save(path("b.png")).unwrap();
        ImageBuffer::from_fn(7, 2, |_, _| Luma([1u8])).save(path("c.bmp")).unwrap();
        ImageBuffer::from_fn(7, 2, |_, _| Luma([1u16])).save(path("d.tiff")).unwrap();
        write_npy_f32(&path("e.npy"), &[4, 6], &[0.0; 24]).unwrap();
        write_npy_f32(&path("f.npy"), &[4, 3, 2], &[0.0; 24]).unwrap();
        for name in ["a.png", "b.png", "c.bmp", "d.tiff", "e.npy", "f.npy"] {
            let image = read_image(&path(name)).unwrap();
            let wanted = (image.width, image.height, image.channels);
            assert_eq!(image_size(&path(name)).unwrap(), wanted, "{name}");
        }
        assert_eq!(crate::io::array_shape(&path("f.npy")).unwrap(), [4, 3, 2]);
        assert!(crate::io::array_shape(&path("a.png")).unwrap_err().to_string().contains("not an array"));
        fs::write(path("cut.png"), &fs::read(path("a.png")).unwrap()[..10]).unwrap();
        assert!(image_size(&path("cut.png")).is_err() && image_size(&path("absent")).is_err());
    }

    #[test]
    fn every_lossless_format_gives_the_same_picture() {
        let dir = folder();
        let buffer = ImageBuffer::from_fn(5, 3, |x, y| Rgb([x as u8 * 50, y as u8 * 100, (x * y) as u8]));
        for ending in ["png", "bmp", "ppm", "tiff"] {
            let path = dir.path().join(format!("a.{ending}"));
            buffer.save(&path).unwrap();
            let image = read_image(&path).unwrap();
            assert_eq!((image.width, image.height, image.channels), (5, 3, 3), "{ending}");
            assert_eq!(image.pixel(4, 2), &[200.0, 200.0, 8.0], "{ending}");
            assert_eq!(image.to_bytes(), *buffer.as_raw(), "{ending}");
            let copy = dir.path().join("copy.png");
            write_image(&copy, &image).unwrap();
            assert_eq!(read_image(&copy).unwrap(), image);
        }
    }

    #[test]
    fn jpeg_is_close() {
        let dir = folder();
        let path = dir.path().join("a.jpg");
        let buffer = ImageBuffer::from_fn(32, 16, |x, y| Rgb([x as u8 * 4, 100 + y as u8, 60]));
        buffer.save(&path).unwrap();
        let image = read_image(&path).unwrap();
        let worst = image
            .data
            .iter()
            .zip(buffer.as_raw())
            .map(|(a, &b)| (a - f32::from(b)).abs())
            .fold(0.0, f32::max);
        assert!(worst < 16.0, "{worst}");
        let whole = fs::read(&path).unwrap();
        for cut in [0, 2, 20, 100] {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(read_image(&path).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn alpha_goes_and_sixteen_bits_are_scaled() {
        let dir = folder();
        let path = dir.path().join("a.png");
        ImageBuffer::from_pixel(1, 1, Rgba([1u8, 2, 3, 4])).save(&path).unwrap();
        assert_eq!(read_image(&path).unwrap().data, [1.0, 2.0, 3.0]);
        ImageBuffer::from_pixel(2, 1, LumaA([9u8, 4])).save(&path).unwrap();
        let grey = read_image(&path).unwrap();
        assert_eq!((grey.channels, &grey.data[..]), (1, &[9.0, 9.0][..]));
        ImageBuffer::from_pixel(1, 1, Luma([65_535u16])).save(&path).unwrap();
        assert_eq!(read_image(&path).unwrap().data, [255.0]);
        ImageBuffer::from_pixel(1, 1, Rgb([257u16, 128, 0])).save(&path).unwrap();
        assert_eq!(read_image(&path).unwrap().data, [1.0, 128.0 / 257.0, 0.0]);
        write_grey16(&path, 2, 1, &[514, 0]).unwrap();
        assert_eq!(read_image(&path).unwrap().data, [2.0, 0.0]);
    }

    #[test]
    fn arrays_are_pictures_too() {
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
    fn disparities() {
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
    fn nonsense_is_named() {
        let dir = folder();
        let path = dir.path().join("nonsense.png");
        // A BMP, a TIFF and two Netpbm headers that promise far more than the file holds.
        let mut bmp = vec![0u8; 54];
        ImageBuffer::from_pixel(1, 1, Rgb([1u8, 2, 3])).save(dir.path().join("a.bmp")).unwrap();
        bmp.copy_from_slice(&fs::read(dir.path().join("a.bmp")).unwrap()[..54]);
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
    fn a_real_bmp() {
        let Some(path) = shared("reference/msrc_sample/2_14_s.bmp") else { return };
        let image = read_image(&path).unwrap();
        assert_eq!((image.width, image.height, image.channels), (213, 320, 3));
    }
}
