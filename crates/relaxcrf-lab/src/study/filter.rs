//! `relaxcrf study filter`: the permutohedral lattice against the true Gaussian sums.
//!
//! On a grid both sums over all pixels and over those before and after in raster order are products of
//! one-dimensional sums, so the truth costs next to nothing even for large images.

use std::f64::consts::PI;
use std::path::{Path, PathBuf};

use anyhow::Result;
use relaxcrf::Image;
use relaxcrf::filter::{Blur, Lattice, Operator, OrderedMode, Scaling, Workspace, calibrate, ordered};
use relaxcrf_io as io;
use serde::Serialize;

use crate::outputs::{check_writable, make_directory};
use crate::progress::{Observer, Part};
use crate::report::page::{Block, Page, Section, write_text};
use crate::report::plot::{Axis, Plot, Series};
use crate::report::sheet::{Best, Cell, Sheet};
use crate::synth;

/// Above this many pixels the half sums, which take the lattice O(log N) calls, are left out.
const MAX_FOR_HALVES: usize = 20_000;

/// Pixels at which sums over position and colour are compared.
const SAMPLES: usize = 400;

/// Standard deviations of position and colour that are tried on an image.
const BILATERAL: [(f32, f32); 9] = [
    (10.0, 5.0),
    (10.0, 13.0),
    (10.0, 40.0),
    (50.0, 5.0),
    (50.0, 13.0),
    (50.0, 40.0),
    (80.0, 5.0),
    (80.0, 13.0),
    (80.0, 40.0),
];

const ABOUT: &str = "\
Left out of the paper's appendix on filter accuracy is where its constants come from. It reports that brute-force sums \
are 0.6 times the lattice's (all ones as input) and 0.48 times for the difference of the sums before and after each \
pixel. Both follow from comparing the lattice with exp(-|f|^2) where the lattice stands for exp(-|f|^2 / 2): without the \
1/2 a sum over the plane is half as large. With the right exponent both ratios are close to one number, which follows from \
the lattice's geometry: (2 pi)^(d/2) (d+1)^(1/2) (1 + 2^-d) / ((3/2)^(d/2) 2^(d+1)), 1.134 for positions in the plane. Small \
images and large sigmas deviate because much of the Gaussian lies outside the image.";

const ABOUT_BILATERAL: &str = "\
With colours the points are sparse in five dimensions, and the constant of five dimensions, 1.417, does not fit: the \
factor that fits best depends on the image and on sigma. This is why kernels are normalised, or calibrated on a sample of pixels (--calibrate), and why an \
energy belongs to an operator.";

/// What was measured for one image size and sigma.
#[derive(Debug, Serialize)]
struct Line {
    pixels: usize,
    sigma: f64,
    full: Ratio,
    /// Against `exp(-|f|²)`, as in the paper.
    full_paper: Ratio,
    half: Option<Ratio>,
    half_paper: Option<Ratio>,
}

/// True over lattice.
#[derive(Debug, Clone, Copy, Serialize)]
struct Ratio {
    /// The factor that fits best.
    ratio: f64,
    /// Cosine of the angle between the two vectors: 1 if they have the same direction.
    cosine: f64,
}

