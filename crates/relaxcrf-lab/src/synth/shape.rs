//! Outlines: round bodies with wavy edges, and tapering limbs.

use std::f64::consts::TAU;

use relaxcrf::rng::Rng;

/// Where a point lies in a shape that covers it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// 0 at the outline, 1 in the middle.
    pub depth: f64,
    /// Horizontal part of the surface's normal, as if the shape were inflated.
    pub nx: f64,
    /// Vertical part.
    pub ny: f64,
}

/// A union of parts.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    parts: Vec<Part>,
    centre: (f64, f64),
    /// No point further from the centre is covered.
    reach: f64,
}

#[derive(Debug, Clone)]
enum Part {
    /// An ellipse whose radius varies with the angle.
    Blob { x: f64, y: f64, radii: (f64, f64), turn: (f64, f64), waves: [(f64, f64); 4] },
    /// A curve of points, thick at its start and thin at its end.
    Limb { points: Vec<(f64, f64)>, thick: f64, thin: f64 },
}

impl Shape {
    /// A body of the given size with `limbs` thin parts that reach out of it.
    pub fn creature(rng: &mut Rng, x: f64, y: f64, size: f64, limbs: usize) -> Self {
        let mut parts = vec![blob(rng, x, y, size)];
        let first = rng.between(0.0, TAU);
        for i in 0..limbs {
            let angle = first + TAU * (i as f64 + rng.between(-0.25, 0.25)) / limbs as f64;
            parts.push(limb(rng, (x, y), angle, size));
        }
        Self::new(parts, (x, y))
    }

    /// A trunk with a crown of several bodies.
    pub fn tree(rng: &mut Rng, x: f64, y: f64, size: f64) -> Self {
        let lean = rng.between(-0.2, 0.2) * size;
        let top = (x + lean, y - 0.35 * size);
        let foot = (x, y + 1.35 * size);
        let bend = rng.between(-0.15, 0.15) * size;
        let points = curve(foot, ((x + lean / 2.0) + bend, y + 0.5 * size), top);
        let mut parts = vec![Part::Limb { points, thick: 0.13 * size + 0.8, thin: 0.05 * size + 0.6 }];
        for _ in 0..3 + rng.below(3) {
            let (dx, dy) = (rng.between(-0.5, 0.5) * size, rng.between(-0.45, 0.3) * size);
            let radius = rng.between(0.35, 0.6) * size;
            parts.push(blob(rng, top.0 + dx, top.1 + dy, radius));
        }
        Self::new(parts, (x, y))
    }

    fn new(parts: Vec<Part>, centre: (f64, f64)) -> Self {
        let far = |x: f64, y: f64, r: f64| (x - centre.0).hypot(y - centre.1) + r;
        let reach = parts
            .iter()
            .map(|part| match part {
                // The waves add at most 0.44 of the radius.
                Part::Blob { x, y, radii, .. } => far(*x, *y, 1.5 * radii.0.max(radii.1)),
                Part::Limb { points, thick, thin } => {
                    points.iter().map(|p| far(p.0, p.1, thick.max(*thin))).fold(0.0, f64::max)
                }
            })
            .fold(0.0, f64::max);
        Self { parts, centre, reach }
    }

    /// The part that covers a point most deeply.
    pub fn hit(&self, x: f64, y: f64) -> Option<Hit> {
        let (dx, dy) = (x - self.centre.0, y - self.centre.1);
        if dx * dx + dy * dy > self.reach * self.reach {
            return None;
        }
        self.parts.iter().filter_map(|p| p.hit(x, y)).max_by(|a, b| a.depth.total_cmp(&b.depth))
    }
}

