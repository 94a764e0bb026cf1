//! Fits parameters to labelled images. Cross-validation over the images decides which parameters are freed.
//!
//! All parameters start at a preset, which is also the mean of their prior. Parts ([`Part`]) are freed one after the other. A part
//! stays free only if models that were learned with it, each without a fold of the images, label their left-out images better
//! than without it, beyond what resampling the images would give by chance. The labelled images a user has are few.

use std::sync::Mutex;

use rayon::prelude::*;
use relaxcrf::Result;
use relaxcrf::model::Normalization;
use relaxcrf::rng::mix;

use crate::bootstrap::{Comparison, Counts, Measure, compare};
use crate::kernel::FilterChoice;
use crate::lbfgs::{self, Evaluation, Limits};
use crate::loss::{Loss, Sums};
use crate::parameters::{Parameters, Part};
use crate::sample::{Run, Sample};
use crate::unrolled::Updates;

/// Weight of the prior, for one image; it shrinks with their number.
const PRIOR: f64 = 0.02;
/// A part is accepted if this fraction of the resamples of the images favours it.
const ACCEPTED_FRACTION: f64 = 0.8;
/// Steps of the optimiser for every part, and the longest change of a variable in a step.
const LIMITS: Limits = Limits { steps: 3, evaluations: 5, tolerance: 1e-4, max_change: 0.35 };
/// Bytes of intermediate beliefs and kernels that may be kept between the two passes of an evaluation.
const KEPT_BYTES: usize = 3 << 30;

/// What is fitted, and to what.
#[derive(Debug)]
pub struct Task<'a> {
    /// The images.
    pub samples: &'a [Sample],
    /// The start and the mean of the prior.
    pub start: Parameters,
    /// What is made small.
    pub loss: Loss,
    /// What decides whether a part is accepted.
    pub measure: Measure,
    /// The updates that beliefs come from.
    pub updates: Updates,
    /// The filter.
    pub filter: FilterChoice,
    /// How kernels are normalised.
    pub normalization: Normalization,
    /// Folds of the cross-validation.
    pub folds: usize,
}

/// Keeps evaluations, so that a fit that was interrupted goes on where it was.
pub trait Memory {
    /// The numbers stored under this key.
    fn find(&mut self, key: u64) -> Option<Vec<f64>>;
    /// Stores numbers before work goes on.
    fn store(&mut self, key: u64, numbers: &[f64]) -> Result<()>;
    /// Tells how far the fit is: what is done now, and the fraction that is done.
    fn progress(&mut self, what: &str, fraction: f64);
}

/// What became of a part.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The part.
    pub part: Part,
    /// Left-out images with the part free, against without.
    pub comparison: Comparison,
    /// Whether it stays free.
    pub is_accepted: bool,
    /// The loss on all images after every step.
    pub losses: Vec<f64>,
}

/// What a fit found.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The parameters learned from all images.
    pub parameters: Parameters,
    /// One for each part that was tried.
    pub verdicts: Vec<Verdict>,
    /// Counts of each image: unaries alone, the start, and parameters learned without the image's fold.
    pub left_out: [Vec<Counts>; 3],
    /// The loss on all images at the start and in the end.
    pub losses: [f64; 2],
}

/// The path of one set of images: its parameters so far.
struct Path {
    images: Vec<usize>,
    variables: Vec<f64>,
}

