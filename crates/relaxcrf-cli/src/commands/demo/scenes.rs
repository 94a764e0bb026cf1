//! The demo's two scenes: models with their true labels, and the files they are saved in.

use std::path::{Path, PathBuf};

use anyhow::Result;
use relaxcrf::presets;
use relaxcrf::{Beliefs, Image, Labeling, Model, ModelBuilder};
use relaxcrf_io::{Palette, write_image, write_labels, write_npy_f32};
use relaxcrf_lab::disparity;
use relaxcrf_lab::metrics::Confusion;
use relaxcrf_lab::synth::{self, LANDSCAPE_LABELS};
use relaxcrf_stereo::{CostOptions, Measure, cost};

use super::{Quality, SceneReport};

/// Width and height of the photograph.
const PHOTO_SIZE: (usize, usize) = (320, 240);

/// Width and height of the stereo pair.
const PAIR_SIZE: (usize, usize) = (160, 120);

/// Gaussian kernel (sigma, weight) and bilateral kernel (sigma, colour sigma, weight) of the stereo pair.
///
/// Weaker than those that `stereo` takes by itself, which are for photographs of several times this size.
pub(super) const STEREO_KERNELS: ((f32, f32), (f32, f32, f32)) = ((2.0, 1.5), (15.0, 10.0, 4.0));

/// Number of disparities of the stereo pair.
pub(super) const DISPARITIES: usize = 16;

/// Added to `--seed`: scenes that look good at the default seed.
const PHOTO_SEED: u64 = 1;
const PAIR_SEED: u64 = 1;

/// Colours of the classes, near those of the things themselves.
const CLASS_COLOURS: [[u8; 3]; LANDSCAPE_LABELS.len()] = [
    [132, 190, 236],
    [146, 138, 150],
    [22, 92, 44],
    [134, 190, 78],
    [36, 94, 178],
    [198, 56, 46],
    [246, 240, 226],
    [250, 164, 36],
];

/// A model with its true labels.
pub(super) struct Scene {
    pub name: &'static str,
    pub model: Model,
    pub truth: Labeling,
    /// The labels of highest probability or lowest cost, without a CRF.
    pub start: Labeling,
    pub task: Task,
}

/// A task with its input images.
pub(super) enum Task {
    Segmentation { photo: Image, palette: Box<Palette>, probabilities: Vec<f32> },
    Stereo { left: Image, right: Image },
}

/// A landscape, and the coarse, partly wrong probabilities of a simulated network.
pub(super) fn segmentation(seed: u64) -> Result<Scene> {
    let (width, height) = PHOTO_SIZE;
    let scene = synth::landscape(width, height, PHOTO_SEED.wrapping_add(seed))?;
    let preset = presets::find(presets::DEFAULT)?;
    let (sigma_xy, sigma_rgb, weight) = preset.bilateral;
    let model = ModelBuilder::image(width, height, scene.labels)
        .probabilities(&scene.probabilities)?
        .gaussian(preset.gaussian.0, preset.gaussian.1)
        .bilateral(scene.image.data.clone(), sigma_xy, sigma_rgb, weight)
        .normalization(preset.normalization)
        .build()?;
    let start = Beliefs::new(scene.probabilities.clone(), scene.labels)?.argmax();
    Ok(Scene {
        name: "segmentation",
        model,
        truth: scene.truth,
        start,
        task: Task::Segmentation {
            photo: scene.image,
            palette: Box::new(Palette::new(&CLASS_COLOURS)?),
            probabilities: scene.probabilities,
        },
    })
}

/// Surfaces at several depths seen by two cameras; labels are disparities.
pub(super) fn stereo(seed: u64) -> Result<Scene> {
    let (width, height) = PAIR_SIZE;
    let mut scene = synth::stereo(width, height, DISPARITIES, PAIR_SEED.wrapping_add(seed))?;
    // As they are saved, so that the printed command finds the same disparities.
    for picture in [&mut scene.left, &mut scene.right] {
        picture.data.iter_mut().for_each(|v| *v = v.round());
    }
    let options = CostOptions::new(Measure::BirchfieldTomasi);
    let costs = cost(&scene.left, &scene.right, DISPARITIES, &options)?;
    let cheapest =
        |row: &[f32]| (0..row.len()).min_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as u16;
    let start = Labeling::new(costs.chunks_exact(DISPARITIES).map(cheapest).collect());
    let (gaussian, bilateral) = STEREO_KERNELS;
    let model = ModelBuilder::image(width, height, DISPARITIES)
        .unary(costs)
        .gaussian(gaussian.0, gaussian.1)
        .bilateral(scene.left.data.clone(), bilateral.0, bilateral.1, bilateral.2)
        .build()?;
    Ok(Scene {
        name: "stereo",
        model,
        truth: scene.truth,
        start,
        task: Task::Stereo { left: scene.left, right: scene.right },
    })
}

