//! The text in front of a `.npy` array: a Python dictionary with three keys.

use std::io::Read;
use std::path::Path;

use relaxcrf::error::{Error, Result, plain};

/// Real headers have under 200 bytes; structured types, which are not read, can have more.
const MAX_TEXT: u64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Bool,
    Int,
    Uint,
    Float,
}

/// The type and shape of an array.
#[derive(Debug)]
pub(super) struct Header {
    pub class: Class,
    /// Bytes per element: 1, 2, 4 or 8 as the class allows.
    pub size: usize,
    pub big_endian: bool,
    pub fortran: bool,
    pub shape: Vec<usize>,
    /// Bytes before the data.
    pub bytes: u64,
}

impl Header {
    /// Reads from the magic number to the first byte of data, never more than `length` bytes.
    pub fn read(path: &Path, source: &mut dyn Read, length: u64) -> Result<Self> {
        let cut = |e: std::io::Error| Error::file(path, format!("the .npy header cannot be read: {e}"));
        let mut start = [0; 8];
        source.read_exact(&mut start).map_err(cut)?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(Error::file(path, "is not a .npy array: it does not begin with \\x93NUMPY"));
        }
        let (text_length, fixed) = match start[6] {
            1 => {
                let mut n = [0; 2];
                source.read_exact(&mut n).map_err(cut)?;
                (u64::from(u16::from_le_bytes(n)), 10)
            }
            2 | 3 => {
                let mut n = [0; 4];
                source.read_exact(&mut n).map_err(cut)?;
                (u64::from(u32::from_le_bytes(n)), 12)
            }
            other => {
                return Err(Error::file(
                    path,
                    format!(".npy version {other} is unknown; expected 1, 2 or 3"),
                ));
            }
        };
        let bytes = text_length + fixed;
        if text_length > MAX_TEXT || bytes > length {
            return Err(Error::file(
                path,
                format!("the .npy header claims {text_length} bytes of text; the file is cut off or damaged"),
            ));
        }
        let mut text = vec![0; text_length as usize];
        source.read_exact(&mut text).map_err(cut)?;
        let text = String::from_utf8_lossy(&text);
        let shown = plain(text.trim());
        let bad = |why: String| Error::file(path, format!("the .npy header `{shown}` {why}"));
        let mut parser = Parser { text: &text };
        let fields = parser.dictionary().ok_or_else(|| bad("is not understood".into()))?;
        let (Some(descr), Some(fortran), Some(shape)) = (fields.descr, fields.fortran, fields.shape) else {
            return Err(bad("lacks descr, fortran_order or shape".into()));
        };
        let (class, size, big_endian) = element_type(&descr).map_err(bad)?;
        Ok(Self { class, size, big_endian, fortran, shape, bytes })
    }
}

/// Class, size and byte order of a type such as `<f4`.
fn element_type(descr: &str) -> std::result::Result<(Class, usize, bool), String> {
    let (big_endian, rest) = match descr.as_bytes().first() {
        Some(b'<' | b'|') => (false, &descr[1..]),
        Some(b'>') => (true, &descr[1..]),
        Some(b'=') => (cfg!(target_endian = "big"), &descr[1..]),
        _ => (false, descr),
    };
    let (class, sizes): (_, &[usize]) = match rest.as_bytes().first() {
        Some(b'b' | b'?') => (Class::Bool, &[1]),
        Some(b'i') => (Class::Int, &[1, 2, 4, 8]),
        Some(b'u') => (Class::Uint, &[1, 2, 4, 8]),
        Some(b'f') => (Class::Float, &[2, 4, 8]),
        Some(b'O') => return Err("holds Python objects; save a plain numeric array".into()),
        Some(b'c') => return Err("holds complex numbers; expected real ones".into()),
        _ => return Err(format!("has type `{}`; expected bool, integers or floats", plain(descr))),
    };
    let size = if rest == "?" { Some(1) } else { rest[1..].parse().ok() };
    match size {
        Some(size) if sizes.contains(&size) => Ok((class, size, big_endian)),
        _ => Err(format!("has type `{}`; expected one of {sizes:?} bytes per element", plain(descr))),
    }
}

/// The header's text that NumPy would write, magic number included, padded to 64 bytes.
pub(super) fn bytes(descr: &str, shape: &[usize]) -> Vec<u8> {
    let sides: String = shape.iter().map(|s| format!("{s}, ")).collect();
    // A tuple of one needs its comma; longer ones go without a last one.
    let sides = if shape.len() == 1 { sides.trim_end() } else { sides.trim_end_matches(", ") };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
    let total = (10 + text.len() + 1).next_multiple_of(64);
    // Versions 2 and up exist for texts beyond 65 535 bytes, which no shape of plain numbers reaches.
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(((total - 10) as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out.resize(total - 1, b' ');
    out.push(b'\n');
    out
}

#[derive(Default)]
struct Fields {
    descr: Option<String>,
    fortran: Option<bool>,
    shape: Option<Vec<usize>>,
}

/// Just enough of Python's literals.
struct Parser<'a> {
    text: &'a str,
}

impl Parser<'_> {
    fn dictionary(&mut self) -> Option<Fields> {
        let mut fields = Fields::default();
        self.expect('{')?;
        while !self.take('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key.as_str() {
                "descr" => fields.descr = Some(self.string()?),
                "fortran_order" => fields.fortran = Some(self.boolean()?),
                "shape" => fields.shape = Some(self.tuple()?),
                _ => return None,
            }
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        self.text.trim().is_empty().then_some(fields)
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.text.trim_start().strip_prefix(c);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn expect(&mut self, c: char) -> Option<()> {
        self.take(c).then_some(())
    }

    fn string(&mut self) -> Option<String> {
        let quote = if self.take('\'') {
            '\''
        } else {
            self.expect('"')?;
            '"'
        };
        let (inside, rest) = self.text.split_once(quote)?;
        self.text = rest;
        Some(inside.to_string())
    }

    fn boolean(&mut self) -> Option<bool> {
        let text = self.text.trim_start();
        let (value, rest) = match text.strip_prefix("True") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("False")?),
        };
        self.text = rest;
        Some(value)
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut sides = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            let text = self.text.trim_start();
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            sides.push(text[..end].parse().ok()?);
            // Python 2 wrote long integers as `3L`.
            self.text = text[end..].strip_prefix('L').unwrap_or(&text[end..]);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        // NumPy itself stops at 64 dimensions.
        (sides.len() <= 64).then_some(sides)
    }
}
