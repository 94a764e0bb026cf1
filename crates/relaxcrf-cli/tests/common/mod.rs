//! Runs the real program in a directory of its own, on small generated inputs.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use relaxcrf_io::{Palette, write_image, write_labels, write_npy_f32};
use relaxcrf_lab::synth::{self, SegmentationScene, StereoScene};

/// Sizes of the generated scene: not square, more pixels than the exact filter takes by itself.
pub const WIDTH: usize = 40;
pub const HEIGHT: usize = 30;
pub const LABELS: usize = 4;

/// What a run left behind.
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

fn is_progress(line: &str) -> bool {
    line.starts_with("relaxcrf: ") && line.contains(" elapsed")
}

impl Outcome {
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }

    /// Succeeded, with messages on standard error.
    pub fn with_messages(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.err);
        assert!(!self.out.is_empty());
        self
    }

    /// Succeeded, with nothing to complain about.
    pub fn fine(self) -> Self {
        // On a busy machine any run may take long enough for lines of progress.
        let complaints: Vec<&str> = self.err.lines().filter(|line| !is_progress(line)).collect();
        assert_eq!((self.code, complaints), (0, Vec::new()), "{}", self.out);
        self
    }

    /// The lines of progress on standard error.
    pub fn progress(&self) -> Vec<&str> {
        self.err.lines().filter(|line| is_progress(line)).collect()
    }

    /// Failed with this code and one message that holds all the texts; nothing on standard output.
    pub fn failed(self, code: i32, texts: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.starts_with("relaxcrf: "), "{}", self.err);
        assert!(!self.err.contains("internal error"), "{}", self.err);
        for text in texts {
            assert!(self.err.contains(text), "`{text}` is missing in: {}", self.err);
        }
        assert_eq!(self.out, "");
        self
    }
}

/// A directory with `image.png`, `probs.npy`, `unary.npy` and `truth.png`, removed at the end.
pub struct Place {
    folder: tempfile::TempDir,
    pub scene: SegmentationScene,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = synth::segmentation(WIDTH, HEIGHT, LABELS, 3).unwrap();
        let place = Self { folder, scene };
        let shape = [LABELS, HEIGHT, WIDTH];
        write_image(&place.path("image.png"), &place.scene.image).unwrap();
        write_npy_f32(&place.path("probs.npy"), &shape, &place.planes()).unwrap();
        let energies: Vec<f32> = place.planes().iter().map(|p| -p.max(1e-5).ln()).collect();
        write_npy_f32(&place.path("unary.npy"), &shape, &energies).unwrap();
        let truth = place.scene.truth.as_slice();
        write_labels(&place.path("truth.png"), WIDTH, HEIGHT, truth, &Palette::voc()).unwrap();
        place
    }

    /// The scene's probabilities as labels x height x width.
    pub fn planes(&self) -> Vec<f32> {
        let rows = &self.scene.probabilities;
        (0..LABELS).flat_map(|l| rows.iter().skip(l).step_by(LABELS).copied()).collect()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// All names in the directory, to see that nothing was left behind.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs the program in this directory; the words of `line` are its arguments.
    pub fn run(&self, line: &str) -> Outcome {
        self.run_with(line, &[])
    }

    pub fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Outcome {
        let mut command = program(self.folder.path());
        command.args(line.split_whitespace()).envs(variables.iter().copied());
        outcome(command.output().unwrap())
    }

    /// Runs a command that must fail, and leave the directory as it was.
    pub fn fails(&self, line: &str, code: i32, texts: &[&str]) {
        let before = self.names();
        self.run(line).failed(code, texts);
        assert_eq!(self.names(), before, "after {line}");
    }
}

/// A directory with a stereo pair as the Middlebury sets have it in the folder `scene`, removed at the end.
pub struct StereoPlace {
    folder: tempfile::TempDir,
    pub scene: StereoScene,
}

/// Disparities of the generated pair; its truth is scaled by 4.
pub const DISPARITIES: usize = 8;

impl StereoPlace {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = synth::stereo(48, 36, DISPARITIES, 2).unwrap();
        let place = Self { folder, scene };
        fs::create_dir(place.path("scene")).unwrap();
        write_image(&place.path("scene/im2.png"), &place.scene.left).unwrap();
        write_image(&place.path("scene/im6.png"), &place.scene.right).unwrap();
        let grey = place.scene.truth.as_slice().iter().map(|&d| 4.0 * f32::from(d)).collect();
        write_image(&place.path("scene/disp2.png"), &relaxcrf::Image::new(48, 36, 1, grey).unwrap()).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn run(&self, line: &str) -> Outcome {
        let mut command = program(self.folder.path());
        command.args(line.split_whitespace());
        outcome(command.output().unwrap())
    }

    /// Runs a command that must fail, and leave no file behind.
    pub fn fails(&self, line: &str, code: i32, texts: &[&str]) {
        let before = self.files();
        self.run(line).failed(code, texts);
        assert_eq!(self.files(), before, "after {line}");
    }

    /// All files, also those in folders.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut open = vec![self.folder.path().to_path_buf()];
        let mut files = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { files.push(path) }
            }
        }
        files.sort();
        files
    }
}

/// The program in a directory, without the caller's own settings.
pub fn program(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relaxcrf"));
    command.current_dir(folder).stdin(Stdio::null());
    command.env_remove("RELAXCRF_NUM_THREADS").env_remove("RAYON_NUM_THREADS");
    command
}

pub fn outcome(output: Output) -> Outcome {
    Outcome {
        code: output.status.code().expect("not killed by a signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The checksum of PNG and zip files.
pub fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut c, &b| {
        c ^= u32::from(b);
        (0..8).for_each(|_| c = if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 });
        c
    })
}

/// No run may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command that must end by itself and in time.
pub fn ends(mut command: Command, what: &str) -> Outcome {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("hangs: {what}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = outcome(child.wait_with_output().unwrap());
    assert!((0..=2).contains(&run.code), "exit code {} of {what}: {}", run.code, run.err);
    assert!(!run.err.contains("panicked") && !run.err.contains("internal error"), "{what}: {}", run.err);
    run
}

/// Measured data that is not part of the project; `None` (said aloud) where it is absent.
pub fn shared(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("RELAXCRF_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
        PathBuf::from,
    );
    let path = root.join(file);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is absent", path.display());
    None
}
