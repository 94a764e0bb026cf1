use super::run::ManyLabels;
use super::*;
use relaxcrf_filter::{Blur, Direction, Lattice, Operator, Scaling, Workspace};

const SIDE: usize = 96;
const POINTS: usize = SIDE * SIDE;

/// A grid with a colour edge.
fn features() -> Vec<f32> {
    let row = |a: usize| {
        let (x, y) = ((a % SIDE) as f32, (a / SIDE) as f32);
        [x / 12.0, y / 12.0, if x + 0.5 * y > 60.0 { 3.0 } else { 0.0 } + (0.37 * a as f32).sin() * 0.3]
    };
    (0..POINTS).flat_map(row).collect()
}

/// Energies under which three labels have a region each and the others are about as unlikely as `others` says.
fn energies(labels: usize, others: f32) -> Vec<f32> {
    (0..POINTS * labels)
        .map(|i| {
            let (a, l) = (i / labels, i % labels);
            let region = [0, 2, labels - 1][3 * (a % SIDE) / SIDE];
            let noise = ((a * 31 + l * 17) as f32 * 0.613).sin();
            if l == region { 0.3 + 0.2 * noise } else { others + noise }
        })
        .collect()
}

/// With labels dropped wherever that is found to pay, and with all of them; and what was denied.
fn both(labels: usize, unary: Option<&[f32]>, gain: f32) -> (Vec<f32>, Vec<f32>, f32) {
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let scale: Vec<f32> = lattice.normalizer().iter().map(|n| 1.0 / n.sqrt()).collect();
    let scaling = Scaling { left: Some(&scale), right: Some(&scale), gain, add: false };
    let terms = vec![FusedTerm { operator: &lattice, scaling }];
    let updates = Updates { labels, points: POINTS, unary, terms };
    let (mut thinned, mut full) = (vec![0.0; POINTS * labels], vec![0.0; POINTS * labels]);
    let go = AtomicBool::new(false);
    let looks = if unary.is_some() { LOOKS } else { 0 };
    let denied = attempt(&updates, looks, 8, &mut thinned);
    attempt(&updates, 0, 8, &mut full);
    let run = updates.run(8, &go, &mut Tables::default());
    assert_eq!(run, if denied > NEGLIGIBLE { full.clone() } else { thinned.clone() });
    (thinned, full, denied)
}

