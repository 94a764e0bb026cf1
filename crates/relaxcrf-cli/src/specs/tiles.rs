//! Sizes of tiles and of memory.

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
            _ => Err("wanted `auto` or a number of pixels".into()),
        }
    }
}

/// An amount of memory in bytes: `800M`, `2GiB`, `1.5G`. K, M, G and T are powers of 1024.
pub fn memory(text: &str) -> Parsed<u64> {
    let wanted = || "wanted an amount of memory such as 800M or 2GiB".to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let power = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wanted()),
    };
    let amount: f64 = digits.trim().parse().map_err(|_| wanted())?;
    let bytes = amount * f64::from(power).exp2();
    if (1.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wanted()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_amounts() {
        assert_eq!("auto".parse(), Ok(SizeSpec::Auto));
        assert_eq!("512".parse(), Ok(SizeSpec::Pixels(512)));
        for bad in ["", "-1", "1.5", "big", "99999999999"] {
            assert!(bad.parse::<SizeSpec>().is_err(), "{bad}");
        }
        assert_eq!(memory("2GiB"), Ok(2 << 30));
        assert_eq!(memory("1.5G"), Ok(3 << 29));
        assert_eq!(memory("800m"), Ok(800 << 20));
        assert_eq!(memory("4096"), Ok(4096));
        for bad in ["", "G", "2 apples", "-1G", "nan", "inf", "1e40G", "0"] {
            assert!(memory(bad).is_err(), "{bad}");
        }
    }
}
