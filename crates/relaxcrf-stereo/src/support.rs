//! Averages of matching costs over regions of like colour round each pixel (cross-based support).

use rayon::prelude::*;
use relaxcrf::filter::simd::{Eight, Work, wide};

use crate::pair::View;
use crate::volume::Volume;

/// How far a region reaches from its centre.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Support {
    /// Most pixels to each side, up to 100.
    pub reach: usize,
    /// An arm ends where a channel differs from the centre by more than this; less far from the centre.
    pub colour: u8,
}

impl Default for Support {
    fn default() -> Self {
        Self { reach: 20, colour: 17 }
    }
}

/// Pixels that belong to a region, to the left, right, top and bottom of its centre.
#[derive(Debug, Clone)]
pub(crate) struct Arms {
    pub left: Vec<u8>,
    pub right: Vec<u8>,
    pub up: Vec<u8>,
    pub down: Vec<u8>,
}

impl Arms {
    pub fn new(view: &View, support: &Support) -> Self {
        let (width, height) = (view.width, view.height);
        let near = |a: usize, b: usize, distance: usize| {
            let limit = usize::from(support.colour) * (support.reach + 1 - distance) / (support.reach + 1);
            let (a, b) = (view.colours[a], view.colours[b]);
            (0..3).all(|i| usize::from(a[i].abs_diff(b[i])) <= limit)
        };
        let arm = |a: usize, room: usize, step: isize| {
            let limit = support.reach.min(room).min(100);
            let mut length = 0;
            while length < limit && near(a, a.wrapping_add_signed((length as isize + 1) * step), length + 1) {
                length += 1;
            }
            // One pixel always counts, so that noise does not cut off its centre.
            length.max(limit.min(1)) as u8
        };
        let all = |room: &(dyn Fn(usize, usize) -> usize + Sync), step: isize| -> Vec<u8> {
            (0..width * height).into_par_iter().map(|a| arm(a, room(a % width, a / width), step)).collect()
        };
        Self {
            left: all(&|x, _| x, -1),
            right: all(&|x, _| width - 1 - x, 1),
            up: all(&|_, y| y, -(width as isize)),
            down: all(&|_, y| height - 1 - y, width as isize),
        }
    }
}

impl Arms {
    /// Squares, cut at the border.
    pub fn square(width: usize, height: usize, radius: usize) -> Self {
        let all = |room: &dyn Fn(usize, usize) -> usize| {
            (0..width * height).map(|a| radius.min(room(a % width, a / width)) as u8).collect()
        };
        Self {
            left: all(&|x, _| x),
            right: all(&|x, _| width - 1 - x),
            up: all(&|_, y| y),
            down: all(&|_, y| height - 1 - y),
        }
    }
}

/// Replaces every cost by its average over the region: along the rows, then along the columns, or the other way round.
pub(crate) fn aggregate(volume: &mut Volume, arms: &Arms, rows_first: bool) {
    if rows_first {
        along_rows(volume, arms);
        along_columns(volume, arms);
    } else {
        along_columns(volume, arms);
        along_rows(volume, arms);
    }
}

/// Sums wrap round; differences of them are right as long as a region's sum is below 2^16.
fn along_rows(volume: &mut Volume, arms: &Arms) {
    let (width, stride) = (volume.width, volume.stride);
    volume.costs.par_chunks_mut(width * stride).enumerate().for_each_init(
        || vec![0u16; (width + 1) * stride],
        |sums, (y, line)| wide(RowAverages { line, sums, arms, y, width, stride }),
    );
}

struct RowAverages<'a> {
    line: &'a mut [u8],
    sums: &'a mut [u16],
    arms: &'a Arms,
    y: usize,
    width: usize,
    stride: usize,
}

impl Work for RowAverages<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Eight>(self) {
        let Self { line, sums, arms, y, width, stride } = self;
        sums[..stride].fill(0);
        for x in 0..width {
            let (before, after) = sums.split_at_mut((x + 1) * stride);
            add(&before[x * stride..], &line[x * stride..][..stride], &mut after[..stride]);
        }
        for x in 0..width {
            let a = y * width + x;
            let (l, r) = (usize::from(arms.left[a]), usize::from(arms.right[a]));
            let (low, high) = (&sums[(x - l) * stride..][..stride], &sums[(x + r + 1) * stride..][..stride]);
            average(low, high, l + r + 1, &mut line[x * stride..][..stride]);
        }
    }
}

fn along_columns(volume: &mut Volume, arms: &Arms) {
    let (width, height, stride) = (volume.width, volume.height, volume.stride);
    // Blocks of columns, so that their sums stay in the cache.
    const COLUMNS: usize = 4;
    let mut columns: Vec<Vec<&mut [u8]>> = Vec::new();
    columns.resize_with(width.div_ceil(COLUMNS), || Vec::with_capacity(height));
    for line in volume.costs.chunks_exact_mut(width * stride) {
        for (block, piece) in columns.iter_mut().zip(line.chunks_mut(COLUMNS * stride)) {
            block.push(piece);
        }
    }
    columns.par_iter_mut().enumerate().for_each_init(
        || vec![0u16; (height + 1) * COLUMNS * stride],
        |sums, (k, pieces)| wide(ColumnAverages { pieces, sums, arms, first: k * COLUMNS, width, stride }),
    );
}

struct ColumnAverages<'a, 'b> {
    pieces: &'a mut [&'b mut [u8]],
    sums: &'a mut [u16],
    arms: &'a Arms,
    first: usize,
    width: usize,
    stride: usize,
}

impl Work for ColumnAverages<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Eight>(self) {
        let Self { pieces, sums, arms, first, width, stride } = self;
        let wide = pieces.first().map_or(0, |p| p.len());
        sums[..wide].fill(0);
        for (y, piece) in pieces.iter().enumerate() {
            let (before, after) = sums.split_at_mut((y + 1) * wide);
            add(&before[y * wide..], piece, &mut after[..wide]);
        }
        for (y, piece) in pieces.iter_mut().enumerate() {
            for (k, row) in piece.chunks_exact_mut(stride).enumerate() {
                let a = y * width + first + k;
                let (u, d) = (usize::from(arms.up[a]), usize::from(arms.down[a]));
                let (low, high) =
                    (&sums[(y - u) * wide + k * stride..], &sums[(y + d + 1) * wide + k * stride..]);
                average(&low[..stride], &high[..stride], u + d + 1, row);
            }
        }
    }
}

#[inline(always)]
fn add(sums: &[u16], costs: &[u8], out: &mut [u16]) {
    for ((o, &s), &c) in out.iter_mut().zip(sums).zip(costs) {
        *o = s.wrapping_add(u16::from(c));
    }
}

/// `(high - low) / count`, rounded.
#[inline(always)]
fn average(low: &[u16], high: &[u16], count: usize, out: &mut [u8]) {
    // A fixed-point reciprocal: sums are below 2^16, so the product's upper half is the quotient.
    let reciprocal = (65536 / count as u32 + 1).min(65535) as u16;
    let half = (count / 2) as u16;
    for ((o, &l), &h) in out.iter_mut().zip(low).zip(high) {
        let sum = h.wrapping_sub(l).wrapping_add(half);
        *o = ((u32::from(sum) * u32::from(reciprocal)) >> 16) as u8;
    }
}
