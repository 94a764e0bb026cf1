//! trial
#![cfg_attr(not(feature = "io"), allow(unused))]
#[path = "../tests/common/mod.rs"]
mod common;
use relaxcrf::model::{FilterKind, Normalization};
use relaxcrf::solve::Settings;
#[cfg(not(feature = "io"))]
fn main() {}
#[cfg(feature = "io")]
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    let model = match args[1].as_str() {
        "venus" => {
            common::stereo_pair(&common::shared("data/stereo/venus").unwrap(), 20, FilterKind::Lattice)
        }
        "teddy" => {
            common::stereo_pair(&common::shared("data/stereo/teddy").unwrap(), 60, FilterKind::Lattice)
        }
        p => common::msrc_sample(
            &common::shared("reference/msrc_sample").unwrap(),
            p,
            FilterKind::Lattice,
            Normalization::Symmetric,
        ),
    };
    println!("build {:.2}s scale {:.4e}", t.elapsed().as_secs_f64(), model.scale());
    for m in &args[2..] {
        let (m, it) = m.split_once('@').map_or((m.as_str(), None), |(a, b)| (a, b.parse().ok()));
        let s = common::run(&model, m, &Settings { max_iterations: it, ..Default::default() });
        println!(
            "{m:40} {} E {:.1} LB {:?} it {} {:?} {:.2}s",
            s.status,
            s.energy.total(),
            s.lower_bound.as_ref().map(|b| b.value),
            s.iterations,
            s.counts,
            s.seconds
        );
        if std::env::var("TRACE").is_ok() {
            for p in s.trace.iter() {
                println!(
                    "   {} {} {:.3} obj {:.2} E {:.1} lb {:?}",
                    p.method, p.iteration, p.seconds, p.objective, p.energy, p.lower_bound
                );
            }
        }
    }
}