/// Updates that are not repeated when a dropped label is denied too much. Returns how much.
fn attempt(problem: &Updates, looks: usize, iterations: usize, q: &mut [f32]) -> f32 {
    let mut tables = Tables::default();
    let mut many = ManyLabels::new(problem, looks).unwrap();
    many.start(problem, &mut tables);
    (1..iterations).for_each(|_| many.advance(problem, &mut tables));
    many.read(problem, &mut tables, q);
    many.denied.0
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn dropped_labels_do_not_change_the_result() {
    for labels in [9, 21, 45] {
        let unary = energies(labels, 7.0);
        let (thinned, full, denied) = both(labels, Some(&unary), 6.0);
        assert!(
            denied > 0.0 && denied <= NEGLIGIBLE,
            "{labels} labels: labels were dropped, {denied} denied"
        );
        // The bound is on logits; beliefs move by a quarter of it at most in one update.
        assert!(furthest(&thinned, &full) < NEGLIGIBLE, "{labels} labels: {}", furthest(&thinned, &full));
        for row in thinned.chunks_exact(labels) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn labels_that_matter_stay() {
    // No label is unlikely: nothing is dropped, so the bits are the same.
    let (thinned, full, denied) = both(12, None, 3.0);
    assert!(denied == 0.0 && thinned == full);
    let close: Vec<f32> = energies(12, 0.5);
    let (thinned, full, denied) = both(12, Some(&close), 1.0);
    assert!(denied > NEGLIGIBLE || furthest(&thinned, &full) < NEGLIGIBLE);
}

#[test]
fn forbidden_labels_stay_forbidden() {
    let labels = 12;
    let mut unary = energies(labels, 6.0);
    // Some pixels allow one label only, among those that are dropped or not; some forbid the likely one.
    for a in (0..POINTS).step_by(53) {
        unary[a * labels..][..labels].fill(f32::INFINITY);
        unary[a * labels + a % labels] = 1.0;
        unary[(a + 1) % POINTS * labels] = f32::INFINITY;
    }
    let (thinned, full, denied) = both(labels, Some(&unary), 4.0);
    if denied <= NEGLIGIBLE {
        assert!(furthest(&thinned, &full) < NEGLIGIBLE);
    }
    assert_eq!(full[5], 0.0);
    // A pixel without any possible label is undecided, as ever.
    unary[..labels].fill(f32::INFINITY);
    let (thinned, full, denied) = both(labels, Some(&unary), 4.0);
    assert!(denied == 0.0 && thinned == full);
    assert!(full[..labels].iter().all(|&v| (v - 1.0 / labels as f32).abs() < 1e-6));
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let unary = energies(21, 7.0);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| both(21, Some(&unary), 6.0).0)
    };
    let one = run(1);
    assert!(one == run(2) && one == run(5));
}

#[test]
fn vector_code_gives_the_bits_of_scalar_code() {
    use relaxcrf_filter::simd::without_vectors;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let unary = energies(21, 7.0);
    let run = |scalar: bool| {
        pool.install(|| {
            let result = || both(21, Some(&unary), 6.0).0;
            if scalar { without_vectors(result) } else { result() }
        })
    };
    assert!(run(false) == run(true));
}

#[test]
fn settled_points_stay_certain_while_messages_move_within_the_slack() {
    const LABELS: usize = 5;
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let terms = vec![FusedTerm { operator: &lattice, scaling: Scaling::NONE }];
    let problem = Updates { labels: LABELS, points: POINTS, unary: None, terms: terms.clone() };
    let sweep = FusedPass::new(terms, LABELS).unwrap();
    let stride = sweep.stride();
    let stage = Stage { sweep, kept: (0..LABELS).collect(), rest: None };
    let mut settled = 0;
    for case in 0..40 {
        // The points speak for label 3 more and more clearly; the last but one of them least.
        let count = 1 + case % 7;
        let message = |k: usize, l: usize| match l {
            3 => 5.0 + 0.3 * case as f32 + if k + 2 == count { 0.0 } else { 1.0 },
            _ => 0.2 * ((k + 3 * l) as f32).sin(),
        };
        let odds = |row: &[f32]| {
            let others = (0..LABELS).filter(|&l| l != 3).map(|l| row[l].exp());
            row[3] - others.sum::<f32>().ln()
        };
        let rows: Vec<f32> = (0..POINTS_PER_BLOCK * stride)
            .map(|i| if i % stride < LABELS { message(i / stride, i % stride) } else { 0.0 })
            .collect();
        let least = rows.chunks_exact(stride).take(count).map(odds).fold(f32::INFINITY, f32::min);
        let mut beliefs = rows.clone();
        let points = Block { first: 0, count, rows: &mut beliefs, stride };
        let (denied, settlement) = stage.update_and_settle(&problem, points);
        assert_eq!(denied.0, 0.0, "nothing was dropped");
        assert_eq!(settlement.is_some(), least > SETTLED, "odds {least}");
        let Some(ConvergedBlock { lane, value, change_budget }) = settlement else { continue };
        assert_eq!((lane, value), (3, 1.0));
        assert!(change_budget > 0.0, "settled for nothing");
        // Three moves use it up: the label's own, the others', and that of the rest. Odds much higher are not told so well.
        if least < 10.0 {
            assert!(
                (least - 3.0 * change_budget - CERTAIN).abs() < 0.02,
                "odds {least}, change_budget {change_budget}"
            );
        }
        // The worst that can happen: all messages move against the label.
        for row in rows.chunks_exact(stride).take(count) {
            let moved: Vec<f32> =
                (0..LABELS).map(|l| row[l] + if l == 3 { -change_budget } else { change_budget }).collect();
            assert!(odds(&moved) >= CERTAIN, "odds {} after moves of {change_budget}", odds(&moved));
        }
        settled += 1;
    }
    assert!(settled > 10 && settled < 40);
}

/// Messages to the lanes of a stage, one row per point.
fn messages(stage: &Stage, tables: &mut Tables) -> Vec<f32> {
    let lanes = stage.lanes();
    let mut out = vec![0.0; POINTS * lanes];
    stage.sweep.read::<f64>(&mut out, tables, |points, out| {
        for (to, row) in out.chunks_exact_mut(lanes).zip(points.rows.chunks_exact(points.stride)) {
            to.copy_from_slice(&row[..lanes]);
        }
        0.0
    });
    out
}

/// Beliefs under energies and the messages of some of the labels: the others are told nothing.
fn told(unary: &[f32], labels: usize, kept: &[usize], messages: &[f32], lanes: usize) -> Vec<f32> {
    let mut q = Vec::with_capacity(unary.len());
    for (phi, message) in unary.chunks_exact(labels).zip(messages.chunks_exact(lanes)) {
        let mut logits: Vec<f32> = phi.iter().map(|e| -e).collect();
        kept.iter().zip(message).for_each(|(&l, m)| logits[l] += m);
        let total: f32 = logits.iter().map(|v| v.exp()).sum();
        q.extend(logits.iter().map(|v| v.exp() / total));
    }
    q
}

/// Beliefs in the kept labels, and behind them the largest in any other.
fn with_rest(q: &[f32], labels: usize, kept: &[usize]) -> Vec<f32> {
    let row = |q: &[f32]| {
        let dropped = (0..labels).filter(|l| !kept.contains(l)).map(|l| q[l]).fold(0.0, f32::max);
        kept.iter().map(|&l| q[l]).chain([dropped]).collect::<Vec<_>>()
    };
    q.chunks_exact(labels).flat_map(row).collect()
}

/// Three passes with all labels, with seven and with three, each by the formula.
#[test]
fn what_dropped_labels_are_told_is_bounded_from_the_pass_on_in_which_they_are_dropped() {
    const LABELS: usize = 12;
    let unary = energies(LABELS, 4.0);
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let scale: Vec<f32> = lattice.normalizer().iter().map(|n| 1.0 / n.sqrt()).collect();
    let scaling = Scaling { left: Some(&scale), right: Some(&scale), gain: 3.0, add: false };
    let terms = vec![FusedTerm { operator: &lattice, scaling }];
    let problem = Updates { labels: LABELS, points: POINTS, unary: Some(&unary), terms: terms.clone() };
    let filtered = |rows: &[f32]| {
        let mut out = vec![0.0; rows.len()];
        let lanes = rows.len() / POINTS;
        lattice.apply(Direction::Forward, rows, lanes, scaling, &mut out, &mut Workspace::new());
        out
    };
    let largest_of_rest =
        |rows: &[f32], lanes: usize| rows.chunks_exact(lanes).map(|row| row[lanes - 1]).fold(0.0, f32::max);
    let sweep = |lanes| FusedPass::new(terms.clone(), lanes).unwrap();

    let mut tables = Tables::default();
    let all = Stage { sweep: sweep(LABELS), kept: (0..LABELS).collect(), rest: None };
    let q = told(&unary, LABELS, &[], &vec![0.0; POINTS], 1);
    all.sweep.start(&q, &mut tables);
    let q = told(&unary, LABELS, &all.kept, &filtered(&q), LABELS);

    let kept = vec![0, 2, 3, 5, 8, 9, LABELS - 1];
    let rest = all.lump(&problem, &kept, sweep(8).stride(), 3.0);
    let some = Stage { sweep: sweep(8), kept, rest };
    assert_eq!(all.change(&problem, &some, &mut tables).0, 0.0, "until now all labels were filtered");
    let want = filtered(&with_rest(&q, LABELS, &some.kept));
    let got = messages(&some, &mut tables);
    assert!(furthest(&got, &want) < 1e-4, "{}", furthest(&got, &want));
    let q = told(&unary, LABELS, &some.kept, &want, 8);

    let kept = vec![0, 2, LABELS - 1];
    let rest = some.lump(&problem, &kept, sweep(4).stride(), 3.0);
    let few = Stage { sweep: sweep(4), kept, rest };
    let denied = some.change(&problem, &few, &mut tables).0;
    let bound = largest_of_rest(&want, 8);
    assert!(bound > 0.0 && (denied - bound).abs() < 1e-4, "{denied} against {bound}");
    let want = filtered(&with_rest(&q, LABELS, &few.kept));
    let got = messages(&few, &mut tables);
    assert!(furthest(&got, &want) < 1e-4, "{}", furthest(&got, &want));

    let mut last = vec![0.0; POINTS * LABELS];
    let denied = few.finish(&problem, &all, &mut tables, &mut last).0;
    let bound = largest_of_rest(&want, 4);
    assert!((denied - bound).abs() < 1e-4, "{denied} against {bound}");
    let want = told(&unary, LABELS, &few.kept, &want, 4);
    assert!(furthest(&last, &want) < 1e-4, "{}", furthest(&last, &want));
    // None of the dropped labels would have been told more.
    let truth = filtered(&q);
    let dropped = (0..LABELS).filter(|l| !few.kept.contains(l));
    for l in dropped {
        assert!(truth.iter().skip(l).step_by(LABELS).all(|&m| m <= denied + 1e-4), "label {l}");
    }
}

/// A stage of all labels with the messages of `softmax(-φ)` in its tables.
fn first_stage<'a>(problem: &Updates<'a>, tables: &mut Tables) -> Stage<'a> {
    let sweep = FusedPass::new(problem.terms.clone(), problem.labels).unwrap();
    let all = Stage { sweep, kept: (0..problem.labels).collect(), rest: None };
    all.sweep.fill(tables, |points| {
        points.rows.fill(0.0);
        all.update(problem, points);
    });
    all
}

