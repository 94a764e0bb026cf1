//! Accuracy, IoU and boundary bands of labels against a truth.

use std::collections::BTreeMap;

use relaxcrf::error::{Error, Result};

/// How often each true label was given each label, over any number of label maps.
///
/// Pixels whose truth is void count nowhere. A void prediction elsewhere counts as a miss of the true label, and
/// not as a false alarm of another.
///
/// ```
/// use relaxcrf_lab::metrics::Confusion;
/// # fn main() -> relaxcrf::Result<()> {
/// let mut confusion = Confusion::new(2);
/// confusion.add(&[0, 0, 1, 1], &[0, 1, 1, 255], Some(255))?;
/// assert_eq!(confusion.accuracy(), Some(2.0 / 3.0));
/// assert_eq!(confusion.mean_iou(), Some(0.5));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    labels: usize,
    /// Pixels by true and given label; none given has the number of labels. Only what occurs is stored: label numbers
    /// may be large and far between.
    counts: BTreeMap<(usize, usize), u64>,
    truly: BTreeMap<usize, u64>,
    given: BTreeMap<usize, u64>,
}

impl Confusion {
    /// Nothing counted yet.
    pub fn new(labels: usize) -> Self {
        Self { labels, counts: BTreeMap::new(), truly: BTreeMap::new(), given: BTreeMap::new() }
    }

    /// From counts as [`Confusion::entries`] gives them.
    pub fn from_entries(
        labels: usize,
        entries: impl IntoIterator<Item = (usize, usize, u64)>,
    ) -> Result<Self> {
        let mut all = Self::new(labels);
        for (truth, given, pixels) in entries {
            if truth >= labels || given > labels {
                let got = format!("true label {truth}, given {given}");
                return Err(Error::value("confusion matrix", got, format!("labels below {labels}")));
            }
            all.count(truth, given, pixels);
        }
        Ok(all)
    }

    fn count(&mut self, truth: usize, given: usize, pixels: u64) {
        for (counts, label) in [(&mut self.truly, truth), (&mut self.given, given)] {
            let n = counts.entry(label).or_default();
            *n = n.saturating_add(pixels);
        }
        let n = self.counts.entry((truth, given)).or_default();
        *n = n.saturating_add(pixels);
    }

    /// Counts a label map. Both slices are in the same pixel order.
    pub fn add(&mut self, predicted: &[u16], truth: &[u16], void: Option<u16>) -> Result<()> {
        self.add_where(predicted, truth, void, |_| true)
    }

    /// Counts the pixels of a label map for which `keep` holds. All pixels are checked.
    pub fn add_where(
        &mut self,
        predicted: &[u16],
        truth: &[u16],
        void: Option<u16>,
        keep: impl Fn(usize) -> bool,
    ) -> Result<()> {
        if predicted.len() != truth.len() {
            return Err(Error::shape(
                "predicted labels",
                format!("{} pixels", predicted.len()),
                format!("as many as the truth, {},", truth.len()),
            ));
        }
        self.check("truth", truth, void)?;
        self.check("predicted labels", predicted, void)?;
        // Neighbours mostly have the same labels: they are counted together.
        let (mut last, mut run) = ((0, 0), 0);
        for (at, (&p, &t)) in predicted.iter().zip(truth).enumerate() {
            if Some(t) != void && keep(at) {
                let given = if Some(p) == void { self.labels } else { usize::from(p) };
                let now = (usize::from(t), given);
                if now != last && run > 0 {
                    self.count(last.0, last.1, run);
                    run = 0;
                }
                (last, run) = (now, run + 1);
            }
        }
        if run > 0 {
            self.count(last.0, last.1, run);
        }
        Ok(())
    }

    fn check(&self, what: &str, map: &[u16], void: Option<u16>) -> Result<()> {
        let known = |l: u16| usize::from(l) < self.labels || Some(l) == void;
        match map.iter().position(|&l| !known(l)) {
            None => Ok(()),
            Some(at) => Err(Error::Element {
                what: what.into(),
                got: format!("label {}", map[at]),
                place: format!("pixel {at}"),
                expected: match void {
                    Some(void) => format!("labels below {}, or {void} for void", self.labels),
                    None => format!("labels below {}", self.labels),
                },
                fix: "is this value the void mark, or are there more labels?".into(),
            }),
        }
    }