impl Part {
    fn hit(&self, px: f64, py: f64) -> Option<Hit> {
        match self {
            Self::Blob { x, y, radii, turn: (cos, sin), waves } => {
                let (dx, dy) = (px - x, py - y);
                let (u, v) = ((dx * cos + dy * sin) / radii.0, (dy * cos - dx * sin) / radii.1);
                // Most points are far outside: no angles for them. The waves add at most 0.44 to the radius.
                let squared = u * u + v * v;
                if squared > 1.5 * 1.5 {
                    return None;
                }
                let rho = squared.sqrt();
                let angle = v.atan2(u);
                let wave =
                    |(k, &(a, phase)): (usize, &(f64, f64))| a * ((k + 2) as f64 * angle + phase).cos();
                let radius = 1.0 + waves.iter().enumerate().map(wave).sum::<f64>();
                let depth = 1.0 - rho / radius;
                let distance = (dx * dx + dy * dy).sqrt().max(1e-9);
                let tilt = 1.0 - depth;
                (depth > 0.0).then(|| Hit { depth, nx: tilt * dx / distance, ny: tilt * dy / distance })
            }
            Self::Limb { points, thick, thin } => {
                let mut best: Option<Hit> = None;
                let pieces = (points.len() - 1) as f64;
                for (i, ends) in points.windows(2).enumerate() {
                    let ((ax, ay), (bx, by)) = (ends[0], ends[1]);
                    let (ex, ey) = (bx - ax, by - ay);
                    let t =
                        (((px - ax) * ex + (py - ay) * ey) / (ex * ex + ey * ey).max(1e-12)).clamp(0.0, 1.0);
                    let (dx, dy) = (px - ax - t * ex, py - ay - t * ey);
                    let width = thick + (thin - thick) * (i as f64 + t) / pieces;
                    let squared = dx * dx + dy * dy;
                    if squared >= width * width {
                        continue;
                    }
                    let depth = 1.0 - squared.sqrt() / width;
                    if depth > best.map_or(0.0, |b| b.depth) {
                        best = Some(Hit { depth, nx: dx / width, ny: dy / width });
                    }
                }
                best
            }
        }
    }
}

fn blob(rng: &mut Rng, x: f64, y: f64, size: f64) -> Part {
    let stretch = rng.between(0.72, 1.35);
    let (sin, cos) = rng.between(0.0, TAU).sin_cos();
    let mut waves = [(0.0, 0.0); 4];
    for (wave, most) in waves.iter_mut().zip([0.16, 0.13, 0.09, 0.06]) {
        *wave = (rng.between(0.2, 1.0) * most, rng.between(0.0, TAU));
    }
    Part::Blob { x, y, radii: (size * stretch, size / stretch), turn: (cos, sin), waves }
}

fn limb(rng: &mut Rng, from: (f64, f64), angle: f64, size: f64) -> Part {
    let length = size * rng.between(1.5, 2.3);
    let bend = angle + rng.between(-0.9, 0.9);
    let middle = (from.0 + 0.6 * length * angle.cos(), from.1 + 0.6 * length * angle.sin());
    let end = (middle.0 + 0.5 * length * bend.cos(), middle.1 + 0.5 * length * bend.sin());
    Part::Limb { points: curve(from, middle, end), thick: 0.16 * size + 0.8, thin: 0.03 * size + 0.7 }
}

/// A quadratic curve as a chain of straight pieces.
fn curve(a: (f64, f64), b: (f64, f64), c: (f64, f64)) -> Vec<(f64, f64)> {
    let at = |t: f64| {
        let (u, v, w) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
        (u * a.0 + v * b.0 + w * c.0, u * a.1 + v * b.1 + w * c.1)
    };
    (0..=10).map(|i| at(f64::from(i) / 10.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_stay_within_their_reach_and_contain_their_centre() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let limbs = rng.below(5);
            let shape = Shape::creature(&mut rng, 50.0, 40.0, 10.0, limbs);
            assert!(shape.hit(50.0, 40.0).is_some_and(|h| h.depth > 0.9));
            let unbounded = Shape { reach: f64::INFINITY, ..shape.clone() };
            for i in 0..2000 {
                let (x, y) = (f64::from(i % 50) * 2.0, f64::from(i / 50) * 2.0);
                assert_eq!(shape.hit(x, y).is_some(), unbounded.hit(x, y).is_some(), "{x} {y}");
                if let Some(hit) = shape.hit(x, y) {
                    assert!((0.0..=1.0).contains(&hit.depth) && hit.nx.hypot(hit.ny) <= 1.0 + 1e-9);
                }
            }
        }
    }
}
