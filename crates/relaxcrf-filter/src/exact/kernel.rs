//! The innermost loops of the exact filter: Gaussian values of one target against a block of sources, and
//! weighted sums of them.
//!
//! Everything here is `#[inline(always)]` over fixed-size pieces, so that the same source can be compiled
//! once more for a wider instruction set. No fused multiply-add is written and every sum has its lanes
//! spelled out: the bits do not depend on which version runs.

/// Points per block. Short enough that single-precision sums over a block keep six digits.
pub(crate) const WIDTH: usize = 128;

/// Independent running sums per block: 16 cover the latency of an addition on 4- and 8-wide machines.
const LANES: usize = 16;

/// `-log2(e) / 2`: turns a squared distance into the exponent of 2 of the Gaussian.
const EXPONENT: f32 = -0.5 * std::f32::consts::LOG2_E;

/// Exponents below this give 2^-125 instead of a denormal number.
const LOWEST: f32 = -125.0;

/// Adding and taking away 1.5 · 2^23 rounds to an integer, whose low bits then sit in the sum's mantissa.
const ROUND: f32 = 12_582_912.0;

/// `2^x` for `x <= 0`, with a relative error of at most 1.8e-7, exactly 1 at 0, and never below 2^-125.
///
/// 2^x = 2^n · 2^r with |r| <= 1/2; the polynomial (degree 5, error 9e-8 before rounding) is the best one in
/// relative error among those that are 1 at r = 0.
#[inline(always)]
#[allow(clippy::approx_constant)] // the fitted coefficient is not ln 2
pub(crate) fn exp2_nonpositive(x: f32) -> f32 {
    // Not `f32::max`: that handles NaN, which costs two more instructions a lane.
    let x = if x > LOWEST { x } else { LOWEST };
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let mut p = 1.326_472_7e-3;
    p = p * r + 9.671_513e-3;
    p = p * r + 5.550_733_6e-2;
    p = p * r + 0.240_222_42;
    p = p * r + 0.693_147;
    p = p * r + 1.0;
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// `exp(-d2 / 2)`.
#[inline(always)]
pub(crate) fn gaussian(squared_distance: f32) -> f32 {
    exp2_nonpositive(squared_distance * EXPONENT)
}

/// Gaussian values between `target` (one coordinate per dimension) and the `WIDTH` points of `block`
/// (`WIDTH` values per dimension).
#[inline(always)]
pub(crate) fn kernel_values(block: &[f32], target: &[f32], out: &mut [f32; WIDTH]) {
    for (c, piece) in out.chunks_exact_mut(LANES).enumerate() {
        let mut squares = [0.0_f32; LANES];
        for (row, &t) in block.chunks_exact(WIDTH).zip(target) {
            for (s, &x) in squares.iter_mut().zip(&row[c * LANES..(c + 1) * LANES]) {
                let difference = x - t;
                *s += difference * difference;
            }
        }
        for (k, &s) in piece.iter_mut().zip(&squares) {
            *k = gaussian(s);
        }
    }
}

/// `Σ_j kernel_j · weights_j` over one block: eight additions a lane, then a tree.
#[inline(always)]
pub(crate) fn dot(kernel: &[f32; WIDTH], weights: &[f32]) -> f64 {
    let mut lanes = [0.0_f32; LANES];
    for (k, w) in kernel.chunks_exact(LANES).zip(weights.chunks_exact(LANES)) {
        for ((s, &k), &w) in lanes.iter_mut().zip(k).zip(w) {
            *s += k * w;
        }
    }
    sum_lanes(lanes)
}

/// `Σ_j kernel_j · right_j · sign(value - values_j)`.
#[inline(always)]
pub(crate) fn dot_signs(kernel: &[f32; WIDTH], right: &[f32], values: &[f32], value: f32) -> f64 {
    let mut lanes = [0.0_f32; LANES];
    let pieces = kernel.chunks_exact(LANES).zip(right.chunks_exact(LANES)).zip(values.chunks_exact(LANES));
    for ((k, r), y) in pieces {
        for (((s, &k), &r), &y) in lanes.iter_mut().zip(k).zip(r).zip(y) {
            let product = k * r;
            let low = if y < value { product } else { 0.0 };
            let high = if y > value { product } else { 0.0 };
            *s += low - high;
        }
    }
    sum_lanes(lanes)
}

#[inline(always)]
fn sum_lanes(mut lanes: [f32; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
        half /= 2;
    }
    f64::from(lanes[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_keeps_its_stated_error() {
        assert_eq!(exp2_nonpositive(0.0), 1.0);
        let mut worst = 0.0_f64;
        for i in 0..1_250_000 {
            let x = -(i as f32) * 1e-4;
            let truth = f64::from(x).exp2();
            worst = worst.max((f64::from(exp2_nonpositive(x)) / truth - 1.0).abs());
        }
        assert!(worst < 1.8e-7, "{worst:e}");
        for x in [-125.0, -1e3, -1e30, f32::NEG_INFINITY] {
            let tiny = exp2_nonpositive(x);
            assert!(tiny > 0.0 && tiny < 3e-38, "{x}: {tiny:e}");
        }
    }

    #[test]
    fn block_sums_agree_with_double_precision() {
        let kernel: [f32; WIDTH] = std::array::from_fn(|j| 1.0 / (1.0 + j as f32));
        let weights: Vec<f32> = (0..WIDTH).map(|j| ((j * 37) % 11) as f32).collect();
        let truth: f64 = kernel.iter().zip(&weights).map(|(&k, &w)| f64::from(k) * f64::from(w)).sum();
        assert!((dot(&kernel, &weights) / truth - 1.0).abs() < 3e-7);
        let ones = [1.0; WIDTH];
        let signed: f64 = kernel
            .iter()
            .zip(&weights)
            .map(|(&k, &w)| {
                if w < 4.0 {
                    f64::from(k)
                } else if w > 4.0 {
                    -f64::from(k)
                } else {
                    0.0
                }
            })
            .sum();
        assert!((dot_signs(&kernel, &ones, &weights, 4.0) - signed).abs() < 1e-6);
    }
}
