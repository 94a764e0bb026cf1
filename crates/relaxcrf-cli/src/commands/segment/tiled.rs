//! `relaxcrf segment --tile`: an image of any size in bounded memory, read, solved and written tile by tile.

use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use relaxcrf::solve::Settings;
use relaxcrf::tiles::{self, Tile, Tiling};
use relaxcrf::{Image, Model};
use relaxcrf_io::{GeoTags, LabelFile, Raster, Window, write_npy_f32_by_window};
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::inputs::{self, Source, UnaryWindows};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::progress::Counter;
use relaxcrf_lab::report;
use serde::Serialize;

use crate::args::{SegmentArgs, Take};
use crate::classes::Appearance;
use crate::progress::Tally;
use crate::specs::SizeSpec;
use crate::terminal::{print, print_json};

/// Sides of tiles are multiples of this, as TIFF files require.
const UNIT: usize = 16;

/// The report of a tiled run.
#[derive(Debug, Serialize)]
struct TiledReport {
    method: String,
    width: usize,
    height: usize,
    label_count: usize,
    labels_used: usize,
    tiles: usize,
    tile: usize,
    halo: [usize; 2],
    estimated_memory: u64,
    changed: f64,
    seconds: f64,
}

/// A huge image and how to solve it.
struct Job<'a> {
    args: &'a SegmentArgs,
    choice: &'a Choice,
    settings: Settings,
    image: Raster,
    unary: UnaryWindows<'a>,
    image_checked: bool,
    messages: Messages,
    /// Pixels whose label is not the one their own energies prefer.
    changed: u64,
    used: Vec<bool>,
}

/// The labels of a tile's core, and its beliefs if they are to be saved.
struct Solved {
    labels: Vec<u16>,
    beliefs: Vec<f32>,
}

/// Solves the image in tiles of this size.
pub fn run(
    args: &SegmentArgs,
    tile: SizeSpec,
    source: Source,
    choice: &Choice,
    appearance: &Appearance,
) -> Result<()> {
    let started = Instant::now();
    let settings = args.run.limits.settings(args.common.seed);
    check_combination(args)?;
    tiles::check(&choice.method, &settings)?;
    if args.run.take == Take::Best {
        bail!(
            "--take best is for images that are solved whole: the best labelling of one tile need not fit the next; leave it out"
        );
    }
    if choice.model.calibrate {
        bail!("--calibrate measures every tile on its own, and tiles would not fit together; leave it out");
    }
    if let Some(path) = &args.show.overlay {
        bail!(
            "--overlay {} needs the whole image in memory, which --tile avoids: leave one of them out",
            path.display()
        );
    }
    if args.run.explain {
        bail!("--explain tells about --method auto, which --tile does not take; leave it out");
    }
    let image = Raster::image(&args.image)?;
    let size = (image.width(), image.height());
    // Before the number of tiles is known, there is nothing to count.
    let opening = Tally::new(args.common.quiet, 0, 0);
    opening.say("opening the files");
    let messages = opening.messages();
    let unary_args = args.unary.options().for_model(&choice.model);
    let unary = UnaryWindows::open(source, size, &args.image, &unary_args, &messages)?;
    drop(opening);
    let geo = geo_tags(args, source)?;
    let used = vec![false; unary.labels()];
    let values = unary.values();
    let mut job =
        Job { args, choice, settings, image, unary, image_checked: false, messages, changed: 0, used };
    let (tiling, estimated_memory) = job.plan(tile)?;

    let tally = Tally::new(args.common.quiet, tiling.len(), 0).counting("tiles");
    job.messages = tally.messages();
    let label_count = job.unary.labels();
    let (width, height) = size;
    let shape = [label_count, height, width];
    let (path, labels) = (args.output.as_path(), values.end(label_count));
    let file = LabelFile { path, width, height, labels, side: tiling.side(), geo: &geo };
    file.write(&values.colours(appearance.given())?, |put| match &args.save_probs {
        None => job
            .solve_all(&tiling, &tally, |tile, solved| Ok(put(&tile.core, &values.restore(&solved.labels))?)),
        Some(path) => write_npy_f32_by_window(path, &shape, |put_beliefs| {
            job.solve_all(&tiling, &tally, |tile, solved| {
                put_beliefs(&planes(label_count, tile), &to_planes(&solved.beliefs, label_count))?;
                Ok(put(&tile.core, &values.restore(&solved.labels))?)
            })
        }),
    })?;
    drop(tally);

    let report = TiledReport {
        method: choice.method.to_string(),
        width,
        height,
        label_count,
        labels_used: job.used.iter().filter(|&&u| u).count(),
        tiles: tiling.len(),
        tile: tiling.side(),
        halo: [tiling.halo()[0], tiling.halo()[1]],
        estimated_memory,
        changed: job.changed as f64 / (width as f64 * height as f64),
        seconds: started.elapsed().as_secs_f64(),
    };
    show(&report, args)
}

