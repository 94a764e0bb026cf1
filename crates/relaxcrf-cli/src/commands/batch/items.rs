//! Which images a batch is about, and what belongs to each.
//!
//! What is missing for one image is that image's failure, not the batch's: it is found here and reported when its
//! turn comes. Only what is wrong with the whole list stops a run.

use std::collections::{BTreeMap, HashSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::manifest;
use crate::args::BatchArgs;
use crate::dataset::{self, IMAGES, LabelNames, MAPS, entries_by_stem};
use crate::inputs::Source;
use crate::specs::extension;

/// One image with what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The results' file name without its ending; may have folders in front.
    pub name: String,
    pub image: PathBuf,
    /// What the unary energies are made from, or why there is nothing.
    pub source: std::result::Result<Unaries, String>,
    pub truth: Option<PathBuf>,
}

/// What the unary energies of one image are made from.
#[derive(Debug, Clone, PartialEq)]
pub enum Unaries {
    Probabilities(PathBuf),
    Energies(PathBuf),
    Labels(PathBuf),
}

impl Unaries {
    /// As the readers want it.
    pub fn source(&self) -> Source<'_> {
        match self {
            Self::Probabilities(path) => Source::Probabilities(std::slice::from_ref(path)),
            Self::Energies(path) => Source::Unary(path),
            Self::Labels(path) => Source::Labels(path),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Probabilities(path) | Self::Energies(path) | Self::Labels(path) => path,
        }
    }

    /// What it is, for the settings that identify a result.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Probabilities(_) => "probs",
            Self::Energies(_) => "unary",
            Self::Labels(_) => "labels",
        }
    }
}

/// All images of a batch.
#[derive(Debug)]
pub struct Items {
    /// What the set is called, for reports.
    pub title: String,
    pub list: Vec<Item>,
    /// Names of the labels and the void mark of the truth.
    pub labels: LabelNames,
}

/// Finds everything that the command line names.
pub fn collect(args: &BatchArgs) -> Result<Items> {
    let (title, mut list, folder) = match &args.inputs[..] {
        [one] if one.is_dir() && one.join("images").is_dir() => data_directory(args, one)?,
        [one] if one.is_dir() => {
            let images = entries_by_stem(one, &IMAGES, false)?.into_values().collect();
            (name_of(one), plain(args, images)?, one.clone())
        }
        [one] if matches!(extension(one).as_str(), "csv" | "jsonl" | "ndjson" | "json") => {
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
                        "{}: is no manifest (.csv, .jsonl), directory, pattern or image that is there",
                        image.display()
                    );
                }
            }
            let title =
                if images.len() == 1 { name_of(&images[0]) } else { format!("{} images", images.len()) };
            (title, plain(args, images.to_vec())?, PathBuf::from("."))
        }
    };
    if let Some(truth) = &args.truth {
        let maps = entries_by_stem(truth, &MAPS, false)?;
        for item in &mut list {
            item.truth = maps.get(last_part(&item.name)).cloned();
        }
    }
    check_names(&list)?;
    list.truncate(args.limit.map_or(usize::MAX, |n| n as usize));
    if let Some(shard) = args.shard {
        list = list.into_iter().enumerate().filter(|(place, _)| shard.has(*place)).map(|(_, i)| i).collect();
    }
    Ok(Items { title, list, labels: LabelNames::beside(&folder, args.void)? })
}

/// A directory as `reproduce segmentation` reads it; truth may be absent, and labels may stand in for probabilities.
fn data_directory(args: &BatchArgs, root: &Path) -> Result<(String, Vec<Item>, PathBuf)> {
    let images = entries_by_stem(&root.join("images"), &IMAGES, false)?;
    let finder = match Finder::given(args)? {
        Some(finder) => finder,
        None => ["probs", "unary", "labels"]
            .into_iter()
            .find(|folder| root.join(folder).is_dir())
            .map(|folder| Finder::new(folder, &root.join(folder)))
            .with_context(|| {
                format!("{}: has none of probs/, unary/ and labels/; wanted one of them", root.display())
            })??,
    };
    let truth_folder = root.join("truth");
    let truth =
        if truth_folder.is_dir() { entries_by_stem(&truth_folder, &MAPS, false)? } else { BTreeMap::new() };
    let ids = dataset::ids_of(root, &args.split, &images)?;
    let items = ids.into_iter().map(|name| Item {
        // An ID without an image fails when its turn comes, by this name.
        image: images.get(&name).cloned().unwrap_or_else(|| root.join("images").join(&name)),
        source: finder.find(&name),
        truth: truth.get(&name).cloned(),
        name,
    });
    Ok((name_of(root), items.collect(), root.into()))
}

/// Images with their unaries in a directory of their own, or beside them.
fn plain(args: &BatchArgs, images: Vec<PathBuf>) -> Result<Vec<Item>> {
    let finder = Finder::given(args)?;
    let names = unique_names(&images);
    let items = names.into_iter().zip(images).map(|(name, image)| {
        let source = match &finder {
            Some(finder) => finder.find(last_part(&name)),
            None => beside(&image),
        };
        Item { name, image, source, truth: None }
    });
    Ok(items.collect())
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
            "probs" => entries_by_stem(folder, &["npz", "npy"], true)?,
            "unary" => entries_by_stem(folder, &["npz", "npy", "c_unary"], false)?,
            _ => entries_by_stem(folder, &MAPS, false)?,
        };
        Ok(Self { kind, folder: folder.into(), files })
    }

    /// The directory that the command line names, if it does.
    fn given(args: &BatchArgs) -> Result<Option<Self>> {
        let source = &args.source;
        let named = [("probs", &source.probs), ("unary", &source.unary), ("labels", &source.labels)];
        named.into_iter().find_map(|(kind, f)| f.as_ref().map(|f| Self::new(kind, f))).transpose()
    }

    fn find(&self, stem: &str) -> std::result::Result<Unaries, String> {
        let path = self.files.get(stem).cloned();
        let path = path.ok_or_else(|| format!("{}: holds no file for `{stem}`", self.folder.display()))?;
        Ok(match self.kind {
            "probs" => Unaries::Probabilities(path),
            "unary" => Unaries::Energies(path),
            _ => Unaries::Labels(path),
        })
    }
}

fn beside(image: &Path) -> std::result::Result<Unaries, String> {
    for ending in ["npy", "npz", "c_unary"] {
        let path = image.with_extension(ending);
        if path.exists() {
            let scores = ending == "c_unary";
            return Ok(if scores { Unaries::Energies(path) } else { Unaries::Probabilities(path) });
        }
    }
    Err(format!(
        "{}: has no .npy, .npz or .c_unary file of the same name beside it; name the directory with --probs, --unary \
         or --labels",
        image.display()
    ))
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
        bail!("{text}: matches no image; wanted files that end in {}", IMAGES.join(", "));
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
                "`{name}` cannot be the name of a result; wanted a name, or folders and a name, within OUT"
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
    fn names_are_short_while_they_can_be() {
        let names = |paths: &[&str]| unique_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["a/1.png", "b/2.png"]), ["1", "2"]);
        assert_eq!(names(&["x/a/1.png", "x/b/1.jpg"]), ["a/1", "b/1"]);
        assert_eq!(names(&["./x/1.png", "./1.png"]), ["x/1", "1"]);
        assert_eq!(names(&["1.png", "1.jpg"]), ["1", "1"], "told later");
    }

    #[test]
    fn results_stay_in_their_directory() {
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