    /// Adds what another one counted. Panics if it has another number of labels.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.labels, other.labels, "confusions of different label sets");
        for (truth, given, pixels) in other.entries() {
            self.count(truth, given, pixels);
        }
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// True label, given label and pixels, in order, of all pairs that occur; none given has the number of labels.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        self.counts.iter().map(|(&(truth, given), &pixels)| (truth, given, pixels))
    }

    /// Pixels counted.
    pub fn total(&self) -> u64 {
        self.truly.values().fold(0, |sum, &n| sum.saturating_add(n))
    }

    fn right(&self, label: usize) -> u64 {
        self.counts.get(&(label, label)).copied().unwrap_or(0)
    }

    /// Pixels that truly have the label.
    pub fn true_pixels(&self, label: usize) -> u64 {
        self.truly.get(&label).copied().unwrap_or(0)
    }

    /// Pixels that were given the label.
    pub fn given_pixels(&self, label: usize) -> u64 {
        self.given.get(&label).copied().unwrap_or(0)
    }

    /// Fraction of pixels with the right label; `None` without pixels.
    pub fn accuracy(&self) -> Option<f64> {
        ratio(self.truly.keys().fold(0, |sum: u64, &l| sum.saturating_add(self.right(l))), self.total())
    }

    /// Fraction of a label's true pixels that were found; `None` if it has none.
    pub fn class_accuracy(&self, label: usize) -> Option<f64> {
        ratio(self.right(label), self.true_pixels(label))
    }

    /// Mean of the class accuracies over the labels that occur in the truth.
    pub fn mean_accuracy(&self) -> Option<f64> {
        self.mean(Self::class_accuracy)
    }

    /// Intersection over union of a label's true and given pixels; `None` if it has no true pixels.
    pub fn iou(&self, label: usize) -> Option<f64> {
        let (right, truly) = (self.right(label), self.true_pixels(label));
        if truly == 0 {
            return None;
        }
        ratio(right, truly.saturating_add(self.given_pixels(label) - right))
    }

    /// Mean of the IoUs over the labels that occur in the truth.
    pub fn mean_iou(&self) -> Option<f64> {
        self.mean(Self::iou)
    }

    fn mean(&self, of: impl Fn(&Self, usize) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.truly.keys().filter_map(|&l| of(self, l)).collect();
        if values.is_empty() { None } else { Some(values.iter().sum::<f64>() / values.len() as f64) }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    if whole == 0 { None } else { Some(part as f64 / whole as f64) }
}

/// Marks the pixels at most `radius` from a boundary of the truth, along the axes or diagonally.
///
/// A boundary lies where neighbours have different labels; void counts as a label of its own, because many
/// data sets draw their object borders in it. Accuracy inside the band tells how sharp a segmentation is, which
/// overall accuracy hides.
pub fn boundary_band(truth: &[u16], width: usize, radius: usize) -> Vec<bool> {
    let width = width.max(1);
    let height = truth.len() / width;
    let mut edge = vec![false; truth.len()];
    for y in 0..height {
        for x in 0..width {
            let at = y * width + x;
            for other in [(x + 1 < width).then_some(at + 1), (y + 1 < height).then_some(at + width)] {
                if let Some(other) = other.filter(|&o| truth[o] != truth[at]) {
                    (edge[at], edge[other]) = (true, true);
                }
            }
        }
    }
    // A pixel at the edge is at distance 1 from the boundary between it and its neighbour.
    let Some(reach) = radius.checked_sub(1) else { return vec![false; truth.len()] };
    let rows = spread(&edge, height, width, |line, k| line * width + k, reach);
    spread(&rows, width, height, |line, k| k * width + line, reach)
}

