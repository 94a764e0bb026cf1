//! Unary energies from what users have: probabilities, scores, hard labels.
//!
//! All functions return one row of L energies per pixel. An energy of `+∞` forbids the label there.

use crate::allocation::require;
use rayon::prelude::*;
use relaxcrf_filter::reduce;

use crate::error::{Error, Result};

/// Probabilities below this are raised to it, unless told otherwise: a zero from a network means
/// "very unlikely", not "impossible". The common code clips at the same value.
pub const DEFAULT_FLOOR: f32 = 1e-5;

/// Energies -log p of probability rows (one row of `labels` values per pixel).
///
/// Values are clipped to `[floor, 1]`; with a floor of 0 a probability of 0 becomes a hard constraint.
/// Rows need not sum to one.
pub fn from_probabilities(rows: &[f32], labels: usize, floor: f32) -> Result<Vec<f32>> {
    require_room(rows.len())?;
    let mut rows = rows.to_vec();
    make_energies(&mut rows, labels, floor)?;
    Ok(rows)
}

/// Replaces probabilities by the energies that [`from_probabilities`] makes of them.
pub fn make_energies(rows: &mut [f32], labels: usize, floor: f32) -> Result<()> {
    if !(0.0..1.0).contains(&floor) {
        return Err(Error::value("probability floor", floor, "at least 0 and below 1"));
    }
    let is_probability = |p: f32| (-1e-3..=1.0 + 1e-3).contains(&p);
    // Without an early exit, which makes it vector code.
    let all_are = |piece: &[f32]| piece.iter().fold(true, |all, &p| all & is_probability(p));
    if !rows.par_chunks(reduce::CHUNK).all(all_are)
        && let Some(at) = rows.iter().position(|&p| !is_probability(p))
    {
        return Err(Error::Element {
            what: "probabilities".into(),
            got: rows[at].to_string(),
            place: place(at, labels),
            expected: "numbers from 0 to 1".into(),
            fix: "are these scores (logits) or energies?".into(),
        });
    }
    rows.par_chunks_mut(reduce::CHUNK).for_each(|piece| {
        piece.iter_mut().for_each(|p| *p = -p.clamp(floor, 1.0).ln());
    });
    Ok(())
}

/// Energies -log softmax(score) of score rows: logits of a network, or any "higher is better".
pub fn from_scores(rows: &[f32], labels: usize) -> Result<Vec<f32>> {
    if let Some(at) = rows.iter().position(|&s| s.is_nan() || s == f32::INFINITY) {
        return Err(Error::Element {
            what: "scores".into(),
            got: rows[at].to_string(),
            place: place(at, labels),
            expected: "numbers, or -inf for impossible labels".into(),
            fix: String::new(),
        });
    }
    require_room(rows.len())?;
    let mut out = Vec::with_capacity(rows.len());
    for row in rows.chunks_exact(labels.max(1)) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&s| f64::from(s - max).exp()).sum();
        let log_sum = max + sum.ln() as f32;
        out.extend(row.iter().map(|&s| log_sum - s));
    }
    Ok(out)
}

/// Energies from hard labels that are right with probability `confidence`; the rest is shared by the
/// other labels. A pixel marked `unsure` has no preference.
pub fn from_labels(marks: &[u16], labels: usize, confidence: f32, unsure: Option<u16>) -> Result<Vec<f32>> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(Error::value("label confidence", confidence, "above 0 and below 1"));
    }
    let (hit, miss) = (-confidence.ln(), -((1.0 - confidence) / (labels.max(2) - 1) as f32).ln());
    let undecided = (labels.max(1) as f32).ln();
    require_room(marks.len().saturating_mul(labels))?;
    let mut out = Vec::with_capacity(marks.len() * labels);
    for (a, &mark) in marks.iter().enumerate() {
        if Some(mark) == unsure {
            out.extend(std::iter::repeat_n(undecided, labels));
            continue;
        }
        if usize::from(mark) >= labels {
            return Err(Error::Element {
                what: "labels".into(),
                got: mark.to_string(),
                place: format!("pixel {a}"),
                expected: format!("0 to {}", labels.saturating_sub(1)),
                fix: format!("if {mark} marks undecided pixels, declare it as the unsure label"),
            });
        }
        out.extend((0..labels).map(|i| if i == usize::from(mark) { hit } else { miss }));
    }
    Ok(out)
}

/// Turns L planes of N values (the usual L x H x W array) into N rows of L.
pub fn rows_from_planes(planes: &[f32], labels: usize) -> Vec<f32> {
    let pixels = planes.len() / labels.max(1);
    let mut rows = vec![0.0; pixels * labels];
    for (i, plane) in planes.chunks_exact(pixels.max(1)).take(labels).enumerate() {
        for (row, &v) in rows.chunks_exact_mut(labels).zip(plane) {
            row[i] = v;
        }
    }
    rows
}

fn require_room(values: usize) -> Result<()> {
    require("memory for the unary energies", (values as u64).saturating_mul(4))
}

fn place(at: usize, labels: usize) -> String {
    format!("pixel {}, label {}", at / labels.max(1), at % labels.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_clipped() {
        let e = from_probabilities(&[0.0, 1.0, 0.5, 0.5], 2, DEFAULT_FLOOR).unwrap();
        assert!((e[0] - 11.512_925).abs() < 1e-4 && e[1] == 0.0);
        assert!((e[2] - 2f32.ln()).abs() < 1e-6);
        assert_eq!(from_probabilities(&[0.0, 1.0], 2, 0.0).unwrap()[0], f32::INFINITY);
        assert!(from_probabilities(&[1.5, 0.0], 2, DEFAULT_FLOOR).is_err());
        assert!(from_probabilities(&[f32::NAN, 0.0], 2, DEFAULT_FLOOR).is_err());
    }

    #[test]
    fn scores_become_negative_log_softmax() {
        let e = from_scores(&[1.0, 1.0, 0.0, f32::NEG_INFINITY], 2).unwrap();
        assert!((e[0] - 2f32.ln()).abs() < 1e-6);
        assert!(e[2].abs() < 1e-6 && e[3] == f32::INFINITY);
    }

    #[test]
    fn labels_with_confidence_and_unsure() {
        let e = from_labels(&[1, 255], 3, 0.7, Some(255)).unwrap();
        assert!((e[1] + 0.7f32.ln()).abs() < 1e-6);
        assert!((e[0] + 0.15f32.ln()).abs() < 1e-6);
        assert!(e[3..].iter().all(|&x| (x - 3f32.ln()).abs() < 1e-6));
        assert!(from_labels(&[3], 3, 0.7, None).is_err());
        assert!(from_labels(&[0], 3, 1.0, None).is_err());
    }

    #[test]
    fn planes_become_rows() {
        assert_eq!(rows_from_planes(&[1., 2., 3., 10., 20., 30.], 2), [1., 10., 2., 20., 3., 30.]);
    }
}
