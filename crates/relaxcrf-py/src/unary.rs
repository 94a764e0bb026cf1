//! Unary energies from what Python hands over.

use numpy::PyReadonlyArray1;
use numpy::ndarray::{ArrayView1, ArrayView2};
use pyo3::prelude::*;
use relaxcrf::Result;
use relaxcrf::model::unary;

use crate::arrays::{Rows, check_room, to_rows};
use crate::errors::ArgumentError;

/// Rows of numbers, or one mark per point.
#[derive(FromPyObject)]
pub enum Source<'py> {
    /// What the numbers are (energies, probabilities or scores), one row per point, and for probabilities the least that
    /// counts.
    Rows((String, Rows<'py>, f32)),
    /// Label of each point, number of labels, probability that a label is right, and the mark of undecided points.
    Marks((PyReadonlyArray1<'py, u16>, usize, f32, Option<u16>)),
}

/// A [`Source`] without the interpreter lock.
pub enum View<'a> {
    Energies(ArrayView2<'a, f32>),
    Probabilities(ArrayView2<'a, f32>, f32),
    Scores(ArrayView2<'a, f32>),
    Marks(ArrayView1<'a, u16>, usize, f32, Option<u16>),
}

impl<'py> Source<'py> {
    /// What there is to read.
    pub fn view(&self) -> PyResult<View<'_>> {
        Ok(match self {
            Self::Rows((kind, rows, clip)) => match kind.as_str() {
                "energies" => View::Energies(rows.as_array()),
                "probabilities" => View::Probabilities(rows.as_array(), *clip),
                "scores" => View::Scores(rows.as_array()),
                _ => return Err(ArgumentError::new_err(format!("unary of unknown kind `{kind}`"))),
            },
            Self::Marks((marks, labels, confidence, unsure)) => {
                View::Marks(marks.as_array(), *labels, *confidence, *unsure)
            }
        })
    }
}

impl View<'_> {
    /// Number of labels.
    pub fn labels(&self) -> usize {
        match self {
            Self::Energies(rows) | Self::Probabilities(rows, _) | Self::Scores(rows) => rows.ncols(),
            Self::Marks(_, labels, ..) => *labels,
        }
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        match self {
            Self::Energies(rows) | Self::Probabilities(rows, _) | Self::Scores(rows) => rows.nrows(),
            Self::Marks(marks, ..) => marks.len(),
        }
    }

    /// The energies, one row per point.
    pub fn energies(&self) -> Result<Vec<f32>> {
        let labels = self.labels();
        match self {
            Self::Energies(rows) => to_rows(*rows),
            Self::Probabilities(rows, clip) => {
                let mut rows = to_rows(*rows)?;
                unary::make_energies(&mut rows, labels, *clip)?;
                Ok(rows)
            }
            Self::Scores(rows) => unary::from_scores(&to_rows(*rows)?, labels),
            Self::Marks(marks, _, confidence, unsure) => {
                check_room(marks.len(), labels, "unary energies")?;
                unary::from_labels(&marks.to_vec(), labels, *confidence, *unsure)
            }
        }
    }
}
