//! Sorting packed lattice points, so that those of several bands, and neighbours, are found by walking along lists.

use super::table::Word;

/// Bits that one pass sorts by.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// Lists shorter than this are sorted by comparisons.
const MIN_RADIX_LENGTH: usize = 3000;

/// Sorts entries by the lowest `bits` bits of their keys, all other bits being alike. Entries of one key stay in the
/// order of their numbers, in which they come.
pub(super) fn sort_entries<W: Word>(entries: &mut Vec<(W, u32)>, bits: u32) {
    if entries.len() < MIN_RADIX_LENGTH {
        entries.sort_unstable();
        return;
    }
    let passes = bits.div_ceil(DIGIT_BITS) as usize;
    let digit = |key: W, pass: usize| key.bits_from(pass as u32 * DIGIT_BITS) & (DIGITS - 1);
    let mut counts = vec![0u32; passes * DIGITS];
    for &(key, _) in entries.iter() {
        for (pass, counts) in counts.chunks_exact_mut(DIGITS).enumerate() {
            counts[digit(key, pass)] += 1;
        }
    }
    let mut other = vec![(W::ZERO, 0); entries.len()];
    for (pass, counts) in counts.chunks_exact_mut(DIGITS).enumerate() {
        if counts.iter().any(|&count| count as usize == entries.len()) {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        for &entry in entries.iter() {
            let place = &mut counts[digit(entry.0, pass)];
            other[*place as usize] = entry;
            *place += 1;
        }
        std::mem::swap(entries, &mut other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn entries_are_in_the_order_of_keys_and_numbers() {
        let mut rng = Rng::new(5);
        for (count, bits) in [(0, 9), (10, 40), (20_000, 7), (20_000, 23), (9000, 61)] {
            // Bits above those sorted by are the same in all keys; some digits are the same as well.
            let key = |rng: &mut Rng| (rng.next_u64() & ((1 << bits) - 1) & !(0x7ff << 11)) | 5 << bits;
            let mut entries: Vec<(u64, u32)> = (0..count).map(|k| (key(&mut rng), k)).collect();
            let mut long: Vec<(u128, u32)> =
                entries.iter().map(|&(k, n)| (u128::from(k) << 30 | 77, n)).collect();
            let mut expected = entries.clone();
            expected.sort();
            sort_entries(&mut entries, bits);
            assert!(entries == expected, "{count} keys of {bits} bits");
            sort_entries(&mut long, bits + 30);
            assert!(long.iter().zip(&expected).all(|(l, e)| l.0 >> 30 == u128::from(e.0) && l.1 == e.1));
        }
    }
}