#[test]
fn labels_are_dropped_by_what_they_would_be_told() {
    const LABELS: usize = 24;
    // Alike everywhere, and every label less likely than the one before.
    let unary: Vec<f32> = (0..POINTS * LABELS).map(|i| 0.6 * (i % LABELS) as f32).collect();
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let scale: Vec<f32> = lattice.normalizer().iter().map(|n| 1.0 / n.sqrt()).collect();
    for gain in [0.5, 2.0, 4.0] {
        let scaling = Scaling { left: Some(&scale), right: Some(&scale), gain, add: false };
        let terms = vec![FusedTerm { operator: &lattice, scaling }];
        let problem = Updates { labels: LABELS, points: POINTS, unary: Some(&unary), terms };
        let mut tables = Tables::default();
        let all = first_stage(&problem, &mut tables);
        let next = all.without_negligible(&problem, &mut tables).expect("some labels are negligible");

        let told_first = messages(&all, &mut tables);
        let reach = told_first.chunks_exact(LABELS).map(|row| row.iter().sum::<f32>()).fold(0.0, f32::max);
        let q = told(&unary, LABELS, &all.kept, &told_first, LABELS);
        let mean = |near: &[f32], l: usize| near.iter().skip(l).step_by(LABELS).sum::<f32>() / NEAR as f32;
        for l in 0..LABELS {
            let most = q.chunks_exact(NEAR * LABELS).map(|near| mean(near, l)).fold(0.0, f32::max);
            let share = reach * most / (MARGIN * NEGLIGIBLE);
            assert!(!(0.9..1.1).contains(&share), "too close to tell from a sample: {share}");
            assert_eq!(next.kept.contains(&l), share > 1.0, "gain {gain}, label {l}: {share}");
        }
        assert!((next.rest.unwrap().reach - reach).abs() < 0.1 * reach);
    }
}

