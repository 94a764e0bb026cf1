//! How many strips a TIFF file says it has, before a decoder multiplies in 32 bits.
//!
//! The decoder takes `strips of a band x bands` for granted to be a 32-bit number: a damaged height makes it overflow,
//! which panics where overflow is checked. So the four tags behind that product are looked at first.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::super::open_regular;
use relaxcrf::error::{Error, Result};

/// Most entries of a directory that are looked at; decoders refuse far fewer.
const MAX_ENTRIES: u64 = 1 << 16;

/// Fails if the first image claims more strips than can be counted. What cannot be read is left for the decoder
/// to complain about.
pub(super) fn check(path: &Path) -> Result<()> {
    let file = std::io::BufReader::new(open_regular(path)?);
    let Some([height, rows, bands]) = Directory::find(file).and_then(|mut d| d.sizes()) else {
        return Ok(());
    };
    let strips = (height.saturating_sub(1) / rows.max(1)).saturating_add(1).saturating_mul(bands);
    if strips <= u64::from(u32::MAX) {
        return Ok(());
    }
    let claims = format!("claims {height} rows in strips of {rows}, for {bands} bands");
    Err(Error::file(path, format!("the TIFF file cannot be read: it {claims}; at most 2^32 strips are read")))
}

/// The entries of the first image, about to be read.
struct Directory<R> {
    file: R,
    little: bool,
    big: bool,
}

impl<R: Read + Seek> Directory<R> {
    fn find(mut file: R) -> Option<Self> {
        let mut start = [0; 4];
        file.read_exact(&mut start).ok()?;
        let little = start[0] == b'I';
        let big = start[2] == 43 || start[3] == 43;
        let mut directory = Self { file, little, big };
        if big {
            directory.number(4)?;
        }
        let at = directory.number(if big { 8 } else { 4 })?;
        directory.file.seek(SeekFrom::Start(at)).ok()?;
        Some(directory)
    }

    /// Rows of the image, rows of a strip, and bands that have strips of their own; of tags that occur more than once
    /// what makes for more strips.
    fn sizes(&mut self) -> Option<[u64; 3]> {
        let (mut height, mut rows, mut bands, mut planar) = (0, u64::MAX, 1, false);
        let entries = self.number(if self.big { 8 } else { 2 })?.min(MAX_ENTRIES);
        for _ in 0..entries {
            let Some((tag, value)) = self.entry() else { break };
            match tag {
                257 => height = height.max(value),
                277 => bands = bands.max(value),
                278 => rows = rows.min(value),
                284 => planar |= value == 2,
                _ => {}
            }
        }
        Some([height, rows.min(height), if planar { bands } else { 1 }])
    }

    /// A tag and its value, as far as that stands in the entry itself.
    fn entry(&mut self) -> Option<(u64, u64)> {
        let (tag, kind) = (self.number(2)?, self.number(2)?);
        let room = if self.big { 8 } else { 4 };
        self.number(room)?;
        let size = match kind {
            1 | 6 => 1,
            3 | 8 => 2,
            16 | 17 => room,
            _ => 4,
        };
        let value = self.number(size)?;
        if size < room {
            self.number(room - size)?;
        }
        Some((tag, value))
    }

    /// Reads an unsigned number of `bytes` bytes, at most eight.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let mut buffer = [0; 8];
        self.file.read_exact(&mut buffer[..bytes]).ok()?;
        if !self.little {
            buffer[..bytes].reverse();
        }
        Some(u64::from_le_bytes(buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with only a directory: rows, rows of a strip, bands, whether those lie apart.
    fn file(
        little: bool,
        big: bool,
        height: u64,
        rows: u64,
        bands: u64,
        planar: bool,
    ) -> tempfile::NamedTempFile {
        let mut bytes = Vec::new();
        let put = |bytes: &mut Vec<u8>, value: u64, size: usize| {
            let all = value.to_le_bytes();
            let part = &all[..size];
            if little { bytes.extend(part) } else { bytes.extend(part.iter().rev()) }
        };
        bytes.extend(if little { b"II" } else { b"MM" });
        let word = if big { 8 } else { 4 };
        put(&mut bytes, if big { 43 } else { 42 }, 2);
        if big {
            put(&mut bytes, 8, 2);
            put(&mut bytes, 0, 2);
        }
        put(&mut bytes, if big { 16 } else { 8 }, word);
        put(&mut bytes, 4, if big { 8 } else { 2 });
        let planar = if planar { 2 } else { 1 };
        for (tag, kind, size, value) in
            [(257, 4, 4, height), (277, 3, 2, bands), (278, 4, 4, rows), (284, 3, 2, planar)]
        {
            put(&mut bytes, tag, 2);
            put(&mut bytes, kind, 2);
            put(&mut bytes, 1, word);
            put(&mut bytes, value, size);
            put(&mut bytes, 0, word - size);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn strips_beyond_32_bits_are_refused_before_they_are_counted() {
        for (little, big) in [(true, false), (false, false), (true, true), (false, true)] {
            let refused = |height, rows, bands, planar| {
                check(file(little, big, height, rows, bands, planar).path()).err().map(|e| e.to_string())
            };
            assert_eq!(refused(480, 8, 3, true), None);
            assert_eq!(refused(u32::MAX.into(), 1, 5, false), None, "all bands in one strip");
            assert_eq!(refused(u32::MAX.into(), 5, 5, true), None, "the largest number that can be counted");
            assert_eq!(refused(u32::MAX.into(), u32::MAX.into(), 65535, true), None);
            let message = refused(u32::MAX.into(), 4, 5, true).unwrap();
            assert!(message.contains("4294967295 rows in strips of 4, for 5 bands"), "{message}");
        }
    }

    #[test]
    fn non_directory_bytes_are_passed_to_the_decoder() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for bytes in [
            &b""[..],
            b"II*",
            b"II*\0\xff\xff\xff\xff",
            b"MM\0\x2b\0\x08\0\0",
            b"II*\0\x08\0\0\0\x02\0\x01\x01",
        ] {
            std::fs::write(file.path(), bytes).unwrap();
            assert!(check(file.path()).is_ok(), "{bytes:?}");
        }
    }
}
