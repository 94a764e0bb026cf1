//! A directory of images with unaries and truth, as `reproduce` and `tune` read it.
//!
//! ```text
//! DIR/images/ID.png      or .jpg, .bmp, .ppm, .tif
//! DIR/truth/ID.png       label maps
//! DIR/probs/ID.npz       or .npy: probabilities; else DIR/unary/ID.npz, .npy or .c_unary
//! DIR/test.txt           one ID per line; any name
//! DIR/labels.json        optional: names and the void mark
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf::{Image, Labeling, Model};
use relaxcrf_io as io;
use serde::Deserialize;

use crate::inputs::{self, Source, Unary};
use crate::messages::Messages;
use crate::metrics::Confusion;
use crate::options::{DataOptions, ModelOptions, UnaryOptions};
use crate::specs::VoidSpec;

/// Void mark by default, as in most data sets.
const DEFAULT_VOID: u16 = 255;

/// Endings of image files.
pub const IMAGES: [&str; 9] = ["png", "jpg", "jpeg", "bmp", "ppm", "pgm", "pnm", "tif", "tiff"];
/// Endings of label maps.
pub const MAPS: [&str; 8] = ["png", "bmp", "pgm", "pnm", "tif", "tiff", "npy", "npz"];

/// The images of a split with their files, all of which existed when it was opened.
#[derive(Debug)]
pub struct Dataset {
    /// The directory's own name.
    pub name: String,
    /// In the order of the split.
    pub items: Vec<Item>,
    /// Names and void mark.
    pub labels: LabelNames,
}

/// One image.
#[derive(Debug)]
pub struct Item {
    /// The file names without their endings.
    pub id: String,
    image: PathBuf,
    probabilities: Vec<PathBuf>,
    unary: Option<PathBuf>,
    truth: PathBuf,
}

/// Names of the labels, and the true label that counts nowhere.
#[derive(Debug, Clone, Default)]
pub struct LabelNames {
    /// By label; empty if unknown.
    pub names: Vec<String>,
    /// The true label that counts nowhere.
    pub void: Option<u16>,
}

impl LabelNames {
    /// A label's name, or its number.
    pub fn name(&self, label: usize) -> String {
        self.names.get(label).cloned().unwrap_or_else(|| label.to_string())
    }

    /// Reads `labels.json`.
    pub fn read(path: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct Class {
            index: Option<usize>,
            name: String,
        }
        #[derive(Deserialize)]
        struct File {
            classes: Vec<Class>,
            void_index: Option<u16>,
        }
        let text = io::read_text(path)?;
        let file: File = serde_json::from_str(&text).with_context(|| {
            format!(
                "{}: is not understood; expected {{\"classes\": [{{\"name\": ...}}, ...], \"void_index\": 255}}",
                path.display()
            )
        })?;
        for (k, class) in file.classes.iter().enumerate() {
            if class.index.is_some_and(|index| index != k) {
                bail!("{}: class `{}` is out of order; expected index {k}", path.display(), class.name);
            }
        }
        Ok(Self { names: file.classes.into_iter().map(|c| c.name).collect(), void: file.void_index })
    }

    /// From `labels.json` in a directory if it is there, with `void` in place of its mark.
    pub fn beside(folder: &Path, void: Option<VoidSpec>) -> Result<Self> {
        let path = folder.join("labels.json");
        let mut labels = if path.is_file() {
            Self::read(&path)?
        } else {
            Self { names: Vec::new(), void: Some(DEFAULT_VOID) }
        };
        if let Some(VoidSpec(void)) = void {
            labels.void = void;
        }
        Ok(labels)
    }
}

impl Dataset {
    /// Lists the split's images and checks that nothing is missing.
    pub fn open(args: &DataOptions, split: &str) -> Result<Self> {
        let root = &args.data;
        if !root.is_dir() {
            bail!(
                "{}: is not a directory; expected one with images/, truth/ and probs/ or unary/",
                root.display()
            );
        }
        let images = files_by_stem(&root.join("images"), &IMAGES)?;
        let truth = files_by_stem(&root.join(&args.truth), &MAPS)?;
        let (probs, unary) = (root.join("probs"), root.join("unary"));
        let has_probs = probs.is_dir();
        if !has_probs && !unary.is_dir() {
            bail!("{}: has neither probs/ nor unary/; expected one of them", root.display());
        }
        let energies = if has_probs {
            files_by_stem(&probs, &["npz", "npy"])?
        } else {
            files_by_stem(&unary, &["npz", "npy", "c_unary"])?
        };
        let mut ids = ids_of(root, split, &images)?;
        ids.truncate(args.limit.unwrap_or(usize::MAX));
        let find = |files: &BTreeMap<String, PathBuf>, folder: &str, id: &str| {
            files.get(id).cloned().with_context(|| {
                format!("{}: holds no file for `{id}` of split {split}", root.join(folder).display())
            })
        };
        let items = ids
            .into_iter()
            .map(|id| {
                let image = find(&images, "images", &id)?;
                let energy = find(&energies, if has_probs { "probs" } else { "unary" }, &id)?;
                Ok(Item {
                    image,
                    truth: find(&truth, &args.truth, &id)?,
                    probabilities: if has_probs { vec![energy.clone()] } else { Vec::new() },
                    unary: (!has_probs).then_some(energy),
                    id,
                })
            })
            .collect::<Result<_>>()?;
        let whole = fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let name = whole.file_name().map_or("data".into(), |n| n.to_string_lossy().into_owned());
        Ok(Self { name, items, labels: LabelNames::beside(root, args.void)? })
    }
}

