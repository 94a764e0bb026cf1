use super::*;

fn accuracy(labels: &[u16], truth: &[u16]) -> f64 {
    labels.iter().zip(truth).filter(|(a, b)| a == b).count() as f64 / truth.len() as f64
}

fn argmax(rows: &[f32], labels: usize) -> Vec<u16> {
    let best = |row: &[f32]| {
        (0..labels).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).unwrap_or(0) as u16
    };
    rows.chunks_exact(labels).map(best).collect()
}

/// Averages each row over neighbours of similar colour: the simplest use of the picture.
fn smoothed(scene: &SegmentationScene) -> Vec<f32> {
    let (w, h, labels) = (scene.image.width, scene.image.height, scene.labels);
    let mut out = vec![0f32; scene.probabilities.len()];
    out.par_chunks_mut(labels).enumerate().for_each(|(p, row)| {
        let (x, y) = (p % w, p / w);
        for v in (y.saturating_sub(12)..=(y + 12).min(h - 1)).step_by(2) {
            for u in (x.saturating_sub(12)..=(x + 12).min(w - 1)).step_by(2) {
                let difference = scene.image.pixel(x, y).iter().zip(scene.image.pixel(u, v));
                let colour: f32 = difference.map(|(a, b)| (a - b).powi(2)).sum();
                let place = (x.abs_diff(u).pow(2) + y.abs_diff(v).pow(2)) as f32;
                let weight = (-colour / (2.0 * 18f32.powi(2)) - place / (2.0 * 8f32.powi(2))).exp();
                let from = &scene.probabilities[(v * w + u) * labels..][..labels];
                row.iter_mut().zip(from).for_each(|(r, f)| *r += weight * f);
            }
        }
    });
    out
}

#[test]
fn scene_colours_improve_the_simulated_classifier() {
    let (mut before, mut after) = (0.0, 0.0);
    for seed in 0..6 {
        let scene = segmentation(200, 150, 5, seed).unwrap();
        let truth = scene.truth.as_slice();
        let b = accuracy(&argmax(&scene.probabilities, 5), truth);
        let a = accuracy(&argmax(&smoothed(&scene), 5), truth);
        assert!((0.7..0.97).contains(&b), "seed {seed}: the classifier is right at {b} of the pixels");
        before += b / 6.0;
        after += a / 6.0;
    }
    assert!(after > before + 0.01, "{before} {after}");
}

#[test]
fn segmentation_scene_has_the_documented_shape() {
    for (w, h, labels) in [(120, 90, 2), (120, 90, 3), (90, 120, 8), (160, 120, 21), (1, 1, 4), (3, 50, 2)] {
        let scene = segmentation(w, h, labels, 11).unwrap();
        scene.image.check().unwrap();
        scene.truth.check(w * h, labels).unwrap();
        assert_eq!(scene.probabilities.len(), w * h * labels);
        for row in scene.probabilities.chunks_exact(labels) {
            assert!(row.iter().all(|p| (0.0..=1.0).contains(p)));
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        assert!(scene.image.data.iter().all(|v| (0.0..=255.0).contains(v) && v.fract() == 0.0));
        if w > 100 {
            let used = scene.truth.histogram(labels).iter().filter(|&&n| n > 0).count();
            assert!(used * 10 >= labels * 9, "{used} of {labels} labels are there");
        }
    }
}

#[test]
fn landscape_shows_every_label_at_any_seed() {
    for seed in 0..4 {
        let scene = landscape(160, 120, seed).unwrap();
        scene.image.check().unwrap();
        scene.truth.check(160 * 120, scene.labels).unwrap();
        assert_eq!((scene.labels, scene.probabilities.len()), (LANDSCAPE_LABELS.len(), 160 * 120 * 8));
        assert!(scene.image.data.iter().all(|v| (0.0..=255.0).contains(v) && v.fract() == 0.0));
        let least = scene.truth.histogram(scene.labels).into_iter().min();
        assert!(least > Some(50), "seed {seed}: {:?}", scene.truth.histogram(scene.labels));
        let right = accuracy(&argmax(&scene.probabilities, scene.labels), scene.truth.as_slice());
        assert!(
            (0.7..0.97).contains(&right),
            "seed {seed}: the classifier is right at {right} of the pixels"
        );
    }
    for (width, height) in [(1, 1), (90, 7), (3, 80)] {
        assert!(landscape(width, height, 1).is_ok(), "{width} x {height}");
    }
    assert!(landscape(0, 5, 1).is_err() && landscape(5, usize::MAX, 1).is_err());
}

#[test]
fn scenes_take_many_labels_and_refuse_bad_sizes() {
    assert!(segmentation(40, 30, 500, 1).is_ok());
    for (w, h, labels) in
        [(0, 5, 3), (5, 0, 3), (5, 5, 1), (5, 5, 70_000), (usize::MAX, 5, 3), (16_384, 16_384, 60_000)]
    {
        assert!(segmentation(w, h, labels, 0).is_err(), "{w} {h} {labels}");
    }
    for (w, h, d) in [(0, 5, 3), (5, 0, 3), (5, 5, 1), (5, 5, 6), (usize::MAX, 5, 3)] {
        assert!(stereo(w, h, d, 0).is_err(), "{w} {h} {d}");
    }
    assert!(stereo(2, 1, 2, 0).is_ok());
    assert!(stereo(400, 3, 400, 0).is_ok());
}

#[test]
fn scenes_depend_on_the_seed_only() {
    let run = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let a = segmentation(60, 40, 4, seed).unwrap();
            let b = stereo(60, 40, 8, seed).unwrap();
            let c = landscape(60, 40, seed).unwrap();
            (a.image, a.probabilities, a.truth, b.left, b.right, b.truth, c.image, c.probabilities, c.truth)
        })
    };
    let first = run(1, 3);
    assert!(first == run(3, 3));
    let other = run(1, 4);
    assert!(first.0 != other.0 && first.3 != other.3 && first.6 != other.6);
}

#[test]
fn right_matches_look_alike_where_they_are_seen() {
    for seed in 0..4 {
        let scene = stereo(240, 180, 24, seed).unwrap();
        scene.truth.check(240 * 180, 24).unwrap();
        let costs = relaxcrf_stereo::cost(&scene.left, &scene.right, 24, &Default::default()).unwrap();
        let truth = scene.truth.as_slice();
        let at_truth: Vec<f32> =
            truth.iter().enumerate().map(|(p, &d)| costs[p * 24 + usize::from(d)]).collect();
        let median = relaxcrf::reduce::quantile(&at_truth, 0.5).unwrap();
        let other = relaxcrf::reduce::quantile(&costs, 0.5).unwrap();
        assert!(median < 6.0 && other > 1.7 * median, "seed {seed}: {median} {other}");
        let negative: Vec<f32> = costs.iter().map(|c| -c).collect();
        let winner = argmax(&negative, 24);
        let close = winner.iter().zip(truth).filter(|(a, b)| a.abs_diff(**b) <= 1).count();
        let fraction = close as f64 / truth.len() as f64;
        assert!((0.3..0.95).contains(&fraction), "seed {seed}: the cheapest match is right at {fraction}");
        let used = scene.truth.histogram(24).iter().filter(|&&n| n > 20).count();
        assert!(used >= 16, "seed {seed}: only {used} disparities occur");
    }
}