impl Task {
    /// The gap at which `auto` stops: proved to be this close to the optimum.
    pub fn auto_gap(&self) -> f64 {
        match self {
            Self::Segmentation { .. } => 0.005,
            Self::Stereo { .. } => 0.02,
        }
    }

    /// The default method of the command for this task.
    pub fn default_method(&self) -> &'static str {
        match self {
            Self::Segmentation { .. } => "mf10",
            Self::Stereo { .. } => "mf",
        }
    }
}

impl Scene {
    /// Width and height.
    pub fn size(&self) -> (usize, usize) {
        (self.model.sizes()[1], self.model.sizes()[0])
    }

    /// The methods that are compared, from the quickest to the most thorough.
    pub fn methods(&self) -> [&'static str; 5] {
        ["mf5", self.task.default_method(), "qp+dc-neg", "graduated", "auto"]
    }

    /// Whether a label counts as right.
    pub fn is_right(&self, label: u16, truth: u16) -> bool {
        match self.task {
            Task::Segmentation { .. } => label == truth,
            Task::Stereo { .. } => label.abs_diff(truth) <= 1,
        }
    }

    /// Compares labels with the truth.
    pub fn quality(&self, labels: &Labeling) -> Result<Quality> {
        let pairs = || labels.as_slice().iter().copied().zip(self.truth.as_slice().iter().copied());
        let pixels = self.truth.len().max(1) as f64;
        let accuracy = pairs().filter(|&(l, t)| self.is_right(l, t)).count() as f64 / pixels;
        Ok(match self.task {
            Task::Segmentation { .. } => {
                let mut confusion = Confusion::new(self.model.labels());
                confusion.add(labels.as_slice(), self.truth.as_slice(), None)?;
                Quality { accuracy, mean_iou: confusion.mean_iou(), mean_error: None }
            }
            Task::Stereo { .. } => {
                let sum: f64 = pairs().map(|(l, t)| f64::from(l.abs_diff(t))).sum();
                Quality { accuracy, mean_iou: None, mean_error: Some(sum / pixels) }
            }
        })
    }

    /// Writes inputs, truth, and the labels before and after the default method.
    pub fn write(&self, folder: &Path, report: &SceneReport) -> Result<Vec<PathBuf>> {
        let size @ (width, height) = self.size();
        let refined = report.default_run(&self.task).map(|run| &run.labels);
        let mut files = Vec::new();
        let mut path = |name: &str| {
            files.push(folder.join(name));
            folder.join(name)
        };
        match &self.task {
            Task::Segmentation { photo, palette, probabilities } => {
                write_image(&path("photo.png"), photo)?;
                let labels = self.model.labels();
                let planes: Vec<f32> =
                    (0..labels).flat_map(|l| probabilities.iter().skip(l).step_by(labels).copied()).collect();
                write_npy_f32(&path("probs.npy"), &[labels, height, width], &planes)?;
                let maps = [("truth.png", Some(&self.truth)), ("network.png", Some(&report.start.labels))];
                for (name, map) in maps.into_iter().chain([("refined.png", refined)]) {
                    let Some(map) = map else { continue };
                    write_labels(&path(name), width, height, map.as_slice(), palette)?;
                }
            }
            Task::Stereo { left, right } => {
                write_image(&path("left.png"), left)?;
                write_image(&path("right.png"), right)?;
                for (name, map) in [("disparity-truth.png", Some(&self.truth)), ("disparity.png", refined)] {
                    let Some(map) = map else { continue };
                    disparity::write(&path(name), size, map.as_slice(), None, "8", DISPARITIES)?;
                }
            }
        }
        Ok(files)
    }
}
