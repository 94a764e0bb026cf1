//! What is fuzzed under libFuzzer (see `fuzz/`), here without it: every seed and every found case as it is, then
//! seeds with a few bytes changed, for a fixed time and from a fixed random seed.

#[path = "../../../fuzz/src/lib.rs"]
mod fuzzed;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use relaxcrf::rng::Rng;

/// How long each target is fed with changed seeds, at the most; `RELAXCRF_FUZZ_SECONDS` changes it.
fn patience() -> Duration {
    let seconds = std::env::var("RELAXCRF_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(4))
}

/// Changed seeds for each target, if there is time.
const CHANGED: usize = 20_000;

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { files.push((path.clone(), fs::read(path).unwrap())) }
        }
    }
    files.sort();
    assert!(files.len() > 3, "{target} has no seeds");
    files
}

/// A few bytes set, flipped, removed, or repeated.
fn change(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        if out.is_empty() {
            return vec![rng.below(256) as u8];
        }
        let at = rng.below(out.len());
        match rng.below(6) {
            0 => out[at] ^= 1 << rng.below(8),
            1 => out[at] = [0, 1, 0x7f, 0x80, 0xff, b'9'][rng.below(6)],
            2 => out[at] = rng.below(256) as u8,
            3 => out.truncate(at),
            4 => drop(out.drain(at..(at + 1 + rng.below(8)).min(out.len()))),
            _ => {
                let piece = out[at..(at + 1 + rng.below(8)).min(out.len())].to_vec();
                out.splice(at..at, piece);
            }
        }
    }
    out
}

fn feed(target: &str, check: fn(&[u8])) {
    let files = seeds(target);
    for (path, bytes) in &files {
        assert!(catch_unwind(|| check(bytes)).is_ok(), "{}", path.display());
    }
    let (started, mut rng) = (Instant::now(), Rng::new(1));
    for _ in 0..CHANGED {
        if started.elapsed() > patience() {
            break;
        }
        let bytes = change(&files[rng.below(files.len())].1, &mut rng);
        assert!(catch_unwind(|| check(&bytes)).is_ok(), "{target} breaks on {bytes:?}");
    }
}

#[test]
fn arrays() {
    feed("arrays", fuzzed::files::arrays);
}

#[test]
fn c_unary() {
    feed("c_unary", fuzzed::files::c_unary);
}

#[test]
fn pictures() {
    fuzzed::pass_over_decoders();
    feed("pictures", fuzzed::files::pictures);
}

#[test]
fn tiff() {
    fuzzed::pass_over_decoders();
    feed("tiff", fuzzed::files::tiff);
}

#[test]
fn texts() {
    feed("texts", fuzzed::texts::all);
}

#[test]
fn filters() {
    feed("filters", fuzzed::filters::contract);
}

#[test]
fn solve() {
    feed("solve", fuzzed::tiny::solve);
}
