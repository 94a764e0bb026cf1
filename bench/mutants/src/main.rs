//! Mutation testing with one build: every mutant is compiled in, and the environment says which one is awake.

mod copy;
mod find;
mod render;
mod trial;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};

use copy::Copy;
use find::Site;
use render::{MODULE, Rendered, render};
use trial::Verdict;

const SOURCES: &str = "crates/relaxcrf/src";
const SCRATCH: &str = "target/mutants";

struct Options {
    sample: usize,
    skip: usize,
    from: Option<String>,
    slowest: f64,
    jobs: usize,
    places: Vec<String>,
}

struct File {
    name: String,
    text: String,
    sites: Vec<Site>,
    first: usize,
}

struct Mutant {
    number: usize,
    place: String,
    file: String,
    line: usize,
    function: String,
    what: String,
    /// Which of several such changes in the function.
    nth: usize,
}

impl Mutant {
    /// Names the mutant in any version of the sources in which its function is the same.
    fn key(&self) -> String {
        format!("{}\t{}\t{}\t{}", self.file, self.function, self.what, self.nth)
    }
}

fn main() -> Result<()> {
    let options = options()?;
    let files = files(&options.places)?;
    let mutants = mutants(&files, &options.places);
    let copy = Copy::new(&Path::new(SCRATCH).join("copy"))?;
    let library = fs::read_to_string(format!("{SOURCES}/lib.rs"))?;
    copy.write(&format!("{SOURCES}/lib.rs"), format!("{library}\npub mod mutant;\n").as_bytes())?;
    copy.write(&format!("{SOURCES}/mutant.rs"), MODULE.as_bytes())?;

    let mut alive: HashSet<usize> = mutants.iter().map(|m| m.number).collect();
    loop {
        let refused = copy.refused(&put(&copy, &files, &alive)?)?;
        if refused.is_empty() {
            break;
        }
        eprintln!("{} mutants do not compile", refused.len());
        alive.retain(|k| !refused.contains(k));
    }
    let alive: Vec<&Mutant> = mutants.iter().filter(|m| alive.contains(&m.number)).collect();
    let mut table = String::from("number\tplace\tfile\tline\tfunction\tchange\tnth\n");
    for m in &alive {
        let _ = writeln!(
            table,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}",
            m.number, m.place, m.file, m.line, m.function, m.what, m.nth
        );
    }
    fs::write(Path::new(SCRATCH).join("mutants.tsv"), table)?;
    for place in &options.places {
        let count = |all: &[&Mutant]| all.iter().filter(|m| m.place == *place).count();
        let made = mutants.iter().filter(|m| m.place == *place).count();
        eprintln!("{place}: {made} mutants, {} compile", count(&alive));
    }

    let sample = sample(&alive, &options);
    let chosen = match &options.from {
        Some(path) => missed(&alive, path)?,
        None => sample.clone(),
    };
    // Those of the sample are built in any case: then most of what an earlier run built can be used again.
    put(&copy, &files, &sample.iter().chain(&chosen).map(|m| m.number).collect())?;
    let programs = copy.tests()?;
    let tests = trial::tests(&programs, &copy.package(), options.slowest)?;
    let mut table = String::from("seconds\treaches\ttest\n");
    for test in &tests {
        let _ = writeln!(table, "{:.2}\t{}\t{}", test.seconds, test.reaches.len(), test.name);
    }
    fs::write(Path::new(SCRATCH).join("tests.tsv"), table)?;
    let total: f64 = tests.iter().map(|t| t.seconds).sum();
    eprintln!("{} tests of {total:.0} s in all, {} mutants to try", tests.len(), chosen.len());

    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some(mutant) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = trial::judge(mutant.number, &tests, &copy.package())?;
            let (outcome, detail) = match verdict {
                Verdict::Caught(test) => ("caught", test.name.clone()),
                Verdict::TimedOut(test) => ("timeout", test.name.clone()),
                Verdict::Missed(0) => ("missed", "no test comes here".to_string()),
                Verdict::Missed(tried) => ("missed", format!("{tried} tests come here")),
            };
            let line = format!("{outcome}\t{}\t{}\t{}\t{detail}", mutant.place, mutant.line, mutant.key());
            let mut results = results.lock().unwrap();
            results.push((mutant.number, line));
            // Written as it goes: a run that is stopped has not been for nothing.
            results.sort();
            let lines: Vec<&str> = results.iter().map(|(_, l)| l.as_str()).collect();
            fs::write(Path::new(SCRATCH).join("results.tsv"), lines.join("\n") + "\n")?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap())
    })?;

    let results = results.into_inner().unwrap();
    for place in &options.places {
        let count = |outcome: &str| {
            let begin = format!("{outcome}\t{place}\t");
            results.iter().filter(|(_, line)| line.starts_with(&begin)).count()
        };
        let (caught, late, missed) = (count("caught"), count("timeout"), count("missed"));
        let rate = 100.0 * (caught + late) as f64 / (caught + late + missed).max(1) as f64;
        println!("{place}: {caught} caught, {late} timed out, {missed} missed: {rate:.1} %");
    }
    for (_, line) in results.iter().filter(|(_, line)| line.starts_with("missed")) {
        println!("{line}");
    }
    Ok(())
}

