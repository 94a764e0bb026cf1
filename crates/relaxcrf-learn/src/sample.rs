//! One labelled image, prepared for learning: labels that cannot matter there are merged into one.

use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use relaxcrf::model::Normalization;
use relaxcrf::{Error, Result};

use crate::costs::LabelCosts;
use crate::kernel::{FeatureGradients, FilterChoice, Kernel};
use crate::loss::{Loss, Sums, Truth, VOID};
use crate::parameters::{KernelKind, KernelParameters, Parameters, Part};
use crate::unrolled::{Problem, Request, Senders, Tape, Updates};

/// Labels with less probability at all pixels of an image (as a mean of neighbours) are merged there.
const NEGLIGIBLE_PROBABILITY: f32 = 0.01;

/// What an image is given as.
#[derive(Debug, Clone)]
pub struct RawSample<'a> {
    /// Width and height in pixels.
    pub size: (usize, usize),
    /// Number of labels.
    pub labels: usize,
    /// Energies, one row per pixel.
    pub unary: &'a [f32],
    /// Image values, one row of channels per pixel.
    pub image: Vec<f32>,
    /// Further features, one row per pixel; may be empty.
    pub features: Vec<f32>,
    /// True labels; [`VOID`] counts nowhere.
    pub truth: Vec<u16>,
    /// How much each pixel counts; empty if all count the same.
    pub weights: Vec<f32>,
}

/// A labelled image.
#[derive(Debug)]
pub struct Sample {
    size: (usize, usize),
    /// The labels that are kept, in increasing order.
    kept: Vec<usize>,
    /// Whether all other labels stand behind them as one.
    has_remainder: bool,
    /// One row per pixel: kept labels, then the remainder.
    unary: Vec<f32>,
    image: Vec<f32>,
    features: Vec<f32>,
    truth: Truth,
    labels: usize,
    /// Kernels of the last run with their widths: most evaluations keep the widths.
    cached: Mutex<Option<(Vec<f64>, Kernels)>>,
}

/// The kernels of an image.
pub type Kernels = Arc<Vec<Kernel<f32>>>;

impl Sample {
    /// Checks the parts and merges labels that have next to no probability anywhere in the image.
    pub fn new(raw: RawSample) -> Result<Self> {
        let RawSample { size, labels, unary, image, features, truth, weights } = raw;
        let points = size.0 * size.1;
        let fits = |what: &str, got: usize, whole: bool| {
            if (whole && got.is_multiple_of(points.max(1))) || got == points {
                return Ok(());
            }
            Err(Error::shape(
                what,
                format!("{got} values"),
                format!("{points} pixels ({} x {})", size.0, size.1),
            ))
        };
        if points == 0 || unary.len() != points * labels {
            return Err(Error::shape(
                "unary energies",
                format!("{} values", unary.len()),
                format!("{points} rows of {labels}"),
            ));
        }
        fits("image", image.len(), true)?;
        fits("features", features.len(), true)?;
        fits("true labels", truth.len(), false)?;
        if !weights.is_empty() {
            fits("pixel weights", weights.len(), false)?;
        }
        if let Some(&label) = truth.iter().find(|&&l| l != VOID && usize::from(l) >= labels) {
            let expected = format!("labels below {labels}, or the void mark");
            return Err(Error::value("true label", label, expected));
        }
        let kept = kept_labels(unary, labels, &truth);
        let has_remainder = kept.len() < labels;
        let width = kept.len() + usize::from(has_remainder);
        let mut rows = vec![0.0; points * width];
        rows.par_chunks_exact_mut(width).zip(unary.par_chunks_exact(labels)).for_each(|(to, from)| {
            let least = from.iter().copied().fold(f32::INFINITY, f32::min);
            to.iter_mut().zip(&kept).for_each(|(t, &l)| *t = (from[l] - least).min(40.0));
            if has_remainder {
                let mut rest = 0.0f32;
                let mut next = kept.iter().peekable();
                for (l, &e) in from.iter().enumerate() {
                    if next.next_if(|&&k| k == l).is_none() {
                        rest += (least - e).exp();
                    }
                }
                to[width - 1] = (-rest.ln()).min(40.0);
            }
        });
        let mut place = vec![VOID; labels];
        kept.iter().enumerate().for_each(|(k, &l)| place[l] = k as u16);
        let truth = truth.into_iter().map(|l| if l == VOID { VOID } else { place[usize::from(l)] }).collect();
        let truth = Truth { labels: truth, weights };
        Ok(Self {
            size,
            kept,
            has_remainder,
            unary: rows,
            image,
            features,
            truth,
            labels,
            cached: Mutex::default(),
        })
    }

    /// Number of pixels.
    pub fn points(&self) -> usize {
        self.size.0 * self.size.1
    }

    /// Number of labels of the data.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// Number of features beyond the image.
    pub fn feature_count(&self) -> usize {
        self.features.len() / self.points()
    }

