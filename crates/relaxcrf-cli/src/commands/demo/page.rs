//! The demo's page: pictures with captions, and tables with their interpretation.

use relaxcrf::Labeling;
use relaxcrf_lab::report::page::{Block, Page, Section};
use relaxcrf_lab::report::picture::{ColourMap, Picture};
use relaxcrf_lab::report::sheet::{Best, Cell, Sheet};
use relaxcrf_lab::report::{self, percent};
use relaxcrf_lab::synth::LANDSCAPE_LABELS;

use super::scenes::{DISPARITIES, Scene, Task};
use super::{Quality, SceneReport};
use crate::args::DemoArgs;

/// The close-up shows this fraction of the photograph's width and height.
const CLOSE_UP: f64 = 0.3;

/// The whole page.
pub(super) fn page(results: &[(Scene, SceneReport)], args: &DemoArgs) -> Page {
    let sections = results.iter().map(|(scene, report)| match &scene.task {
        Task::Segmentation { .. } => segmentation(scene, report),
        Task::Stereo { .. } => stereo(scene, report),
    });
    let mut sections: Vec<Section> = sections.collect();
    sections.push(about());
    Page {
        title: "relaxcrf: dense CRF inference on two scenes".into(),
        lead: format!(
            "A dense CRF connects every pixel to every other and prefers equal labels where pixels are near and of similar \
             colour. It turns coarse, noisy labels into labels that follow the picture. Photograph, network output and \
             truth are generated (seed {}), so every pixel can be checked. Touch a picture to enlarge it.",
            args.common.seed
        ),
        sections,
    }
}

/// Energies and qualities, one row per method; the first row is without a CRF.
pub(super) fn table(scene: &Scene, report: &SceneReport) -> Sheet {
    let is_stereo = matches!(scene.task, Task::Stereo { .. });
    let quality_columns = if is_stereo {
        [("within 1", Best::Highest), ("mean error", Best::Lowest)]
    } else {
        [("accuracy", Best::Highest), ("mean IoU", Best::Highest)]
    };
    let mut columns = vec![("method", Best::None), ("energy", Best::Lowest), ("lower bound", Best::Highest)];
    columns.extend(quality_columns);
    columns.extend([("seconds", Best::None), ("ended by", Best::None)]);
    let mut sheet = Sheet::new(&columns);
    let quality = |q: &Quality| {
        let second = match q.mean_error {
            Some(error) => Cell::number(error, |v| format!("{v:.3}")),
            None => Cell::number(q.mean_iou, percent),
        };
        [Cell::number(q.accuracy, percent), second]
    };
    let start = &report.start;
    let name = if is_stereo { "cheapest match" } else { "network alone" };
    let mut row = vec![name.into(), Cell::number(start.energy, report::number), Cell::Empty];
    row.extend(quality(&start.quality));
    row.extend([Cell::Empty, Cell::Empty]);
    sheet.add(row);
    for run in &report.runs {
        let r = &run.report;
        let is_default = r.method == scene.task.default_method();
        let name = format!("{}{}", r.method, if is_default { " (default)" } else { "" });
        let mut row = vec![
            name.into(),
            Cell::number(r.energy, report::number),
            Cell::number(r.lower_bound, report::number),
        ];
        row.extend(quality(&run.quality));
        row.extend([Cell::number(r.seconds, |v| format!("{v:.2}")), r.status.clone().into()]);
        sheet.add(row);
    }
    sheet
}

