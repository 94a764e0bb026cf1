//! Finds stereo pairs in a directory: the layouts of the Middlebury sets, or a list.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf_io as io;

use crate::disparity::TruthFiles;

/// A pair that was found.
#[derive(Debug, Clone)]
pub struct PairFiles {
    /// Its name, also of the folder for its results.
    pub name: String,
    /// The left picture.
    pub left: PathBuf,
    /// The right picture.
    pub right: PathBuf,
    /// Number of disparities.
    pub disparities: usize,
    /// Files with the true disparities.
    pub truth: TruthFiles,
}

/// Names of left, right, truth and right truth without their endings.
const LAYOUTS: [[&str; 4]; 4] = [
    ["im2", "im6", "disp2", "disp6"],
    ["view1", "view5", "disp1", "disp5"],
    ["im0", "im1", "disp0", "disp1"],
    ["scene1.row3.col3", "scene1.row3.col4", "truedisp.row3.col3", ""],
];

const ENDINGS: [&str; 6] = ["png", "ppm", "pgm", "pfm", "bmp", "tif"];

/// Disparities and truth scales of the published sets.
const KNOWN: [(&str, usize, f64); 10] = [
    ("tsukuba", 16, 16.0),
    ("venus", 20, 8.0),
    ("sawtooth", 20, 8.0),
    ("map", 30, 8.0),
    ("bull", 20, 8.0),
    ("poster", 20, 8.0),
    ("barn1", 20, 8.0),
    ("barn2", 20, 8.0),
    ("cones", 60, 4.0),
    ("teddy", 60, 4.0),
];

