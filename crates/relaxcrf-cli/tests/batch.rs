//! `relaxcrf batch`: the same bytes as single runs, and nothing lost whatever happens.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::{Outcome, StereoPlace, outcome, program, shared};
use relaxcrf_io::{Palette, write_image, write_labels, write_npy_f32};
use relaxcrf_lab::synth;
use serde_json::Value;

/// A directory with a data set of images of different sizes in `set`, removed at the end.
struct Place {
    folder: tempfile::TempDir,
    names: Vec<String>,
}

impl Place {
    fn new(count: usize) -> Self {
        Self::sized(count, 1)
    }

    fn sized(count: usize, times: usize) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            names: (0..count).map(|k| format!("im{k:02}")).collect(),
        };
        for folder in ["images", "probs", "truth"] {
            fs::create_dir_all(place.path("set").join(folder)).unwrap();
        }
        for (k, name) in place.names.iter().enumerate() {
            let (width, height, labels) = ((24 + 3 * (k % 5)) * times, (20 + 2 * (k % 3)) * times, 3);
            let scene = synth::segmentation(width, height, labels, k as u64).unwrap();
            let rows = &scene.probabilities;
            let planes: Vec<f32> =
                (0..labels).flat_map(|l| rows.iter().skip(l).step_by(labels).copied()).collect();
            let file = |folder: &str, ending: &str| place.path(&format!("set/{folder}/{name}.{ending}"));
            write_image(&file("images", "png"), &scene.image).unwrap();
            write_npy_f32(&file("probs", "npy"), &[labels, height, width], &planes).unwrap();
            write_labels(&file("truth", "png"), width, height, scene.truth.as_slice(), &Palette::voc())
                .unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = program(self.folder.path());
        command.args(line.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Outcome {
        outcome(self.command(line).output().unwrap())
    }

    fn start(&self, line: &str) -> Child {
        self.command(line).spawn().unwrap()
    }

    /// What single runs make of the set.
    fn single_runs(&self, options: &str) -> BTreeMap<String, Vec<u8>> {
        let one = |name: &String| {
            let line = format!(
                "segment set/images/{name}.png --probs set/probs/{name}.npy -o one.png --save-probs one.npy {options} -q"
            );
            self.run(&line).fine();
            [
                (format!("labels/{name}.png"), fs::read(self.path("one.png")).unwrap()),
                (format!("probs/{name}.npy"), fs::read(self.path("one.npy")).unwrap()),
            ]
        };
        self.names.iter().flat_map(one).collect()
    }

    /// All label maps and beliefs of an output directory, which must hold nothing else but logs and locks.
    fn results(&self, out: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let root = self.path(out);
        let mut open: Vec<PathBuf> = [root.clone()].into_iter().filter(|root| root.is_dir()).collect();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                if path.is_dir() {
                    open.push(path);
                } else if !name.starts_with("log") && !name.starts_with(".relaxcrf/") {
                    found.insert(name, fs::read(path).unwrap());
                }
            }
        }
        found
    }

    fn log(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(file)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The names of the images that a log says were done, sorted.
    fn done(&self, file: &str) -> Vec<String> {
        let log = self.log(file);
        let done = log.iter().filter(|r| r["status"] == "done");
        let mut names: Vec<String> = done.map(|r| r["item"].as_str().unwrap().to_string()).collect();
        names.sort();
        names
    }
}

#[test]
fn batch_writes_the_bytes_of_single_runs_for_any_number_of_jobs() {
    let place = Place::new(7);
    let options = "--method qp+dc-neg --gaussian 2:1 --bilateral 20:13:4";
    let expected = place.single_runs(options);
    for jobs in [1, 2, 3] {
        let summary =
            place.run(&format!("batch set -o out{jobs} --jobs {jobs} --save-probs --json {options}")).json();
        assert_eq!((summary["done"].as_u64(), summary["failed"].as_u64()), (Some(7), Some(0)), "{summary}");
        assert_eq!(place.results(&format!("out{jobs}")), expected, "{jobs} jobs");
    }
    for record in place.log("out2/log.jsonl") {
        for number in ["energy", "lower_bound", "gap", "seconds", "changed"] {
            assert!(record[number].as_f64().unwrap().is_finite(), "{number} in {record}");
        }
        assert!(record["lower_bound"].as_f64() <= record["energy"].as_f64());
        assert!(record["accuracy"][1].as_f64().is_some() && record["error"].is_null());
    }
}

