use proptest::prelude::*;

use super::*;

fn grey(width: usize, values: &[f32]) -> Image {
    Image::new(width, values.len() / width, 1, values.to_vec()).unwrap()
}

fn plain(measure: Measure) -> CostOptions {
    CostOptions { truncation: None, ..CostOptions::new(measure) }
}

#[test]
fn absolute_difference_by_hand() {
    let left = grey(4, &[10.0, 20.0, 90.0, 40.0]);
    let right = grey(4, &[20.0, 90.0, 40.0, 7.0]);
    let options = CostOptions::default();
    let rows = cost(&left, &right, 3, &options).unwrap();
    assert_eq!(rows[..3], [10.0, 40.0, 40.0]);
    assert_eq!(rows[3..6], [40.0, 0.0, 40.0]);
    assert_eq!(rows[6..9], [40.0, 0.0, 40.0]);
    assert_eq!(rows[9..], [33.0, 0.0, 40.0]);
    // Without truncation, the unseen costs as much as the worst seen: |90 - 20| at x = 2, d = 2.
    let rows = cost(&left, &right, 3, &plain(Measure::AbsoluteDifference)).unwrap();
    assert_eq!(rows[..6], [10.0, 70.0, 70.0, 70.0, 0.0, 70.0]);
    assert_eq!(rows[6..], [50.0, 0.0, 70.0, 33.0, 0.0, 50.0]);
}

#[test]
fn channels_are_averaged_and_rounded() {
    let left = Image::new(1, 1, 3, vec![0.0, 0.0, 1.0]).unwrap();
    let right = Image::new(1, 1, 3, vec![0.0; 3]).unwrap();
    let options = CostOptions { rounding: Some(0.01), ..CostOptions::default() };
    assert_eq!(cost(&left, &right, 1, &options).unwrap(), [0.33]);
    let exact = cost(&left, &right, 1, &CostOptions::default()).unwrap()[0];
    assert!((exact - 1.0 / 3.0).abs() < 1e-7);
}

#[test]
fn birchfield_tomasi_forgives_half_a_pixel() {
    // A ramp seen half a pixel further: the plain difference is 5, the insensitive one is 0.
    let left = grey(5, &[0.0, 10.0, 20.0, 30.0, 40.0]);
    let right = grey(5, &[5.0, 15.0, 25.0, 35.0, 45.0]);
    let bt = cost(&left, &right, 1, &plain(Measure::BirchfieldTomasi)).unwrap();
    assert_eq!(bt, [0.0; 5]);
    assert_eq!(cost(&left, &right, 1, &plain(Measure::AbsoluteDifference)).unwrap(), [5.0; 5]);
    // By hand: left 100 against right (20, 40, 0) covers 20..40: 60 beyond; right 40 against the left's
    // (0, 100, 0), which covers 50..100, lies 10 below it.
    let left = grey(3, &[0.0, 100.0, 0.0]);
    let right = grey(3, &[20.0, 40.0, 0.0]);
    assert_eq!(cost(&left, &right, 1, &plain(Measure::BirchfieldTomasi)).unwrap()[1], 10.0);
}

#[test]
fn census_counts_changed_neighbours() {
    let left = grey(3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    let mut changed = left.clone();
    changed.data[0] = 8.0;
    let rows = cost(&left, &changed, 1, &plain(Measure::Census { radius: 1 })).unwrap();
    assert_eq!(rows[4], 1.0);
    // Exposure does not matter, as long as the order of the values stays.
    let mut brighter = left.clone();
    brighter.data.iter_mut().for_each(|v| *v = *v * 1.5 + 20.0);
    for radius in 1..=3 {
        let rows = cost(&left, &brighter, 1, &CostOptions::new(Measure::Census { radius })).unwrap();
        assert!(rows.iter().all(|&v| v == 0.0));
    }
}

#[test]
fn bad_input_is_named() {
    let a = grey(4, &[0.0; 8]);
    let try_it = |left: &Image, right: &Image, d, options: &CostOptions| {
        cost(left, right, d, options).unwrap_err().to_string()
    };
    let options = CostOptions::default();
    assert!(try_it(&a, &grey(2, &[0.0; 8]), 2, &options).contains("2 x 4 pixels"));
    assert!(try_it(&a, &Image { data: vec![], ..a.clone() }, 2, &options).contains("0 values"));
    assert!(try_it(&a, &a, 0, &options).contains("1 to 4"));
    assert!(try_it(&a, &a, 5, &options).contains("1 to 4"));
    let nan = grey(4, &[0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0]);
    assert!(try_it(&a, &nan, 2, &options).contains("pixel 5"));
    for truncation in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let o = CostOptions { truncation: Some(truncation), ..options };
        assert!(try_it(&a, &a, 2, &o).contains("truncation"));
    }
    let o = CostOptions { rounding: Some(0.0), ..options };
    assert!(try_it(&a, &a, 2, &o).contains("rounding"));
    for aggregation in
        [Aggregation::Box { radius: 0 }, Aggregation::EdgeAware { sigma_xy: 0.0, sigma_rgb: 1.0 }]
    {
        assert!(try_it(&a, &a, 2, &CostOptions { aggregation, ..options }).contains("aggregation"));
    }
    assert!(try_it(&a, &a, 2, &CostOptions::new(Measure::Zncc { radius: 0 })).contains("correlation"));
    for radius in [0, 4, usize::MAX] {
        assert!(try_it(&a, &a, 2, &CostOptions::new(Measure::Census { radius })).contains("census radius"));
    }
}

