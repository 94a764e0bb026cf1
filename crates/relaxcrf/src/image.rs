//! A picture as the model and the matching costs see it.

use crate::error::{Error, Result};

/// A picture, or any other grid of feature vectors: row-major `height x width x channels`.
///
/// Values are on the 0 to 255 scale of 8-bit pictures, so that colour standard deviations mean the same
/// for every file: 16-bit pictures are scaled down to it when read, without rounding.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Values per pixel: 1 for grey, 3 for colour; other counts are welcome.
    pub channels: usize,
    /// `height * width * channels` values; pixel `(x, y)` starts at `(y * width + x) * channels`.
    pub data: Vec<f32>,
}

impl Image {
    /// Fails unless `data` holds exactly `width * height * channels` values and none of the sizes is zero.
    pub fn new(width: usize, height: usize, channels: usize, data: Vec<f32>) -> Result<Self> {
        let image = Self { width, height, channels, data };
        image.check()?;
        Ok(image)
    }

    /// The sizes agree with the data. The fields are public, so whoever takes an image asks this first.
    pub fn check(&self) -> Result<()> {
        let Self { width, height, channels, data } = self;
        let expected = width.checked_mul(*height).and_then(|n| n.checked_mul(*channels));
        if expected == Some(data.len()) && !data.is_empty() {
            return Ok(());
        }
        Err(Error::shape(
            "image",
            format!("{} values", data.len()),
            format!(
                "{width} x {height} pixels of {channels} channels, that is {},",
                expected.map_or("more than memory can hold".into(), |n| format!("{n} values (at least one)"))
            ),
        ))
    }

    /// Number of pixels.
    pub fn pixels(&self) -> usize {
        self.width * self.height
    }

    /// The values of pixel `(x, y)`. Panics outside the picture.
    pub fn pixel(&self, x: usize, y: usize) -> &[f32] {
        let start = (y * self.width + x) * self.channels;
        &self.data[start..start + self.channels]
    }

    /// One brightness per pixel: the luma of three channels (Rec. 601 weights), else the channels' mean.
    pub fn brightness(&self) -> Vec<f32> {
        let one = |p: &[f32]| match *p {
            [grey] => grey,
            [r, g, b] => 0.299 * r + 0.587 * g + 0.114 * b,
            _ => p.iter().sum::<f32>() / p.len() as f32,
        };
        self.data.chunks_exact(self.channels.max(1)).map(one).collect()
    }

    /// The values rounded and clamped to bytes, in the same order; NaN becomes 0.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A cast from f32 saturates, and sends NaN to zero.
        self.data.iter().map(|&v| v.round() as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_must_agree() {
        assert!(Image::new(2, 3, 1, vec![0.0; 6]).is_ok());
        let message = Image::new(2, 3, 3, vec![0.0; 6]).unwrap_err().to_string();
        assert!(message.contains("6 values") && message.contains("18 values"), "{message}");
        assert!(Image::new(0, 3, 1, vec![]).is_err());
        assert!(Image::new(usize::MAX, 2, 1, vec![0.0; 6]).is_err());
    }

    #[test]
    fn pixels_brightness_and_bytes() {
        let image = Image::new(2, 1, 3, vec![0.0, 0.0, 0.0, 255.0, 300.0, -1.0]).unwrap();
        assert_eq!(image.pixel(1, 0), &[255.0, 300.0, -1.0]);
        assert_eq!(image.to_bytes(), [0, 0, 0, 255, 255, 0]);
        assert_eq!(image.brightness()[0], 0.0);
        let grey = Image::new(1, 1, 1, vec![f32::NAN]).unwrap();
        assert_eq!(grey.to_bytes(), [0]);
        let two = Image::new(1, 1, 2, vec![1.0, 3.0]).unwrap();
        assert_eq!(two.brightness(), [2.0]);
    }
}
