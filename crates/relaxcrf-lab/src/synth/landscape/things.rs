//! Objects of the landscape: trees, a house, sheep, a balloon.

use std::f64::consts::PI;

use super::super::noise::{Noise, lerp, step};
use super::{BALLOON, Colour, HOUSE, SHEEP, TREE, blend, shade};
use relaxcrf::rng::Rng;

/// Light from the upper left, behind the viewer; a unit vector.
const SUN: [f64; 3] = [-0.52, -0.60, 0.61];

/// A thing at a place. Lengths are in picture heights.
pub(super) struct Thing {
    /// Where it touches the ground, in the middle.
    foot: (f64, f64),
    /// Its height; of sheep, the length.
    size: f64,
    kind: Kind,
    noise: Noise,
}

enum Kind {
    /// The crown's balls: centre, depth, radius.
    Broadleaf {
        balls: Vec<([f64; 3], f64)>,
    },
    Conifer,
    House,
    /// Looks to the right (1) or to the left (-1).
    Sheep {
        facing: f64,
    },
    Balloon {
        colours: [Colour; 3],
    },
}

impl Thing {
    fn new(rng: &mut Rng, foot: (f64, f64), size: f64, kind: Kind) -> Self {
        Self { foot, size, kind, noise: Noise::new(rng.next_u64()) }
    }

    /// A tree with a round crown.
    pub fn broadleaf(rng: &mut Rng, foot: (f64, f64), size: f64) -> Self {
        let ball = |_| {
            let (sin, cos) = rng.between(0.0, 2.0 * PI).sin_cos();
            let out = rng.next_f64().sqrt();
            let centre = [0.3 * out * cos, -0.64 + 0.27 * out * sin, rng.between(-0.1, 0.22) * (1.2 - out)];
            (centre, rng.between(0.1, 0.17))
        };
        let balls = (0..34).map(ball).collect();
        Self::new(rng, foot, size, Kind::Broadleaf { balls })
    }

    /// A spruce.
    pub fn conifer(rng: &mut Rng, foot: (f64, f64), size: f64) -> Self {
        Self::new(rng, foot, size, Kind::Conifer)
    }

    /// A house with a red roof.
    pub fn house(rng: &mut Rng, foot: (f64, f64), size: f64) -> Self {
        Self::new(rng, foot, size, Kind::House)
    }

    /// A sheep.
    pub fn sheep(rng: &mut Rng, foot: (f64, f64), size: f64) -> Self {
        let facing = if rng.next_f64() < 0.5 { 1.0 } else { -1.0 };
        Self::new(rng, foot, size, Kind::Sheep { facing })
    }

    /// A hot-air balloon; its foot is the bottom of the basket.
    pub fn balloon(rng: &mut Rng, foot: (f64, f64), size: f64) -> Self {
        let colours = [[0.80, 0.16, 0.13], [0.95, 0.90, 0.80], [0.94, 0.66, 0.16]];
        Self::new(rng, foot, size, Kind::Balloon { colours })
    }

    /// Things further down in the picture are nearer.
    pub fn nearness(&self) -> f64 {
        self.foot.1
    }

    pub fn label(&self) -> u16 {
        match self.kind {
            Kind::Broadleaf { .. } | Kind::Conifer => TREE,
            Kind::House => HOUSE,
            Kind::Sheep { .. } => SHEEP,
            Kind::Balloon { .. } => BALLOON,
        }
    }

    /// The colour at a point, if the thing covers it.
    pub fn colour(&self, x: f64, y: f64) -> Option<Colour> {
        // Coordinates of the thing: the foot at the origin, size 1, up is negative.
        let (u, v) = ((x - self.foot.0) / self.size, (y - self.foot.1) / self.size);
        if !(-1.6..=1.6).contains(&u) || !(-1.3..=0.1).contains(&v) {
            return None;
        }
        match &self.kind {
            Kind::Broadleaf { balls } => self.broadleaf_colour(u, v, balls),
            Kind::Conifer => self.conifer_colour(u, v),
            Kind::House => self.house_colour(u, v),
            Kind::Sheep { facing } => self.sheep_colour(u * facing, v, u),
            Kind::Balloon { colours } => self.balloon_colour(u, v, colours),
        }
    }

    /// How much of the sun the thing keeps from the ground at a point, from 0 to 1.
    pub fn shadow(&self, x: f64, y: f64) -> f64 {
        let (u, v) = ((x - self.foot.0) / self.size, (y - self.foot.1) / self.size);
        // Centre and radii of an ellipse that leans away from the sun.
        let (centre, radii) = match self.kind {
            Kind::Broadleaf { .. } => ((0.26, 0.03), (0.5, 0.075)),
            Kind::Conifer => ((0.22, 0.015), (0.36, 0.045)),
            Kind::House => ((0.9, -0.02), (1.2, 0.13)),
            Kind::Sheep { .. } => ((0.1, 0.0), (0.56, 0.11)),
            Kind::Balloon { .. } => return 0.0,
        };
        let (a, b) = ((u - centre.0) / radii.0, (v - centre.1) / radii.1);
        let uneven = 0.25 * self.noise.at(9.0 * u, 30.0 * v);
        1.0 - step(0.55, 1.1, (a * a + b * b).sqrt() + uneven)
    }

