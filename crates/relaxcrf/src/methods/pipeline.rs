//! Chains of methods.

use std::fmt;
use std::str::FromStr;

use super::info::Answer;
use super::method::Method;
use crate::error::{Error, Result};
use crate::model::FilterKind;

/// Methods run one after the other, each from the beliefs of the one before: `qp+dc-neg`; or, after a slash,
/// from the start again: `mf/qp+dc-neg`, which gives the labelling of lowest energy of all chains.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    stages: Vec<Method>,
    /// The stages that begin with the beliefs of the run's start.
    anew: Vec<bool>,
}

impl Pipeline {
    /// Whether the labels of a run are the most believed ones of its beliefs, as for mean field.
    pub fn gives_most_believed_labels(&self) -> bool {
        self.answer() == Answer::Beliefs
    }

    /// Which labelling is this pipeline's own.
    pub(crate) fn answer(&self) -> Answer {
        let answers = |answer: Answer| move |m: &Method| m.info().answer == answer;
        if self.stages.iter().any(answers(Answer::BestSeen)) {
            Answer::BestSeen
        } else if self.is_one_chain() && self.stages.last().is_some_and(answers(Answer::Beliefs)) {
            Answer::Beliefs
        } else {
            Answer::LowestOwn
        }
    }

    /// The filter that suits this pipeline best, if the user names none.
    ///
    /// Mean-field updates alone take the sequential blur of the common code: half the work of the symmetric operator, the
    /// same energies, and the same numbers as pydensecrf.
    pub fn preferred_filter(&self) -> FilterKind {
        match &self.stages[..] {
            [alone] => alone.info().preferred_filter,
            _ => FilterKind::Auto,
        }
    }

    /// Whether the unaries alone decide.
    pub fn is_unary(&self) -> bool {
        self.stages == [Method::UNARY]
    }

    /// Whether the methods are still to be chosen.
    pub fn is_auto(&self) -> bool {
        self.stages == [Method::AUTO]
    }

    /// Whether a stage begins with the beliefs of the run's start.
    pub(crate) fn starts_anew(&self, stage: usize) -> bool {
        self.anew[stage]
    }

    /// Whether every stage goes on from the one before.
    pub fn is_one_chain(&self) -> bool {
        self.anew.iter().skip(1).all(|anew| !anew)
    }

    /// The stages in order.
    pub fn stages(&self) -> &[Method] {
        &self.stages
    }
}

impl From<Method> for Pipeline {
    fn from(method: Method) -> Self {
        Self { stages: vec![method], anew: vec![true] }
    }
}

impl From<&Self> for Pipeline {
    fn from(pipeline: &Self) -> Self {
        pipeline.clone()
    }
}

impl FromStr for Pipeline {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (mut stages, mut anew) = (Vec::new(), Vec::new());
        for chain in text.split('/') {
            for (k, name) in chain.split('+').enumerate() {
                stages.push(name.trim().parse()?);
                anew.push(k == 0);
            }
        }
        Ok(Self { stages, anew })
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (k, (stage, anew)) in self.stages.iter().zip(&self.anew).enumerate() {
            if k > 0 {
                f.write_str(if *anew { "/" } else { "+" })?;
            }
            write!(f, "{stage}")?;
        }
        Ok(())
    }
}
