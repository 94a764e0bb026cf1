//! Depth and point clouds from disparities and a calibration.

use relaxcrf::Image;
use relaxcrf::error::{Error, Result};

/// A calibrated rectified pair: depth = focal length x baseline / (disparity + offset).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// In pixels.
    pub focal_length: f64,
    /// Column and row of the left camera's centre.
    pub centre: [f64; 2],
    /// In the unit that depths will have.
    pub baseline: f64,
    /// What is added to disparities: the right centre's column minus the left one's.
    pub offset: f64,
}

impl Calibration {
    /// Reads a Middlebury `calib.txt` (cam0, doffs, baseline), or the 16 numbers of a reprojection matrix Q, row by row.
    pub fn parse(text: &str) -> Result<Self> {
        let found = if text.contains("cam0") { Self::from_middlebury(text) } else { Self::from_q(text) };
        found.filter(Self::is_valid).ok_or_else(|| {
            Error::parse(
                "calibration",
                text.lines().next().unwrap_or_default(),
                "expected a Middlebury calib.txt with cam0, doffs and baseline, or the 16 numbers of a matrix Q; focal \
                 length and baseline must not be 0",
            )
        })
    }

    fn from_middlebury(text: &str) -> Option<Self> {
        let value =
            |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        let camera = numbers(value("cam0")?)?;
        let number = |name: &str| value(name)?.trim().parse::<f64>().ok();
        let [f, _, cx, _, _, cy, ..] = camera[..] else { return None };
        let offset = if text.contains("doffs") { number("doffs")? } else { 0.0 };
        Some(Self { focal_length: f, centre: [cx, cy], baseline: number("baseline")?, offset })
    }

    fn from_q(text: &str) -> Option<Self> {
        let q: [f64; 16] = numbers(text)?.try_into().ok()?;
        // Z / W = Q[2][3] / (Q[3][2] d + Q[3][3]); signs depend on the order of the cameras.
        Some(Self {
            focal_length: q[11],
            centre: [-q[3], -q[7]],
            baseline: 1.0 / q[14].abs(),
            offset: q[15] / q[14],
        })
    }

    fn is_valid(&self) -> bool {
        let is_positive = |v: f64| v > 0.0 && v.is_finite();
        is_positive(self.focal_length)
            && is_positive(self.baseline)
            && self.offset.is_finite()
            && self.centre.iter().all(|c| c.is_finite())
    }

    /// Depths, infinite where disparity and offset are 0 or less in sum.
    pub fn depths(&self, disparities: &[f32]) -> Vec<f32> {
        let depth = |&d: &f32| {
            let shift = f64::from(d) + self.offset;
            if shift > 0.0 { (self.focal_length * self.baseline / shift) as f32 } else { f32::INFINITY }
        };
        disparities.iter().map(depth).collect()
    }

    /// A coloured point cloud of all finite depths, as a binary PLY file.
    pub fn points(&self, image: &Image, disparities: &[f32]) -> Vec<u8> {
        let mut body = Vec::new();
        let mut count = 0usize;
        for (a, depth) in self.depths(disparities).into_iter().enumerate().filter(|(_, z)| z.is_finite()) {
            let pixel = [(a % image.width) as f64, (a / image.width) as f64];
            for (at, centre) in pixel.iter().zip(&self.centre) {
                body.extend(((f64::from(depth) * (at - centre) / self.focal_length) as f32).to_le_bytes());
            }
            body.extend(depth.to_le_bytes());
            let colours = image.pixel(a % image.width, a / image.width);
            let byte = |v: f32| v.round().clamp(0.0, 255.0) as u8;
            match colours {
                [r, g, b, ..] => body.extend([byte(*r), byte(*g), byte(*b)]),
                _ => body.extend([byte(colours[0]); 3]),
            }
            count += 1;
        }
        let mut file = format!("ply\nformat binary_little_endian 1.0\nelement vertex {count}\n").into_bytes();
        for name in ["x", "y", "z"] {
            file.extend(format!("property float {name}\n").bytes());
        }
        for name in ["red", "green", "blue"] {
            file.extend(format!("property uchar {name}\n").bytes());
        }
        file.extend(b"end_header\n");
        file.extend(body);
        file
    }
}

/// All numbers of a text in which brackets, commas and semicolons separate.
fn numbers(text: &str) -> Option<Vec<f64>> {
    let words = text.split(|c: char| c.is_whitespace() || "[],;()".contains(c)).filter(|w| !w.is_empty());
    words.map(|w| w.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLEBURY: &str = "cam0=[1000.0 0 320.5; 0 1000.0 240; 0 0 1]\ncam1=[1000.0 0 330.5; 0 1000.0 240; 0 0 1]\ndoffs=10\nbaseline=200\n";

    #[test]
    fn depth_follows_the_formula_of_both_formats() {
        let calibration = Calibration::parse(MIDDLEBURY).unwrap();
        assert_eq!(calibration.centre, [320.5, 240.0]);
        assert_eq!(calibration.depths(&[90.0, 0.0, -10.0]), [2000.0, 20000.0, f32::INFINITY]);
        let q = "[1 0 0 -320.5; 0 1 0 -240; 0 0 0 1000; 0 0 0.005 0.05]";
        assert_eq!(Calibration::parse(q).unwrap(), calibration);
    }

    #[test]
    fn bad_calibrations_are_refused() {
        for text in [
            "",
            "1 2 3",
            "cam0=[0 0 0; 0 0 0; 0 0 1]\nbaseline=1",
            "cam0=x\nbaseline=1",
            "cam0=[1 0 0;0 1 0]",
        ] {
            let message = Calibration::parse(text).unwrap_err().to_string();
            assert!(message.contains("calib.txt"), "{message}");
        }
    }

    #[test]
    fn points_lie_on_their_rays_and_keep_their_colours() {
        let image = Image::new(2, 1, 3, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let calibration = Calibration { focal_length: 10.0, centre: [0.0, 0.0], baseline: 2.0, offset: 0.0 };
        let file = calibration.points(&image, &[0.0, 4.0]);
        let header = b"end_header\n";
        let start = file.windows(header.len()).position(|w| w == header).unwrap() + header.len();
        let text = String::from_utf8_lossy(&file[..start]);
        assert!(text.contains("element vertex 1\n"), "{text}");
        let body = &file[start..];
        let float = |k: usize| f32::from_le_bytes(body[4 * k..4 * k + 4].try_into().unwrap());
        assert_eq!([float(0), float(1), float(2)], [0.5, 0.0, 5.0]);
        assert_eq!(body[12..], [4, 5, 6]);
    }
}