fn segmentation(scene: &Scene, report: &SceneReport) -> Section {
    let mut section = Section::new("Segmentation: labels that follow the photograph");
    let Task::Segmentation { photo, palette, .. } = &scene.task else { return section };
    let Some(refined) = report.default_run(&scene.task) else { return section };
    let photo = Picture::photo(photo);
    let map = |l: &Labeling| Picture::labels(scene.size(), l.as_slice(), scene.model.labels(), palette);
    let [network, after, truth] = [&report.start.labels, &refined.labels, &scene.truth].map(map);
    let verdicts = verdicts(scene, &report.start.labels, &refined.labels);
    let percent_of = |of: (bool, bool)| {
        percent(verdicts.iter().filter(|v| **v == of).count() as f64 / verdicts.len().max(1) as f64)
    };
    let method = &refined.report.method;
    let (before, now) = (percent(report.start.quality.accuracy), percent(refined.quality.accuracy));
    section.blocks.push(Block::Text(format!(
        "The network sees blocks of pixels, so its borders are blurred, thin parts are lost, and some patches are plainly \
         wrong. The CRF moves borders to where the colours change. Colours: {}.",
        legend()
    )));
    section.blocks.push(Block::Pictures(vec![
        ("Photograph (generated)".into(), photo.clone()),
        (format!("Network alone, the most probable label of each pixel: {before} right"), network.clone()),
        (format!("Refined by {method}, the default: {now} right"), after.clone()),
        ("Truth".into(), truth),
    ]));
    let size = |n: usize| ((n as f64 * CLOSE_UP) as usize).clamp(1, n.max(1));
    let part = (size(photo.width), size(photo.height));
    let corner = most_improved(&verdicts, (photo.width, photo.height), part);
    section.blocks.push(Block::Pictures(vec![
        (
            format!(
                "What changed. Green: put right ({}). Red: made wrong ({}). Yellow: wrong before and after ({}). Grey: right \
                 before and after",
                percent_of((false, true)),
                percent_of((true, false)),
                percent_of((false, false))
            ),
            photo.changes(verdicts.iter().copied()),
        ),
        ("Close-up of the part that improved most: photograph".into(), photo.crop(corner, part)),
        ("The same part: network alone".into(), network.crop(corner, part)),
        (format!("The same part: refined by {method}"), after.crop(corner, part)),
    ]));
    section.blocks.push(Block::Table(table(scene, report)));
    section.blocks.push(Block::Text(findings(scene, report)));
    section
}

fn stereo(scene: &Scene, report: &SceneReport) -> Section {
    let mut section = Section::new("Stereo: depth from two pictures");
    let Task::Stereo { left, right } = &scene.task else { return section };
    let Some(refined) = report.default_run(&scene.task) else { return section };
    let map = |l: &Labeling| {
        let values: Vec<f32> = l.as_slice().iter().map(|&d| f32::from(d)).collect();
        // The ends of turbo are nearly black: leave them out.
        let last = (DISPARITIES - 1) as f32;
        Picture::numbers(scene.size(), &values, (-0.04 * last, 1.04 * last), ColourMap::Turbo)
    };
    let verdicts = verdicts(scene, &report.start.labels, &refined.labels);
    let picture = Picture::photo(left);
    let right_share = |q: &Quality| percent(q.accuracy);
    section.blocks.push(Block::Text(format!(
        "A disparity is how far a point moves between the left and the right picture: large for near things. Labels are the \
         disparities 0 to {}, shown from blue (far) to red (near). Matching each pixel by itself gives noise; the CRF makes \
         neighbours of similar colour agree. Its kernels were chosen for this scene. A disparity counts as right if it is at most 1 off.",
        DISPARITIES - 1
    )));
    section.blocks.push(Block::Pictures(vec![
        ("Left picture (generated)".into(), picture.clone()),
        ("Right picture (generated)".into(), Picture::photo(right)),
        (
            format!("Cheapest match of each pixel: {} right", right_share(&report.start.quality)),
            map(&report.start.labels),
        ),
        (
            format!(
                "Disparities by {}, the default: {} right",
                refined.report.method,
                right_share(&refined.quality)
            ),
            map(&refined.labels),
        ),
        ("Truth".into(), map(&scene.truth)),
        (
            "What changed. Green: put right. Red: made wrong. Yellow: wrong before and after".into(),
            picture.changes(verdicts.into_iter()),
        ),
    ]));
    section.blocks.push(Block::Table(table(scene, report)));
    section.blocks.push(Block::Text(findings(scene, report)));
    section
}

