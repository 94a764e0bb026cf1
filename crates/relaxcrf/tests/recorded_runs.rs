//! What every method does on small problems, iteration by iteration, is what it did when it was recorded.
//!
//! The other tests say that results are right; this one, that they are still the same: a change of a step, a schedule or a
//! stopping rule shows here even where the answer stays a good one. If a change is meant, record anew and look at what
//! moved: `RELAXCRF_RECORD=yes cargo test --test recorded_runs`, then `git diff`. `RELAXCRF_RECORD=mf5,auto` records these
//! methods only.

mod common;

use std::fmt::Write as _;
use std::path::PathBuf;

use common::{Numbers, random_costs, random_model};
use relaxcrf::model::{Compatibility, FilterKind, Normalization};
use relaxcrf::solve::{Settings, Solution, Solve};
use relaxcrf::{Model, ModelBuilder};

/// Numbers may differ by this share of the problem's scale: other processors have other last digits.
const TOLERANCE: f64 = 1e-5;

/// Iterations that are recorded: the first ones, some of the others, and the last.
const FIRST: usize = 6;
const EVERY: usize = 5;

/// Runs of so many iterations go on when others would have converged.
const LONG: usize = 90;

/// Fewest lines of a run that are worth having.
const FEWEST: usize = 3;

/// Stripes of labels with noise; the right label leads by so much, where stripes meet hardly, and some labels are dear.
struct Stripes {
    size: [usize; 2],
    lead: f32,
    dear: usize,
    filter: FilterKind,
    normalization: Normalization,
}

const STRIPES: Stripes = Stripes {
    size: [20, 14],
    lead: 0.9,
    dear: 0,
    filter: FilterKind::Lattice,
    normalization: Normalization::Symmetric,
};

impl Stripes {
    fn with(self, costs: Compatibility, seed: u64) -> Model {
        let ([width, height], labels) = (self.size, costs.labels());
        let mut r = Numbers(seed);
        let (mut unary, mut image) = (Vec::new(), Vec::new());
        for a in 0..width * height {
            let (x, y) = ((a % width) as f32, (a / width) as f32);
            let place = (x + 0.3 * y) * (labels - self.dear) as f32 / (width as f32 + 0.3 * height as f32);
            let lead = if (place - place.round()).abs() < 0.12 { 0.1 } else { self.lead };
            unary.extend((0..labels).map(|i| {
                let aside = if i >= labels - self.dear { 1.5 } else { 0.0 };
                1.2 * r.next() + aside + if i == place as usize { 0.0 } else { lead }
            }));
            image.extend([60.0 * place.floor() + 25.0 * r.next(), 200.0 * r.next()]);
        }
        let strength = if self.normalization == Normalization::None { 0.05 } else { 1.0 };
        ModelBuilder::image(width, height, labels)
            .unary(unary)
            .gaussian(1.5, 0.5 * strength)
            .bilateral(image, 4.0, 40.0, strength)
            .compatibility(costs)
            .filter(self.filter)
            .normalization(self.normalization)
            .build()
            .unwrap()
    }
}

fn solution(model: &Model, method: &str, iterations: usize) -> Solution {
    // Those that are let run for long should not end before.
    let tolerance = (iterations >= LONG).then_some(1e-9);
    let max_iterations = Some(iterations);
    let settings = Settings { max_iterations, tolerance, evaluate_every: EVERY, ..Settings::default() };
    Solve::new(model).method_name(method).unwrap().settings(&settings).run().unwrap()
}

/// One recorded line: counts that must be equal, values that must be close.
struct Line {
    name: String,
    counts: Vec<usize>,
    values: Vec<Option<f64>>,
}

fn lines(method: &str, run: &Solution) -> Vec<Line> {
    let mut lines = Vec::new();
    for (k, p) in run.trace.iter().enumerate() {
        let last = run.trace.get(k + 1).is_none_or(|next| next.stage != p.stage);
        if p.iteration <= FIRST || p.iteration.is_multiple_of(EVERY) || last {
            lines.push(Line {
                name: format!("{method}\t{}.{}", p.stage, p.iteration),
                counts: vec![p.counts.filter, p.counts.ordered, p.counts.evaluations],
                values: vec![Some(p.objective), Some(p.energy), p.own_energy, p.lower_bound],
            });
        }
    }
    // Beliefs as a few sums in which every one counts differently.
    let sum = |step: f64| -> f64 {
        let weigh = |(k, &y): (usize, &f32)| f64::from(y) * (step * k as f64).sin();
        run.beliefs.as_slice().iter().enumerate().map(weigh).sum()
    };
    lines.push(Line {
        name: format!("{method}\tend"),
        counts: vec![run.counts.filter, run.counts.ordered, run.counts.evaluations],
        values: vec![
            Some(run.best.energy.total()),
            Some(run.final_energy.total()),
            Some(sum(0.7)),
            Some(sum(1.9)),
        ],
    });
    lines
}

