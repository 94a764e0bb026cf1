//! Pictures, arrays and label maps that are read and written window by window, so that their size does not matter.
//!
//! TIFF files (tiles or strips, BigTIFF too) and `.npy` arrays are read from disk as needed. Other formats cannot be
//! read in parts: they are read whole, once. A window is a range of rows and one of columns.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::labels::LabelMap;
use super::limits::{by, check_bands, check_shape, zeros};
use super::npy::{self, NpyWindows};
use super::palette::Palette;
use super::png_rows::write_png_by_window;
use super::tiff::{self, GeoTags, Samples, TiffWindows};
use super::{Kind, open};
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};

/// A window: rows, columns.
pub type Window = [Range<usize>; 2];

/// Where values come from.
#[derive(Debug)]
enum Origin {
    /// The bands of one file.
    Tiff(Box<TiffWindows>),
    /// One file for each band.
    Several(Vec<TiffWindows>),
    /// An array; the place of the bands' axis, if there is one.
    Npy(NpyWindows, Option<usize>),
    /// One row of bands per pixel.
    Memory(Vec<f32>),
}

/// Numbers on a grid, some for each pixel, read by window.
#[derive(Debug)]
pub struct Raster {
    path: PathBuf,
    origin: Origin,
    width: usize,
    height: usize,
    bands: usize,
    /// What stored values are multiplied with.
    scale: f32,
}

impl Raster {
    /// A picture, read as [`read_image`](super::read_image) reads it, with all bands of a TIFF file.
    pub fn image(path: &Path) -> Result<Self> {
        if tiff::is_tiff(path)? {
            let file = TiffWindows::open(path)?;
            let scale = if file.samples == Samples::U16 { 1.0 / 257.0 } else { 1.0 };
            return Ok(Self::of_tiff(path, file, scale));
        }
        if open(path)?.kind == Kind::Npy {
            let file = NpyWindows::open(path)?;
            let (sizes, axis) = match *file.shape() {
                [height, width] => ((width, height, 1), None),
                [height, width, channels] => ((width, height, channels), Some(2)),
                _ => {
                    let why = format!(
                        "has shape {}; expected height x width (x channels), none of them zero",
                        by(file.shape())
                    );
                    return Err(Error::file(path, why));
                }
            };
            return Ok(Self::of_npy(path, file, sizes, axis));
        }
        let Image { width, height, channels, data } = super::read_image(path)?;
        Ok(Self::in_memory(path, (width, height, channels), data))
    }

    /// An array of three axes (`.npy`) whose `axis` holds the bands.
    pub fn array(path: &Path, axis: usize) -> Result<Self> {
        let file = NpyWindows::open(path)?;
        let shape = file.shape().to_vec();
        if shape.len() != 3 || axis > 2 {
            let why = format!("has shape {}; expected three axes, bands on axis {axis}", by(&shape));
            return Err(Error::file(path, why));
        }
        let space: Vec<usize> = (0..3).filter(|&k| k != axis).map(|k| shape[k]).collect();
        Ok(Self::of_npy(path, file, (space[1], space[0], shape[axis]), Some(axis)))
    }

    /// Bands of one TIFF file, or one grey TIFF file for each: numbers as they are.
    pub fn bands(paths: &[PathBuf]) -> Result<Self> {
        Self::tiffs(paths, |_| 1.0)
    }

    /// The same for probabilities: whole numbers are divided by the largest, 255 or 65535.
    pub fn probabilities(paths: &[PathBuf]) -> Result<Self> {
        Self::tiffs(paths, |samples| match samples {
            Samples::U8 => 1.0 / 255.0,
            Samples::U16 => 1.0 / 65_535.0,
            Samples::Integer | Samples::Float => 1.0,
        })
    }

