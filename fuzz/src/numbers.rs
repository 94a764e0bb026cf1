//! Numbers made from bytes: mostly of a reasonable size, sometimes anything.

use arbitrary::Unstructured;

/// The next byte; zero when there are none left.
pub fn byte(data: &mut Unstructured) -> u8 {
    data.arbitrary().unwrap_or(0)
}

/// A whole number from 0 to `most`.
pub fn up_to(data: &mut Unstructured, most: usize) -> usize {
    usize::from(byte(data)) % (most + 1)
}

/// One of `all`.
pub fn one_of<T: Copy>(data: &mut Unstructured, all: &[T]) -> T {
    all[up_to(data, all.len() - 1)]
}

/// A number: small, repeated, at the edge of what is allowed, or any bits at all.
pub fn number(data: &mut Unstructured, odd: &[f32]) -> f32 {
    match byte(data) {
        kind @ 0..=31 => odd[usize::from(kind) % odd.len()],
        32..=47 => f32::from_bits(data.arbitrary().unwrap_or(0)),
        48..=95 => 0.25 * f32::from(byte(data) % 8),
        _ => f32::from(data.arbitrary::<i16>().unwrap_or(0)) / 1024.0,
    }
}

/// A given number of numbers.
pub fn numbers(data: &mut Unstructured, count: usize, odd: &[f32]) -> Vec<f32> {
    (0..count).map(|_| number(data, odd)).collect()
}
