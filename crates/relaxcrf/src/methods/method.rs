//! The methods' names, what they promise, and chains of them.

use std::fmt;
use std::str::FromStr;

use super::costs_below::OnCostsBelow;
use super::dc_gen::DcGen;
use super::dc_neg::DcNeg;
use super::exact::Exact;
use super::graduated::{Graduated, Schedule};
use super::lp::{Lp, LpOptions};
use super::mean_field::MeanField;
use super::moves::{self, Moves};
use super::prox_lp::{ProxLp, ProxOptions};
use super::smooth_lp::{SmoothLp, SmoothOptions};
use super::tree_lp::TreeOptions;
use super::updates::FromStart;
use super::{qp, tree_lp};
use crate::error::{Error, Result};
use crate::model::{CompatibilityKind, FilterKind, Model};
use crate::solver::Solver;
use relaxcrf_filter::{MAX_BINS, MAX_CELLS};

/// One method with its options.
#[derive(Debug, Clone, PartialEq)]
pub enum Method {
    /// Each pixel on its own.
    Unary,
    /// Mean field with a free energy that never rises.
    MeanField,
    /// A fixed number of parallel mean-field updates, as the common code does them.
    MeanFieldUpdates(usize),
    /// The convex QP relaxation.
    Qp {
        /// By Frank-Wolfe instead of accelerated projected gradient.
        frank_wolfe: bool,
    },
    /// Difference of convex for conditionally negative compatibilities.
    DcNeg,
    /// Difference of convex for any symmetric compatibility.
    DcGen,
    /// From the convex QP to the plain one by a schedule.
    Graduated(Schedule),
    /// The LP relaxation by projected subgradients.
    Lp(LpOptions),
    /// The LP over trees of labels.
    TreeLp(TreeOptions),
    /// The LP relaxation, smoothed, by accelerated gradients.
    SmoothLp(SmoothOptions),
    /// The optimum of two-label problems.
    Exact,
    /// The LP relaxation by proximal steps.
    ProxLp(ProxOptions),
    /// Every label in turn is offered to all pixels.
    Expand,
    /// Every pair of labels may be exchanged.
    Swap,
    /// Whatever fits the model: see [`auto`](crate::auto).
    Auto,
}

/// Most updates of the method `mfN`.
const MAX_UPDATES: usize = 10_000;

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
        summary: "five parallel mean-field updates (any number works: mf10)",
        promise: "equals the common code",
    },
    MethodInfo {
        name: "qp",
        summary: "convex QP relaxation, accelerated projected gradient (qp:fw: Frank-Wolfe)",
        promise: "certified lower bound",
    },
    MethodInfo {
        name: "dc-gen",
        summary: "difference of convex for any symmetric compatibility",
        promise: "energy of the QP never rises",
    },
    MethodInfo {
        name: "dc-neg",
        summary: "difference of convex for Potts and other conditionally negative compatibilities",
        promise: "energy of the QP never rises",
    },
    MethodInfo {
        name: "graduated",
        summary: "from the convex QP to the plain one by a schedule, finished by dc-neg",
        promise: "",
    },
    MethodInfo {
        name: "lp",
        summary: "LP relaxation by projected subgradients (options: dc, paper-step, bins=N)",
        promise: "certified lower bound; exact at its optimum for two labels and for labels on a line",
    },
    MethodInfo {
        name: "smooth-lp",
        summary: "smoothed LP relaxation by accelerated gradients (option: cells=N)",
        promise: "certified lower bound, the tightest here for most problems",
    },
    MethodInfo {
        name: "exact",
        summary: "two labels only: smooth-lp until the optimum is proved",
        promise: "the global optimum once it has converged, with the proof",
    },
    MethodInfo {
        name: "prox-lp",
        summary: "LP relaxation by proximal steps (options: lambda=X, bins=N)",
        promise: "certified lower bound; exact at its optimum for two labels and for labels on a line",
    },
    MethodInfo {
        name: "expand",
        summary: "Potts only: every label in turn is offered to all pixels, as a polish",
        promise: "energy never rises",
    },
    MethodInfo {
        name: "swap",
        summary: "every pair of labels may be exchanged, as a polish; any costs",
        promise: "energy never rises",
    },
    MethodInfo {
        name: "auto",
        summary: "what fits the model; `--explain` says what and why",
        promise: "no worse than mf5, mf, qp+dc-neg or a constant labelling",
    },
    MethodInfo {
        name: "tree-lp",
        summary: "LP over sampled trees of labels, for any label costs of 0 or more (options: trees=N and those of lp)",
        promise: "energy never rises; where no tree is needed, the same as lp",
    },
];

