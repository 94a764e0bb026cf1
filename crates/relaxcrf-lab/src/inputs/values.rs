//! Values in files to unary energies, with checks that they are of the kind that the option names.

use anyhow::{Context, Result, bail};
use relaxcrf::model::unary;
use relaxcrf_io::Window;

use super::{Source, place};
use crate::messages::Messages;

/// Probabilities this far outside of 0 to 1 are rounding errors.
const ROUNDING: f32 = 1e-3;
/// Sums of probabilities differ from 1 by this for rounding alone, and by as much again for each 8-bit label.
const SUM_SLACK: f32 = 0.01;
const SUM_SLACK_PER_LABEL: f32 = 0.002;

/// Notes how one channel is understood.
pub fn note_foreground(source: Source, messages: &Messages) {
    let name = source.name();
    messages.note(&match source {
        Source::Scores(_) => {
            format!("{name}: one channel; taken as the logit of label 1 (foreground), with 0 for label 0")
        }
        _ => format!(
            "{name}: one channel p; taken as the probability of label 1 (foreground), and 1 - p for label 0"
        ),
    });
}

/// Number of labels of a model whose values have this many channels.
pub fn labels_of_channels(source: Source, channels: usize) -> usize {
    if channels == 1 && source.can_be_foreground() { 2 } else { channels }
}

/// Energies of values as they are in a file: one row of `channels` values per pixel of `window`. Warns once.
pub fn energies(
    rows: Vec<f32>,
    channels: usize,
    source: Source,
    window: &Window,
    warned: &mut bool,
    messages: &Messages,
) -> Result<Vec<f32>> {
    let values = Values { rows: &rows, channels, source, window };
    let labels = labels_of_channels(source, channels);
    let is_foreground = labels != channels;
    let mut warn_once = |text: Option<String>| {
        if let Some(text) = text.filter(|_| !*warned) {
            messages.warn(&text);
            *warned = true;
        }
    };
    match source {
        Source::Probabilities(_) => {
            values.check_probabilities()?;
            if is_foreground {
                let both: Vec<f32> = rows.iter().flat_map(|&p| [1.0 - p, p]).collect();
                return unary::from_probabilities(&both, 2, unary::DEFAULT_FLOOR)
                    .with_context(|| source.name());
            }
            warn_once(values.sums_other_than_one());
            let mut rows = rows;
            unary::make_energies(&mut rows, labels, unary::DEFAULT_FLOOR).with_context(|| source.name())?;
            Ok(rows)
        }
        Source::Scores(_) => {
            values.check_finite(f32::NEG_INFINITY, "finite logits, or -inf to forbid a label")?;
            if is_foreground {
                let both: Vec<f32> = rows.iter().flat_map(|&s| [0.0, s]).collect();
                return unary::from_scores(&both, 2).with_context(|| source.name());
            }
            warn_once(values.probabilities_instead_of("logits (any real numbers)"));
            unary::from_scores(&rows, labels).with_context(|| source.name())
        }
        Source::Unary(_) | Source::Labels(_) => {
            values.check_finite(f32::INFINITY, "finite energies, or +inf to forbid a label")?;
            warn_once(values.probabilities_instead_of("energies (lower is better)"));
            Ok(rows)
        }
    }
}

struct Values<'v> {
    rows: &'v [f32],
    channels: usize,
    source: Source<'v>,
    window: &'v Window,
}

