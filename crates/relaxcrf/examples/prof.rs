//! Temporary profile driver.
use relaxcrf::filter::lattice::{SweepTerm, Tables};
use relaxcrf::filter::{Blur, Filter, Lattice, Scaling};
use relaxcrf::solve::updates::Updates;
use std::sync::atomic::AtomicBool;
use std::time::Instant as Wall;
struct Instant(f64, Wall);
impl Instant {
    fn now() -> Self {
        Self(cpu(), Wall::now())
    }
    fn elapsed(&self) -> std::time::Duration {
        if std::env::var("WALL").is_ok() {
            self.1.elapsed()
        } else {
            std::time::Duration::from_secs_f64(cpu() - self.0)
        }
    }
}
fn cpu() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        * 1e-9
}
fn read(p: &str) -> Vec<f32> {
    std::fs::read(p).unwrap().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (labels, pic, sxy, srgb): (usize, usize, f32, f32) =
        (a[1].parse().unwrap(), a[2].parse().unwrap(), a[3].parse().unwrap(), a[4].parse().unwrap());
    let rounds: usize = a[5].parse().unwrap();
    let threads: usize = a[6].parse().unwrap();
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    rayon::scope(|_| {
        let (w, h) = (500, 375);
        let im = read(&format!("/tmp/pic/im_{pic}.f32"));
        let u = read(&format!("/tmp/pic/u_{labels}_{pic}.f32"));
        let n = w * h;
        let f2: Vec<f32> = (0..n).flat_map(|i| [(i % w) as f32 / 3.0, (i / w) as f32 / 3.0]).collect();
        let f5: Vec<f32> = (0..n)
            .flat_map(|i| {
                [
                    (i % w) as f32 / sxy,
                    (i / w) as f32 / sxy,
                    im[3 * i] / srgb,
                    im[3 * i + 1] / srgb,
                    im[3 * i + 2] / srgb,
                ]
            })
            .collect();
        let mut best = [f64::INFINITY; 5];
        let mut keep = |k: usize, t: Instant| best[k] = best[k].min(t.elapsed().as_secs_f64() * 1e3);
        let mut sum = 0.0;
        for _ in 0..rounds {
            let t = Instant::now();
            let l2 = Lattice::new(&f2, 2, Blur::Classic).unwrap();
            keep(0, t);
            let t = Instant::now();
            let n2: Vec<f32> = l2.normalizer().iter().map(|n| n.powf(-0.5)).collect();
            keep(1, t);
            let t = Instant::now();
            let l5 = Lattice::new(&f5, 5, Blur::Classic).unwrap();
            keep(2, t);
            let t = Instant::now();
            let n5: Vec<f32> = l5.normalizer().iter().map(|n| n.powf(-0.5)).collect();
            keep(3, t);
            let t = Instant::now();
            let terms = vec![
                SweepTerm {
                    lattice: &l2,
                    scaling: Scaling { left: Some(&n2), right: Some(&n2), gain: 3.0, add: false },
                },
                SweepTerm {
                    lattice: &l5,
                    scaling: Scaling { left: Some(&n5), right: Some(&n5), gain: 10.0, add: false },
                },
            ];
            let up = Updates { labels, points: n, unary: Some(&u), terms };
            let q = up.run(10, &AtomicBool::new(false), &mut Tables::default());
            keep(4, t);
            sum += q[100];
            if std::env::var("SHOW").is_ok() {
                println!("rows {} {} vertices {} {}", l2.rows(), l5.rows(), l2.vertices(), l5.vertices());
            }
        }
        println!(
            "{labels} pic {pic} {sxy}/{srgb}: build2 {:.1} norm2 {:.1} build5 {:.1} norm5 {:.1} infer {:.1}   {sum}",
            best[0], best[1], best[2], best[3], best[4]
        );
    });
}
