//! Sums and element-wise loops that give the same bytes for any number of threads.
//!
//! Values are stored as `f32` and summed as `f64`. Every reduction cuts its input at fixed places,
//! sums each piece in order, and adds the pieces in order: the thread count never enters.

use rayon::prelude::*;

/// Elements per piece. Large enough that a task's overhead vanishes, small enough to balance.
pub const CHUNK: usize = 1 << 14;

/// Pixels per piece for loops over rows of `width` values.
pub fn rows_per_chunk(width: usize) -> usize {
    (CHUNK / width.max(1)).max(1)
}

/// Sum of `f(i)` over `0..n` in the fixed order.
pub fn sum_by(n: usize, per_chunk: usize, f: impl Fn(usize) -> f64 + Sync) -> f64 {
    let chunks = n.div_ceil(per_chunk.max(1));
    let parts: Vec<f64> = (0..chunks)
        .into_par_iter()
        .map(|c| (c * per_chunk..((c + 1) * per_chunk).min(n)).map(&f).sum::<f64>())
        .collect();
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
    let parts: Vec<f64> =
        data.par_chunks_mut(rows * width.max(1)).enumerate().map(|(c, piece)| f(c * rows, piece)).collect();
    parts.iter().sum()
}

/// Sum of `f(i)` over a short row, in eight interleaved parts that the compiler can keep in one register.
#[inline(always)]
pub fn row_sum(n: usize, f: impl Fn(usize) -> f32) -> f32 {
    let mut parts = [0.0f32; 8];
    let whole = n / 8 * 8;
    for start in (0..whole).step_by(8) {
        for (k, p) in parts.iter_mut().enumerate() {
            *p += f(start + k);
        }
    }
    let rest: f32 = (whole..n).map(f).sum();
    parts.iter().sum::<f32>() + rest
}

/// Rows of work space handed to the closures of [`sum_by_rows`] and [`for_row_pairs`].
const WORK_ROWS: usize = 5;

/// Sum of `f(row, work)` over `0..rows`; `work` holds at least `width` values of no particular content.
pub fn sum_by_rows(rows: usize, width: usize, f: impl Fn(usize, &mut [f32]) -> f64 + Sync) -> f64 {
    let per_chunk = rows_per_chunk(width);
    let parts: Vec<f64> = (0..rows.div_ceil(per_chunk))
        .into_par_iter()
        .map(|c| {
            let mut work = vec![0.0; width];
            (c * per_chunk..((c + 1) * per_chunk).min(rows)).map(|a| f(a, &mut work)).sum()
        })
        .collect();
    parts.iter().sum()
}

/// Runs `f(row, data_row, work)` over the rows of a matrix in parallel and adds up both numbers it returns.
/// `work` holds five rows of no particular content.
pub fn for_row_pairs(
    data: &mut [f32],
    width: usize,
    f: impl Fn(usize, &mut [f32], &mut [f32]) -> (f64, f64) + Sync,
) -> (f64, f64) {
    let per_chunk = rows_per_chunk(width);
    let parts: Vec<(f64, f64)> = data
        .par_chunks_mut(per_chunk * width.max(1))
        .enumerate()
        .map(|(c, piece)| {
            let mut work = vec![0.0; WORK_ROWS * width];
            let mut sums = (0.0, 0.0);
            for (k, row) in piece.chunks_exact_mut(width.max(1)).enumerate() {
                let (p, q) = f(c * per_chunk + k, row, &mut work);
                sums = (sums.0 + p, sums.1 + q);
            }
            sums
        })
        .collect();
    parts.iter().fold((0.0, 0.0), |s, p| (s.0 + p.0, s.1 + p.1))
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
