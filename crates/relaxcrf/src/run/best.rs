//! The best labelling and the best bound of a run.

use crate::beliefs::Beliefs;
use crate::energy::{self, Energy};
use crate::labeling::Labeling;
use crate::solver::Context;

/// A certified lower bound and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// No labelling's energy is below this.
    pub value: f64,
    /// The method that found it, and of what problem if not of the model itself; or the unary energies alone.
    pub source: String,
}

/// A labelling and its energy.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredLabeling {
    /// One label per pixel.
    pub labeling: Labeling,
    /// Its energy.
    pub energy: Energy,
}

/// `(energy - bound) / |energy|`, never negative; infinite next to an energy of nothing, where it says nothing.
pub(super) fn relative_gap(energy: f64, bound: f64) -> f64 {
    let gap = ((energy - bound) / energy.abs().max(f64::MIN_POSITIVE)).max(0.0);
    if gap > 1e9 { f64::INFINITY } else { gap }
}

/// Keeps the best labelling of a run's methods, the best labelling seen at all, and the best bound.
///
/// The unary argmin and the constant labellings cost nothing to find, but no method arrived at them: they count as seen
/// only.
#[derive(Debug)]
pub(super) struct Best {
    /// The lowest energy among the methods' own iterates and roundings; `None` before the first.
    own: Option<ScoredLabeling>,
    /// The lowest energy of all.
    seen: ScoredLabeling,
    /// The constant labelling of lowest energy: its label, and its energy.
    constant: (u16, f64),
    /// Whether every labelling seen is a method's own, as for `exact`.
    all_are_own: bool,
    bound: Option<Bound>,
    /// The labelling evaluated last: beliefs often round to the same labels many times.
    last: ScoredLabeling,
}

impl Best {
    /// Begins with the best of the unary argmin, the constant labellings and the rounded start, where that is not the
    /// unary argmin.
    pub(super) fn new(context: &mut Context, start: Option<&Beliefs>, all_are_own: bool) -> Self {
        let model = context.model();
        let labeling = model.unary_argmin();
        let energy = context.evaluate(&labeling);
        let seen = ScoredLabeling { labeling, energy };
        let constants = energy::of_constants(model);
        let lowest = constants.into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let constant = lowest.map_or((0, f64::INFINITY), |(label, energy)| (label as u16, energy));
        let mut best = Self { own: None, last: seen.clone(), seen, constant, all_are_own, bound: None };
        if constant.1 < best.seen.energy.total() {
            best.saw(context, Labeling::constant(model.pixels(), constant.0));
        }
        if let Some(start) = start {
            best.saw(context, start.argmax());
        }
        best
    }

    /// The energy of a labelling. Costs nothing if it was just evaluated, or is the best so far.
    pub(super) fn evaluate(&mut self, context: &mut Context, labeling: &Labeling) -> Energy {
        if let Some(known) =
            [Some(&self.seen), self.own.as_ref()].into_iter().flatten().find(|k| k.labeling == *labeling)
        {
            return known.energy;
        }
        if *labeling != self.last.labeling {
            self.last = ScoredLabeling { labeling: labeling.clone(), energy: context.evaluate(labeling) };
        }
        self.last.energy
    }

    /// Counts a labelling that no method of the run arrived at. Returns its energy.
    pub(super) fn saw(&mut self, context: &mut Context, labeling: Labeling) -> Energy {
        let energy = self.evaluate(context, &labeling);
        if energy.total() < self.seen.energy.total() {
            self.seen = ScoredLabeling { labeling, energy };
        }
        energy
    }

    /// Counts a labelling that a method arrived at. Returns its energy.
    pub(super) fn offer(&mut self, context: &mut Context, labeling: Labeling) -> Energy {
        let energy = self.evaluate(context, &labeling);
        if self.own.as_ref().is_none_or(|own| energy.total() < own.energy.total()) {
            self.own = Some(ScoredLabeling { labeling: labeling.clone(), energy });
        }
        self.saw(context, labeling)
    }

    /// Keeps the bound if it is the highest so far.
    pub(super) fn raise_bound(&mut self, value: Option<f64>, source: impl Fn() -> String) {
        let known = self.bound.as_ref().map_or(f64::NEG_INFINITY, |b| b.value);
        if let Some(value) = value.filter(|&v| v > known && v.is_finite()) {
            self.bound = Some(Bound { value, source: source() });
        }
    }

    /// The lowest energy of all labellings seen.
    pub(super) fn energy(&self) -> Energy {
        self.seen.energy
    }