/// Widens the marks along lines of `length` pixels by `reach` to both sides.
fn spread(
    marks: &[bool],
    lines: usize,
    length: usize,
    at: impl Fn(usize, usize) -> usize,
    reach: usize,
) -> Vec<bool> {
    let mut wide = vec![false; marks.len()];
    for line in 0..lines {
        // Marks seen so far minus those out of reach, in a window that slides along the line.
        let mut inside = (0..reach.min(length)).filter(|&k| marks[at(line, k)]).count();
        for k in 0..length {
            if k + reach < length && marks[at(line, k + reach)] {
                inside += 1;
            }
            if k > reach && marks[at(line, k - reach - 1)] {
                inside -= 1;
            }
            wide[at(line, k)] = inside > 0;
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Truth by row: label 0 has 5 pixels (4 found), 1 has 4 (2 found), 2 has 2 (none found, one void), 3 none.
    fn by_hand() -> Confusion {
        let truth = [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 9, 9];
        let given = [0, 0, 0, 0, 1, 1, 1, 0, 3, 0, 9, 0, 9];
        let mut confusion = Confusion::new(4);
        confusion.add(&given, &truth, Some(9)).unwrap();
        confusion
    }

    #[test]
    fn measures_of_a_small_example_equal_values_by_hand() {
        let c = by_hand();
        let entries: Vec<_> = c.entries().collect();
        assert_eq!(
            entries,
            [(0, 0, 4), (0, 1, 1), (1, 0, 1), (1, 1, 2), (1, 3, 1), (2, 0, 1), (2, 4, 1)],
            "void is label 4 here"
        );
        assert_eq!(c.total(), 11);
        assert_eq!(c.accuracy(), Some(6.0 / 11.0));
        assert_eq!(c.class_accuracy(0), Some(0.8));
        assert_eq!(c.class_accuracy(1), Some(0.5));
        assert_eq!(c.class_accuracy(2), Some(0.0));
        assert_eq!(c.class_accuracy(3), None);
        assert!((c.mean_accuracy().unwrap() - 1.3 / 3.0).abs() < 1e-12);
        // Unions: 5 true + 6 given - 4; 4 + 3 - 2; 2 + 0 - 0.
        assert_eq!(c.iou(0), Some(4.0 / 7.0));
        assert_eq!(c.iou(1), Some(2.0 / 5.0));
        assert_eq!(c.iou(2), Some(0.0));
        assert_eq!(c.iou(3), None);
        assert!((c.mean_iou().unwrap() - (4.0 / 7.0 + 0.4) / 3.0).abs() < 1e-12);
        assert_eq!((c.given_pixels(0), c.given_pixels(3)), (6, 1));
    }

    #[test]
    fn merged_confusion_counts_both_maps() {
        let (mut a, b) = (by_hand(), by_hand());
        a.merge(&b);
        assert_eq!(a.total(), 22);
        assert_eq!(a.accuracy(), b.accuracy());
        assert_eq!(Confusion::from_entries(4, a.entries()).unwrap(), a);
        let message = Confusion::from_entries(2, a.entries()).unwrap_err().to_string();
        assert!(message.contains("true label 1, given 3"), "{message}");
    }

    #[test]
    fn empty_confusion_has_no_measures() {
        let mut c = Confusion::new(2);
        c.add(&[0, 1], &[7, 7], Some(7)).unwrap();
        assert_eq!((c.accuracy(), c.mean_iou(), c.mean_accuracy()), (None, None, None));
    }

    #[test]
    fn bad_labels_and_sizes_are_errors_and_count_nothing() {
        let mut c = Confusion::new(2);
        let e = c.add(&[0, 2], &[0, 1], Some(255)).unwrap_err().to_string();
        assert!(e.contains("predicted") && e.contains("label 2") && e.contains("pixel 1"), "{e}");
        let e = c.add(&[0, 1], &[0, 255], None).unwrap_err().to_string();
        assert!(e.contains("truth") && e.contains("label 255"), "{e}");
        assert!(c.add(&[0], &[0, 1], None).unwrap_err().to_string().contains("as many as the truth"));
        assert_eq!(c.total(), 0);
    }

    #[test]
    fn boundary_band_equals_a_search_over_all_pixels() {
        let (width, height) = (11usize, 7usize);
        let truth: Vec<u16> =
            (0..width * height).map(|i| u16::from(i % width > 6) + 2 * u16::from(i / width > 5)).collect();
        for radius in 0..5 {
            let band = boundary_band(&truth, width, radius);
            assert_eq!(band.len(), width * height);
            for (at, &inside) in band.iter().enumerate() {
                let (x, y) = (at % width, at / width);
                // Within the radius of some pixel with another label across a shared side.
                let near = (0..width * height).any(|o| {
                    let (ox, oy) = (o % width, o / width);
                    let edge = (ox + 1 < width && truth[o + 1] != truth[o])
                        || (ox > 0 && truth[o - 1] != truth[o])
                        || (oy + 1 < height && truth[o + width] != truth[o])
                        || (oy > 0 && truth[o - width] != truth[o]);
                    edge && x.abs_diff(ox).max(y.abs_diff(oy)) < radius
                });
                assert_eq!(inside, near, "radius {radius} at {x},{y}");
            }
        }
        assert!(boundary_band(&[], 0, 3).is_empty());
    }
}