/// Fails for options that tiles do not take, before anything is read.
fn check_combination(args: &SegmentArgs) -> Result<()> {
    let limits = &args.run.limits;
    if limits.time_limit.is_some() {
        bail!(
            "--tile cannot be combined with --time-limit: each tile would stop at another iteration, and the tiles would \
             not fit together. Leave out --time-limit and bound the work with --method mf10 (ten updates) or --max-iter N"
        );
    }
    if args.start.init.is_some() || !args.start.keep_labels.is_empty() {
        bail!(
            "--tile cannot be combined with --init or --keep-labels. Leave them out, or solve the image whole"
        );
    }
    if limits.until_gap.is_some() {
        bail!(
            "--tile cannot be combined with --until-gap: the lower bounds of tiles are no bound of the image's energy. \
             Leave out --until-gap and bound the work with --max-iter N"
        );
    }
    Ok(())
}

/// Georeference of the labels: that of the image, else of the unaries.
pub fn geo_tags(args: &SegmentArgs, source: Source) -> Result<GeoTags> {
    let of_labels = matches!(source, Source::Labels(_));
    let first =
        source.files().first().filter(|p| !p.is_dir()).map(|p| GeoTags::read(p, of_labels)).transpose()?;
    let of_image = GeoTags::read(&args.image, false)?;
    Ok(match first {
        Some(tags) if of_labels || of_image.is_empty() => {
            if tags.is_empty() {
                of_image
            } else {
                tags
            }
        }
        _ => of_image,
    })
}

fn show(report: &TiledReport, args: &SegmentArgs) -> Result<()> {
    if args.common.json {
        return print_json(report);
    }
    if args.common.quiet {
        return Ok(());
    }
    let memory = report.estimated_memory as f64 / f64::from(1 << 20);
    let megapixels = report.width as f64 * report.height as f64 / 1e6;
    print(&report::facts(&[
        ("method", report.method.clone()),
        ("image", format!("{} x {} pixels", report.width, report.height)),
        (
            "tiles",
            format!(
                "{} of {} pixels, halo {} x {}",
                report.tiles, report.tile, report.halo[1], report.halo[0]
            ),
        ),
        ("memory", format!("about {memory:.0} MiB for a tile")),
        ("labels used", format!("{} of {}", report.labels_used, report.label_count)),
        ("changed", report::percent(report.changed)),
        (
            "seconds",
            format!("{:.2} ({:.2} megapixels a second)", report.seconds, megapixels / report.seconds),
        ),
        ("written", args.output.display().to_string()),
    ]))
}

/// The core of a tile in an array of labels x height x width.
fn planes(labels: usize, tile: &Tile) -> [Range<usize>; 3] {
    [0..labels, tile.core[0].clone(), tile.core[1].clone()]
}

fn to_planes(rows: &[f32], labels: usize) -> Vec<f32> {
    (0..labels).flat_map(|l| rows.iter().skip(l).step_by(labels).copied()).collect()
}

fn window(tile: &Tile) -> Window {
    [tile.outer[0].clone(), tile.outer[1].clone()]
}

