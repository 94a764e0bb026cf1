//! Files to be written: checked before the long work starts.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf_io::is_named_pipe;

/// Fails if no file can be made at `path`, or if it would overwrite one of the inputs.
pub fn check_writable(path: &Path, inputs: &[&Path]) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        bail!("{shown}: cannot be written: it is a directory; give a file name");
    }
    if is_named_pipe(path) {
        bail!("{shown}: cannot be written: it is a pipe; give a file name, or /dev/stdout");
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if folder.exists() && !folder.is_dir() {
        bail!("{shown}: cannot be written: {} is no directory", folder.display());
    }
    if !folder.is_dir() {
        bail!("{shown}: cannot be written: the directory {} does not exist", folder.display());
    }
    if let Ok(target) = fs::canonicalize(path) {
        for input in inputs {
            if fs::canonicalize(input).is_ok_and(|input| input == target) {
                bail!("{shown}: is an input; give the output another name");
            }
        }
    }
    // Only an attempt shows missing permissions and full or read-only file systems.
    let probe = folder.join(format!(".relaxcrf-{}.probe", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&probe).with_context(|| {
        format!("{shown}: cannot be written: no file can be made in {}", folder.display())
    })?;
    fs::remove_file(&probe).with_context(|| probe.display().to_string())
}

/// Files of one run, which belong together: if one of them cannot be written, those before it are removed again, unless
/// there was such a file before the run.
#[derive(Default)]
pub struct Together<'p> {
    new: Vec<&'p Path>,
}

impl<'p> Together<'p> {
    /// Writes one more file.
    pub fn write<E>(&mut self, path: &'p Path, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let is_new = !path.exists();
        let written = write();
        match &written {
            Ok(()) if is_new => self.new.push(path),
            Ok(()) => {}
            // If this fails too, the first error is still the one to report.
            Err(_) => self.new.drain(..).for_each(|path| drop(fs::remove_file(path))),
        }
        written
    }
}

/// Fails if there is something other than a file: opening a pipe would wait for its other end, and devices have no end.
pub fn check_regular(path: &Path) -> Result<()> {
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        bail!("{}: is not a regular file; move it away", path.display());
    }
    Ok(())
}

/// Makes a directory for output unless it is there.
pub fn make_directory(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        bail!("{}: is a file; expected a directory", path.display());
    }
    fs::create_dir_all(path).with_context(|| format!("{}: cannot be made", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_run_are_all_written_or_none() {
        let place = tempfile::tempdir().unwrap();
        let [old, new, failing] = ["old", "new", "failing"].map(|name| place.path().join(name));
        fs::write(&old, "before").unwrap();
        let mut together = Together::default();
        together.write(&old, || fs::write(&old, "after")).unwrap();
        together.write(&new, || fs::write(&new, "after")).unwrap();
        assert!(new.exists());
        assert!(together.write(&failing, || Err::<(), _>("full")).is_err());
        assert!(old.exists() && !new.exists() && !failing.exists());
    }
}
