//! Lattice points packed into one machine word each, and the hash table that numbers them.
//!
//! All coordinates of a lattice point leave the same remainder k modulo d+1, so (q_1 .. q_d, k) with
//! x_i = (d+1) q_i + k says everything; the last coordinate follows from the sum. Packed side by side, the
//! neighbour along an axis is one addition away.

/// An unsigned word that holds a packed lattice point.
pub(in crate::lattice) trait Word: Copy + Eq + Send + Sync {
    const ZERO: Self;
    const BITS: u32;
    fn bit(shift: u32) -> Self;
    fn of(value: u64) -> Self;
    fn shl(self, by: u32) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    /// The value of the lowest `bits` bits.
    fn low(self, bits: u32) -> usize;
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
            fn low(self, bits: u32) -> usize {
                (self & ((1 << bits) - 1)) as usize
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
    /// Bit position of each stored coordinate; the remainder sits below them all.
    shift: Vec<u32>,
    remainder_bits: u32,
    /// Bits used in all.
    pub bits: u32,
}

impl Packing {
    /// Lays out coordinates with the given bounds (d+1 of them; the last is not stored).
    pub fn new(bounds: &[(i64, i64)]) -> Self {
        let dims = bounds.len() - 1;
        let remainder_bits = usize::BITS - dims.leading_zeros();
        let (mut origin, mut shift, mut bits) = (Vec::new(), Vec::new(), remainder_bits);
        for &(lo, hi) in &bounds[..dims] {
            origin.push(lo);
            shift.push(bits);
            bits += u64::BITS - ((hi - lo) as u64).leading_zeros();
        }
        Self { dims, origin, shift, remainder_bits, bits }
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

    /// From vertex k of a simplex to vertex k+1, where coordinate `falling` drops.
    #[inline(always)]
    pub fn next_vertex<W: Word>(&self, word: W, falling: usize) -> W {
        let up = word.plus(W::bit(0));
        if falling < self.dims { up.minus(W::bit(self.shift[falling])) } else { up }
    }

    /// Steps along `axis`: that coordinate gains d, all others lose one.
    pub fn axis<W: Word>(&self, axis: usize) -> Axis<W> {
        let within = match self.shift.get(axis) {
            Some(&shift) => W::bit(shift).minus(W::bit(0)),
            None => W::ZERO.minus(W::bit(0)),
        };
        let across = (0..self.dims)
            .filter(|&i| i != axis)
            .fold(W::of(self.dims as u64), |w, i| w.minus(W::bit(self.shift[i])));
        Axis { remainder_bits: self.remainder_bits, within, across }
    }
}

/// What to add to a packed point to get its neighbour along an axis.
#[derive(Debug, Clone, Copy)]
pub(in crate::lattice) struct Axis<W> {
    remainder_bits: u32,
    /// Where the remainder is not zero: it falls by one, and only the axis' own coordinate moves.
    within: W,
    /// Where it is: it becomes d, and all coordinates but the axis' own fall.
    across: W,
}

impl<W: Word> Axis<W> {
    #[inline(always)]
    pub fn forward(&self, word: W) -> W {
        word.plus(if word.low(self.remainder_bits) > 0 { self.within } else { self.across })
    }
}

/// Open addressing with linear probing; numbers keys in the order of their first insertion.
#[derive(Debug)]
pub(in crate::lattice) struct Table<W> {
    slots: Vec<(W, u32)>,
    keys: Vec<W>,
    /// Right shift that leaves as many bits of the hash as there are slots.
    shift: u32,
}

const EMPTY: u32 = u32::MAX;

impl<W: Word> Table<W> {
    pub fn with_capacity(expected: usize) -> Self {
        let size = (expected.max(16) * 2).next_power_of_two();
        Self {
            slots: vec![(W::ZERO, EMPTY); size],
            keys: Vec::new(),
            shift: u64::BITS - size.trailing_zeros(),
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// All keys by number, and nothing else.
    pub fn into_keys(self) -> Vec<W> {
        self.keys
    }

    /// All keys by number.
    pub fn keys(&self) -> &[W] {
        &self.keys
    }

    #[inline(always)]
    fn find(&self, key: W) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (key.hash() >> self.shift) as usize;
        while self.slots[at].1 != EMPTY && self.slots[at].0 != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// The key's number, if it was inserted.
    #[inline(always)]
    pub fn get(&self, key: W) -> Option<u32> {
        let number = self.slots[self.find(key)].1;
        (number != EMPTY).then_some(number)
    }

    /// The key's number, a new one if it was not seen before; `None` when 32 bits run out.
    pub fn insert(&mut self, key: W) -> Option<u32> {
        let at = self.find(key);
        if self.slots[at].1 != EMPTY {
            return Some(self.slots[at].1);
        }
        if self.keys.len() >= EMPTY as usize {
            return None;
        }
        let number = self.keys.len() as u32;
        self.slots[at] = (key, number);
        self.keys.push(key);
        if self.keys.len() * 2 > self.slots.len() {
            self.grow();
        }
        Some(number)
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        self.shift -= 1;
        self.slots = vec![(W::ZERO, EMPTY); size];
        for number in 0..self.keys.len() {
            let at = self.find(self.keys[number]);
            self.slots[at] = (self.keys[number], number as u32);
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
                assert_eq!(table.insert(i * i + 7), Some(i as u32), "round {round}");
            }
        }
        assert_eq!(table.len(), 1000);
        assert_eq!(table.get(7), Some(0));
        assert_eq!(table.get(8), Some(1));
        assert_eq!(table.get(9), None);
    }

    #[test]
    fn forward_steps_along_all_axes_return_to_the_start() {
        for dims in 1..7 {
            let packing = Packing::new(&vec![(-20, 20); dims + 1]);
            let start: u128 = packing.pack(|_| 3);
            let mut word = start;
            for axis in 0..=dims {
                word = packing.axis(axis).forward(word);
                assert!(axis == dims || word != start);
            }
            assert_eq!(word, start, "the d+1 unit steps sum to zero");
        }
    }
}
