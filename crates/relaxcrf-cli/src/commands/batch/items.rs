//! The images of a batch, each with its unaries and truth.
//!
//! A file that one image lacks is a failure of that image, not of the batch: it is found here and reported when its
//! turn comes. Only mistakes in the whole list stop a run.

use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf_lab::dataset::{self, IMAGES, LabelNames, MAPS, entries_by_stem};
use relaxcrf_lab::inputs::Source;
use relaxcrf_lab::specs::extension;

use super::manifest;
use crate::args::BatchArgs;

/// One image with the files that belong to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The results' file name without its ending; may have folders in front.
    pub name: String,
    pub image: PathBuf,
    /// The files of the unary energies, or the error if there are none.
    pub source: std::result::Result<Unaries, String>,
    pub truth: Option<PathBuf>,
}

/// The files of one image's unary energies.
#[derive(Debug, Clone, PartialEq)]
pub enum Unaries {
    Probabilities(PathBuf),
    Scores(PathBuf),
    Energies(PathBuf),
    Labels(PathBuf),
}

impl Unaries {
    /// The source that readers take.
    pub fn source(&self) -> Source<'_> {
        match self {
            Self::Probabilities(path) => Source::Probabilities(std::slice::from_ref(path)),
            Self::Scores(path) => Source::Scores(path),
            Self::Energies(path) => Source::Unary(path),
            Self::Labels(path) => Source::Labels(path),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Probabilities(path) | Self::Scores(path) | Self::Energies(path) | Self::Labels(path) => {
                path
            }
        }
    }

    /// Kind of the files, for the settings that identify a result.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Probabilities(_) => "probs",
            Self::Scores(_) => "logits",
            Self::Energies(_) => "unary",
            Self::Labels(_) => "labels",
        }
    }
}

/// All images of a batch.
#[derive(Debug)]
pub struct Items {
    /// Name of the set, for reports.
    pub title: String,
    pub list: Vec<Item>,
    /// Names of the labels and the void mark of the truth.
    pub labels: LabelNames,
    /// Notes about files that were found without an option.
    pub notes: Vec<String>,
}

/// Finds everything that the command line names.
pub fn collect(args: &BatchArgs) -> Result<Items> {
    let (title, mut list, folder) = match &args.inputs[..] {
        [one] if one.is_dir() && one.join("images").is_dir() => data_directory(args, one)?,
        [one] if one.is_dir() => {
            let images = entries_by_stem(one, &IMAGES, false)?.into_values().collect();
            (name_of(one), plain(args, images)?, one.clone())
        }
        [one] if is_manifest(args) => {
            let folder = one.parent().unwrap_or(Path::new("")).to_path_buf();
            (name_of(one), manifest::read(one)?, folder)
        }
        [one] if is_pattern(one) && !one.exists() => {
            (one.display().to_string(), plain(args, matches(one)?)?, PathBuf::from("."))
        }
        images => {
            for image in images {
                if !IMAGES.contains(&extension(image).as_str()) && !image.exists() {
                    bail!(
                        "{}: not found; expected a manifest (.csv, .jsonl), a directory, a pattern or an image",
                        image.display()
                    );
                }
            }
            let title =
                if images.len() == 1 { name_of(&images[0]) } else { format!("{} images", images.len()) };
            (title, plain(args, images.to_vec())?, PathBuf::from("."))
        }
    };
    let mut notes = Vec::new();
    if let Some(truth) = &args.truth {
        let maps = entries_by_stem(truth, &MAPS, false)?;
        for item in &mut list {
            item.truth = maps.get(last_part(&item.name)).cloned();
        }
    } else if !is_manifest(args) {
        notes.extend(find_truth(&mut list));
    }
    check_names(&list)?;
    check_sources(&list)?;
    list.truncate(args.limit.map_or(usize::MAX, |n| n as usize));
    if let Some(shard) = args.shard {
        list = list.into_iter().enumerate().filter(|(place, _)| shard.has(*place)).map(|(_, i)| i).collect();
    }
    Ok(Items { title, list, labels: LabelNames::beside(&folder, args.void)?, notes })
}

/// A directory as `reproduce segmentation` reads it; truth may be absent, and labels may stand in for probabilities.
fn data_directory(args: &BatchArgs, root: &Path) -> Result<(String, Vec<Item>, PathBuf)> {
    let images = entries_by_stem(&root.join("images"), &IMAGES, false)?;
    let finder = match Finder::given(args)? {
        Some(finder) => finder,
        None => ["probs", "logits", "unary", "labels"]
            .into_iter()
            .find(|folder| root.join(folder).is_dir())
            .map(|folder| Finder::new(folder, &root.join(folder)))
            .with_context(|| {
                format!(
                    "{}: has none of probs/, logits/, unary/ and labels/; expected one of them, or name a directory with \
                     --probs, --logits, --unary or --labels",
                    root.display()
                )
            })??,
    };
    let truth_folder = root.join("truth");
    let truth =
        if truth_folder.is_dir() { entries_by_stem(&truth_folder, &MAPS, false)? } else { BTreeMap::new() };
    let ids = dataset::ids_of(root, &args.split, &images)?;
    let items = ids.into_iter().map(|name| Item {
        // An ID without an image fails in its turn, under this name.
        image: images.get(&name).cloned().unwrap_or_else(|| root.join("images").join(&name)),
        source: finder.find(&name),
        truth: truth.get(&name).cloned(),
        name,
    });
    Ok((name_of(root), items.collect(), root.into()))
}

