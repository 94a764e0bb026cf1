//! From beliefs to labels.
//!
//! | rounding | guarantee, for beliefs with LP value `<φ, y> + P(y)` |
//! |---|---|
//! | [`argmax`] | none, but often the best |
//! | [`kleinberg_tardos`] | expected pairwise energy at most 2 P(y) for Potts; expected unary energy `<φ, y>` |
//! | [`interval`] | expected energy equals the LP value for costs `\|i - j\|` |
//! | [`top_down`] | expected pairwise energy within a constant of P(y) for trees with geometric edges |
//!
//! All but `argmax` draw thresholds that all pixels share, so that pixels with equal beliefs get equal
//! labels, and all give label i to pixel a with probability `y_a(i)`. The same seed gives the same labels.
//! Draws are cheap next to the beliefs: callers draw several and keep the labelling of lowest energy.

use crate::beliefs::Beliefs;
use crate::labeling::Labeling;
use crate::model::trees::LabelTree;
use relaxcrf_filter::rng::Rng;

/// Rounds of threshold drawing per choice: a pixel is still undecided with probability `e^-40`.
const ROUNDS_PER_CHOICE: usize = 40;

/// The most believed label of every pixel; the smaller label wins a tie.
pub fn argmax(beliefs: &Beliefs) -> Labeling {
    beliefs.argmax()
}

/// Draws a label and a threshold again and again; undecided pixels that believe more in the label than the
/// threshold take it.
pub fn kleinberg_tardos(beliefs: &Beliefs, seed: u64) -> Labeling {
    let labels = beliefs.labels();
    let y = beliefs.as_slice();
    let mut x = beliefs.argmax().into_vec();
    let mut undecided: Vec<u32> = (0..x.len() as u32).collect();
    let share = |a: u32, i: usize| y[a as usize * labels + i];
    by_thresholds(&mut Rng::new(seed), labels, &mut undecided, share, |a, i| x[a as usize] = i as u16);
    Labeling::new(x)
}

/// One threshold for all pixels on the running sums of their beliefs: for labels on a line.
pub fn interval(beliefs: &Beliefs, seed: u64) -> Labeling {
    let threshold = Rng::new(seed).next_f64();
    let label = |row: &[f32]| {
        let (mut sum, mut last) = (0.0, 0);
        for (i, &v) in row.iter().enumerate().filter(|(_, v)| **v > 0.0) {
            sum += f64::from(v);
            last = i;
            if sum > threshold {
                break;
            }
        }
        // Sums that end a little below one leave the last believed label.
        last as u16
    };
    Labeling::new(beliefs.as_slice().chunks_exact(beliefs.labels()).map(label).collect())
}

/// From the root of a label tree to the leaves: at every node the pixels that came there choose a child by
/// thresholds on the share of its labels.
///
/// # Panics
/// If the tree is not over the beliefs' labels.
pub fn top_down(beliefs: &Beliefs, tree: &LabelTree, seed: u64) -> Labeling {
    let labels = beliefs.labels();
    assert_eq!(tree.labels(), labels, "the tree must have the beliefs' labels as leaves");
    let y = beliefs.as_slice();
    let mut x = beliefs.argmax().into_vec();
    let mut open = vec![(tree.root(), (0..x.len() as u32).collect::<Vec<_>>())];
    while let Some((node, mut pixels)) = open.pop() {
        let children = tree.children(node);
        if pixels.is_empty() {
            continue;
        }
        if let [leaf] = tree.leaves(node) {
            pixels.iter().for_each(|&a| x[a as usize] = *leaf as u16);
            continue;
        }
        // A stream per node: what happens below one child leaves the other children's draws alone.
        let mut rng = Rng::stream(seed, node as u64);
        let mass =
            |a: u32, node: usize| tree.leaves(node).iter().map(|&i| y[a as usize * labels + i]).sum::<f32>();
        let share = |a: u32, k: usize| {
            let whole: f32 = children.iter().map(|&c| mass(a, c)).sum();
            if whole > 0.0 { mass(a, children[k]) / whole } else { 0.0 }
        };
        let mut chosen: Vec<Vec<u32>> = vec![Vec::new(); children.len()];
        by_thresholds(&mut rng, children.len(), &mut pixels, share, |a, k| chosen[k].push(a));
        // Pixels that no draw decided take their largest share.
        for &a in &pixels {
            let best = (0..children.len()).max_by(|&j, &k| share(a, j).total_cmp(&share(a, k)));
            chosen[best.unwrap_or(0)].push(a);
        }
        open.extend(children.iter().copied().zip(chosen));
    }
    Labeling::new(x)
}

