//! Vectors of eight lanes: plain safe code that the compiler turns into vector instructions, compiled for any processor
//! and once more for AVX2, with the choice at run time.
//!
//! Nothing here uses fused operations, so both versions give the same bits.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod prefetch;

pub(crate) use self::prefetch::prefetch;

#[cfg(target_arch = "x86_64")]
pub(crate) use self::avx2::Register;
/// What stands for registers on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) type Register = [f32; LANES];

/// Whether vector code is to be used: where the CPU has it, and no test asks otherwise.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2() -> bool {
    #[cfg(any(test, feature = "scalar"))]
    if SCALAR.with(std::cell::Cell::get) {
        return false;
    }
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(any(test, feature = "scalar"))]
thread_local! {
    static SCALAR: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `work` with the code for any processor, on this thread: for tests that compare both versions.
#[cfg(any(test, feature = "scalar"))]
pub fn without_vectors<T>(work: impl FnOnce() -> T) -> T {
    SCALAR.with(|s| s.set(true));
    let result = work();
    SCALAR.with(|s| s.set(false));
    result
}

/// Defines `$name`, which runs `$body`, compiled for AVX2 where the CPU has it, or `$vector` there. Both must be inlined
/// always, and give the same bits.
macro_rules! dispatch {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $([$($generic:tt)*] [$($argument:tt)*])? ($($arg:ident : $ty:ty),* $(,)?)
        $(-> $out:ty)? = $body:expr
    ) => {
        dispatch! {
            $(#[$doc])* $vis fn $name $([$($generic)*] [$($argument)*])? ($($arg : $ty),*) $(-> $out)? = $body, $body
        }
    };
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident $([$($generic:tt)*] [$($argument:tt)*])? ($($arg:ident : $ty:ty),* $(,)?)
        $(-> $out:ty)? = $body:expr, $vector:expr
    ) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$($generic)*>)? ($($arg: $ty),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                #[allow(clippy::too_many_arguments)]
                fn fast $(<$($generic)*>)? ($($arg: $ty),*) $(-> $out)? {
                    $vector($($arg),*)
                }
                if $crate::simd::has_avx2() {
                    // SAFETY: the CPU has AVX2, which is all that `fast` asks for.
                    #[allow(unsafe_code)]
                    return unsafe { fast $(::<$($argument)*>)? ($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use dispatch;

/// What [`wide`] runs. No closure: that would be compiled once, for the oldest CPU, unless it happened to be inlined.
pub trait Work {
    /// What it gives.
    type Output;
    /// Does the work with vectors V. To be inlined always, with all that it calls in its loops.
    fn run<V: Eight>(self) -> Self::Output;
}

#[inline(always)]
fn run_scalar<W: Work>(work: W) -> W::Output {
    work.run::<[f32; LANES]>()
}

#[inline(always)]
fn run_vector<W: Work>(work: W) -> W::Output {
    work.run::<Register>()
}

dispatch! {
    /// Runs `work`, whose plain loops become vector code as wide as the CPU has it.
    pub fn wide[W: Work][W](work: W) -> W::Output = run_scalar, run_vector
}

/// Beliefs below this are set to zero by softmax: far below `f32` resolution of a row that sums to
/// one, and it keeps denormal numbers, which are slow, out of the filters.
pub const NEGLIGIBLE_LOGIT: f32 = -32.0;

/// Adding this rounds to a whole number, which then stands in the lowest bits.
const ROUND: f32 = 12_582_912.0;
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// exp(r) = 1 + r + r² (c_0 + c_1 r + ...) for |r| <= ln(2) / 2, with the smallest largest error that this degree can
/// have: 1.8e-7 of the value, rounding included. From the highest power down.
const EXP_TERMS: [f32; 4] = [8.312_501e-3, 4.189_033e-2, 0.166_671_16, 0.499_992_3];

/// `exp(t)` for `t <= 0` to two parts in 10^7, zero below [`NEGLIGIBLE_LOGIT`].
///
/// Without branches, calls or table look-ups, so that a loop over it becomes vector instructions on any
/// processor: t = n log 2 + r, a polynomial for exp(r), and n put into the exponent's bits.
#[inline(always)]
pub fn exp_or_nothing(t: f32) -> f32 {
    let clipped = t.max(NEGLIGIBLE_LOGIT);
    let shifted = clipped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clipped - n * LN_2_HIGH - n * LN_2_LOW;
    let [c3, c2, c1, c0] = EXP_TERMS;
    let p = 1.0 + r * (1.0 + r * (c0 + r * (c1 + r * (c2 + r * c3))));
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if t < NEGLIGIBLE_LOGIT { 0.0 } else { p * power }
}

/// `ln(z)` for normal positive numbers to about one part in 10^7 of max(1, |ln z|), as free of branches as
/// [`exp_or_nothing`]: z = 2^n m with m near 1, and ln m = 2 artanh((m - 1) / (m + 1)) as a polynomial.
#[inline(always)]
pub fn ln_positive(z: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let bits = z.to_bits().wrapping_sub(SQRT_HALF);
    let n = (bits as i32 >> 23) as f32;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let p = 2.0 / 3.0 + q * (2.0 / 5.0 + q * (2.0 / 7.0 + q * (2.0 / 9.0)));
    n * std::f32::consts::LN_2 + (2.0 * s + s * q * p)
}

/// Lanes of a row that are handled together.
pub const LANES: usize = 8;

/// The larger of two numbers, the second where either is NaN.
#[inline(always)]
pub fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Eight numbers side by side: an array, or one vector register (`filter/lattice/simd.rs`), with the same bits as result.
pub trait Eight: Copy {
    /// Reads eight numbers.
    fn load(from: &[f32; LANES]) -> Self;
    /// Writes all eight.
    fn store(self, to: &mut [f32; LANES]);
    /// The same number in every lane.
    fn all(value: f32) -> Self;
    /// Lane by lane.
    fn add(self, other: Self) -> Self;
    /// Lane by lane.
    fn sub(self, other: Self) -> Self;
    /// Lane by lane.
    fn mul(self, other: Self) -> Self;
    /// [`larger`] of each two.
    fn larger(self, other: Self) -> Self;
    /// [`chosen`]: these where all bits of the mask are set, the others where none is.
    fn chosen(self, other: Self, used: &[u32; LANES]) -> Self;
    /// All bits set, or none.
    fn mask(set: bool) -> Self;
    /// These if all bits of the mask are set, the others if none is.
    fn where_mask(self, other: Self, mask: Self) -> Self;
    /// [`exp_or_nothing`] of each.
    fn exp_or_nothing(self) -> Self;
    /// [`fold`] by [`larger`].
    fn largest(self) -> f32;
    /// [`fold`] by addition.
    fn sum(self) -> f32;
}

impl Eight for [f32; LANES] {
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        *from
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        *to = self;
    }
    #[inline(always)]
    fn all(value: f32) -> Self {
        [value; LANES]
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        std::array::from_fn(|c| self[c] + other[c])
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        std::array::from_fn(|c| self[c] - other[c])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        std::array::from_fn(|c| self[c] * other[c])
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        std::array::from_fn(|c| larger(self[c], other[c]))
    }
    #[inline(always)]
    fn chosen(self, other: Self, used: &[u32; LANES]) -> Self {
        std::array::from_fn(|c| chosen(self[c], other[c], used[c]))
    }
    #[inline(always)]
    fn mask(set: bool) -> Self {
        [f32::from_bits(0u32.wrapping_sub(u32::from(set))); LANES]
    }
    #[inline(always)]
    fn where_mask(self, other: Self, mask: Self) -> Self {
        std::array::from_fn(|c| chosen(self[c], other[c], mask[c].to_bits()))
    }
    #[inline(always)]
    fn exp_or_nothing(self) -> Self {
        self.map(exp_or_nothing)
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        fold(self, larger)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        fold(self, |a, b| a + b)
    }
}

/// All eight into one, pairwise: three steps that wait for each other instead of seven.
#[inline(always)]
pub fn fold<T: Copy>(v: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    f(f(f(v[0], v[4]), f(v[2], v[6])), f(f(v[1], v[5]), f(v[3], v[7])))
}

/// All lanes of a group are used.
pub const ALL: [u32; LANES] = [u32::MAX; LANES];

/// Which lanes of a row's last group are labels: all bits set, or none.
#[inline(always)]
pub fn last_lanes(labels: usize) -> [u32; LANES] {
    let used = labels - (labels - 1) / LANES * LANES;
    std::array::from_fn(|c| if c < used { u32::MAX } else { 0 })
}

/// `a` where all bits of `used` are set, `b` where none is: a choice that never becomes a branch.
#[inline(always)]
pub fn chosen(a: f32, b: f32, used: u32) -> f32 {
    f32::from_bits((a.to_bits() & used) | (b.to_bits() & !used))
}

/// Eight values from `at` on; where the array ends, the rest is zero.
#[inline(always)]
pub fn eight(values: &[f32], at: usize) -> [f32; LANES] {
    match values.get(at..).and_then(|rest| rest.first_chunk::<LANES>()) {
        Some(v) => *v,
        None => {
            let mut out = [0.0; LANES];
            for (o, &v) in out.iter_mut().zip(values.get(at..).unwrap_or(&[])) {
                *o = v;
            }
            out
        }
    }
}

/// Which lanes of a row's last group are labels, for rows of `stride`.
#[inline(always)]
pub fn padding(stride: usize, labels: usize) -> [u32; LANES] {
    assert!(stride == labels.next_multiple_of(LANES), "rows are whole groups of lanes");
    last_lanes(labels)
}

/// Copies rows without their padding: `labels` of every `stride` values, as many as `out` holds.
#[inline(always)]
fn keep_lanes(rows: &[f32], stride: usize, labels: usize, out: &mut [f32]) {
    let count = out.len() / labels;
    for (k, row) in rows.chunks_exact(stride).take(count).enumerate() {
        let at = k * labels;
        match out.get_mut(at..at + stride) {
            // The padding goes where the next row is about to be written.
            Some(to) => to.copy_from_slice(row),
            None => out[at..at + labels].copy_from_slice(&row[..labels]),
        }
    }
}

/// The smallest value of each lane in all rows.
#[inline(always)]
fn least_lanes(rows: &[f32], stride: usize, least: &mut [f32]) {
    for (g, least) in least.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let mut here = [f32::INFINITY; LANES];
        for row in rows.chunks_exact(stride) {
            let (groups, _) = row.as_chunks::<LANES>();
            for c in 0..LANES {
                here[c] = if groups[g][c] < here[c] { groups[g][c] } else { here[c] };
            }
        }
        *least = here;
    }
}

dispatch! {
    /// Copies rows without their padding: `width` of every `stride` values, as many as `out` holds.
    pub fn keep_rows(rows: &[f32], stride: usize, width: usize, out: &mut [f32]) = keep_lanes
}
dispatch! {
    /// The smallest value of each lane in all rows.
    pub fn least_of_lanes(rows: &[f32], stride: usize, least: &mut [f32]) = least_lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation, on numbers that `eight` values make.
    struct All([[f32; LANES]; 2]);

    impl Work for All {
        type Output = Vec<u32>;

        fn run<V: Eight>(self) -> Vec<u32> {
            let [a, b] = self.0.map(|v| V::load(&v));
            let used = [u32::MAX, 0, u32::MAX, u32::MAX, 0, 0, u32::MAX, 0];
            let vectors = [
                a.add(b),
                a.sub(b),
                a.mul(b),
                a.larger(b),
                a.chosen(b, &used),
                a.where_mask(b, V::mask(true)),
                a.where_mask(b, V::mask(false)),
                a.exp_or_nothing(),
                V::all(b.sum()),
                V::all(a.largest()),
            ];
            let bits = |v: V| {
                let mut out = [0.0; LANES];
                v.store(&mut out);
                out.map(f32::to_bits)
            };
            vectors.into_iter().flat_map(bits).collect()
        }
    }

    #[test]
    fn registers_give_the_bits_of_arrays() {
        for k in 0..1000 {
            let number = |c: usize, step: f32| -((k * LANES + c) as f32 * step) % 35.0 + 0.1 * c as f32;
            let values = [0.0073, 0.0031].map(|step| std::array::from_fn(|c| number(c, step)));
            assert_eq!(wide(All(values)), without_vectors(|| wide(All(values))), "{values:?}");
        }
    }

    #[test]
    fn logarithms_are_right() {
        for k in 1..200_000 {
            let z = 1e-3 * k as f32;
            let want = f64::from(z).ln();
            let error = (f64::from(ln_positive(z)) - want).abs() / want.abs().max(1.0);
            assert!(error < 3e-7, "ln({z}) is off by {error:e}");
        }
    }
}