    pub(super) fn bound(&self) -> Option<&Bound> {
        self.bound.as_ref()
    }

    /// The gap between the methods' own best labelling and the bound.
    pub(super) fn gap(&self) -> Option<f64> {
        let own = if self.all_are_own { &self.seen } else { self.own.as_ref()? };
        self.bound.as_ref().map(|b| relative_gap(own.energy.total(), b.value))
    }

    pub(super) fn into_parts(self) -> Parts {
        let Self { own, seen, constant, all_are_own, bound, .. } = self;
        Parts { own: if all_are_own { Some(seen.clone()) } else { own }, seen, constant, bound }
    }
}

/// What a run's [`Best`] ends with.
pub(super) struct Parts {
    pub own: Option<ScoredLabeling>,
    pub seen: ScoredLabeling,
    pub constant: (u16, f64),
    pub bound: Option<Bound>,
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::ModelBuilder;
    use crate::methods::Method;
    use crate::solver::Settings;

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
    fn own_labellings_and_those_seen_are_kept_apart() {
        // Both pixels prefer different labels, and a strong kernel makes constant labellings cheaper.
        let model = ModelBuilder::points(2, 2)
            .unary(vec![0.0, 1.0, 3.0, 1.0])
            .features(vec![0.0, 0.0], 1, 5.0)
            .normalization(crate::model::Normalization::None)
            .filter(crate::model::FilterKind::Exact)
            .build()
            .unwrap();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let start = Beliefs::from_labeling(&model.unary_argmin(), 2);
        let labels = |x: u16, y: u16| Labeling::new(vec![x, y]);
        let mut best = Best::new(&mut context, Some(&start), false);
        // Label 1 everywhere costs 2; the unary argmin 1 and both orders of the pair, 10.
        assert_eq!((best.energy().total(), best.gap()), (2.0, None));
        assert_eq!(best.offer(&mut context, labels(0, 1)).total(), 11.0);
        assert_eq!(best.offer(&mut context, labels(0, 0)).total(), 3.0);
        assert_eq!(best.offer(&mut context, labels(0, 1)).total(), 11.0);
        let evaluations = context.counts().evaluations;
        // The best so far, and the same labelling twice in a row, are not evaluated again.
        assert_eq!(best.offer(&mut context, labels(1, 1)).total(), 2.0);
        assert_eq!(best.evaluate(&mut context, &labels(0, 1)).total(), 11.0);
        assert_eq!(context.counts().evaluations, evaluations);
        let parts = best.into_parts();
        assert_eq!((parts.constant, parts.seen.labeling), ((1, 2.0), labels(1, 1)));

        let mut best = Best::new(&mut context, Some(&start), false);
        best.offer(&mut context, labels(0, 0));
        best.raise_bound(Some(1.5), || Method::MF.to_string());
        assert_eq!(best.gap(), Some(0.5), "the gap is that of the own labelling");
        let parts = best.into_parts();
        assert_eq!((parts.own.unwrap().labeling, parts.seen.labeling), (labels(0, 0), labels(1, 1)));

        let mut best = Best::new(&mut context, Some(&start), true);
        best.offer(&mut context, labels(0, 0));
        best.raise_bound(Some(1.5), || Method::MF.to_string());
        assert_eq!(best.gap(), Some(0.25));
        assert_eq!(best.into_parts().own.unwrap().labeling, labels(1, 1));
    }

    #[test]
    fn the_highest_bound_is_kept() {
        let model = ModelBuilder::points(2, 2).unary(vec![0.0, 1.0, 3.0, 1.0]).build().unwrap();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let start = Beliefs::from_labeling(&model.unary_argmin(), 2);
        let mut best = Best::new(&mut context, Some(&start), false);
        best.offer(&mut context, Labeling::new(vec![0, 1]));
        let (low, high) = (Method::MF, Method::DC_NEG);
        best.raise_bound(Some(0.5), || low.to_string());
        assert_eq!(best.gap(), Some(0.5));
        for useless in [None, Some(0.25), Some(f64::NAN), Some(f64::INFINITY), Some(0.5)] {
            best.raise_bound(useless, || high.to_string());
            assert_eq!(best.bound(), Some(&Bound { value: 0.5, source: low.to_string() }), "{useless:?}");
        }
        best.raise_bound(Some(0.75), || high.to_string());
        assert_eq!(best.bound(), Some(&Bound { value: 0.75, source: high.to_string() }));
    }
}
