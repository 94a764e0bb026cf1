//! Lattice points packed into one machine word each, and the hash table that numbers those of a band.
//!
//! All coordinates of a lattice point leave the same remainder k modulo d+1, so (q_1 .. q_d, k) with
//! x_i = (d+1) q_i + k says everything; the last coordinate follows from the sum. Packed side by side, with the
//! remainder highest, the neighbour along an axis is one addition away, and points of one remainder that differ by the
//! same step are in the same order.

use crate::simd::prefetch;

/// An unsigned word that holds a packed lattice point.
pub(in crate::lattice) trait Word: Copy + Ord + Send + Sync + std::fmt::Debug {
    const ZERO: Self;
    const BITS: u32;
    fn bit(shift: u32) -> Self;
    fn of(value: u64) -> Self;
    fn shl(self, by: u32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    /// The bits from `shift` on, as many as a number holds.
    fn bits_from(self, shift: u32) -> usize;
    fn hash(self) -> u64;
}

const FIBONACCI: u64 = 0x9e37_79b9_7f4a_7c15;

macro_rules! word {
    ($t:ty, $self:ident => $hash:expr) => {
        impl Word for $t {
            const ZERO: Self = 0;
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn bit(shift: u32) -> Self {
                1 << shift
            }
            #[inline(always)]
            fn of(value: u64) -> Self {
                value.into()
            }
            #[inline(always)]
            fn shl(self, by: u32) -> Self {
                self << by
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn bits_from(self, shift: u32) -> usize {
                (self >> shift) as usize
            }
            #[inline(always)]
            fn hash($self) -> u64 {
                $hash
            }
        }
    };
}
word!(u64, self => self.wrapping_mul(FIBONACCI));
word!(u128, self => ((self as u64) ^ ((self >> 64) as u64).wrapping_mul(FIBONACCI).rotate_left(29)).wrapping_mul(FIBONACCI));

/// How coordinates are laid out in a word.
#[derive(Debug, Clone)]
pub(in crate::lattice) struct Packing {
    dims: usize,
    /// Smallest value of each stored coordinate.
    origin: Vec<i64>,
    /// Bit position of each stored coordinate.
    shift: Vec<u32>,
    /// Bits of the coordinates; the remainder stands above them all.
    pub coordinate_bits: u32,
    /// Bits used in all.
    pub bits: u32,
}

impl Packing {
    /// Lays out coordinates with the given bounds (d+1 of them; the last is not stored).
    pub fn new(bounds: &[(i64, i64)]) -> Self {
        let dims = bounds.len() - 1;
        let (mut origin, mut shift, mut bits) = (Vec::new(), Vec::new(), 0);
        for &(lo, hi) in &bounds[..dims] {
            origin.push(lo);
            shift.push(bits);
            bits += u64::BITS - ((hi - lo) as u64).leading_zeros();
        }
        let remainder_bits = usize::BITS - dims.leading_zeros();
        Self { dims, origin, shift, coordinate_bits: bits, bits: bits + remainder_bits }
    }

    /// The packed remainder-0 vertex of a simplex, from its coordinates divided by d+1.
    #[inline(always)]
    pub fn pack<W: Word>(&self, base: impl Fn(usize) -> i64) -> W {
        let mut word = W::ZERO;
        for (i, (&origin, &shift)) in self.origin.iter().zip(&self.shift).enumerate() {
            word = word.plus(W::of((base(i) - origin) as u64).shl(shift));
        }
        word
    }

    /// [`Packing::pack`] of several points at once.
    #[inline(always)]
    pub fn pack_lanes<W: Word, const L: usize>(&self, base: &[[i64; L]]) -> [W; L] {
        let mut words = [W::ZERO; L];
        for ((&origin, &shift), base) in self.origin.iter().zip(&self.shift).zip(base) {
            for l in 0..L {
                words[l] = words[l].plus(W::of((base[l] - origin) as u64).shl(shift));
            }
        }
        words
    }

    /// What to add to vertex k of a simplex for vertex k+1, where coordinate `falling` drops.
    pub fn rise<W: Word>(&self, falling: usize) -> W {
        let up = W::bit(self.coordinate_bits);
        self.shift.get(falling).map_or(up, |&shift| up.minus(W::bit(shift)))
    }

    /// What to add to a point of remainder `remainder` for its neighbour along `axis`, where that coordinate gains d and
    /// all others lose one: the remainder falls by one (from 0 to d).
    pub fn step<W: Word>(&self, axis: usize, remainder: usize) -> W {
        if remainder > 0 {
            // Only the axis' own coordinate moves.
            let own = self.shift.get(axis).map_or(W::ZERO, |&shift| W::bit(shift));
            return own.minus(W::bit(self.coordinate_bits));
        }
        // All coordinates except the axis' own fall.
        let others = (0..self.dims).filter(|&i| i != axis);
        let up = W::of(self.dims as u64).shl(self.coordinate_bits);
        others.fold(up, |w, i| w.minus(W::bit(self.shift[i])))
    }
}

/// Open addressing with linear probing; numbers keys in the order of their first insertion.
#[derive(Debug)]
pub(in crate::lattice) struct Table<W> {
    slots: Vec<(W, u32)>,
    len: usize,
    /// Right shift that leaves as many bits of the hash as there are slots.
    shift: u32,
}

const EMPTY: u32 = u32::MAX;

/// A key's number, or that of the last key when 32 bits ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inserted {
    pub number: u32,
    pub is_new: bool,
}

impl<W: Word> Table<W> {
    pub fn with_capacity(expected: usize) -> Self {
        let mut table = Self { slots: Vec::new(), len: 0, shift: 0 };
        table.reset(expected);
        table
    }

