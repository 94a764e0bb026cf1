//! Gathers rows of the active labels from rows of all labels, and scatters them back.

use rayon::prelude::*;

use relaxcrf_filter::reduce::rows_per_chunk;

/// The active labels, those with nonzero belief at some pixel, in order, if they are at most half of all.
pub(crate) fn active_labels(y: &[f32], labels: usize) -> Option<Vec<usize>> {
    // Where most labels are active, a few rows show it.
    const SPREAD: usize = 64;
    let few = |marks: &[u32]| 2 * marks.iter().filter(|&&m| m != 0).count() <= labels;
    let spread = (y.len() / labels).div_ceil(SPREAD).max(1);
    let some = y.chunks_exact(labels).step_by(spread).fold(vec![0; labels], marked);
    if !few(&some) {
        return None;
    }
    let piece = rows_per_chunk(labels) * labels;
    let marks = y
        .par_chunks(piece)
        .map(|rows| rows.chunks_exact(labels).fold(vec![0; labels], marked))
        .reduce(|| vec![0; labels], |a, b| a.iter().zip(b).map(|(a, b)| a | b).collect());
    few(&marks).then(|| (0..labels).filter(|&i| marks[i] != 0).collect())
}

/// Marks the labels with a belief that is not zero: all bits of a zero are.
fn marked(mut marks: Vec<u32>, row: &[f32]) -> Vec<u32> {
    marks.iter_mut().zip(row).for_each(|(mark, v)| *mark |= v.to_bits());
    marks
}

/// Rows of all labels become rows of the labels `active`.
pub(crate) fn gather(y: &[f32], labels: usize, active: &[usize], out: &mut [f32]) {
    let rows = rows_per_chunk(active.len());
    let pieces = out.par_chunks_mut(rows * active.len()).zip(y.par_chunks(rows * labels));
    pieces.for_each(|(out, y)| {
        for (out, row) in out.chunks_exact_mut(active.len()).zip(y.chunks_exact(labels)) {
            out.iter_mut().zip(active).for_each(|(o, &i)| *o = row[i]);
        }
    });
}

/// Rows of the labels `active`, at most half of all, at the start of `rows` become rows of all labels, zero for the others.
pub(crate) fn spread(rows: &mut [f32], labels: usize, active: &[usize]) {
    debug_assert!(2 * active.len() <= labels);
    let width = active.len();
    let mut count = rows.len() / labels;
    // The wide rows of the latter half lie beyond all narrow ones: half after half needs no second buffer.
    while count > 1 {
        let half = count.div_ceil(2);
        let (narrow, wide) = rows[..count * labels].split_at_mut(half * labels);
        let narrow = &narrow[half * width..count * width];
        let piece = rows_per_chunk(labels);
        let pieces = wide.par_chunks_mut(piece * labels).zip(narrow.par_chunks(piece * width));
        pieces.for_each(|(wide, narrow)| {
            for (wide, narrow) in wide.chunks_exact_mut(labels).zip(narrow.chunks_exact(width)) {
                scatter(narrow, active, wide);
            }
        });
        count = half;
    }
    if count == 1 {
        let first = rows[..width].to_vec();
        scatter(&first, active, &mut rows[..labels]);
    }
}

fn scatter(narrow: &[f32], active: &[usize], wide: &mut [f32]) {
    wide.fill(0.0);
    active.iter().zip(narrow).for_each(|(&i, &v)| wide[i] = v);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_that_are_gathered_and_spread_are_the_same(
            pixels in 1usize..200,
            labels in 2usize..40,
            chosen in prop::collection::vec(0usize..40, 1..20),
        ) {
            let mut y = vec![0.0; pixels * labels];
            for (k, &i) in chosen.iter().enumerate() {
                y[(k * 37 % pixels) * labels + i % labels] = 1.0 + k as f32;
            }
            let mut active: Vec<usize> = chosen.iter().map(|i| i % labels).collect();
            active.sort_unstable();
            active.dedup();
            // Later entries may hide earlier ones, but never with zero.
            let really: Vec<usize> =
                active.into_iter().filter(|&i| y.iter().skip(i).step_by(labels).any(|&v| v != 0.0)).collect();
            let found = active_labels(&y, labels);
            prop_assert_eq!(found.is_some(), 2 * really.len() <= labels);
            if let Some(found) = found {
                prop_assert_eq!(&found, &really);
                let mut again = vec![f32::NAN; y.len()];
                gather(&y, labels, &found, &mut again[..pixels * found.len()]);
                spread(&mut again, labels, &found);
                prop_assert_eq!(again, y);
            }
        }
    }
}