/// All pairs in a directory, by name. A `pairs.csv` in it says it all; otherwise folders are searched.
pub fn find(dir: &Path) -> Result<Vec<PairFiles>> {
    let shown = dir.display();
    if !dir.is_dir() {
        bail!(
            "{shown}: is not a directory; expected one with stereo pairs (see `relaxcrf reproduce stereo --help`)"
        );
    }
    let list = dir.join("pairs.csv");
    if list.is_file() {
        let text = io::read_text(&list)?;
        return parse(&text, dir).with_context(|| list.display().to_string());
    }
    let entries = fs::read_dir(dir).with_context(|| shown.to_string())?;
    let mut folders: Vec<PathBuf> = vec![dir.to_path_buf()];
    for entry in entries {
        let path = entry.with_context(|| shown.to_string())?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders[1..].sort();
    let mut pairs = Vec::new();
    for folder in &folders {
        pairs.extend(in_folder(folder)?);
    }
    if pairs.is_empty() {
        bail!(
            "{shown}: no stereo pair found; expected folders with im2 and im6, view1 and view5, ... or a pairs.csv"
        );
    }
    Ok(pairs)
}

fn in_folder(folder: &Path) -> Result<Option<PairFiles>> {
    let file = |stem: &str| {
        let candidates = ENDINGS.iter().map(|e| folder.join(format!("{stem}.{e}")));
        candidates.into_iter().find(|p| !stem.is_empty() && p.is_file())
    };
    for [left, right, truth, truth_right] in LAYOUTS {
        let (Some(left), Some(right)) = (file(left), file(right)) else { continue };
        let full = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        let name = full.file_name().map_or_else(|| "pair".into(), |n| n.to_string_lossy().into_owned());
        let known = KNOWN.iter().find(|k| k.0 == name.to_ascii_lowercase());
        let truth = file(truth);
        let scale = match (&truth, known) {
            (Some(path), _) if path.extension().is_some_and(|e| e == "pfm") => Some(1.0),
            (Some(_), Some(known)) => Some(known.2),
            (Some(path), None) => Some(usual_scale(path, &left)?),
            (None, _) => None,
        };
        let disparities = match (known, &truth, scale) {
            (Some(known), ..) => known.1,
            (None, Some(path), Some(scale)) => range_of(path, scale)?,
            _ => bail!(
                "{}: neither a published set nor a truth tells how many disparities there are; list the pair in a pairs.csv",
                folder.display()
            ),
        };
        let truth_right = truth.as_ref().and_then(|_| file(truth_right));
        return Ok(Some(PairFiles {
            name,
            left,
            right,
            disparities,
            truth: TruthFiles { truth, scale, truth_right, visible: None },
        }));
    }
    Ok(None)
}

/// What the sets of each year use: 8 for the PGM files of 2001, 4 in 2003, and by size since 2005.
fn usual_scale(truth: &Path, left: &Path) -> Result<f64> {
    if left.file_stem().is_some_and(|s| s == "view1") {
        let width = io::read_image(left)?.width;
        return Ok(if width > 1000 {
            1.0
        } else if width > 500 {
            2.0
        } else {
            3.0
        });
    }
    Ok(if truth.extension().is_some_and(|e| e == "pgm") { 8.0 } else { 4.0 })
}

/// The next ten above the largest true disparity.
fn range_of(path: &Path, scale: f64) -> Result<usize> {
    let largest = if path.extension().is_some_and(|e| e == "pfm") {
        io::read_pfm(path)?.data.into_iter().filter(|v| v.is_finite()).fold(0.0, f32::max).into()
    } else {
        f64::from(io::read_labels(path)?.labels.into_iter().max().unwrap_or(0)) / scale
    };
    Ok((largest as usize / 10 + 1) * 10)
}

/// Labels are numbered with 16 bits.
const MAX_DISPARITIES: usize = 65_535;

const COLUMNS: [&str; 8] =
    ["name", "left", "right", "disparities", "truth", "scale", "truth_right", "visible"];

/// A list of pairs: comma-separated, the first line names the columns.
fn parse(text: &str, dir: &Path) -> Result<Vec<PairFiles>> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let cells =
        |line: &str| line.split(',').map(|c| c.trim().trim_matches('"').to_string()).collect::<Vec<_>>();
    let names = lines.next().map(|(_, line)| cells(line)).unwrap_or_default();
    if let Some(unknown) = names.iter().find(|n| !COLUMNS.contains(&n.as_str())) {
        bail!("column `{unknown}` is unknown; expected {}", COLUMNS.join(", "));
    }
    for required in &COLUMNS[..4] {
        if !names.iter().any(|n| n == required) {
            bail!("column `{required}` is missing; expected a first line such as {}", COLUMNS.join(","));
        }
    }
    let mut pairs: Vec<PairFiles> = Vec::new();
    for (number, line) in lines {
        let row = cells(line);
        let at = format!("line {}", number + 1);
        if row.len() > names.len() {
            bail!("{at} has {} cells, but there are {} columns", row.len(), names.len());
        }
        let cell = |name: &str| {
            let column = names.iter().position(|n| n == name)?;
            row.get(column).filter(|c| !c.is_empty())
        };
        let required = |name: &str| cell(name).with_context(|| format!("{at}: `{name}` is empty"));
        let number = |name: &str, text: &str| {
            let value: Option<f64> = text.parse().ok().filter(|v: &f64| *v > 0.0 && v.is_finite());
            value.with_context(|| format!("{at}: `{name}` is `{text}`; expected a number above 0"))
        };
        let whole = |name: &str, text: &str| {
            let value = text.parse().ok().filter(|v| (1..=MAX_DISPARITIES).contains(v));
            value.with_context(|| {
                format!("{at}: `{name}` is `{text}`; expected a whole number from 1 to {MAX_DISPARITIES}")
            })
        };
        let file = |name: &str| cell(name).map(|c| dir.join(c));
        let pair = PairFiles {
            name: required("name")?.clone(),
            left: dir.join(required("left")?),
            right: dir.join(required("right")?),
            disparities: whole("disparities", required("disparities")?)?,
            truth: TruthFiles {
                truth: file("truth"),
                scale: cell("scale").map(|c| number("scale", c)).transpose()?,
                truth_right: file("truth_right"),
                visible: file("visible"),
            },
        };
        // Names become folders.
        let proper = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
        if !pair.name.chars().all(proper) || pair.name.starts_with('.') {
            bail!("{at}: the name `{}` cannot be a folder's; expected letters, digits, - and _", pair.name);
        }
        if pairs.iter().any(|p| p.name == pair.name) {
            bail!("{at}: the name `{}` occurs twice", pair.name);
        }
        pairs.push(pair);
    }
    if pairs.is_empty() {
        bail!("no pair is listed");
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_csv_is_read_and_bad_lines_are_errors() {
        let text =
            "name,left,right,disparities,truth,scale\na,l.png,r.png,16,t.png,4\n\nb, l2.png ,r2.png,20,,\n";
        let pairs = parse(text, Path::new("d")).unwrap();
        assert_eq!((pairs.len(), pairs[0].disparities, pairs[1].disparities), (2, 16, 20));
        assert_eq!(pairs[1].left, Path::new("d/l2.png"));
        assert_eq!((pairs[0].truth.scale, &pairs[1].truth.truth), (Some(4.0), &None));
        for (bad, why) in [
            ("", "`name` is missing"),
            ("name,left,right\n", "`disparities` is missing"),
            ("name,left,right,disparities,colour\n", "`colour` is unknown"),
            ("name,left,right,disparities\n", "no pair"),
            ("name,left,right,disparities\na,l,r,many\n", "`many`"),
            ("name,left,right,disparities\na,l,r,.6\n", "`.6`; expected a whole number"),
            ("name,left,right,disparities\na,l,r,0\n", "from 1 to 65535"),
            ("name,left,right,disparities\na,l,r,1e300\n", "`1e300`"),
            ("name,left,right,disparities\na,l,,9\n", "`right` is empty"),
            ("name,left,right,disparities\n../a,l,r,9\n", "folder"),
            ("name,left,right,disparities\na,l,r,9\na,l,r,9\n", "twice"),
            ("name,left,right,disparities\na,l,r,9,1\n", "5 cells"),
        ] {
            let e = format!("{:#}", parse(bad, Path::new("")).unwrap_err());
            assert!(e.contains(why), "{bad}: {e}");
        }
    }
}
