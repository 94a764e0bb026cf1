//! Two labellings into one that takes the better label of both at every pixel, as far as plain filters find it.
//!
//! With b_a the share of the second labelling at pixel a, the energy without self pairs is a quadratic
//! function of b on a box. Conditional gradients with exact steps lower it, one filter call each; for costs
//! that make it concave they jump from corner to corner. From the middle of the box neither labelling is
//! favoured; from a corner the result cannot be worse than that labelling.

use crate::labeling::Labeling;
use crate::relaxation::quadratic::Quadratic;
use crate::solver::Context;
use relaxcrf_filter::reduce;

/// Most filter calls from one start.
const MOST_STEPS: usize = 15;

/// Steps that gain less than this share of the problem's scale end the search.
const MIN_SLOPE_FRACTION: f64 = 1e-8;

/// The best labelling found among those that take every pixel's label from `first` or `second`; `None` if
/// none is better than `first`, whose energy is given.
pub(crate) fn fuse(
    context: &mut Context,
    first: &Labeling,
    energy: f64,
    second: &Labeling,
) -> Option<(Labeling, f64)> {
    if first == second {
        return None;
    }
    let mut best = None;
    let mut lowest = energy;
    let mut offer = |context: &mut Context, x: Labeling| {
        let e = context.evaluate(&x).total();
        if e < lowest {
            (lowest, best) = (e, Some((x, e)));
        }
    };
    offer(context, second.clone());
    for share in [0.5, 0.0] {
        if !context.out_of_time() {
            let fused = descend(context, first, second, share);
            offer(context, fused);
        }
    }
    best
}

/// Conditional gradients from `share` of the second labelling everywhere, rounded.
fn descend(context: &mut Context, first: &Labeling, second: &Labeling, share: f32) -> Labeling {
    let model = context.model();
    let (labels, diagonal) = (model.labels(), model.pairwise().diagonal());
    let quadratic = Quadratic::new(model);
    let ends: Vec<(usize, usize)> = first
        .as_slice()
        .iter()
        .zip(second.as_slice())
        .map(|(&x, &f)| (usize::from(x), usize::from(f)))
        .collect();
    let mut b = vec![share; ends.len()];
    let mut y = mixed(&ends, &b, labels);
    let mut filtered = vec![0.0; y.len()];
    context.filter(&y, &mut filtered);
    let mut corner_filtered = filtered.clone();
    let mut gradient = vec![0.0; y.len()];

    for _ in 0..MOST_STEPS {
        let value = reduce::for_rows(&mut gradient, labels, |at, rows| {
            let row = |(k, g): (usize, &mut [f32])| {
                let span = (at + k) * labels..(at + k + 1) * labels;
                quadratic.gradient(at + k, &filtered[span.clone()], &y[span], diagonal[at + k], g).value()
            };
            rows.chunks_exact_mut(labels).enumerate().map(row).sum()
        });
        // The corner of the box that the gradient points to, and how steep the way there is.
        let mut corner = b.clone();
        let mut slope = 0.0;
        for (a, (c, &(x, f))) in corner.iter_mut().zip(&ends).enumerate() {
            let rise = gradient[a * labels + f] - gradient[a * labels + x];
            if rise != 0.0 {
                *c = f32::from(u8::from(rise < 0.0));
                slope += f64::from(rise) * f64::from(*c - b[a]);
            }
        }
        if slope >= -MIN_SLOPE_FRACTION * model.scale() || context.out_of_time() {
            break;
        }
        let corner_rows = mixed(&ends, &corner, labels);
        context.filter(&corner_rows, &mut corner_filtered);
        let there = quadratic.value(&corner_rows, &corner_filtered, diagonal);
        // A parabola through both ends with the slope at this one.
        let bend = there - value - slope;
        let step = if bend > 0.0 { (-0.5 * slope / bend).min(1.0) } else { 1.0 } as f32;
        let towards = |from: &mut [f32], to: &[f32]| {
            from.iter_mut()
                .zip(to)
                .for_each(|(v, &t)| *v = if step == 1.0 { t } else { *v + step * (t - *v) });
        };
        towards(&mut b, &corner);
        towards(&mut y, &corner_rows);
        towards(&mut filtered, &corner_filtered);
    }
    let pick = |(&b, &(x, f)): (&f32, &(usize, usize))| if b > 0.5 { f as u16 } else { x as u16 };
    Labeling::new(b.iter().zip(&ends).map(pick).collect())
}

