//! Directions along the simplex.

/// Subtracts the mean: the part of a row along which sums do not change.
pub(crate) fn centre(g: &mut [f32]) {
    let mean = (g.iter().map(|&x| f64::from(x)).sum::<f64>() / g.len() as f64) as f32;
    g.iter_mut().for_each(|x| *x -= mean);
}

/// Replaces a gradient row by the part of it that can be followed from `y` without leaving the simplex:
/// `-v` with v the nearest to `-g` of the directions that sum to zero and are not negative where `y` is zero.
///
/// With this in place of `g` step rules see only what is left to gain, which is little where most pixels have
/// made up their minds. It is as good as a subgradient for all points of the simplex.
pub(crate) fn feasible(g: &mut [f32], y: &[f32]) {
    // v_i = level - g_i where y_i > 0 and max(0, level - g_i) elsewhere, with Σ v = 0. The sum is convex and
    // rising in the level; Newton steps from above come down to its root, exactly after a few.
    let (mut used, mut count) = (0.0f64, 0usize);
    for (&g, &y) in g.iter().zip(y) {
        if y > 0.0 {
            used += f64::from(g);
            count += 1;
        }
    }
    if count == 0 {
        return centre(g);
    }
    let mut level = used / count as f64;
    loop {
        let (mut sum, mut number) = (used, count);
        for (&g, &y) in g.iter().zip(y) {
            if y <= 0.0 && f64::from(g) < level {
                sum += f64::from(g);
                number += 1;
            }
        }
        let next = sum / number as f64;
        if next >= level || next.is_nan() {
            break;
        }
        level = next;
    }
    for (g, &y) in g.iter_mut().zip(y) {
        let d = (f64::from(*g) - level) as f32;
        *g = if y > 0.0 { d } else { d.min(0.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::simplex;
    use proptest::prelude::*;

    #[test]
    fn known_directions() {
        // Inside: the centred gradient.
        let mut g = [1.0, 2.0, 6.0];
        feasible(&mut g, &[0.2, 0.3, 0.5]);
        assert_eq!(g, [-2.0, -1.0, 3.0]);
        // At a corner that is best already: nothing to follow.
        let mut g = [1.0, 2.0, 6.0];
        feasible(&mut g, &[1.0, 0.0, 0.0]);
        assert_eq!(g, [0.0, 0.0, 0.0]);
        // At the worst corner: the others gain, the corner loses.
        let mut g = [1.0, 2.0, 6.0];
        feasible(&mut g, &[0.0, 0.0, 1.0]);
        assert_eq!(g, [-2.0, -1.0, 3.0]);
    }

    #[test]
    fn centred_rows_sum_to_zero() {
        let mut g = [1.0, 2.0, 6.0];
        centre(&mut g);
        assert_eq!(g, [-2.0, -1.0, 3.0]);
        // No beliefs at all: any direction that keeps the sum.
        let mut g = [3.0, 5.0];
        feasible(&mut g, &[0.0, 0.0]);
        assert_eq!(g, [-1.0, 1.0]);
    }

    proptest! {
        /// A tiny projected step is the feasible part of the step.
        #[test]
        fn equals_the_limit_of_projected_steps(
            rows in prop::collection::vec((-2.0f32..2.0, prop_oneof![Just(0.0f32), 0.1f32..1.0]), 2..8),
        ) {
            let sum: f32 = rows.iter().map(|r| r.1).sum();
            prop_assume!(sum > 0.0);
            let y: Vec<f32> = rows.iter().map(|r| r.1 / sum).collect();
            let mut g: Vec<f32> = rows.iter().map(|r| r.0).collect();
            let step = 1e-3;
            let mut moved: Vec<f32> = y.iter().zip(&g).map(|(y, g)| y - step * g).collect();
            simplex::project(&mut moved);
            feasible(&mut g, &y);
            for ((m, y), g) in moved.iter().zip(&y).zip(&g) {
                prop_assert!(((m - y) / step + g).abs() < 2e-3, "{g} against {}", (m - y) / step);
            }
            prop_assert!(g.iter().sum::<f32>().abs() < 1e-4);
        }
    }
}