#[test]
fn finished_images_are_recognised_by_content_not_by_name() {
    let place = Place::new(5);
    let line = "batch set -o out --method mf5 --json";
    let counts = |line: &str| {
        let summary = place.run(line).json();
        ["done", "finished_before", "failed"].map(|k| summary[k].as_u64().unwrap())
    };
    assert_eq!(counts(line), [5, 0, 0]);
    let first = place.results("out");
    assert_eq!(counts(line), [0, 5, 0]);
    assert_eq!(
        counts(&format!("{line} --resume --jobs 3")),
        [0, 5, 0],
        "the number of jobs changes no result"
    );
    assert_eq!(place.log("out/log.jsonl").len(), 5, "unfinished images are not logged");
    // Another image under the old name.
    fs::copy(place.path("set/images/im00.png"), place.path("set/images/im03.png")).unwrap();
    fs::copy(place.path("set/probs/im00.npy"), place.path("set/probs/im03.npy")).unwrap();
    fs::copy(place.path("set/truth/im00.png"), place.path("set/truth/im03.png")).unwrap();
    assert_eq!(counts(line), [1, 4, 0]);
    let now = place.results("out");
    assert_eq!(now["labels/im03.png"], first["labels/im00.png"]);
    // Results that were lost or damaged.
    fs::remove_file(place.path("out/labels/im01.png")).unwrap();
    fs::write(place.path("out/labels/im02.png"), b"half").unwrap();
    assert_eq!(counts(line), [2, 3, 0]);
    assert_eq!(place.results("out"), now);
    // Other settings, and again the old ones: one result stands under one name.
    assert_eq!(counts("batch set -o out --method mf --json"), [5, 0, 0]);
    assert_eq!(counts(line), [5, 0, 0]);
    assert_eq!(counts(&format!("{line} --fresh")), [5, 0, 0]);
    assert_eq!(counts(&format!("{line} --no-resume --limit 2")), [2, 0, 0]);
    assert_eq!(place.results("out"), now);
}

#[test]
fn bad_images_are_reported_and_the_others_finished() {
    let place = Place::new(9);
    let good = place.single_runs("--method mf5");
    let image = |k: usize| place.path(&format!("set/images/im{k:02}.png"));
    let probs = |k: usize| place.path(&format!("set/probs/im{k:02}.npy"));
    let whole = fs::read(image(1)).unwrap();
    fs::write(image(1), &whole[..whole.len() / 2]).unwrap();
    fs::write(probs(2), b"").unwrap();
    fs::remove_file(image(3)).unwrap();
    fs::create_dir(image(3)).unwrap();
    fs::remove_file(probs(4)).unwrap();
    let array = fs::read(probs(5)).unwrap();
    fs::write(probs(5), fs::read(probs(6)).unwrap()).unwrap();
    let run = place.run("batch set -o out --method mf5 --jobs 2 --save-probs --report out.html");
    assert_eq!(run.code, 1, "{}", run.err);
    for text in [
        "im01: ",
        "im02: ",
        "is empty",
        "im03: ",
        "im04: ",
        "holds no file",
        "im05: ",
        "5 of 9 images failed",
    ] {
        assert!(run.err.contains(text), "{text} is missing in {}", run.err);
    }
    assert!(run.out.contains("4 done, 0 finished before, 5 failed"), "{}", run.out);
    let results = place.results("out");
    assert_eq!(results.len(), 8);
    assert!(results.iter().all(|(name, bytes)| good[name] == *bytes));
    let page = fs::read_to_string(place.path("out.html")).unwrap();
    for text in ["Failures: 5", "im04", "holds no file", "IoU after", "most changed first"] {
        assert!(page.contains(text), "{text} is missing on the page");
    }
    // Once they are mended, only they are done.
    fs::write(image(1), &whole).unwrap();
    fs::write(probs(5), array).unwrap();
    let run = place.run("batch set -o out --method mf5 --save-probs");
    assert_eq!(run.code, 1);
    assert!(run.out.contains("2 done, 4 finished before, 3 failed"), "{}", run.out);
    assert!(place.results("out").iter().all(|(name, bytes)| good[name] == *bytes));
}

#[cfg(unix)]
#[test]
fn unreadable_file_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(3);
    let path = place.path("set/probs/im01.npy");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        println!("skipped: this user may read everything");
        return;
    }
    let run = place.run("batch set -o out --method mf5");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("im01") && run.err.contains("ermission"), "{}", run.err);
    assert_eq!(place.results("out").len(), 2);
}

