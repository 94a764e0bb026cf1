//! Atomic writes: readers see the old file or the complete new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use relaxcrf::error::{Error, Result};

/// Calls `fill` with a writer, and puts what it wrote in place of `path` when all of it succeeded.
///
/// The bytes go to a temporary file in the same folder, which is renamed at the end and removed on any
/// failure, so an existing file is replaced whole or left alone. A symbolic link is followed; a device
/// or open pipe (`/dev/stdout`) is written directly.
pub fn write_atomically(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let fail = |e| unwritable(path, e);
    let target = match fs::metadata(path) {
        Ok(about) if about.is_dir() => {
            return Err(Error::file(path, "cannot be written: it is a folder; give a file name"));
        }
        Ok(_) if is_named_pipe(path) => {
            return Err(Error::file(
                path,
                "cannot be written: it is a pipe; give a file name, or /dev/stdout",
            ));
        }
        Ok(about) if !about.is_file() => {
            let mut out = BufWriter::new(OpenOptions::new().write(true).open(path).map_err(fail)?);
            return fill(&mut out).and_then(|()| out.flush()).map_err(fail);
        }
        Ok(_) => fs::canonicalize(path).map_err(fail)?,
        Err(_) => path.to_path_buf(),
    };
    let (temporary, file) = Temporary::beside(&target).map_err(fail)?;
    let mut out = BufWriter::new(file);
    fill(&mut out).and_then(|()| out.flush()).map_err(fail)?;
    let file = out.into_inner().map_err(|e| fail(e.into_error()))?;
    temporary.rename(file, &target).map_err(fail)
}

/// [`write_atomically`] for writers that seek, or that fail with another error type.
pub(super) fn replace<E: From<Error>>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let fail = |e| unwritable(path, e);
    let target = match fs::metadata(path) {
        Ok(about) if !about.is_file() => {
            let why = "cannot be written piece by piece: it is no regular file; give a file name";
            return Err(Error::file(path, why).into());
        }
        Ok(_) => fs::canonicalize(path).map_err(fail)?,
        Err(_) => path.to_path_buf(),
    };
    let (temporary, mut file) = Temporary::beside(&target).map_err(fail)?;
    fill(&mut file)?;
    Ok(temporary.rename(file, &target).map_err(fail)?)
}

/// Whether this is a pipe with a place in the file system: opening it would wait for a reader, who may never come.
pub fn is_named_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        // The pipe behind /dev/stdout has no path of its own.
        fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo()) && fs::canonicalize(path).is_ok()
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// What kept a file from being written.
pub(super) fn unwritable(path: &Path, e: io::Error) -> Error {
    let fix = if e.kind() == io::ErrorKind::NotFound { " (does its folder exist?)" } else { "" };
    Error::file(path, format!("cannot be written: {e}{fix}"))
}

/// A file that disappears when dropped, unless it was renamed. Where the system can do that it has no name while it is
/// written, so that even a process that is killed leaves nothing behind.
struct Temporary {
    /// The name it has, or will have for a moment.
    path: PathBuf,
    named: bool,
}

impl Temporary {
    fn beside(target: &Path) -> io::Result<(Self, File)> {
        if target.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
        }
        match nameless(target) {
            Some(file) => Ok((Self { path: unused_name(target), named: false }, file)),
            None => Self::named(target),
        }
    }

    fn named(target: &Path) -> io::Result<(Self, File)> {
        loop {
            let path = unused_name(target);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Self { path, named: true }, file)),
                // Left over from a killed process with the same number: try the next name.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
        }
    }

    fn rename(mut self, mut file: File, target: &Path) -> io::Result<()> {
        if !self.named && link(&file, &self.path).is_ok() {
            self.named = true;
        }
        if !self.named {
            let (named, mut copy) = Self::named(target)?;
            self = named;
            file.rewind()?;
            io::copy(&mut file, &mut copy)?;
        }
        drop(file);
        fs::rename(&self.path, target)?;
        self.named = false;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.named {
            // Nothing to be done if even this fails; the write's own error is on its way.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Not built from the target's name, which may already be as long as the file system allows.
fn unused_name(target: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    target.with_file_name(format!(".relaxcrf-{}-{n}.tmp", std::process::id()))
}

/// A file in the folder of `target` that has no name yet, if the file system knows such files.
#[cfg(target_os = "linux")]
fn nameless(target: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(folder).ok()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

/// Gives a file without a name one.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::super::testing::folder;
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut v: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        v.sort();
        v
    }

    #[test]
    fn atomic_write_replaces_on_success_and_keeps_the_old_file_on_failure() {
        let dir = folder();
        let path = dir.path().join("a.txt");
        write_atomically(&path, |w| w.write_all(b"first")).unwrap();
        write_atomically(&path, |w| w.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        let e = write_atomically(&path, |w| {
            w.write_all(b"half")?;
            Err(io::Error::other("disk on fire"))
        })
        .unwrap_err()
        .to_string();
        assert!(e.contains("a.txt") && e.contains("disk on fire"), "{e}");
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[test]
    fn panic_while_writing_leaves_no_file() {
        let dir = folder();
        let path = dir.path().join("a.txt");
        let result = std::panic::catch_unwind(|| {
            let _ = write_atomically(&path, |_| panic!("boom"));
        });
        assert!(result.is_err());
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn killed_process_leaves_no_file() {
        let dir = folder();
        let path = dir.path().join("a.txt");
        if nameless(&path).is_none() {
            return eprintln!("no files without names here");
        }
        write_atomically(&path, |w| {
            assert!(names(dir.path()).is_empty());
            w.write_all(b"whole")
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[test]
    fn file_that_cannot_be_linked_is_copied() {
        let dir = folder();
        let path = dir.path().join("a.txt");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(dir.path().join("f"));
        let mut file = file.unwrap();
        file.write_all(b"whole").unwrap();
        // There is no such folder to be linked into.
        let temporary = Temporary { path: dir.path().join("no/such/name"), named: false };
        temporary.rename(file, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(dir.path()), ["a.txt", "f"]);
    }

    #[test]
    fn impossible_targets_are_errors_with_their_name() {
        let dir = folder();
        let e = write_atomically(dir.path(), |_| Ok(())).unwrap_err().to_string();
        assert!(e.contains("folder"), "{e}");
        let e = write_atomically(&dir.path().join("no/such/f"), |_| Ok(())).unwrap_err().to_string();
        assert!(e.contains("no/such/f") && e.contains("exist"), "{e}");
        assert!(write_atomically(Path::new(""), |_| Ok(())).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_long_names_work() {
        let dir = folder();
        let real = dir.path().join("real");
        let link = dir.path().join("link");
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_atomically(&link, |w| w.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let long = dir.path().join("x".repeat(255));
        write_atomically(&long, |w| w.write_all(b"ok")).unwrap();
        assert_eq!(fs::read(&long).unwrap(), b"ok");
    }
}
