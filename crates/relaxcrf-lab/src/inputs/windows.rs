//! Unary energies of parts of an image, from files that may be larger than memory.

use std::path::{Path, PathBuf};

use anyhow::Result;
use relaxcrf_io::{self as io, Raster, Window};

use super::{Channels, LabelValues, Occurring, Reading, Source, check_label_count, check_size, is_tiff};
use crate::inputs;
use crate::messages::Messages;
use crate::options::UnaryOptions;
use crate::specs::extension;

/// Pixels that are read together when labels are counted.
const SCAN: usize = 1 << 22;

/// Where unary energies are read from, window by window.
#[derive(Debug)]
pub struct UnaryWindows<'a> {
    source: Source<'a>,
    args: &'a UnaryOptions,
    raster: Raster,
    labels: usize,
    kind: Kind,
    /// Whether a warning about the values was shown.
    warned: bool,
}

#[derive(Debug)]
enum Kind {
    /// Values as the source says.
    Values,
    /// Energies that were made when the file was read whole.
    Energies,
    Marks(Reading),
}

impl<'a> UnaryWindows<'a> {
    /// Opens the source and checks it against the image's size (width and height).
    pub fn open(
        source: Source<'a>,
        size: (usize, usize),
        image_path: &Path,
        args: &'a UnaryOptions,
        messages: &Messages,
    ) -> Result<Self> {
        let path = source.path();
        let array = |path: &Path| -> Result<Raster> {
            // Only the shape is read.
            let shape = io::npy_shape(path)?;
            Ok(match inputs::channels(&shape, source, size, image_path, args)? {
                Channels::OnAxis(axis) => Raster::array(path, axis)?,
                Channels::One => Raster::image(path)?,
            })
        };
        let (raster, kind) = match source {
            Source::Labels(path) => {
                let mut raster = Raster::labels(path)?;
                check_size(source.what(), path, (raster.width(), raster.height()), image_path, size)?;
                let reading = reading(&mut raster, path, args, messages)?;
                (raster, Kind::Marks(reading))
            }
            Source::Probabilities(paths) if paths.iter().all(|p| is_tiff(p)) => {
                (Raster::probabilities(paths)?, Kind::Values)
            }
            Source::Unary(path) | Source::Scores(path) if is_tiff(path) => {
                (Raster::bands(&[PathBuf::from(path)])?, Kind::Values)
            }
            Source::Probabilities([_]) | Source::Unary(_) | Source::Scores(_) if extension(path) == "npy" => {
                (array(path)?, Kind::Values)
            }
            // Formats that cannot be read in parts.
            _ => {
                let unary = inputs::read_unary(source, size, image_path, args, messages)?;
                (Raster::in_memory(path, (size.0, size.1, unary.labels), unary.rows), Kind::Energies)
            }
        };
        check_size(source.what(), path, (raster.width(), raster.height()), image_path, size)?;
        let channels = raster.channels();
        let labels = match &kind {
            Kind::Marks(reading) => reading.labels,
            Kind::Energies => channels,
            Kind::Values => inputs::labels_of_channels(source, channels),
        };
        if matches!(kind, Kind::Values) && labels != channels {
            inputs::note_foreground(source, messages);
        }
        check_label_count(path, labels)?;
        Ok(Self { source, args, raster, labels, kind, warned: false })
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The label map's values that stand for the labels.
    pub fn values(&self) -> LabelValues {
        match &self.kind {
            Kind::Marks(reading) => reading.values.clone(),
            Kind::Values | Kind::Energies => LabelValues::default(),
        }
    }

    /// The energies of a window, one row per pixel.
    pub fn read(&mut self, window: &Window, messages: &Messages) -> Result<Vec<f32>> {
        match &self.kind {
            Kind::Energies => Ok(self.raster.read(window)?),
            Kind::Values => {
                let rows = self.raster.read(window)?;
                let channels = self.raster.channels();
                inputs::energies_of_values(rows, channels, self.source, window, &mut self.warned, messages)
            }
            Kind::Marks(reading) => {
                let marks = self.raster.read_labels(window)?;
                inputs::energies_of_marks(&marks, reading, window, self.source.path(), self.args)
            }
        }
    }
}

/// Reads all marks once, to decide about their values.
fn reading(raster: &mut Raster, path: &Path, args: &UnaryOptions, messages: &Messages) -> Result<Reading> {
    let (width, height) = (raster.width(), raster.height());
    let mut occurring = Occurring::new(args.unsure);
    // Nothing depends on the values if the number of labels is given.
    if args.num_labels.is_none() {
        let rows = (SCAN / width.max(1)).max(1);
        for y in (0..height).step_by(rows) {
            occurring.add(&raster.read_labels(&[y..height.min(y + rows), 0..width])?);
        }
    }
    occurring.decide(path, args, messages)
}
