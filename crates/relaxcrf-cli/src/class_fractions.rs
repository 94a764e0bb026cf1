//! Pixels per label before and after a run, for the summary.

use relaxcrf::Labeling;
use relaxcrf_lab::report::wrap::entry;
use serde::Serialize;

/// Labels with a smaller fraction before and after are only counted.
const MIN_SHOWN: f64 = 0.01;
/// A label that has disappeared is shown if it had at least this fraction.
const MIN_REMOVED: f64 = 0.001;
/// Largest number of labels shown.
const MAX_SHOWN: usize = 12;

/// Pixels of one label, as fractions of the image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassFraction {
    pub label: u16,
    /// `null` without names.
    pub name: Option<String>,
    /// With the lowest unary energy.
    pub before: f64,
    /// In the result.
    pub after: f64,
}

impl ClassFraction {
    fn matters(&self) -> bool {
        let is_removed = self.after == 0.0 && self.before >= MIN_REMOVED;
        self.before.max(self.after) >= MIN_SHOWN || is_removed
    }

    fn shown(&self) -> String {
        let name = self.name.clone().unwrap_or_else(|| format!("label {}", self.label));
        format!("{name} {} -> {}", percent(self.before), percent(self.after))
    }
}

fn percent(fraction: f64) -> String {
    if fraction == 0.0 { "none".into() } else { format!("{:.1}%", 100.0 * fraction) }
}

/// The labels that occur before or after, the largest first.
pub fn class_fractions(
    before: &Labeling,
    after: &Labeling,
    labels: usize,
    names: &[String],
) -> Vec<ClassFraction> {
    let counts = [before, after].map(|labeling| labeling.histogram(labels));
    let fraction = |count: usize, labeling: &Labeling| count as f64 / labeling.len().max(1) as f64;
    let mut fractions: Vec<ClassFraction> = (0..labels)
        .filter(|&label| counts.iter().any(|c| c[label] > 0))
        .map(|label| ClassFraction {
            label: label as u16,
            name: names.get(label).cloned(),
            before: fraction(counts[0][label], before),
            after: fraction(counts[1][label], after),
        })
        .collect();
    // Stable: equal fractions stay in the order of the labels.
    fractions.sort_by(|a, b| {
        (b.after, b.before).partial_cmp(&(a.after, a.before)).unwrap_or(std::cmp::Ordering::Equal)
    });
    fractions
}

/// Lists the labels that matter, in lines that begin at this column.
pub fn summary(fractions: &[ClassFraction], column: usize) -> String {
    let shown: Vec<&ClassFraction> = fractions.iter().filter(|s| s.matters()).take(MAX_SHOWN).collect();
    let mut parts: Vec<String> = shown.iter().map(|s| s.shown()).collect();
    if fractions.len() > shown.len() {
        parts.push(format!("{} more", fractions.len() - shown.len()));
    }
    entry("", column, &parts.join(", ")).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fractions(before: [usize; 4], after: [usize; 4], names: &[&str]) -> Vec<ClassFraction> {
        let labeling = |counts: [usize; 4]| {
            Labeling::new(counts.iter().enumerate().flat_map(|(l, &n)| vec![l as u16; n]).collect())
        };
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        class_fractions(&labeling(before), &labeling(after), 5, &names)
    }

    #[test]
    fn summary_lists_fractions_before_and_after_with_names_if_known() {
        let found = fractions([620, 370, 6, 4], [641, 359, 0, 0], &["background", "person", "dog", "cat"]);
        assert_eq!(
            summary(&found, 0).replace('\n', " "),
            "background 62.0% -> 64.1%, person 37.0% -> 35.9%, dog 0.6% -> none, cat 0.4% -> none"
        );
        let found = fractions([0, 500, 495, 5], [0, 498, 495, 7], &[]);
        assert_eq!(summary(&found, 0), "label 1 50.0% -> 49.8%, label 2 49.5% -> 49.5%, 1 more");
    }

    #[test]
    fn summary_of_many_labels_is_wrapped_at_the_column() {
        let name = "a name of some length";
        let found = fractions([25, 25, 25, 25], [40, 30, 20, 10], &[name; 4]);
        let shown = format!("{:13}{}", "pixels", summary(&found, 13));
        assert!(shown.lines().count() > 1);
        assert!(shown.lines().all(|l| l.len() <= 80), "{shown}");
        assert!(shown.lines().skip(1).all(|l| l.starts_with(&" ".repeat(13))));
    }
}