    /// Labels: an integer `.npy` array of height x width, a TIFF file with one band, or a picture.
    pub fn labels(path: &Path) -> Result<Self> {
        if tiff::is_tiff(path)? {
            let file = TiffWindows::open(path)?;
            if file.bands != 1 || file.samples == Samples::Float {
                let why = format!("has {} bands of {:?}; expected one of integers", file.bands, file.samples);
                return Err(Error::file(path, why));
            }
            return Ok(Self::of_tiff(path, file, 1.0));
        }
        if open(path)?.kind == Kind::Npy {
            let file = NpyWindows::open(path)?;
            let [height, width] = *file.shape() else {
                let why = format!("has shape {}; expected height x width", by(file.shape()));
                return Err(Error::file(path, why));
            };
            return Ok(Self::of_npy(path, file, (width, height, 1), None));
        }
        let map = super::read_labels(path)?;
        let values = map.labels.iter().map(|&l| f32::from(l)).collect();
        Ok(Self::in_memory(path, (map.width, map.height, 1), values))
    }

    /// Values in memory: one row of bands per pixel.
    pub fn in_memory(path: &Path, (width, height, bands): (usize, usize, usize), rows: Vec<f32>) -> Self {
        let origin = Origin::Memory(rows);
        Self { path: path.to_path_buf(), origin, width, height, bands, scale: 1.0 }
    }

    fn of_tiff(path: &Path, file: TiffWindows, scale: f32) -> Self {
        let (width, height, bands) = (file.width, file.height, file.bands);
        Self { path: path.to_path_buf(), origin: Origin::Tiff(Box::new(file)), width, height, bands, scale }
    }

    fn of_npy(
        path: &Path,
        file: NpyWindows,
        (width, height, bands): (usize, usize, usize),
        axis: Option<usize>,
    ) -> Self {
        Self { path: path.to_path_buf(), origin: Origin::Npy(file, axis), width, height, bands, scale: 1.0 }
    }

    fn tiffs(paths: &[PathBuf], scale: impl Fn(Samples) -> f32) -> Result<Self> {
        if let [path] = paths {
            let file = TiffWindows::open(path)?;
            let scale = scale(file.samples);
            return Ok(Self::of_tiff(path, file, scale));
        }
        let files = paths.iter().map(|p| TiffWindows::open(p)).collect::<Result<Vec<_>>>()?;
        let (Some(path), Some(first)) = (paths.first(), files.first()) else {
            return Err(Error::shape("list of files", "no entries", "one file per label"));
        };
        for (path, file) in paths.iter().zip(&files) {
            if (file.width, file.height, file.samples, file.bands)
                != (first.width, first.height, first.samples, 1)
            {
                let why = format!(
                    "is {} x {} with {} bands; expected one band of the size and type of the first, {} x {}",
                    file.width, file.height, file.bands, first.width, first.height
                );
                return Err(Error::file(path, why));
            }
        }
        let (width, height, bands, scale) = (first.width, first.height, files.len(), scale(first.samples));
        Ok(Self { path: path.to_path_buf(), origin: Origin::Several(files), width, height, bands, scale })
    }

    /// Fails if the file is too short for what its header claims.
    fn check_size(&self) -> Result<()> {
        let fail = |e| Error::file(&self.path, format!("cannot be read: {e}"));
        let length = std::fs::metadata(&self.path).map_err(fail)?.len();
        check_bands(&self.path, self.width as u64, self.height as u64, self.bands as u64, length)?;
        check_shape(&self.path, &[self.height, self.width, self.bands]).map(drop)
    }

    /// All of it at once, as a picture.
    pub(super) fn into_image(mut self) -> Result<Image> {
        let (width, height) = (self.width, self.height);
        self.check_size()?;
        let data = self.read(&[0..height, 0..width])?;
        Image::new(width, height, self.bands, data)
    }

    /// All of it at once, as labels.
    pub(super) fn into_labels(mut self) -> Result<LabelMap> {
        let (width, height) = (self.width, self.height);
        self.check_size()?;
        let labels = self.read_labels(&[0..height, 0..width])?;
        Ok(LabelMap { width, height, labels })
    }

    /// Pixels per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Values per pixel.
    pub fn channels(&self) -> usize {
        self.bands
    }

