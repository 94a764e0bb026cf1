//! Option values of `batch`, and amounts of memory.

use std::fmt;
use std::str::FromStr;

use super::Parsed;

/// Units of memory: decimal and binary ones, as they are usually meant.
const UNITS: [(&str, f64); 9] = [
    ("kib", 1024.0),
    ("mib", 1048576.0),
    ("gib", 1073741824.0),
    ("tib", 1099511627776.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("b", 1.0),
];

/// An amount of memory such as `2GiB`, `500MB`; a bare number is bytes.
pub fn bytes(text: &str) -> Parsed<u64> {
    let expected = "expected an amount of memory such as 2GiB, 500MB or 1.5g";
    let small = text.trim().to_ascii_lowercase();
    // A single letter means the binary unit.
    let long = match small.chars().last() {
        Some('k' | 'm' | 'g' | 't') => format!("{small}ib"),
        _ => small,
    };
    let (digits, unit) = UNITS
        .iter()
        .find_map(|&(name, unit)| long.strip_suffix(name).map(|digits| (digits, unit)))
        .unwrap_or((&long, 1.0));
    match digits.trim().parse::<f64>().map(|amount| amount * unit) {
        Ok(amount) if (1.0..=1e18).contains(&amount) => Ok(amount as u64),
        _ => Err(expected.into()),
    }
}

/// An amount of memory for people.
pub fn shown_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    let (unit, name) =
        UNITS[..3].iter().rev().find(|(_, unit)| value >= *unit).map_or((1.0, "bytes"), |(name, unit)| {
            (
                *unit,
                if *name == "gib" {
                    "GiB"
                } else if *name == "mib" {
                    "MiB"
                } else {
                    "KiB"
                },
            )
        });
    if unit == 1.0 { format!("{bytes} {name}") } else { format!("{:.1} {name}", value / unit) }
}

/// One of several parts of a list: `2/5` is the second of five.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub part: usize,
    /// How many parts there are.
    pub of: usize,
}

impl Shard {
    /// Whether the item at this place of the whole list belongs here.
    pub fn has(&self, place: usize) -> bool {
        place % self.of == self.part - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let parts = text.split_once('/').map(|(i, n)| (i.trim().parse(), n.trim().parse()));
        match parts {
            Some((Ok(part), Ok(of))) if part >= 1 && part <= of => Ok(Self { part, of }),
            _ => Err("expected I/N with I from 1 to N, such as 2/5 for the second of five parts".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_amounts_are_read_with_units_and_shown_in_binary_ones() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("2g"), Ok(2 << 30));
        assert_eq!(bytes("500 MB"), Ok(500_000_000));
        assert_eq!(bytes("1.5k"), Ok(1536));
        assert_eq!(bytes("4096"), Ok(4096));
        for bad in ["", "GiB", "-1g", "0", "1xb", "inf", "1e30"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(shown_bytes(3 << 29), "1.5 GiB");
        assert_eq!(shown_bytes(1 << 20), "1.0 MiB");
        assert_eq!(shown_bytes(17), "17 bytes");
    }

    #[test]
    fn every_item_belongs_to_exactly_one_shard() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"].iter().map(|s| s.parse().unwrap()).collect();
        for place in 0..20 {
            assert_eq!(shards.iter().filter(|s| s.has(place)).count(), 1);
        }
        for bad in ["", "0/3", "4/3", "1", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
