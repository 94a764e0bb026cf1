//! Netpbm files: bits, grey and colour as text or bytes (`P1` to `P6`), and PAM (`P7`).
//!
//! As pictures their values are stretched to the full range of 8 or 16 bits, which is right for pictures and ruins label
//! maps: for those, grey files are read with their numbers as they are.

use std::io::{BufRead, Read};
use std::path::Path;

use super::Source;
use super::decode::{Layout, Samples};
use super::limits::{check_pixels, reserve};
use relaxcrf::error::{Error, Result, plain};

/// Longest line of a PAM header that is read.
const MAX_LINE: u64 = 1 << 12;

/// The next word, and the single white space after it. `comments` skips `#` to the line's end.
pub(super) fn token(reader: &mut dyn BufRead, bytes: &mut u64, comments: bool) -> Option<String> {
    let mut word = String::new();
    let mut in_comment = false;
    let mut one = [0];
    while reader.read(&mut one).ok()? == 1 {
        *bytes += 1;
        let c = one[0];
        in_comment = comments && (c == b'#' || in_comment && c != b'\n' && c != b'\r');
        if in_comment {
            continue;
        }
        // The vertical tab is white space to Netpbm.
        if c.is_ascii_whitespace() || c == 0x0b {
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

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// Digits 0 and 1, where 1 is black, with or without space between them.
    BitText,
    /// Eight pixels to a byte, 1 is black; rows begin with a new byte.
    Bits,
    /// Decimal numbers.
    Text,
    /// One or two bytes a value, the higher first.
    Bytes,
}

/// What the header says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pnm {
    width: u64,
    height: u64,
    /// Values per pixel, alpha included.
    channels: usize,
    has_alpha: bool,
    /// The largest value.
    most: u32,
    coding: Coding,
    /// Bytes of the header.
    length: u64,
}

impl Pnm {
    /// Reads the header, and nothing beyond it.
    pub(super) fn new(reader: &mut dyn BufRead) -> std::result::Result<Self, String> {
        let unclear = || "the PNM header is not understood".to_string();
        let mut length = 0;
        let magic = token(reader, &mut length, true).ok_or_else(unclear)?;
        let (channels, coding) = match magic.as_str() {
            "P1" => (1, Coding::BitText),
            "P2" => (1, Coding::Text),
            "P3" => (3, Coding::Text),
            "P4" => (1, Coding::Bits),
            "P5" => (1, Coding::Bytes),
            "P6" => (3, Coding::Bytes),
            "P7" => return Self::arbitrary(reader, length),
            _ => return Err(unclear()),
        };
        let mut number =
            || token(reader, &mut length, true).and_then(|t| t.parse::<u64>().ok()).ok_or_else(unclear);
        let (width, height) = (number()?, number()?);
        let is_bits = matches!(coding, Coding::BitText | Coding::Bits);
        let most = check_most(if is_bits { 1 } else { number()? })?;
        Ok(Self { width, height, channels, has_alpha: false, most, coding, length })
    }

    /// Reads the lines of a PAM header after its first.
    fn arbitrary(reader: &mut dyn BufRead, mut length: u64) -> std::result::Result<Self, String> {
        let mut numbers = [None; 4];
        let mut kind = String::new();
        loop {
            let mut line = Vec::new();
            let read = (&mut *reader).take(MAX_LINE).read_until(b'\n', &mut line).unwrap_or(0);
            if line.pop() != Some(b'\n') {
                return Err("the PAM header is cut off".into());
            }
            length += read as u64;
            let line = String::from_utf8_lossy(&line);
            let (name, value) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            let value = value.trim();
            let place = match name {
                "ENDHDR" => break,
                "TUPLTYPE" => {
                    kind = format!("{kind} {value}").trim().into();
                    continue;
                }
                "WIDTH" => 0,
                "HEIGHT" => 1,
                "DEPTH" => 2,
                "MAXVAL" => 3,
                _ if name.is_empty() || name.starts_with('#') => continue,
                _ => return Err(format!("has the line `{}` in its PAM header", plain(name))),
            };
            numbers[place] = Some(value.parse::<u64>().map_err(|_| {
                format!("has {name} `{}` in its PAM header; expected a whole number", plain(value))
            })?);
        }
        let [Some(width), Some(height), Some(depth), Some(most)] = numbers else {
            return Err("the PAM header lacks WIDTH, HEIGHT, DEPTH or MAXVAL".into());
        };
        let most = check_most(most)?;
        let (channels, has_alpha) = match (kind.as_str(), depth) {
            ("" | "GRAYSCALE", 1) => (1, false),
            ("" | "GRAYSCALE_ALPHA", 2) => (2, true),
            ("" | "RGB", 3) => (3, false),
            ("" | "RGB_ALPHA", 4) => (4, true),
            ("BLACKANDWHITE", 1) if most == 1 => (1, false),
            ("BLACKANDWHITE_ALPHA", 2) if most == 1 => (2, true),
            _ => {
                return Err(format!(
                    "is a PAM file of type `{}`, depth {depth} and maximum {most}; expected black and white, grey or \
                     RGB, with or without alpha",
                    plain(&kind)
                ));
            }
        };
        Ok(Self { width, height, channels, has_alpha, most, coding: Coding::Bytes, length })
    }

    pub(super) fn layout(&self) -> Layout {
        let (width, height) = (self.width as usize, self.height as usize);
        Layout { width, height, channels: self.channels, has_alpha: self.has_alpha }
    }

    /// The values as a picture's, stretched to the range of a byte or of 16 bits. `length` is that of the file.
    pub(super) fn samples(&self, path: &Path, reader: &mut dyn BufRead, length: u64) -> Result<Samples> {
        let stretched = |value: u16, factor: f32| (f32::from(value) * factor).round();
        match self.most {
            255 => Ok(Samples::Bytes(self.values(path, reader, length, |v| v.min(255) as u8)?)),
            65_535 => Ok(Samples::Words(self.values(path, reader, length, |v| v)?)),
            most if most < 256 => {
                let factor = 255.0 / most as f32;
                Ok(Samples::Bytes(self.values(path, reader, length, |v| stretched(v, factor) as u8)?))
            }
            most => {
                let factor = 65_535.0 / most as f32;
                Ok(Samples::Words(self.values(path, reader, length, |v| stretched(v, factor) as u16)?))
            }
        }
    }

    /// All values, each through `convert`. The size must have been checked.
    fn values<T>(
        &self,
        path: &Path,
        reader: &mut dyn BufRead,
        length: u64,
        convert: impl Fn(u16) -> T,
    ) -> Result<Vec<T>> {
        let Self { width, height, .. } = *self;
        let count = (width * height) as usize * self.channels;
        let row = width as usize * self.channels;
        let size = if self.most < 256 { 1 } else { 2 };
        // A text needs at least a digit and a space per value, but the last.
        let needed = match self.coding {
            Coding::BitText => count,
            Coding::Text => 2 * count - 1,
            Coding::Bits => row.div_ceil(8) * height as usize,
            Coding::Bytes => count * size,
        };
        let left = length.saturating_sub(self.length);
        if needed as u64 > left {
            let claims =
                format!("the PNM header claims {width} x {height} pixels, but only {left} bytes follow");
            return Err(Error::file(path, format!("{claims}; the file is cut off")));
        }
        let mut values = reserve(path, count)?;
        let fail = |e: std::io::Error| Error::file(path, format!("cannot be read: {e}"));
        match self.coding {
            Coding::Text => {
                let mut read = 0;
                for i in 0..count {
                    let value = token(reader, &mut read, true).and_then(|t| t.parse().ok());
                    let no_number = || Error::file(path, format!("value {i} is not a number up to 65535"));
                    values.push(convert(value.ok_or_else(no_number)?));
                }
            }
            Coding::BitText => {
                let mut digits = reader.bytes().filter(|b| !matches!(b, Ok(9..=13 | b' ')));
                for i in 0..count {
                    values.push(convert(match digits.next().transpose().map_err(fail)? {
                        Some(b'0') => 1,
                        Some(b'1') => 0,
                        _ => return Err(Error::file(path, format!("pixel {i} is neither 0 nor 1"))),
                    }));
                }
            }
            Coding::Bits => {
                let mut bytes = vec![0u8; row.div_ceil(8)];
                for _ in 0..height {
                    reader.read_exact(&mut bytes).map_err(fail)?;
                    values.extend((0..row).map(|x| convert(1 - u16::from(bytes[x / 8] >> (7 - x % 8) & 1))));
                }
            }
            Coding::Bytes => {
                let mut bytes = vec![0u8; row * size];
                for _ in 0..height {
                    reader.read_exact(&mut bytes).map_err(fail)?;
                    let words = bytes.chunks_exact(size);
                    values.extend(words.map(|b| convert(b.iter().fold(0, |v, &b| v << 8 | u16::from(b)))));
                }
            }
        }
        Ok(values)
    }
}

fn check_most(most: u64) -> std::result::Result<u32, String> {
    match most {
        1..=65_535 => Ok(most as u32),
        _ => Err(format!("the PNM header's maximum is {most}; expected 1 to 65535")),
    }
}

/// Width, height and values of a grey file; `None` if it is a Netpbm file of another kind.
pub(super) fn read_grey(path: &Path, source: &mut Source) -> Result<Option<(usize, usize, Vec<u16>)>> {
    let header = Pnm::new(&mut source.reader).map_err(|why| Error::file(path, why))?;
    if header.channels > 1 || !matches!(header.coding, Coding::Text | Coding::Bytes) {
        return Ok(None);
    }
    check_pixels(path, header.width, header.height, source.length)?;
    let values = header.values(path, &mut source.reader, source.length, |v| v)?;
    Ok(Some((header.width as usize, header.height as usize, values)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::{folder, shared};
    use super::super::{image_size, read_image, read_labels};

    #[test]
    fn pnm_labels_keep_their_numbers_for_any_maximum() {
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
    fn pnm_pictures_of_every_kind_are_scaled_to_255() {
        let dir = folder();
        let path = dir.path().join("a.pnm");
        let cases: [(&[u8], usize, &[f32]); 15] = [
            (b"P1 3 2\n1 0 1\n010", 1, &[0.0, 255.0, 0.0, 255.0, 0.0, 255.0]),
            (b"P2 # a comment\n2 1\n20 10\n# another\n20", 1, &[128.0, 255.0]),
            (b"P2 3 1 255 0 128 255", 1, &[0.0, 128.0, 255.0]),
            (b"P3 1 1 7 0 1 7", 3, &[0.0, 36.0, 255.0]),
            (b"P4 9 1\n\xaa\x80", 1, &[0.0, 255.0, 0.0, 255.0, 0.0, 255.0, 0.0, 255.0, 0.0]),
            (b"P5 1 1 65535\n\x01\x01", 1, &[1.0]),
            (b"P5 1 1 256\n\x01\x00", 1, &[255.0]),
            (b"P6#c\n1 1 255\n\x01\x02\x03", 3, &[1.0, 2.0, 3.0]),
            (b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 1\nTUPLTYPE BLACKANDWHITE\nENDHDR\n\x01", 1, &[255.0]),
            (b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 510\nTUPLTYPE GRAYSCALE\nENDHDR\n\x01\xfe", 1, &[255.0]),
            (b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\n\x07\x09", 1, &[7.0]),
            (b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n\x07\x08\x09", 3, &[7.0, 8.0, 9.0]),
            (b"P7\n# by hand\nWIDTH 1\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n\x01\x02\x03\x04", 3, &[1.0, 2.0, 3.0]),
            (b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 3\nMAXVAL 255\nENDHDR\n\x07\x08\x09", 3, &[7.0, 8.0, 9.0]),
            (b"P2 2 1 255 1 999", 1, &[1.0, 255.0]),
        ];
        for (bytes, channels, values) in cases {
            fs::write(&path, bytes).unwrap();
            let image = read_image(&path).unwrap();
            assert_eq!((image.channels, &image.data[..]), (channels, values), "{}", bytes.escape_ascii());
            assert_eq!(image_size(&path).unwrap(), (image.width, image.height, channels));
        }
    }

    #[test]
    fn damaged_pnm_is_an_error_with_the_expected_form() {
        let dir = folder();
        let path = dir.path().join("bad.pnm");
        let cases: [(&[u8], &str); 9] = [
            (b"P6 1 1", "the PNM header is not understood"),
            (b"P6 1 1 70000\n123", "maximum is 70000; expected 1 to 65535"),
            (b"P6 9 9 255\n123", "claims 9 x 9 pixels, but only 3 bytes follow; the file is cut off"),
            (b"P1 2 1 1x", "pixel 1 is neither 0 nor 1"),
            (b"P3 1 1 255 1 2 x", "value 2 is not a number"),
            (b"P7\nWIDTH 1\nHEIGHT 1\nENDHDR\n", "lacks WIDTH, HEIGHT, DEPTH or MAXVAL"),
            (b"P7\nWIDTH one\n", "WIDTH `one`"),
            (b"P7\nCOLOUR 1\n", "the line `COLOUR`"),
            (
                b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 3\nMAXVAL 9\nTUPLTYPE ODD\nENDHDR\n123",
                "type `ODD`, depth 3 and maximum 9; expected",
            ),
        ];
        for (bytes, expected) in cases {
            fs::write(&path, bytes).unwrap();
            let e = read_image(&path).unwrap_err().to_string();
            assert!(e.contains("bad.pnm") && e.contains(expected), "{e}");
        }
    }

    #[test]
    fn damaged_pnm_file_is_an_error() {
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
    fn real_pnm_truth_map_is_read() {
        let Some(path) = shared("data/stereo/venus/disp2.pgm") else { return };
        let map = read_labels(&path).unwrap();
        assert_eq!((map.width, map.height), (434, 383));
        assert!(map.labels.iter().any(|&v| v >= 8));
    }
}