    fn broadleaf_colour(&self, u: f64, v: f64, balls: &[([f64; 3], f64)]) -> Option<Colour> {
        let leaves = self.noise.fractal(17.0 * u, 17.0 * v, 3);
        let mut front: Option<(f64, [f64; 3])> = None;
        for &([x, y, z], radius) in balls {
            let radius = radius * (1.0 + 0.38 * leaves);
            let (a, b) = ((u - x) / radius, (v - y) / radius);
            let rest = 1.0 - a * a - b * b;
            let depth = z + radius * rest.max(0.0).sqrt();
            if rest > 0.0 && front.is_none_or(|(d, _)| depth > d) {
                front = Some((depth, [a, b, rest.sqrt()]));
            }
        }
        if let Some((depth, normal)) = front {
            let sun = sunlight(normal);
            let outside = step(-0.05, 0.32, depth);
            let light = 0.1 + 0.62 * sun * (0.45 + 0.55 * outside) + 0.24 * leaves - 0.22 * (v + 0.64);
            return Some(blend([0.06, 0.12, 0.05], [0.46, 0.56, 0.19], light));
        }
        let trunk = 0.032 + 0.022 * step(-0.14, 0.02, v);
        let bent = u - 0.02 * (6.0 * v).sin();
        (bent.abs() < trunk && (-0.6..=0.0).contains(&v)).then(|| self.bark(bent / trunk, v))
    }

    fn bark(&self, across: f64, v: f64) -> Colour {
        let grain = self.noise.fractal(3.0 * across, 26.0 * v, 2);
        shade([0.36, 0.28, 0.21], 0.72 - 0.38 * across + 0.25 * grain)
    }

    fn conifer_colour(&self, u: f64, v: f64) -> Option<Colour> {
        let up = (-v - 0.07) / 0.93;
        if (0.0..1.0).contains(&up) {
            let side = if u < 0.0 { 10.0 } else { 20.0 };
            let layer = (9.0 * up.powf(0.85) + 0.3 * self.noise.at(side, 7.0 * v)).fract();
            let ragged = 1.0 + 0.3 * self.noise.fractal(side, 34.0 * v, 2);
            let half = 0.21 * (1.0 - up).powf(0.9) * (1.0 - 0.42 * layer) * ragged + 0.006;
            if u.abs() < half {
                let needles = self.noise.fractal(30.0 * u, 22.0 * v, 3);
                let light = 0.42 - 0.42 * u / half + 0.25 * (1.0 - layer) + 0.4 * needles;
                return Some(blend([0.04, 0.10, 0.07], [0.25, 0.37, 0.18], light));
            }
        }
        (u.abs() < 0.022 && (-0.1..=0.0).contains(&v)).then(|| self.bark(u / 0.022, v))
    }

    fn house_colour(&self, u: f64, v: f64) -> Option<Colour> {
        let plaster = 1.0 + 0.04 * self.noise.fractal(9.0 * u, 9.0 * v, 3);
        let tile = |a: f64, b: f64| {
            let row = 0.10 * (1.0 - (14.0 * b).fract());
            let worn = 0.16 * self.noise.fractal(24.0 * a, 14.0 * b, 3);
            shade([0.60, 0.24, 0.17], 0.92 + row + worn)
        };
        let glass = |a: f64, b: f64| blend([0.16, 0.22, 0.29], [0.46, 0.56, 0.64], 0.5 + 0.9 * (a - b));
        // The chimney stands behind the ridge line, the roof in front of the long wall.
        if (0.62..0.74).contains(&u) && (-1.15..-0.86).contains(&v) {
            let face = if u < 0.7 { 1.0 } else { 0.72 };
            return Some(shade([0.55, 0.33, 0.27], face * plaster));
        }
        if let Some((a, b)) = within([0.57, -0.55], [0.98, -0.07], [-0.6, -0.47], u, v) {
            return Some(tile(a, b));
        }
        if let Some((a, b)) = within([0.5, 0.0], [0.93, -0.07], [0.0, -0.57], u, v) {
            let (pane, place) = ((4.0 * a).fract(), b);
            if (0.28..0.72).contains(&pane) && (0.38..0.78).contains(&place) {
                let frame = !(0.34..0.66).contains(&pane) || !(0.43..0.73).contains(&place);
                let frame = frame || (pane - 0.5).abs() < 0.02;
                return Some(if frame { [0.72, 0.70, 0.67] } else { shade(glass(pane, place), 0.8) });
            }
            let eaves = 1.0 - 0.3 * step(0.86, 1.0, b);
            return Some(shade([0.68, 0.64, 0.57], plaster * eaves));
        }
        // The gable, with a door and two windows; the roof's edge runs along its slopes.
        let slope = -1.0 + 0.86 * u.abs();
        if v > slope - 0.06 && v < slope && u.abs() < 0.57 {
            return Some([0.47, 0.19, 0.14]);
        }
        if u.abs() > 0.5 || v > 0.0 || v < slope {
            return None;
        }
        if (-0.09..0.09).contains(&u) && v > -0.34 {
            return Some(shade([0.34, 0.21, 0.13], 1.0 - 0.2 * (18.0 * u).sin()));
        }
        let (across, up) = (u.abs() - 0.29, if v < -0.52 { 2.0 } else { v + 0.3 });
        let attic = (u.abs() < 0.1 && (v + 0.68).abs() < 0.1).then_some((u, v + 0.68));
        let window = attic.or((across.abs() < 0.1 && up.abs() < 0.12).then_some((across, up)));
        if let Some((a, b)) = window {
            let frame = a.abs() > 0.08 || b.abs() > 0.1 || a.abs() < 0.012 || b.abs() < 0.01;
            return Some(if frame { [0.96, 0.95, 0.92] } else { glass(2.0 * a, 2.0 * b) });
        }
        let eaves = 1.0 - 0.2 * (1.0 - step(0.0, 0.09, v - slope));
        Some(shade([0.94, 0.90, 0.81], plaster * eaves))
    }

