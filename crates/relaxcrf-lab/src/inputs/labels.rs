//! Hard labels: which values of a label map stand for which labels of the model, and unary energies from them.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf::model::unary;
use relaxcrf_io::{self as io, Palette, Window};

use super::unary::{Unary, check_label_count};
use super::{check_size, place};
use crate::messages::Messages;
use crate::options::UnaryOptions;

/// Marks pixels whose value stands for no label. Models have fewer labels.
const NO_LABEL: u16 = u16::MAX;
/// Values up to this far apart are not compacted: a label that an image happens to lack costs little.
const MIN_MISSING: usize = 8;
/// Values up to the first and from the second on are the dark and the light end of a soft mask.
const DARK: u16 = 10;
const LIGHT: u16 = 245;

/// The values of a label map that stand for labels 0, 1, 2, ... of the model; by default each value for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelValues(Option<Vec<u16>>);

impl LabelValues {
    /// Returns the label map's value of each label.
    pub fn restore<'l>(&self, labels: &'l [u16]) -> Cow<'l, [u16]> {
        match &self.0 {
            None => Cow::Borrowed(labels),
            Some(_) => Cow::Owned(labels.iter().map(|&l| self.value(l)).collect()),
        }
    }

    /// The value that stands for a label.
    pub fn value(&self, label: u16) -> u16 {
        self.0.as_ref().and_then(|values| values.get(usize::from(label)).copied()).unwrap_or(label)
    }

    /// The label that a value stands for.
    pub fn label(&self, value: u16) -> Option<u16> {
        match &self.0 {
            None => Some(value),
            Some(values) => values.binary_search(&value).ok().map(|label| label as u16),
        }
    }

    /// Returns each value's label, and `u16::MAX` for values without a label.
    pub fn labels<'v>(&self, values: &'v [u16]) -> Cow<'v, [u16]> {
        if self.0.is_none() {
            return Cow::Borrowed(values);
        }
        let table: Vec<u16> = (0..=u16::MAX).map(|v| self.label(v).unwrap_or(NO_LABEL)).collect();
        Cow::Owned(values.iter().map(|&v| table[usize::from(v)]).collect())
    }

    /// One more than the largest value of a model with this many labels, for files of label maps.
    pub fn end(&self, labels: usize) -> usize {
        self.0.as_ref().and_then(|values| values.last()).map_or(labels, |&last| usize::from(last) + 1)
    }

    /// Whether some value differs from its label.
    pub fn is_mapped(&self) -> bool {
        self.0.is_some()
    }

    /// Whether these are the values of a mask, 0 and 255.
    pub fn is_mask(&self) -> bool {
        self.0.as_deref() == Some(&[0, 255])
    }

    /// Colours for a file: those that the user chose, if any, else the palette of the label values.
    pub fn colours(&self, chosen: Option<&Palette>) -> Result<Palette> {
        chosen.map_or_else(|| self.palette(), |palette| Ok(palette.clone()))
    }

    /// Colours for a file: grey for a mask, so that readers of grey pictures find 0 and 255 too.
    fn palette(&self) -> Result<Palette> {
        if self.is_mask() {
            let grey: Vec<[u8; 3]> = (0..=255).map(|v| [v; 3]).collect();
            return Ok(Palette::new(&grey)?);
        }
        Ok(Palette::voc())
    }
}

/// The values that occur in a label map.
#[derive(Debug)]
pub struct Occurring {
    /// Pixels by value.
    counts: Vec<u64>,
    unsure: Option<u16>,
}

/// How a label map is read, decided from its values.
#[derive(Debug)]
pub struct Reading {
    /// Number of labels.
    pub labels: usize,
    /// The label map's values that stand for the labels.
    pub values: LabelValues,
}

impl Occurring {
    /// No values yet; `unsure` never counts as one.
    pub fn new(unsure: Option<u16>) -> Self {
        Self { counts: vec![0; 1 << 16], unsure }
    }

