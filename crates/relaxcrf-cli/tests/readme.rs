//! The README's commands work as printed, and files named in the documentation exist.

mod common;

use std::path::Path;
use std::process::Command;

/// The lines of all blocks marked `sh`, without comments.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(String::from).collect()
}

#[test]
fn readme_commands_run_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("README.md")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut run = 0;
    for command in commands(&page) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let words = match words[..] {
            // This test is part of what it runs.
            ["./test"] => {
                assert!(root.join("test").is_file());
                continue;
            }
            // Set-up: the paths named there must exist.
            ["cargo", "install", "--locked", "--path", folder] => {
                assert!(root.join(folder).join("Cargo.toml").is_file(), "{command}");
                continue;
            }
            ["pip", "install", "."] => {
                assert!(root.join("pyproject.toml").is_file());
                continue;
            }
            ["cargo", "run", "--release", "--", ref words @ ..] => words,
            ["relaxcrf", ref words @ ..] => words,
            _ => panic!("the README has a command that this test does not know: {command}"),
        };
        let program = env!("CARGO_BIN_EXE_relaxcrf");
        let output = Command::new(program).args(words).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{said}");
        assert!(!said.contains("warning"), "{command}\n{said}");
        run += 1;
    }
    assert!(run >= 10, "only {run} commands were found");
}

/// All files below a directory, without those of builds.
fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            files(&path, found);
        } else if path.is_file() {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

#[test]
fn source_files_named_in_the_documentation_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut sources, mut pages) = (Vec::new(), vec![]);
    for folder in ["crates", "python", "bench", "fuzz"] {
        files(&root.join(folder), &mut sources);
    }
    files(&root.join("docs"), &mut pages);
    pages.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root.join(page).display().to_string()),
    );
    let (mut seen, mut absent) = (0, Vec::new());
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for name in text.split('`').skip(1).step_by(2) {
            let is_source = [".rs", ".py"].iter().any(|ending| name.ends_with(ending));
            if is_source && !name.contains([' ', '*', '\n']) {
                seen += 1;
                if !sources.iter().any(|path| path.ends_with(&format!("/{name}"))) {
                    absent.push(format!("{page}: {name}"));
                }
            }
        }
    }
    assert!(absent.is_empty(), "{}", absent.join("\n"));
    assert!(seen > 30, "only {seen} names found: is the search broken?");
}
