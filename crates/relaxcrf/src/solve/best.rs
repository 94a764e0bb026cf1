//! The best labelling and the best bound of a run.

use super::context::Context;
use super::method::Method;
use crate::beliefs::Beliefs;
use crate::energy::{self, Energy};
use crate::labeling::Labeling;

/// A certified lower bound and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// No labelling's energy is below this.
    pub value: f64,
    /// The method that found it.
    pub source: String,
}

/// Keeps the best labelling seen, starting with the ones that cost nothing to find.
#[derive(Debug)]
pub struct Best {
    labeling: Labeling,
    energy: Energy,
    bound: Option<Bound>,
    /// The labelling evaluated last, and its energy: beliefs often round to the same labels many times.
    seen: (Labeling, Energy),
}

/// `(energy - bound) / |energy|`, never negative; infinite next to an energy of nothing, where it says nothing.
pub(super) fn relative_gap(energy: f64, bound: f64) -> f64 {
    let gap = ((energy - bound) / energy.abs().max(f64::MIN_POSITIVE)).max(0.0);
    if gap > 1e9 { f64::INFINITY } else { gap }
}

impl Best {
    /// The unary argmin.
    pub(super) fn unary(context: &mut Context) -> Self {
        let labeling = context.model().unary_argmin();
        let energy = context.evaluate(&labeling);
        Self { seen: (labeling.clone(), energy), labeling, energy, bound: None }
    }

    /// The best of the unary argmin, the constant labellings and the rounded start, where that is not the unary argmin.
    pub(super) fn new(context: &mut Context, start: Option<&Beliefs>) -> Self {
        let model = context.model();
        let mut best = Self::unary(context);
        let constants = energy::of_constants(model);
        let lowest = constants.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        if let Some((label, _)) = lowest.filter(|(_, e)| **e < best.energy.total()) {
            best.offer(context, Labeling::constant(model.pixels(), label as u16));
        }
        if let Some(start) = start {
            best.offer(context, start.argmax());
        }
        best
    }

    /// The energy of a labelling. Costs nothing if it is the best so far or was just seen.
    pub(super) fn evaluate(&mut self, context: &mut Context, labeling: &Labeling) -> Energy {
        if *labeling == self.labeling {
            return self.energy;
        }
        if *labeling != self.seen.0 {
            self.seen = (labeling.clone(), context.evaluate(labeling));
        }
        self.seen.1
    }

    /// Keeps the labelling if its energy, which is returned, is the lowest so far.
    pub(super) fn offer(&mut self, context: &mut Context, labeling: Labeling) -> Energy {
        let energy = self.evaluate(context, &labeling);
        if energy.total() < self.energy.total() {
            (self.labeling, self.energy) = (labeling, energy);
        }
        energy
    }

    /// Keeps the bound if it is the highest so far.
    pub(super) fn raise_bound(&mut self, value: Option<f64>, method: &Method) {
        let known = self.bound.as_ref().map_or(f64::NEG_INFINITY, |b| b.value);
        if let Some(value) = value.filter(|&v| v > known && v.is_finite()) {
            self.bound = Some(Bound { value, source: method.to_string() });
        }
    }

    pub(super) fn energy(&self) -> Energy {
        self.energy
    }

    pub(super) fn bound(&self) -> Option<&Bound> {
        self.bound.as_ref()
    }

    pub(super) fn gap(&self) -> Option<f64> {
        self.bound.as_ref().map(|b| relative_gap(self.energy.total(), b.value))
    }

    pub(super) fn into_parts(self) -> (Labeling, Energy, Option<Bound>) {
        (self.labeling, self.energy, self.bound)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::ModelBuilder;
    use crate::solve::Settings;

    #[test]
    fn gaps_are_relative_to_the_energy() {
        assert_eq!(relative_gap(200.0, 150.0), 0.25);
        assert_eq!(relative_gap(-200.0, -250.0), 0.25);
        assert_eq!(relative_gap(4.0, 4.5), 0.0, "rounding may put a bound above");
        assert_eq!(relative_gap(0.0, 0.0), 0.0);
        assert_eq!(relative_gap(0.0, -1.0), f64::INFINITY);
        assert_eq!(relative_gap(1e-300, -1.0), f64::INFINITY);
    }

    #[test]
    fn the_lowest_energy_and_the_highest_bound_are_kept() {
        let model = ModelBuilder::points(2, 2).unary(vec![0.0, 1.0, 3.0, 1.0]).build().unwrap();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let labels = |x: u16, y: u16| Labeling::new(vec![x, y]);
        let mut best = Best::unary(&mut context);
        assert_eq!((best.energy().total(), best.gap()), (1.0, None));
        assert_eq!(best.offer(&mut context, labels(1, 1)).total(), 2.0);
        assert_eq!(best.offer(&mut context, labels(1, 1)).total(), 2.0);
        assert_eq!(best.energy().total(), 1.0);
        // The same labelling twice in a row, and the best, are not evaluated again.
        assert_eq!(best.offer(&mut context, labels(0, 1)).total(), 1.0);
        assert_eq!(context.counts().evaluations, 2);

        let (low, high) = (Method::MeanField, Method::DcNeg);
        best.raise_bound(Some(0.5), &low);
        assert_eq!(best.gap(), Some(0.5));
        for useless in [None, Some(0.25), Some(f64::NAN), Some(f64::INFINITY), Some(0.5)] {
            best.raise_bound(useless, &high);
            assert_eq!(best.bound(), Some(&Bound { value: 0.5, source: low.to_string() }), "{useless:?}");
        }
        best.raise_bound(Some(0.75), &high);
        assert_eq!(best.bound(), Some(&Bound { value: 0.75, source: high.to_string() }));
        let (labeling, energy, bound) = best.into_parts();
        assert_eq!((labeling, energy.total(), bound.unwrap().value), (labels(0, 1), 1.0, 0.75));
    }
}