    /// Counts the values of some pixels.
    pub fn add(&mut self, marks: &[u16]) {
        marks.iter().for_each(|&m| self.counts[usize::from(m)] += 1);
    }

    /// All values but the unsure mark, in order.
    fn values(&self) -> Vec<u16> {
        let present = (0..=u16::MAX).filter(|&v| self.counts[usize::from(v)] > 0);
        present.filter(|&v| Some(v) != self.unsure).collect()
    }

    /// Decides how the values become labels, with notes and warnings about it.
    pub fn decide(&self, path: &Path, args: &UnaryOptions, messages: &Messages) -> Result<Reading> {
        let shown = path.display();
        if let Some(n) = args.num_labels {
            return Ok(Reading { labels: n.into(), values: LabelValues::default() });
        }
        let values = self.values();
        let Some(&largest) = values.last() else {
            bail!("{shown}: every pixel is marked unsure; expected some labels, or --num-labels");
        };
        let labels = usize::from(largest) + 1;
        if values == [0, 255] {
            messages.note(&format!(
                "{shown}: a mask with the values 0 and 255; taken as labels 0 (background) and 1 (foreground), and \
                 written as 0 and 255 (--num-labels 256 to take values as they are)"
            ));
            return Ok(Reading { labels: 2, values: LabelValues(Some(values)) });
        }
        if self.is_soft_mask(&values) {
            messages.warn(&format!(
                "{shown}: {} values, nearly all near 0 and 255, each taken as a label; if this is a soft mask, pass it \
                 with --probs, or threshold it",
                values.len()
            ));
        } else if largest == 255 && values.len() > 2 {
            messages.warn(&format!(
                "{shown}: value 255 occurs and is taken as a label; if 255 marks unlabelled pixels, pass --unsure 255"
            ));
        }
        if args.keep_values || labels < 2 * values.len() || labels - values.len() < MIN_MISSING {
            return Ok(Reading { labels, values: LabelValues::default() });
        }
        let taken = match values[..] {
            [only] => format!("only the value {only}; taken as label 0, and written as it was"),
            _ => format!(
                "{} values between {} and {largest}; taken as labels 0 to {}, and written as they were",
                values.len(),
                values[0],
                values.len() - 1
            ),
        };
        messages.note(&format!("{shown}: {taken} (--num-labels {labels} to take values as they are)"));
        Ok(Reading { labels: values.len(), values: LabelValues(Some(values)) })
    }

    /// Whether this is a mask whose edges were smoothed or compressed.
    fn is_soft_mask(&self, values: &[u16]) -> bool {
        let count = |low: u16, high: u16| self.counts[low.into()..=high.into()].iter().sum::<u64>();
        let (dark, light) = (count(0, DARK), count(LIGHT, 255));
        let near_white = count(LIGHT, 254);
        values.len() > 2
            && values.last().is_some_and(|&l| l <= 255)
            && dark > 0
            && near_white > 0
            && 10 * (dark + light) >= 9 * self.counts.iter().sum::<u64>()
    }
}

/// Unary energies of the marks in a window.
pub fn energies(
    marks: &[u16],
    reading: &Reading,
    window: &Window,
    path: &Path,
    args: &UnaryOptions,
) -> Result<Vec<f32>> {
    let labels = reading.labels;
    let fits = |m: u16| Some(m) == args.unsure || usize::from(m) < labels;
    if let (false, Some(at)) = (reading.values.is_mapped(), marks.iter().position(|&m| !fits(m))) {
        let value = marks[at];
        bail!(
            "{}: value {value} at {}; expected 0 to {} ({labels} labels). If {value} marks unlabelled pixels, pass \
             --unsure {value}",
            path.display(),
            place(at, window),
            labels - 1
        );
    }
    let (marks, unsure) = match (reading.values.is_mapped(), args.unsure) {
        (false, unsure) => (Cow::Borrowed(marks), unsure),
        // No value but the unsure mark is without a label.
        (true, unsure) => (reading.values.labels(marks), unsure.map(|_| NO_LABEL)),
    };
    unary::from_labels(&marks, labels, args.confidence, unsure).with_context(|| path.display().to_string())
}

