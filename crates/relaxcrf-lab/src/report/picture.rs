//! Pictures for pages: colour maps, label maps, error maps, and their PNG bytes.

use anyhow::{Context, Result};
use base64::Engine;
use relaxcrf::{Beliefs, Image};
use relaxcrf_io::Palette;

/// 8-bit red, green, blue of every pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    rgb: Vec<u8>,
}

/// Colour of unknown values in maps of numbers.
const UNKNOWN: [u8; 3] = [64, 64, 64];

/// Colours of [`Picture::changes`].
const PUT_RIGHT: [u8; 3] = [30, 150, 72];
const MADE_WRONG: [u8; 3] = [214, 40, 52];
const STILL_WRONG: [u8; 3] = [238, 178, 56];

/// Pixels of an image's longer side for each pixel of thickness of the labels' borders.
const BORDER_EVERY: usize = 800;

/// An image's values as bytes, stretched if they do not fit.
fn display_bytes(image: &Image) -> Vec<u8> {
    let finite = || image.data.iter().copied().filter(|v| v.is_finite());
    let (low, high) = (finite().fold(0.0f32, f32::min), finite().fold(0.0f32, f32::max));
    if low >= 0.0 && high > 1.0 && high <= 255.0 || low >= high {
        return image.to_bytes();
    }
    let high = if high <= 1.0 && low >= 0.0 { 1.0 } else { high };
    image.data.iter().map(|v| (255.0 * (v - low) / (high - low)).round() as u8).collect()
}

/// Maps a fraction to a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMap {
    /// Many colours, in which neighbouring values look different. For disparities.
    Turbo,
    /// Dark to bright, evenly. For magnitudes such as errors and uncertainty.
    Inferno,
}

impl ColourMap {
    /// The colour of a fraction, clamped to 0 to 1; grey for NaN.
    pub fn colour(self, fraction: f64) -> [u8; 3] {
        if fraction.is_nan() {
            return UNKNOWN;
        }
        let map = match self {
            Self::Turbo => colorous::TURBO,
            Self::Inferno => colorous::INFERNO,
        };
        map.eval_continuous(fraction.clamp(0.0, 1.0)).as_array()
    }
}

impl Picture {
    /// From colours, one per pixel.
    pub fn from_pixels(width: usize, height: usize, colours: impl Iterator<Item = [u8; 3]>) -> Self {
        Self { width, height, rgb: colours.flatten().collect() }
    }

    /// A photograph: grey, colour, or the first three of more channels. Values beyond 0 to 255, and images from 0 to 1,
    /// are stretched to that range.
    pub fn photo(image: &Image) -> Self {
        let bytes = display_bytes(image);
        let colour = |p: &[u8]| if p.len() < 3 { [p[0]; 3] } else { [p[0], p[1], p[2]] };
        Self::from_pixels(image.width, image.height, bytes.chunks_exact(image.channels).map(colour))
    }

    /// An image with the labels' colours blended in and white borders between labels.
    pub fn overlay(image: &Image, labels: &[u16], palette: &Palette) -> Self {
        let mut picture = Self::photo(image);
        let (width, height) = (picture.width, picture.height);
        // Equally visible in large images, which are shown smaller, and in small ones.
        let thickness = (width.max(height) / BORDER_EVERY).max(1);
        let label = |x: usize, y: usize| labels.get(y * width + x);
        for (at, pixel) in picture.rgb.chunks_exact_mut(3).enumerate() {
            let (x, y) = (at % width, at / width);
            let right = label((x + thickness).min(width - 1), y);
            let below = label(x, (y + thickness).min(height - 1));
            let own = label(x, y);
            if own != right || own != below {
                pixel.fill(255);
            } else if let Some(&own) = own {
                let colour = palette.colour(own);
                pixel.iter_mut().zip(colour).for_each(|(p, c)| *p = u8::midpoint(*p, c));
            }
        }
        picture
    }

