//! A picture of coloured things, what they are, and what a coarse classifier would say.

use rayon::prelude::*;

use super::material::{Material, lit};
use super::noise::{Noise, lerp, step};
use super::shape::Shape;
use super::{Stream, check_size, render};
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};
use relaxcrf::labeling::{Labeling, MAX_LABELS};
use relaxcrf::rng::Rng;

/// A generated segmentation problem.
#[derive(Debug, Clone)]
pub struct SegmentationScene {
    /// The picture, three channels.
    pub image: Image,
    /// What a classifier would say: one row of `labels` probabilities per pixel. Coarse and partly wrong.
    pub probabilities: Vec<f32>,
    /// The true labels.
    pub truth: Labeling,
    /// Number of labels. Label 0 is the backdrop, label 1 the ground (from three labels on), the others are things.
    pub labels: usize,
}

/// A thing that stands in front of the backdrop.
struct Thing {
    shape: Shape,
    label: u16,
    /// Things that stand lower are in front.
    foot: f64,
}

struct Scene {
    width: f64,
    height: f64,
    materials: Vec<Material>,
    ground: Option<Noise>,
    things: Vec<Thing>,
}

/// A scene of `width x height` pixels with `labels` kinds of surfaces.
///
/// The probabilities come from a grid about eight times coarser than the picture, blurred and upsampled as a
/// network's are, with smooth noise and a few confident mistakes.
pub fn segmentation(width: usize, height: usize, labels: usize, seed: u64) -> Result<SegmentationScene> {
    check_size(width, height)?;
    if !(2..=MAX_LABELS).contains(&labels) {
        return Err(Error::value("number of labels", labels, format!("2 to {MAX_LABELS}")));
    }
    if (width * height).saturating_mul(labels) > 1 << 33 {
        return Err(Error::value("number of labels", labels, format!("fewer for {width} x {height} pixels")));
    }
    let scene = Scene::new(width, height, labels, seed);
    let noise_stream = Stream::SensorNoise.rng(seed).next_u64();
    let image = render(width, height, 5.0, noise_stream, |x, y| scene.colour(x, y));
    let mut truth = vec![0u16; width * height];
    truth.par_chunks_mut(width).enumerate().for_each(|(y, row)| {
        row.iter_mut().enumerate().for_each(|(x, l)| *l = scene.label(x as f64, y as f64));
    });
    let probabilities = classify(width, height, labels, &truth, &mut Stream::Mistakes.rng(seed));
    Ok(SegmentationScene { image, probabilities, truth: Labeling::new(truth), labels })
}

impl Scene {
    fn new(width: usize, height: usize, labels: usize, seed: u64) -> Self {
        let (w, h) = (width as f64, height as f64);
        let mut rng = Stream::Materials.rng(seed);
        // Backdrop and ground go together: day, dusk, indoors. The things' hues keep away from theirs.
        let sets = [
            ([150.0, 190.0, 228.0], [224.0, 234.0, 240.0], [92.0, 128.0, 58.0], [58.0, 92.0, 44.0], 0.72),
            ([232.0, 168.0, 128.0], [168.0, 120.0, 150.0], [104.0, 92.0, 82.0], [70.0, 66.0, 66.0], 0.15),
            ([206.0, 200.0, 186.0], [184.0, 180.0, 174.0], [150.0, 108.0, 72.0], [118.0, 80.0, 50.0], 0.3),
        ];
        let (far, far2, near, near2, first_hue) = sets[rng.below(sets.len())];
        let scale = 300.0 / w.hypot(h).max(60.0);
        let mut materials = vec![Material::cloudy(&mut rng, far, far2, 0.012 * scale)];
        if labels > 2 {
            materials.push(Material::grainy(&mut rng, near, near2, 0.05 * scale));
        }
        while materials.len() < labels {
            // Steps of the golden ratio spread any number of hues round the circle.
            let hue = first_hue + 0.618_034 * materials.len() as f64 + rng.between(-0.03, 0.03);
            let frequency = rng.between(0.05, 0.09) * scale;
            materials.push(Material::coloured(&mut rng, hue, frequency));
        }
        let mut layout = Stream::Layout.rng(seed);
        let ground = (labels > 2).then(|| Noise::new(layout.next_u64()));
        let things = place_things(&mut layout, w, h, labels);
        Self { width: w, height: h, materials, ground, things }
    }

