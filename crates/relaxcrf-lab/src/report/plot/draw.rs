//! The drawing itself.

use std::fmt::Write;

use super::axis::{Ruler, short};
use super::{COLOURS, Plot, Series};
use crate::report::page::escape;

/// Size of the text and what a character of it takes, in pixels.
const TEXT: f64 = 12.0;
const CHARACTER: f64 = 6.7;
const LINE: f64 = 18.0;

/// Longest path that is worth drawing: more points than pixels show nothing more.
const MAX_POINTS: usize = 2000;

/// The whole drawing; `style` goes before it.
pub fn svg(plot: &Plot, width: f64, style: &str) -> String {
    let legend = Legend::lay_out(plot, width - 16.0);
    let points = || plot.series.iter().flat_map(|s| s.shown(plot));
    let heights = points().map(|p| p.1).chain(plot.rules.iter().map(|r| r.value));
    let (top, bottom, right) = (30.0, 42.0, 14.0);
    let tall = (0.5 * width).clamp(200.0, 340.0);
    let y = Ruler::new(&plot.y, heights, tall);
    let y_ticks = y.ticks(5);
    let widest = y_ticks.iter().map(|t| short(*t).len()).max().unwrap_or(1) as f64;
    let left = 34.0 + widest * CHARACTER;
    let broad = (width - left - right).max(50.0);
    let x = Ruler::new(&plot.x, points().map(|p| p.0), broad);

    let mut out = String::new();
    let height = top + tall + bottom + legend.height();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui,sans-serif\" font-size=\"{TEXT}\" fill=\"none\">\
         <title>{title}</title>{style}\
         <text x=\"{left:.1}\" y=\"18\" font-weight=\"600\" fill=\"currentColor\">{title}</text>",
        title = escape(&plot.title),
    );
    axes(&mut out, plot, (&x, &y), &y_ticks, (left, top), (broad, tall));

    // Coordinates of the curves count from the axes.
    let _ = write!(
        out,
        "<svg x=\"{left:.1}\" y=\"{top}\" width=\"{broad:.1}\" height=\"{tall:.1}\" overflow=\"hidden\">"
    );
    for rule in plot.rules.iter().filter(|r| plot.y.scale.takes(r.value)) {
        let at = tall - y.place(rule.value);
        let _ = write!(
            out,
            "<path class=\"rule\" d=\"M0 {at:.1}H{broad:.1}\" stroke=\"currentColor\" stroke-dasharray=\"5 4\"/>"
        );
    }
    for (k, series) in plot.series.iter().enumerate() {
        curve(&mut out, plot, series, k, (&x, &y), tall);
    }
    out.push_str("</svg>");
    legend.draw(&mut out, (8.0, top + tall + bottom));
    out.push_str("</svg>");
    out
}

fn axes(
    out: &mut String,
    plot: &Plot,
    (x, y): (&Ruler, &Ruler),
    y_ticks: &[f64],
    (left, top): (f64, f64),
    (broad, tall): (f64, f64),
) {
    let _ = write!(out, "<g stroke=\"currentColor\" stroke-opacity=\".18\">");
    let ticks = (broad / 75.0).round() as usize;
    let mut free = f64::NEG_INFINITY;
    let mut labels = String::new();
    for tick in x.ticks(ticks) {
        let at = left + x.place(tick);
        let _ = write!(out, "<path d=\"M{at:.1} {top}v{tall:.1}\"/>");
        let text = short(tick);
        let half = 0.5 * CHARACTER * text.len() as f64;
        // Labels that would run into the one before are left out.
        if at - half > free && at + half < left + broad + 14.0 {
            let _ = write!(labels, "<text x=\"{at:.1}\" y=\"{:.1}\">{text}</text>", top + tall + 16.0);
            free = at + half + 4.0;
        }
    }
    let mut sides = String::new();
    for &tick in y_ticks {
        let at = top + tall - y.place(tick);
        let _ = write!(out, "<path d=\"M{left:.1} {at:.1}h{broad:.1}\"/>");
        let _ = write!(sides, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", left - 6.0, at + 4.0, short(tick));
    }
    let _ = write!(
        out,
        "</g><path d=\"M{left:.1} {top}v{tall:.1}h{broad:.1}\" stroke=\"currentColor\" stroke-opacity=\".6\"/>\
         <g fill=\"currentColor\" text-anchor=\"middle\">{labels}<text x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text transform=\"translate(13 {:.1}) rotate(-90)\">{}</text></g>\
         <g fill=\"currentColor\" text-anchor=\"end\">{sides}</g>",
        left + 0.5 * broad,
        top + tall + 34.0,
        escape(&plot.x.label),
        top + 0.5 * tall,
        escape(&plot.y.label),
    );
}

fn curve(out: &mut String, plot: &Plot, series: &Series, k: usize, (x, y): (&Ruler, &Ruler), tall: f64) {
    let all: Vec<(f64, f64)> = series.shown(plot).collect();
    let every = all.len().div_ceil(MAX_POINTS).max(1);
    let last = all.len().saturating_sub(1);
    let thinned = all.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last).map(|(_, p)| p);
    let places: Vec<(f64, f64)> = thinned.map(|p| (x.place(p.0), tall - y.place(p.1))).collect();
    let Some((first, rest)) = places.split_first() else { return };
    let number = series.colour.unwrap_or(k);
    let colour = COLOURS[number % COLOURS.len()];
    let mut path = format!("M{:.1} {:.1}", first.0, first.1);
    for p in rest.iter().filter(|_| series.joined) {
        let _ = write!(path, "L{:.1} {:.1}", p.0, p.1);
    }
    let _ = write!(
        out,
        "<path class=\"curve\" d=\"{path}\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"/>"
    );
    let marked = if series.all_marks { &places[..] } else { &places[places.len() - 1..] };
    for (i, p) in marked.iter().enumerate() {
        let value = if series.all_marks && every == 1 { all[i] } else { all[last] };
        let title = format!("{}: {}, {}", series.name, short(value.0), short(value.1));
        let _ = write!(out, "<g fill=\"{colour}\">{}<title>{}</title></g>", mark(number, *p), escape(&title));
    }
}