impl Line {
    fn written(&self) -> String {
        let counts = self.counts.iter().map(usize::to_string);
        let values = self.values.iter().map(|v| v.map_or("-".to_string(), |v| format!("{v:.9e}")));
        format!("{}\t{}", self.name, counts.chain(values).collect::<Vec<_>>().join("\t"))
    }

    fn equals(&self, recorded: &str, scale: f64) -> bool {
        let now = self.written();
        let (then, now): (Vec<&str>, Vec<&str>) = (recorded.split('\t').collect(), now.split('\t').collect());
        let exact = 2 + self.counts.len();
        then.len() == now.len()
            && then[..exact] == now[..exact]
            && then[exact..].iter().zip(&now[exact..]).all(|(then, now)| {
                then == now
                    || match (then.parse::<f64>(), now.parse::<f64>()) {
                        (Ok(then), Ok(now)) => (then - now).abs() <= TOLERANCE * scale,
                        _ => false,
                    }
            })
    }
}

/// The lines up to the first that other runs, on problems that differ in last digits, do not agree with.
fn stable<'a>(lines: &'a [Line], others: &[Vec<Line>], scale: f64) -> &'a [Line] {
    let agreed = |k: usize, line: &Line| {
        others.iter().all(|other| other.get(k).is_some_and(|o| o.equals(&line.written(), scale)))
    };
    let count = lines.iter().enumerate().take_while(|(k, line)| agreed(*k, line)).count();
    &lines[..count]
}

/// Runs methods on a problem and compares with, or writes, the record of that name.
fn compare(name: &str, model: &Model, methods: &[(&str, usize)]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/{name}.tsv"));
    if let Ok(anew) = std::env::var("RELAXCRF_RECORD") {
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        let lines_of = |(method, iterations): &(&str, usize)| {
            if anew == "yes" || anew.split(',').any(|name| name == *method) {
                return record(model, &[(*method, *iterations)]);
            }
            let begins = format!("{method}\t");
            let kept = recorded.lines().filter(|l| l.starts_with(&begins));
            kept.map(|line| format!("{line}\n")).collect()
        };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, methods.iter().map(lines_of).collect::<String>()).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (method, iterations) in methods {
        let found = lines(method, &solution(model, method, *iterations));
        let begins = format!("{method}\t");
        let then: Vec<&str> = recorded.lines().filter(|l| l.starts_with(&begins)).collect();
        assert!(then.len() >= FEWEST, "{name}: there is no record of {method}");
        for (k, then) in then.into_iter().enumerate() {
            let now = found.get(k).map_or_else(String::new, Line::written);
            let same = found.get(k).is_some_and(|line| line.equals(then, model.scale()));
            assert!(same, "{name}: not what was recorded\n  then: {then}\n  now:  {now}");
        }
    }
}

fn record(model: &Model, methods: &[(&str, usize)]) -> String {
    let mut text = String::new();
    for (method, iterations) in methods {
        let mut r = Numbers(99);
        let mut nearly = || {
            let unary = model.unary().iter().map(|e| e * (1.0 + 1e-6 * (r.next() - 0.5))).collect();
            lines(method, &solution(&model.with_unary(unary).unwrap(), method, *iterations))
        };
        let others: Vec<Vec<Line>> = (0..8).map(|_| nearly()).collect();
        let found = lines(method, &solution(model, method, *iterations));
        // Half of the tolerance, so that the other half is left for other processors.
        let kept = stable(&found, &others, 0.5 * model.scale());
        eprintln!("{method}: {} of {} lines", kept.len(), found.len());
        assert!(kept.len() >= FEWEST, "{method} hangs on last digits");
        kept.iter().for_each(|line| {
            let _ = writeln!(text, "{}", line.written());
        });
    }
    text
}

const CONVEX: &[(&str, usize)] =
    &[("mf", 20), ("mf5", 5), ("qp", 25), ("qp:fw", 12), ("dc-gen", 12), ("qp+dc-gen", 8)];
const POTTS: &[(&str, usize)] =
    &[("dc-neg", 20), ("graduated:steps=12", 30), ("qp+dc-neg", 15), ("mf/qp+dc-neg", 10)];
const LINEAR: &[(&str, usize)] = &[
    ("lp:polyak", 25),
    ("lp:dc", 8),
    ("lp:paper-step", 8),
    ("prox-lp", 25),
    ("smooth-lp", 45),
    ("smooth-lp:cells=3", 20),
    ("tree-lp", 15),
    ("swap", 3),
];