    fn width(&self) -> usize {
        self.kept.len() + usize::from(self.has_remainder)
    }

    /// Feature rows of a kernel.
    fn rows(&self, kind: KernelKind, widths: &[f64]) -> (Vec<f32>, usize) {
        let (columns, points) = (self.size.0, self.points());
        let position =
            |a: usize| [(a % columns) as f64 / widths[0], (a / columns) as f64 / widths[0]].map(|v| v as f32);
        match kind {
            KernelKind::Gaussian => ((0..points).flat_map(position).collect(), 2),
            KernelKind::Bilateral => {
                let channels = self.image.len() / points;
                let color = 1.0 / widths[1] as f32;
                let mut rows = Vec::with_capacity(points * (2 + channels));
                for (a, colors) in self.image.chunks_exact(channels.max(1)).enumerate() {
                    rows.extend(position(a));
                    rows.extend(colors.iter().map(|c| c * color));
                }
                (rows, 2 + channels)
            }
            KernelKind::Features => {
                let scale = 1.0 / widths[0] as f32;
                (self.features.iter().map(|f| f * scale).collect(), self.feature_count())
            }
        }
    }

    /// The kernels at these parameters; built again only if widths have changed.
    pub fn kernels(
        &self,
        parameters: &Parameters,
        choice: FilterChoice,
        normalization: Normalization,
    ) -> Result<Kernels> {
        let widths: Vec<f64> = parameters.kernels.iter().flat_map(|k| k.widths.iter().copied()).collect();
        let cached = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernels)) = cached().as_ref().filter(|(w, _)| *w == widths) {
            return Ok(Arc::clone(kernels));
        }
        let build = |k: &KernelParameters| {
            let (rows, dims) = self.rows(k.kind, &k.widths);
            Kernel::new(rows, dims, choice, normalization)
        };
        let kernels: Kernels = Arc::new(parameters.kernels.iter().map(build).collect::<Result<_>>()?);
        *cached() = Some((widths, Arc::clone(&kernels)));
        Ok(kernels)
    }

    /// Gives the memory of cached kernels back.
    pub fn release_kernels(&self) {
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn energies(&self, parameters: &Parameters) -> Vec<f32> {
        let factor = (1.0 / parameters.temperature) as f32;
        let bias: Vec<f32> = self
            .kept
            .iter()
            .map(|&l| parameters.bias[l] as f32)
            .chain(self.has_remainder.then_some(0.0))
            .collect();
        let mut rows = self.unary.clone();
        rows.par_chunks_exact_mut(self.width()).with_min_len(1024).for_each(|row| {
            row.iter_mut().zip(&bias).for_each(|(e, b)| *e = *e * factor + b);
        });
        rows
    }

    fn costs(&self, parameters: &Parameters, potts: bool) -> LabelCosts {
        if potts {
            return LabelCosts::Potts;
        }
        let kept = self.kept.iter().map(|&l| parameters.costs[l]);
        LabelCosts::PerLabel(kept.chain(self.has_remainder.then_some(1.0)).collect())
    }

    /// Runs the updates.
    pub fn run(
        &self,
        parameters: &Parameters,
        kernels: Kernels,
        updates: &Updates,
        with_costs: bool,
    ) -> Result<Run> {
        let energies = self.energies(parameters);
        let costs = self.costs(parameters, parameters.has_potts_costs() && !with_costs);
        let senders: Vec<usize> = (0..self.kept.len()).collect();
        let weights: Vec<f64> = parameters.kernels.iter().map(|k| k.weight).collect();
        let run = Run { energies, costs, senders, weights, kernels, tape: None };
        let tape = run.problem(self.width()).run(updates, usize::MAX)?;
        Ok(Run { tape: Some(tape), ..run })
    }

    /// The sums of a loss after a run, for all labels of the data, and the numbers of right, true and given pixels of each
    /// label if every pixel takes its most believed one.
    pub fn measure(&self, run: &Run, loss: Loss) -> (Sums, Vec<[f64; 3]>) {
        let width = self.width();
        let beliefs = run.beliefs();
        let sums = loss.sums(beliefs, width, &self.truth).spread(&self.kept, self.labels);
        let mut counts = vec![[0.0; 3]; self.labels];
        for (pixel, (row, &truth)) in beliefs.chunks_exact(width).zip(&self.truth.labels).enumerate() {
            if truth == VOID {
                continue;
            }
            let mut best = 0;
            // The remainder is never the most believed label: each of its labels has next to nothing.
            for i in 1..self.kept.len() {
                if row[i] > row[best] {
                    best = i;
                }
            }
            let (truth, given) = (self.kept[usize::from(truth)], self.kept[best]);
            let weight = self.truth.weight(pixel);
            counts[truth][1] += weight;
            counts[given][2] += weight;
            counts[truth][0] += if truth == given { weight } else { 0.0 };
        }
        (sums, counts)
    }

    /// Confidence and whether it is right, of every pixel that counts.
    pub(crate) fn confidences(&self, run: &Run) -> Vec<(f32, bool)> {
        let rows = run.beliefs().chunks_exact(self.width()).zip(&self.truth.labels);
        rows.filter(|(_, truth)| **truth != VOID)
            .map(|(row, &truth)| {
                let (best, q) =
                    row.iter().enumerate().fold((0, 0.0f32), |m, (i, &q)| if q > m.1 { (i, q) } else { m });
                (q, best == usize::from(truth))
            })
            .collect()
    }

    /// The gradient of the loss of all images with respect to the parameters' variables, as far as they act on this image.
    pub fn gradient(
        &self,
        parameters: &Parameters,
        run: &Run,
        updates: &Updates,
        loss: Loss,
        total: &Sums,
        free: &[Part],
    ) -> Result<Vec<f64>> {
        let Some(tape) = &run.tape else { return Ok(vec![0.0; parameters.variables().len()]) };
        let width = self.width();
        let of_beliefs =
            loss.gradient(&total.gather(&self.kept, self.has_remainder), &tape.beliefs, width, &self.truth);
        let of = if free.contains(&Part::Widths) { FeatureGradients::Widths } else { FeatureGradients::None };
        let request = Request { features: vec![of; run.kernels.len()] };
        let g = run.problem(width).gradients(updates, tape, &of_beliefs, &request)?;
        let mut out = vec![0.0; parameters.variables().len()];
        // Scaled energies are what is left of the energies without the bias.
        let mut by_label = vec![0.0; width];
        let mut through_temperature = 0.0;
        for (g, u) in g.unary.chunks_exact(width).zip(self.unary.chunks_exact(width)) {
            for (l, (&g, &u)) in g.iter().zip(u).enumerate() {
                by_label[l] += f64::from(g);
                through_temperature -= f64::from(g) * f64::from(u);
            }
        }
        out[0] = through_temperature / parameters.temperature;
        let bias = parameters.bias_at();
        self.kept.iter().zip(&by_label).for_each(|(&l, &g)| out[bias.start + l] = g);
        for (m, kernel) in parameters.kernels.iter().enumerate() {
            let at = parameters.kernel_at(m);
            out[at] = kernel.weight * g.weights[m];
            let widths = &g.log_widths[m];
            match (kernel.kind, widths.len()) {
                (_, 0) => {}
                (KernelKind::Bilateral, _) => {
                    out[at + 1] = widths[..2].iter().sum();
                    out[at + 2] = widths[2..].iter().sum();
                }
                _ => out[at + 1] = widths.iter().sum(),
            }
        }
        if let LabelCosts::PerLabel(_) = &run.costs {
            let own = run.costs.pull_back(width, &g.cost_entries);
            let at = parameters.costs_at();
            self.kept.iter().zip(own).for_each(|(&l, g)| out[at + l] = parameters.costs[l] * g);
        }
        Ok(out)
    }
}