/// A small shape round a place: five of them, so that colour is not all that tells series apart.
fn mark(number: usize, (x, y): (f64, f64)) -> String {
    match number % 5 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"),
        1 => format!("<path d=\"M{:.1} {:.1}h6.4v6.4h-6.4z\"/>", x - 3.2, y - 3.2),
        2 => format!("<path d=\"M{x:.1} {:.1}l4.2 7.4h-8.4z\"/>", y - 4.6),
        3 => format!("<path d=\"M{x:.1} {:.1}l4.6 4.6l-4.6 4.6l-4.6 -4.6z\"/>", y - 4.6),
        _ => format!("<path d=\"M{x:.1} {:.1}l-4.2 -7.4h8.4z\"/>", y + 4.6),
    }
}

/// Names in rows as wide as the drawing.
struct Legend {
    rows: Vec<Vec<(String, Sample, f64)>>,
}

/// What stands before a name.
#[derive(Clone, Copy)]
enum Sample {
    Curve(usize),
    Rule,
}

impl Legend {
    fn lay_out(plot: &Plot, width: f64) -> Self {
        let curves = plot.series.iter().enumerate().filter(|(_, s)| s.shown(plot).next().is_some());
        let names = curves
            .map(|(k, s)| (s.name.clone(), Sample::Curve(s.colour.unwrap_or(k))))
            .chain(plot.rules.iter().map(|r| (r.name.clone(), Sample::Rule)));
        let mut rows: Vec<Vec<_>> = Vec::new();
        let mut used = f64::INFINITY;
        for (name, sample) in names {
            let takes = 40.0 + CHARACTER * name.chars().count() as f64;
            if used + takes > width {
                rows.push(Vec::new());
                used = 0.0;
            }
            if let Some(row) = rows.last_mut() {
                row.push((name, sample, used));
            }
            used += takes;
        }
        Self { rows }
    }

    fn height(&self) -> f64 {
        LINE * self.rows.len() as f64 + 6.0
    }

    fn draw(&self, out: &mut String, (left, top): (f64, f64)) {
        for (k, row) in self.rows.iter().enumerate() {
            let y = top + LINE * (k as f64 + 0.5);
            for (name, sample, at) in row {
                let x = left + at;
                let _ = match sample {
                    Sample::Curve(number) => write!(
                        out,
                        "<g fill=\"{c}\"><path d=\"M{x:.1} {y:.1}h20\" stroke=\"{c}\" stroke-width=\"1.8\"/>{}</g>",
                        mark(*number, (x + 10.0, y)),
                        c = COLOURS[number % COLOURS.len()]
                    ),
                    Sample::Rule => write!(
                        out,
                        "<path d=\"M{x:.1} {y:.1}h20\" stroke=\"currentColor\" stroke-dasharray=\"5 4\"/>"
                    ),
                };
                let _ = write!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"currentColor\">{}</text>",
                    x + 25.0,
                    y + 4.0,
                    escape(name)
                );
            }
        }
    }
}