impl Method {
    /// A fresh solver, or why the method is not valid for this model.
    pub(crate) fn solver<'m>(&self, model: &'m Model) -> Result<Box<dyn Solver + 'm>> {
        if !matches!(self, Self::Unary | Self::MeanField | Self::MeanFieldUpdates(_)) {
            // Worked out now, not by a solver's threads all at once.
            model.pairwise().row_sums();
            model.pairwise().diagonal();
        }
        let costs = model.compatibility();
        let has_cuts = matches!(costs.kind(), CompatibilityKind::Potts) || costs.cuts().is_some();
        Ok(match self {
            Self::Unary => Box::new(super::mean_field::UnaryOnly),
            Self::MeanField => Box::new(MeanField::monotone(model)),
            Self::MeanFieldUpdates(_) => Box::new(MeanField::plain(model)),
            Self::Qp { frank_wolfe } if !costs.is_conditionally_negative() => match frank_wolfe {
                false => OnCostsBelow::boxed(model, |model| Ok(qp::Accelerated::new(model)))?,
                true => OnCostsBelow::boxed(model, |model| Ok(qp::FrankWolfe::new(model)))?,
            },
            Self::Qp { frank_wolfe: false } => Box::new(qp::Accelerated::new(model)),
            Self::Qp { frank_wolfe: true } => Box::new(qp::FrankWolfe::new(model)),
            Self::DcNeg => Box::new(DcNeg::new(model)?),
            Self::DcGen => Box::new(DcGen::new(model)),
            Self::Graduated(schedule) => Box::new(Graduated::new(model, *schedule)?),
            Self::Lp(options) if !has_cuts => OnCostsBelow::boxed(model, |model| Lp::new(model, *options))?,
            Self::Lp(options) => Box::new(Lp::new(model, *options)?),
            Self::TreeLp(options) => tree_lp::solver(model, *options)?,
            Self::Exact => Box::new(Exact::new(model)?),
            Self::ProxLp(options) if !has_cuts => {
                OnCostsBelow::boxed(model, |model| ProxLp::new(model, *options))?
            }
            Self::ProxLp(options) => Box::new(ProxLp::new(model, *options)?),
            Self::Expand => Box::new(Moves::new(model, moves::Kind::Expand)?),
            Self::Swap => Box::new(Moves::new(model, moves::Kind::Swap)?),
            Self::Auto => {
                return Err(Error::Method {
                    method: "auto".into(),
                    why: "it makes a chain of its own and cannot be a part of another".into(),
                    instead: "`auto` alone".into(),
                });
            }
            Self::SmoothLp(options) if !has_cuts => {
                OnCostsBelow::boxed(model, |model| SmoothLp::new(model, *options))?
            }
            Self::SmoothLp(options) => Box::new(SmoothLp::new(model, *options)?),
        })
    }

    /// A faster solver for stages that begin with `softmax(-unary)`, if the method has one for this model.
    pub(crate) fn solver_from_start<'m>(
        &self,
        model: &'m Model,
        iterations: usize,
    ) -> Option<Box<dyn Solver + 'm>> {
        match self {
            Self::MeanFieldUpdates(_) => Some(Box::new(FromStart::new(model, iterations)?)),
            _ => None,
        }
    }

    /// Iterations after which the loop gives up unless told otherwise.
    pub fn default_iterations(&self) -> usize {
        match self {
            Self::Unary => 1,
            Self::MeanField => 200,
            Self::MeanFieldUpdates(updates) => *updates,
            Self::Qp { .. } => 60,
            Self::DcNeg => 100,
            Self::DcGen => 30,
            Self::Graduated(schedule) => schedule.steps + 100,
            Self::Lp(_) | Self::TreeLp(_) | Self::SmoothLp(_) | Self::ProxLp(_) => 100,
            Self::Exact => 300,
            Self::Expand | Self::Swap => 5,
            Self::Auto => 0,
        }
    }

    /// Share of [`Model::scale`] below which an iteration counts as converged, unless told otherwise.
    pub fn default_tolerance(&self) -> f64 {
        match self {
            Self::Unary => f64::INFINITY,
            Self::MeanField => 1e-7,
            Self::Qp { .. } => 1e-6,
            Self::DcNeg | Self::DcGen | Self::Graduated(_) => 1e-7,
            Self::Lp(_) | Self::TreeLp(_) | Self::SmoothLp(_) | Self::ProxLp(_) => 1e-5,
            Self::Exact => 1e-8,
            Self::Expand | Self::Swap | Self::Auto => 0.0,
            // Every update is made, whatever it changes.
            Self::MeanFieldUpdates(_) => -1.0,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Unary => f.write_str("unary"),
            Self::MeanField => f.write_str("mf"),
            Self::MeanFieldUpdates(updates) => write!(f, "mf{updates}"),
            Self::Qp { frank_wolfe: false } => f.write_str("qp"),
            Self::Qp { frank_wolfe: true } => f.write_str("qp:fw"),
            Self::DcNeg => f.write_str("dc-neg"),
            Self::DcGen => f.write_str("dc-gen"),
            Self::Graduated(schedule) => write!(f, "graduated{schedule}"),
            Self::Lp(options) => write!(f, "lp{options}"),
            Self::TreeLp(options) => write!(f, "tree-lp{options}"),
            Self::Exact => f.write_str("exact"),
            Self::ProxLp(options) => write!(f, "prox-lp{options}"),
            Self::Expand => f.write_str("expand"),
            Self::Swap => f.write_str("swap"),
            Self::Auto => f.write_str("auto"),
            Self::SmoothLp(options) => write!(f, "smooth-lp{options}"),
        }
    }
}