#[test]
fn labels_are_dropped_if_rows_are_shorter_without_them() {
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let terms = vec![FusedTerm { operator: &lattice, scaling: Scaling { gain: 1e-3, ..Scaling::NONE } }];
    // Labels, how many of them are likely, and whether the others are dropped. Rows hold the likely ones and the rest in
    // groups of eight; they have to be half as long or have two groups at most.
    let cases = [
        (12, 3, true),
        (12, 7, true),
        (12, 8, false),
        (16, 8, false),
        (24, 10, true),
        (24, 15, true),
        (24, 16, false),
        (45, 16, true),
        (45, 23, true),
        (45, 24, false),
        (45, 40, false),
    ];
    for (labels, likely, dropped) in cases {
        let unary: Vec<f32> =
            (0..POINTS * labels).map(|i| if i % labels < likely { 0.0 } else { 30.0 }).collect();
        let problem = Updates { labels, points: POINTS, unary: Some(&unary), terms: terms.clone() };
        let mut tables = Tables::default();
        let next = first_stage(&problem, &mut tables).without_negligible(&problem, &mut tables);
        assert_eq!(next.is_some(), dropped, "{likely} of {labels} labels are likely");
        if let Some(next) = next {
            assert_eq!(next.kept, (0..likely).collect::<Vec<_>>());
            assert_eq!(next.lanes(), likely + 1);
        }
    }
}