/// A run of one image at some parameters.
#[derive(Debug)]
pub struct Run {
    energies: Vec<f32>,
    costs: LabelCosts,
    senders: Vec<usize>,
    weights: Vec<f64>,
    kernels: Kernels,
    tape: Option<Tape<f32>>,
}

impl Run {
    fn problem(&self, labels: usize) -> Problem<'_, f32> {
        Problem {
            labels,
            unary: &self.energies,
            kernels: &self.kernels,
            weights: &self.weights,
            costs: &self.costs,
            senders: Senders::Given(&self.senders),
        }
    }

    /// The beliefs after the last update: kept labels, then the remainder.
    fn beliefs(&self) -> &[f32] {
        self.tape.as_ref().map_or(&[], |t| &t.beliefs)
    }
}

/// Labels that occur in the truth, or have some probability somewhere.
fn kept_labels(unary: &[f32], labels: usize, truth: &[u16]) -> Vec<usize> {
    const NEIGHBOURS: usize = 16;
    let mut keep = vec![false; labels];
    truth.iter().filter(|&&l| l != VOID).for_each(|&l| keep[usize::from(l)] = true);
    for rows in unary.chunks(NEIGHBOURS * labels) {
        let mut means = vec![0.0f32; labels];
        for row in rows.chunks_exact(labels) {
            let least = row.iter().copied().fold(f32::INFINITY, f32::min);
            let sum: f32 = row.iter().map(|e| (least - e).exp()).sum();
            means.iter_mut().zip(row).for_each(|(m, e)| *m += (least - e).exp() / sum / NEIGHBOURS as f32);
        }
        keep.iter_mut().zip(means).for_each(|(k, m)| *k |= m > NEGLIGIBLE_PROBABILITY);
    }
    (0..labels).filter(|&l| keep[l]).collect()
}