    /// The values of a window, one row of bands per pixel. Panics outside of the raster.
    pub fn read(&mut self, [rows, columns]: &Window) -> Result<Vec<f32>> {
        assert!(rows.end <= self.height && columns.end <= self.width);
        let bands = self.bands;
        let (rows, columns) = (rows.clone(), columns.clone());
        let mut values = match &mut self.origin {
            Origin::Tiff(file) => file.read(rows, columns)?,
            Origin::Several(files) => {
                let mut out = zeros(&self.path, rows.len() * columns.len() * bands)?;
                for (band, file) in files.iter_mut().enumerate() {
                    let plane = file.read(rows.clone(), columns.clone())?;
                    out.iter_mut().skip(band).step_by(bands).zip(plane).for_each(|(o, v)| *o = v);
                }
                out
            }
            Origin::Npy(file, None) => file.read(&[rows, columns])?,
            Origin::Npy(file, Some(axis)) => {
                let mut ranges = vec![rows.clone(), columns.clone()];
                ranges.insert(*axis, 0..bands);
                let shape = ranges.iter().map(Range::len).collect();
                super::Array { shape, data: file.read(&ranges)? }.into_label_rows(*axis)?
            }
            Origin::Memory(all) => {
                let line =
                    |y: usize| &all[(y * self.width + columns.start) * bands..][..columns.len() * bands];
                rows.flat_map(line).copied().collect()
            }
        };
        if self.scale != 1.0 {
            values.iter_mut().for_each(|v| *v *= self.scale);
        }
        Ok(values)
    }

    /// The values of a window as labels.
    pub fn read_labels(&mut self, window: &Window) -> Result<Vec<u16>> {
        if let Origin::Npy(file, None) = &mut self.origin {
            return file.read::<u16>(window);
        }
        let values = self.read(window)?;
        // f32 holds all of these exactly.
        let whole = |&v: &f32| v.fract() == 0.0 && (0.0..=65_535.0).contains(&v);
        match values.iter().find(|v| !whole(v)) {
            Some(v) => Err(Error::file(&self.path, format!("holds {v}; expected integers from 0 to 65535"))),
            None => Ok(values.iter().map(|&v| v as u16).collect()),
        }
    }
}

/// The sizes of a `.npy` array.
pub fn npy_shape(path: &Path) -> Result<Vec<usize>> {
    Ok(NpyWindows::open(path)?.shape().to_vec())
}

/// A label map to be written window by window.
#[derive(Debug)]
pub struct LabelFile<'a> {
    /// Where; the ending decides on the format: `.tif`, `.tiff`, `.npy`, else PNG.
    pub path: &'a Path,
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// How many labels there are: 8 bits for up to 256, 16 beyond.
    pub labels: usize,
    /// The side of the square windows, which are written in raster order.
    pub side: usize,
    /// Tags for a TIFF file.
    pub geo: &'a GeoTags,
}

impl LabelFile<'_> {
    /// Makes the file and lets `fill` write windows, each once. It appears under its name when all are there.
    ///
    /// A TIFF file is tiled and deflated; its windows' side must be a multiple of 16. A PNG holds a row of windows in
    /// memory at a time, the other formats nothing.
    pub fn write<E: From<Error>>(
        &self,
        palette: &Palette,
        fill: impl FnOnce(&mut dyn FnMut(&[Range<usize>], &[u16]) -> Result<()>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (path, size) = (self.path, (self.width, self.height));
        let wide = self.labels > 256;
        let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match ending.as_str() {
            "tif" | "tiff" => tiff::write_tiles(path, size, wide, self.side, self.geo, fill),
            "npy" if wide => {
                npy::write_by_window(path, "<u2", &[self.height, self.width], u16::to_le_bytes, fill)
            }
            "npy" => npy::write_by_window(path, "|u1", &[self.height, self.width], |l: u16| [l as u8], fill),
            _ => write_png_by_window(path, size, wide, palette, fill),
        }
    }
}

/// Makes a `.npy` file of `f32` and lets `fill` write boxes of it.
pub fn write_npy_f32_by_window<E: From<Error>>(
    path: &Path,
    shape: &[usize],
    fill: impl FnOnce(&mut dyn FnMut(&[Range<usize>], &[f32]) -> Result<()>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    npy::write_by_window(path, "<f4", shape, f32::to_le_bytes, fill)
}

#[cfg(test)]
mod tests;