fn methods(lists: &[&[(&'static str, usize)]]) -> Vec<(&'static str, usize)> {
    lists.concat()
}

#[test]
fn points() {
    let model = random_model(40, 4, 3, 0.06, FilterKind::Exact);
    compare("points", &model, &methods(&[CONVEX, POTTS, LINEAR, &[("expand", 3), ("auto", 30)]]));
}

#[test]
fn points_strongly_coupled() {
    let model = random_model(30, 5, 4, 0.4, FilterKind::Exact);
    compare("points_strongly_coupled", &model, &methods(&[CONVEX, POTTS, LINEAR, &[("mf5+expand", 3)]]));
}

#[test]
fn stripes_on_a_lattice() {
    let model = STRIPES.with(Compatibility::potts(3), 1);
    let more = [("smooth-lp", 90), ("prox-lp", 80), ("expand", 2), ("auto", 40)];
    compare("stripes_on_a_lattice", &model, &methods(&[CONVEX, POTTS, &more]));
}

/// Most pixels are soon certain: the LP goes on with the others.
#[test]
fn undecided_borders() {
    let borders = |labels: usize, lead: f32, seed: u64| {
        const WIDTH: usize = 32;
        let mut r = Numbers(seed);
        let (mut unary, mut features) = (Vec::new(), Vec::new());
        for a in 0..WIDTH * 24 {
            let (x, y) = ((a % WIDTH) as f32, (a / WIDTH) as f32);
            let place = (x + 0.3 * y) * labels as f32 / (WIDTH + 8) as f32;
            let lead = if (place - place.round()).abs() < 0.08 { 0.1 } else { lead };
            unary.extend((0..labels).map(|i| 1.2 * r.next() + if i == place as usize { 0.0 } else { lead }));
            features.extend([x / 4.0, y / 4.0, place.floor() + 0.4 * r.next()]);
        }
        let builder = ModelBuilder::points(WIDTH * 24, labels).unary(unary).features(features, 3, 0.8);
        builder.filter(FilterKind::Lattice).build().unwrap()
    };
    let methods = [("smooth-lp", LONG), ("smooth-lp:cells=15", LONG), ("prox-lp:lambda=3", LONG)];
    compare("undecided_borders", &borders(4, 2.0, 1), &methods);
    compare("undecided_borders_of_two", &borders(2, 1.0, 2), &methods);
}

#[test]
fn few_labels_of_many() {
    let model = Stripes { dear: 9, ..STRIPES }.with(Compatibility::potts(12), 2);
    let more = [("smooth-lp", 20), ("mf5+swap", 2), ("mf5+expand", 2), ("auto", 15)];
    compare("few_labels_of_many", &model, &methods(&[CONVEX, POTTS, &more]));
}

#[test]
fn two_labels() {
    let exact = Stripes { filter: FilterKind::Exact, normalization: Normalization::None, ..STRIPES };
    let model = exact.with(Compatibility::potts(2), 5);
    let more = [("exact", 80), ("expand", 2), ("auto", 60)];
    compare("two_labels", &model, &methods(&[CONVEX, POTTS, LINEAR, &more]));
}

#[test]
fn two_labels_strongly_coupled() {
    let model = random_model(70, 2, 12, 0.05, FilterKind::Exact);
    let more = [("exact", 80), ("expand", 2), ("auto", 60)];
    compare("two_labels_strongly_coupled", &model, &methods(&[CONVEX, POTTS, LINEAR, &more]));
}

#[test]
fn labels_on_a_line() {
    let costs = Compatibility::linear(5, Some(2.0)).unwrap();
    let model = STRIPES.with(costs, 6);
    compare("labels_on_a_line", &model, &methods(&[CONVEX, POTTS, LINEAR, &[("auto", 20)]]));
}

#[test]
fn costs_per_label() {
    let costs = Compatibility::per_label(vec![0.4, 1.0, 2.0]).unwrap();
    let model = STRIPES.with(costs, 7);
    compare("costs_per_label", &model, &methods(&[CONVEX, POTTS, LINEAR, &[("auto", 20)]]));
}

#[test]
fn costs_without_a_tree() {
    // Not conditionally negative, with costs of a label with itself.
    let matrix = vec![0.1, 1.0, 0.3, 2.0, 1.0, 0.0, 1.4, 0.2, 0.3, 1.4, 0.2, 1.0, 2.0, 0.2, 1.0, 0.0];
    let model = random_costs(30, Compatibility::matrix(4, matrix).unwrap(), 8, 0.1);
    compare("costs_without_a_tree", &model, &methods(&[CONVEX, &[("swap", 3), ("auto", 20)]]));
}

#[test]
fn costs_for_trees() {
    let place = [0.0f32, 0.9, 1.1, 2.0, 2.1];
    let cost = |i: usize, j: usize| (place[i] - place[j]).powi(2).min(2.0) + f32::from(i != j) * 0.2;
    let matrix = (0..25).map(|k| cost(k / 5, k % 5)).collect();
    let model = random_costs(30, Compatibility::matrix(5, matrix).unwrap(), 9, 0.1);
    compare("costs_for_trees", &model, &methods(&[CONVEX, &[("tree-lp", 30), ("swap", 3), ("auto", 20)]]));
}

#[test]
fn one_sided_normalisation() {
    let model = Stripes { normalization: Normalization::Before, ..STRIPES }.with(Compatibility::potts(3), 10);
    compare("one_sided_normalisation", &model, &methods(&[&[("mf", 20), ("mf5", 5), ("auto", 10)]]));
}