#[test]
fn what_the_sample_does_not_show_makes_the_run_start_over() {
    let labels = 21;
    let mut unary = energies(labels, 12.0);
    // A label that only the points of one block believe in, one that is not in the sample.
    for a in 5 * POINTS_PER_BLOCK..6 * POINTS_PER_BLOCK {
        unary[a * labels + 7] = -8.0;
    }
    let (thinned, full, denied) = both(labels, Some(&unary), 6.0);
    assert!(denied > NEGLIGIBLE, "the label was dropped, and the bound tells: {denied}");
    assert!(thinned != full);
}

/// The first updates of a run of eight in which the bound fails: passes, result, and the result with all labels.
fn repeated(iterations: usize) -> (usize, Vec<f32>, Vec<f32>) {
    let labels = 21;
    let mut unary = energies(labels, 12.0);
    for a in 5 * POINTS_PER_BLOCK..6 * POINTS_PER_BLOCK {
        unary[a * labels + 7] = -8.0;
    }
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let scale: Vec<f32> = lattice.normalizer().iter().map(|n| 1.0 / n.sqrt()).collect();
    let scaling = Scaling { left: Some(&scale), right: Some(&scale), gain: 6.0, add: false };
    let terms = vec![FusedTerm { operator: &lattice, scaling }];
    let problem = Updates { labels, points: POINTS, unary: Some(&unary), terms };
    let (mut q, mut full) = (vec![0.0; POINTS * labels], vec![0.0; POINTS * labels]);
    attempt(&problem, 0, iterations, &mut full);
    let mut run = Run::new(problem, 8, Tables::default()).unwrap();
    (0..iterations).for_each(|_| run.step());
    run.read(&mut q);
    (run.passes(), q, full)
}

#[test]
fn updates_are_repeated_with_all_labels_when_the_bound_fails_in_any_of_them() {
    for iterations in [1, 2, 3, 8] {
        let (passes, q, full) = repeated(iterations);
        assert!(q == full, "{iterations} updates");
        // The first update filters all labels. With the second the label is dropped, and the next pass shows that it
        // should not have been.
        let expected = if iterations == 1 { 1 } else { iterations + iterations.min(3) };
        assert_eq!(passes, expected, "{iterations} updates");
    }
}

#[test]
fn labels_dropped_one_after_the_other_are_as_if_dropped_at_once() {
    let labels = 45;
    let unary = energies(labels, 5.0);
    let lattice = Lattice::new(&features(), 3, Blur::Classic).unwrap();
    let terms = vec![FusedTerm { operator: &lattice, scaling: Scaling::NONE }];
    let problem = Updates { labels, points: POINTS, unary: Some(&unary), terms };
    let all = first_stage(&problem, &mut Tables::default());
    let without = |stage: &Stage, kept: &[usize]| {
        let sweep = FusedPass::new(problem.terms.clone(), kept.len() + 1).unwrap();
        stage.lump(&problem, kept, sweep.stride(), 1.0).unwrap()
    };
    let (some, few) = ((0..20).collect::<Vec<_>>(), [0, 2, 9]);
    let sweep = FusedPass::new(problem.terms.clone(), some.len() + 1).unwrap();
    let between = Stage { sweep, rest: Some(without(&all, &some)), kept: some };
    let (at_once, in_turn) = (without(&all, &few), without(&between, &few));
    let lanes = few.len() + 1;
    let stride = at_once.energies.len() / POINTS;
    for (a, b) in at_once.energies.chunks_exact(stride).zip(in_turn.energies.chunks_exact(stride)) {
        // Each relative to what was the smallest of its row: a lump may be smaller than all that is in it.
        let (a, b) = (a[..lanes].iter().map(|e| e - a[0]), b[..lanes].iter().map(|e| e - b[0]));
        assert!(
            a.clone().zip(b.clone()).all(|(a, b)| (a - b).abs() < 1e-4),
            "{:?}",
            a.zip(b).collect::<Vec<_>>()
        );
    }
    assert!(furthest(&at_once.shares, &in_turn.shares) < 1e-5);
}