    fn sheep_colour(&self, u: f64, v: f64, across: f64) -> Option<Colour> {
        let dark = [0.20, 0.17, 0.15];
        let round = |x: f64, y: f64, a: f64, b: f64| {
            let (p, q) = ((u - x) / a, (v - y) / b);
            let rest = 1.0 - p * p - q * q;
            (rest > 0.0).then(|| [p * across.signum() * u.signum(), q, rest.sqrt()])
        };
        if let Some(normal) = round(0.52, -0.64, 0.13, 0.16).or_else(|| round(0.43, -0.74, 0.09, 0.035)) {
            return Some(shade(dark, 0.65 + 0.9 * sunlight(normal)));
        }
        let curls = self.noise.fractal(15.0 * u, 15.0 * v, 2);
        let wool = 1.0 + 0.1 * curls;
        let body = round(0.0, -0.53, 0.46 * wool, 0.29 * wool);
        if let Some(normal) = body.or_else(|| round(0.36, -0.6, 0.18 * wool, 0.18 * wool)) {
            let light = 0.62 + 0.42 * sunlight(normal) + 0.1 * curls - 0.25 * step(-0.5, -0.2, v);
            return Some(shade([0.96, 0.93, 0.86], light));
        }
        let is_leg = [-0.3, -0.2, 0.19, 0.3].iter().any(|x| (u - x).abs() < 0.034);
        (is_leg && (-0.35..=0.0).contains(&v)).then(|| shade(dark, 0.9 + v))
    }

    fn balloon_colour(&self, u: f64, v: f64, colours: &[Colour; 3]) -> Option<Colour> {
        // Half the envelope's width: a circle above, then a taper to the mouth.
        let (top, widest, mouth) = (-1.0, -0.63, -0.22);
        if (top..mouth).contains(&v) {
            let down = ((v - widest) / (mouth - widest)).max(0.0);
            let bulge = ((v - widest) / (top - widest)).clamp(0.0, 1.0);
            let half = 0.37 * (1.0 - bulge * bulge).sqrt() * lerp(1.0, 0.2, down.powf(1.7));
            if u.abs() < half {
                let a = u / half;
                let gore = (8.0 * (a.asin() / PI + 0.5)).floor() as usize;
                let band = if (0.32..0.46).contains(&down) { 2 } else { [0, 1][gore % 2] };
                let b = ((v - widest) / 0.4).clamp(-0.9, 0.9);
                let light = 0.55 + 0.55 * sunlight([a, b, (1.0 - a * a).sqrt()]);
                return Some(shade(colours[band], light));
            }
            return None;
        }
        if (-0.1..=0.0).contains(&v) && u.abs() < 0.055 {
            let weave = 0.12 * (160.0 * v).sin();
            return Some(shade([0.42, 0.29, 0.17], 0.9 - 4.0 * u + weave));
        }
        let rope = lerp(0.072, 0.05, (v - mouth) / (-0.1 - mouth));
        ((mouth..-0.1).contains(&v) && (u.abs() - rope).abs() < 0.008).then_some([0.25, 0.22, 0.20])
    }
}

/// Light that falls on a surface, from its normal.
fn sunlight(normal: [f64; 3]) -> f64 {
    normal.iter().zip(SUN).map(|(n, s)| n * s).sum::<f64>().max(0.0)
}

/// Coordinates of a point in a parallelogram, each from 0 to 1, if it lies in it.
fn within(origin: [f64; 2], a: [f64; 2], b: [f64; 2], x: f64, y: f64) -> Option<(f64, f64)> {
    let (x, y) = (x - origin[0], y - origin[1]);
    let area = a[0] * b[1] - a[1] * b[0];
    let at = ((x * b[1] - y * b[0]) / area, (a[0] * y - a[1] * x) / area);
    ((0.0..1.0).contains(&at.0) && (0.0..1.0).contains(&at.1)).then_some(at)
}
