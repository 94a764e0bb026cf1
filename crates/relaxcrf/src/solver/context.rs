//! What a solver works with: the model, one set of buffers, and honest counters.

use std::time::{Duration, Instant};

use super::settings::Settings;
use crate::energy::{self, Energy};
use crate::labeling::Labeling;
use crate::model::Model;
use crate::rows::gather::{active_labels, gather, spread};
use relaxcrf_filter::{Direction, OrderedMode, Workspace};

/// Hands a solver the model's operator and counts every use of it.
#[derive(Debug)]
pub struct Context<'m> {
    model: &'m Model,
    settings: &'m Settings,
    scratch: Workspace,
    deadline: Option<Instant>,
    counts: Counts,
    /// Ordered calls for some of the pixels that do not make up a whole one yet.
    part_of_call: f64,
    /// The lowest energy of a labelling so far.
    pub(crate) lowest: f64,
}

/// How often the operator was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// K applied to all labels once.
    pub filter: usize,
    /// The ordered filter applied to all labels (or cuts) once. Calls for some of the pixels count by their share.
    pub ordered: usize,
    /// Labellings evaluated; each costs about as much as a filter call.
    pub evaluations: usize,
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            filter: self.filter + more.filter,
            ordered: self.ordered + more.ordered,
            evaluations: self.evaluations + more.evaluations,
        }
    }
}

impl<'m> Context<'m> {
    pub(crate) fn new(model: &'m Model, settings: &'m Settings, started: Instant) -> Self {
        let deadline = settings.time_limit.and_then(|t| started.checked_add(t));
        Self {
            model,
            settings,
            scratch: Workspace::new(),
            deadline,
            counts: Counts::default(),
            part_of_call: 0.0,
            lowest: f64::INFINITY,
        }
    }

    /// Work on a problem of some of the pixels with the same buffers and deadline. `lowest` is what counts as the lowest
    /// energy there; ordered calls count by the share of the pixels.
    pub(crate) fn on<T>(&mut self, part: &Model, lowest: f64, work: impl FnOnce(&mut Context) -> T) -> T {
        let mut inner = Context {
            model: part,
            settings: self.settings,
            scratch: std::mem::take(&mut self.scratch),
            deadline: self.deadline,
            counts: self.counts,
            part_of_call: 0.0,
            lowest,
        };
        let result = work(&mut inner);
        let calls = (inner.counts.ordered - self.counts.ordered) as f64;
        self.part_of_call += calls * part.pixels() as f64 / self.model.pixels() as f64;
        let full = self.part_of_call.floor();
        self.part_of_call -= full;
        self.counts = Counts { ordered: self.counts.ordered + full as usize, ..inner.counts };
        self.scratch = inner.scratch;
        result
    }

