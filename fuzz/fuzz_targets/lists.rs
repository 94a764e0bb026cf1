//! Lists in files: batch manifests and `pairs.csv`. The program has no library, so the parser of manifests is taken by
//! its path, with stand-ins for the names it uses.
#![no_main]
#![allow(dead_code)]

mod items {
    use std::path::PathBuf;

    #[derive(Debug, Clone)]
    pub struct Item {
        pub name: String,
        pub image: PathBuf,
        pub source: Result<Unaries, String>,
        pub truth: Option<PathBuf>,
    }

    #[derive(Debug, Clone)]
    pub enum Unaries {
        Probabilities(PathBuf),
        Scores(PathBuf),
        Energies(PathBuf),
        Labels(PathBuf),
    }
}

#[path = "../../crates/relaxcrf-cli/src/commands/batch/manifest.rs"]
mod manifest;

use relaxcrf_lab::reproduce::pairs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let dir = tempfile::tempdir().unwrap();
    for name in ["list.csv", "list.jsonl", "pairs.csv"] {
        let path = dir.path().join(name);
        std::fs::write(&path, data).unwrap();
        if name == "pairs.csv" {
            if let Ok(pairs) = pairs::find(dir.path()) {
                assert!(!pairs.is_empty());
                assert!(
                    pairs.iter().all(|p| !p.name.is_empty() && !p.name.contains('/') && p.disparities > 0)
                );
            }
        } else if let Ok(items) = manifest::read(&path) {
            assert!(items.iter().all(|i| i.source.is_ok()));
        }
    }
});