impl Item {
    /// The model of this image.
    pub fn model(&self, args: &ModelOptions, seed: u64, messages: &Messages) -> Result<Model> {
        let source = Source::choose(&self.probabilities, None, self.unary.as_ref(), None);
        Ok(inputs::read(&self.image, source, &UnaryOptions::default(), args, seed, messages)?.model)
    }

    /// The image and its unary energies.
    pub fn image_and_unary(&self, messages: &Messages) -> Result<(Image, Unary)> {
        let source = Source::choose(&self.probabilities, None, self.unary.as_ref(), None);
        inputs::image_and_unary(&self.image, source, &UnaryOptions::default(), messages)
    }

    /// The true label map, as it is.
    pub fn truth_map(&self) -> Result<io::LabelMap> {
        Ok(io::read_labels(&self.truth)?)
    }

    /// The true labels, which must fit the model.
    pub fn truth(&self, model: &Model) -> Result<Vec<u16>> {
        let map = io::read_labels(&self.truth)?;
        let (height, width) = (model.sizes()[0], model.sizes()[1]);
        if (map.width, map.height) != (width, height) {
            bail!(
                "image {} is {width}x{height} but its truth {} is {}x{} (width x height); both must have the same size",
                self.image.display(),
                self.truth.display(),
                map.width,
                map.height
            );
        }
        Ok(map.labels)
    }

    /// Compares labels of the model with the truth.
    pub fn compare(
        &self,
        model: &Model,
        given: &Labeling,
        truth: &[u16],
        void: Option<u16>,
    ) -> Result<Confusion> {
        let mut confusion = Confusion::new(model.labels());
        confusion
            .add(given.as_slice(), truth, void)
            .with_context(|| format!("{}: does not fit the model", self.truth.display()))?;
        Ok(confusion)
    }
}

/// The files of a folder by their names without endings; only those endings.
pub fn files_by_stem(folder: &Path, endings: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = entries_by_stem(folder, endings, false)?;
    files.retain(|_, path| path.is_file());
    if files.is_empty() {
        bail!("{}: holds no files that end in {}", folder.display(), endings.join(", "));
    }
    Ok(files)
}

/// Lists a folder's files with these endings, and its folders if `folders`, by names without endings. An entry that is
/// not a regular file fails when it is read.
pub fn entries_by_stem(folder: &Path, endings: &[&str], folders: bool) -> Result<BTreeMap<String, PathBuf>> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("{}: cannot be read as a directory", folder.display()))?;
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let stem = if endings.contains(&crate::specs::extension(&path).as_str()) {
            path.file_stem()
        } else if folders && path.is_dir() {
            path.file_name()
        } else {
            continue;
        };
        let stem = stem.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        if hidden {
            continue;
        }
        if let Some(other) = files.insert(stem, path.clone()) {
            bail!("{} and {} have the same name up to the ending; keep one", other.display(), path.display());
        }
    }
    if files.is_empty() {
        bail!("{}: holds no files that end in {}", folder.display(), endings.join(", "));
    }
    Ok(files)
}

/// Label maps of a folder.
pub fn label_maps(folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    files_by_stem(folder, &MAPS)
}

/// The images of a split.
pub fn ids_of(root: &Path, split: &str, images: &BTreeMap<String, PathBuf>) -> Result<Vec<String>> {
    if split == "all" {
        return Ok(images.keys().cloned().collect());
    }
    let path = [root.join(format!("{split}.txt")), root.join(split), PathBuf::from(split)]
        .into_iter()
        .find(|p| p.is_file())
        .with_context(|| {
            format!(
                "{}: has no {split}.txt; give the name of a split, a file with one ID per line, or all",
                root.display()
            )
        })?;
    let text = io::read_text(&path)?;
    let mut ids: Vec<String> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for id in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if !known.insert(id) {
            bail!("{}: lists `{id}` twice", path.display());
        }
        ids.push(id.into());
    }
    if ids.is_empty() {
        bail!("{}: lists no images; expected one ID per line", path.display());
    }
    Ok(ids)
}