/// Options behind a method's name: `name:flag,key=value`.
struct Options<'a> {
    text: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Options<'a> {
    fn split(text: &'a str) -> (&'a str, Self) {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        (name, Self { text, rest: options.split(',').filter(|o| !o.is_empty()).collect() })
    }

    fn flag(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|o| *o != name);
        self.rest.len() < before
    }

    fn number<T: FromStr>(&mut self, key: &str, fits: impl Fn(&T) -> bool) -> Result<Option<T>> {
        let Some(at) = self.rest.iter().position(|o| o.split('=').next() == Some(key)) else {
            return Ok(None);
        };
        let value = self.rest.remove(at).split_once('=').map_or("", |(_, v)| v);
        match value.parse() {
            Ok(v) if fits(&v) => Ok(Some(v)),
            _ => Err(Error::parse("method", self.text, format!("`{value}` is not a value for `{key}`"))),
        }
    }

    fn lp(&mut self) -> Result<LpOptions> {
        let bins = self.number("bins", |n: &usize| (3..=MAX_BINS).contains(n))?;
        Ok(LpOptions {
            divide_and_conquer: self.flag("dc"),
            bins: bins.unwrap_or(LpOptions::default().bins),
            paper_step: self.flag("paper-step"),
        })
    }

    fn done(self, method: Method) -> Result<Method> {
        match self.rest.first() {
            None => Ok(method),
            Some(unknown) => Err(Error::parse("method", self.text, format!("it has no option `{unknown}`"))),
        }
    }
}

