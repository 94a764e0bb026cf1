//! Tests on their own and with a mutant awake.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// A number that no mutant has.
const NOBODY: usize = 1 << 24;

/// One test function.
pub struct Test {
    pub name: String,
    program: PathBuf,
    exact: String,
    pub seconds: f64,
    /// The mutants that it comes to.
    pub reaches: HashSet<usize>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Outcome {
    Passed,
    Failed,
    TimedOut,
}

pub enum Verdict<'a> {
    Caught(&'a Test),
    TimedOut(&'a Test),
    Missed(usize),
}

/// Every test of some programs that takes at most `slowest` seconds: how long it takes, and what it reaches.
pub fn tests(programs: &[(String, PathBuf)], package: &Path, slowest: f64) -> Result<Vec<Test>> {
    let reached = std::env::temp_dir().join(format!("mutants-reached-{}", std::process::id()));
    let (mut tests, mut failing) = (Vec::new(), Vec::new());
    for (binary, program) in programs {
        let list =
            Command::new(program).args(["--list", "--format", "terse"]).current_dir(package).output()?;
        let list = String::from_utf8(list.stdout)?;
        for exact in list.lines().filter_map(|l| l.strip_suffix(": test")) {
            let mut test = Test {
                name: format!("{binary}::{exact}"),
                program: program.clone(),
                exact: exact.to_string(),
                seconds: 0.0,
                reaches: HashSet::new(),
            };
            let began = Instant::now();
            let outcome = test.run(package, NOBODY, None, Duration::from_secs_f64(slowest))?;
            test.seconds = began.elapsed().as_secs_f64();
            if outcome == Outcome::TimedOut {
                eprintln!("left out: {} takes more than {slowest} s", test.name);
                continue;
            }
            if outcome == Outcome::Failed {
                failing.push(test.name);
                continue;
            }
            // Watching takes time of its own.
            let _ = fs::remove_file(&reached);
            test.run(package, 0, Some(&reached), Duration::from_secs(3600))?;
            let numbers = fs::read_to_string(&reached).unwrap_or_default();
            test.reaches = numbers.lines().filter_map(|l| l.parse().ok()).collect();
            tests.push(test);
        }
    }
    let _ = fs::remove_file(&reached);
    ensure!(failing.is_empty(), "these tests fail without any mutant: {}", failing.join(", "));
    tests.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(tests)
}

/// Runs the tests that reach a mutant, quick ones first, until one notices.
pub fn judge<'a>(mutant: usize, tests: &'a [Test], package: &Path) -> Result<Verdict<'a>> {
    let mut tried = 0;
    for test in tests.iter().filter(|t| t.reaches.contains(&mutant)) {
        let patience = Duration::from_secs_f64(5.0 * test.seconds + 5.0);
        match test.run(package, mutant, None, patience)? {
            Outcome::Passed => tried += 1,
            Outcome::Failed => return Ok(Verdict::Caught(test)),
            Outcome::TimedOut => return Ok(Verdict::TimedOut(test)),
        }
    }
    Ok(Verdict::Missed(tried))
}

impl Test {
    fn run(
        &self,
        package: &Path,
        mutant: usize,
        reached: Option<&Path>,
        patience: Duration,
    ) -> Result<Outcome> {
        let mut command = Command::new(&self.program);
        command.args(["--exact", &self.exact, "--test-threads", "1"]).current_dir(package);
        command.env("RELAXCRF_MUTANT", mutant.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(path) = reached {
            command.env("RELAXCRF_MUTANTS_REACHED", path);
        }
        let began = Instant::now();
        let mut child = command.spawn()?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(if status.success() { Outcome::Passed } else { Outcome::Failed });
            }
            if began.elapsed() > patience {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::TimedOut);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