    /// The problem.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The run's settings.
    pub fn settings(&self) -> &'m Settings {
        self.settings
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the time is up. Solvers with inner loops ask between inner steps.
    pub fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }

    /// The time left, if it is limited.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|d| d.saturating_duration_since(Instant::now()))
    }

    /// Counts a filter call that was made elsewhere.
    pub(crate) fn count_filter(&mut self) {
        self.counts.filter += 1;
    }

    /// `out = K y` for all labels, or with the costs of each kernel in it (see `Model::product`): one filter call. Labels
    /// with zero belief everywhere are not filtered.
    pub fn filter(&mut self, y: &[f32], out: &mut [f32]) {
        self.filter_rows(y, self.model.labels(), out);
    }

    /// [`Context::filter`] for rows of so many labels.
    pub(crate) fn filter_rows(&mut self, y: &[f32], labels: usize, out: &mut [f32]) {
        self.counts.filter += 1;
        if self.model.has_kernel_costs() {
            return self.model.product(y, out, &mut self.scratch);
        }
        let pairwise = self.model.pairwise();
        let Some(active) = active_labels(y, labels) else {
            return pairwise.apply(Direction::Forward, y, labels, out, &mut self.scratch);
        };
        if active.is_empty() {
            return out.fill(0.0);
        }
        // At most half of the labels: their rows and the result's fit into `out` side by side.
        let used = self.model.pixels() * active.len();
        let (result, rest) = out.split_at_mut(used);
        gather(y, labels, &active, &mut rest[..used]);
        pairwise.apply(Direction::Forward, &rest[..used], active.len(), result, &mut self.scratch);
        spread(out, labels, &active);
    }

    /// The ordered filter on `channels` values per pixel: one ordered call.
    pub fn ordered(&mut self, values: &[f32], channels: usize, mode: OrderedMode, out: &mut [f32]) {
        self.counts.ordered += 1;
        self.model.pairwise().apply_ordered(values, channels, mode, out, &mut self.scratch);
    }

    /// The softened ordered filter on `channels` values per pixel: one ordered call.
    pub fn softened(&mut self, values: &[f32], channels: usize, cells: usize, out: &mut [f32]) {
        self.counts.ordered += 1;
        self.model.pairwise().apply_softened(values, channels, cells, out, &mut self.scratch);
    }

    /// The softened ordered filter on one value per pixel, among the pixels that `row_sums` adds up over; all
    /// others must have the value 0.
    pub(crate) fn softened_sums(&mut self, values: &[f32], cells: usize, row_sums: &[f32], out: &mut [f32]) {
        self.model.pairwise().softened_column(values, cells, row_sums, out, &mut self.scratch);
    }

    /// K on any number of channels.
    pub(crate) fn channels(&mut self, x: &[f32], channels: usize, out: &mut [f32]) {
        self.counts.filter += 1;
        self.model.pairwise().apply(Direction::Forward, x, channels, out, &mut self.scratch);
    }

    /// K between the given pixels, row by row, without self pairs.
    pub(crate) fn between(&mut self, pixels: &[usize]) -> Vec<f32> {
        const BLOCK: usize = 24;
        let (points, count) = (self.model.pixels(), pixels.len());
        let mut matrix = vec![0.0; count * count];
        for (first, block) in (0..count).step_by(BLOCK).zip(pixels.chunks(BLOCK)) {
            let width = block.len();
            let mut unit = vec![0.0; points * width];
            for (k, &a) in block.iter().enumerate() {
                unit[a * width + k] = 1.0;
            }
            let mut out = vec![0.0; points * width];
            self.counts.filter += 1;
            self.model.pairwise().apply(Direction::Forward, &unit, width, &mut out, &mut self.scratch);
            for (row, &a) in pixels.iter().enumerate() {
                for k in 0..width {
                    matrix[row * count + first + k] = if row == first + k { 0.0 } else { out[a * width + k] };
                }
            }
        }
        // Rounding may differ between the two orders of a pair.
        for a in 0..count {
            for b in 0..a {
                let mean = 0.5 * (matrix[a * count + b] + matrix[b * count + a]).max(0.0);
                (matrix[a * count + b], matrix[b * count + a]) = (mean, mean);
            }
        }
        matrix
    }

    /// The lowest energy of a labelling that the run has seen.
    pub fn lowest_energy(&self) -> f64 {
        self.lowest
    }

    /// The energy of a labelling with as many labels as the model has pixels.
    pub fn evaluate(&mut self, labeling: &Labeling) -> Energy {
        self.counts.evaluations += 1;
        let energy = energy::of_checked(self.model, labeling, &mut self.scratch);
        self.lowest = self.lowest.min(energy.total());
        energy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FilterKind, ModelBuilder, Normalization};
    use relaxcrf_filter::rng::Rng;

    const POINTS: usize = 40;

    /// A problem, and its kernel worked out pair by pair.
    fn problem() -> (Model, Vec<f64>) {
        let mut rng = Rng::new(5);
        let mut numbers = |n: usize| (0..n).map(|_| 3.0 * rng.next_f64() as f32).collect::<Vec<_>>();
        let places = numbers(2 * POINTS);
        let kernel = |k: usize| {
            let (a, b) = (k / POINTS, k % POINTS);
            let square = |d: usize| f64::from(places[2 * a + d] - places[2 * b + d]).powi(2);
            0.7 * (-0.5 * (square(0) + square(1))).exp()
        };
        let kernel = (0..POINTS * POINTS).map(kernel).collect();
        let model = ModelBuilder::points(POINTS, 3)
            .unary(numbers(3 * POINTS))
            .features(places, 2, 0.7)
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap();
        (model, kernel)
    }

    #[test]
    fn weights_between_pixels_are_the_kernel() {
        let (model, kernel) = problem();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        // More than fit into one call, in any order, and not all.
        let pixels: Vec<usize> = (0..37).map(|k| k * 7 % POINTS).collect();
        let matrix = context.between(&pixels);
        assert_eq!(matrix.len(), 37 * 37);
        for (k, &got) in matrix.iter().enumerate() {
            let (a, b) = (pixels[k / 37], pixels[k % 37]);
            let want = if a == b { 0.0 } else { kernel[a * POINTS + b] };
            assert!((f64::from(got) - want).abs() < 1e-5, "{a} and {b}: {got} against {want}");
        }
        assert_eq!(context.counts(), Counts { filter: 2, ..Counts::default() });
    }

    #[test]
    fn calls_for_a_part_of_the_pixels_count_by_their_share() {
        let (model, _) = problem();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let part = model.among(&(0..15).collect::<Vec<_>>()).unwrap();
        let mut ordered = Vec::new();
        for calls in [2, 1, 3, 2] {
            context.on(&part, 7.0, |context| {
                assert_eq!((context.model().pixels(), context.lowest_energy()), (15, 7.0));
                let (values, mut out) = (vec![0.5; 15 * 3], vec![0.0; 15 * 3]);
                (0..calls).for_each(|_| context.ordered(&values, 3, OrderedMode::Exact, &mut out));
            });
            ordered.push(context.counts().ordered);
        }
        // 15 of 40 pixels: 0.75, 1.125, 2.25 and 3 whole calls.
        assert_eq!(ordered, [0, 1, 2, 3]);
        assert_eq!(context.lowest_energy(), f64::INFINITY);
    }

    #[test]
    fn time_runs_out() {
        let (model, _) = problem();
        let hour = Duration::from_secs(3600);
        let limited = Settings { time_limit: Some(hour), ..Settings::default() };
        let started = Instant::now();
        let context = Context::new(&model, &limited, started);
        assert!(!context.out_of_time());
        assert!(context.time_left().is_some_and(|left| left <= hour && left > hour / 2));
        let none = Settings { time_limit: Some(Duration::ZERO), ..Settings::default() };
        let context = Context::new(&model, &none, started);
        assert!(context.out_of_time() && context.time_left() == Some(Duration::ZERO));
        let unlimited = Settings::default();
        let context = Context::new(&model, &unlimited, started);
        assert!(!context.out_of_time() && context.time_left().is_none());
    }

    #[test]
    fn every_use_is_counted_and_the_lowest_energy_kept() {
        let (model, kernel) = problem();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let energy = |x: &[u16]| {
            let unary = |a: usize| f64::from(model.unary()[3 * a + usize::from(x[a])]);
            let apart = |k: usize| f64::from(u8::from(x[k / POINTS] != x[k % POINTS])) * kernel[k];
            (0..POINTS).map(unary).sum::<f64>() + (0..kernel.len()).map(apart).sum::<f64>()
        };
        let mut lowest = f64::INFINITY;
        // First down, then up.
        for (count, kinds) in [(1, 3), (2, 1), (3, 2)] {
            let x: Vec<u16> = (0..POINTS).map(|a| (a % kinds) as u16).collect();
            lowest = lowest.min(energy(&x));
            let found = context.evaluate(&Labeling::new(x.clone())).total();
            assert!((found - energy(&x)).abs() < 1e-3, "{found} against {}", energy(&x));
            assert!((context.lowest_energy() - lowest).abs() < 1e-3);
            assert_eq!(context.counts().evaluations, count);
        }
        let (values, mut out) = (vec![0.25; 3 * POINTS], vec![0.0; 3 * POINTS]);
        context.filter(&values, &mut out);
        context.channels(&values, 3, &mut out);
        context.count_filter();
        context.ordered(&values, 3, OrderedMode::Exact, &mut out);
        context.softened(&values, 3, 4, &mut out);
        let counts = Counts { filter: 3, ordered: 2, evaluations: 3 };
        assert_eq!(context.counts(), counts);
        assert_eq!(counts + counts, Counts { filter: 6, ordered: 4, evaluations: 6 });
    }
}