fn options() -> Result<Options> {
    let mut options = Options { sample: 300, skip: 0, from: None, slowest: 20.0, jobs: 1, places: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--sample" => options.sample = value()?.parse()?,
            "--skip" => options.skip = value()?.parse()?,
            "--from" => options.from = Some(value()?),
            "--slowest" => options.slowest = value()?.parse()?,
            "--jobs" => options.jobs = value()?.parse()?,
            _ if word.starts_with('-') => bail!("unknown option {word}"),
            _ => options.places.push(word),
        }
    }
    if options.places.is_empty() {
        options.places = ["energy.rs", "solve", "filter"].map(String::from).to_vec();
    }
    Ok(options)
}

/// The sources of some places, without their tests.
fn files(places: &[String]) -> Result<Vec<File>> {
    fn walk(path: &Path, found: &mut Vec<String>) -> Result<()> {
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                walk(&entry?.path(), found)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            found.push(path.to_str().context("an odd name")?.to_string());
        }
        Ok(())
    }
    let mut first = 1;
    let mut files = Vec::new();
    for place in places {
        let mut names = Vec::new();
        walk(&Path::new(SOURCES).join(place), &mut names)?;
        names.sort();
        for name in names {
            let text = fs::read_to_string(&name).with_context(|| name.clone())?;
            let sites = find::sites(&text).with_context(|| name.clone())?;
            let count: usize = sites.iter().map(|s| s.changes.len()).sum();
            files.push(File { name, text, sites, first });
            first += count;
        }
    }
    Ok(files)
}

fn mutants(files: &[File], places: &[String]) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for file in files {
        let short = file.name.strip_prefix(SOURCES).unwrap_or(&file.name).trim_start_matches('/');
        let place = places.iter().find(|p| Path::new(short).starts_with(p)).cloned().unwrap_or_default();
        let mut number = file.first;
        for site in &file.sites {
            for change in &site.changes {
                let what = format!("{short}\t{}\t{}", site.function, change.what);
                let nth = match seen.entry(what) {
                    Entry::Occupied(mut e) => {
                        *e.get_mut() += 1;
                        *e.get()
                    }
                    Entry::Vacant(e) => *e.insert(1),
                };
                let (line, function, what) = (site.line, site.function.clone(), change.what.clone());
                mutants.push(Mutant {
                    number,
                    place: place.clone(),
                    file: short.into(),
                    line,
                    function,
                    what,
                    nth,
                });
                number += 1;
            }
        }
    }
    mutants
}

/// Writes the files with some of their mutants into the copy.
fn put(copy: &Copy, files: &[File], chosen: &HashSet<usize>) -> Result<BTreeMap<String, Rendered>> {
    let mut all = BTreeMap::new();
    for file in files {
        let rendered = render(&file.text, &file.sites, file.first, chosen);
        copy.write(&file.name, rendered.text.as_bytes())?;
        all.insert(file.name.clone(), rendered);
    }
    Ok(all)
}

/// The mutants that an earlier run missed.
fn missed<'a>(mutants: &[&'a Mutant], path: &str) -> Result<Vec<&'a Mutant>> {
    let earlier = fs::read_to_string(path).with_context(|| path.to_string())?;
    let lines = earlier.lines().filter(|l| l.starts_with("missed\t"));
    let missed: HashSet<String> =
        lines.map(|l| l.split('\t').skip(3).take(4).collect::<Vec<_>>().join("\t")).collect();
    Ok(mutants.iter().copied().filter(|m| missed.contains(&m.key())).collect())
}

/// Of every place its share, by a number that is made from the name, so that a change elsewhere in the sources does not
/// change the sample much.
fn sample<'a>(mutants: &[&'a Mutant], options: &Options) -> Vec<&'a Mutant> {
    let mut chosen = Vec::new();
    for place in &options.places {
        let mut here: Vec<&Mutant> = mutants.iter().copied().filter(|m| m.place == *place).collect();
        if options.sample > 0 {
            let share = (options.sample * here.len()).div_ceil(mutants.len().max(1));
            here.sort_by_key(|m| scramble(&m.key()));
            here.drain(..options.skip.min(here.len()));
            here.truncate(share);
            here.sort_by_key(|m| m.number);
        }
        chosen.extend(here);
    }
    chosen
}

/// FNV-1a, and a few more rounds so that names that differ at the end are far apart.
fn scramble(text: &str) -> u64 {
    let mut hash =
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    for _ in 0..3 {
        hash = (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    hash ^ (hash >> 32)
}