    fn is_ground(&self, x: f64, y: f64) -> bool {
        self.ground.is_some_and(|noise| {
            let horizon = 0.6 + 0.09 * noise.fractal(2.5 * x / self.width, 0.0, 4);
            y > self.height * horizon
        })
    }

    fn label(&self, x: f64, y: f64) -> u16 {
        let front = self.things.iter().rev().find(|t| t.shape.hit(x, y).is_some());
        front.map_or(u16::from(self.is_ground(x, y)), |t| t.label)
    }

    fn colour(&self, x: f64, y: f64) -> [f64; 3] {
        // Darker towards the corners, as lenses are.
        let (cx, cy) = (2.0 * x / self.width - 1.0, 2.0 * y / self.height - 1.0);
        let vignette = 1.0 - 0.09 * (cx * cx + cy * cy);
        let front = self.things.iter().rev().find_map(|t| t.shape.hit(x, y).map(|hit| (t, hit)));
        let colour = match front {
            Some((thing, hit)) => lit(self.materials[usize::from(thing.label)].colour(x, y), hit),
            None => self.backdrop(x, y),
        };
        colour.map(|c| c * vignette)
    }

    fn backdrop(&self, x: f64, y: f64) -> [f64; 3] {
        let down = y / self.height;
        if !self.is_ground(x, y) {
            let light = 1.04 - 0.16 * down;
            return self.materials[0].colour(x, y).map(|c| c * light);
        }
        // Seen at a slant: finer far away. Things throw soft shadows on it.
        let nearness = 0.4 + 0.9 * down;
        let offset = 0.03 * self.height;
        let shadow = self
            .things
            .iter()
            .filter_map(|t| t.shape.hit(x - offset, y - 0.6 * offset))
            .map(|hit| step(0.0, 0.25, hit.depth))
            .fold(0.0, f64::max);
        let light = (0.8 + 0.3 * down) * (1.0 - 0.3 * shadow);
        self.materials[1].colour(x / nearness, 2.0 * y / nearness).map(|c| c * light)
    }
}

/// At least one thing of every label beyond backdrop and ground, spread out, back to front.
fn place_things(rng: &mut Rng, w: f64, h: f64, labels: usize) -> Vec<Thing> {
    let first = if labels > 2 { 2 } else { 1 };
    let kinds = labels - first;
    // More kinds than this look alike in a picture, but each still gets its thing.
    let count = kinds.max(8).min(kinds.saturating_mul(4)).max(kinds);
    let typical = (0.11 * w * h / count as f64).sqrt().min(0.16 * w.min(h));
    let mut places: Vec<(f64, f64)> = Vec::with_capacity(count);
    let mut things = Vec::with_capacity(count);
    for i in 0..count {
        // Trees stand on the ground if there is one.
        let kind = rng.below(3);
        let (low, high) = if kind == 0 && first == 2 { (0.38, 0.75) } else { (0.1, 0.9) };
        // The candidate furthest from all others; few candidates when there are many others to ask.
        let candidates = (2000 / (i + 1)).clamp(2, 12);
        let mut best = ((0.5 * w, 0.5 * h), -1.0);
        for _ in 0..candidates {
            let p = (rng.between(0.06, 0.94) * w, rng.between(low, high) * h);
            let nearest = places.iter().map(|q| (p.0 - q.0).hypot(p.1 - q.1)).fold(f64::MAX, f64::min);
            if nearest > best.1 {
                best = (p, nearest);
            }
        }
        let (x, y) = best.0;
        places.push((x, y));
        let size = typical * rng.between(0.75, 1.3);
        let shape = match kind {
            0 => Shape::tree(rng, x, y, size),
            1 => {
                let limbs = 2 + rng.below(3);
                Shape::creature(rng, x, y, 0.9 * size, limbs)
            }
            _ => {
                let limbs = rng.below(2);
                Shape::creature(rng, x, y, 1.15 * size, limbs)
            }
        };
        things.push(Thing { shape, label: (first + i % kinds) as u16, foot: y });
    }
    things.sort_by(|a, b| a.foot.total_cmp(&b.foot));
    things
}

