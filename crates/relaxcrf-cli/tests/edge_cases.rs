//! Input at the edge of what makes sense: a right answer, or an error that says why not.

mod common;

use common::{HEIGHT, LABELS, Place, WIDTH};
use relaxcrf::Image;
use relaxcrf_io::{read_labels, write_image, write_npy_f32};

/// A grey picture and unary energies that prefer label 1 on every pixel but the first.
fn strip(place: &Place, width: usize, height: usize) {
    let n = width * height;
    let grey = Image::new(width, height, 1, (0..n).map(|a| (a * 40 % 256) as f32).collect()).unwrap();
    write_image(&place.path("strip.png"), &grey).unwrap();
    let energies: Vec<f32> = (0..2 * n).map(|k| if (k < n) == (k % n == 0) { 0.0 } else { 100.0 }).collect();
    write_npy_f32(&place.path("strip.npy"), &[2, height, width], &energies).unwrap();
}

#[test]
fn single_pixel_and_single_row_are_solved() {
    for (width, height) in [(1, 1), (1, 7), (7, 1), (1, 900), (900, 1)] {
        let place = Place::new();
        strip(&place, width, height);
        for filter in ["auto", "exact", "lattice", "lattice-classic", "separable"] {
            let line =
                format!("segment strip.png --unary strip.npy -m mf -o out.npy --filter {filter} --json");
            let report = place.run(&line).fine().json();
            let map = read_labels(&place.path("out.npy")).unwrap();
            assert_eq!((map.width, map.height), (width, height));
            let expected: Vec<u16> = (0..width * height).map(|a| u16::from(a > 0)).collect();
            assert_eq!(map.labels, expected, "{width} x {height} {filter}");
            let unary = report["unary_energy"].as_f64().unwrap();
            assert_eq!(unary, 0.0, "{width} x {height} {filter}");
        }
        place.run("energy strip.png --unary strip.npy --labels out.npy --exact").fine();
    }
}

#[test]
fn one_label_is_warned_about() {
    let place = Place::new();
    write_npy_f32(&place.path("one.npy"), &[1, HEIGHT, WIDTH], &[2.0; WIDTH * HEIGHT]).unwrap();
    let run = place.run("segment image.png --unary one.npy -o out.png --json");
    assert!(run.err.contains("one.npy") && run.err.contains("only one label"), "{}", run.err);
    assert_eq!(run.json()["energy"], (2 * WIDTH * HEIGHT) as f64);
    assert!(read_labels(&place.path("out.png")).unwrap().labels.iter().all(|&l| l == 0));
}

#[test]
fn tiny_sigma_gives_exact_results_or_an_error() {
    let place = Place::new();
    place.run("segment image.png --probs probs.npy --gaussian 1:0 -m unary -o unary.png").fine();
    let unary = read_labels(&place.path("unary.png")).unwrap();
    let mut right = 0;
    for kernel in [
        "--gaussian 1e-9:3",
        "--gaussian 1e-9:3 --filter lattice",
        "--gaussian 1e-9:3 --filter exact",
        "--gaussian 1e-38:3",
        "--gaussian 1e-38:3 --filter lattice",
        "--bilateral 1e-9:13:1",
        "--bilateral 1e-40:13:1",
        "--bilateral 80:1e-9:1",
        "--bilateral 80:1e-40:1",
    ] {
        let line = format!("segment image.png --probs probs.npy {kernel} -m mf -o out.png --json");
        let run = place.run(&line);
        if run.code != 0 {
            run.failed(1, &["image.png", "standard deviation"]);
            assert!(!place.exists("out.png"));
            continue;
        }
        // No pixel sees another: nothing is left but the unary energies.
        let pairwise = run.fine().json()["pairwise_energy"].as_f64().unwrap();
        assert!(pairwise.abs() < 1e-20, "{kernel}: {pairwise}");
        assert_eq!(read_labels(&place.path("out.png")).unwrap(), unary, "{kernel}");
        std::fs::remove_file(place.path("out.png")).unwrap();
        right += 1;
    }
    assert!(right >= 3, "only {right} right answers");
}