impl Values<'_> {
    fn place(&self, at: usize) -> String {
        format!("{}, label {}", place(at / self.channels, self.window), at % self.channels)
    }

    fn check_finite(&self, allowed: f32, expected: &str) -> Result<()> {
        let bad = |v: &f32| !v.is_finite() && *v != allowed;
        let Some(at) = self.rows.iter().position(bad) else { return Ok(()) };
        bail!("{}: {} at {}; expected {expected}", self.source.name(), self.rows[at], self.place(at))
    }

    fn check_probabilities(&self) -> Result<()> {
        let fits = |p: &f32| (-ROUNDING..=1.0 + ROUNDING).contains(p);
        let Some(at) = self.rows.iter().position(|p| !fits(p)) else { return Ok(()) };
        let (name, value, place) = (self.source.name(), self.rows[at], self.place(at));
        if value.is_nan() {
            bail!("{name}: NaN at {place}; expected probabilities from 0 to 1");
        }
        let finite = || self.rows.iter().copied().filter(|v| v.is_finite());
        let (low, high) =
            (finite().fold(f32::INFINITY, f32::min), finite().fold(f32::NEG_INFINITY, f32::max));
        let eight_bits = low >= 0.0 && high <= 255.0 && finite().all(|v| v.fract() == 0.0);
        let percent_of = |whole: f32| {
            let near = |row: &&[f32]| (row.iter().sum::<f32>() / whole - 1.0).abs() <= SUM_SLACK;
            let rows = self.rows.chunks_exact(self.channels);
            low >= 0.0 && high > 2.0 && 10 * rows.clone().filter(near).count() >= 9 * rows.len()
        };
        let advice = if eight_bits || percent_of(255.0) {
            "divide the array by 255 (8-bit pictures are scaled automatically)"
        } else if percent_of(100.0) {
            "divide the array by 100"
        } else {
            "if these are logits (scores), pass them with --logits; if energies (lower is better), with --unary"
        };
        bail!(
            "{name}: {value} at {place}, values from {low} to {high}; expected probabilities from 0 to 1: {advice}"
        )
    }

    /// A warning if many pixels' probabilities do not sum to 1.
    fn sums_other_than_one(&self) -> Option<String> {
        let slack = SUM_SLACK + SUM_SLACK_PER_LABEL * self.channels as f32;
        let sums = self.rows.chunks_exact(self.channels).map(|row| row.iter().sum::<f32>());
        let off: Vec<f32> = sums.filter(|sum| (sum - 1.0).abs() > slack).collect();
        let farther = |w: f32, s: f32| if (s - 1.0).abs() > (w - 1.0).abs() { s } else { w };
        let worst = off.iter().copied().fold(1.0, farther);
        (!off.is_empty()).then(|| {
            format!(
                "{}: the probabilities of {} of {} pixels do not sum to 1 (one sums to {worst:.3}); if these are logits \
                 (scores), pass them with --logits; if the labels are on another axis, pass --label-axis",
                self.source.name(),
                off.len(),
                self.rows.len() / self.channels
            )
        })
    }

    /// A warning if the values are probabilities: within 0 to 1, not all equal nor all 0 and 1 (costs of wrong labels), and
    /// every row sums to 1.
    fn probabilities_instead_of(&self, expected: &str) -> Option<String> {
        let (first, rows) = (*self.rows.first()?, self.rows.chunks_exact(self.channels));
        let in_range = |v: &f32| (0.0..=1.0).contains(v);
        let sums_to_one = |row: &[f32]| (row.iter().sum::<f32>() - 1.0).abs() <= SUM_SLACK;
        let probabilities = self.channels > 1
            && self.rows.iter().any(|&v| v != first)
            && self.rows.iter().any(|v| v.fract() != 0.0)
            && rows.clone().all(|row| row.iter().all(in_range) && sums_to_one(row));
        probabilities.then(|| {
            format!(
                "{}: all values lie in 0 to 1 and sum to 1 at every pixel, as probabilities do; expected {expected}: pass \
                 probabilities with --probs",
                self.source.name()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn read(rows: &[f32], channels: usize, source: Source) -> (Result<Vec<f32>>, String) {
        let messages = Messages::silent();
        let columns = 5..5 + rows.len() / channels;
        let energies = energies(rows.to_vec(), channels, source, &[2..3, columns], &mut false, &messages);
        (energies, messages.said().join("\n"))
    }

    #[test]
    fn wrong_probabilities_are_errors_with_advice_from_their_values() {
        let files = [PathBuf::from("p.npy")];
        let source = Source::Probabilities(&files);
        for (rows, text) in [
            ([0.5, 0.5, f32::NAN, 0.5], "p.npy: NaN at x 6, y 2, label 0; expected probabilities"),
            (
                [-2.0, 3.5, 1.0, 0.0],
                "-2 at x 5, y 2, label 0, values from -2 to 3.5; expected probabilities from 0 to 1: if these are logits (scores), pass them with --logits",
            ),
            ([0.0, 255.0, 100.0, 155.0], "divide the array by 255"),
            ([0.5, 254.5, 100.25, 154.75], "divide the array by 255"),
            ([0.5, 99.5, 10.25, 89.75], "divide the array by 100"),
        ] {
            let error = format!("{:#}", read(&rows, 2, source).0.unwrap_err());
            assert!(error.contains(text), "{error}");
        }
        let (energies, said) = read(&[0.5, 0.2, 0.3, 0.3], 2, source);
        assert!(
            energies.is_ok() && said.contains("2 of 2 pixels do not sum to 1") && said.contains("--logits"),
            "{said}"
        );
    }

    #[test]
    fn probabilities_given_as_energies_or_logits_are_recognised() {
        let path = Path::new("p.npy");
        for source in [Source::Unary(path), Source::Scores(path)] {
            let said = read(&[0.25, 0.75, 0.5, 0.5], 2, source).1;
            assert!(said.contains("pass probabilities with --probs"), "{said}");
            assert_eq!(read(&[0.5, 0.5, 0.5, 0.5], 2, source).1, "", "no preference at all");
            assert_eq!(read(&[0.25, 0.75, 0.5, 0.4], 2, source).1, "");
            assert_eq!(read(&[0.0, 1.0, 1.0, 0.0], 2, source).1, "", "costs of wrong labels");
        }
        let error = |rows: &[f32], source| format!("{:#}", read(rows, 2, source).0.unwrap_err());
        assert!(
            error(&[0.0, f32::NAN], Source::Unary(path))
                .contains("NaN at x 5, y 2, label 1; expected finite energies")
        );
        assert!(
            error(&[0.0, f32::INFINITY], Source::Scores(path))
                .contains("inf at x 5, y 2, label 1; expected finite logits")
        );
        assert!(read(&[0.0, f32::INFINITY], 2, Source::Unary(path)).0.is_ok());
    }

    #[test]
    fn one_channel_is_taken_as_the_foreground() {
        let files = [PathBuf::from("p.npy")];
        let energies = read(&[0.75], 1, Source::Probabilities(&files)).0.unwrap();
        assert!((energies[0] + 0.25f32.ln()).abs() < 1e-6 && (energies[1] + 0.75f32.ln()).abs() < 1e-6);
        let energies = read(&[0.0, 2.0], 1, Source::Scores(Path::new("s.npy"))).0.unwrap();
        assert!((energies[0] - energies[1]).abs() < 1e-6 && (energies[2] - energies[3] - 2.0).abs() < 1e-5);
        let several = [PathBuf::from("0.png"), PathBuf::from("1.png")];
        assert_eq!(labels_of_channels(Source::Probabilities(&several), 1), 1);
    }
}
