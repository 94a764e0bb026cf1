//! Identity of a result: a hash of its inputs' content and of all settings that it depends on.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::specs::CompatSpec;
use xxhash_rust::xxh3::Xxh3;

use super::items::Item;
use crate::args::BatchArgs;

/// Bytes read at a time.
const PIECE: usize = 1 << 16;

/// All settings that a result depends on, as text.
pub fn settings(args: &BatchArgs, choice: &Choice, void: Option<u16>) -> Result<String> {
    let unary = &args.unary;
    let costs = match &choice.model.compat {
        CompatSpec::File(path) | CompatSpec::Tree(path) => of_file(path)?,
        _ => String::new(),
    };
    // The default adds nothing.
    let colours = args
        .colours
        .colours
        .as_deref()
        .map_or(Ok(String::new()), |path| of_file(path).map(|content| format!(" colours={content}")))?;
    let limits = &args.limits;
    Ok(format!(
        "{} costs={costs} method={} take={} iterations={:?} tolerance={:?} time={:?} gap={:?} seed={} axis={} \
         confidence={} unsure={:?} labels={:?} format={} probs={} void={void:?} v{}{colours}",
        choice.model.describe(),
        choice.method,
        args.take,
        limits.max_iter,
        limits.tol,
        limits.time_limit,
        limits.until_gap,
        args.common.seed,
        unary.label_axis,
        unary.confidence,
        unary.unsure,
        unary.num_labels,
        args.format.ending(),
        args.save_probs,
        env!("CARGO_PKG_VERSION")
    ))
}

/// The identity of an image's results. Reads all of its inputs.
pub fn of_item(item: &Item, settings: &str) -> Result<String> {
    let mut hash = Xxh3::new();
    hash.update(settings.as_bytes());
    let mut add = |role: &str, path: &Path| -> Result<()> {
        hash.update(role.as_bytes());
        add_content(&mut hash, path).with_context(|| path.display().to_string())
    };
    add("image", &item.image)?;
    if let Ok(source) = &item.source {
        add(source.kind(), source.path())?;
    }
    if let Some(truth) = &item.truth {
        add("truth", truth)?;
    }
    Ok(format!("{:032x}", hash.digest128()))
}

/// The identity of one file.
pub fn of_file(path: &Path) -> Result<String> {
    let mut hash = Xxh3::new();
    add_content(&mut hash, path).with_context(|| path.display().to_string())?;
    Ok(format!("{:032x}", hash.digest128()))
}

/// A file's bytes, or those of all files in a directory, each after its length.
fn add_content(hash: &mut Xxh3, path: &Path) -> Result<()> {
    if path.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
        inside.sort_by_key(fs::DirEntry::file_name);
        for entry in inside.iter().filter(|e| e.path().is_file()) {
            hash.update(entry.file_name().to_string_lossy().as_bytes());
            add_content(hash, &entry.path())?;
        }
        return Ok(());
    }
    let about = fs::metadata(path).context("cannot be read")?;
    // Opening a pipe would wait for its writer.
    if !about.is_file() {
        bail!("is not a regular file; give the path of a file on disk");
    }
    let mut file = File::open(path).context("cannot be read")?;
    hash.update(&about.len().to_le_bytes());
    let mut piece = vec![0; PIECE];
    loop {
        let n = file.read(&mut piece).context("cannot be read")?;
        if n == 0 {
            return Ok(());
        }
        hash.update(&piece[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::items::Unaries;
    use super::*;

    #[test]
    fn identity_depends_on_content_and_settings_not_on_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, bytes) in [("a.png", "1"), ("b.png", "1"), ("c.png", "2"), ("p.npy", "x")] {
            fs::write(path(name), bytes).unwrap();
        }
        let item = |image: &str| Item {
            name: image.into(),
            image: path(image),
            source: Ok(Unaries::Probabilities(path("p.npy"))),
            truth: None,
        };
        let a = of_item(&item("a.png"), "s").unwrap();
        assert_eq!(a, of_item(&item("b.png"), "s").unwrap());
        assert_ne!(a, of_item(&item("c.png"), "s").unwrap());
        assert_ne!(a, of_item(&item("a.png"), "t").unwrap());
        let as_energies = Item { source: Ok(Unaries::Energies(path("p.npy"))), ..item("a.png") };
        assert_ne!(a, of_item(&as_energies, "s").unwrap());
        let with_truth = Item { truth: Some(path("c.png")), ..item("a.png") };
        assert_ne!(a, of_item(&with_truth, "s").unwrap());
        assert!(format!("{:#}", of_item(&item("no.png"), "s").unwrap_err()).contains("no.png"));
        assert!(of_file(dir.path()).is_ok(), "a folder of label pictures is an input too");
    }
}
