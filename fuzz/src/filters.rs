//! Filters on any features and values: an error that says why, or a linear operator that keeps its promises.

use arbitrary::Unstructured;
use relaxcrf::filter::{
    Binned, Blur, Direction, Exact, Lattice, Operator, OrderedMode, Scaling, Separable, Workspace,
    binned_sums, ordered,
};

use super::numbers::{byte, number, numbers, one_of, up_to};

/// Features at the edges: far apart, equal, denormal, and such that no filter takes.
const FEATURES: [f32; 12] =
    [0.0, -0.0, 1.0, 1e-40, 1e-9, 1e4, -1e4, 1e9, 3e38, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];

const TOLERANCE: f64 = 1e-4;

fn apply(filter: &dyn Operator, direction: Direction, x: &[f32], channels: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; x.len()];
    filter.apply(direction, x, channels, Scaling::NONE, &mut out, &mut Workspace::new());
    out
}

fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

fn magnitude(x: &[f32]) -> Vec<f32> {
    x.iter().map(|v| v.abs()).collect()
}

/// Builds one of the filters, or none where the input does not suit it.
fn build(data: &mut Unstructured) -> Option<Box<dyn Operator>> {
    let kind = up_to(data, 3);
    if kind == 3 {
        let shape = [1 + up_to(data, 6), 1 + up_to(data, 6)];
        let sigmas = [number(data, &FEATURES), number(data, &FEATURES)];
        return Separable::new(&shape, &sigmas).ok().map(|f| Box::new(f) as _);
    }
    let (points, dims) = (1 + up_to(data, 19), one_of(data, &[1, 2, 3, 5, 6, 9, 32, 33]));
    let mut features = numbers(data, points * dims, &FEATURES);
    if byte(data) & 1 == 1 {
        // Otherwise hardly any set of points would be free of NaN.
        features.iter_mut().for_each(|f| *f = if f.abs() < 1e5 { *f } else { 2.5 });
    }
    match kind {
        0 => Lattice::new(&features, dims, Blur::Symmetric).ok().map(|f| Box::new(f) as _),
        1 => Lattice::new(&features, dims, Blur::Classic).ok().map(|f| Box::new(f) as _),
        _ => Exact::new(features, dims).ok().map(|f| Box::new(f) as _),
    }
}

/// Linear, non-negative, with the adjoint it claims, and the same by every way to apply it.
pub fn contract(data: &[u8]) {
    let mut data = Unstructured::new(data);
    let Some(filter) = build(&mut data) else { return };
    let (filter, n) = (&*filter, filter.points());
    let sums = filter.normalizer();
    assert!(sums.iter().all(|s| s.is_finite() && *s >= 0.0), "row sums {sums:?}");
    let diagonal = filter.diagonal();
    assert!(diagonal.iter().all(|d| d.is_finite() && *d >= 0.0), "diagonal {diagonal:?}");

    let values = |data: &mut Unstructured, count: usize| -> Vec<f32> {
        let odd = [0.0, 1.0, -1.0, 1e-40, 1e9];
        numbers(data, count, &odd).into_iter().map(|v| if v.abs() <= 1e9 { v } else { 0.5 }).collect()
    };
    let (u, v) = (values(&mut data, n), values(&mut data, n));
    let (ku, kv) = (apply(filter, Direction::Forward, &u, 1), apply(filter, Direction::Forward, &v, 1));
    assert!(ku.iter().chain(&kv).all(|x| x.is_finite()));
    let positive = apply(filter, Direction::Forward, &magnitude(&v), 1);
    assert!(positive.iter().all(|&x| x >= 0.0), "{positive:?}");

    // Below this, products leave the range in which single precision keeps its digits.
    let size = dot(&magnitude(&u), &positive).max(1e-25);
    let back = dot(&apply(filter, Direction::Transposed, &u, 1), &v);
    assert!((dot(&u, &kv) - back).abs() <= TOLERANCE * size, "adjoint: {} {back} ({size})", dot(&u, &kv));
    if filter.is_symmetric() {
        let there = dot(&ku, &v);
        assert!((dot(&u, &kv) - there).abs() <= TOLERANCE * size, "symmetry: {} {there}", dot(&u, &kv));
    }

    // Two channels are two single ones.
    let both: Vec<f32> = u.iter().zip(&v).flat_map(|(a, b)| [*a, *b]).collect();
    let together = apply(filter, Direction::Forward, &both, 2);
    let bound = |a: usize, value: f32, x: &[f32]| {
        let most = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        1e-5 * (value.abs() + most * (sums[a] + diagonal[a])) + f32::MIN_POSITIVE
    };
    for a in 0..n {
        assert!((together[2 * a] - ku[a]).abs() <= bound(a, ku[a], &u), "point {a}: {together:?} {ku:?}");
        assert!((together[2 * a + 1] - kv[a]).abs() <= bound(a, kv[a], &v), "point {a}: {together:?} {kv:?}");
    }

    // Bins are indicators.
    let bins: Vec<u16> = (0..n).map(|_| u16::from(byte(&mut data) % 3)).collect();
    let table = values(&mut data, 9);
    let mut binned = vec![f32::NAN; n];
    binned_sums(
        filter,
        Binned { bins: &bins, count: 3, table: &table },
        Scaling::NONE,
        &mut binned,
        &mut Workspace::new(),
    );
    let indicator: Vec<f32> = bins.iter().flat_map(|&b| (0..3).map(move |k| f32::from(b == k))).collect();
    let parts = apply(filter, Direction::Forward, &indicator, 3);
    for a in 0..n {
        let weights = &table[3 * usize::from(bins[a])..][..3];
        let expected: f32 = parts[3 * a..][..3].iter().zip(weights).map(|(p, w)| p * w).sum();
        assert!(
            (binned[a] - expected).abs() <= 10.0 * bound(a, expected, weights),
            "{} {expected}",
            binned[a]
        );
    }

    // Contributions of the ordered filter cancel, whatever the way.
    let unit: Vec<f32> = (0..n).map(|_| f32::from(byte(&mut data)) / 255.0).collect();
    let total: f64 = sums.iter().map(|&s| f64::from(s)).sum();
    for mode in
        [OrderedMode::Exact, OrderedMode::Binned { bins: 4 }, OrderedMode::DivideAndConquer { leaf: 2 }]
    {
        let mut z = vec![f32::NAN; n];
        ordered(filter, &unit, 1, mode, Scaling::NONE, &mut z, &mut Workspace::new());
        let sum: f64 = z.iter().map(|&x| f64::from(x)).sum();
        assert!(
            sum.is_finite() && (!filter.is_symmetric() || sum.abs() <= TOLERANCE * total),
            "{mode:?} {sum}"
        );
    }
}
