//! Where runs start and with which labels, and label costs by name.

mod common;

use common::{HEIGHT, LABELS, Place, WIDTH};
use relaxcrf_io::read_labels;

const SEGMENT: &str = "segment image.png --probs probs.npy --gaussian 3:1 --bilateral 20:13:3 -o out.png";

fn labels(place: &Place, options: &str) -> Vec<u16> {
    // There may be warnings: what is tested here are labels.
    let run = place.run(&format!("{SEGMENT} {options}"));
    assert_eq!(run.code, 0, "{}", run.err);
    read_labels(&place.path("out.png")).unwrap().labels
}

#[test]
fn run_of_one_step_keeps_the_labels_that_it_starts_from() {
    let place = Place::new();
    let start = labels(&place, "-m mf10");
    std::fs::copy(place.path("out.png"), place.path("start.png")).unwrap();
    assert_ne!(labels(&place, "-m unary"), start, "the start makes a difference");
    // A labelling of mean field is nearly stationary.
    let found = labels(&place, "-m mf1 --init start.png");
    let same = found.iter().zip(&start).filter(|(a, b)| a == b).count();
    assert!(5 * same >= 4 * start.len(), "{same} of {}", start.len());
    // Probabilities as a start are what every run starts from anyway.
    assert_eq!(labels(&place, "-m mf3 --init probs.npy"), labels(&place, "-m mf3"));
    assert_eq!(labels(&place, "-m mf3 --init scores:probs.npy").len(), WIDTH * HEIGHT);
}

#[test]
fn labels_that_are_not_kept_do_not_occur_and_the_others_keep_their_numbers() {
    let place = Place::new();
    let all = labels(&place, "-m mf5");
    assert!(all.iter().any(|l| ![0, LABELS as u16 - 1].contains(l)), "other labels occur");
    let last = LABELS as u16 - 1;
    let kept = labels(&place, &format!("-m qp+dc-neg --keep-labels {last},0 --save-probs beliefs.npy"));
    assert!(kept.iter().all(|l| [0, last].contains(l)));
    let beliefs = relaxcrf_io::read_array(&place.path("beliefs.npy")).unwrap();
    assert_eq!(beliefs.shape, [LABELS, HEIGHT, WIDTH]);
    assert!(beliefs.data[WIDTH * HEIGHT..2 * WIDTH * HEIGHT].iter().all(|&v| v == 0.0));
    std::fs::copy(place.path("out.png"), place.path("start.png")).unwrap();
    let again = labels(&place, &format!("-m mf5 --keep-labels 0,{last} --init start.png --roundings 0"));
    assert!(again.iter().all(|l| [0, last].contains(l)));
    place.fails(
        &format!("{SEGMENT} --keep-labels 0,99"),
        1,
        &["--keep-labels names label 99", "expected labels"],
    );
    place.fails(&format!("{SEGMENT} --keep-labels 0,0"), 1, &["names label 0 twice"]);
    place.fails(
        &format!("{SEGMENT} --tile 16 --keep-labels 0"),
        1,
        &["--tile cannot be combined with --init"],
    );
    place.fails(&format!("{SEGMENT} --init gone.png"), 1, &["gone.png"]);
}

#[test]
fn label_costs_have_names_and_trees_are_read_from_files() {
    let place = Place::new();
    for costs in ["linear:2", "quadratic", "quadratic:2.5"] {
        assert_eq!(labels(&place, &format!("-m lp --max-iter 3 --compat {costs}")).len(), WIDTH * HEIGHT);
    }
    let edges: String = (0..LABELS).map(|l| format!("{l}, {}, 0.5\n", LABELS)).collect();
    place.write("star.csv", format!("# node, parent, length\n{edges}").as_bytes());
    assert_eq!(labels(&place, "-m qp --compat star.csv"), labels(&place, "-m qp --compat potts"));
    place.write("bad.csv", b"0,7\n");
    place.fails(
        &format!("{SEGMENT} --compat bad.csv"),
        1,
        &["bad.csv", "line 1 is `0,7`; expected NODE,PARENT,LENGTH"],
    );
    place.fails(&format!("{SEGMENT} --compat quadratic:0"), 2, &["truncation is 0"]);
}
