//! Grey Netpbm files (`P2`, `P5`) with their numbers as they are.
//!
//! The image library stretches values to the full range of a byte when the file's maximum is less, which
//! is right for pictures and ruins label maps.

use std::io::{BufRead, Read};
use std::path::Path;

use super::Source;
use super::limits::{check_pixels, reserve};
use crate::error::{Error, Result};

/// The next word, and the single white space after it. `comments` skips `#` to the line's end.
pub(super) fn token(reader: &mut dyn BufRead, bytes: &mut u64, comments: bool) -> Option<String> {
    let mut word = String::new();
    let mut in_comment = false;
    let mut one = [0];
    while reader.read(&mut one).ok()? == 1 {
        *bytes += 1;
        let c = one[0];
        if in_comment {
            in_comment = c != b'\n' && c != b'\r';
        } else if c == b'#' && comments && word.is_empty() {
            in_comment = true;
        } else if c.is_ascii_whitespace() {
            if !word.is_empty() {
                return Some(word);
            }
        } else {
            // No number or magic word is longer: do not collect a binary file into a string.
            if word.len() >= 32 {
                return None;
            }
            word.push(char::from(c));
        }
    }
    (!word.is_empty()).then_some(word)
}

/// Width, height and values of a grey file; `None` if it is a Netpbm file of another flavour.
pub(super) fn read_grey(path: &Path, source: &mut Source) -> Result<Option<(usize, usize, Vec<u16>)>> {
    let mut header = 0;
    let reader = &mut source.reader;
    let bad = || Error::file(path, "the PGM header is not understood");
    let text = match token(reader, &mut header, true).ok_or_else(bad)?.as_str() {
        "P2" => true,
        "P5" => false,
        _ => return Ok(None),
    };
    let mut number = || token(reader, &mut header, true).and_then(|t| t.parse::<u64>().ok()).ok_or_else(bad);
    let (width, height, most) = (number()?, number()?, number()?);
    if !(1..=65_535).contains(&most) {
        return Err(Error::file(path, format!("the PGM header's maximum is {most}; wanted 1 to 65535")));
    }
    let pixels = check_pixels(path, width, height, source.length)?;
    let size = if most < 256 { 1 } else { 2 };
    // A text file needs at least a digit and a space per value, but the last.
    let (needed, left) = (if text { pixels * 2 - 1 } else { pixels * size }, source.length - header);
    if needed as u64 > left {
        return Err(Error::file(
            path,
            format!(
                "the PGM header claims {width} x {height} pixels, but only {left} bytes follow; the file is cut off"
            ),
        ));
    }
    let mut values = reserve(path, pixels)?;
    if text {
        for i in 0..pixels {
            let value = token(reader, &mut header, true).and_then(|t| t.parse().ok());
            values.push(
                value.ok_or_else(|| Error::file(path, format!("value {i} is not a number up to 65535")))?,
            );
        }
    } else {
        let mut bytes = vec![0u8; width as usize * size];
        for _ in 0..height {
            reader.read_exact(&mut bytes).map_err(|e| Error::file(path, format!("cannot be read: {e}")))?;
            values.extend(bytes.chunks_exact(size).map(|b| b.iter().fold(0, |v, &b| v << 8 | u16::from(b))));
        }
    }
    Ok(Some((width as usize, height as usize, values)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::{folder, shared};
    use super::super::{read_image, read_labels};

    #[test]
    fn labels_keep_their_numbers_whatever_the_maximum() {
        let dir = folder();
        let path = dir.path().join("a.pgm");
        let same = |bytes: &[u8], labels: &[u16]| {
            fs::write(&path, bytes).unwrap();
            assert_eq!(read_labels(&path).unwrap().labels, labels);
        };
        same(b"P5\n# made by hand\n3 1\n20\n\x00\x07\x14", &[0, 7, 20]);
        same(b"P2 3 1 20\n0 7\n# half way\n20", &[0, 7, 20]);
        same(b"P5 2 1 1000\n\x01\x00\x03\xe8", &[256, 1000]);
        // The same file as a picture is stretched to 0..255.
        fs::write(&path, b"P5\n3 1\n20\n\x00\x0a\x14").unwrap();
        assert_eq!(read_image(&path).unwrap().data[2], 255.0);
    }

    #[test]
    fn damaged_files() {
        let dir = folder();
        let path = dir.path().join("bad.pgm");
        let bad: [&[u8]; 8] = [
            b"P5 100000 100000 255\n",
            b"P5 99999999999999999999999 1 255\n",
            b"P5 3 1 255\n12",
            b"P5 3 1 0\n123",
            b"P5 3 1 70000\n123456",
            b"P2 3 1 255\n1 2 x",
            b"P2 3 1 255\n1 2 99999",
            b"P5 3",
        ];
        for bytes in bad {
            fs::write(&path, bytes).unwrap();
            let e = read_labels(&path).unwrap_err().to_string();
            assert!(e.contains("bad.pgm"), "{e}");
        }
    }

    #[test]
    fn a_real_truth_map() {
        let Some(path) = shared("data/stereo/venus/disp2.pgm") else { return };
        let map = read_labels(&path).unwrap();
        assert_eq!((map.width, map.height), (434, 383));
        assert!(map.labels.iter().any(|&v| v >= 8));
    }
}
