//! One method with its options: its text form, and how it is built for a model.

use std::fmt;
use std::str::FromStr;

use super::METHODS;
use super::info::MethodInfo;
use super::options::Options;
use crate::error::{Error, Result};
use crate::model::{Model, Problem};
use crate::solver::Solver;

/// One method with its options, such as `mf`, `mf10` or `lp:bins=32`.
#[derive(Clone, Copy)]
pub struct Method {
    info: &'static MethodInfo,
    options: Options,
}

impl Method {
    /// The method with the default of every option.
    pub(super) const fn new(info: &'static MethodInfo) -> Self {
        Self { info, options: Options::defaults(info.options) }
    }

    /// A fixed number of parallel mean-field updates: `mf10` for 10.
    pub fn mean_field_updates(updates: usize) -> Self {
        let mut method = Self::MF5;
        method.options.set_first(updates as f64);
        method
    }

    /// The method with another value of an option; a flag is 0 or 1.
    pub fn with(mut self, option: &str, value: f64) -> Result<Self> {
        match self.options.set(option, value) {
            Ok(()) => Ok(self),
            Err(why) => Err(Error::parse("method", self.to_string(), why)),
        }
    }

    /// Its row of the table of methods.
    pub fn info(&self) -> &'static MethodInfo {
        self.info
    }

    /// The value of an option, `None` if it has no such option. The N of `mfN` is the option `updates`.
    pub fn option(&self, name: &str) -> Option<f64> {
        self.options.value(name)
    }

    /// The number of updates of `mfN`; `None` for other methods.
    pub fn updates(&self) -> Option<usize> {
        self.option("updates").map(|n| n as usize)
    }

    /// Fails if the method is not valid for this model.
    pub(crate) fn require_fit(&self, model: &Model) -> Result<()> {
        if model.has_kernel_costs() && !self.info.any_kernel_costs {
            return Err(Error::Method {
                method: self.to_string(),
                why: "the kernels have different label costs, and it needs one for all".into(),
                instead: "`mf`, `qp+dc-gen` or `auto`, or costs that are multiples of one another".into(),
            });
        }
        (self.info.fits)(model, &self.options)
    }

    /// A fresh solver, or why the method is not valid for this model.
    pub(crate) fn solver<'m>(&self, model: &'m Model) -> Result<Box<dyn Solver + 'm>> {
        if self.info.needs_row_sums {
            // Worked out now, not by a solver's threads all at once.
            model.pairwise().row_sums();
            model.pairwise().diagonal();
        }
        (self.info.solver)(model, &self.options)
    }

    /// A faster solver for stages that begin with `softmax(-unary)`, if the method has one for this model.
    pub(crate) fn solver_from_start<'m>(
        &self,
        model: &'m Model,
        iterations: usize,
    ) -> Option<Box<dyn Solver + 'm>> {
        (self.info.solver_from_start)(model, iterations)
    }

    /// Iterations after which the loop gives up unless told otherwise.
    pub fn default_iterations(&self) -> usize {
        (self.info.iterations)(&self.options)
    }

    /// Fraction of [`Model::scale`] below which an iteration counts as converged, unless told otherwise.
    pub fn default_tolerance(&self) -> f64 {
        self.info.tolerance
    }

    /// Bytes that a run on a problem takes beside the model, at most.
    pub(crate) fn bytes(&self, problem: &Problem) -> u64 {
        // Small things, and the room that growing lists leave.
        (problem.loop_bytes() + (self.info.bytes)(problem)) * 21 / 20
    }

    /// Bytes that should be free before a run: what it has been seen to take.
    pub(crate) fn typical_bytes(&self, problem: &Problem) -> u64 {
        self.bytes(problem) / 100 * self.info.used_percent
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.info.name == other.info.name && self.options == other.options
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Method({self})")
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.info.name_prefix, self.updates()) {
            (Some(prefix), Some(updates)) => write!(f, "{prefix}{updates}")?,
            _ => f.write_str(self.info.name)?,
        }
        let list = self.options.list(self.info.options_in_name());
        if list.is_empty() { Ok(()) } else { write!(f, ":{list}") }
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        let mut method = named(name, text)?;
        method.options.parse(list, method.info.options_in_name(), text)?;
        Ok(method)
    }
}

/// The method of that name with the default of every option.
fn named(name: &str, text: &str) -> Result<Method> {
    for info in METHODS {
        let mut method = Method::new(info);
        let number = info.name_prefix.and_then(|prefix| name.strip_prefix(prefix));
        if let Some(digits) = number.filter(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit())) {
            let option = info.options[0].name;
            // Too many digits for a number are too large a number.
            let value = digits.parse().unwrap_or(f64::INFINITY);
            return match method.options.set(option, value) {
                Ok(()) => Ok(method),
                Err(_) => {
                    let expected = info.options[0].expected();
                    let why = format!("the number of {option} is {digits}; expected {expected}");
                    Err(Error::parse("method", text, why))
                }
            };
        }
        if info.name == name && info.name_prefix.is_none() {
            return Ok(method);
        }
    }
    let names = METHODS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ");
    let why = format!("known methods: {names}; mf5 stands for any number, as mf10; chain methods with +");
    Err(Error::parse("method", text, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_and_option_reads_back_as_written() {
        let texts = [
            "mf7",
            "qp:fw",
            "lp:dc,paper-step,bins=32",
            "tree-lp:dc,trees=3",
            "smooth-lp:cells=7",
            "prox-lp:lambda=0.5",
            "prox-lp:lambda=3,bins=8",
            "graduated:from=0.95,turn=0.3,to=0.01,steps=10",
        ];
        for text in METHODS.iter().map(|m| m.name).chain(texts) {
            let method: Method = text.parse().unwrap();
            assert_eq!(method.to_string(), text);
            assert_eq!(method.to_string().parse::<Method>().unwrap(), method);
        }
        // An option with its default value is left out.
        assert_eq!("lp:bins=16".parse::<Method>().unwrap(), Method::LP);
        assert_eq!(Method::mean_field_updates(12), "mf12".parse().unwrap());
        assert_eq!(Method::LP.with("bins", 32.0).unwrap(), "lp:bins=32".parse().unwrap());
    }

    #[test]
    fn wrong_options_are_refused_with_what_is_expected() {
        for (text, words) in [
            ("lp:bins=2", "`2` is not a value for `bins`; expected a whole number from 3 to"),
            ("lp:bins", "`` is not a value for `bins`"),
            ("lp:dc=1", "`1` is not a value for `dc`; expected no value"),
            ("lp:bins=8,bins=9", "option `bins` is given twice"),
            ("lp:cells=3", "it has no option `cells`; its options: polyak, dc, paper-step, bins=N"),
            ("unary:fw", "it has no option `fw`; its options: none"),
            ("mf5:updates=3", "it has no option `updates`"),
            ("mf0", "the number of updates is 0; expected a whole number from 1 to 10000"),
            ("mf99999999999999999999999999", "expected a whole number from 1 to 10000"),
            ("prox-lp:lambda=0", "expected a number above 0"),
            ("prox-lp:lambda=nan", "expected a number above 0"),
            ("prox-lp:lambda=inf", "expected a number above 0"),
            ("graduated:to=11", "expected a number above 0 and at most 10"),
            ("mf+", "known methods: unary, mf, "),
            ("MF", "known methods: unary, mf, "),
        ] {
            let error = text.parse::<super::super::Pipeline>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(Method::LP.with("bins", 2.5).is_err());
        assert!(Method::QP.with("bins", 16.0).unwrap_err().to_string().contains("it has no option"));
    }
}
