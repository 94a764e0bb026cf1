//! The same input gives the same bytes: for every method, any number of threads, and run to run.

mod common;

use common::{random_model, run};
use relaxcrf::model::FilterKind;
use relaxcrf::solve::{METHODS, Settings, Solution};

/// Everything in a solution that does not measure time.
fn bytes(solution: &Solution) -> Vec<u8> {
    let mut out: Vec<u8> = solution.labeling.as_slice().iter().flat_map(|l| l.to_le_bytes()).collect();
    out.extend(solution.beliefs.as_slice().iter().flat_map(|y| y.to_bits().to_le_bytes()));
    let mut number = |x: f64| out.extend(x.to_bits().to_le_bytes());
    number(solution.energy.unary);
    number(solution.energy.pairwise);
    number(solution.final_energy.total());
    number(solution.lower_bound.as_ref().map_or(f64::NEG_INFINITY, |b| b.value));
    for step in &solution.trace {
        number(step.objective);
        number(step.energy);
    }
    out
}

/// Builds the model and solves it on so many threads.
fn on_threads(threads: usize, labels: usize, method: &str) -> Vec<u8> {
    let settings = Settings { max_iterations: Some(12), ..Settings::default() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        // More than one band of points, and chunks that do not come out even.
        let model = random_model(2503, labels, 7, 0.05, FilterKind::Lattice);
        bytes(&run(&model, method, &settings))
    })
}

fn same_for_all(labels: usize, methods: impl Iterator<Item = &'static str>) {
    for method in methods {
        let expected = on_threads(1, labels, method);
        assert!(expected == on_threads(1, labels, method), "{method} differs from run to run");
        for threads in [2, 3, 8] {
            let same = expected == on_threads(threads, labels, method);
            assert!(same, "{method} on {threads} threads differs from one thread");
        }
    }
}

#[test]
fn two_labels() {
    same_for_all(2, METHODS.iter().map(|m| m.name));
}

#[test]
fn several_labels() {
    let chains = ["qp:fw", "mf+dc-neg", "mf/qp+dc-gen", "lp:dc", "lp:paper-step"];
    same_for_all(5, METHODS.iter().map(|m| m.name).filter(|m| *m != "exact").chain(chains));
}
