//! NumPy's `.npy` format: any real type, either byte order, either memory order.
//!
//! Written here rather than taken from a crate because half precision, huge false headers and exact label
//! conversion all need care, and the format is small.

mod header;
#[cfg(test)]
mod tests;
mod window;

use std::io::Read;
use std::path::Path;

use self::header::{Class, Header};
pub(super) use self::window::{NpyWindows, write_by_window};
use super::atomic::write_atomically;
use super::limits::{by, check_shape, reserve};
use relaxcrf::error::{Error, Result};

/// Bytes decoded at a time. A multiple of every element size.
const BLOCK: usize = 1 << 16;

/// One element before its conversion.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Uint(u64),
    Float(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(v) => v.fmt(f),
            Self::Uint(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
        }
    }
}

/// What an array can be read as.
pub(super) trait Sample: Copy {
    /// Whether floating-point files make sense for this type at all.
    const FLOATS: bool;
    /// The values accepted, for messages.
    const EXPECTED: &'static str;
    /// The value, unless it has no meaning in this type.
    fn convert(number: Number) -> Option<Self>;
}

impl Sample for f32 {
    const FLOATS: bool = true;
    const EXPECTED: &'static str = "numbers";
    fn convert(number: Number) -> Option<Self> {
        Some(match number {
            Number::Int(v) => v as f32,
            Number::Uint(v) => v as f32,
            Number::Float(v) => v as f32,
        })
    }
}

impl Sample for u16 {
    const FLOATS: bool = false;
    const EXPECTED: &'static str = "integers from 0 to 65535";
    fn convert(number: Number) -> Option<Self> {
        match number {
            Number::Int(v) => v.try_into().ok(),
            Number::Uint(v) => v.try_into().ok(),
            Number::Float(_) => None,
        }
    }
}

/// Reads one array of at most `length` bytes, header included, into C order.
///
/// Bytes after the array are ignored, as NumPy does: a file may hold several arrays in a row.
pub(super) fn read<T: Sample>(
    path: &Path,
    source: &mut dyn Read,
    length: u64,
) -> Result<(Vec<usize>, Vec<T>)> {
    let header = Header::read(path, source, length)?;
    if header.class == Class::Float && !T::FLOATS {
        return Err(Error::file(
            path,
            format!("holds floating-point numbers; expected {} (convert with .astype)", T::EXPECTED),
        ));
    }
    let n = check_shape(path, &header.shape)?;
    let left = length - header.bytes;
    let needed = n as u64 * header.size as u64;
    if needed > left {
        return Err(Error::file(
            path,
            format!(
                "the header claims an array of {} with {} bytes each ({needed} bytes), but only {left} bytes follow; \
                 the file is cut off or damaged",
                by(&header.shape),
                header.size
            ),
        ));
    }
    let values = decode_any(path, source, n, &header)?;
    let values = if header.fortran { to_c_order(path, &header.shape, &values)? } else { values };
    Ok((header.shape, values))
}

/// The shape of an array, from its header alone.
pub(super) fn shape(path: &Path, source: &mut dyn Read, length: u64) -> Result<Vec<usize>> {
    let header = Header::read(path, source, length)?;
    check_shape(path, &header.shape)?;
    Ok(header.shape)
}

