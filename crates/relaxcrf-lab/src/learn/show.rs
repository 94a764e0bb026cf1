//! What was learned, as facts, as JSON and as a page.

use anyhow::Result;

use relaxcrf::solve::{Pipeline, Solve};
use relaxcrf_io::Palette;
use relaxcrf_learn::bootstrap::{Comparison, Measure};
use relaxcrf_learn::parameters::Parameters;
use serde_json::{Value, json};

use super::LearnedModel;
use crate::choice;
use crate::dataset::Dataset;
use crate::messages::Messages;
use crate::options::ModelOptions;
use crate::report::page::{Block, Page, Section};
use crate::report::picture::Picture;
use crate::report::plot::{Axis, Plot, Series};
use crate::report::sheet::{Best, Cell, Sheet};
use crate::specs::CompatSpec;

/// Images shown on the page.
const PICTURES: usize = 3;
/// Longest side of a picture on the page.
const PICTURE_SIDE: usize = 360;

fn points(c: &Comparison) -> String {
    let [low, high] = c.interval.map(|v| 100.0 * v);
    format!("{:+.2} ({low:+.2} to {high:+.2})", 100.0 * c.gain)
}

/// Names and values of the parameters.
fn parameters(p: &Parameters) -> Vec<(String, f64)> {
    let mut all = vec![("temperature".to_string(), p.temperature)];
    for (k, name) in p.kernels.iter().zip(["gaussian", "bilateral"]) {
        all.push((format!("{name} weight"), k.weight));
        let widths: &[&str] = if name == "gaussian" { &["sigma"] } else { &["sigma_xy", "sigma_rgb"] };
        all.extend(widths.iter().zip(&k.widths).map(|(w, &value)| (format!("{name} {w}"), value)));
    }
    all
}

