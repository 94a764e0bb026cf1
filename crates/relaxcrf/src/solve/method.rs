//! The methods' names, what they promise, and chains of them.

use std::fmt;
use std::str::FromStr;

use super::Solver;
use super::mean_field::MeanField;
use crate::error::{Error, Result};
use crate::model::Model;

/// One method with its options.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// Each pixel on its own.
    Unary,
    /// Mean field with a free energy that never rises.
    MeanField,
    /// Five parallel mean-field updates, as the common code does them.
    MeanField5,
}

/// What `relaxcrf methods` prints.
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// Name on the command line and in Python.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// What it guarantees.
    pub promise: &'static str,
}

/// All methods, in the order in which they are shown.
pub const METHODS: &[MethodInfo] = &[
    MethodInfo { name: "unary", summary: "argmin of the unary energies, no smoothing", promise: "" },
    MethodInfo {
        name: "mf",
        summary: "mean field to convergence",
        promise: "free energy never rises (symmetric operators)",
    },
    MethodInfo {
        name: "mf5",
        summary: "five parallel mean-field updates",
        promise: "equals the common code",
    },
];

impl Method {
    /// A fresh solver, or why the method is not valid for this model.
    pub(super) fn solver(&self, model: &Model) -> Result<Box<dyn Solver>> {
        Ok(match self {
            Self::Unary => Box::new(super::mean_field::UnaryOnly),
            Self::MeanField => Box::new(MeanField::monotone(model)),
            Self::MeanField5 => Box::new(MeanField::plain(model)),
        })
    }

    /// Iterations after which the loop gives up unless told otherwise.
    pub fn default_iterations(&self) -> usize {
        match self {
            Self::Unary => 1,
            Self::MeanField => 200,
            Self::MeanField5 => 5,
        }
    }

    /// Share of [`Model::scale`] below which an iteration counts as converged, unless told otherwise.
    pub fn default_tolerance(&self) -> f64 {
        match self {
            Self::Unary => f64::INFINITY,
            Self::MeanField => 1e-7,
            // Five updates are five updates.
            Self::MeanField5 => -1.0,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Unary => "unary",
            Self::MeanField => "mf",
            Self::MeanField5 => "mf5",
        })
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "unary" => Ok(Self::Unary),
            "mf" => Ok(Self::MeanField),
            "mf5" => Ok(Self::MeanField5),
            _ => {
                let names = METHODS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ");
                Err(Error::parse("method", text, format!("known methods: {names}; chain them with +")))
            }
        }
    }
}

/// Methods run one after the other, each from the beliefs of the one before: `qp+dc-neg`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    stages: Vec<Method>,
}

impl Pipeline {
    /// The stages in order.
    pub fn stages(&self) -> &[Method] {
        &self.stages
    }
}

impl From<Method> for Pipeline {
    fn from(method: Method) -> Self {
        Self { stages: vec![method] }
    }
}

impl FromStr for Pipeline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let stages = text.split('+').map(|name| name.trim().parse()).collect::<Result<_>>()?;
        Ok(Self { stages })
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (k, stage) in self.stages.iter().enumerate() {
            if k > 0 {
                f.write_str("+")?;
            }
            write!(f, "{stage}")?;
        }
        Ok(())
    }
}
