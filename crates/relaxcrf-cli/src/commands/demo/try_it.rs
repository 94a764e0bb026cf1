//! Prints where the page is, and commands that work as typed.

use std::env;
use std::fs;
use std::path::Path;

use super::scenes::{DISPARITIES, STEREO_KERNELS};

/// Methods for `compare`: a few seconds in all.
const COMPARED: &str = "unary,mf5,qp+dc-neg,graduated";

/// The last lines of the demo's output.
pub(super) fn text(folder: &Path, page: &Path) -> String {
    let program = program();
    let file = |name: &str| quoted(&folder.join(name).display().to_string());
    let [photo, probs, truth, left, right] =
        ["photo.png", "probs.npy", "truth.png", "left.png", "right.png"].map(file);
    let ((sigma, weight), (sigma_xy, sigma_rgb, bilateral_weight)) = STEREO_KERNELS;
    let kernels =
        format!("--gaussian {sigma}:{weight} --bilateral {sigma_xy}:{sigma_rgb}:{bilateral_weight}");
    format!(
        "Page with all pictures, for any browser: {}\n\n\
         Commands to try on the demo's files:\n\
         \x20 {program} segment {photo} --probs {probs} -o labels.png\n\
         \x20 {program} compare {photo} --probs {probs} --truth {truth} --methods {COMPARED} --report compare.html\n\
         \x20 {program} stereo {left} {right} --disparities {DISPARITIES} --cost bt {kernels} -o disparity.png\n",
        page.display()
    )
}

/// The command that starts this program from the current directory.
fn program() -> String {
    let Ok(own) = env::current_exe().and_then(fs::canonicalize) else { return "relaxcrf".into() };
    let folders = env::var_os("PATH").unwrap_or_default();
    let first = env::split_paths(&folders)
        .map(|folder| folder.join(format!("relaxcrf{}", env::consts::EXE_SUFFIX)))
        .find(|path| path.is_file());
    if first.and_then(|path| fs::canonicalize(path).ok()).is_some_and(|path| path == own) {
        return "relaxcrf".into();
    }
    let here = env::current_dir().and_then(fs::canonicalize).ok();
    let relative = here.and_then(|here| own.strip_prefix(here).ok().map(Path::to_path_buf));
    // Shells look for bare names in PATH only.
    let typed = relative
        .map_or(own, |path| if path.components().count() == 1 { Path::new(".").join(path) } else { path });
    quoted(&typed.display().to_string())
}

/// Quotes a word for the shell, if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+=:@%,".contains(c) || (cfg!(windows) && c == '\\');
    match (word.chars().all(is_plain), cfg!(windows)) {
        (true, _) => word.into(),
        (false, true) => format!("\"{word}\""),
        (false, false) => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_word_is_plain_unless_it_holds_special_characters() {
        assert_eq!(quoted("demo-out/photo.png"), "demo-out/photo.png");
        if !cfg!(windows) {
            assert_eq!(quoted("my demo/it's"), "'my demo/it'\\''s'");
            assert_eq!(quoted("$HOME"), "'$HOME'");
        }
    }
}