impl LearnedModel {
    fn measure_name(&self) -> &'static str {
        match self.measure {
            Measure::MeanIou => "mean IoU",
            Measure::Accuracy => "accuracy",
        }
    }

    /// Names and values for a terminal.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let [network, start] = self.comparisons();
        let percent = |v: f64| format!("{:.2}", 100.0 * v);
        let mut facts = vec![(
            "left out",
            format!(
                "{} {}: network alone {}, preset {} {}",
                self.measure_name(),
                percent(start.values[1]),
                percent(network.values[0]),
                self.question.start,
                percent(start.values[0])
            ),
        )];
        facts.push((
            "gain",
            format!("{} over the preset, {} over the network (95 %)", points(&start), points(&network)),
        ));
        for v in &self.fit.verdicts {
            let verdict = if v.is_accepted { "freed" } else { "kept at the start" };
            facts.push((
                "part",
                format!("{}: {verdict}, {} on left-out images", v.part.name(), points(&v.comparison)),
            ));
        }
        let c = &self.calibration;
        facts.push((
            "network",
            format!(
                "calibration error {:.2} %, {:.2} % at temperature {:.2}",
                100.0 * c.errors[0],
                100.0 * c.errors[1],
                c.temperature
            ),
        ));
        let (before, after) = (parameters(&self.start), parameters(&self.fit.parameters));
        for ((name, before), (_, after)) in before.into_iter().zip(after).filter(|(b, a)| b.1 != a.1) {
            facts.push(("learned", format!("{name} {before:.4} -> {after:.4}")));
        }
        facts.push((
            "preset",
            format!("{}: use it with --preset {}", self.preset.name, self.output.display()),
        ));
        facts.push(("time", format!("{} images, {:.0} s", self.question.images.len(), self.seconds)));
        facts
    }

    /// Everything, for machines.
    pub fn as_json(&self) -> Value {
        let comparison = |c: &Comparison| json!({"before": c.values[0], "after": c.values[1], "interval": c.interval, "favourable": c.favourable});
        let [network, start] = self.comparisons();
        let parts: Vec<Value> = self
            .fit
            .verdicts
            .iter()
            .map(|v| json!({"part": v.part.name(), "accepted": v.is_accepted, "left_out": comparison(&v.comparison), "losses": v.losses}))
            .collect();
        let p = &self.fit.parameters;
        json!({
            "question": self.question,
            "measure": self.measure_name(),
            "against_network": comparison(&network),
            "against_start": comparison(&start),
            "parts": parts,
            "losses": self.fit.losses,
            "calibration": {"temperature": self.calibration.temperature, "error": self.calibration.errors, "log_loss": self.calibration.losses},
            "parameters": parameters(p).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "bias": p.bias,
            "label_costs": p.costs,
            "preset": self.output.display().to_string(),
            "seconds": self.seconds,
        })
    }

    /// The report.
    pub(super) fn page(&self, data: &Dataset, method: &Pipeline, messages: &Messages) -> Result<Page> {
        let facts = self.facts().into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        let mut verdicts = Sheet::new(&[
            ("part", Best::None),
            ("left-out images, percent", Best::None),
            ("gain (95 %)", Best::None),
            ("resamples in favour", Best::None),
            ("decision", Best::None),
        ]);
        for v in &self.fit.verdicts {
            verdicts.add(vec![
                v.part.name().into(),
                Cell::number(100.0 * v.comparison.values[1], |v| format!("{v:.2}")),
                points(&v.comparison).into(),
                Cell::number(100.0 * v.comparison.favourable, |v| format!("{v:.0} %")),
                if v.is_accepted { "freed" } else { "kept at the start" }.into(),
            ]);
        }
        let mut values =
            Sheet::new(&[("parameter", Best::None), ("before", Best::None), ("after", Best::None)]);
        let number = |v: f64| Cell::number(v, |v| format!("{v:.4}"));
        for ((name, before), (_, after)) in
            parameters(&self.start).into_iter().zip(parameters(&self.fit.parameters))
        {
            values.add(vec![name.into(), number(before), number(after)]);
        }
        let mut labels =
            Sheet::new(&[("label", Best::None), ("bias", Best::None), ("label cost", Best::None)]);
        let p = &self.fit.parameters;
        for (l, (&bias, &cost)) in p.bias.iter().zip(&p.costs).enumerate() {
            labels.add(vec![data.labels.name(l).into(), number(bias), number(cost)]);
        }
        let mut curves = Plot::new("Loss on all images", Axis::linear("step"), Axis::linear("loss"));
        let mut step = 0.0;
        for v in &self.fit.verdicts {
            let curve = v.losses.iter().enumerate().map(|(k, &loss)| (step + k as f64, loss)).collect();
            step += v.losses.len() as f64 - 1.0;
            curves = curves.with(Series::line(v.part.name(), curve));
        }
        let mut page = Page {
            title: format!("Learned: {}", self.preset.name),
            lead: format!(
                "Parameters of a dense CRF learned from {} images (split {}), for {} and loss {}. A part is freed only if \
                 models learned without an image label it better.",
                self.question.images.len(),
                self.question.split,
                self.question.method,
                self.question.loss
            ),
            sections: vec![
                Section::new("Result").with(Block::Facts(facts)),
                Section::new("Which parts were freed").with(Block::Table(verdicts)),
                Section::new("Learning curves").with(Block::Plots(vec![curves])),
                Section::new("Parameters").with(Block::Table(values)).with(Block::Table(labels)),
            ],
        };
        page.sections.push(self.pictures(data, method, messages)?);
        Ok(page)
    }

    fn pictures(&self, data: &Dataset, method: &Pipeline, messages: &Messages) -> Result<Section> {
        let none = ModelOptions {
            gaussian: Vec::new(),
            bilateral: Vec::new(),
            normalization: None,
            filter: method.preferred_filter(),
            compat: CompatSpec::Potts,
            calibrate: false,
            learned: None,
        };
        let options = choice::with_preset(&none, Some(&self.preset));
        let palette = Palette::voc();
        let mut section = Section::new("Pictures");
        for item in data.items.iter().take(PICTURES) {
            let model = item.model(&options, 0, messages)?;
            let truth = item.truth(&model)?;
            let solution = Solve::new(&model).method(method).run()?;
            let (image, _) = item.image_and_unary(messages)?;
            let size = (image.width, image.height);
            let small = |p: Picture| p.at_most(PICTURE_SIDE);
            let map = |labels: &[u16]| small(Picture::labels(size, labels, model.labels(), &palette));
            section = section.with(Block::Pictures(vec![
                (item.id.clone(), small(Picture::photo(&image))),
                ("unaries alone".into(), map(model.unary_argmin().as_slice())),
                ("learned".into(), map(solution.labeling.as_slice())),
                ("truth".into(), map(&truth)),
            ]));
        }
        Ok(section)
    }
}