/// Images with their unaries in a directory of their own, beside them, or in `../probs`.
fn plain(args: &BatchArgs, images: Vec<PathBuf>) -> Result<Vec<Item>> {
    let finder = Finder::given(args)?;
    let mut siblings = BTreeMap::new();
    let names = unique_names(&images);
    let items = names.into_iter().zip(images).map(|(name, image)| {
        let stem = last_part(&name);
        let source = match &finder {
            Some(finder) => finder.find(stem),
            None => beside(&image).map_or_else(
                || {
                    let folder = sibling(&image, "probs");
                    let finder =
                        siblings.entry(folder.clone()).or_insert_with(|| Finder::new("probs", &folder).ok());
                    let found = finder.as_ref().and_then(|finder| finder.find(stem).ok());
                    found.ok_or_else(|| nowhere(&image, &folder))
                },
                Ok,
            ),
        };
        Item { name, image, source, truth: None }
    });
    Ok(items.collect())
}

/// Error for an image without unaries.
fn nowhere(image: &Path, folder: &Path) -> String {
    format!(
        "{}: no probabilities; expected a .npy, .npz or .c_unary file of the same name beside it, or a file in {}; name \
         another directory with --probs, --logits, --unary or --labels",
        image.display(),
        folder.display()
    )
}

/// A folder beside the one that an image is in.
fn sibling(image: &Path, name: &str) -> PathBuf {
    let folder = image.parent().unwrap_or(Path::new(""));
    match folder.components().next_back() {
        Some(Component::Normal(_)) => folder.with_file_name(name),
        _ => folder.join("..").join(name),
    }
}

/// Takes the truth from `../truth` where images have none; says so if there is any.
fn find_truth(list: &mut [Item]) -> Option<String> {
    let mut folders = BTreeMap::new();
    let mut found = BTreeMap::new();
    let lacking = list.iter_mut().filter(|item| item.truth.is_none());
    for item in lacking {
        let folder = sibling(&item.image, "truth");
        let maps = folders
            .entry(folder.clone())
            .or_insert_with(|| entries_by_stem(&folder, &MAPS, false).unwrap_or_default());
        item.truth = maps.get(last_part(&item.name)).cloned();
        if item.truth.is_some() {
            *found.entry(folder).or_insert(0) += 1;
        }
    }
    let (folder, count) = found.into_iter().next()?;
    Some(format!("truth for {count} of {} images found in {}", list.len(), folder.display()))
}

/// Fails with one error for all images if no image has unary energies.
fn check_sources(list: &[Item]) -> Result<()> {
    let Some(Item { source: Err(why), .. }) = list.first() else { return Ok(()) };
    if list.iter().any(|item| item.source.is_ok()) {
        return Ok(());
    }
    match list.len() {
        1 => bail!("{why}"),
        many => bail!("none of the {many} images has unary energies. {why}"),
    }
}

/// Looks for unaries in one directory.
struct Finder {
    kind: &'static str,
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
}

impl Finder {
    fn new(kind: &'static str, folder: &Path) -> Result<Self> {
        let files = match kind {
            "probs" => entries_by_stem(folder, &["npz", "npy"], true).or_else(|error| {
                // Foreground maps. Mistakes of the folder itself were reported first.
                entries_by_stem(folder, &IMAGES, false).map_err(|_| error)
            })?,
            "logits" => entries_by_stem(folder, &["npz", "npy"], false)?,
            "unary" => entries_by_stem(folder, &["npz", "npy", "c_unary"], false)?,
            _ => entries_by_stem(folder, &MAPS, false)?,
        };
        Ok(Self { kind, folder: folder.into(), files })
    }

    /// The directory that the command line names, if it does.
    fn given(args: &BatchArgs) -> Result<Option<Self>> {
        let source = &args.source;
        let named = [
            ("probs", &source.probs),
            ("logits", &source.logits),
            ("unary", &source.unary),
            ("labels", &source.labels),
        ];
        named.into_iter().find_map(|(kind, f)| f.as_ref().map(|f| Self::new(kind, f))).transpose()
    }