/// Lets the undecided choose among `choices` with probabilities `share`; who is left stays undecided.
fn by_thresholds(
    rng: &mut Rng,
    choices: usize,
    undecided: &mut Vec<u32>,
    share: impl Fn(u32, usize) -> f32,
    mut decide: impl FnMut(u32, usize),
) {
    for _ in 0..ROUNDS_PER_CHOICE * choices {
        if undecided.is_empty() {
            return;
        }
        let choice = rng.below(choices);
        let threshold = rng.next_f64();
        // Strictly above: a share of 0 is never taken, a share of 1 always.
        undecided.retain(|&a| {
            let takes = f64::from(share(a, choice)) > threshold;
            if takes {
                decide(a, choice);
            }
            !takes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRAWS: u64 = 20_000;

    /// Three pixels: certain, undecided, spread out.
    fn beliefs() -> Beliefs {
        Beliefs::new(vec![1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.2, 0.3, 0.5], 3).unwrap()
    }

    /// ((0, 1), 2) with edges of length 1.
    fn tree() -> LabelTree {
        LabelTree::tightest(
            3,
            &|i, j| if (i, j) == (0, 1) { 2.0 } else { 3.0 },
            vec![vec![vec![0, 1], vec![2]]],
        )
    }

    type Rounding = Box<dyn Fn(&Beliefs, u64) -> Labeling>;

    fn roundings() -> [(&'static str, Rounding); 3] {
        [
            ("kleinberg-tardos", Box::new(kleinberg_tardos)),
            ("interval", Box::new(interval)),
            ("top-down", Box::new(|b, s| top_down(b, &tree(), s))),
        ]
    }

    #[test]
    fn labels_appear_as_often_as_they_are_believed_in() {
        let y = beliefs();
        for (name, round) in roundings() {
            let mut counts = [0.0; 9];
            for seed in 0..DRAWS {
                for (a, &l) in round(&y, seed).as_slice().iter().enumerate() {
                    counts[a * 3 + usize::from(l)] += 1.0 / DRAWS as f32;
                }
            }
            for (c, v) in counts.iter().zip(y.as_slice()) {
                // Three standard deviations of a frequency over 20 000 draws.
                assert!((c - v).abs() < 0.011, "{name}: {counts:?}");
            }
        }
    }

    /// How often two pixels get different labels.
    fn separations(y: &Beliefs, round: &dyn Fn(&Beliefs, u64) -> Labeling) -> f32 {
        let parted = |seed: &u64| round(y, *seed).as_slice().windows(2).any(|w| w[0] != w[1]);
        (0..DRAWS).filter(parted).count() as f32 / DRAWS as f32
    }

    #[test]
    fn certain_and_undecided_part_half_the_time() {
        let y = Beliefs::new(vec![1.0, 0.0, 0.5, 0.5], 2).unwrap();
        assert!((separations(&y, &kleinberg_tardos) - 0.5).abs() < 0.011);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn pixels_part_at_most_twice_as_often_as_their_beliefs(v in prop::collection::vec(0.0f32..1.0, 8)) {
            let rows: Vec<f32> = v
                .chunks(4)
                .flat_map(|r| { let s = r.iter().sum::<f32>() + 4e-3; r.iter().map(move |x| (x + 1e-3) / s) })
                .collect();
            let half_l1 = 0.5 * (0..4).map(|i| (rows[i] - rows[4 + i]).abs()).sum::<f32>();
            let y = Beliefs::new(rows, 4).unwrap();
            prop_assert!(separations(&y, &kleinberg_tardos) <= 2.0 * half_l1 + 0.011);
            prop_assert!(separations(&y, &kleinberg_tardos) >= half_l1 - 0.011, "no rounding can do better");
        }

        #[test]
        fn interval_rounding_keeps_distances_on_the_line(v in prop::collection::vec(0.01f32..1.0, 8)) {
            let rows: Vec<f32> = v
                .chunks(4)
                .flat_map(|r| { let s = r.iter().sum::<f32>(); r.iter().map(move |x| x / s) })
                .collect();
            let y = Beliefs::new(rows, 4).unwrap();
            let rows = y.as_slice();
            let below = |a: usize, k: usize| rows[a * 4..=a * 4 + k].iter().sum::<f32>();
            let want: f32 = (0..3).map(|k| (below(0, k) - below(1, k)).abs()).sum();
            let distance = |x: &[u16]| x[0].abs_diff(x[1]) as f32;
            let mean = (0..DRAWS).map(|s| distance(interval(&y, s).as_slice())).sum::<f32>() / DRAWS as f32;
            prop_assert!((mean - want).abs() < 0.04, "{mean} against {want}");
        }

        #[test]
        fn labellings_round_to_themselves(labels in prop::collection::vec(0u16..3, 1..50), seed: u64) {
            let x = Labeling::new(labels);
            let y = Beliefs::from_labeling(&x, 3);
            prop_assert_eq!(&argmax(&y), &x);
            for (name, round) in roundings() {
                prop_assert_eq!(&round(&y, seed), &x, "{}", name);
            }
        }
    }

    #[test]
    fn the_seed_decides() {
        let y = Beliefs::uniform(200, 3);
        for (name, round) in roundings() {
            assert_eq!(round(&y, 5), round(&y, 5), "{name}");
            let kinds: std::collections::BTreeSet<u16> =
                (0..40).map(|s| round(&y, s).as_slice()[0]).collect();
            assert_eq!(kinds.len(), 3, "{name}");
            // Equal pixels share their thresholds.
            assert!(round(&y, 5).as_slice().windows(2).all(|w| w[0] == w[1]), "{name}");
        }
    }
}
