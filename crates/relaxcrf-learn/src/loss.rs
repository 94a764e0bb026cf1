//! Losses of beliefs against true labels, for one image or added up over many.
//!
//! Every loss is a function of a few sums over pixels ([`Sums`]). Sums of many images are added before the loss is taken, so
//! that a mean over labels is one over the whole data, as it is reported.

use rayon::prelude::*;

use crate::operator::POINTS_PER_CHUNK;
use crate::real::Real;

/// A true label that counts nowhere.
pub const VOID: u16 = u16::MAX;

/// Added to probabilities before their logarithm is taken.
const LOG_FLOOR: f64 = 1e-6;

/// What is made small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loss {
    /// One minus the mean over labels of the soft intersection over union.
    #[default]
    Iou,
    /// Mean of -log of the true label's belief.
    CrossEntropy,
    /// Mean of one minus the true label's belief, every pixel with its weight: the expected Hamming loss.
    Accuracy,
}

/// True labels of an image's pixels.
#[derive(Debug, Clone)]
pub struct Truth {
    /// One per pixel; [`VOID`] counts nowhere.
    pub labels: Vec<u16>,
    /// How much each pixel counts; empty if all count the same.
    pub weights: Vec<f32>,
}

impl Truth {
    /// How much a pixel counts.
    pub(crate) fn weight(&self, pixel: usize) -> f64 {
        if self.labels[pixel] == VOID {
            return 0.0;
        }
        self.weights.get(pixel).map_or(1.0, |&w| f64::from(w))
    }
}

/// What a loss is computed from: additive over pixels and images.
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    /// Sum of the per-pixel losses (not for [`Loss::Iou`]).
    loss: f64,
    /// Sum of the pixels' weights.
    weight: f64,
    /// For every label: true pixels, their belief in it, and belief in it elsewhere.
    labels: Vec<[f64; 3]>,
    /// Labels that occur in the truth of all images.
    present: usize,
}

impl Sums {
    /// Nothing counted yet.
    pub fn new(labels: usize) -> Self {
        Self { loss: 0.0, weight: 0.0, labels: vec![[0.0; 3]; labels], present: 0 }
    }

    /// Adds those of other pixels.
    pub fn merge(&mut self, other: &Self) {
        self.loss += other.loss;
        self.weight += other.weight;
        for (a, b) in self.labels.iter_mut().zip(&other.labels) {
            (0..3).for_each(|k| a[k] += b[k]);
        }
        self.present = self.ious().count();
    }

    /// The intersection over union of every label that occurs in the truth.
    fn ious(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        let present = self.labels.iter().enumerate().filter(|(_, l)| l[0] > 0.0);
        present.map(|(label, [own, inside, outside])| (label, *inside, own + outside))
    }

    /// The same for all labels of the data, from those of the labels kept in an image (and a remainder, which is dropped).
    pub fn spread(&self, kept: &[usize], labels: usize) -> Self {
        let mut all = Self { labels: vec![[0.0; 3]; labels], ..self.clone() };
        kept.iter().zip(&self.labels).for_each(|(&l, &sums)| all.labels[l] = sums);
        all
    }

    /// The way back: of the labels kept in an image, with nothing for the remainder.
    pub fn gather(&self, kept: &[usize], has_remainder: bool) -> Self {
        let labels = kept.iter().map(|&l| self.labels[l]).chain(has_remainder.then_some([0.0; 3]));
        Self { labels: labels.collect(), ..self.clone() }
    }

    /// The numbers, to be stored.
    pub fn to_numbers(&self) -> Vec<f64> {
        [self.loss, self.weight].into_iter().chain(self.labels.iter().flatten().copied()).collect()
    }

    /// The way back; `None` if there are too few numbers.
    pub fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (&[loss, weight], labels) = numbers.split_first_chunk::<2>()?;
        let mut sums = Self { loss, weight, labels: labels.as_chunks::<3>().0.to_vec(), present: 0 };
        sums.present = sums.ious().count();
        Some(sums)
    }
}

impl Loss {
    /// The sums of an image.
    pub fn sums<T: Real>(self, beliefs: &[T], labels: usize, truth: &Truth) -> Sums {
        let chunks: Vec<Sums> = beliefs
            .par_chunks(POINTS_PER_CHUNK * labels)
            .enumerate()
            .map(|(chunk, rows)| {
                let mut sums = Sums::new(labels);
                for (k, row) in rows.chunks_exact(labels).enumerate() {
                    let pixel = chunk * POINTS_PER_CHUNK + k;
                    let weight = truth.weight(pixel);
                    if weight == 0.0 {
                        continue;
                    }
                    let own = usize::from(truth.labels[pixel]);
                    sums.weight += weight;
                    sums.labels[own][0] += weight;
                    for (label, q) in row.iter().enumerate() {
                        sums.labels[label][if label == own { 1 } else { 2 }] += weight * q.to_f64();
                    }
                    let q = row[own].to_f64();
                    sums.loss += weight
                        * match self {
                            Self::Iou => 0.0,
                            Self::CrossEntropy => -(q + LOG_FLOOR).ln(),
                            Self::Accuracy => 1.0 - q,
                        };
                }
                sums
            })
            .collect();
        let mut total = Sums::new(labels);
        chunks.iter().for_each(|sums| total.merge(sums));
        total
    }

