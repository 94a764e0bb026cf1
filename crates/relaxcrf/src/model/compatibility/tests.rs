use super::*;
use relaxcrf_filter::rng::Rng;

fn sums_of_cuts() -> Vec<Compatibility> {
    vec![
        Compatibility::potts(4),
        Compatibility::per_label(vec![1.0, 0.5, 2.0]).unwrap(),
        Compatibility::linear(6, None).unwrap(),
        Compatibility::linear(7, Some(2.0)).unwrap(),
        Compatibility::linear(7, Some(2.5)).unwrap(),
        Compatibility::linear(5, Some(0.5)).unwrap(),
        Compatibility::quadratic(7, Some(1.5)).unwrap(),
        Compatibility::linear(60, Some(20.5)).unwrap(),
        Compatibility::linear(7, Some(2.0)).unwrap().restrict(&[5, 0, 3]).unwrap(),
    ]
}

/// A random symmetric matrix with zero diagonal and entries from `low` to 1.
fn random(labels: usize, seed: u64, low: f32) -> Compatibility {
    let mut rng = Rng::new(seed);
    let mut entries = vec![0.0; labels * labels];
    for i in 0..labels {
        for j in 0..i {
            let cost = low + (1.0 - low) * rng.next_f64() as f32;
            (entries[i * labels + j], entries[j * labels + i]) = (cost, cost);
        }
    }
    Compatibility::matrix(labels, entries).unwrap()
}

fn others() -> Vec<Compatibility> {
    let mut all = vec![
        Compatibility::quadratic(9, None).unwrap(),
        Compatibility::quadratic(16, Some(4.0)).unwrap(),
        Compatibility::quadratic(60, Some(400.0)).unwrap(),
        Compatibility::matrix(3, vec![0.5, 1.0, 2.0, 1.0, 0.0, 0.3, 2.0, 0.3, 0.2]).unwrap(),
    ];
    all.extend((0..6).map(|seed| random(3 + 4 * seed as usize, seed, 0.0)));
    all.push(random(31, 7, 0.3));
    all
}

#[test]
fn cuts_add_up_to_the_costs() {
    for c in sums_of_cuts() {
        let sums = cuts::sums(c.labels(), &c.cuts().unwrap());
        for (k, sum) in sums.iter().enumerate() {
            let cost = c.cost(k / c.labels(), k % c.labels());
            assert!((sum - cost).abs() < 1e-4, "{:?} at {k}: {sum}", c.kind());
        }
        assert!(c.is_conditionally_negative(), "a sum of cuts is: {:?}", c.kind());
    }
}