/// Runs in a name space of its own, with a small file system at `out`. `None` where that is not allowed.
fn on_a_small_disk(place: &Place, kilobytes: usize, line: &str) -> Option<Outcome> {
    fs::create_dir_all(place.path("out")).unwrap();
    let binary = env!("CARGO_BIN_EXE_relaxcrf");
    // The files on the small disk are copied before it is unmounted.
    let script = format!(
        "mount -t tmpfs -o size={kilobytes}k none out || exit 77; {binary} {line}; code=$?; cp -r out kept; exit $code"
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).current_dir(place.folder.path());
    match command.output() {
        Ok(output) if output.status.code() != Some(77) && !output.stderr.starts_with(b"unshare") => {
            Some(outcome(output))
        }
        _ => {
            println!("skipped: no file system may be mounted here");
            None
        }
    }
}

#[test]
fn full_disk_is_reported_and_the_run_can_be_resumed() {
    let place = Place::sized(6, 3);
    let expected = place.single_runs("--method mf5");
    // Room for the labels of all and the beliefs of some.
    let Some(run) = on_a_small_disk(&place, 160, "batch set -o out --method mf5 --save-probs --jobs 2")
    else {
        return;
    };
    assert_eq!(run.code, 1, "{}{}", run.out, run.err);
    assert!(run.err.contains("o space left"), "{}", run.err);
    let kept = place.results("kept");
    assert!(!kept.is_empty() && kept.len() < expected.len());
    assert!(kept.iter().all(|(name, bytes)| expected[name] == *bytes), "whole or not at all");
    // With more room the same command does the other images.
    let before = place.done("kept/log.jsonl");
    place.run("batch set -o kept --method mf5 --save-probs -q").fine();
    assert_eq!(place.results("kept"), expected);
    let mut after = place.done("kept/log.jsonl");
    after.dedup();
    assert_eq!((after.len(), before.len() < 6), (6, true));
}

#[test]
fn batch_killed_many_times_ends_with_the_same_result_and_repeats_nothing() {
    let place = Place::sized(10, 5);
    let expected = place.single_runs("--method mf");
    let line = "batch set -o out --method mf --save-probs --jobs 2 -q";
    let mut kills = 0;
    // A fixed sequence of odd waits; what the machine makes of them is chance.
    for k in 0..60u64 {
        let mut child = place.start(line);
        sleep(Duration::from_millis(15 + k * k * 7919 % 97));
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        let results = place.results("out");
        let whole = results.iter().filter(|(name, _)| !name.contains(".tmp"));
        whole.for_each(|(name, bytes)| assert_eq!(&expected[name], bytes, "{name} after {kills} kills"));
    }
    println!("{kills} kills");
    assert!(kills > 0);
    place.run(line).fine();
    assert_eq!(place.results("out"), expected, "and no temporary file is left");
    assert_eq!(place.done("out/log.jsonl"), place.names, "each was logged once");
    place.run(line).fine();
    assert_eq!(place.log("out/log.jsonl").len(), 10);
}

#[test]
fn two_runs_on_one_folder_share_the_work() {
    let place = Place::sized(10, 4);
    let expected = place.single_runs("--method mf");
    let line = "batch set -o out --method mf --save-probs --jobs 2 --json";
    let runs: Vec<Child> = (0..3).map(|_| place.start(line)).collect();
    let ended: Vec<Value> =
        runs.into_iter().map(|child| outcome(child.wait_with_output().unwrap()).fine().json()).collect();
    let sum = |key: &str| ended.iter().map(|s| s[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("done"), sum("finished_before")), (10, 20), "{ended:?}");
    assert_eq!(place.results("out"), expected);
    assert_eq!(place.done("out/log.jsonl"), place.names);
}

#[test]
fn shards_of_a_list_are_disjoint_and_complete() {
    let place = Place::new(7);
    let expected = place.single_runs("--method mf5");
    let mut all = Vec::new();
    for part in 1..=3 {
        place.run(&format!("batch set -o out --method mf5 --save-probs --shard {part}/3 -q")).fine();
        all.extend(place.done(&format!("out/log-{part}-of-3.jsonl")));
    }
    all.sort();
    assert_eq!(all, place.names);
    assert_eq!(place.results("out"), expected);
    let whole = place.run("batch set -o out --method mf5 --save-probs --json").json();
    assert_eq!(whole["finished_before"], 7, "logs of all parts count");
}

