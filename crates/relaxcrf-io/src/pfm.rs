//! PFM: real-valued pictures, the usual carrier of disparities with fractions.

use std::io::{BufRead, Read};
use std::path::Path;

use super::atomic::write_atomically;
use super::limits::{check_pixels, reserve};
use super::pnm::token;
use super::{Kind, open};
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};

/// Reads a grey (`Pf`) or colour (`PF`) file, values as they are: unknown disparities stay infinite.
pub fn read_pfm(path: &Path) -> Result<Image> {
    let mut source = open(path)?;
    if source.kind != Kind::Pfm {
        return Err(Error::file(path, "is not a PFM file: it does not begin with PF or Pf"));
    }
    let (width, height, channels, scale, header) = parse_header(&mut source.reader)
        .ok_or_else(|| Error::file(path, "the PFM header is not understood"))?;
    let pixels = check_pixels(path, width, height, source.length)?;
    let n = pixels * channels;
    if source.length.checked_sub(header) != Some(n as u64 * 4) {
        return Err(Error::file(
            path,
            format!(
                "the PFM header claims {width} x {height} pixels of {channels} channels ({} bytes), \
                 but {} bytes follow it",
                n * 4,
                source.length.saturating_sub(header)
            ),
        ));
    }
    let row = width as usize * channels;
    let mut data = reserve(path, n)?;
    data.resize(n, 0.0);
    let mut bytes = vec![0u8; row * 4];
    // The lowest row comes first.
    for values in data.chunks_exact_mut(row).rev() {
        source
            .reader
            .read_exact(&mut bytes)
            .map_err(|e| Error::file(path, format!("cannot be read: {e}")))?;
        for (v, b) in values.iter_mut().zip(bytes.chunks_exact(4)) {
            let b = [b[0], b[1], b[2], b[3]];
            *v = if scale < 0.0 { f32::from_le_bytes(b) } else { f32::from_be_bytes(b) };
        }
    }
    Image::new(width as usize, height as usize, channels, data)
}

/// Width, height, channels, scale (negative for little-endian) and the header's length.
fn parse_header(reader: &mut dyn BufRead) -> Option<(u64, u64, usize, f32, u64)> {
    let mut bytes = 0;
    let magic = token(reader, &mut bytes, false)?;
    let channels = if magic == "PF" { 3 } else { 1 };
    let width = token(reader, &mut bytes, false)?.parse().ok()?;
    let height = token(reader, &mut bytes, false)?.parse().ok()?;
    let scale: f32 = token(reader, &mut bytes, false)?.parse().ok()?;
    (scale.is_finite() && scale != 0.0).then_some((width, height, channels, scale, bytes))
}

/// Writes a picture of one or three channels, little-endian.
pub fn write_pfm(path: &Path, image: &Image) -> Result<()> {
    image.check()?;
    let magic = match image.channels {
        1 => "Pf",
        3 => "PF",
        other => return Err(Error::value("number of channels for a PFM file", other, "1 or 3")),
    };
    write_atomically(path, |out| {
        write!(out, "{magic}\n{} {}\n-1.0\n", image.width, image.height)?;
        for row in image.data.chunks_exact(image.width * image.channels).rev() {
            let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::read_image;
    use super::super::testing::folder;
    use super::*;

    #[test]
    fn pfm_survives_a_round_trip_with_its_row_order() {
        let dir = folder();
        let path = dir.path().join("a.pfm");
        for channels in [1, 3] {
            let data: Vec<f32> = (0..2 * 3 * channels).map(|v| v as f32 - 2.5).collect();
            let image = Image::new(2, 3, channels, data).unwrap();
            write_pfm(&path, &image).unwrap();
            assert_eq!(read_pfm(&path).unwrap(), image);
            assert_eq!(read_image(&path).unwrap(), image);
        }
        // Big-endian, lowest row first, infinity for unknown.
        let mut bytes = b"Pf\n1 2\n1.0\n".to_vec();
        bytes.extend(7f32.to_be_bytes());
        bytes.extend(f32::INFINITY.to_be_bytes());
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read_pfm(&path).unwrap().data, [f32::INFINITY, 7.0]);
        let two = Image::new(1, 1, 2, vec![0.0; 2]).unwrap();
        assert!(write_pfm(&path, &two).is_err());
    }

    #[test]
    fn damaged_pfm_header_is_an_error() {
        let dir = folder();
        let path = dir.path().join("bad.pfm");
        let bad: [&[u8]; 8] = [
            b"Pf\n1 2\n1.0\n1234",
            b"Pf\n1000000 1000000\n-1\n1234",
            b"Pf\n99999999999999999999 1\n-1\n",
            b"Pf\n1 1\n0\n1234",
            b"Pf\n1 1\nnan\n1234",
            b"Pf\n0 1\n-1\n",
            b"Pf\n1 1",
            b"P5\n1 1\n255\n1",
        ];
        for bytes in bad {
            fs::write(&path, bytes).unwrap();
            let e = read_pfm(&path).unwrap_err().to_string();
            assert!(e.contains("bad.pfm"), "{e}");
        }
    }
}