    /// A label map; labels from `known` on (void marks) are grey.
    pub fn labels(size: (usize, usize), labels: &[u16], known: usize, palette: &Palette) -> Self {
        let colour = |l: &u16| if usize::from(*l) < known { palette.colour(*l) } else { UNKNOWN };
        Self::from_pixels(size.0, size.1, labels.iter().map(colour))
    }

    /// Draws numbers from `low` to `high`; grey if not finite.
    pub fn numbers(size: (usize, usize), values: &[f32], (low, high): (f32, f32), map: ColourMap) -> Self {
        let range = f64::from(high - low).max(f64::MIN_POSITIVE);
        let fraction = |v: f32| if v.is_finite() { f64::from(v - low) / range } else { f64::NAN };
        Self::from_pixels(size.0, size.1, values.iter().map(|&v| map.colour(fraction(v))))
    }

    /// Right pixels pale, wrong ones red, unknown ones grey.
    pub fn verdicts(size: (usize, usize), right: impl Iterator<Item = Option<bool>>) -> Self {
        let colour = |verdict| match verdict {
            Some(true) => [226, 232, 226],
            Some(false) => [214, 51, 60],
            None => [120, 120, 120],
        };
        Self::from_pixels(size.0, size.1, right.map(colour))
    }

    /// Shows how undecided each pixel is: the entropy of its beliefs, 1 where all labels are equal.
    pub fn uncertainty(size: (usize, usize), beliefs: &Beliefs) -> Self {
        let labels = beliefs.labels();
        let full = (labels.max(2) as f32).ln();
        let entropy = |row: &[f32]| {
            let sum: f32 = row.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            sum / full
        };
        let values: Vec<f32> = beliefs.as_slice().chunks_exact(labels).map(entropy).collect();
        Self::numbers(size, &values, (0.0, 1.0), ColourMap::Inferno)
    }

    /// Where labels became right or wrong, over the picture in pale grey.
    ///
    /// `right` says for each pixel whether its label was right before and whether it is right after.
    pub fn changes(&self, right: impl Iterator<Item = (bool, bool)>) -> Self {
        let colour = |(pixel, right): (&[u8], (bool, bool))| {
            let light = pixel.iter().map(|&v| u32::from(v)).sum::<u32>() / 3;
            let pale = 150 + (light * 100 / 255) as u8;
            match right {
                (true, true) => [pale; 3],
                (false, true) => PUT_RIGHT,
                (true, false) => MADE_WRONG,
                (false, false) => STILL_WRONG,
            }
        };
        Self::from_pixels(self.width, self.height, self.rgb.chunks_exact(3).zip(right).map(colour))
    }

    /// The part of `size` whose upper left pixel is `corner`, as far as the picture goes.
    pub fn crop(&self, corner: (usize, usize), size: (usize, usize)) -> Self {
        let (left, right) = (corner.0.min(self.width), (corner.0 + size.0).min(self.width));
        let (top, bottom) = (corner.1.min(self.height), (corner.1 + size.1).min(self.height));
        let row = |y: usize| &self.rgb[3 * (y * self.width + left)..3 * (y * self.width + right)];
        let rgb = (top..bottom).flat_map(|y| row(y).iter().copied()).collect();
        Self { width: right - left, height: bottom - top, rgb }
    }

