//! How far a network's confidence is from how often it is right, and the temperature that mends it.

use rayon::prelude::*;
use relaxcrf::Result;

use crate::lbfgs::{Evaluation, Limits, minimize};
use crate::loss::{Loss, Sums};
use crate::parameters::{Parameters, Part};
use crate::sample::Sample;
use crate::unrolled::Updates;

/// Bins of confidence.
const BINS: usize = 15;

/// What calibration found.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Energies divided by this fit the truth best.
    pub temperature: f64,
    /// Expected calibration error before and after: mean distance of confidence from accuracy.
    pub errors: [f64; 2],
    /// Mean of -log of the true label's probability, before and after.
    pub losses: [f64; 2],
}

/// Finds the temperature of the unaries alone, by the likelihood of the true labels.
pub fn calibrate(samples: &[Sample], labels: usize) -> Result<Calibration> {
    let none = Parameters::new(labels, Vec::new())?;
    let at = |log_temperature: f64| Parameters { temperature: log_temperature.exp(), ..none.clone() };
    let (loss, updates) = (Loss::CrossEntropy, Updates::MeanField(0));
    let evaluate = |variables: &[f64]| {
        let parameters = at(variables[0]);
        let runs = samples
            .par_iter()
            .with_max_len(1)
            .map(|s| s.run(&parameters, Default::default(), &updates, false))
            .collect::<Result<Vec<_>>>()?;
        let mut total = Sums::new(labels);
        samples.iter().zip(&runs).for_each(|(s, run)| total.merge(&s.measure(run, loss).0));
        let slopes = samples.par_iter().zip(&runs).map(|(s, run)| {
            s.gradient(&parameters, run, &updates, loss, &total, &[Part::Temperature]).map(|g| g[0])
        });
        let slope = slopes.collect::<Result<Vec<f64>>>()?.iter().sum();
        Result::Ok(Evaluation { value: loss.value(&total), gradient: vec![slope] })
    };
    let limits = Limits { steps: 12, evaluations: 20, tolerance: 1e-6, max_change: 0.5 };
    let minimum = minimize(&[0.0], limits, evaluate)?;
    let error = |log_temperature: f64| {
        let parameters = at(log_temperature);
        let each = samples.par_iter().with_max_len(1).map(|s| {
            let run = s.run(&parameters, Default::default(), &updates, false)?;
            Ok(s.confidences(&run))
        });
        Result::Ok(calibration_error(each.collect::<Result<Vec<_>>>()?.into_iter().flatten()))
    };
    Ok(Calibration {
        temperature: minimum.at[0].exp(),
        errors: [error(0.0)?, error(minimum.at[0])?],
        losses: [minimum.values[0], minimum.value],
    })
}

/// Mean over pixels of the distance between the mean confidence and the accuracy of a pixel's bin.
fn calibration_error(pixels: impl Iterator<Item = (f32, bool)>) -> f64 {
    let mut bins = [[0.0f64; 3]; BINS];
    for (confidence, is_right) in pixels {
        let bin = &mut bins[((confidence * BINS as f32) as usize).min(BINS - 1)];
        bin[0] += 1.0;
        bin[1] += f64::from(confidence);
        bin[2] += f64::from(u8::from(is_right));
    }
    let total: f64 = bins.iter().map(|b| b[0]).sum();
    bins.iter().map(|b| (b[1] - b[2]).abs()).sum::<f64>() / total.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibration_error_is_the_distance_of_confidence_from_accuracy() {
        let pixels = (0..10).map(|k| (0.9, k < 7));
        assert!((calibration_error(pixels) - 0.2).abs() < 1e-6);
        assert_eq!(calibration_error(std::iter::empty()), 0.0);
    }
}