impl Task<'_> {
    /// Fits.
    pub fn fit(&self, parts: &[Part], memory: &mut dyn Memory) -> Result<Fit> {
        let start = self.start.variables();
        let count = self.samples.len();
        let folds = self.folds.clamp(1, count);
        let all: Vec<usize> = (0..count).collect();
        let without = |fold: usize| all.iter().copied().filter(|i| i % folds != fold).collect::<Vec<_>>();
        let path = |images: Vec<usize>| Path { images, variables: start.clone() };
        let has_folds = folds > 1;
        let mut paths: Vec<Path> =
            if has_folds { (0..folds).map(|f| path(without(f))).collect() } else { Vec::new() };
        paths.push(path(all.clone()));
        let mut free: Vec<Part> = Vec::new();
        let steps = (parts.len() * paths.len()).max(1) as f64;
        memory.progress("network alone", 0.0);
        let network = self.network_counts(memory)?;
        let first = self.counts(&all, &start, memory)?;
        let mut best = first.clone();
        let mut verdicts = Vec::new();
        let first_loss = self.evaluate(&all, &start, &[], memory)?.value;
        for (k, &part) in parts.iter().enumerate() {
            let trial: Vec<Part> = free.iter().copied().chain([part]).collect();
            let mut found = Vec::new();
            let mut losses = Vec::new();
            for (f, path) in paths.iter().enumerate() {
                let name = if f < folds && has_folds {
                    format!("{}, fold {} of {folds}", part.name(), f + 1)
                } else {
                    part.name().into()
                };
                memory.progress(&name, (k * paths.len() + f) as f64 / steps);
                let minimum = self.minimize(path, &trial, memory)?;
                losses = minimum.values;
                found.push(minimum.at);
            }
            let counts = if has_folds {
                let mut counts = best.clone();
                for (fold, variables) in found.iter().take(folds).enumerate() {
                    let images: Vec<usize> = all.iter().copied().filter(|i| i % folds == fold).collect();
                    for (&i, c) in images.iter().zip(self.counts(&images, variables, memory)?) {
                        counts[i] = c;
                    }
                }
                counts
            } else {
                self.counts(&all, &found[0], memory)?
            };
            let comparison = compare(&best, &counts, self.measure);
            let is_accepted = comparison.gain > 0.0 && comparison.favourable >= ACCEPTED_FRACTION;
            if is_accepted {
                free = trial;
                best = counts;
                paths.iter_mut().zip(found).for_each(|(path, variables)| path.variables = variables);
            }
            verdicts.push(Verdict { part, comparison, is_accepted, losses });
        }
        let variables = paths.pop().map_or(start, |p| p.variables);
        let last_loss = self.evaluate(&all, &variables, &[], memory)?.value;
        memory.progress("done", 1.0);
        Ok(Fit {
            parameters: self.start.with_variables(&variables),
            verdicts,
            left_out: [network, first, best],
            losses: [first_loss, last_loss],
        })
    }

    /// A few steps from a path's parameters, with these parts free.
    fn minimize(&self, path: &Path, free: &[Part], memory: &mut dyn Memory) -> Result<lbfgs::Minimum> {
        let parts = self.start.parts();
        let places: Vec<usize> = (0..parts.len()).filter(|&i| free.contains(&parts[i])).collect();
        let spread = |some: &[f64]| {
            let mut all = path.variables.clone();
            places.iter().zip(some).for_each(|(&at, &v)| all[at] = v);
            all
        };
        let start: Vec<f64> = places.iter().map(|&at| path.variables[at]).collect();
        let (means, strength) = (self.start.variables(), PRIOR / path.images.len() as f64);
        let minimum = lbfgs::minimize(&start, LIMITS, |some| {
            let variables = spread(some);
            let found = self.evaluate(&path.images, &variables, free, memory)?;
            let (prior, slope) = self.start.prior(&means, &variables);
            let gradient = places.iter().map(|&at| found.gradient[at] + strength * slope[at]).collect();
            Result::Ok(Evaluation { value: found.value + strength * prior, gradient })
        })?;
        Ok(lbfgs::Minimum { at: spread(&minimum.at), ..minimum })
    }

    /// The loss of some images, and its gradient if anything is free.
    pub fn evaluate(
        &self,
        images: &[usize],
        variables: &[f64],
        free: &[Part],
        memory: &mut dyn Memory,
    ) -> Result<Evaluation> {
        let key = key(1, images, variables, free);
        if let Some((&value, gradient)) = memory.find(key).as_deref().and_then(<[f64]>::split_first) {
            return Ok(Evaluation { value, gradient: gradient.to_vec() });
        }
        let parameters = self.start.with_variables(variables);
        let with_costs = free.contains(&Part::Costs);
        let bytes: usize = images.iter().map(|&i| self.samples[i].points() * 320).sum();
        let keep = bytes <= KEPT_BYTES && !free.is_empty();
        let first: Vec<(Sums, Option<Run>)> = self.each(images, |sample| {
            let run = self.run(sample, &parameters, with_costs)?;
            let (sums, _) = sample.measure(&run, self.loss);
            Ok((sums, keep.then_some(run)))
        })?;
        let mut total = Sums::new(self.start.labels());
        first.iter().for_each(|(sums, _)| total.merge(sums));
        let value = self.loss.value(&total);
        let mut gradient = vec![0.0; variables.len()];
        if !free.is_empty() {
            let runs: Vec<Mutex<Option<Run>>> = first.into_iter().map(|(_, run)| Mutex::new(run)).collect();
            let places: Vec<usize> = (0..images.len()).collect();
            let gradients: Vec<Vec<f64>> = places
                .par_iter()
                .map(|&k| {
                    let sample = &self.samples[images[k]];
                    let kept = runs[k].lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
                    let run = kept.map_or_else(|| self.run(sample, &parameters, with_costs), Ok)?;
                    sample.gradient(&parameters, &run, &self.updates, self.loss, &total, free)
                })
                .collect::<Result<_>>()?;
            for g in gradients {
                gradient.iter_mut().zip(g).for_each(|(t, v)| *t += v);
            }
        }
        let numbers: Vec<f64> = std::iter::once(value).chain(gradient.iter().copied()).collect();
        memory.store(key, &numbers)?;
        Ok(Evaluation { value, gradient })
    }

    fn run(&self, sample: &Sample, parameters: &Parameters, with_costs: bool) -> Result<Run> {
        let kernels = sample.kernels(parameters, self.filter, self.normalization)?;
        let run = sample.run(parameters, kernels, &self.updates, with_costs);
        if self.samples.iter().map(|s| s.points() * 200).sum::<usize>() > KEPT_BYTES {
            sample.release_kernels();
        }
        run
    }

    fn each<R: Send>(&self, images: &[usize], work: impl Fn(&Sample) -> Result<R> + Sync) -> Result<Vec<R>> {
        images.par_iter().with_max_len(1).map(|&i| work(&self.samples[i])).collect()
    }

    /// Counts of every image at these parameters.
    fn counts(&self, images: &[usize], variables: &[f64], memory: &mut dyn Memory) -> Result<Vec<Counts>> {
        let parameters = self.start.with_variables(variables);
        self.remembered(key(2, images, variables, &[]), images, memory, |sample| {
            let run = self.run(sample, &parameters, false)?;
            Ok(sample.measure(&run, self.loss).1)
        })
    }

    /// Counts of the unaries alone.
    fn network_counts(&self, memory: &mut dyn Memory) -> Result<Vec<Counts>> {
        let alone = Parameters { kernels: Vec::new(), ..self.start.clone() };
        let all: Vec<usize> = (0..self.samples.len()).collect();
        self.remembered(key(3, &all, &[], &[]), &all, memory, |sample| {
            let run = sample.run(&alone, Default::default(), &Updates::MeanField(0), false)?;
            Ok(sample.measure(&run, self.loss).1)
        })
    }

    fn remembered(
        &self,
        key: u64,
        images: &[usize],
        memory: &mut dyn Memory,
        work: impl Fn(&Sample) -> Result<Counts> + Sync,
    ) -> Result<Vec<Counts>> {
        let labels = self.start.labels();
        if let Some(numbers) = memory.find(key).filter(|n| n.len() == 3 * labels * images.len()) {
            return Ok(numbers.chunks_exact(3 * labels).map(|n| n.as_chunks::<3>().0.to_vec()).collect());
        }
        let counts = self.each(images, work)?;
        let numbers: Vec<f64> = counts.iter().flatten().flatten().copied().collect();
        memory.store(key, &numbers)?;
        Ok(counts)
    }
}

/// Identifies an evaluation within a fit.
fn key(kind: u64, images: &[usize], variables: &[f64], free: &[Part]) -> u64 {
    let images = images.iter().map(|&i| i as u64);
    let variables = variables.iter().map(|v| v.to_bits());
    let free = free.iter().map(|&p| 1000 + p as u64);
    images.chain([u64::MAX]).chain(variables).chain(free).fold(mix(kind), |hash, n| mix(hash ^ mix(n)))
}