    /// At most `side` pixels wide and high, by leaving out pixels: labels do not mix.
    pub fn at_most(self, side: usize) -> Self {
        let every = self.width.max(self.height).div_ceil(side.max(1)).max(1);
        if every == 1 {
            return self;
        }
        let (width, height) = (self.width.div_ceil(every), self.height.div_ceil(every));
        let pixel = |x: usize, y: usize| {
            let at = 3 * (y * self.width + x);
            [self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]]
        };
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x * every, y * every)));
        Self::from_pixels(width, height, places.map(|(x, y)| pixel(x, y)))
    }

    /// As a PNG file.
    pub fn png(&self) -> Result<Vec<u8>> {
        let size = |n: usize| u32::try_from(n).context("a picture too large for PNG");
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size(self.width)?, size(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.rgb)?;
        writer.finish()?;
        Ok(bytes)
    }

    /// As a data URI, which needs no file.
    pub fn data_uri(&self) -> Result<String> {
        Ok(format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(self.png()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_have_the_documented_colours() {
        let size = (3, 1);
        let p = Picture::labels(size, &[0, 1, 255], 2, &Palette::voc());
        assert_eq!(p.rgb, [&[0, 0, 0][..], &[128, 0, 0], &UNKNOWN].concat());
        let p = Picture::numbers(size, &[0.0, 5.0, f32::INFINITY], (0.0, 5.0), ColourMap::Inferno);
        assert!(p.rgb[..3] < p.rgb[3..6] && p.rgb[6..] == UNKNOWN);
        let even = Beliefs::uniform(1, 4);
        assert_eq!(Picture::uncertainty((1, 1), &even).rgb, ColourMap::Inferno.colour(1.0));
        let grey = Image::new(1, 1, 1, vec![9.0]).unwrap();
        assert_eq!(Picture::photo(&grey).rgb, [9, 9, 9]);
        assert_ne!(ColourMap::Turbo.colour(0.3), ColourMap::Turbo.colour(0.32));
    }

    #[test]
    fn overlay_blends_colours_and_draws_borders() {
        let image = Image::new(4, 2, 3, vec![100.0; 24]).unwrap();
        let p = Picture::overlay(&image, &[0, 0, 1, 1, 0, 0, 1, 1], &Palette::voc());
        let row = [[50, 50, 50], [255; 3], [114, 50, 50], [114, 50, 50]].concat();
        assert_eq!(p.rgb, [row.clone(), row].concat());
    }

    #[test]
    fn photo_is_stretched_unless_its_values_are_bytes() {
        let rgb = |values: [f32; 2]| Picture::photo(&Image::new(2, 1, 1, values.to_vec()).unwrap()).rgb;
        assert_eq!(rgb([0.0, 200.0]), [0, 0, 0, 200, 200, 200]);
        assert_eq!(rgb([0.0, 0.5]), [0, 0, 0, 128, 128, 128]);
        assert_eq!(rgb([0.0, 65_535.0]), [0, 0, 0, 255, 255, 255]);
        assert_eq!(rgb([-1.0, 1.0]), [0, 0, 0, 255, 255, 255]);
        assert_eq!(rgb([0.0, 0.0]), [0; 6]);
    }

    #[test]
    fn changes_are_green_where_put_right_and_red_where_made_wrong() {
        let grey = Picture::photo(&Image::new(4, 1, 1, vec![0.0; 4]).unwrap());
        let p = grey.changes([(true, true), (false, true), (true, false), (false, false)].into_iter());
        assert_eq!(p.rgb, [[150; 3], PUT_RIGHT, MADE_WRONG, STILL_WRONG].concat());
    }

    #[test]
    fn crop_keeps_the_part_that_lies_in_the_picture() {
        let p = Picture::from_pixels(3, 2, (0..6).map(|v| [v; 3]));
        assert_eq!(p.crop((1, 0), (1, 2)), Picture::from_pixels(1, 2, [[1; 3], [4; 3]].into_iter()));
        assert_eq!(p.crop((2, 1), (5, 5)), Picture::from_pixels(1, 1, [[5; 3]].into_iter()));
        assert_eq!(p.crop((9, 9), (1, 1)).width, 0);
    }

    #[test]
    fn picture_survives_png_and_is_reduced_to_a_size() {
        let p = Picture::verdicts((5, 3), (0..15).map(|i| Some(i % 2 == 0)));
        let decoder = png::Decoder::new(std::io::Cursor::new(p.png().unwrap()));
        let reader = decoder.read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (5, 3));
        assert!(p.data_uri().unwrap().starts_with("data:image/png;base64,iVBORw0KGgo"));
        let small = p.clone().at_most(3);
        assert_eq!((small.width, small.height, small.rgb.len()), (3, 2, 18));
        assert_eq!(small.rgb[..3], p.rgb[..3]);
        assert_eq!(p.clone().at_most(5), p);
    }
}
