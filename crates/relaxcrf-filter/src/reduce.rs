//! Sums and element-wise loops that give the same bytes for any number of threads.
//!
//! Values are stored as `f32` and summed as `f64`. Every reduction cuts its input at fixed places,
//! sums each piece in order, and adds the pieces in order: the thread count never enters.

use std::ops::Range;

use rayon::prelude::*;

use crate::simd::{Eight, Work, fold, wide};

/// Elements per piece. Large enough that a task's overhead vanishes, small enough to balance.
pub const CHUNK: usize = 1 << 14;

/// Pixels per piece for loops over rows of `width` values.
pub fn rows_per_chunk(width: usize) -> usize {
    (CHUNK / width.max(1)).max(1)
}

/// Runs `task(0)`, `task(1)`, ... in parallel. Compiled once for all tasks, which must therefore be coarse.
pub fn run_tasks(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(task);
}

/// The results of `task(0)`, `task(1)`, ... in this order, found in parallel. Compiled once for every type of result.
pub fn map_tasks<T: Send>(count: usize, task: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    (0..count).into_par_iter().map(task).collect()
}

/// The results of `task` for every item, in their order, found in parallel. Compiled once for every pair of types.
pub fn map_items<I: Send, T: Send>(items: Vec<I>, task: &(dyn Fn(usize, I) -> T + Sync)) -> Vec<T> {
    items.into_par_iter().enumerate().map(|(k, item)| task(k, item)).collect()
}

/// The results of `task` for every piece of a matrix, with the number of the piece.
fn map_pieces<T: Send>(
    data: &mut [f32],
    piece: usize,
    task: &(dyn Fn(usize, &mut [f32]) -> T + Sync),
) -> Vec<T> {
    data.par_chunks_mut(piece).enumerate().map(|(c, piece)| task(c, piece)).collect()
}

/// Sum of `f(i)` over `0..n` in the fixed order.
pub fn sum_by(n: usize, per_chunk: usize, f: impl Fn(usize) -> f64 + Sync) -> f64 {
    let chunks = n.div_ceil(per_chunk.max(1));
    let parts = map_tasks(chunks, &|c| (c * per_chunk..((c + 1) * per_chunk).min(n)).map(&f).sum::<f64>());
    parts.iter().sum()
}

/// Sum of all elements.
pub fn sum(x: &[f32]) -> f64 {
    sum_by(x.len(), CHUNK, |i| f64::from(x[i]))
}

/// Inner product.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    debug_assert_eq!(x.len(), y.len());
    let parts: Vec<f64> = x
        .par_chunks(CHUNK)
        .zip(y.par_chunks(CHUNK))
        .map(|(a, b)| a.iter().zip(b).map(|(&u, &v)| f64::from(u) * f64::from(v)).sum::<f64>())
        .collect();
    parts.iter().sum()
}

/// Runs `f(first_row, rows)` over fixed pieces of a row-major matrix in parallel and adds up what it returns.
pub fn for_rows(data: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) -> f64 + Sync) -> f64 {
    let rows = rows_per_chunk(width);
    let parts = map_pieces(data, rows * width.max(1), &|c, piece: &mut [f32]| f(c * rows, piece));
    parts.iter().sum()
}

/// Sum of `f` over the entries of short rows of the same length, in eight interleaved parts: one register.
#[inline(always)]
pub fn row_sum<const K: usize, T>(rows: [&[f32]; K], f: impl Fn([f32; K]) -> T) -> T
where
    T: Copy + Default + std::ops::Add<Output = T>,
{
    row_fold(rows, T::default(), f, |a, b| a + b)
}

/// Least entry of a short row, by eight parts as well; infinity for an empty one.
#[inline(always)]
pub fn row_min(row: &[f32]) -> f32 {
    row_fold([row], f32::INFINITY, |[v]| v, |a, b| if b < a { b } else { a })
}

/// Largest `f` of the entries of short rows, by eight parts as well; minus infinity for empty ones.
#[inline(always)]
pub fn row_max<const K: usize>(rows: [&[f32]; K], f: impl Fn([f32; K]) -> f32) -> f32 {
    row_fold(rows, f32::NEG_INFINITY, f, |a, b| if b > a { b } else { a })
}

