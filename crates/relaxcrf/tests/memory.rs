//! The estimates of memory against what is really allocated, for every method.

use std::time::Duration;

use peak_alloc::PeakAlloc;
use relaxcrf::memory::{KernelSize, Problem};
use relaxcrf::model::{FilterKind, Kernel, ModelBuilder};
use relaxcrf::solve::{METHODS, Pipeline, Settings, Solve};
use relaxcrf::{Beliefs, Labeling};
use relaxcrf_lab::synth::{self, SegmentationScene};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Bytes allocated on top of what was there, at the most, and what is left.
fn measured<T>(work: impl FnOnce() -> T) -> (T, u64, u64) {
    HEAP.reset_peak_usage();
    let before = HEAP.current_usage();
    let value = work();
    (value, (HEAP.peak_usage() - before) as u64, (HEAP.current_usage() - before) as u64)
}

struct Case {
    name: &'static str,
    scene: SegmentationScene,
    labels: usize,
    kernels: Vec<Kernel>,
    filter: FilterKind,
}

fn case(
    name: &'static str,
    size: (usize, usize),
    labels: usize,
    sigmas: [f32; 3],
    filter: FilterKind,
) -> Case {
    use relaxcrf::model::Features::{Bilateral, Position};
    let scene = synth::segmentation(size.0, size.1, labels, 5).unwrap();
    let image = scene.image.data.clone();
    let kernels = vec![
        Kernel { features: Position { sigma: vec![sigmas[0]] }, weight: 1.5 },
        Kernel {
            features: Bilateral { sigma: vec![sigmas[1]], image, sigma_color: vec![sigmas[2]] },
            weight: 5.0,
        },
    ];
    Case { name, scene, labels, kernels, filter }
}

/// The estimate, the measured peak of building, what the model keeps, and the measured peak of each run.
fn check(case: &Case, methods: &[&str]) {
    let (width, height) = (case.scene.image.width, case.scene.image.height);
    let sizes = [height, width];
    let kernels: Vec<KernelSize> =
        case.kernels.iter().map(|k| KernelSize::measure(k, &sizes, case.filter).unwrap()).collect();
    let problem = Problem {
        pixels: width * height,
        labels: case.labels,
        kernels: kernels.clone(),
        zero_diagonal: true,
    };
    let unary =
        relaxcrf::model::unary::from_probabilities(&case.scene.probabilities, case.labels, 1e-5).unwrap();
    let (model, peak, kept) = measured(|| {
        let builder =
            ModelBuilder::image(width, height, case.labels).unary(unary.clone()).filter(case.filter);
        case.kernels.iter().cloned().fold(builder, ModelBuilder::kernel).build().unwrap()
    });
    for (term, size) in model.pairwise().terms().iter().zip(&kernels) {
        assert_eq!(term.filter().fused().map(|l| l.size()), size.lattice, "{}", case.name);
    }
    let estimate = problem.estimate(&"unary".parse().unwrap());
    within(&format!("{}: building", case.name), estimate.building, peak, 2);
    within(&format!("{}: the model", case.name), estimate.model, kept, 2);
    for method in methods {
        let pipeline: Pipeline = method.parse().unwrap();
        // A step or two show it, but `auto` must come to all of its parts, and these to their views of some pixels.
        let with_views = ["smooth-lp", "prox-lp", "exact", "lp", "tree-lp"].contains(method);
        let time_limit = (*method != "auto" && !with_views).then_some(Duration::from_millis(300));
        let most = if with_views { 40 } else { 2 };
        let settings = Settings { max_iterations: Some(most), time_limit, ..Settings::default() };
        let run = |init: Option<Beliefs>| {
            measured(|| Solve::new(&model).method(&pipeline).init(init).settings(&settings).run())
        };
        if ["qp", "dc-neg", "graduated"].contains(method) {
            // One label for all: the others are left out of the work, and then come back.
            let one = Beliefs::from_labeling(&Labeling::constant(width * height, 0), case.labels);
            let (_, peak, _) = run(Some(one));
            assert!(problem.estimate(&pipeline).solving >= peak, "{method} from one label: {peak}");
        }
        let (result, peak, _) = run(None);
        if result.is_ok() {
            // What is asked for beforehand will do.
            let needed = problem.needed(&pipeline);
            assert!(needed >= peak, "{}: {method}: {needed} needed, {peak} used", case.name);
        }
        if result.is_ok() && *method == "auto" {
            // What it chooses is not known.
            let estimate = problem.estimate(&pipeline).solving;
            println!("{}: auto: {estimate} estimated, {peak} used", case.name);
            assert!(estimate >= peak, "{}: auto: {estimate} estimated, {peak} used", case.name);
        } else if result.is_ok() {
            let most = if with_views { 3 } else { 2 };
            within(&format!("{}: {method}", case.name), problem.estimate(&pipeline).solving, peak, most);
        }
    }
}

/// Never below what is used, and not far above.
fn within(what: &str, estimate: u64, used: u64, most: u64) {
    let ratio = estimate as f64 / used as f64;
    println!(
        "{what}: {:.2} MB estimated, {:.2} MB used, {ratio:.2}",
        estimate as f64 / 1e6,
        used as f64 / 1e6
    );
    assert!(ratio >= 1.0, "{what}: {estimate} estimated, {used} used");
    // The fixed part shows in problems as small as these.
    assert!(estimate <= most * used + (4 << 20), "{what}: {estimate} estimated, {used} used");
}

// One test, because the heap is everybody's.
#[test]
fn estimates_are_upper_bounds_within_a_factor_of_two() {
    let all: Vec<&str> = METHODS.iter().map(|m| m.name).chain(["qp+dc-neg", "qp:fw"]).collect();
    let usual = [3.0, 60.0, 13.0];
    check(&case("21 labels", (200, 150), 21, usual, FilterKind::Auto), &all);
    check(&case("2 labels", (240, 180), 2, usual, FilterKind::Auto), &all);
    check(&case("5 labels, many vertices", (200, 150), 5, [1.0, 10.0, 2.0], FilterKind::Auto), &all);
    check(&case("5 labels, a narrow kernel", (200, 150), 5, [0.8, 60.0, 13.0], FilterKind::Auto), &all);
    check(
        &case("3 labels, exact sums", (48, 40), 3, [3.0, 20.0, 13.0], FilterKind::Exact),
        &["mf", "qp", "lp"],
    );
}
