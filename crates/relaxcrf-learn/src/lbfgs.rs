//! Minimisation of smooth functions of a few variables: limited-memory BFGS with a backtracking line search.

use std::collections::VecDeque;

/// Steps whose curvature is remembered.
const MEMORY: usize = 8;
/// Decrease that a step must reach, as a fraction of what the slope promises.
const SUFFICIENT_DECREASE: f64 = 1e-4;
/// Shortest step that is tried, as a fraction of the full one.
const SMALLEST_STEP: f64 = 1e-3;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most accepted steps.
    pub steps: usize,
    /// Most evaluations of the function.
    pub evaluations: usize,
    /// Stop when a step lowers the value by less than this.
    pub tolerance: f64,
    /// Longest first step, and longest change of a variable in any step.
    pub max_change: f64,
}

/// A value of the function with its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The value.
    pub value: f64,
    /// One number per variable.
    pub gradient: Vec<f64>,
}

/// Where a minimisation arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Minimum {
    /// The variables.
    pub at: Vec<f64>,
    /// The function's value there.
    pub value: f64,
    /// The value after every accepted step, the first one before any.
    pub values: Vec<f64>,
}

/// Minimises a function from `start`. Never returns a point with a higher value than that of the start.
pub fn minimize<E>(
    start: &[f64],
    limits: Limits,
    mut function: impl FnMut(&[f64]) -> Result<Evaluation, E>,
) -> Result<Minimum, E> {
    let mut at = start.to_vec();
    let mut current = function(&at)?;
    let mut evaluations = 1;
    let mut values = vec![current.value];
    let mut pairs: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    'steps: for _ in 0..limits.steps {
        let mut direction = direction(&current.gradient, &pairs);
        let mut slope = dot(&direction, &current.gradient);
        if slope >= 0.0 {
            direction = current.gradient.iter().map(|g| -g).collect();
            slope = dot(&direction, &current.gradient);
            pairs.clear();
        }
        let longest = direction.iter().fold(0.0f64, |m, d| m.max(d.abs()));
        if longest == 0.0 || !longest.is_finite() {
            break;
        }
        let scale = limits.max_change / longest;
        // Nothing is known about the scale before the first step.
        let first = if pairs.is_empty() { scale } else { scale.min(1.0) };
        let mut step = first;
        loop {
            if evaluations >= limits.evaluations || step < SMALLEST_STEP * first {
                break 'steps;
            }
            let next: Vec<f64> = at.iter().zip(&direction).map(|(x, d)| x + step * d).collect();
            let found = function(&next)?;
            evaluations += 1;
            if found.value <= current.value + SUFFICIENT_DECREASE * step * slope {
                let moved: Vec<f64> = next.iter().zip(&at).map(|(a, b)| a - b).collect();
                let turned: Vec<f64> =
                    found.gradient.iter().zip(&current.gradient).map(|(a, b)| a - b).collect();
                if dot(&moved, &turned) > 1e-12 * dot(&turned, &turned) {
                    if pairs.len() == MEMORY {
                        pairs.pop_front();
                    }
                    pairs.push_back((moved, turned));
                }
                let gain = current.value - found.value;
                at = next;
                current = found;
                values.push(current.value);
                if gain < limits.tolerance {
                    break 'steps;
                }
                break;
            }
            // The minimum of the parabola through what is known, within bounds.
            let excess = found.value - current.value - step * slope;
            let parabola =
                if excess.is_finite() && excess > 0.0 { -slope * step * step / (2.0 * excess) } else { 0.0 };
            step = parabola.clamp(0.1 * step, 0.5 * step);
        }
    }
    Ok(Minimum { at, value: current.value, values })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Minus the inverse Hessian, as far as the pairs tell it, times the gradient.
fn direction(gradient: &[f64], pairs: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut factors = Vec::with_capacity(pairs.len());
    for (s, y) in pairs.iter().rev() {
        let factor = dot(s, &q) / dot(s, y);
        q.iter_mut().zip(y).for_each(|(q, y)| *q -= factor * y);
        factors.push(factor);
    }
    if let Some((s, y)) = pairs.back() {
        let scale = dot(s, y) / dot(y, y);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for ((s, y), factor) in pairs.iter().zip(factors.into_iter().rev()) {
        let other = dot(y, &q) / dot(s, y);
        q.iter_mut().zip(s).for_each(|(q, s)| *q += (factor - other) * s);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const LIMITS: Limits = Limits { steps: 200, evaluations: 400, tolerance: 0.0, max_change: 0.5 };

    #[test]
    fn minimum_of_the_rosenbrock_function_is_found() {
        let function = |x: &[f64]| -> Result<_, Infallible> {
            let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
            let gradient = vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b];
            Ok(Evaluation { value: a * a + 100.0 * b * b, gradient })
        };
        let Ok(minimum) = minimize(&[-1.2, 1.0], LIMITS, function);
        assert!(minimum.value < 1e-10, "{minimum:?}");
        assert!((minimum.at[0] - 1.0).abs() < 1e-4 && (minimum.at[1] - 1.0).abs() < 1e-4);
        assert!(minimum.values.windows(2).all(|v| v[1] <= v[0]));
    }

    #[test]
    fn start_is_returned_where_no_step_helps() {
        // The gradient points the wrong way.
        let Ok(minimum) = minimize(&[1.0], LIMITS, |x| -> Result<_, Infallible> {
            Ok(Evaluation { value: x[0] * x[0], gradient: vec![-1.0] })
        });
        assert_eq!((minimum.at, minimum.values.len()), (vec![1.0], 1));
    }

    #[test]
    fn failures_of_the_function_are_passed_on() {
        assert_eq!(minimize(&[0.0], LIMITS, |_| Err::<Evaluation, _>("no")), Err("no"));
    }
}