/// The rows of a coarse, noisy classifier that has looked at the truth.
pub(super) fn classify(width: usize, height: usize, labels: usize, truth: &[u16], rng: &mut Rng) -> Vec<f32> {
    let cell = (width.max(height) as f64 / 36.0).round().max(2.0) as usize;
    let (columns, rows) = (width.div_ceil(cell), height.div_ceil(cell));
    let mut fractions = vec![0f32; columns * rows * labels];
    let mut counts = vec![0f32; columns * rows];
    for (pixel, &label) in truth.iter().enumerate() {
        let at = (pixel / width / cell) * columns + pixel % width / cell;
        fractions[at * labels + usize::from(label)] += 1.0;
        counts[at] += 1.0;
    }
    fractions
        .chunks_exact_mut(labels)
        .zip(&counts)
        .for_each(|(row, &n)| row.iter_mut().for_each(|v| *v /= n.max(1.0)));
    let mut logits = blur(&fractions, columns, rows, labels);
    let noise = Noise::new(rng.next_u64());
    logits.par_chunks_mut(labels).enumerate().for_each(|(at, row)| {
        let (x, y) = ((at % columns) as f64, (at / columns) as f64);
        for (l, v) in row.iter_mut().enumerate() {
            // Far-apart slices of one field serve as independent fields for the labels.
            *v = 4.6 * *v + 2.3 * noise.fractal(0.3 * x + 977.0 * l as f64, 0.3 * y, 3) as f32;
        }
    });
    confident_mistakes(&mut logits, columns, rows, labels, rng);
    upsample(&logits, columns, rows, labels, width, height, cell)
}

/// A three by three binomial blur of every channel; the border repeats.
fn blur(input: &[f32], columns: usize, rows: usize, channels: usize) -> Vec<f32> {
    let pass = |from: &[f32], dx: usize, dy: usize| {
        let mut to = vec![0f32; from.len()];
        to.par_chunks_mut(channels).enumerate().for_each(|(at, out)| {
            let (x, y) = (at % columns, at / columns);
            let before = y.saturating_sub(dy) * columns + x.saturating_sub(dx);
            let after = (y + dy).min(rows - 1) * columns + (x + dx).min(columns - 1);
            for (c, v) in out.iter_mut().enumerate() {
                let value = |p: usize| from[p * channels + c];
                *v = 0.25 * value(before) + 0.5 * value(at) + 0.25 * value(after);
            }
        });
        to
    };
    pass(&pass(input, 1, 0), 0, 1)
}

/// Round patches, a few cells wide, where one wrong label is believed.
fn confident_mistakes(logits: &mut [f32], columns: usize, rows: usize, labels: usize, rng: &mut Rng) {
    for _ in 0..(columns * rows / 80).max(2) {
        let (cx, cy) = (rng.next_f64() * columns as f64, rng.next_f64() * rows as f64);
        let label = rng.below(labels);
        let (radius, strength) = (rng.between(0.8, 1.6), rng.between(3.5, 6.0));
        for (at, row) in logits.chunks_exact_mut(labels).enumerate() {
            let (dx, dy) = ((at % columns) as f64 + 0.5 - cx, (at / columns) as f64 + 0.5 - cy);
            row[label] += (strength * (-(dx * dx + dy * dy) / (2.0 * radius * radius)).exp()) as f32;
        }
    }
}

/// Bilinear interpolation between the cells' centres, then softmax over the labels.
fn upsample(
    logits: &[f32],
    columns: usize,
    rows: usize,
    labels: usize,
    width: usize,
    height: usize,
    cell: usize,
) -> Vec<f32> {
    let mut out = vec![0f32; width * height * labels];
    let place = |i: usize, n: usize| {
        let v = (((i as f64 + 0.5) / cell as f64) - 0.5).clamp(0.0, (n - 1) as f64);
        (v as usize, (v as usize + 1).min(n - 1), v.fract())
    };
    out.par_chunks_mut(width * labels).enumerate().for_each(|(y, line)| {
        let (top, bottom, ty) = place(y, rows);
        for (x, row) in line.chunks_exact_mut(labels).enumerate() {
            let (left, right, tx) = place(x, columns);
            let mut highest = f64::MIN;
            for (l, v) in row.iter_mut().enumerate() {
                let at = |cx: usize, cy: usize| f64::from(logits[(cy * columns + cx) * labels + l]);
                let z = lerp(
                    lerp(at(left, top), at(right, top), tx),
                    lerp(at(left, bottom), at(right, bottom), tx),
                    ty,
                );
                highest = highest.max(z);
                *v = z as f32;
            }
            let mut sum = 0.0;
            for v in row.iter_mut() {
                let e = (f64::from(*v) - highest).exp();
                sum += e;
                *v = e as f32;
            }
            row.iter_mut().for_each(|v| *v = (f64::from(*v) / sum) as f32);
        }
    });
    out
}