    fn find(&self, stem: &str) -> std::result::Result<Unaries, String> {
        let path = self.files.get(stem).cloned();
        let path = path.ok_or_else(|| {
            let endings = match self.kind {
                "probs" => ".npz or .npy, a folder of that name",
                "logits" => ".npz or .npy",
                "unary" => ".npz, .npy or .c_unary",
                _ => ".png or another label map",
            };
            format!("{}: holds no file for `{stem}`; expected {stem}{endings}", self.folder.display())
        })?;
        Ok(match self.kind {
            "probs" => Unaries::Probabilities(path),
            "logits" => Unaries::Scores(path),
            "unary" => Unaries::Energies(path),
            _ => Unaries::Labels(path),
        })
    }
}

fn beside(image: &Path) -> Option<Unaries> {
    ["npy", "npz", "c_unary"].into_iter().find_map(|ending| {
        let path = image.with_extension(ending);
        // An array may be the image itself.
        let found = path.exists() && path != image;
        found
            .then(|| if ending == "c_unary" { Unaries::Energies(path) } else { Unaries::Probabilities(path) })
    })
}

fn is_manifest(args: &BatchArgs) -> bool {
    let manifest = |path: &PathBuf| matches!(extension(path).as_str(), "csv" | "jsonl" | "ndjson" | "json");
    matches!(&args.inputs[..], [one] if !one.is_dir() && manifest(one))
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

fn matches(pattern: &Path) -> Result<Vec<PathBuf>> {
    let text = pattern.to_str().with_context(|| format!("{}: is not UTF-8", pattern.display()))?;
    let paths = glob::glob(text).with_context(|| format!("{text}: is no pattern"))?;
    let found = paths
        .filter_map(|path| match path {
            Ok(path) => IMAGES.contains(&extension(&path).as_str()).then_some(Ok(path)),
            Err(e) => Some(Err(e)),
        })
        .collect::<std::result::Result<Vec<_>, _>>()?;
    if found.is_empty() {
        bail!("{text}: matches no image; expected files that end in {}", IMAGES.join(", "));
    }
    Ok(found)
}

/// File names without endings; with the folders in which they differ where names alone are not enough.
fn unique_names(paths: &[PathBuf]) -> Vec<String> {
    let stem = |p: &PathBuf| p.file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
    let stems: Vec<String> = paths.iter().map(stem).collect();
    if stems.iter().collect::<HashSet<_>>().len() == stems.len() {
        return stems;
    }
    let parts = |p: &PathBuf| -> Vec<String> {
        let folder = p.parent().unwrap_or(Path::new(""));
        let normal = folder.components().filter_map(|c| match c {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        });
        normal.collect()
    };
    let folders: Vec<Vec<String>> = paths.iter().map(parts).collect();
    let first = &folders[0];
    let same = |depth: usize| folders.iter().all(|f| f.get(depth) == first.get(depth));
    let common = (0..first.len()).take_while(|&depth| same(depth)).count();
    let join = |(folder, stem): (&Vec<String>, &String)| {
        folder[common..].iter().chain([stem]).cloned().collect::<Vec<_>>().join("/")
    };
    folders.iter().zip(&stems).map(join).collect()
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn name_of(path: &Path) -> String {
    let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.into());
    whole.file_name().map_or("data".into(), |n| n.to_string_lossy().into_owned())
}

/// Names that are file names below the output directory, each once.
fn check_names(list: &[Item]) -> Result<()> {
    let mut seen = HashSet::with_capacity(list.len());
    for item in list {
        let name = &item.name;
        let inside = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
        if name.is_empty() || !inside || name.ends_with('/') {
            bail!(
                "`{name}` cannot be the name of a result; expected a name, or folders and a name, within OUT"
            );
        }
        if !seen.insert(name) {
            bail!(
                "two images would write to `{name}`; give each an output of its own in a manifest (column `output`)"
            );
        }
    }
    if list.is_empty() {
        bail!("there are no images");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_names_are_as_short_as_uniqueness_allows() {
        let names = |paths: &[&str]| unique_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["a/1.png", "b/2.png"]), ["1", "2"]);
        assert_eq!(names(&["x/a/1.png", "x/b/1.jpg"]), ["a/1", "b/1"]);
        assert_eq!(names(&["./x/1.png", "./1.png"]), ["x/1", "1"]);
        assert_eq!(names(&["1.png", "1.jpg"]), ["1", "1"], "reported later");
    }

    #[test]
    fn result_names_cannot_leave_the_output_directory() {
        let item = |name: &str| Item {
            name: name.into(),
            image: "i.png".into(),
            source: Err(String::new()),
            truth: None,
        };
        assert!(check_names(&[item("a"), item("b/c")]).is_ok());
        for bad in ["", "/etc/x", "../x", "a/../../x", "a/"] {
            assert!(check_names(&[item(bad)]).is_err(), "{bad}");
        }
        assert!(check_names(&[item("a"), item("a")]).unwrap_err().to_string().contains("two images"));
        assert!(check_names(&[]).is_err());
    }
}
