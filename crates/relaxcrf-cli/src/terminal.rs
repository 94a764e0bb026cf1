//! Standard output and standard error.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;

/// Shows one message on standard error. If that fails, there is no place to report it.
pub fn complain(text: &str) {
    // Names in lists and files may hold anything, and a terminal would obey it.
    let harmless = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    let text: String = text.chars().map(harmless).collect();
    let _ = writeln!(io::stderr(), "relaxcrf: {text}");
}

/// Writes to standard output.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output cannot be written")
}

/// Writes one JSON value and a line end to standard output.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string(value)? + "\n"))
}
