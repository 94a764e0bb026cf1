//! How much a file may ask for.

use std::path::Path;

use relaxcrf::error::{Error, Result};
use relaxcrf::memory;

/// Most pixels of one picture or label map: 2^28, a square of 16 384.
pub const MAX_PIXELS: usize = 1 << 28;

/// Most values of one array: 2^33, 32 GiB as `f32`.
pub const MAX_VALUES: usize = 1 << 33;

/// No picture format here packs more pixels than this into a byte, even for a blank page (fax coding).
const PIXELS_PER_BYTE: u64 = 1 << 15;

/// The number of pixels of a `width x height` picture in a file of `length` bytes, if that is believable.
pub(super) fn check_pixels(path: &Path, width: u64, height: u64, length: u64) -> Result<usize> {
    let claims = format!("the header claims {width} x {height} pixels");
    let pixels = match width.checked_mul(height) {
        Some(0) => return Err(Error::file(path, format!("{claims}; expected at least one"))),
        Some(n) if n <= MAX_PIXELS as u64 => n,
        _ => return Err(Error::file(path, format!("{claims}; at most {MAX_PIXELS} are read"))),
    };
    check_values(path, &claims, pixels, length)?;
    Ok(pixels as usize)
}

/// As [`check_pixels`] for a picture that is about to be decoded as a whole. Decoders take their memory without asking: that
/// for three colours, and the numbers made of them.
pub(super) fn check_whole(path: &Path, width: u64, height: u64, length: u64) -> Result<usize> {
    let pixels = check_pixels(path, width, height, length)?;
    match memory::is_given(pixels as u64 * 3 * (1 + 4)) {
        true => Ok(pixels),
        false => Err(Error::file(path, format!("holds {pixels} pixels, more than memory has room for"))),
    }
}

/// The same for a picture of several bands, which are stored apart or side by side.
pub(super) fn check_bands(path: &Path, width: u64, height: u64, bands: u64, length: u64) -> Result<()> {
    let pixels = check_pixels(path, width, height, length)? as u64;
    let claims = format!("the header claims {width} x {height} pixels of {bands} bands");
    check_values(path, &claims, pixels.saturating_mul(bands), length)
}

fn check_values(path: &Path, claims: &str, values: u64, length: u64) -> Result<()> {
    if values / PIXELS_PER_BYTE > length {
        return Err(Error::file(path, format!("{claims}, but the file has only {length} bytes")));
    }
    Ok(())
}

/// The product of a shape's sizes, if memory can hold such an array.
pub(super) fn check_shape(path: &Path, shape: &[usize]) -> Result<usize> {
    let product = shape.iter().try_fold(1usize, |n, &side| n.checked_mul(side));
    match product {
        Some(n) if n <= MAX_VALUES => Ok(n),
        _ => Err(Error::file(
            path,
            format!("the header claims an array of {}; at most {MAX_VALUES} values are read", by(shape)),
        )),
    }
}

/// An empty vector with room for `n` values, or an error instead of an abort when memory is short: also for a copy, which
/// most files are turned into.
pub(super) fn reserve<T>(path: &Path, n: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    let bytes = (n as u64).saturating_mul(2 * size_of::<T>() as u64);
    match memory::is_given(bytes) && v.try_reserve_exact(n).is_ok() {
        true => Ok(v),
        false => Err(Error::file(path, format!("holds {n} values, more than memory has room for"))),
    }
}

/// As many zeros, or an error instead of an abort when memory is short.
pub(super) fn zeros(path: &Path, n: usize) -> Result<Vec<f32>> {
    let mut v = reserve(path, n)?;
    v.resize(n, 0.0);
    Ok(v)
}

/// A shape as people write it: `21 x 320 x 213`.
pub(super) fn by(shape: &[usize]) -> String {
    if shape.is_empty() {
        return "a single value".into();
    }
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_file_are_errors() {
        let p = Path::new("big.png");
        assert_eq!(check_pixels(p, 640, 480, 1000).unwrap(), 307_200);
        for (w, h) in [(0, 5), (u64::MAX, 2), (1 << 20, 1 << 20)] {
            assert!(check_pixels(p, w, h, u64::MAX).unwrap_err().to_string().contains("big.png"));
        }
        let lie = check_pixels(p, 10_000, 10_000, 100).unwrap_err().to_string();
        assert!(lie.contains("only 100 bytes"), "{lie}");
        assert!(check_bands(p, 3, 4098, 4, 448).is_ok());
        let lie = check_bands(p, 3, 4098, 64773, 448).unwrap_err().to_string();
        assert!(lie.contains("3 x 4098 pixels of 64773 bands, but the file has only 448 bytes"), "{lie}");
        assert!(check_bands(p, 1 << 14, 1 << 14, u64::MAX, 1 << 40).is_err());
        assert!(check_shape(p, &[usize::MAX, 2]).is_err());
        assert!(check_shape(p, &[1 << 20, 1 << 20]).is_err());
        assert_eq!(check_shape(p, &[]).unwrap(), 1);
        assert!(reserve::<u64>(p, usize::MAX).is_err());
    }
}