#[test]
fn batch_takes_manifests_folders_patterns_and_lists() {
    let place = Place::new(4);
    let expected = place.single_runs("--method mf5");
    let labels = |k: usize| expected[&format!("labels/im{k:02}.png")].clone();
    fs::write(
        place.path("list.csv"),
        "image,probs,truth,output\nset/images/im00.png,set/probs/im00.npy,set/truth/im00.png,a/first.png\n\
         set/images/im01.png,set/probs/im01.npy,,\n",
    )
    .unwrap();
    let summary = place.run("batch list.csv -o m --method mf5 --json").json();
    assert_eq!((summary["done"].as_u64(), summary["with_truth"].as_u64()), (Some(2), Some(1)));
    assert_eq!(
        place.results("m"),
        [("labels/a/first.png", labels(0)), ("labels/im01.png", labels(1))].map(own).into()
    );
    fs::write(
        place.path("set/list.jsonl"),
        "{\"image\": \"images/im02.png\", \"probabilities\": \"probs/im02.npy\"}\n\
         {\"image\": \"images/im03.png\", \"labels\": \"truth/im03.png\"}\n",
    )
    .unwrap();
    place.run("batch set/list.jsonl -o j --method mf5 -q").fine();
    assert_eq!(place.results("j")["labels/im02.png"], labels(2));
    place.run("segment set/images/im03.png --labels set/truth/im03.png --method mf5 -o one.png -q").fine();
    assert_eq!(place.results("j")["labels/im03.png"], fs::read(place.path("one.png")).unwrap());
    // Arrays beside the images.
    fs::create_dir(place.path("flat")).unwrap();
    for k in 0..4 {
        for (folder, ending) in [("images", "png"), ("probs", "npy")] {
            let name = format!("im{k:02}.{ending}");
            fs::copy(place.path("set").join(folder).join(&name), place.path("flat").join(&name)).unwrap();
        }
    }
    let only_labels: BTreeMap<String, Vec<u8>> =
        expected.clone().into_iter().filter(|(name, _)| name.starts_with("labels")).collect();
    for (out, input) in [
        ("f", "flat"),
        ("g", "flat/im*.png"),
        ("l", "flat/im00.png flat/im01.png flat/im02.png flat/im03.png"),
        ("p", "set/images/*.png --probs set/probs"),
    ] {
        place.run(&format!("batch {input} -o {out} --method mf5 -q")).fine();
        assert_eq!(place.results(out), only_labels, "{input}");
    }
    place.run("batch set -o n --method mf5 --format npy -q --truth set/truth").fine();
    assert!(place.path("n/labels/im00.npy").is_file());
    let odd = place.run("batch flat/im00.npy -o x");
    assert_eq!(odd.code, 1, "an array is no image with unaries");
}

fn own((name, bytes): (&str, Vec<u8>)) -> (String, Vec<u8>) {
    (name.into(), bytes)
}

#[test]
fn dry_run_estimates_and_writes_nothing() {
    let place = Place::new(4);
    fs::write(place.path("set/images/im03.png"), b"").unwrap();
    let run = place.run("batch set -o out --dry-run --method mf5");
    assert_eq!(run.code, 0, "{}", run.err);
    for text in ["4: 3 to do, 0 finished, 1 with missing files", "memory", "time", "MiB"] {
        assert!(run.out.contains(text), "{text} is missing in {}", run.out);
    }
    assert!(run.err.contains("im03") && !place.path("out").exists());
    assert_eq!(place.run("batch set -o out --method mf5 -q").code, 1);
    let plan = place.run("batch set -o out --dry-run --method mf5 --json").json();
    assert_eq!((plan["finished"].as_u64(), plan["to_do"].as_u64()), (Some(3), Some(0)), "{plan}");
    // The same question of a single image.
    let plan =
        place.run("segment set/images/im00.png --probs set/probs/im00.npy -o x.png --dry-run --json").json();
    assert!(plan["memory"].as_u64() > Some(1 << 20) && plan["seconds"].as_f64() > Some(0.0), "{plan}");
    assert!(!place.path("x.png").exists());
    // And of a stereo pair.
    let pair = StereoPlace::new();
    let line = "stereo scene/im2.png scene/im6.png --disparities 8 -o d.png";
    let before = pair.files();
    assert!(pair.run(&format!("{line} --dry-run")).fine().out.contains("memory"));
    pair.run(&format!("{line} --max-memory 1MiB")).failed(1, &["8 labels", "--max-memory allows 1.0 MiB"]);
    assert_eq!(pair.files(), before);
}