#[inline(always)]
fn row_fold<const K: usize, T: Copy>(
    rows: [&[f32]; K],
    start: T,
    f: impl Fn([f32; K]) -> T,
    join: impl Fn(T, T) -> T + Copy,
) -> T {
    let length = rows[0].len();
    // Cut to one length, so that no place needs a check.
    let rows = rows.map(|r| r[..length].as_chunks::<8>());
    let mut parts = [start; 8];
    for g in 0..length / 8 {
        let groups = rows.map(|(groups, _)| groups[g]);
        for (k, part) in parts.iter_mut().enumerate() {
            *part = join(*part, f(groups.map(|group| group[k])));
        }
    }
    let mut rest = start;
    for i in 0..length % 8 {
        rest = join(rest, f(rows.map(|(_, rest)| rest[i])));
    }
    join(rest, fold(parts, join))
}

/// Rows of work space handed to [`RowStep`]s.
const WORK_ROWS: usize = 5;

/// What is done to the rows of a matrix, one by one. A closure will do; where speed counts it is a type with
/// `row` inlined always, which is then compiled for the widest vectors of the CPU.
pub trait RowStep: Sync {
    /// Writes row `a` of the matrix; `work` holds five rows of no particular content. Both numbers are added up.
    fn row(&self, a: usize, out: &mut [f32], work: &mut [f32]) -> (f64, f64);
}

impl<F: Fn(usize, &mut [f32], &mut [f32]) -> (f64, f64) + Sync> RowStep for F {
    fn row(&self, a: usize, out: &mut [f32], work: &mut [f32]) -> (f64, f64) {
        self(a, out, work)
    }
}

/// Some rows of a matrix and what is done to them.
struct Rows<'a, S> {
    step: &'a S,
    first: usize,
    rows: &'a mut [f32],
    width: usize,
}

impl<S: RowStep> Work for Rows<'_, S> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run<W: Eight>(self) -> (f64, f64) {
        let mut work = vec![0.0; WORK_ROWS * self.width];
        let mut sums = (0.0, 0.0);
        for (k, row) in self.rows.chunks_exact_mut(self.width.max(1)).enumerate() {
            let (p, q) = self.step.row(self.first + k, row, &mut work);
            sums = (sums.0 + p, sums.1 + q);
        }
        sums
    }
}

/// Takes the step for all rows of a matrix in parallel and adds up both numbers it returns.
pub fn for_row_pairs(data: &mut [f32], width: usize, step: impl RowStep) -> (f64, f64) {
    let per_chunk = rows_per_chunk(width);
    let parts: Vec<(f64, f64)> = map_pieces(data, per_chunk * width.max(1), &|c, rows: &mut [f32]| {
        wide(Rows { step: &step, first: c * per_chunk, rows, width })
    });
    parts.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1))
}

/// A number for every row: see [`RowStep`].
pub trait RowValue: Sync {
    /// The number of row `a`; `work` is as wide as was asked for, and of no particular content.
    fn value(&self, a: usize, work: &mut [f32]) -> f64;
}

impl<F: Fn(usize, &mut [f32]) -> f64 + Sync> RowValue for F {
    fn value(&self, a: usize, work: &mut [f32]) -> f64 {
        self(a, work)
    }
}

/// The rows whose values are added up.
struct Values<'a, V> {
    of: &'a V,
    rows: Range<usize>,
    width: usize,
}

impl<V: RowValue> Work for Values<'_, V> {
    type Output = f64;

    #[inline(always)]
    fn run<W: Eight>(self) -> f64 {
        let mut work = vec![0.0; self.width];
        let mut sum = 0.0;
        for a in self.rows {
            sum += self.of.value(a, &mut work);
        }
        sum
    }
}

/// Sum of the values of `rows` rows; `width` is that of the work space.
pub fn sum_by_rows(rows: usize, width: usize, value: impl RowValue) -> f64 {
    let per_chunk = rows_per_chunk(width);
    let parts: Vec<f64> = map_tasks(rows.div_ceil(per_chunk), &|c| {
        wide(Values { of: &value, rows: c * per_chunk..((c + 1) * per_chunk).min(rows), width })
    });
    parts.iter().sum()
}

/// The `q`-quantile (0 to 1) of a copy of `x`; `None` when it is empty. NaN sorts last.
pub fn quantile(x: &[f32], q: f64) -> Option<f32> {
    if x.is_empty() {
        return None;
    }
    let mut v = x.to_vec();
    let k = ((v.len() - 1) as f64 * q.clamp(0.0, 1.0)).round() as usize;
    let (_, m, _) = v.select_nth_unstable_by(k, f32::total_cmp);
    Some(*m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_threads() {
        let x: Vec<f32> = (0..100_003).map(|i| ((i * 7919) % 1000) as f32 * 1e-3 - 0.3).collect();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| (sum(&x).to_bits(), dot(&x, &x).to_bits()))
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(5));
    }

    #[test]
    fn quantile_of_small_sets() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 1.0), Some(3.0));
    }
}