    /// Empties the table and makes room for `expected` keys.
    pub fn reset(&mut self, expected: usize) {
        let size = (expected.max(16) * 2).next_power_of_two();
        self.slots.clear();
        self.slots.resize(size, (W::ZERO, EMPTY));
        self.len = 0;
        self.shift = u64::BITS - size.trailing_zeros();
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn slot(&self, key: W) -> usize {
        (key.hash() >> self.shift) as usize
    }

    /// Fetches what [`Table::insert`] will need for the key.
    #[inline(always)]
    pub fn prefetch(&self, key: W) {
        prefetch(&self.slots, self.slot(key));
    }

    /// The key's number, a new one if it was not seen before.
    #[inline(always)]
    pub fn insert(&mut self, key: W) -> Inserted {
        let mask = self.slots.len() - 1;
        let mut at = self.slot(key);
        loop {
            let (there, number) = self.slots[at];
            if number == EMPTY {
                break;
            }
            if there == key {
                return Inserted { number, is_new: false };
            }
            at = (at + 1) & mask;
        }
        let number = self.len.min(EMPTY as usize - 1) as u32;
        self.slots[at] = (key, number);
        self.len += 1;
        Inserted { number, is_new: true }
    }

    /// Whether the table has room for so many more keys.
    #[inline(always)]
    pub fn has_room(&self, more: usize) -> bool {
        (self.len + more) * 2 <= self.slots.len()
    }

    /// Makes room for so many keys in all, at least twice as many as now.
    #[cold]
    pub fn grow(&mut self, expected: usize) {
        let size = (expected * 2).next_power_of_two().max(self.slots.len() * 2);
        let old = std::mem::replace(&mut self.slots, vec![(W::ZERO, EMPTY); size]);
        self.shift = u64::BITS - size.trailing_zeros();
        for (key, number) in old.into_iter().filter(|&(_, number)| number != EMPTY) {
            let mut at = self.slot(key);
            while self.slots[at].1 != EMPTY {
                at = (at + 1) & (size - 1);
            }
            self.slots[at] = (key, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keys_in_order_of_first_use() {
        let mut table = Table::<u64>::with_capacity(1);
        for round in 0..2 {
            for i in 0..1000u64 {
                if !table.has_room(1) {
                    table.grow(0);
                }
                table.prefetch(i * i + 7);
                let expected = Inserted { number: i as u32, is_new: round == 0 };
                assert_eq!(table.insert(i * i + 7), expected, "round {round}");
            }
        }
        assert_eq!(table.len(), 1000);
        table.reset(3);
        assert_eq!((table.len(), table.insert(9).number), (0, 0));
    }

    #[test]
    fn forward_steps_along_all_axes_return_to_the_start() {
        for dims in 1..7 {
            let packing = Packing::new(&vec![(-20, 20); dims + 1]);
            let start: u128 = packing.pack(|_| 3);
            let mut word = start;
            for axis in 0..=dims {
                word = word.plus(packing.step(axis, word.bits_from(packing.coordinate_bits)));
                assert!(axis == dims || word != start);
            }
            assert_eq!(word, start, "the d+1 unit steps sum to zero");
        }
    }
}
