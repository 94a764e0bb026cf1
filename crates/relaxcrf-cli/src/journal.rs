//! Results that survive a kill: one JSON value a line, appended and synced before the work goes on.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of records that only grows.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Reads what is there without changing it; nothing if there is no file. A last line that a killed process left
    /// unfinished is no record.
    pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
        let shown = path.display();
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
                        "{shown}: line {} is no record of this command; move the file away to start afresh",
                        k + 1
                    )
                })
            })
            .collect()
    }

    /// Opens for appending, behind the last finished line.
    pub fn append_to(path: &Path) -> Result<Self> {
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
        Ok(Self { path: path.into(), file: Mutex::new(file) })
    }

    /// Adds a record; when this returns, it is on the disk.
    pub fn append(&self, record: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        // A thread that panicked has written its line or not: either way the file is in order.
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        file.write_all(&line)
            .and_then(|()| file.sync_data())
            .with_context(|| format!("{}: cannot be written", self.path.display()))
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
    fn an_unfinished_line_is_dropped_and_overwritten() {
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
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        fs::write(&path, b"1\nx\n3\n").unwrap();
        let e = format!("{:#}", Journal::read::<u32>(&path).unwrap_err());
        assert!(e.contains("j.jsonl") && e.contains("line 2"), "{e}");
    }

    #[test]
    fn numbers_come_back_bit_by_bit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("j.jsonl");
        let journal = Journal::append_to(&path).unwrap();
        let values: Vec<f64> = (1..2000).map(|k| 159_054.4 * f64::from(k).sqrt().sin()).collect();
        values.iter().for_each(|v| journal.append(v).unwrap());
        assert_eq!(Journal::read::<f64>(&path).unwrap(), values);
    }
}