    /// The loss of the sums of all images. Zero without pixels.
    pub fn value(self, sums: &Sums) -> f64 {
        match self {
            Self::Iou => {
                let count = sums.ious().count();
                let total: f64 = sums.ious().map(|(_, inside, union)| inside / union).sum();
                if count == 0 { 0.0 } else { 1.0 - total / count as f64 }
            }
            _ if sums.weight == 0.0 => 0.0,
            _ => sums.loss / sums.weight,
        }
    }

    /// The gradient with respect to one image's beliefs, given the sums of all images.
    pub fn gradient<T: Real>(self, total: &Sums, beliefs: &[T], labels: usize, truth: &Truth) -> Vec<T> {
        let present = total.present.max(1) as f64;
        // Of every label's term: per unit of belief at its true pixels, and elsewhere.
        let mut slopes = vec![[0.0; 2]; labels];
        for (label, inside, union) in total.ious() {
            slopes[label] = [-1.0 / (union * present), inside / (union * union * present)];
        }
        let mut gradient = vec![T::default(); beliefs.len()];
        gradient.par_chunks_exact_mut(labels).zip(beliefs.par_chunks_exact(labels)).enumerate().for_each(
            |(pixel, (out, row))| {
                let weight = truth.weight(pixel);
                if weight == 0.0 {
                    return;
                }
                let own = usize::from(truth.labels[pixel]);
                match self {
                    Self::Iou => {
                        for (label, (o, slope)) in out.iter_mut().zip(&slopes).enumerate() {
                            *o = T::from_f64(weight * slope[usize::from(label != own)]);
                        }
                    }
                    Self::CrossEntropy => {
                        out[own] = T::from_f64(-weight / total.weight / (row[own].to_f64() + LOG_FLOOR));
                    }
                    Self::Accuracy => out[own] = T::from_f64(-weight / total.weight),
                }
            },
        );
        gradient
    }
}

/// Weights that count every label of the truth the same, for [`Loss::Accuracy`].
pub fn class_weights(labels: usize, truths: &[&[u16]]) -> Vec<f32> {
    let mut counts = vec![0u64; labels];
    for &label in truths.iter().copied().flatten() {
        if let Some(count) = counts.get_mut(usize::from(label)) {
            *count += 1;
        }
    }
    let present = counts.iter().filter(|&&c| c > 0).count().max(1) as f64;
    let total: u64 = counts.iter().sum();
    counts.iter().map(|&c| if c == 0 { 0.0 } else { (total as f64 / (present * c as f64)) as f32 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use relaxcrf::rng::Rng;

    fn beliefs(points: usize, labels: usize) -> Vec<f64> {
        let mut rng = Rng::new(4);
        let mut rows: Vec<f64> = (0..points * labels).map(|_| rng.next_f64() + 0.05).collect();
        for row in rows.chunks_exact_mut(labels) {
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|v| *v /= sum);
        }
        rows
    }

    #[test]
    fn loss_gradients_equal_finite_differences() {
        let (points, labels) = (9, 3);
        let q = beliefs(points, labels);
        let truth = Truth {
            labels: (0..points).map(|a| if a == 4 { VOID } else { (a % 3) as u16 }).collect(),
            weights: (0..points).map(|a| 1.0 + 0.25 * a as f32).collect(),
        };
        // Another image that counts too.
        let other = Truth { labels: vec![0, 1], weights: Vec::new() };
        for loss in [Loss::Iou, Loss::CrossEntropy, Loss::Accuracy] {
            let total = |q: &[f64]| {
                let mut sums = loss.sums(q, labels, &truth);
                sums.merge(&loss.sums(&[0.2, 0.3, 0.5, 0.1, 0.8, 0.1], labels, &other));
                assert_eq!(Sums::from_numbers(&sums.to_numbers()), Some(sums.clone()));
                sums
            };
            let gradient = loss.gradient(&total(&q), &q, labels, &truth);
            for at in 0..q.len() {
                let moved = |h: f64| {
                    let mut q = q.clone();
                    q[at] += h;
                    loss.value(&total(&q))
                };
                let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((gradient[at] - expected).abs() < 1e-8, "{loss:?} {at}: {} {expected}", gradient[at]);
            }
        }
    }

    #[test]
    fn iou_loss_is_zero_only_for_the_truth() {
        let truth = Truth { labels: vec![0, 1, VOID], weights: Vec::new() };
        let right = [1.0, 0.0, 0.0, 1.0, 0.5, 0.5];
        assert_eq!(Loss::Iou.value(&Loss::Iou.sums(&right, 2, &truth)), 0.0);
        let wrong = [0.0, 1.0, 0.0, 1.0, 0.5, 0.5];
        assert_eq!(Loss::Iou.value(&Loss::Iou.sums(&wrong, 2, &truth)), 1.0 - 0.5 * 0.5);
        assert_eq!(Loss::Iou.value(&Sums::new(2)), 0.0);
    }

    #[test]
    fn class_weights_make_labels_count_the_same() {
        let weights = class_weights(3, &[&[0, 0, 0, 1], &[VOID]]);
        assert_eq!(weights, [4.0 / 6.0, 2.0, 0.0]);
    }
}