/// Rows with `1 - b` of the first label and b of the second.
fn mixed(ends: &[(usize, usize)], b: &[f32], labels: usize) -> Vec<f32> {
    let mut rows = vec![0.0; ends.len() * labels];
    for ((row, &(x, f)), &b) in rows.chunks_exact_mut(labels).zip(ends).zip(b) {
        row[x] += 1.0 - b;
        row[f] += b;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy;
    use crate::model::{Compatibility, FilterKind, Model, ModelBuilder, Normalization};
    use crate::solver::Settings;
    use relaxcrf_filter::rng::Rng;
    use std::time::Instant;

    const POINTS: usize = 9;

    fn problem(costs: &Compatibility, seed: u64) -> (Model, Labeling, Labeling) {
        let mut rng = Rng::new(seed);
        let labels = costs.labels();
        let mut numbers = |n: usize| (0..n).map(|_| 2.0 * rng.next_f64() as f32).collect::<Vec<_>>();
        let model = ModelBuilder::points(POINTS, labels)
            .unary(numbers(POINTS * labels))
            .features(numbers(POINTS * 2), 2, 0.2)
            .compatibility(costs.clone())
            .filter(FilterKind::Exact)
            .normalization(Normalization::None)
            .build()
            .unwrap();
        let mut labelling = || Labeling::new((0..POINTS).map(|_| rng.below(labels) as u16).collect());
        (model, labelling(), labelling())
    }

    #[test]
    fn takes_the_better_of_both() {
        let odd = Compatibility::matrix(3, vec![0.0, 2.0, 0.2, 2.0, 0.0, 0.3, 0.2, 0.3, 0.0]).unwrap();
        let (mut found, mut trials) = (0, 0);
        for costs in [Compatibility::potts(3), Compatibility::linear(4, None).unwrap(), odd] {
            for seed in 0..20 {
                let (model, x, f) = problem(&costs, seed);
                let settings = Settings::default();
                let mut context = Context::new(&model, &settings, Instant::now());
                let of = |x: &Labeling| energy::of_labeling(&model, x).unwrap().total();
                let pick = |code: u32| {
                    let choice =
                        |a: usize| if code >> a & 1 == 1 { f.as_slice()[a] } else { x.as_slice()[a] };
                    Labeling::new((0..POINTS).map(choice).collect())
                };
                let optimum = (0..1 << POINTS).map(|c| of(&pick(c))).fold(f64::INFINITY, f64::min);
                let (best, e) = fuse(&mut context, &x, of(&x), &f).unwrap_or((x.clone(), of(&x)));
                assert!((of(&best) - e).abs() < 1e-9 && e <= of(&x) && e <= of(&f));
                assert!(
                    (0..POINTS).all(|a| [x.as_slice()[a], f.as_slice()[a]].contains(&best.as_slice()[a]))
                );
                found += usize::from(e <= optimum + 1e-6);
                trials += 1;
            }
        }
        assert!(found * 10 >= trials * 8, "the best mixture in {found} of {trials} trials");
    }

    #[test]
    fn equal_labellings_need_no_work() {
        let (model, x, _) = problem(&Compatibility::potts(2), 1);
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        assert!(fuse(&mut context, &x, 0.0, &x).is_none());
        assert_eq!(context.counts(), crate::solver::Counts::default());
    }
}