/// The digits of `mfN`.
fn updates_of(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("mf")?;
    (digits.starts_with(|c: char| c.is_ascii_digit()) && digits.bytes().all(|c| c.is_ascii_digit()))
        .then_some(digits)
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, mut options) = Options::split(text);
        let method = match name {
            "unary" => Self::Unary,
            "mf" => Self::MeanField,
            "qp" => Self::Qp { frank_wolfe: options.flag("fw") },
            "dc-neg" => Self::DcNeg,
            "dc-gen" => Self::DcGen,
            "graduated" => {
                let mut schedule = Schedule::default();
                let share = |x: &f32| *x > 0.0 && *x <= 10.0;
                schedule.from = options.number("from", share)?.unwrap_or(schedule.from);
                schedule.turn = options.number("turn", share)?.unwrap_or(schedule.turn);
                schedule.to = options.number("to", share)?.unwrap_or(schedule.to);
                schedule.steps =
                    options.number("steps", |n: &usize| *n <= 1_000_000)?.unwrap_or(schedule.steps);
                Self::Graduated(schedule)
            }
            "lp" => Self::Lp(options.lp()?),
            "exact" => Self::Exact,
            "expand" => Self::Expand,
            "swap" => Self::Swap,
            "auto" => Self::Auto,
            "prox-lp" => {
                let default = ProxOptions::default();
                let lambda = options.number("lambda", |l: &f32| ProxOptions::check(*l, default.bins))?;
                let bins = options.number("bins", |n: &usize| ProxOptions::check(default.lambda, *n))?;
                Self::ProxLp(ProxOptions {
                    lambda: lambda.unwrap_or(default.lambda),
                    bins: bins.unwrap_or(default.bins),
                })
            }
            "smooth-lp" => {
                let cells = options.number("cells", |n: &usize| (1..=MAX_CELLS).contains(n))?;
                Self::SmoothLp(SmoothOptions { cells: cells.unwrap_or(MAX_CELLS) })
            }
            "tree-lp" => {
                let trees = options.number("trees", |n: &usize| (1..=1000).contains(n))?;
                Self::TreeLp(TreeOptions {
                    trees: trees.unwrap_or(TreeOptions::default().trees),
                    lp: options.lp()?,
                })
            }
            _ if updates_of(name).is_some() => {
                let updates = updates_of(name).and_then(|digits| digits.parse().ok());
                match updates.filter(|n| (1..=MAX_UPDATES).contains(n)) {
                    Some(updates) => Self::MeanFieldUpdates(updates),
                    None => {
                        let why = format!("the number of updates must be 1 to {MAX_UPDATES}");
                        return Err(Error::parse("method", text, why));
                    }
                }
            }
            _ => {
                let names = METHODS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ");
                return Err(Error::parse(
                    "method",
                    text,
                    format!("known methods: {names} (mf5 with any number, as mf10); chain them with +"),
                ));
            }
        };
        options.done(method)
    }
}

/// Which labelling a pipeline gives as its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The most believed labels of the last beliefs.
    Beliefs,
    /// The lowest energy among the methods' own iterates and roundings.
    LowestOwn,
    /// The lowest energy of all labellings seen.
    BestSeen,
}

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
        match self.stages.last() {
            _ if self.stages.iter().any(|m| matches!(m, Method::Exact | Method::Auto)) => Answer::BestSeen,
            Some(Method::Unary | Method::MeanField | Method::MeanFieldUpdates(_)) if self.is_one_chain() => {
                Answer::Beliefs
            }
            _ => Answer::LowestOwn,
        }
    }

    /// The filter that suits this pipeline best, if the user names none.
    ///
    /// Mean-field updates alone take the sequential blur of the common code: half the work of the symmetric operator, the
    /// same energies, and the same numbers as pydensecrf.
    pub fn preferred_filter(&self) -> FilterKind {
        match self.stages[..] {
            [Method::MeanFieldUpdates(_)] => FilterKind::LatticeClassic,
            _ => FilterKind::Auto,
        }
    }

    /// Whether nothing is smoothed.
    pub fn is_unary(&self) -> bool {
        self.stages == [Method::Unary]
    }

    /// Whether the methods are still to be chosen.
    pub fn is_auto(&self) -> bool {
        self.stages == [Method::Auto]
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
