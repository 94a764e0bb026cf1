//! `relaxcrf batch`: many images, with resumption after any interruption.
//!
//! Each image is claimed, looked up, refined, written and logged, in this order. After an interruption
//! between two of these steps, the next run finds either a logged result with complete files, or no result and does the image.

mod claims;
mod identity;
mod items;
mod manifest;
mod plan;
mod queue;
mod record;
mod summary;
mod work;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail};
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::outputs::{check_writable, make_directory};
use relaxcrf_lab::progress::Counter;
use relaxcrf_lab::{parallel, report};

use self::claims::Claims;
use self::items::Items;
use self::queue::Queue;
use self::record::{Finds, Record, open_log};
use self::summary::Summary;
use self::work::{Shop, Turn, check_folders};
use super::use_threads;
use crate::args::BatchArgs;
use crate::classes::chosen_palette;
use crate::memory::Budget;
use crate::progress::Tally;

/// Failures and warnings shown on the terminal; all of them are in the log.
const MAX_SHOWN: usize = 20;

/// Refines all images that are not finished.
pub fn run(args: &BatchArgs) -> Result<()> {
    let palette = chosen_palette(&args.colours)?;
    let items = items::collect(args)?;
    use_threads(&args.common)?;
    if !args.common.quiet {
        items.notes.iter().for_each(|note| crate::terminal::complain(&format!("note: {note}")));
    }
    let choice = Choice::new(&args.model.options(), args.preset.preset.as_ref(), args.method.as_ref())?;
    let settings = identity::settings(args, &choice, items.labels.void)?;
    let threads = rayon::current_num_threads();
    // With fewer images than jobs, the other threads work inside the images.
    let jobs = args.jobs.map_or(threads, usize::from).min(items.list.len()).max(1);
    let log = args.output.join(log_name(args));
    if args.resources.dry_run {
        return plan::show(args, &items, &choice, &settings, &log, jobs);
    }
    let folders: Vec<PathBuf> = ["labels", "probs"]
        .into_iter()
        .filter(|f| *f == "labels" || args.save_probs)
        .map(|f| args.output.join(f))
        .collect();
    folders.iter().try_for_each(|folder| make_directory(folder))?;
    check_folders(&args.output, &items.list)?;
    if let Some(page) = &args.report {
        check_writable(page, &[])?;
    }
    let shop = Shop {
        args,
        choice,
        settings,
        void: items.labels.void,
        palette,
        claims: Claims::join(&args.output, &folders)?,
        log: open_log(&log)?,
        finds: Mutex::new(Finds::read(&args.output, &log)?),
        budget: args.resources.max_memory.map(Budget::new),
    };
    let started = Instant::now();
    let outcome = work_through(&shop, &items, jobs, threads)?;
    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary::new(args, &shop.choice, &items, jobs, &outcome.counts, seconds)?;
    if let Some(page) = &args.report {
        summary.page(args, &shop.choice, &items).write(page)?;
    }
    if args.common.json {
        crate::terminal::print_json(&summary)?;
    } else if !args.common.quiet {
        crate::terminal::print(&report::facts(&summary.facts(args, &log)))?;
    }
    match (outcome.broken, summary.failed) {
        (Some(e), _) => Err(e),
        (None, 0) => Ok(()),
        (None, failed) => bail!(
            "{failed} of {} images failed; why is in {}; run the same command again once that is mended",
            items.list.len(),
            log.display()
        ),
    }
}

/// Name of the log. Each shard of a list has its own, so that machines need not write to the same file.
fn log_name(args: &BatchArgs) -> String {
    args.shard.map_or("log.jsonl".into(), |s| format!("log-{}-of-{}.jsonl", s.part, s.of))
}

/// Numbers of images that a run did, skipped as finished, and failed on.
#[derive(Debug, Default)]
pub struct Counts {
    pub done: AtomicUsize,
    pub finished_before: AtomicUsize,
    pub failed: AtomicUsize,
    pub pixels: AtomicUsize,
}

struct Outcome {
    counts: Counts,
    /// Error that ended the run early.
    broken: Option<anyhow::Error>,
}

fn work_through(shop: &Shop, items: &Items, jobs: usize, threads: usize) -> Result<Outcome> {
    let tally = Tally::new(shop.args.common.quiet, items.list.len(), 0).counting("images");
    let queue = Queue::new(items.list.len());
    let counts = Counts::default();
    let (stop, broken) = (AtomicBool::new(false), Mutex::new(None));
    let announced = Announced::default();
    parallel::workers(jobs, threads, || {
        while let Some(at) = queue.take() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let item = &items.list[at];
            tally.say(&item.name);
            match shop.turn(item) {
                Ok(Turn::Busy) => {
                    queue.later(at);
                    continue;
                }
                Ok(Turn::Finished) => {
                    counts.finished_before.fetch_add(1, Ordering::Relaxed);
                    tally.skip();
                    continue;
                }
                Ok(Turn::Ended(record)) => tell(&record, &counts, &announced, &tally, shop.args.common.quiet),
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                    return;
                }
            }
            tally.step();
        }
    })?;
    drop(tally);
    Ok(Outcome { counts, broken: broken.into_inner().unwrap_or_else(PoisonError::into_inner) })
}

/// Numbers of messages shown on the terminal so far.
#[derive(Debug, Default)]
struct Announced {
    warnings: AtomicUsize,
    /// One note: most images of a set are understood the same way.
    note: AtomicBool,
}

fn tell(record: &Record, counts: &Counts, announced: &Announced, tally: &Tally, quiet: bool) {
    match &record.error {
        None => {
            counts.done.fetch_add(1, Ordering::Relaxed);
            counts.pixels.fetch_add(record.pixels.unwrap_or(0), Ordering::Relaxed);
        }
        Some(error) => {
            let before = counts.failed.fetch_add(1, Ordering::Relaxed);
            if before < MAX_SHOWN {
                tally.complain(&format!("{}: {error}", record.item));
            } else if before == MAX_SHOWN {
                tally.complain("there are more failures, which are only in the log");
            }
        }
    }
    if quiet {
        return;
    }
    if let Some(note) = record.notes.first()
        && !announced.note.swap(true, Ordering::Relaxed)
    {
        tally.complain(&format!("note: {note}; notes on other images are in the log"));
    }
    for warning in &record.warnings {
        match announced.warnings.fetch_add(1, Ordering::Relaxed) {
            before if before < MAX_SHOWN => tally.complain(&format!("warning: {warning}")),
            MAX_SHOWN => tally.complain("there are more warnings, which are only in the log"),
            _ => {}
        }
    }
}
