//! Every message of the library is on the page docs/errors.md.

use std::fs;
use std::path::Path;

use relaxcrf::filter::{Blur, Lattice};
use relaxcrf::model::Compatibility;
use relaxcrf::{Error, ModelBuilder, solve};
use relaxcrf_io as io;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn page() -> String {
    fs::read_to_string(Path::new(HERE).join("../../docs/errors.md")).unwrap()
}

/// Sources without their tests.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.file_name().is_some_and(|n| n != "tests.rs" && n != "error.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_string();
            found.push((path.display().to_string(), code));
        }
    }
}

/// The text literals that follow a marker; after `Error::file(`, behind the path.
fn literals<'a>(code: &'a str, marker: &str) -> Vec<&'a str> {
    let after = code.match_indices(marker).map(|(at, _)| &code[at + marker.len()..]);
    let literal = |rest: &'a str| {
        let rest = if marker == "Error::file(" { rest.split_once(',')?.1 } else { rest };
        let rest = rest.trim_start();
        let rest = rest.strip_prefix("format!(").unwrap_or(rest).trim_start().strip_prefix('"')?;
        Some(&rest[..rest.find('"')?])
    };
    after.filter_map(literal).collect()
}

/// The longest piece of a format text without numbers and names in it.
fn fixed_words(text: &str) -> &str {
    let first_line = text.split('\\').next().unwrap_or("");
    let pieces = first_line.split(['{', '}']).step_by(2);
    pieces.map(|t| t.trim_matches([' ', ';', ',', '`', '('])).max_by_key(|t| t.len()).unwrap_or("")
}

#[test]
fn every_message_in_the_sources_is_on_the_page() {
    let page = page();
    let mut files = Vec::new();
    for library in ["relaxcrf", "relaxcrf-filter", "relaxcrf-io", "relaxcrf-stereo"] {
        sources(&Path::new(HERE).join("..").join(library).join("src"), &mut files);
    }
    let (mut seen, mut missing) = (0, Vec::new());
    for (name, code) in &files {
        for marker in [
            "Error::value(",
            "Error::shape(",
            "Error::parse(",
            "Error::file(",
            "what: ",
            "let why =",
            "refuse(",
        ] {
            for text in literals(code, marker) {
                let words = fixed_words(text);
                // Up to the first clause: the page leaves out what the message itself explains.
                let words = words.split([';', ':']).next().unwrap().trim_end();
                if words.len() < 6 {
                    continue;
                }
                seen += 1;
                if !page.contains(words) {
                    missing.push(format!("{name}: {words}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "not in docs/errors.md:\n{}", missing.join("\n"));
    assert!(seen > 90, "only {seen} messages found: is the search broken?");
}

/// One error of each kind, by the public interface, with its heading on the page.
#[test]
fn every_kind_has_its_section() {
    let page = page();
    let build = |unary: Vec<f32>| ModelBuilder::points(2, 2).unary(unary).build();
    let skew = Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
    let attracting = ModelBuilder::points(2, 2)
        .unary(vec![0.0; 4])
        .features(vec![0.0, 1.0], 1, 1.0)
        .compatibility(skew)
        .build()
        .unwrap();
    let cases: [(Error, &str, &str); 7] = [
        (build(vec![0.0; 3]).unwrap_err(), "but", "## Sizes"),
        (
            build(vec![f32::NAN; 4]).unwrap_err(),
            "holds NaN at pixel 0, label 0; expected",
            "## Values in arrays",
        ),
        (ModelBuilder::points(0, 2).build().unwrap_err(), "but must be", "## Numbers and names"),
        (attracting.solve("dc-neg").unwrap_err(), "cannot be used", "## Methods"),
        ("magic".parse::<solve::Pipeline>().unwrap_err(), "cannot read method `magic`", "## Texts"),
        (
            Lattice::new(&[0.0, 1e30, 0.0, 3e30, 5.0, 2e30], 3, Blur::Classic).unwrap_err().into(),
            "lattice filter: ",
            "## Filters",
        ),
        (io::read_image(Path::new("gone.png")).unwrap_err(), "gone.png: cannot be read", "## Files"),
    ];
    for (error, words, section) in cases {
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert!(page.contains(section), "{section}");
        // A new kind of error must not compile into silence: the wildcard is there because the type may grow.
        let expected = match error {
            Error::Shape { .. } => "## Sizes",
            Error::Value { .. } => "## Numbers and names",
            Error::Element { .. } => "## Values in arrays",
            Error::Method { .. } => "## Methods",
            Error::Parse { .. } => "## Texts",
            Error::Filter { .. } => "## Filters",
            Error::File { .. } => "## Files",
            other => panic!("{other:?} has no section"),
        };
        assert_eq!(section, expected);
    }
}
