//! Paired comparison of two sets of label maps by resampling images.

use relaxcrf::rng::Rng;

/// Right, true and given pixels of every label in one image.
pub type Counts = Vec<[f64; 3]>;

/// What label maps are judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Measure {
    /// Mean over the labels of the truth of intersection over union.
    #[default]
    MeanIou,
    /// Fraction of pixels with the true label.
    Accuracy,
}

impl Measure {
    /// The measure over images, each counted as often as its number says.
    pub fn value(self, counts: &[Counts], times: &[f64]) -> f64 {
        let labels = counts.first().map_or(0, Vec::len);
        let mut total = vec![[0.0; 3]; labels];
        for (image, &times) in counts.iter().zip(times) {
            for (t, c) in total.iter_mut().zip(image) {
                (0..3).for_each(|k| t[k] += times * c[k]);
            }
        }
        let present = || total.iter().filter(|t| t[1] > 0.0);
        match self {
            Self::MeanIou => {
                let sum: f64 = present().map(|t| t[0] / (t[1] + t[2] - t[0])).sum();
                sum / present().count().max(1) as f64
            }
            Self::Accuracy => {
                let (right, all) = present().fold((0.0, 0.0), |(r, a), t| (r + t[0], a + t[1]));
                if all > 0.0 { right / all } else { 0.0 }
            }
        }
    }

    /// The measure over all images.
    pub fn of_all(self, counts: &[Counts]) -> f64 {
        self.value(counts, &vec![1.0; counts.len()])
    }
}

/// A difference between two sets of label maps of the same images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The measure before and after.
    pub values: [f64; 2],
    /// After minus before.
    pub gain: f64,
    /// 95 % interval of the gain over resamples of the images.
    pub interval: [f64; 2],
    /// Fraction of resamples with a positive gain; ties count half.
    pub favourable: f64,
}

/// Resamples.
const DRAWS: usize = 2000;

/// Compares; both hold the same images in the same order.
pub fn compare(before: &[Counts], after: &[Counts], measure: Measure) -> Comparison {
    let images = before.len();
    let mut rng = Rng::new(1);
    let mut gains: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let mut times = vec![0.0; images];
            (0..images).for_each(|_| times[rng.below(images)] += 1.0);
            measure.value(after, &times) - measure.value(before, &times)
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    let at = |fraction: f64| gains[((DRAWS - 1) as f64 * fraction).round() as usize];
    let ties = gains.iter().filter(|g| **g == 0.0).count() as f64;
    let above = gains.iter().filter(|g| **g > 0.0).count() as f64;
    let values = [measure.of_all(before), measure.of_all(after)];
    Comparison {
        values,
        gain: values[1] - values[0],
        interval: [at(0.025), at(0.975)],
        favourable: (above + 0.5 * ties) / DRAWS as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_those_of_the_summed_counts() {
        let counts = vec![vec![[8.0, 10.0, 9.0], [1.0, 2.0, 3.0]], vec![[0.0, 0.0, 0.0], [3.0, 4.0, 4.0]]];
        let iou = (8.0 / 11.0 + 4.0 / 9.0) / 2.0;
        assert!((Measure::MeanIou.of_all(&counts) - iou).abs() < 1e-12);
        assert!((Measure::Accuracy.of_all(&counts) - 12.0 / 16.0).abs() < 1e-12);
    }

    #[test]
    fn comparison_tells_a_gain_on_every_image_from_none() {
        let image = |right: f64| vec![[right, 100.0, 100.0], [right, 100.0, 100.0]];
        let before: Vec<Counts> = (0..10).map(|k| image(60.0 + f64::from(k))).collect();
        let after: Vec<Counts> = (0..10).map(|k| image(63.0 + f64::from(k))).collect();
        let c = compare(&before, &after, Measure::MeanIou);
        assert!(c.gain > 0.0 && c.favourable == 1.0 && c.interval[0] > 0.0, "{c:?}");
        let same = compare(&before, &before, Measure::Accuracy);
        assert_eq!((same.gain, same.favourable), (0.0, 0.5));
    }
}
