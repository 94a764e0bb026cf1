//! The report in a real browser. Skipped, with a message, where there is no Chromium.
//!
//! Each check loads the page from disk with all names resolved to nowhere, and reads back what the browser made of
//! it. A second copy of the page, with a script that the page's own policy would not let in, measures the layout.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Place, StereoPlace};

/// The browser, if there is one.
fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names
        .into_iter()
        .find(|n| Command::new(n).arg("--version").output().is_ok_and(|o| o.status.success()));
    if found.is_none() {
        println!("skipped: there is no chromium");
    }
    found
}

struct Seen {
    dom: String,
    log: String,
}

/// Opens a page, `width` CSS pixels wide, and waits until it is done.
fn open(browser: &str, page: &Path, width: usize, more: &[&str]) -> Seen {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--enable-logging=stderr", "--v=0", "--host-resolver-rules=MAP * ~NOTFOUND"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        log: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Writes the layout into the page's title: widths, broken images, visible parts.
const PROBE: &str = "<script>addEventListener('load', () => {
  const seen = e => e.getClientRects().length > 0;
  const images = [...document.images], plots = [...document.querySelectorAll('svg.plot')].filter(seen);
  const text = plots.flatMap(p => [...p.querySelectorAll('text')].map(t => t.getBoundingClientRect().height));
  document.title = JSON.stringify({
    overflow: document.documentElement.scrollWidth - innerWidth,
    width: innerWidth,
    images: images.length,
    broken: images.filter(i => !(i.complete && i.naturalWidth > 0)).length,
    plots: plots.length,
    curves: plots.reduce((n, p) => n + p.querySelectorAll('.curve').length, 0),
    spill: plots.filter(p => p.getBoundingClientRect().right > innerWidth).length,
    least_text: Math.min(...text),
    requests: performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).map(r => r.name),
    ink: getComputedStyle(document.body).color, paper: getComputedStyle(document.body).backgroundColor,
  });
});</script>";

fn check(browser: &str, page: &Path, images: usize, plots: usize) {
    // As a reader sees it: nothing to complain about on the console.
    let seen = open(browser, page, 1200, &["--dump-dom"]);
    assert!(seen.dom.contains("</footer>"), "{}", seen.dom);
    let complaints: Vec<&str> = seen.log.lines().filter(|l| l.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");

    // The same page with a probe in it.
    let html = fs::read_to_string(page).unwrap();
    let policy = html.lines().find(|l| l.contains("Content-Security-Policy")).unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let probed = page.with_file_name("probed.html");
    fs::write(&probed, html.replace(policy, "").replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    for (width, more) in
        [(500, "--force-device-scale-factor=1"), (1600, "--blink-settings=preferredColorScheme=0")]
    {
        // A frame is as narrow as we like; windows are not.
        let frame = page.with_file_name("frame.html");
        let inner = if width == 500 { 400 } else { width };
        fs::write(
            &frame,
            format!(
                "<body style='margin:0'><iframe src='probed.html' style='border:0;width:{inner}px;height:3000px' \
                 onload='setTimeout(() => document.title = this.contentDocument.title, 300)'></iframe>"
            ),
        )
        .unwrap();
        let options = ["--allow-file-access-from-files", "--virtual-time-budget=4000", "--dump-dom", more];
        let seen = open(browser, &frame, width, &options);
        let title =
            seen.dom.split("<title>").nth(1).and_then(|t| t.split("</title>").next()).unwrap_or_default();
        let found: serde_json::Value =
            serde_json::from_str(title).unwrap_or_else(|e| panic!("{e}: {}", seen.dom));
        assert_eq!(found["width"], inner);
        assert!(found["overflow"].as_f64().unwrap() <= 0.0, "the page is wider than the screen: {found}");
        assert_eq!((&found["images"], &found["broken"]), (&images.into(), &0.into()), "{found}");
        assert_eq!((&found["plots"], &found["spill"]), (&plots.into(), &0.into()), "{found}");
        assert!(found["curves"].as_u64().unwrap() >= 2 * plots as u64, "{found}");
        if plots > 0 {
            assert!(found["least_text"].as_f64().unwrap() >= 9.0, "text too small to read: {found}");
        }
        assert_eq!(found["requests"].as_array().map(Vec::len), Some(0), "{found}");
        assert_ne!(found["ink"], found["paper"]);
        if width == 1600 {
            assert_eq!(found["paper"], "rgb(20, 24, 29)", "dark where the reader prefers it: {found}");
        }
    }

    // A picture of it.
    let shot = page.with_extension("png");
    open(browser, page, 1200, &[&format!("--screenshot={}", shot.display())]);
    let picture = relaxcrf_io::read_image(&shot).unwrap();
    assert!(picture.width >= 1200 && picture.height >= 700);
    let first = picture.pixel(0, 0).to_vec();
    assert!(picture.data.chunks_exact(picture.channels).any(|p| p != first), "a blank page");
}

#[test]
fn page_of_a_segmentation_fits_every_screen() {
    let Some(browser) = chromium() else { return };
    let place = Place::new();
    place
        .run("compare image.png --probs probs.npy --truth truth.png -m mf5,qp,qp+dc-neg --max-iter 10 -q --report r.html")
        .fine();
    // Image and truth, three methods each with labels, errors and uncertainty; two plots.
    check(browser, &place.path("r.html"), 2 + 3 * 3, 2);
}

#[test]
fn page_of_stereo_pairs_fits_every_screen() {
    let Some(browser) = chromium() else { return };
    let place = StereoPlace::new();
    place.run("reproduce stereo . --methods mf5,dc-neg --time-limit 5s -q --out out").fine();
    // Left, right and truth, two methods; two plots.
    check(browser, &place.path("out/stereo.html"), 3 + 3 * 2, 2);
}

#[test]
fn page_of_the_demo_fits_every_screen() {
    let Some(browser) = chromium() else { return };
    let place = Place::new();
    place.run("demo --out demo -q").fine();
    // Photograph, network, refined, truth; changes and three close-ups; six pictures of the stereo scene.
    check(browser, &place.path("demo/index.html"), 4 + 4 + 6, 0);
}
