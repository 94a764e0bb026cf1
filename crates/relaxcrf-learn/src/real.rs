//! Numbers that gradients are computed in: single precision for work, double precision for checks.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A floating-point number.
pub trait Real:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + 'static
{
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// The number in double precision.
    fn to_f64(self) -> f64;
    /// e to this power; zero far below the smallest normal number.
    fn exp(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The larger of two numbers.
    fn larger(self, other: Self) -> Self;
}

impl Real for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    /// Branch-free, so that loops over it become vector code. Relative error below 3e-7.
    #[inline(always)]
    fn exp(self) -> Self {
        let x = self.clamp(-87.0, 88.0);
        // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
        const ROUND: f32 = 12_582_912.0;
        let k = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
        // ln 2 in two parts: the first times k is exact.
        let r = (x - k * 0.693_359_4) + k * 2.121_944_4e-4;
        let p = 1.0 / 5040.0;
        let p = p * r + 1.0 / 720.0;
        let p = p * r + 1.0 / 120.0;
        let p = p * r + 1.0 / 24.0;
        let p = p * r + 1.0 / 6.0;
        let p = p * r + 0.5;
        let p = p * r + 1.0;
        let p = p * r + 1.0;
        let power = f32::from_bits(((k as i32 + 127) as u32) << 23);
        if self < -87.0 { 0.0 } else { p * power }
    }

    fn sqrt(self) -> Self {
        self.sqrt()
    }

    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Real for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn exp(self) -> Self {
        self.exp()
    }

    fn sqrt(self) -> Self {
        self.sqrt()
    }

    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_precision_exponential_is_close_to_the_library_function() {
        for k in -8600..8700 {
            let x = k as f32 * 0.01;
            let (ours, exact) = (Real::exp(x), f64::from(x).exp());
            assert!((f64::from(ours) / exact - 1.0).abs() < 1e-6, "{x}: {ours} {exact}");
        }
        assert_eq!(Real::exp(-1000.0f32), 0.0);
        assert_eq!(Real::exp(0.0f32), 1.0);
    }
}
