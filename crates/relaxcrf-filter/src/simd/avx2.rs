//! Eight numbers in a register.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{EXP_TERMS, Eight, LANES, LN_2_HIGH, LN_2_LOW, NEGLIGIBLE_LOGIT, ROUND};

/// Used only by what [`dispatch`] compiles for AVX2 and runs where the CPU has it: that is why all of this is sound.
#[derive(Clone, Copy)]
pub(crate) struct Register(__m256);

// SAFETY, all blocks: the CPU has AVX2, see `Register`; loads and stores are of arrays of eight, at any address.
impl Eight for Register {
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        Self(unsafe { _mm256_loadu_ps(from.as_ptr()) })
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), self.0) }
    }
    #[inline(always)]
    fn all(value: f32) -> Self {
        Self(unsafe { _mm256_set1_ps(value) })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(unsafe { _mm256_sub_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(unsafe { _mm256_mul_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        Self(unsafe { _mm256_max_ps(self.0, other.0) })
    }
    #[inline(always)]
    fn chosen(self, other: Self, used: &[u32; LANES]) -> Self {
        unsafe {
            let used = _mm256_loadu_ps(used.as_ptr().cast());
            Self(_mm256_or_ps(_mm256_and_ps(used, self.0), _mm256_andnot_ps(used, other.0)))
        }
    }
    #[inline(always)]
    fn mask(set: bool) -> Self {
        Self(unsafe { _mm256_castsi256_ps(_mm256_set1_epi32(-i32::from(set))) })
    }
    #[inline(always)]
    fn where_mask(self, other: Self, mask: Self) -> Self {
        Self(unsafe { _mm256_blendv_ps(other.0, self.0, mask.0) })
    }
    #[inline(always)]
    fn exp_or_nothing(self) -> Self {
        let clipped = self.larger(Self::all(NEGLIGIBLE_LOGIT));
        let shifted = clipped.mul(Self::all(std::f32::consts::LOG2_E)).add(Self::all(ROUND));
        let n = shifted.sub(Self::all(ROUND));
        let r = clipped.sub(n.mul(Self::all(LN_2_HIGH))).sub(n.mul(Self::all(LN_2_LOW)));
        let [c3, c2, c1, c0] = EXP_TERMS;
        let mut p = Self::all(c3);
        for c in [c2, c1, c0, 1.0, 1.0] {
            p = Self::all(c).add(r.mul(p));
        }
        unsafe {
            let bias = _mm256_set1_epi32(127i32.wrapping_sub(ROUND.to_bits() as i32));
            let power = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_castps_si256(shifted.0), bias));
            let below = _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, _mm256_set1_ps(NEGLIGIBLE_LOGIT));
            Self(_mm256_andnot_ps(below, _mm256_mul_ps(p.0, _mm256_castsi256_ps(power))))
        }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        unsafe {
            let four = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
}
