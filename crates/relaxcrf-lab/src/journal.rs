//! Results that survive a kill: one JSON value per line, appended before the work continues.
//!
//! A journal belongs to one process, or is shared by several. A shared one is never truncated: each line is appended with
//! one write, and a line that is not a record, left by a killed process or a full disk, is skipped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outputs::check_regular;

/// A file of records that only grows.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    end: Mutex<End>,
    shared: bool,
}

#[derive(Debug)]
struct End {
    file: File,
    /// Whether the last line may lack its end.
    unfinished: bool,
}

impl Journal {
    /// Reads all records without changing the file; none if there is no file. A last line that a killed process left
    /// unfinished is skipped.
    pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
        let shown = path.display();
        check_regular(path)?;
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e).with_context(|| format!("{shown}: cannot be read")),
        };
        let whole = &bytes[..finished(&bytes)];
        let lines = whole.split(|&b| b == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
        lines
            .map(|(k, line)| {
                serde_json::from_slice(line).with_context(|| {
                    format!(
                        "{shown}: line {} is not a record of this command; move the file away to start anew",
                        k + 1
                    )
                })
            })
            .collect()
    }

    /// Opens for appending, behind the last finished line.
    pub fn append_to(path: &Path) -> Result<Self> {
        check_regular(path)?;
        let open = || -> std::io::Result<File> {
            let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
            let bytes = fs::read(path)?;
            let end = finished(&bytes);
            if end < bytes.len() {
                file.set_len(end as u64)?;
            }
            file.flush()?;
            Ok(file)
        };
        let file = open().with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { path: path.into(), end: Mutex::new(End { file, unfinished: false }), shared: false })
    }

    /// Opens for appending beside other processes.
    pub fn open_shared(path: &Path) -> Result<Self> {
        check_regular(path)?;
        let open = || -> std::io::Result<End> {
            let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
            let mut last = [b'\n'];
            if file.metadata()?.len() > 0 {
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
            }
            Ok(End { file, unfinished: last != [b'\n'] })
        };
        let end = open().with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { path: path.into(), end: Mutex::new(end), shared: true })
    }

    /// Appends a record. Afterwards a kill of this process cannot remove it; unless the journal is shared, it is on the
    /// disk.
    pub fn append(&self, record: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        // A thread that panicked has written its line or not; the file is valid in both cases.
        let mut end = self.end.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if end.unfinished {
            line.insert(0, b'\n');
        }
        end.unfinished = true;
        let written = end.file.write_all(&line);
        let synced = written.and_then(|()| if self.shared { Ok(()) } else { end.file.sync_data() });
        synced.with_context(|| format!("{}: cannot be written", self.path.display()))?;
        end.unfinished = false;
        Ok(())
    }
}

/// Follows a journal that others may be writing to.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
}

impl Tail {
    /// From the first record on; the file need not be there yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), offset: 0 }
    }

    /// Passes the records since the last call to `each`. Lines that are not records are left out.
    pub fn read<T: DeserializeOwned>(&mut self, mut each: impl FnMut(T)) -> Result<()> {
        check_regular(&self.path)?;
        let mut get = || -> std::io::Result<Vec<u8>> {
            let mut file = match File::open(&self.path) {
                Ok(file) => file,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(e) => return Err(e),
            };
            let length = file.metadata()?.len();
            let mut bytes = Vec::new();
            if length > self.offset {
                file.seek(SeekFrom::Start(self.offset))?;
                file.read_to_end(&mut bytes)?;
            }
            bytes.truncate(finished(&bytes));
            self.offset += bytes.len() as u64;
            Ok(bytes)
        };
        let bytes = get().with_context(|| format!("{}: cannot be read", self.path.display()))?;
        bytes.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).for_each(&mut each);
        Ok(())
    }
}

/// Bytes up to and with the last line end.
fn finished(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_line_of_a_journal_is_dropped_and_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        assert!(Journal::read::<u32>(&path).unwrap().is_empty());
        Journal::append_to(&path).unwrap().append(&1u32).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"22").unwrap();
        assert_eq!(Journal::read::<u32>(&path).unwrap(), [1]);
        assert_eq!(fs::read(&path).unwrap(), b"1\n22", "reading changes nothing");
        Journal::append_to(&path).unwrap().append(&3u32).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"1\n3\n");
        assert_eq!(Journal::read::<u32>(&path).unwrap(), [1, 3]);
    }

    #[test]
    fn shared_journal_is_never_truncated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        let mut tail = Tail::new(&path);
        let mut seen: Vec<u32> = Vec::new();
        tail.read(|v| seen.push(v)).unwrap();
        let (a, b) = (Journal::open_shared(&path).unwrap(), Journal::open_shared(&path).unwrap());
        a.append(&1u32).unwrap();
        b.append(&2u32).unwrap();
        tail.read(|v| seen.push(v)).unwrap();
        assert_eq!(seen, [1, 2]);
        // A process that was killed in the middle of a line, and one that comes later.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"[3").unwrap();
        Journal::open_shared(&path).unwrap().append(&4u32).unwrap();
        a.append(&5u32).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"1\n2\n[3\n4\n5\n");
        tail.read(|v| seen.push(v)).unwrap();
        assert_eq!(seen, [1, 2, 4, 5]);
    }

    #[test]
    fn damaged_journal_line_is_an_error_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        fs::write(&path, b"1\nx\n3\n").unwrap();
        let e = format!("{:#}", Journal::read::<u32>(&path).unwrap_err());
        assert!(e.contains("j.jsonl") && e.contains("line 2"), "{e}");
    }

    #[test]
    fn journal_keeps_every_bit_of_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        let journal = Journal::append_to(&path).unwrap();
        let values: Vec<f64> = (1..2000).map(|k| 159_054.4 * f64::from(k).sqrt().sin()).collect();
        values.iter().for_each(|v| journal.append(v).unwrap());
        assert_eq!(Journal::read::<f64>(&path).unwrap(), values);
    }
}
