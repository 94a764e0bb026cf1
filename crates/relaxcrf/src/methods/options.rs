//! Options of methods: `lp:dc,bins=32` has the flag `dc` and the count `bins`.

use std::fmt;

use crate::error::{Error, Result};

/// Most options that a method has.
const MAX_OPTIONS: usize = 8;

/// One option of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MethodOption {
    /// Name, as in `name` for a flag and `name=value` for a number.
    pub name: &'static str,
    /// What it sets.
    pub summary: &'static str,
    kind: Kind,
    default: f64,
}

/// The values that an option accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Flag,
    Count { least: usize, most: usize },
    Number { most: f32 },
}

impl MethodOption {
    /// On if it is given.
    pub(super) const fn flag(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, kind: Kind::Flag, default: 0.0 }
    }

    /// A whole number from `least` to `most`.
    pub(super) const fn count(
        name: &'static str,
        summary: &'static str,
        (least, most): (usize, usize),
        default: usize,
    ) -> Self {
        Self { name, summary, kind: Kind::Count { least, most }, default: default as f64 }
    }

    /// A number above 0, at most `most`.
    pub(super) const fn number(name: &'static str, summary: &'static str, most: f32, default: f32) -> Self {
        Self { name, summary, kind: Kind::Number { most }, default: default as f64 }
    }

    fn accepts(&self, value: f64) -> bool {
        match self.kind {
            Kind::Flag => value == 0.0 || value == 1.0,
            Kind::Count { least, most } => {
                value.fract() == 0.0 && (least as f64..=most as f64).contains(&value)
            }
            Kind::Number { most } => value > 0.0 && value <= f64::from(most),
        }
    }

    fn parse(&self, text: &str) -> Option<f64> {
        let value = match self.kind {
            Kind::Flag => None,
            Kind::Count { .. } => text.parse::<usize>().ok().map(|n| n as f64),
            Kind::Number { .. } => text.parse::<f32>().ok().map(f64::from),
        };
        value.filter(|&v| self.accepts(v))
    }

    /// The accepted values in words.
    pub(super) fn expected(&self) -> String {
        match self.kind {
            Kind::Flag => "no value".into(),
            Kind::Count { least, most } => format!("a whole number from {least} to {most}"),
            Kind::Number { most: f32::MAX } => "a number above 0".into(),
            Kind::Number { most } => format!("a number above 0 and at most {most}"),
        }
    }
}

impl fmt::Display for MethodOption {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.kind {
            Kind::Flag => f.write_str(self.name),
            Kind::Count { .. } => write!(f, "{}=N", self.name),
            Kind::Number { .. } => write!(f, "{}=X", self.name),
        }
    }
}

/// The values of a method's options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Options {
    known: &'static [MethodOption],
    values: [f64; MAX_OPTIONS],
}

impl Options {
    /// The default of every option.
    pub const fn defaults(known: &'static [MethodOption]) -> Self {
        let mut values = [0.0; MAX_OPTIONS];
        let mut k = 0;
        while k < known.len() {
            values[k] = known[k].default;
            k += 1;
        }
        Self { known, values }
    }

    /// The value of an option; `None` if there is no such option. A flag is 0 or 1.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.known.iter().position(|o| o.name == name).map(|k| self.values[k])
    }

    /// Sets an option; fails with the reason if there is no such option or it does not accept the value.
    pub fn set(&mut self, name: &str, value: f64) -> std::result::Result<(), String> {
        let Some(k) = self.known.iter().position(|o| o.name == name) else { return Err(self.unknown(name)) };
        if !self.known[k].accepts(value) {
            return Err(format!(
                "`{value}` is not a value for `{name}`; expected {}",
                self.known[k].expected()
            ));
        }
        self.values[k] = value;
        Ok(())
    }

    /// Sets the first option, whatever the number.
    pub fn set_first(&mut self, value: f64) {
        self.values[0] = value;
    }

    /// Reads `flag,name=value`. The first `hidden` options cannot be given. `text` is what an error quotes.
    pub fn parse(&mut self, list: &str, hidden: usize, text: &str) -> Result<()> {
        let refuse = |why: String| Err(Error::parse("method", text, why));
        let mut given = [false; MAX_OPTIONS];
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let (name, value) =
                item.split_once('=').map_or((item, None), |(name, value)| (name, Some(value)));
            let is_named = |o: &MethodOption| o.name == name;
            let Some(k) = self.known.iter().skip(hidden).position(is_named).map(|k| k + hidden) else {
                return refuse(self.unknown(name));
            };
            let option = &self.known[k];
            if std::mem::replace(&mut given[k], true) {
                return refuse(format!("option `{name}` is given twice"));
            }
            self.values[k] = match (option.kind, value) {
                (Kind::Flag, None) => 1.0,
                (_, value) => match option.parse(value.unwrap_or("")) {
                    Some(value) => value,
                    None => {
                        let (value, expected) = (value.unwrap_or(""), option.expected());
                        return refuse(format!("`{value}` is not a value for `{name}`; expected {expected}"));
                    }
                },
            };
        }
        Ok(())
    }

    fn unknown(&self, name: &str) -> String {
        let known = self.known.iter().map(MethodOption::to_string).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".into() } else { known };
        format!("it has no option `{name}`; its options: {known}")
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.of_own(name) == 1.0
    }

    /// The value of a count.
    pub fn count(&self, name: &str) -> usize {
        self.of_own(name) as usize
    }

    /// The value of a number.
    pub fn number(&self, name: &str) -> f32 {
        self.of_own(name) as f32
    }

    /// The value of an option that the method asks for itself.
    fn of_own(&self, name: &str) -> f64 {
        let value = self.value(name);
        debug_assert!(value.is_some(), "no option {name}");
        value.unwrap_or(0.0)
    }

    /// The options that differ from their defaults, as [`Options::parse`] reads them, without the first `hidden`.
    pub fn list(&self, hidden: usize) -> String {
        let changed = self.known.iter().zip(self.values).skip(hidden).filter(|(o, v)| o.default != *v);
        let text = |(option, value): (&MethodOption, f64)| match option.kind {
            Kind::Flag => option.name.to_string(),
            Kind::Count { .. } => format!("{}={value}", option.name),
            Kind::Number { .. } => format!("{}={}", option.name, value as f32),
        };
        changed.map(text).collect::<Vec<_>>().join(",")
    }
}