#[test]
fn product_equals_sum_over_all_labels() {
    for c in sums_of_cuts().into_iter().chain(others()) {
        let row: Vec<f32> = (0..c.labels()).map(|i| ((i * i) as f32 * 0.37).sin() + 0.2).collect();
        let mut out = vec![f32::NAN; c.labels()];
        c.multiply(&row, &mut out);
        for (i, o) in out.iter().enumerate() {
            let terms = || row.iter().enumerate().map(|(j, v)| f64::from(c.cost(i, j) * v));
            let (expected, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            assert!((f64::from(*o) - expected).abs() < 1e-5 * size + 1e-6, "{:?} at {i}", c.kind());
        }
    }
}

#[test]
fn products_on_a_line_are_right_for_every_reach() {
    for labels in [1, 2, 3, 17, 18, 40, 140] {
        let row: Vec<f32> = (0..labels).map(|i| ((i * 7 % 5) as f32) - 1.5).collect();
        for truncation in [0.4, 1.0, 1.5, 3.0, 16.0, 16.5, 17.0, 39.0, 300.0, f32::INFINITY] {
            for squared in [false, true] {
                let costs = if squared { Compatibility::quadratic } else { Compatibility::linear };
                let c = costs(labels, Some(truncation)).unwrap();
                let mut out = vec![f32::NAN; labels];
                c.multiply(&row, &mut out);
                for (i, o) in out.iter().enumerate() {
                    let terms =
                        || row.iter().enumerate().map(|(j, v)| f64::from(c.cost(i, j)) * f64::from(*v));
                    let (expected, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                    let near = (f64::from(*o) - expected).abs() <= 1e-5 * size + 1e-6;
                    assert!(near, "{squared} {truncation}, {labels} labels, at {i}: {o} {expected}");
                }
            }
        }
    }
}

#[test]
fn largest_sum_of_cuts_stays_below_the_costs() {
    for c in others() {
        let below = c.cuts_below().unwrap();
        let mut covered = 0.0;
        for i in 0..c.labels() {
            for j in 0..c.labels() {
                let (less, cost) = (below.cost(i, j), c.cost(i, j));
                assert!(less <= cost + 1e-6, "{:?} at {i}, {j}: {less} above {cost}", c.kind());
                covered += f64::from(if i == j { 0.0 } else { less / cost });
            }
        }
        let pairs = (c.labels() * (c.labels() - 1)) as f64;
        println!("{} labels: {:.3} of the costs covered", c.labels(), covered / pairs);
        // One cut around every label with half of the least cost covers so much.
        let least = (0..c.labels() * c.labels()).filter(|k| k / c.labels() != k % c.labels());
        let least = least.map(|k| c.cost(k / c.labels(), k % c.labels())).fold(f32::INFINITY, f32::min);
        let floor: f64 = (0..c.labels() * c.labels())
            .filter(|k| k / c.labels() != k % c.labels())
            .map(|k| f64::from(least / c.cost(k / c.labels(), k % c.labels())))
            .sum();
        assert!(covered >= 0.999 * floor, "{covered} against {floor}");
    }
}

/// The packing problem over all sets of labels, by a solver of linear programs.
#[test]
fn largest_sum_of_cuts_equals_a_linear_program_over_all_sets() {
    for seed in 0..8 {
        let labels = 3 + seed as usize % 4;
        let c = random(labels, 50 + seed, 0.05);
        let pairs: Vec<(usize, usize)> = (0..labels).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
        let cost = |&(i, j): &(usize, usize)| f64::from(c.cost(i, j));
        let apart = |set: usize, &(i, j): &(usize, usize)| (set >> i ^ set >> j) & 1 == 1;
        let mut program = microlp::Problem::new(microlp::OptimizationDirection::Maximize);
        let sets: Vec<usize> = (1..1 << (labels - 1)).collect();
        let variables: Vec<microlp::Variable> = sets
            .iter()
            .map(|&s| {
                let benefit = pairs.iter().filter(|p| apart(s, p)).map(|p| 1.0 / cost(p)).sum();
                program.add_var(benefit, (0.0, f64::INFINITY))
            })
            .collect();
        for pair in &pairs {
            let terms: Vec<(microlp::Variable, f64)> = sets
                .iter()
                .zip(&variables)
                .filter(|(s, _)| apart(**s, pair))
                .map(|(_, v)| (*v, 1.0))
                .collect();
            program.add_constraint(&terms, microlp::ComparisonOp::Le, cost(pair));
        }
        let microlp::SolveOutcome::Solution(solution) = program.solve().unwrap() else {
            panic!("the program is solved");
        };
        let expected = solution.objective();
        let below = c.cuts_below().unwrap();
        let found: f64 = pairs.iter().map(|&(i, j)| f64::from(below.cost(i, j)) / cost(&(i, j))).sum();
        assert!((found - expected).abs() < 1e-4 * expected, "{labels} labels: {found} against {expected}");
    }
}

#[test]
fn sum_of_cuts_given_as_a_matrix_is_recovered() {
    for c in sums_of_cuts() {
        let entries = c.entries().into_iter().map(|e| e as f32).collect();
        let below = Compatibility::matrix(c.labels(), entries).unwrap().cuts_below().unwrap();
        for k in 0..c.labels() * c.labels() {
            let (i, j) = (k / c.labels(), k % c.labels());
            let (found, cost) = (below.cost(i, j), c.cost(i, j));
            assert!((found - cost).abs() <= 1e-4 * cost + 1e-6, "{:?} at {i}, {j}: {found}", c.kind());
        }
    }
}

#[test]
fn labels_that_cost_nothing_to_exchange_are_not_separated() {
    let c = Compatibility::matrix(3, vec![0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 2.0, 1.0, 0.0]).unwrap();
    let below = c.cuts_below().unwrap();
    assert_eq!(below.cost(0, 1), 0.0);
    assert!((below.cost(0, 2) - 1.0).abs() < 1e-4 && (below.cost(1, 2) - 1.0).abs() < 1e-4);
    let free = Compatibility::matrix(2, vec![0.0; 4]).unwrap().cuts_below().unwrap();
    assert_eq!(free.cost(0, 1), 0.0);
    let attracting = Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
    assert!(attracting.cuts_below().is_none(), "costs below 0");
}

#[test]
fn nearest_negative_costs_are_negative_and_nowhere_below() {
    for c in others() {
        let near = c.nearest_negative().unwrap();
        let (size, l) = (c.largest_cost(), c.labels());
        assert!(
            near.find_spectrum().largest <= 1e-4 * f64::from(size) * l as f64,
            "{:?}",
            near.find_spectrum()
        );
        assert!(near.is_conditionally_negative());
        for k in 0..l * l {
            let (found, cost) = (near.cost(k / l, k % l), c.cost(k / l, k % l));
            assert!(found >= cost - 1e-3 * size, "{found} below {cost}");
            assert!(k / l != k % l || (found - cost).abs() < 1e-3 * size);
        }
    }
    let line = Compatibility::linear(5, None).unwrap();
    assert_eq!(line.nearest_negative().unwrap(), line);
}

#[test]
fn refused_costs_are_described_by_what_is_wrong_with_them() {
    let c = Compatibility::quadratic(5, Some(9.0)).unwrap();
    assert_eq!(c.broken_triangle().map(|[i, j, k]| c.cost(i, k) > c.cost(i, j) + c.cost(j, k)), Some(true));
    assert!(Compatibility::linear(5, Some(2.0)).unwrap().broken_triangle().is_none());
    let odd = Compatibility::matrix(3, vec![0.0, 1.0, 3.5, 1.0, 0.0, 1.0, 3.5, 1.0, 0.0]).unwrap();
    assert_eq!(odd.broken_triangle(), Some([2, 1, 0]));
    let attracting = Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
    let why = attracting.why_not_negative();
    assert!(why.contains("is 1.000") && why.contains("labels 0 and 1 cost -1"), "{why}");
    let semi = random(8, 3, 0.0);
    assert!(semi.why_not_negative().contains("by way of label"), "{}", semi.why_not_negative());
    assert_eq!(Compatibility::potts(3).why_not_negative(), "");
}

#[test]
fn potts_spectrum_is_known() {
    let potts = Compatibility::potts(3);
    let same = Compatibility::matrix(3, vec![0., 1., 1., 1., 0., 1., 1., 1., 0.]).unwrap();
    assert!((same.concavity() - potts.concavity()).abs() < 1e-9);
    assert!((same.convexity() - potts.convexity()).abs() < 1e-9);
    // Rewarding different labels is the opposite of smoothing.
    let opposite = Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
    assert!(!opposite.is_conditionally_negative());
    assert!((opposite.convexity() - 1.0).abs() < 1e-9);
}

#[test]
fn bad_costs_are_refused() {
    assert!(Compatibility::matrix(2, vec![0.0, 1.0, 2.0, 0.0]).is_err());
    assert!(Compatibility::matrix(2, vec![0.0, f32::NAN, f32::NAN, 0.0]).is_err());
    assert!(Compatibility::matrix(2, vec![0.0; 3]).is_err());
    assert!(Compatibility::linear(3, Some(0.0)).is_err());
    assert!(Compatibility::quadratic(3, Some(-1.0)).is_err());
    assert!(Compatibility::per_label(vec![1.0, -1.0]).is_err());
    let cut = |labels: usize, weight: f32| Cut { inside: vec![true; labels], weight };
    assert!(Compatibility::sum_of_cuts(3, vec![cut(2, 1.0)]).is_err());
    assert!(Compatibility::sum_of_cuts(3, vec![cut(3, -1.0)]).is_err());
}

#[test]
fn tree_costs_are_lengths_of_paths() {
    // Labels 0 and 1 below node 7, that and label 2 below node 9.
    let edges = [(0, 7, 1.0), (1, 7, 2.0), (7, 9, 0.5), (2, 9, 4.0)];
    let c = Compatibility::tree(3, &edges).unwrap();
    for (i, j, length) in [(0, 1, 3.0), (0, 2, 5.5), (1, 2, 6.5), (2, 2, 0.0)] {
        assert!((c.cost(i, j) - length).abs() < 1e-6 && (c.cost(j, i) - length).abs() < 1e-6);
    }
    assert_eq!(c.cuts().unwrap().len(), edges.len());
    for (edges, why) in [
        (&[(0, 7, 1.0), (1, 7, 2.0)][..], "label 2 is in no edge"),
        (&[(0, 7, 1.0), (1, 7, 2.0), (2, 8, 1.0)], "no node above them both"),
        (&[(0, 7, 1.0), (1, 7, 2.0), (2, 7, -1.0)], "node 2 has length -1"),
        (&[(0, 7, 1.0), (0, 8, 2.0)], "node 0 has two parents"),
        (&[(0, 1, 1.0)], "label 1 has node 0 below it"),
        (&[(0, 7, 1.0), (7, 8, 1.0), (8, 7, 1.0)], "leads in a circle"),
    ] {
        let error = Compatibility::tree(3, edges).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