#[test]
fn correlation_is_blind_to_gain_and_offset() {
    let values: Vec<f32> = (0..35).map(|i| ((i * 37) % 101) as f32).collect();
    let left = grey(7, &values);
    let mut right = left.clone();
    right.data.iter_mut().for_each(|v| *v = 2.0 * *v + 30.0);
    let costs = cost(&left, &right, 1, &plain(Measure::Zncc { radius: 1 })).unwrap();
    assert!(costs.iter().all(|&c| c < 0.01), "{costs:?}");
}

/// The definition: the mean over a square, cut at the border.
#[test]
fn box_aggregation_averages_squares() {
    let left = grey(6, &(0..30).map(|i| ((i * 53) % 97) as f32).collect::<Vec<_>>());
    let right = grey(6, &(0..30).map(|i| ((i * 29) % 89) as f32).collect::<Vec<_>>());
    let single = cost(&left, &right, 3, &CostOptions::default()).unwrap();
    let options = CostOptions { aggregation: Aggregation::Box { radius: 1 }, ..CostOptions::default() };
    let averaged = cost(&left, &right, 3, &options).unwrap();
    for (a, d) in (0..30).flat_map(|a| (0..3).map(move |d| (a, d))) {
        let near = |b: &usize| (b % 6).abs_diff(a % 6) <= 1 && (b / 6).abs_diff(a / 6) <= 1;
        let values: Vec<f32> = (0..30).filter(near).map(|b| single[b * 3 + d]).collect();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        assert!((averaged[a * 3 + d] - mean).abs() < 1e-3);
    }
}

#[test]
fn edges_stop_aggregation_across_colours() {
    // Two flat halves; the left one matches at disparity 0, the right one at no disparity.
    let left = grey(16, &(0..16 * 8).map(|i| if i % 16 < 8 { 20.0 } else { 200.0 }).collect::<Vec<_>>());
    let mut right = left.clone();
    right.data.iter_mut().filter(|v| **v > 100.0).for_each(|v| *v = 150.0);
    for aggregation in [Aggregation::Cross, Aggregation::EdgeAware { sigma_xy: 5.0, sigma_rgb: 10.0 }] {
        let costs = cost(&left, &right, 1, &CostOptions { aggregation, ..CostOptions::default() }).unwrap();
        for (a, c) in costs.iter().enumerate() {
            // One pixel always counts beyond an edge.
            let expected = if a % 16 < 7 {
                0.0..2.0
            } else if a % 16 > 8 {
                38.0..40.1
            } else {
                0.0..40.1
            };
            assert!(expected.contains(c), "{aggregation:?} at {a}: {c}");
        }
    }
}

fn measures() -> impl Strategy<Value = Measure> {
    prop::sample::select(vec![
        Measure::AbsoluteDifference,
        Measure::BirchfieldTomasi,
        Measure::Census { radius: 1 },
        Measure::Census { radius: 3 },
        Measure::AdCensus,
        Measure::Zncc { radius: 2 },
    ])
}

proptest! {
    /// A picture against itself, moved by `shift`, costs nothing at that disparity (away from borders).
    #[test]
    fn a_moved_picture_is_found(seed in any::<u64>(), shift in 0usize..4, measure in measures()) {
        // Equalizing exposures presumes pictures of mostly the same content, which so small ones are not.
        prop_assume!(measure != Measure::AdCensus);
        let (width, height) = (16, 5);
        let noise = |x: usize, y: usize| {
            (relaxcrf::filter::rng::mix(seed ^ relaxcrf::filter::rng::mix((x * 1000 + y) as u64)) >> 56) as f32
        };
        let picture = |offset: usize| Image::new(width, height, 1,
            (0..width * height).map(|i| noise(i % width + offset, i / width)).collect()).unwrap();
        let costs = cost(&picture(0), &picture(shift), 4, &CostOptions::new(measure)).unwrap();
        for y in 0..height {
            for x in shift + 3..width - 3 {
                prop_assert!(costs[(y * width + x) * 4 + shift] < 0.01);
            }
        }
    }

    /// Costs lie between zero and the truncation, and Birchfield-Tomasi never exceeds the plain difference.
    #[test]
    fn bounds(values in prop::collection::vec(0u8..=255, 2 * 24), cap in 1f32..60.0, measure in measures()) {
        let values: Vec<f32> = values.into_iter().map(f32::from).collect();
        let (left, right) = (grey(6, &values[..24]), grey(6, &values[24..]));
        let of = |measure| cost(&left, &right, 5, &CostOptions { truncation: Some(cap), ..CostOptions::new(measure) }).unwrap();
        prop_assert!(of(measure).iter().all(|v| (0.0..=cap).contains(v)));
        for (bt, ad) in of(Measure::BirchfieldTomasi).iter().zip(of(Measure::AbsoluteDifference)) {
            prop_assert!(*bt <= ad);
        }
    }
}
