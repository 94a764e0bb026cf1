//! Unary energies of parts of an image, from files that may be larger than memory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf::io::{self, Raster, Window};
use relaxcrf::model::unary;

use crate::args::UnaryArgs;
use crate::inputs::{self, Source, check_label_count, check_size, is_tiff};
use crate::report::Messages;
use crate::specs::extension;

/// Pixels that are looked at together when labels are counted.
const SCAN: usize = 1 << 22;

/// Where unary energies are read from, window by window.
#[derive(Debug)]
pub struct UnaryWindows<'a> {
    source: Source<'a>,
    raster: Raster,
    labels: usize,
    kind: Kind,
    /// Sums of probabilities are complained about once.
    warned: bool,
}

#[derive(Debug)]
enum Kind {
    Probabilities,
    Energies,
    Marks { confidence: f32, unsure: Option<u16> },
}

impl<'a> UnaryWindows<'a> {
    /// Opens the source and checks it against the image's size (width and height).
    pub fn open(
        source: Source<'a>,
        size: (usize, usize),
        image_path: &Path,
        args: &UnaryArgs,
        messages: &Messages,
    ) -> Result<Self> {
        let path = source.files().first().copied().unwrap_or(Path::new(""));
        let array = |path: &Path| -> Result<Raster> {
            // Bands on the last axis, whatever they are: only the shape is looked at.
            let shape = io::npy_shape(path)?;
            Ok(Raster::array(path, inputs::label_axis(&shape, source, size, image_path, args)?)?)
        };
        let (raster, kind) = match source {
            Source::Labels(path) => {
                let kind = Kind::Marks { confidence: args.confidence, unsure: args.unsure };
                (Raster::labels(path)?, kind)
            }
            Source::Probabilities(paths) if paths.iter().all(|p| is_tiff(p)) => {
                (Raster::probabilities(paths)?, Kind::Probabilities)
            }
            Source::Probabilities([one]) if extension(one) == "npy" => (array(one)?, Kind::Probabilities),
            Source::Unary(path) if is_tiff(path) => (Raster::bands(&[PathBuf::from(path)])?, Kind::Energies),
            Source::Unary(path) if extension(path) == "npy" => (array(path)?, Kind::Energies),
            // Formats that cannot be read in parts.
            _ => {
                let unary = inputs::read_unary(source, size, image_path, args, messages)?;
                (Raster::in_memory(path, (size.0, size.1, unary.labels), unary.rows), Kind::Energies)
            }
        };
        check_size(source.what(), path, (raster.width(), raster.height()), image_path, size)?;
        let labels = raster.channels();
        let mut windows = Self { source, raster, labels, kind, warned: false };
        if let Kind::Marks { unsure, .. } = windows.kind {
            windows.labels = match args.num_labels {
                Some(n) => usize::from(n),
                None => windows.count_marks(unsure)?,
            };
        }
        check_label_count(path, windows.labels)?;
        Ok(windows)
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// The largest mark and one more.
    fn count_marks(&mut self, unsure: Option<u16>) -> Result<usize> {
        let (width, height) = (self.raster.width(), self.raster.height());
        let rows = (SCAN / width.max(1)).max(1);
        let mut largest = None;
        for y in (0..height).step_by(rows) {
            let marks = self.raster.read_labels(&[y..height.min(y + rows), 0..width])?;
            largest = largest.max(marks.into_iter().filter(|&m| Some(m) != unsure).max());
        }
        match largest {
            Some(l) => Ok(usize::from(l) + 1),
            None => bail!(
                "{}: every pixel is marked unsure; wanted some labels, or --num-labels",
                self.source.name()
            ),
        }
    }

    /// The energies of a window, one row per pixel.
    pub fn read(&mut self, window: &Window, messages: &Messages) -> Result<Vec<f32>> {
        let name = || self.source.name();
        Ok(match self.kind {
            Kind::Energies => self.raster.read(window)?,
            Kind::Probabilities => {
                let rows = self.raster.read(window)?;
                self.warned =
                    self.warned || inputs::warn_about_sums(&rows, self.labels, self.source, messages);
                unary::from_probabilities(&rows, self.labels, unary::DEFAULT_FLOOR).with_context(name)?
            }
            Kind::Marks { confidence, unsure } => {
                let marks = self.raster.read_labels(window)?;
                unary::from_labels(&marks, self.labels, confidence, unsure).with_context(name)?
            }
        })
    }
}