/// A kernel on position and colour.
#[derive(Debug, Serialize)]
struct Sparse {
    sigma_xy: f32,
    sigma_rgb: f32,
    vertices_per_pixel: f64,
    ratio: f32,
    error: f32,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub struct FilterStudy {
    plane_constant: f64,
    positions: Vec<Line>,
    bilateral: Vec<Sparse>,
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct FilterStudyOptions {
    /// Directory for filter.html, filter.md, filter.csv and the plots; made if absent.
    pub out: PathBuf,
    /// Standard deviations in pixels.
    pub sigmas: Vec<f64>,
    /// Sides of the square images.
    pub sides: Vec<u32>,
    /// Image for the kernels on position and colour; `None`: a generated scene.
    pub image: Option<PathBuf>,
    /// Seed of the scene and of the sampled pixels.
    pub seed: u64,
}

/// Measures the lattice against the true sums and writes the report.
pub fn run(args: &FilterStudyOptions, observer: &dyn Observer) -> Result<FilterStudy> {
    let image = match &args.image {
        Some(path) => io::read_image(path)?,
        None => synth::segmentation(320, 213, 6, args.seed)?.image,
    };
    make_directory(&args.out)?;
    for name in ["filter.html", "filter.md", "filter.csv"] {
        check_writable(&args.out.join(name), &[])?;
    }
    let meter = observer.follow(&Part::whole(), "comparing sums");
    let mut positions = Vec::new();
    for &sigma in &args.sigmas {
        for &side in &args.sides {
            meter.say(&format!("sigma {sigma}, {side} x {side} pixels"));
            positions.push(line(side as usize, side as usize, sigma)?);
        }
    }
    meter.say("sigma 50, 320 x 213 pixels");
    let paper = line(320, 213, 50.0)?;
    let bilateral = BILATERAL.iter().map(|&s| sparse(&image, s, args.seed)).collect::<Result<Vec<_>>>()?;
    drop(meter);
    positions.push(paper);
    let study = FilterStudy { plane_constant: constant(2), positions, bilateral };
    write(&study, args)?;
    Ok(study)
}

/// What a dense plane of points in `d` dimensions makes of the lattice.
fn constant(d: i32) -> f64 {
    let half = f64::from(d) / 2.0;
    (2.0 * PI).powf(half) * f64::from(d + 1).sqrt() * (1.0 + 2f64.powi(-d))
        / (1.5f64.powf(half) * 2f64.powi(d + 1))
}

fn line(width: usize, height: usize, sigma: f64) -> Result<Line> {
    let pixels = width * height;
    let place = |a: usize| [(a % width) as f64 / sigma, (a / width) as f64 / sigma];
    let features: Vec<f32> = (0..pixels).flat_map(place).map(|v| v as f32).collect();
    let lattice = Lattice::new(&features, 2, Blur::Classic)?;
    let full = lattice.normalizer();
    let half = (pixels <= MAX_FOR_HALVES).then(|| {
        let order: Vec<f32> = (0..pixels).map(|a| a as f32 / pixels as f32).collect();
        let mut out = vec![0.0; pixels];
        let mode = OrderedMode::DivideAndConquer { leaf: 1 };
        ordered(&lattice, &order, 1, mode, Scaling::NONE, &mut out, &mut Workspace::new());
        out
    });
    // Without the 1/2 in its exponent a Gaussian is one of a standard deviation smaller by the root of 2.
    let [(true_full, true_half), (paper_full, paper_half)] =
        [sigma, sigma / 2f64.sqrt()].map(|s| true_sums(width, height, s));
    Ok(Line {
        pixels,
        sigma,
        full: Ratio::of(&true_full, &full),
        full_paper: Ratio::of(&paper_full, &full),
        half: half.as_ref().map(|h| Ratio::of(&true_half, h)),
        half_paper: half.as_ref().map(|h| Ratio::of(&paper_half, h)),
    })
}

/// For every pixel the sum of its Gaussian over all pixels, and over those before it less those after it in
/// raster order.
fn true_sums(width: usize, height: usize, sigma: f64) -> (Vec<f64>, Vec<f64>) {
    let kernel = |distance: usize| (-0.5 * (distance as f64 / sigma).powi(2)).exp();
    // Before, at and after each place on a line.
    let sums = |n: usize| -> Vec<(f64, f64)> {
        let mut reach = vec![0.0];
        for d in 1..n {
            reach.push(reach[d - 1] + kernel(d));
        }
        (0..n).map(|x| (reach[x], reach[n - 1 - x])).collect()
    };
    let (columns, rows) = (sums(width), sums(height));
    let mut full = Vec::with_capacity(width * height);
    let mut half = Vec::with_capacity(width * height);
    for &(above, below) in &rows {
        for &(left, right) in &columns {
            let across = left + 1.0 + right;
            full.push(across * (above + 1.0 + below));
            half.push(across * (above - below) + left - right);
        }
    }
    (full, half)
}

impl Ratio {
    fn of(truth: &[f64], lattice: &[f32]) -> Self {
        let dot = |f: &dyn Fn(usize) -> f64| (0..truth.len()).map(f).sum::<f64>();
        let both = dot(&|a| truth[a] * f64::from(lattice[a]));
        let own = dot(&|a| f64::from(lattice[a]).powi(2));
        let length = dot(&|a| truth[a] * truth[a]);
        let least = f64::MIN_POSITIVE;
        Self { ratio: both / own.max(least), cosine: both / (own * length).sqrt().max(least) }
    }
}

fn sparse(image: &Image, (sigma_xy, sigma_rgb): (f32, f32), seed: u64) -> Result<Sparse> {
    let channels = image.channels;
    let features: Vec<f32> = (0..image.pixels())
        .flat_map(|a| {
            let (x, y) = ((a % image.width) as f32, (a / image.width) as f32);
            let colour = &image.data[a * channels..][..channels];
            [x / sigma_xy, y / sigma_xy].into_iter().chain(colour.iter().map(move |c| c / sigma_rgb))
        })
        .collect();
    let dims = channels + 2;
    let lattice = Lattice::new(&features, dims, Blur::Classic)?;
    let found = calibrate(&lattice, &features, dims, SAMPLES, seed)?;
    Ok(Sparse {
        sigma_xy,
        sigma_rgb,
        vertices_per_pixel: lattice.vertices() as f64 / image.pixels() as f64,
        ratio: found.scale,
        error: found.rms_error,
    })
}

impl FilterStudy {
    /// Both tables for a terminal.
    pub fn terminal(&self) -> String {
        format!("{}\n\n{}", self.sheet().terminal(), self.bilateral_sheet().terminal())
    }

    fn sheet(&self) -> Sheet {
        let names =
            ["sigma", "pixels", "full", "cosine", "half", "half: cosine", "full, no 1/2", "half, no 1/2"];
        let mut sheet = Sheet::new(&names.map(|n| (n, Best::None)));
        for l in &self.positions {
            let three = |v: Option<f64>| Cell::number(v, |v| format!("{v:.3}"));
            let five = |v: Option<f64>| Cell::number(v, |v| format!("{v:.5}"));
            sheet.add(vec![
                Cell::number(l.sigma, |v| v.to_string()),
                Cell::number(l.pixels as f64, |v| format!("{v:.0}")),
                three(Some(l.full.ratio)),
                five(Some(l.full.cosine)),
                three(l.half.map(|h| h.ratio)),
                five(l.half.map(|h| h.cosine)),
                three(Some(l.full_paper.ratio)),
                three(l.half_paper.map(|h| h.ratio)),
            ]);
        }
        sheet
    }

    fn bilateral_sheet(&self) -> Sheet {
        let names = ["sigma", "colour sigma", "vertices per pixel", "true / lattice", "error after scaling"];
        let mut sheet = Sheet::new(&names.map(|n| (n, Best::None)));
        for s in &self.bilateral {
            sheet.add(vec![
                Cell::number(f64::from(s.sigma_xy), |v| v.to_string()),
                Cell::number(f64::from(s.sigma_rgb), |v| v.to_string()),
                Cell::number(s.vertices_per_pixel, |v| format!("{v:.3}")),
                Cell::number(f64::from(s.ratio), |v| format!("{v:.3}")),
                Cell::number(f64::from(s.error), crate::report::percent),
            ]);
        }
        sheet
    }

    /// True over lattice by image size, one curve per sigma, with file names.
    fn plots(&self) -> [(&'static str, Plot); 4] {
        let right = ("constant of the plane", self.plane_constant);
        let plot = |title: &str, rules: &[(&str, f64)], value: &dyn Fn(&Line) -> Option<f64>| {
            let mut sigmas: Vec<f64> = self.positions.iter().map(|l| l.sigma).collect();
            sigmas.dedup();
            let mut plot = Plot::new(title, Axis::log("pixels"), Axis::linear("true / lattice"));
            for sigma in sigmas {
                let mut points: Vec<(f64, f64)> = self
                    .positions
                    .iter()
                    .filter(|l| l.sigma == sigma)
                    .filter_map(|l| value(l).map(|v| (l.pixels as f64, v)))
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                if !plot.series.iter().any(|s| s.points == points) {
                    plot = plot.with(Series::new(format!("sigma {sigma}"), points));
                }
            }
            rules.iter().fold(plot, |plot, rule| plot.with_rule(rule.0, rule.1))
        };
        let half = [("half of the constant", self.plane_constant / 2.0), ("0.6, the paper's", 0.6)];
        let halves = [("0.48, the paper's", 0.48)];
        [
            ("full", plot("All pixels", &[right], &|l| Some(l.full.ratio))),
            ("half", plot("Before less after", &[right], &|l| l.half.map(|h| h.ratio))),
            ("full-no-half", plot("All pixels, exponent without 1/2", &half, &|l| Some(l.full_paper.ratio))),
            (
                "half-no-half",
                plot("Before less after, exponent without 1/2", &halves, &|l| l.half_paper.map(|h| h.ratio)),
            ),
        ]
    }
}

fn write(study: &FilterStudy, args: &FilterStudyOptions) -> Result<()> {
    let out: &Path = &args.out;
    let plots = study.plots();
    let mut markdown = format!("# The lattice against true sums\n\n{ABOUT}\n\n");
    for (name, plot) in &plots {
        write_text(&out.join(format!("filter-{name}.svg")), &plot.file())?;
        markdown += &format!("![{}](filter-{name}.svg)\n", plot.title);
    }
    markdown += &format!(
        "\n{}\n{ABOUT_BILATERAL}\n\n{}",
        study.sheet().markdown(),
        study.bilateral_sheet().markdown()
    );
    write_text(&out.join("filter.md"), &markdown)?;
    write_text(&out.join("filter.csv"), &study.sheet().csv())?;
    let page = Page {
        title: "The lattice against true Gaussian sums".into(),
        lead: "How much larger the true sums are than the lattice's, and whether they point the same way."
            .into(),
        sections: vec![
            Section::new("Positions")
                .with(Block::Text(ABOUT.into()))
                .with(Block::Plots(plots.into_iter().map(|p| p.1).collect()))
                .with(Block::Table(study.sheet())),
            Section::new("Positions and colours")
                .with(Block::Text(ABOUT_BILATERAL.into()))
                .with(Block::Table(study.bilateral_sheet())),
        ],
    };
    page.write(&out.join("filter.html"))
}

#[cfg(test)]
mod tests {
    use relaxcrf::filter::{Direction, Exact, Ordered};

    use super::*;

    #[test]
    fn true_sums_equal_the_exact_filter() {
        let (width, height, sigma) = (7, 5, 1.7);
        let features: Vec<f32> = (0..width * height)
            .flat_map(|a| [(a % width) as f32 / sigma as f32, (a / width) as f32 / sigma as f32])
            .collect();
        let exact = Exact::new(features, 2).unwrap();
        let n = width * height;
        let (full, half) = true_sums(width, height, sigma);
        let mut out = vec![0.0; n];
        exact.apply(Direction::Forward, &vec![1.0; n], 1, Scaling::NONE, &mut out, &mut Workspace::new());
        let order: Vec<f32> = (0..n).map(|a| a as f32 / n as f32).collect();
        let mut z = vec![0.0; n];
        exact.apply_ordered(&order, 1, Scaling::NONE, &mut z, &mut Workspace::new());
        for a in 0..n {
            assert!((full[a] - f64::from(out[a])).abs() < 1e-4, "{a}");
            assert!((half[a] - f64::from(z[a])).abs() < 1e-4, "{a}");
        }
    }

    #[test]
    fn lattice_constants_equal_known_values() {
        for (d, expected) in [(1, 1.0854), (2, 1.1336), (5, 1.4174), (7, 1.6749)] {
            assert!((constant(d) - expected).abs() < 1e-4, "{d}");
        }
        // In the middle of a large image both ratios come close to it.
        let line = line(60, 60, 3.0).unwrap();
        assert!((line.full.ratio - 1.13).abs() < 0.03 && line.full.cosine > 0.999, "{line:?}");
        assert!((line.half.unwrap().ratio - 1.13).abs() < 0.06, "{line:?}");
        // And where the paper's numbers come from.
        assert!((line.full_paper.ratio - 0.58).abs() < 0.02, "{line:?}");
        assert!((line.half_paper.unwrap().ratio - 0.47).abs() < 0.04, "{line:?}");
    }
}
