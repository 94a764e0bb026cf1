//! `batch --dry-run`: the images, memory and time of a run.

use std::path::Path;

use anyhow::Result;
use relaxcrf_io as io;
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::inputs;
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::report;
use serde::Serialize;

use super::identity;
use super::items::{Item, Items};
use super::record::Finds;
use super::work::outputs;
use crate::args::BatchArgs;
use crate::forecast::{self, shown_time};
use crate::memory::Needs;
use crate::specs::shown_bytes;

/// Number of images whose memory is counted and of which a piece is timed.
const SAMPLED: usize = 5;

#[derive(Debug, Serialize)]
struct Plan {
    images: usize,
    finished: usize,
    to_do: usize,
    /// Images with missing files.
    lacking: usize,
    pixels: u64,
    method: String,
    jobs: usize,
    /// Of the largest images among those looked at, in bytes.
    memory_per_image: u64,
    memory: u64,
    /// Processor seconds for an image of mean size, and for the whole.
    seconds_per_image: Option<f64>,
    seconds: Option<f64>,
}

/// Prints the plan.
pub fn show(
    args: &BatchArgs,
    items: &Items,
    choice: &Choice,
    settings: &str,
    log: &Path,
    jobs: usize,
) -> Result<()> {
    let mut finds = Finds::read(&args.output, log)?;
    finds.refresh()?;
    let (mut finished, mut lacking, mut pixels) = (0, 0, 0u64);
    let mut to_do: Vec<(&Item, u64)> = Vec::new();
    for item in &items.list {
        let size = item.source.is_ok().then(|| io::image_size(&item.image).ok()).flatten();
        let Some((width, height, _)) = size else {
            lacking += 1;
            crate::terminal::complain(&format!("{}: {}", item.name, what_is_wrong(item)));
            continue;
        };
        if !args.fresh && is_finished(args, &finds, item, settings) {
            finished += 1;
            continue;
        }
        pixels += (width * height) as u64;
        to_do.push((item, (width * height) as u64));
    }
    // The largest for memory, and some from the whole list for time.
    let largest = to_do.iter().max_by_key(|(_, size)| *size).map(|(item, _)| *item);
    let step = to_do.len().div_ceil(SAMPLED).max(1);
    let some: Vec<&Item> = to_do.iter().step_by(step).map(|(item, _)| *item).collect();
    let needs = largest.iter().copied().chain(some.iter().copied());
    let peaks = needs.filter_map(|item| {
        let source = item.source.as_ref().ok()?.source();
        Needs::of_files(&item.image, source, &args.unary.options(), &choice.model, &choice.method, None).ok()
    });
    let most = peaks.map(|needs| needs.peak).max().unwrap_or(0);
    let rates: Vec<f64> = some.iter().filter_map(|item| seconds_per_pixel(args, item, choice).ok()).collect();
    let rate = (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64);
    let fitting = args.resources.max_memory.map_or(jobs, |limit| jobs.min((limit / most.max(1)) as usize));
    let plan = Plan {
        images: items.list.len(),
        finished,
        to_do: to_do.len(),
        lacking,
        pixels,
        method: choice.method.to_string(),
        jobs,
        memory_per_image: most,
        memory: most * fitting.max(1) as u64,
        seconds_per_image: rate.map(|r| r * pixels as f64 / to_do.len().max(1) as f64),
        seconds: rate.map(|r| r * pixels as f64 / fitting.max(1) as f64),
    };
    if args.common.json {
        return crate::terminal::print_json(&plan);
    }
    let limit = args.resources.max_memory;
    let too_large = limit.filter(|limit| most > *limit).map_or(String::new(), |limit| {
        format!("; more than --max-memory {}: such images would fail", shown_bytes(limit))
    });
    crate::terminal::print(&report::facts(&[
        (
            "images",
            format!(
                "{}: {} to do, {} finished, {} with missing files",
                plan.images, plan.to_do, plan.finished, plan.lacking
            ),
        ),
        ("pixels to do", format!("{:.1} million", pixels as f64 / 1e6)),
        ("method", format!("{}, {jobs} at a time", plan.method)),
        (
            "memory",
            format!("about {} an image, {} in all{too_large}", shown_bytes(most), shown_bytes(plan.memory)),
        ),
        (
            "time",
            match (plan.seconds_per_image, plan.seconds) {
                (Some(each), Some(all)) => format!(
                    "about {} an image on one thread, {} in all, from pieces of {} images timed here",
                    shown_time(each),
                    shown_time(all),
                    rates.len()
                ),
                _ => "unknown: no image could be read".into(),
            },
        ),
    ]))
}

fn what_is_wrong(item: &Item) -> String {
    match &item.source {
        Err(why) => why.clone(),
        Ok(_) => io::image_size(&item.image).err().map_or(String::new(), |e| e.to_string()),
    }
}

/// Whether a run would skip the image as finished.
fn is_finished(args: &BatchArgs, finds: &Finds, item: &Item, settings: &str) -> bool {
    let (labels, _) = outputs(args, &item.name);
    let Some(known) = finds.get(&item.name).filter(|_| args.output.join(labels).is_file()) else {
        return false;
    };
    identity::of_item(item, settings).is_ok_and(|key| key == known.key)
        && known.outputs.iter().all(|(path, content)| {
            identity::of_file(&args.output.join(path)).is_ok_and(|now| now == *content)
        })
}

/// Times the method on a piece of an image.
fn seconds_per_pixel(args: &BatchArgs, item: &Item, choice: &Choice) -> Result<f64> {
    let source = item.source.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?.source();
    let quiet = Messages::silent();
    let (image, unary) =
        inputs::image_and_unary(&item.image, source, &args.unary.options().for_model(&choice.model), &quiet)?;
    let settings = args.limits.settings(args.common.seed);
    forecast::seconds_per_pixel(&image, &unary.rows, unary.labels, &choice.model, &choice.method, &settings)
}
