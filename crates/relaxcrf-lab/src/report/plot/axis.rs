//! Axes: from values to places, and which values get a tick.

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    #[default]
    Linear,
    /// Positive values only.
    Log,
}

/// An axis: what it shows and how. Its range is that of the data.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// The text beside the axis.
    pub label: String,
    /// How values are spread along the axis.
    pub scale: Scale,
}

impl Scale {
    /// Whether a value has a place on such an axis.
    pub fn takes(self, v: f64) -> bool {
        v.is_finite() && (self == Self::Linear || v > 0.0)
    }

    fn forward(self, v: f64) -> f64 {
        if self == Self::Log { v.log10() } else { v }
    }
}

impl Axis {
    /// Equal steps are equal differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// Equal steps are equal ratios.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }

    /// Logarithmic if the values are positive and span a factor of 4 or more.
    pub fn suited(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let finite = values.into_iter().filter(|v| v.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, 0f64), |(l, h), v| (l.min(v), h.max(v)));
        if low > 0.0 && low.is_finite() && high >= 4.0 * low { Self::log(label) } else { Self::linear(label) }
    }
}

/// An axis with its range and its length in the drawing.
#[derive(Debug, Clone, Copy)]
pub struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    length: f64,
}

impl Ruler {
    /// Reaches over all values, and a little further.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, length: f64) -> Self {
        let scale = axis.scale;
        let fold = |(l, h): (f64, f64), v: f64| (l.min(v), h.max(v));
        let all = values.filter(|&v| scale.takes(v)).map(|v| scale.forward(v));
        let (l, h) = all.fold((f64::INFINITY, f64::NEG_INFINITY), fold);
        let room = 0.04 * (h - l);
        let (mut low, mut high) = (l - room, h + room);
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 1.0);
        }
        let middle = 0.5 * low + 0.5 * high;
        if high - low <= 1e-9 * middle.abs() || high <= low {
            let room = 0.05 * middle.abs().max(1.0);
            (low, high) = (middle - room, middle + room);
        }
        Self { scale, low, high, length }
    }

    /// Where a value lies, from 0 to the length; beyond where it is out of range.
    pub fn place(&self, v: f64) -> f64 {
        // Halves, so that the widest range does not overflow.
        let fraction = (0.5 * self.scale.forward(v) - 0.5 * self.low) / (0.5 * self.high - 0.5 * self.low);
        (fraction * self.length).clamp(-1e5, 1e5)
    }

    /// Values worth a tick: about `count` of them.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let decades = self.high - self.low;
        if self.scale == Scale::Linear {
            return round_numbers(self.low, self.high, count);
        }
        let (low, high) = (10f64.powf(self.low), 10f64.powf(self.high));
        if decades < 0.7 {
            return round_numbers(low, high, count);
        }
        let steps: &[f64] = match decades {
            d if d < 1.5 => &[1.0, 2.0, 3.0, 5.0],
            d if d < 3.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let every = if steps.len() == 1 { (decades / count.max(1) as f64).ceil().max(1.0) as i32 } else { 1 };
        (self.low.floor() as i32..=self.high.ceil() as i32)
            .filter(|power| power.rem_euclid(every) == 0)
            .flat_map(|power| steps.iter().map(move |s| s * 10f64.powi(power)))
            .filter(|v| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(v))
            .collect()
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn round_numbers(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = high / count.max(1) as f64 - low / count.max(1) as f64;
    if !(rough.is_finite() && rough > 0.0) {
        return Vec::new();
    }
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).ceil(), (high / step + 1e-9).floor());
    if !(step.is_finite() && last - first <= 100.0) {
        return Vec::new();
    }
    (0..=(last - first).max(0.0) as i64).map(|k| (first + k as f64) * step).filter(|v| *v <= high).collect()
}

/// Formats a number briefly: 1.5M, 250k, 0.02.
pub fn short(v: f64) -> String {
    let size = v.abs();
    let (divisor, unit) = match size {
        s if s >= 1e15 || (s > 0.0 && s < 1e-4) => return format!("{v:.0e}"),
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = format!("{:.5}", v / divisor);
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{}{unit}", if digits == "-0" { "0" } else { digits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortened_with_k_and_m() {
        let cases = [
            (0.0, "0"),
            (1.5e6, "1.5M"),
            (-13_400_000.0, "-13.4M"),
            (250_000.0, "250k"),
            (9000.0, "9000"),
            (0.02, "0.02"),
            (1e-7, "1e-7"),
            (1.0, "1"),
        ];
        for (v, text) in cases {
            assert_eq!(short(v), text);
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        let cases = [
            (Axis::linear(""), vec![0.0, 97.0]),
            (Axis::linear(""), vec![-1.2e7, -0.9e7]),
            (Axis::log(""), vec![0.03, 200.0]),
            (Axis::log(""), vec![1.5e6, 1.4e7]),
            (Axis::log(""), vec![2.0e6, 2.5e6]),
            (Axis::log(""), vec![1e-3, 1e9]),
        ];
        for (axis, values) in cases {
            let ruler = Ruler::new(&axis, values.iter().copied(), 300.0);
            let ticks = ruler.ticks(5);
            assert!((3..=12).contains(&ticks.len()), "{values:?}: {ticks:?}");
            assert!(ticks.iter().all(|&t| (-0.1..=300.1).contains(&ruler.place(t))), "{values:?}: {ticks:?}");
            assert!(ticks.windows(2).all(|w| w[0] < w[1]));
            assert!(ruler.place(values[0]) < ruler.place(values[1]));
        }
        let log = Ruler::new(&Axis::log(""), [1.0, 100.0].into_iter(), 100.0);
        assert!((log.place(10.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn axis_is_logarithmic_over_wide_positive_ranges() {
        assert_eq!(Axis::suited("", [1.0, 10.0]).scale, Scale::Log);
        assert_eq!(Axis::suited("", [1.0, 2.0]).scale, Scale::Linear);
        assert_eq!(Axis::suited("", [-1.0, 10.0]).scale, Scale::Linear);
        assert_eq!(Axis::suited("", []).scale, Scale::Linear);
    }
}
