//! What is learned about a problem beyond its kernels.

use rayon::prelude::*;

use crate::error::{Error, Result};

/// What is learned from data beyond kernels: `φ / temperature + bias`, and a cost for each label.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// Unary energies are divided by this.
    pub temperature: f32,
    /// Added to the energies of each label after that; may be empty.
    pub bias: Vec<f32>,
    /// Different labels i and j cost `(c_i + c_j) / 2`; empty for Potts costs.
    pub label_costs: Vec<f32>,
}

impl Default for Learned {
    fn default() -> Self {
        Self { temperature: 1.0, bias: Vec::new(), label_costs: Vec::new() }
    }
}

impl Learned {
    /// Fails on numbers that cannot be used.
    pub fn check(&self) -> Result<()> {
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return Err(Error::value("temperature", self.temperature, "a positive, finite number"));
        }
        if let Some(bad) = self.bias.iter().find(|b| !b.is_finite()) {
            return Err(Error::value("bias", bad, "finite numbers"));
        }
        if let Some(bad) = self.label_costs.iter().find(|c| !(c.is_finite() && **c >= 0.0)) {
            return Err(Error::value("label cost", bad, "finite numbers, 0 or more"));
        }
        Ok(())
    }

    /// Fails unless bias and costs, where there are any, are for so many labels.
    pub fn check_labels(&self, labels: usize) -> Result<()> {
        for (what, count) in [("bias", self.bias.len()), ("label costs", self.label_costs.len())] {
            if count != 0 && count != labels {
                let expected = format!(
                    "{labels}, the labels of the problem (a learned preset fits the labels it was learned on)"
                );
                return Err(Error::shape(
                    format!("{what} of the preset"),
                    format!("{count} labels"),
                    expected,
                ));
            }
        }
        Ok(())
    }

    /// Applies temperature and bias to rows of energies.
    pub fn adjust(&self, rows: &mut [f32], labels: usize) -> Result<()> {
        self.check()?;
        self.check_labels(labels)?;
        if self.temperature == 1.0 && self.bias.is_empty() {
            return Ok(());
        }
        let factor = 1.0 / self.temperature;
        rows.par_chunks_mut(labels.max(1)).with_min_len(1024).for_each(|row| {
            row.iter_mut().for_each(|e| *e *= factor);
            row.iter_mut().zip(&self.bias).for_each(|(e, b)| *e += b);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energies_are_divided_by_the_temperature_before_the_bias_is_added() {
        let learned = Learned { temperature: 2.0, bias: vec![0.5, -1.0], label_costs: Vec::new() };
        let mut rows = vec![1.0, 2.0, f32::INFINITY, 4.0];
        learned.adjust(&mut rows, 2).unwrap();
        assert_eq!(rows, [1.0, 0.0, f32::INFINITY, 1.0]);
        assert!(learned.adjust(&mut rows, 4).unwrap_err().to_string().contains("2 labels"));
    }

    #[test]
    fn unusable_numbers_are_refused() {
        let with =
            |temperature, bias, cost| Learned { temperature, bias: vec![bias], label_costs: vec![cost] };
        assert!(with(1.0, 0.0, 1.0).check().is_ok());
        for bad in [
            with(0.0, 0.0, 1.0),
            with(f32::NAN, 0.0, 1.0),
            with(1.0, f32::INFINITY, 1.0),
            with(1.0, 0.0, -1.0),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
