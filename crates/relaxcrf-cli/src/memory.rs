//! Memory of a run: estimated before it is taken, and divided among jobs.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use relaxcrf::Image;
use relaxcrf::memory::{KernelSize, Problem};
use relaxcrf::solve::Pipeline;
use relaxcrf_io as io;
use relaxcrf_lab::inputs::{self, Source};
use relaxcrf_lab::options::{ModelOptions, UnaryOptions};
use relaxcrf_lab::report;
use relaxcrf_lab::specs::extension;
use serde::Serialize;

use crate::forecast::shown_time;
use crate::specs::shown_bytes;
use crate::terminal::print_json;

/// The program itself, its threads and the allocator's slack.
pub const PROGRAM: u64 = 16 << 20;

/// Memory that one problem needs.
#[derive(Debug, Clone)]
pub struct Needs {
    /// Image and unaries, for messages.
    pub what: String,
    pub pixels: usize,
    pub labels: usize,
    pub method: String,
    /// Peak in bytes, an upper bound.
    pub peak: u64,
}

impl Needs {
    /// Estimates a model made from files. Sizes come from the headers; then the image is read, and its lattice's vertices
    /// are counted. With a `limit`, an image whose size alone exceeds it is not read.
    pub fn of_files(
        image: &Path,
        source: Source,
        unary: &UnaryOptions,
        model: &ModelOptions,
        method: &Pipeline,
        limit: Option<u64>,
    ) -> Result<Self> {
        let (width, height, channels) = io::image_size(image)?;
        inputs::check_header_size(source, unary, image, (width, height))?;
        let labels = inputs::label_count(source, &unary.for_model(model))?;
        let guess = model
            .kernels(&[])
            .iter()
            .map(|kernel| {
                let dims = if is_bilateral(kernel) { 2 + channels } else { 2 };
                let kept = if is_bilateral(kernel) { channels } else { 0 };
                // A lattice without vertices: a lower bound for any content.
                KernelSize::guess(0, dims, kept, model.filter)
            })
            .collect();
        let what = format!("{} with {}", image.display(), source.name());
        let least = Self::new(what.clone(), (width, height, channels), labels, guess, method);
        if limit.is_some_and(|limit| least.peak > limit) {
            return Ok(least);
        }
        let mut needs = Self::of_image(what, &io::read_image(image)?, labels, model, method)?;
        needs.peak += file_bytes(image);
        Ok(needs)
    }

    /// The same for an image that was read.
    pub fn of_image(
        what: String,
        image: &Image,
        labels: usize,
        model: &ModelOptions,
        method: &Pipeline,
    ) -> Result<Self> {
        let kernels = model
            .kernels(&image.data)
            .iter()
            .map(|kernel| KernelSize::measure(kernel, &[image.height, image.width], model.filter))
            .collect::<relaxcrf::Result<Vec<_>>>()
            .with_context(|| what.clone())?;
        Ok(Self::new(what, (image.width, image.height, image.channels), labels, kernels, method))
    }

    fn new(
        what: String,
        (width, height, channels): (usize, usize, usize),
        labels: usize,
        kernels: Vec<KernelSize>,
        method: &Pipeline,
    ) -> Self {
        let pixels = width * height;
        let picture = 8 * (pixels * channels) as u64;
        let values = 4 * pixels as u64 * labels as u64;
        let problem = Problem { pixels, labels, kernels, zero_diagonal: true };
        let estimate = problem.estimate(method);
        // Reading has the file's values and their rows at once; writing beliefs has them and a turned copy.
        let reading = 2 * values;
        let peak = reading.max(estimate.building).max(estimate.model + estimate.solving.max(2 * values));
        Self { what, pixels, labels, method: method.to_string(), peak: peak + picture + PROGRAM }
    }

    /// Prints the answer to `--dry-run`; `seconds` on one thread, if known.
    pub fn show(&self, seconds: Option<f64>, json: bool) -> Result<()> {
        if json {
            return print_json(&Forecast {
                pixels: self.pixels,
                labels: self.labels,
                method: &self.method,
                memory: self.peak,
                seconds,
            });
        }
        let time = |s| format!("about {} on one thread, from a piece of it timed here", shown_time(s));
        crate::terminal::print(&report::facts(&[
            ("problem", format!("{}: {} pixels, {} labels", self.what, self.pixels, self.labels)),
            ("method", self.method.clone()),
            ("memory", format!("about {}", shown_bytes(self.peak))),
            ("time", report::optional(seconds, time)),
        ]))
    }

    /// Fails if the problem needs more than `limit`; the error says what helps.
    pub fn check(&self, limit: u64) -> Result<()> {
        if self.peak <= limit {
            return Ok(());
        }
        let other = if self.method == "mf5" { "" } else { ", or a method that keeps less, such as mf5" };
        bail!(
            "{}: {} pixels with {} labels need about {} for {}, but --max-memory allows {}; use --tile in `segment`, or fewer \
             labels{other}",
            self.what,
            self.pixels,
            self.labels,
            shown_bytes(self.peak),
            self.method,
            shown_bytes(limit)
        )
    }
}

/// What `--dry-run --json` prints.
#[derive(Debug, Serialize)]
struct Forecast<'a> {
    pixels: usize,
    labels: usize,
    method: &'a str,
    /// Bytes.
    memory: u64,
    seconds: Option<f64>,
}

fn is_bilateral(kernel: &relaxcrf::model::Kernel) -> bool {
    matches!(kernel.features, relaxcrf::model::Features::Bilateral { .. })
}

fn file_bytes(path: &Path) -> u64 {
    let packed = matches!(extension(path).as_str(), "npy" | "npz" | "pfm");
    if packed { 0 } else { std::fs::metadata(path).map_or(0, |about| about.len()) }
}

/// Memory that several jobs share: each waits until what it needs is free.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

/// Part of a budget that one job holds; given back when dropped.
#[derive(Debug)]
pub struct Room<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Self { limit, used: Mutex::new(0), freed: Condvar::new() }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Waits for room; fails if there will never be enough.
    pub fn wait_for(&self, needs: &Needs) -> Result<Room<'_>> {
        needs.check(self.limit)?;
        // The program's own memory counts once, not once per job.
        let bytes = needs.peak - PROGRAM;
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |used: &mut u64| *used > 0 && *used + bytes + PROGRAM > self.limit;
        let mut used = self.freed.wait_while(used, full).unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
        Ok(Room { budget: self, bytes })
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        *self.budget.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn needs(peak: u64) -> Needs {
        Needs { what: "a with b".into(), pixels: 1, labels: 2, method: "mf".into(), peak: peak + PROGRAM }
    }

    #[test]
    fn budget_is_never_exceeded_and_never_deadlocks() {
        let budget = Budget::new(100 + PROGRAM);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for k in 0..6 {
                let (budget, now, most) = (&budget, &now, &most);
                scope.spawn(move || {
                    for bytes in [40, 70, 100, 10 + k] {
                        let room = budget.wait_for(&needs(bytes)).unwrap();
                        most.fetch_max(now.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        now.fetch_sub(bytes, Ordering::SeqCst);
                        drop(room);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 100);
        let e = budget.wait_for(&needs(101)).unwrap_err().to_string();
        for text in ["a with b", "16.0 MiB", "--max-memory", "--tile"] {
            assert!(e.contains(text), "{text} is missing in: {e}");
        }
    }
}
