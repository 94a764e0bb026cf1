//! Texts: names of methods, filters and normalisations, preset files.

use relaxcrf::model::{FilterKind, Normalization};
use relaxcrf::solve::Pipeline;
use relaxcrf_io as io;

/// What is understood is understood again when it is written out.
pub fn all(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(pipeline) = text.parse::<Pipeline>() {
            let again: Pipeline = pipeline.to_string().parse().expect("a method's own name");
            assert_eq!(again, pipeline, "{text}");
        }
        if let Ok(filter) = text.parse::<FilterKind>() {
            assert_eq!(filter.to_string(), text);
        }
        if let Ok(normalization) = text.parse::<Normalization>() {
            assert_eq!(normalization.to_string(), text);
        }
    }
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), data).unwrap();
    match io::read_preset(file.path()) {
        Ok(preset) => {
            io::write_preset(file.path(), &preset).unwrap();
            assert_eq!(io::read_preset(file.path()).unwrap(), preset);
        }
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains(&*file.path().to_string_lossy()) && !text.contains('\n'), "{text}");
        }
    }
}