#[test]
fn huge_sigma_and_weight_give_finite_energies() {
    let place = Place::new();
    for kernels in
        ["--gaussian 1e9:1", "--gaussian 3:1e30", "--bilateral 1e30:1e30:1", "--gaussian 1e38:1e38"]
    {
        let run =
            place.run(&format!("segment image.png --probs probs.npy {kernels} -m mf -o out.png --json"));
        if run.code == 0 {
            let report = run.json();
            assert!(report["energy"].as_f64().is_some_and(f64::is_finite), "{kernels}: {report}");
        } else {
            run.failed(1, &["image.png"]);
        }
    }
}

#[test]
fn likely_mistakes_are_warned_about() {
    let place = Place::new();
    let small: Vec<f32> = place.scene.image.data.iter().map(|v| v / 255.0).collect();
    write_npy_f32(&place.path("small.npy"), &[HEIGHT, WIDTH, 3], &small).unwrap();
    let run = place.run("segment small.npy --probs probs.npy -o out.png");
    assert!(run.code == 0 && run.err.contains("small.npy") && run.err.contains("0 to 1"), "{}", run.err);
    place.run("segment small.npy --probs probs.npy --bilateral 20:0.1:3 -o out.png").fine();
    let halves: Vec<f32> = place.planes().iter().map(|p| 0.5 * p).collect();
    write_npy_f32(&place.path("halves.npy"), &[LABELS, HEIGHT, WIDTH], &halves).unwrap();
    let run = place.run("segment image.png --probs halves.npy -o out.png");
    assert!(
        run.code == 0 && run.err.contains("halves.npy") && run.err.contains("sums to 0.500"),
        "{}",
        run.err
    );
    assert!(run.err.lines().all(|line| line.starts_with("relaxcrf: warning: ")), "{}", run.err);
}

#[test]
fn forbidden_labels_are_never_used() {
    let place = Place::new();
    let n = WIDTH * HEIGHT;
    let mut energies = vec![0.0; LABELS * n];
    energies[n..2 * n].fill(f32::INFINITY);
    write_npy_f32(&place.path("hard.npy"), &[LABELS, HEIGHT, WIDTH], &energies).unwrap();
    place.run("segment image.png --unary hard.npy -o out.png").fine();
    assert!(read_labels(&place.path("out.png")).unwrap().labels.iter().all(|&l| l != 1));
    let report = place.run("energy image.png --unary hard.npy --labels truth.png --json").fine().json();
    assert!(report["energy"].is_null(), "an infinite energy has no JSON number");
    energies.iter_mut().skip(5).step_by(n).for_each(|e| *e = f32::INFINITY);
    write_npy_f32(&place.path("stuck.npy"), &[LABELS, HEIGHT, WIDTH], &energies).unwrap();
    let texts = ["stuck.npy", "+inf for every label at pixel 5"];
    place.fails("segment image.png --unary stuck.npy -o no.png", 1, &texts);
}

#[test]
fn file_names_may_hold_spaces_and_any_letters() {
    let place = Place::new();
    let folder = place.path("mes données 图");
    std::fs::create_dir(&folder).unwrap();
    for file in ["image.png", "probs.npy"] {
        std::fs::copy(place.path(file), folder.join(file)).unwrap();
    }
    let run = common::outcome(
        common::program(&folder)
            .args(["segment", "image.png", "--probs", "probs.npy", "-o", "sortie é.png", "-m", "mf5"])
            .output()
            .unwrap(),
    );
    run.fine();
    assert!(folder.join("sortie é.png").exists());
}

#[test]
fn old_output_survives_a_failed_run() {
    let place = Place::new();
    place.write("out.png", b"precious");
    place.fails("segment image.png --probs gone.npy -o out.png", 1, &["gone.npy"]);
    assert_eq!(place.bytes("out.png"), b"precious");
    place.run("segment image.png --probs probs.npy -m mf5 -o out.png").fine();
    assert!(read_labels(&place.path("out.png")).is_ok());
}
