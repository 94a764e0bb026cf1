//! The copy of the project that mutants are built into, and what cargo says about it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::render::Rendered;

pub struct Copy {
    root: PathBuf,
}

impl Copy {
    /// Brings the copy up to date with the files that git knows. Those that are the same are left alone, so that cargo
    /// builds only what changed.
    pub fn new(root: &Path) -> Result<Self> {
        let listed = Command::new("git").args(["ls-files", "-z"]).output()?;
        ensure!(listed.status.success(), "git ls-files failed");
        let names = String::from_utf8(listed.stdout)?;
        let names: Vec<&str> = names.split('\0').filter(|n| Path::new(n).is_file()).collect();
        let list = root.join("copied.txt");
        for old in fs::read_to_string(&list).unwrap_or_default().lines() {
            if !names.contains(&old) {
                let _ = fs::remove_file(root.join(old));
            }
        }
        let copy = Self { root: root.to_path_buf() };
        for name in &names {
            copy.write(name, &fs::read(name)?)?;
        }
        fs::write(list, names.join("\n"))?;
        Ok(copy)
    }

    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.root.join(name);
        if fs::read(&path).is_ok_and(|old| old == content) {
            return Ok(());
        }
        fs::create_dir_all(path.parent().context("no folder")?)?;
        fs::write(&path, content).with_context(|| path.display().to_string())
    }

    pub fn package(&self) -> PathBuf {
        self.root.join("crates/relaxcrf")
    }

    /// The messages of a cargo command on the core.
    fn cargo(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let output = Command::new("cargo")
            .args(arguments)
            .args([
                "-p",
                "relaxcrf",
                "--all-features",
                "--message-format",
                "json",
                "--quiet",
                "--target-dir",
                "../build",
            ])
            .current_dir(&self.root)
            // What is mutated need not be pretty.
            .env("RUSTFLAGS", "--cap-lints allow")
            .stderr(Stdio::inherit())
            .output()?;
        let lines = String::from_utf8(output.stdout)?;
        lines.lines().map(|l| Ok(serde_json::from_str(l)?)).collect()
    }

    /// Mutants that the compiler refuses, among those rendered into these files.
    pub fn refused(&self, files: &BTreeMap<String, Rendered>) -> Result<HashSet<usize>> {
        let mut refused = HashSet::new();
        for message in self.cargo(&["check", "--lib"])? {
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            let spans = message["spans"].as_array().into_iter().flatten();
            let found: Vec<usize> =
                spans.filter(|s| s["is_primary"] == true).flat_map(|s| mutants_at(s, files)).collect();
            if found.is_empty() && message["code"].is_object() {
                bail!("not because of a mutant: {}", message["rendered"].as_str().unwrap_or(""));
            }
            refused.extend(found);
        }
        Ok(refused)
    }

    /// Builds the tests: the programs that hold them, by name.
    pub fn tests(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut found = Vec::new();
        for message in self.cargo(&["test", "--no-run", "--lib", "--tests"])? {
            if let Some(path) = message["executable"].as_str() {
                found.push((message["target"]["name"].as_str().unwrap_or("").to_string(), path.into()));
            }
            if message["message"]["level"] == "error" {
                bail!("{}", message["message"]["rendered"].as_str().unwrap_or(""));
            }
        }
        ensure!(!found.is_empty(), "no tests were built");
        Ok(found)
    }
}

fn mutants_at(span: &Value, files: &BTreeMap<String, Rendered>) -> Vec<usize> {
    let number = |name: &str| span[name].as_u64().unwrap_or(u64::MAX) as usize;
    let (start, end) = (number("byte_start"), number("byte_end"));
    let file = files.iter().find(|(name, _)| {
        span["file_name"].as_str().is_some_and(|f| name.ends_with(f) || f.ends_with(*name))
    });
    let holding = file.and_then(|(_, r)| r.spans.iter().rfind(|(s, _)| s.start <= start && end <= s.end));
    holding.map(|(_, mutants)| mutants.clone()).unwrap_or_default()
}
