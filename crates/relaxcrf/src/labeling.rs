//! One label per pixel.

use crate::error::{Error, Result};

/// Most labels a problem may have: labels are stored as `u16`.
pub const MAX_LABELS: usize = 65_535;

/// A label for every pixel (or point), in the model's pixel order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labeling {
    labels: Vec<u16>,
}

impl Labeling {
    /// Takes the labels as they are; they are checked against a model where they meet one.
    pub fn new(labels: Vec<u16>) -> Self {
        Self { labels }
    }

    /// Every pixel gets the same label.
    pub fn constant(pixels: usize, label: u16) -> Self {
        Self { labels: vec![label; pixels] }
    }

    /// The labels in pixel order.
    pub fn as_slice(&self) -> &[u16] {
        &self.labels
    }

    /// Number of pixels.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no pixels at all.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The labels, without a copy.
    pub fn into_vec(self) -> Vec<u16> {
        self.labels
    }

    /// Fails unless there are `pixels` labels, all below `labels`.
    pub fn check(&self, pixels: usize, labels: usize) -> Result<()> {
        if self.labels.len() != pixels {
            return Err(Error::shape(
                "labelling",
                format!("{} pixels", self.labels.len()),
                format!("one label for each of the model's {pixels} pixels"),
            ));
        }
        match self.labels.iter().position(|&l| usize::from(l) >= labels) {
            None => Ok(()),
            Some(at) => Err(Error::Element {
                what: "labelling".into(),
                got: format!("label {}", self.labels[at]),
                place: format!("pixel {at}"),
                expected: format!("labels 0 to {}", labels - 1),
                fix: "is this value a void or unsure mark?".into(),
            }),
        }
    }

    /// Number of pixels of each label.
    pub fn histogram(&self, labels: usize) -> Vec<usize> {
        let mut counts = vec![0; labels];
        for &l in &self.labels {
            if let Some(c) = counts.get_mut(usize::from(l)) {
                *c += 1;
            }
        }
        counts
    }
}
