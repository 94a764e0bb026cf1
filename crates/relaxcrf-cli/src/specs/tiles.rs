//! Sizes of tiles.

use std::str::FromStr;

use super::Parsed;

/// `auto`, or a number of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeSpec {
    /// Found out.
    Auto,
    /// So many.
    Pixels(usize),
}

impl FromStr for SizeSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(pixels) if pixels <= 1 << 30 => Ok(Self::Pixels(pixels)),
            _ => Err("expected `auto` or a number of pixels".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tile_sizes_are_auto_or_a_number_of_pixels() {
        assert_eq!("auto".parse(), Ok(SizeSpec::Auto));
        assert_eq!("512".parse(), Ok(SizeSpec::Pixels(512)));
        for bad in ["", "-1", "1.5", "big", "99999999999"] {
            assert!(bad.parse::<SizeSpec>().is_err(), "{bad}");
        }
    }
}
