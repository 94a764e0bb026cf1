//! Locks by which several runs divide the images of one output directory.
//!
//! A run holds a shared lock on the directory, and an exclusive one on a claim for every image that it works on. Locks
//! are the operating system's: they end with the process, however that ends. On a file system without locks, runs may do
//! some images twice, with the same bytes.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use relaxcrf_lab::outputs::{check_regular, make_directory};
use xxhash_rust::xxh3::xxh3_64;

/// Number of claim files. Images are assigned to them by name, so that millions of images do not need millions of files.
const CLAIMS: u64 = 1024;

/// The locks of a run in an output directory.
#[derive(Debug)]
pub struct Claims {
    folder: PathBuf,
    /// Held as long as the run lasts.
    _present: File,
}

/// The lock on one image, released when dropped.
#[derive(Debug)]
pub struct Claim(Option<File>);

impl Claims {
    /// Joins a directory. The first run in a directory removes files that killed runs left half-written in
    /// `folders`.
    pub fn join(out: &Path, folders: &[PathBuf]) -> Result<Self> {
        let folder = out.join(".relaxcrf");
        make_directory(&folder)?;
        let present = open(&folder.join("present"))?;
        if present.try_lock().is_ok() {
            folders.iter().for_each(|folder| clear(folder));
        }
        // An error means that there are no locks here.
        let _ = present.lock_shared();
        Ok(Self { folder, _present: present })
    }

    /// Locks an image, unless another run has it.
    pub fn take(&self, item: &str) -> Result<Option<Claim>> {
        let slot = xxh3_64(item.as_bytes()) % CLAIMS;
        let file = open(&self.folder.join(format!("claim-{slot}")))?;
        Ok(match file.try_lock() {
            Ok(()) => Some(Claim(Some(file))),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(_)) => Some(Claim(None)),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // Closing the file releases the lock too.
            let _ = file.unlock();
        }
    }
}

fn open(path: &Path) -> Result<File> {
    check_regular(path)?;
    // Nothing is ever written to it.
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    file.with_context(|| format!("{}: cannot be made", path.display()))
}

/// Removes temporary files of killed runs in a folder and the folders in it.
fn clear(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            clear(&path);
        } else if name.starts_with(".relaxcrf-") && name.ends_with(".tmp") {
            // If it cannot be removed, a later run tries again.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_has_one_holder_and_leftovers_are_removed_only_by_a_single_run() {
        let dir = tempfile::tempdir().unwrap();
        let labels = dir.path().join("labels");
        fs::create_dir(&labels).unwrap();
        let leftover = labels.join(".relaxcrf-1-2.tmp");
        fs::write(&leftover, b"half").unwrap();
        fs::write(labels.join("a.png"), b"whole").unwrap();
        let first = Claims::join(dir.path(), std::slice::from_ref(&labels)).unwrap();
        assert!(!leftover.exists() && labels.join("a.png").exists());
        fs::write(&leftover, b"half").unwrap();
        let second = Claims::join(dir.path(), std::slice::from_ref(&labels)).unwrap();
        assert!(leftover.exists(), "it may be the first one's");
        let claim = first.take("a").unwrap().expect("free");
        assert!(second.take("a").unwrap().is_none());
        assert!(second.take("b").unwrap().is_some());
        drop(claim);
        assert!(second.take("a").unwrap().is_some());
    }
}