#[test]
fn image_beyond_max_memory_is_refused_before_it_is_solved() {
    let place = Place::new(5);
    let expected = place.single_runs("--method mf5");
    let line = "segment set/images/im00.png --probs set/probs/im00.npy -o x.png --method mf5 --max-memory";
    place.run(&format!("{line} 1MiB")).failed(1, &["im00.png", "--max-memory allows 1.0 MiB", "--tile"]);
    place.run(&format!("{line} 1GiB -q")).fine();
    let run = place.run("batch set -o out --method mf5 --save-probs --max-memory 1MiB");
    assert_eq!((run.code, run.out.contains("5 failed")), (1, true), "{}{}", run.out, run.err);
    assert!(place.results("out").is_empty());
    // Room for one at a time: they wait for each other.
    place.run("batch set -o out --method mf5 --save-probs --max-memory 18MiB --jobs 3 -q").fine();
    assert_eq!(place.results("out"), expected);
}

#[test]
fn bad_arguments_are_reported_before_files_are_written() {
    let place = Place::new(2);
    fs::write(place.path("twice.csv"), "image,probs\nset/images/im00.png,p\nset/images/im00.png,p\n")
        .unwrap();
    fs::write(place.path("out.csv"), "image,probs,output\nset/images/im00.png,p,../x\n").unwrap();
    fs::write(place.path("file"), "").unwrap();
    fs::create_dir(place.path("empty")).unwrap();
    for (line, code, text) in [
        ("batch -o out", 2, "INPUT"),
        ("batch set", 2, "--output"),
        ("batch set -o out --jobs 0", 2, "--jobs"),
        ("batch set -o out --shard 4/3", 2, "I/N"),
        ("batch set -o out --max-memory much", 2, "2GiB"),
        ("batch set -o out --resume --fresh", 2, "--fresh"),
        ("batch set -o out --probs a --labels b", 2, "--labels"),
        ("batch set -o out --format jpg", 2, "jpg"),
        ("batch set -o out --report page.txt", 2, ".html"),
        ("batch nowhere -o out", 1, "nowhere"),
        ("batch nowhere*.png -o out", 1, "matches no image"),
        ("batch empty -o out", 1, "holds no files"),
        ("batch twice.csv -o out", 1, "two images"),
        ("batch out.csv -o out", 1, "cannot be the name"),
        ("batch absent.csv -o out", 1, "absent.csv"),
        ("batch set -o out --split test", 1, "test.txt"),
        ("batch set -o out --probs nowhere", 1, "nowhere"),
        ("batch set -o file", 1, "file"),
        ("batch set -o out --report no/page.html", 1, "no"),
    ] {
        place.run(line).failed(code, &[text]);
    }
    // Results never replace inputs.
    fs::create_dir(place.path("set/labels")).unwrap();
    fs::copy(place.path("set/truth/im00.png"), place.path("set/labels/im00.png")).unwrap();
    place.run("batch set -o set --labels set/labels").failed(1, &["is an input"]);
    assert_eq!(
        fs::read(place.path("set/truth/im00.png")).unwrap(),
        fs::read(place.path("set/labels/im00.png")).unwrap()
    );
}

#[test]
fn batch_takes_the_data_directories_of_reproduce() {
    for (set, ending) in [("voc", "jpg"), ("msrc", "png"), ("camvid", "png")] {
        let Some(folder) = shared(&format!("data/segmentation/{set}")) else { return };
        let place = Place::new(0);
        let data = folder.display();
        let line = format!("batch {data} -o out --method mf5 --split val --limit 1 --json");
        let summary = place.run(&line).json();
        assert_eq!(
            (summary["done"].as_u64(), summary["with_truth"].as_u64()),
            (Some(1), Some(1)),
            "{summary}"
        );
        let record = &place.log("out/log.jsonl")[0];
        let name = record["item"].as_str().unwrap();
        let (image, probs) =
            (folder.join(format!("images/{name}.{ending}")), folder.join(format!("probs/{name}.npz")));
        let single =
            format!("segment {} --probs {} --method mf5 -o one.png -q", image.display(), probs.display());
        place.run(&single).fine();
        let made = Path::new("out/labels").join(format!("{name}.png"));
        assert_eq!(
            fs::read(place.path(&made.to_string_lossy())).unwrap(),
            fs::read(place.path("one.png")).unwrap()
        );
    }
}