/// Explains the columns and the methods.
fn about() -> Section {
    let facts = [
        (
            "energy",
            "What the methods minimise: how little the labels fit the input, plus a price for each pair of near, \
                    similar pixels with different labels. Every pair counts twice, once from each end.",
        ),
        ("lower bound", "No labels can have a lower energy. A dash: the method gives no bound."),
        ("accuracy", "Fraction of the pixels with the true label."),
        ("mean IoU", "Intersection over union of each class with its truth, averaged over the classes."),
        ("mf5, mf10, mf", "Mean field: 5 updates, 10 updates, to convergence."),
        (
            "qp+dc-neg",
            "Convex relaxation with a lower bound, then a difference-of-convex descent from its solution.",
        ),
        ("graduated", "From the convex problem to the original one, step by step."),
        (
            "auto",
            "Chooses methods for the problem and returns the lowest energy seen; here it stops as soon as \
             the lower bound proves that the energy is within 0.5% (stereo: 2%) of the optimum.",
        ),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Section::new("What the columns and methods mean").with(Block::Facts(facts)).with(Block::Text(
        "The inputs lie beside this page: photo.png, probs.npy (network), truth.png; left.png, right.png, \
         disparity-truth.png. No method was stopped by a time limit."
            .into(),
    ))
}

/// Compares the lowest energy with the best labels, in words.
fn findings(scene: &Scene, report: &SceneReport) -> String {
    let runs = || report.runs.iter();
    let lowest = runs().min_by(|a, b| a.report.energy.total_cmp(&b.report.energy));
    let most_right = runs().max_by(|a, b| a.quality.accuracy.total_cmp(&b.quality.accuracy));
    let (Some(lowest), Some(most_right)) = (lowest, most_right) else { return String::new() };
    let shown = |q: &Quality| match q.mean_error {
        Some(error) => format!("{} within 1 of the truth, mean error {error:.3}", percent(q.accuracy)),
        None => format!("{} of the pixels right", percent(q.accuracy)),
    };
    let mut text = format!(
        "Lowest energy: {} ({}). Most pixels right: {} ({}). ",
        lowest.report.method,
        shown(&lowest.quality),
        most_right.report.method,
        shown(&most_right.quality)
    );
    if most_right.quality.accuracy > lowest.quality.accuracy {
        text += "Lower energy is not the same as better labels: it means that the model's own problem was solved better. ";
    } else {
        text += "Here lower energy comes with better labels; that is not always so. ";
    }
    text += "What the labels are worth depends on the input and on the kernels.";
    if let Some(best) = bound(report) {
        let gap = (lowest.report.energy - best) / lowest.report.energy.abs().max(f64::MIN_POSITIVE);
        text += &format!(
            " The lower bound proves that no {} can have an energy more than {} below the lowest one.",
            if matches!(scene.task, Task::Stereo { .. }) { "disparities" } else { "labels" },
            percent(gap.max(0.0))
        );
    }
    text
}

fn bound(report: &SceneReport) -> Option<f64> {
    report.runs.iter().filter_map(|run| run.report.lower_bound).max_by(f64::total_cmp)
}

/// Whether each pixel was right before, and whether it is right after.
fn verdicts(scene: &Scene, before: &Labeling, after: &Labeling) -> Vec<(bool, bool)> {
    let pairs = before.as_slice().iter().zip(after.as_slice()).zip(scene.truth.as_slice());
    pairs.map(|((&a, &b), &t)| (scene.is_right(a, t), scene.is_right(b, t))).collect()
}

/// Upper left pixel of the part of this size that gained most right pixels.
fn most_improved(
    verdicts: &[(bool, bool)],
    (width, height): (usize, usize),
    part: (usize, usize),
) -> (usize, usize) {
    // Sums over all pixels above and to the left of each corner.
    let mut sums = vec![0i64; (width + 1) * (height + 1)];
    for y in 0..height {
        for x in 0..width {
            let (before, after) = verdicts[y * width + x];
            let gain = i64::from(after) - i64::from(before);
            let at = |x: usize, y: usize| y * (width + 1) + x;
            sums[at(x + 1, y + 1)] = gain + sums[at(x, y + 1)] + sums[at(x + 1, y)] - sums[at(x, y)];
        }
    }
    let gain = |x: usize, y: usize| {
        let at = |x: usize, y: usize| sums[y * (width + 1) + x];
        at(x + part.0, y + part.1) - at(x, y + part.1) - at(x + part.0, y) + at(x, y)
    };
    let corners = (0..=height - part.1).flat_map(|y| (0..=width - part.0).map(move |x| (x, y)));
    corners.max_by_key(|&(x, y)| gain(x, y)).unwrap_or((0, 0))
}

/// The classes in words.
fn legend() -> String {
    let colours = ["light blue", "grey", "dark green", "light green", "dark blue", "red", "cream", "orange"];
    let named: Vec<String> =
        LANDSCAPE_LABELS.iter().zip(colours).map(|(class, colour)| format!("{class} {colour}")).collect();
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_up_lies_where_most_pixels_were_corrected() {
        let mut verdicts = vec![(true, true); 6 * 4];
        for at in [2 * 6 + 4, 2 * 6 + 5, 3 * 6 + 4, 3 * 6 + 5] {
            verdicts[at] = (false, true);
        }
        verdicts[0] = (true, false);
        assert_eq!(most_improved(&verdicts, (6, 4), (2, 2)), (4, 2));
        assert_eq!(most_improved(&verdicts, (6, 4), (6, 4)), (0, 0));
    }
}
