//! Sums of matching costs along eight straight paths (semi-global matching).
//!
//! Along each path the cost of a disparity grows by `small` where the disparity changes by one between neighbours and by
//! up to `large` where it changes by more; `large` shrinks where the colours differ, since surfaces end there.

use relaxcrf::filter::simd::{Eight, Work, wide};

use crate::pair::View;
use crate::volume::{GROUP, Volume};

/// Costs of changes along a path, on the scale of [`crate::volume::MAX_COST`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// Of a change by one.
    pub small: i16,
    /// Of any larger change, between equal colours.
    pub large: i16,
    /// Colour difference at which the large step is halved.
    pub contrast: f32,
}

impl Default for Steps {
    fn default() -> Self {
        Self { small: 40, large: 500, contrast: 10.0 }
    }
}

/// Larger than any path's cost.
const UNREACHABLE: i16 = 20_000;

/// Sums over eight paths, in rows of `volume.stride`.
pub(crate) fn sum_over_paths(volume: &Volume, view: &View, steps: &Steps) -> Vec<i16> {
    let pass = |upwards: bool| {
        let mut sums = vec![0i16; volume.costs.len()];
        wide(Pass { volume, view, steps: *steps, upwards, sums: &mut sums });
        sums
    };
    let (mut sums, other) = rayon::join(|| pass(false), || pass(true));
    wide(Add(&mut sums, &other));
    sums
}

struct Add<'a>(&'a mut [i16], &'a [i16]);

impl Work for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Eight>(self) {
        self.0.iter_mut().zip(self.1).for_each(|(s, &o)| *s += o);
    }
}

/// The four paths that arrive from rows already seen or from the pixel just seen.
struct Pass<'a> {
    volume: &'a Volume,
    view: &'a View,
    steps: Steps,
    upwards: bool,
    sums: &'a mut [i16],
}

/// Costs of one path at the pixels of a row: a slot of `stride + 2` per pixel with sentinels at both ends, and minima.
struct Line {
    costs: Vec<i16>,
    least: Vec<i16>,
}

impl Line {
    fn new(width: usize, slot: usize) -> Self {
        Self { costs: vec![UNREACHABLE; width * slot], least: vec![0; width] }
    }
}

impl Work for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Eight>(self) {
        let Self { volume, view, steps, upwards, sums } = self;
        let (width, height, stride) = (volume.width, volume.height, volume.stride);
        let slot = stride + 2;
        let mut before: [Line; 3] = std::array::from_fn(|_| Line::new(width, slot));
        let mut now: [Line; 3] = std::array::from_fn(|_| Line::new(width, slot));
        let mut beside = [vec![UNREACHABLE; slot], vec![UNREACHABLE; slot]];
        let mut shifted = vec![UNREACHABLE; slot];
        // Large steps by colour difference.
        let large: Vec<i16> = (0..=255)
            .map(|c| {
                (f32::from(steps.large) / (1.0 + c as f32 / steps.contrast)).max(f32::from(steps.small))
                    as i16
            })
            .collect();
        let difference = |a: usize, b: usize| {
            let (a, b) = (view.colours[a], view.colours[b]);
            a[0].abs_diff(b[0]).max(a[1].abs_diff(b[1])).max(a[2].abs_diff(b[2]))
        };
        for step in 0..height {
            let y = if upwards { height - 1 - step } else { step };
            let mut least_beside = 0;
            for k in 0..width {
                let x = if upwards { width - 1 - k } else { k };
                let a = y * width + x;
                let costs = &volume.costs[a * stride..][..stride];
                let total = &mut sums[a * stride..][..stride];
                // From the side.
                let [old, new] = &mut beside;
                if k == 0 {
                    least_beside = start(costs, new, total);
                } else {
                    let from = if upwards { a + 1 } else { a - 1 };
                    let large = large[usize::from(difference(a, from))];
                    let old = align(old, &mut shifted, volume.first(a), volume.first(from));
                    least_beside = advance(costs, old, least_beside, steps.small, large, new, total);
                }
                std::mem::swap(old, new);
                // From the row before.
                for (direction, (line, to)) in before.iter().zip(&mut now).enumerate() {
                    let new = &mut to.costs[x * slot..][..slot];
                    let from = (x + direction).wrapping_sub(1);
                    to.least[x] = if step == 0 || from >= width {
                        start(costs, new, total)
                    } else {
                        let b = if upwards { (y + 1) * width + from } else { (y - 1) * width + from };
                        let large = large[usize::from(difference(a, b))];
                        let old = &line.costs[from * slot..][..slot];
                        let old = align(old, &mut shifted, volume.first(a), volume.first(b));
                        advance(costs, old, line.least[from], steps.small, large, new, total)
                    };
                }
            }
            std::mem::swap(&mut before, &mut now);
        }
    }
}

/// The costs of a slot by the candidates of another pixel, whose first one may differ.
#[inline(always)]
fn align<'a>(old: &'a [i16], shifted: &'a mut [i16], first: usize, from: usize) -> &'a [i16] {
    if first == from {
        return old;
    }
    let n = old.len() - 2;
    shifted.fill(UNREACHABLE);
    if first > from {
        let shift = (first - from).min(n);
        // One before the first candidate is within reach of a small step.
        shifted[..=n - shift].copy_from_slice(&old[shift..=n]);
        shifted[n + 1 - shift..].fill(UNREACHABLE);
    } else {
        let shift = (from - first).min(n);
        shifted[1 + shift..].copy_from_slice(&old[1..=n + 1 - shift]);
    }
    shifted
}

/// The first pixel of a path. Returns its least cost.
#[inline(always)]
fn start(costs: &[u8], new: &mut [i16], total: &mut [i16]) -> i16 {
    let mut least = UNREACHABLE;
    for ((n, t), &c) in new[1..].iter_mut().zip(total).zip(costs) {
        let c = i16::from(c);
        *n = c;
        *t += c;
        least = least.min(c);
    }
    least
}

/// One pixel further along a path. Returns its least cost.
#[inline(always)]
fn advance(
    costs: &[u8],
    old: &[i16],
    least: i16,
    small: i16,
    large: i16,
    new: &mut [i16],
    total: &mut [i16],
) -> i16 {
    let n = costs.len();
    let (below, same, above) = (groups(&old[..n]), groups(&old[1..][..n]), groups(&old[2..][..n]));
    let (costs, _) = costs.as_chunks::<GROUP>();
    let (new, _) = new[1..][..n].as_chunks_mut::<GROUP>();
    let (total, _) = total.as_chunks_mut::<GROUP>();
    let jump = least + large;
    let mut lowest = [UNREACHABLE; GROUP];
    for (((((c, b), s), a), new), total) in costs.iter().zip(below).zip(same).zip(above).zip(new).zip(total) {
        for i in 0..GROUP {
            let near = b[i].min(a[i]) + small;
            let v = s[i].min(near).min(jump) - least + i16::from(c[i]);
            new[i] = v;
            total[i] += v;
            lowest[i] = lowest[i].min(v);
        }
    }
    lowest.into_iter().fold(UNREACHABLE, i16::min)
}

#[inline(always)]
fn groups(costs: &[i16]) -> &[[i16; GROUP]] {
    costs.as_chunks().0
}
