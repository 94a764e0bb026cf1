//! A source file with mutants in it.

use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;

use crate::find::Site;

/// A mutated file, and which of its bytes belong to which mutants.
pub struct Rendered {
    pub text: String,
    /// Outer ones first: a compiler's complaint is about the last that holds it.
    pub spans: Vec<(Range<usize>, Vec<usize>)>,
}

/// The file with those of its mutants that are chosen. Mutants are numbered from `first`, in the order of the sites.
pub fn render(text: &str, sites: &[Site], first: usize, chosen: &HashSet<usize>) -> Rendered {
    let mut number = first;
    let mut numbered = Vec::new();
    for site in sites {
        let changes: Vec<(usize, &str)> =
            (number..).zip(site.changes.iter().map(|c| c.text.as_str())).collect();
        number += site.changes.len();
        let changes: Vec<_> = changes.into_iter().filter(|(k, _)| chosen.contains(k)).collect();
        if !changes.is_empty() {
            numbered.push((site.range.clone(), changes));
        }
    }
    let mut out = Rendered { text: String::new(), spans: Vec::new() };
    write(text, 0..text.len(), &numbered, &mut out);
    out
}

type Numbered<'a> = (Range<usize>, Vec<(usize, &'a str)>);

fn write(text: &str, range: Range<usize>, sites: &[Numbered], out: &mut Rendered) {
    let mut at = range.start;
    let mut next = 0;
    while next < sites.len() {
        let (site, changes) = &sites[next];
        let inside =
            sites[next + 1..].iter().take_while(|(s, _)| s.end <= site.end && !site.is_empty()).count();
        out.text.push_str(&text[at..site.start]);
        let (begin, place) = (out.text.len(), out.spans.len());
        out.spans.push((begin..begin, changes.iter().map(|c| c.0).collect()));
        if site.is_empty() {
            for (k, change) in changes {
                let _ = write!(out.text, " if crate::mutant::on({k}) {{ {change} }}");
            }
        } else {
            out.text.push('(');
            for (k, change) in changes {
                let _ = write!(out.text, "if crate::mutant::on({k}) {{ ");
                let begin = out.text.len();
                out.text.push_str(change);
                out.spans.push((begin..out.text.len(), vec![*k]));
                out.text.push_str(" } else ");
            }
            out.text.push_str("{ ");
            write(text, site.clone(), &sites[next + 1..][..inside], out);
            out.text.push_str(" })");
        }
        out.spans[place].0.end = out.text.len();
        at = site.end;
        next += 1 + inside;
    }
    out.text.push_str(&text[at..range.end]);
}

/// The module that wakes one mutant. `RELAXCRF_MUTANT` is its number; 0 notes in the file `RELAXCRF_MUTANTS_REACHED` which
/// of them a run comes to.
pub const MODULE: &str = r#"//! Which mutant is awake.
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const UNKNOWN: usize = 1 << 31;
const WATCH: usize = UNKNOWN + 1;
const NONE: usize = UNKNOWN - 1;

static AWAKE: AtomicUsize = AtomicUsize::new(UNKNOWN);
static REACHED: [AtomicBool; 65536] = [const { AtomicBool::new(false) }; 65536];

#[inline(always)]
pub fn on(k: usize) -> bool {
    let awake = AWAKE.load(Relaxed);
    awake == k || (awake >= UNKNOWN && first(k))
}

#[cold]
#[inline(never)]
fn first(k: usize) -> bool {
    if AWAKE.load(Relaxed) == UNKNOWN {
        let awake = match std::env::var("RELAXCRF_MUTANT").ok().and_then(|v| v.parse().ok()) {
            Some(0) => WATCH,
            Some(number) => number,
            None => NONE,
        };
        AWAKE.store(awake, Relaxed);
    }
    let awake = AWAKE.load(Relaxed);
    if awake == WATCH && !REACHED[k].load(Relaxed) && !REACHED[k].swap(true, Relaxed) {
        let path = std::env::var_os("RELAXCRF_MUTANTS_REACHED").unwrap();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{k}\n").as_bytes()).unwrap();
    }
    awake == k
}
"#;