fn decode_any<T: Sample>(path: &Path, source: &mut dyn Read, n: usize, header: &Header) -> Result<Vec<T>> {
    let big = header.big_endian;
    match (header.class, header.size) {
        (Class::Bool, _) => decode(path, source, n, big, |[b]: [u8; 1]| Number::Uint(u64::from(b != 0))),
        (Class::Uint, 1) => decode(path, source, n, big, |[b]: [u8; 1]| Number::Uint(u64::from(b))),
        (Class::Uint, 2) => decode(path, source, n, big, |b| Number::Uint(u64::from(u16::from_le_bytes(b)))),
        (Class::Uint, 4) => decode(path, source, n, big, |b| Number::Uint(u64::from(u32::from_le_bytes(b)))),
        (Class::Uint, _) => decode(path, source, n, big, |b| Number::Uint(u64::from_le_bytes(b))),
        (Class::Int, 1) => decode(path, source, n, big, |b| Number::Int(i64::from(i8::from_le_bytes(b)))),
        (Class::Int, 2) => decode(path, source, n, big, |b| Number::Int(i64::from(i16::from_le_bytes(b)))),
        (Class::Int, 4) => decode(path, source, n, big, |b| Number::Int(i64::from(i32::from_le_bytes(b)))),
        (Class::Int, _) => decode(path, source, n, big, |b| Number::Int(i64::from_le_bytes(b))),
        (Class::Float, 2) => {
            decode(path, source, n, big, |b| Number::Float(half_to_f64(u16::from_le_bytes(b))))
        }
        (Class::Float, 4) => {
            decode(path, source, n, big, |b| Number::Float(f64::from(f32::from_le_bytes(b))))
        }
        (Class::Float, _) => decode(path, source, n, big, |b| Number::Float(f64::from_le_bytes(b))),
    }
}

/// Streams `n` elements of `S` bytes through `number`, without a second copy of the file.
fn decode<T: Sample, const S: usize>(
    path: &Path,
    source: &mut dyn Read,
    n: usize,
    big_endian: bool,
    number: impl Fn([u8; S]) -> Number,
) -> Result<Vec<T>> {
    let mut values = reserve(path, n)?;
    let mut block = vec![0u8; BLOCK.min(n.saturating_mul(S))];
    while values.len() < n {
        let bytes = block.len().min((n - values.len()) * S);
        source
            .read_exact(&mut block[..bytes])
            .map_err(|e| Error::file(path, format!("the array's data cannot be read: {e}")))?;
        for element in block[..bytes].chunks_exact(S) {
            let mut raw = [0; S];
            raw.copy_from_slice(element);
            if big_endian {
                raw.reverse();
            }
            let value = number(raw);
            values.push(T::convert(value).ok_or_else(|| {
                Error::file(
                    path,
                    format!("holds {value} at element {}; expected {}", values.len(), T::EXPECTED),
                )
            })?);
        }
    }
    Ok(values)
}

/// The value of an IEEE half-precision number; every one is exact in `f64`.
fn half_to_f64(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 1023);
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Reorders column-major values (first index fastest) to row-major.
fn to_c_order<T: Copy>(path: &Path, shape: &[usize], values: &[T]) -> Result<Vec<T>> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &side in shape {
        strides.push(stride);
        stride *= side;
    }
    let mut out = reserve(path, values.len())?;
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    while out.len() < values.len() {
        out.push(values[at]);
        // Count up like an odometer, the last index fastest, keeping `at` in step.
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    Ok(out)
}

/// Writes a C-order array of `f32` (`<f4`). Fails when the shape and the data disagree.
pub fn write_npy_f32(path: &Path, shape: &[usize], data: &[f32]) -> Result<()> {
    write(path, "<f4", shape, data, |v| v.to_le_bytes())
}

/// Writes `data` as the type `descr`, whose little-endian bytes `bytes` gives.
pub(super) fn write<T: Copy, const S: usize>(
    path: &Path,
    descr: &str,
    shape: &[usize],
    data: &[T],
    bytes: impl Fn(T) -> [u8; S],
) -> Result<()> {
    if shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s)) != Some(data.len()) {
        return Err(Error::shape(
            format!("array for {}", path.display()),
            format!("{} values", data.len()),
            by(shape),
        ));
    }
    let header = header::bytes(descr, shape);
    write_atomically(path, |out| {
        out.write_all(&header)?;
        let mut block = Vec::with_capacity(BLOCK);
        for part in data.chunks(BLOCK / S) {
            block.clear();
            part.iter().for_each(|&v| block.extend(bytes(v)));
            out.write_all(&block)?;
        }
        Ok(())
    })
}