impl Job<'_> {
    /// The tiles, and the expected memory of one of them in bytes.
    fn plan(&mut self, tile: SizeSpec) -> Result<(Tiling, u64)> {
        let sizes = [self.image.height(), self.image.width()];
        let halo = match self.args.tiles.halo.unwrap_or(SizeSpec::Auto) {
            SizeSpec::Auto => tiles::halos(&self.choice.model.kernels(&[]), 2)?,
            SizeSpec::Pixels(n) => vec![n; 2],
        };
        let bytes = self.bytes_per_pixel()?;
        let side = match tile {
            SizeSpec::Pixels(0) => bail!("--tile is 0; expected auto, or at least 1 pixel"),
            SizeSpec::Pixels(n) => n.next_multiple_of(UNIT),
            SizeSpec::Auto => {
                let memory = self.args.tiles.tile_memory.unwrap_or(tiles::DEFAULT_MEMORY);
                tiles::side(memory, bytes, halo.iter().copied().max().unwrap_or(0), 2)?
            }
        };
        let tiling = Tiling::new(&sizes, side, &halo)?;
        let largest = tiling.tiles().map(|t| t.sizes().iter().product::<usize>() as u64).max().unwrap_or(0);
        Ok((tiling, largest * bytes))
    }

    /// Largest memory per pixel over some parts of the image.
    fn bytes_per_pixel(&mut self) -> Result<u64> {
        let labels = self.unary.labels();
        let mut most = 0;
        for part in tiles::samples(&[self.image.height(), self.image.width()]) {
            let image = self.read_image(&[part[0].clone(), part[1].clone()])?;
            let rows = vec![0.0; image.pixels() * labels];
            let sample = inputs::builder(&image, labels, &self.choice.model, 0)?.unary(rows).build()?;
            most = most.max(tiles::bytes_per_pixel(&sample, image.channels));
        }
        Ok(most)
    }

    fn read_image(&mut self, window: &Window) -> Result<Image> {
        let data = self.image.read(window)?;
        Ok(Image::new(window[1].len(), window[0].len(), self.image.channels(), data)?)
    }

    fn solve_all(
        &mut self,
        tiling: &Tiling,
        tally: &Tally,
        mut take: impl FnMut(&Tile, &Solved) -> Result<()>,
    ) -> Result<()> {
        for tile in tiling.tiles() {
            let place =
                || format!("in the tile at column {}, row {}", tile.core[1].start, tile.core[0].start);
            tally.say(&format!("column {}, row {}", tile.core[1].start, tile.core[0].start));
            let solved = self.solve(&tile).with_context(place)?;
            take(&tile, &solved)?;
            tally.step();
        }
        Ok(())
    }

    fn model(&mut self, tile: &Tile) -> Result<Model> {
        let window = window(tile);
        let image = self.read_image(&window)?;
        // A black part is not typical of the image.
        if !self.image_checked && image.data.iter().any(|&v| v > 0.0) {
            inputs::warn_about_image(&image, &self.args.image, &self.choice.model.bilateral, &self.messages);
            self.image_checked = true;
        }
        let rows = self.unary.read(&window, &self.messages)?;
        let whole = [self.image.height(), self.image.width()];
        let builder =
            inputs::builder(&image, self.unary.labels(), &self.choice.model, self.args.common.seed)?;
        drop(image);
        Ok(builder.window(&tile.origin(), &whole).unary(rows).build()?)
    }

    fn solve(&mut self, tile: &Tile) -> Result<Solved> {
        let model = self.model(tile)?;
        let solution = tiles::run(&model, &self.choice.method, &self.settings)?;
        let labels = tiles::labels(tile, &solution);
        let before = tile.crop(model.unary_argmin().as_slice(), 1);
        self.changed += labels.iter().zip(&before).filter(|(a, b)| a != b).count() as u64;
        labels.iter().for_each(|&l| self.used[usize::from(l)] = true);
        let beliefs = match self.args.save_probs {
            Some(_) => tile.crop(solution.beliefs.as_slice(), model.labels()),
            None => Vec::new(),
        };
        Ok(Solved { labels, beliefs })
    }
}
