//! The relaxed state: one point of the simplex per pixel.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::labeling::Labeling;
use relaxcrf_filter::reduce::{self, rows_per_chunk};

/// N x L numbers, one row per pixel, each row non-negative and summing to one.
///
/// What every solver starts from and returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    labels: usize,
    values: Vec<f32>,
}

impl Beliefs {
    /// Takes rows that must lie on the simplex up to rounding; they are divided by their sums.
    pub fn new(values: Vec<f32>, labels: usize) -> Result<Self> {
        if labels == 0 || values.is_empty() || !values.len().is_multiple_of(labels) {
            return Err(Error::shape(
                "beliefs",
                format!("{} values", values.len()),
                format!("one row of {labels} values per pixel, at least one of each"),
            ));
        }
        let mut beliefs = Self { labels, values };
        for (a, row) in beliefs.values.chunks_exact_mut(labels).enumerate() {
            let sum: f32 = row.iter().sum();
            let proper = row.iter().all(|&v| v >= 0.0) && (sum - 1.0).abs() < 1e-2;
            if !proper {
                return Err(Error::Element {
                    what: "beliefs".into(),
                    got: format!("a row that sums to {sum}"),
                    place: format!("pixel {a}"),
                    expected: "non-negative rows that sum to 1".into(),
                    fix: "are labels the last axis?".into(),
                });
            }
            row.iter_mut().for_each(|v| *v /= sum);
        }
        Ok(beliefs)
    }

    /// Every label equally likely.
    pub fn uniform(pixels: usize, labels: usize) -> Self {
        Self { labels, values: vec![1.0 / labels as f32; pixels * labels] }
    }

    /// Rows of zeros, to be written before anyone reads them.
    pub(crate) fn unwritten(pixels: usize, labels: usize) -> Self {
        Self { labels, values: vec![0.0; pixels * labels] }
    }

    /// All belief in one label per pixel.
    pub fn from_labeling(labeling: &Labeling, labels: usize) -> Self {
        let mut values = vec![0.0; labeling.len() * labels];
        for (row, &l) in values.chunks_exact_mut(labels).zip(labeling.as_slice()) {
            row[usize::from(l)] = 1.0;
        }
        Self { labels, values }
    }

    /// `softmax(-energies)` row by row: what a pixel believes on its own.
    pub fn from_energies(energies: &[f32], labels: usize) -> Self {
        let mut values = vec![0.0; energies.len()];
        let rows = rows_per_chunk(labels) * labels;
        values.par_chunks_mut(rows).zip(energies.par_chunks(rows)).for_each(|(v, e)| {
            for (v, e) in v.chunks_exact_mut(labels).zip(e.chunks_exact(labels)) {
                for (v, &e) in v.iter_mut().zip(e) {
                    *v = -e;
                }
                crate::rows::simplex::softmax(v);
            }
        });
        Self { labels, values }
    }

    /// Number of pixels.
    pub fn pixels(&self) -> usize {
        self.values.len() / self.labels
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// All rows, one after the other.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// All rows, to be written. Whoever writes keeps every row on the simplex.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The rows, without a copy.
    pub fn into_vec(self) -> Vec<f32> {
        self.values
    }

    /// All rows, to be exchanged for others of the same size.
    pub(crate) fn rows_mut(&mut self) -> &mut Vec<f32> {
        &mut self.values
    }

    /// Swaps contents with rows of the same size.
    pub(crate) fn swap(&mut self, rows: &mut Vec<f32>) {
        debug_assert_eq!(rows.len(), self.values.len());
        std::mem::swap(&mut self.values, rows);
    }

    /// The most believed label of every pixel; the smaller label wins a tie.
    pub fn argmax(&self) -> Labeling {
        let labels = self
            .values
            .par_chunks_exact(self.labels)
            .with_min_len(rows_per_chunk(self.labels))
            .map(|row| {
                let mut best = 0;
                for (i, &v) in row.iter().enumerate() {
                    if v > row[best] {
                        best = i;
                    }
                }
                best as u16
            })
            .collect();
        Labeling::new(labels)
    }

    /// Total belief in each label, in pixels.
    pub fn mass(&self) -> Vec<f64> {
        (0..self.labels)
            .map(|i| {
                reduce::sum_by(self.pixels(), reduce::CHUNK, |a| f64::from(self.values[a * self.labels + i]))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_rows_off_the_simplex() {
        assert!(Beliefs::new(vec![0.5, 0.5, 1.0, 0.0], 2).is_ok());
        for bad in [vec![0.5, 0.6], vec![-0.5, 1.5], vec![f32::NAN, 1.0], vec![], vec![1.0]] {
            assert!(Beliefs::new(bad.clone(), 2).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn labelling_and_back() {
        let x = Labeling::new(vec![2, 0, 1]);
        let y = Beliefs::from_labeling(&x, 3);
        assert_eq!(y.argmax(), x);
        assert_eq!(y.mass(), [1.0, 1.0, 1.0]);
    }

    #[test]
    fn ties_go_to_the_smaller_label() {
        assert_eq!(Beliefs::uniform(2, 4).argmax().as_slice(), [0, 0]);
    }
}
