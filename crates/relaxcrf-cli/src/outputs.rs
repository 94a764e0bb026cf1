//! Files to be written: checked before the long work starts.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf::io::is_named_pipe;

/// Fails unless a file can be made at `path`, and unless that would overwrite one of the inputs.
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
    // Permissions, full or read-only file systems: only trying tells.
    let probe = folder.join(format!(".relaxcrf-{}.probe", std::process::id()));
    OpenOptions::new().write(true).create_new(true).open(&probe).with_context(|| {
        format!("{shown}: cannot be written: no file can be made in {}", folder.display())
    })?;
    fs::remove_file(&probe).with_context(|| probe.display().to_string())
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
        bail!("{}: is a file; wanted a directory", path.display());
    }
    fs::create_dir_all(path).with_context(|| format!("{}: cannot be made", path.display()))
}