/// Reads a whole label map.
pub fn read(
    path: &Path,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryOptions,
    messages: &Messages,
) -> Result<Unary> {
    let map = io::read_labels(path)?;
    check_size("label map", path, (map.width, map.height), image_path, size)?;
    let reading = reading(&map.labels, path, args, messages)?;
    check_label_count(path, reading.labels)?;
    let rows = energies(&map.labels, &reading, &[0..size.1, 0..size.0], path, args)?;
    Ok(Unary { labels: reading.labels, rows, values: reading.values })
}

/// Decides how a whole label map is read.
pub fn reading(marks: &[u16], path: &Path, args: &UnaryOptions, messages: &Messages) -> Result<Reading> {
    let mut occurring = Occurring::new(args.unsure);
    occurring.add(marks);
    occurring.decide(path, args, messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(num_labels: Option<u16>, unsure: Option<u16>) -> UnaryOptions {
        UnaryOptions { label_axis: 0, confidence: 0.7, unsure, num_labels, keep_values: false }
    }

    fn decided(marks: &[u16], args: &UnaryOptions) -> (Reading, Vec<String>) {
        let messages = Messages::silent();
        let reading = reading(marks, Path::new("m.png"), args, &messages).unwrap();
        (reading, [messages.noted(), messages.said()].concat())
    }

    #[test]
    fn values_of_masks_and_sparse_maps_are_compacted_and_restored() {
        let plain = args(None, None);
        for (marks, labels, value) in [
            (&[0, 255, 0][..], 2, 255),
            (&[0, 12, 180], 3, 12),
            (&[0, 1, 2, 3], 4, 1),
            (&[0, 1, 2, 5], 6, 1),
            (&[0, 15], 2, 15),
            (&[0], 1, 1),
        ] {
            let (reading, _) = decided(marks, &plain);
            assert_eq!((reading.labels, reading.values.value(1)), (labels, value), "{marks:?}");
            let labels = reading.values.labels(marks);
            assert_eq!(reading.values.restore(&labels), marks);
            assert!(labels.iter().all(|&l| usize::from(l) < reading.labels));
        }
    }

    #[test]
    fn num_labels_keeps_values_as_they_are() {
        let (reading, said) = decided(&[0, 255], &args(Some(256), None));
        assert_eq!((reading.labels, reading.values.is_mapped(), said.len()), (256, false, 0));
        let costs_of_values = UnaryOptions { keep_values: true, ..args(None, None) };
        assert_eq!(decided(&[0, 12, 180], &costs_of_values).0.labels, 181);
        assert_eq!(decided(&[0, 255], &costs_of_values).0.labels, 2);
    }

    #[test]
    fn unsure_mark_keeps_its_meaning_in_compacted_maps() {
        let (reading, _) = decided(&[0, 255, 1], &args(None, Some(1)));
        assert!(reading.values.is_mask());
        let plain = args(None, Some(1));
        let rows = energies(&[0, 255, 1], &reading, &[0..1, 0..3], Path::new("m"), &plain).unwrap();
        assert!(rows[0] < rows[1] && rows[3] < rows[2] && rows[4] == rows[5], "{rows:?}");
    }

    #[test]
    fn likely_mistakes_in_label_maps_are_warned_about() {
        let plain = args(None, None);
        let soft: Vec<u16> = [vec![0; 50], vec![255; 50], vec![1, 3, 252, 120]].concat();
        for (marks, text) in [
            (&[0, 255][..], "taken as labels 0 (background) and 1 (foreground), and written as 0 and 255"),
            (&[0, 12, 180], "3 values between 0 and 180; taken as labels 0 to 2"),
            (&[0, 1, 255], "pass --unsure 255"),
            (&soft, "pass it with --probs"),
        ] {
            let (_, said) = decided(marks, &plain);
            assert!(said.join("\n").contains(text), "{text}: {said:?}");
        }
        assert!(decided(&[0, 1, 2], &plain).1.is_empty());
    }
}
