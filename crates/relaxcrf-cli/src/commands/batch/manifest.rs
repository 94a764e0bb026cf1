//! Lists of images in files: CSV with a heading, or one JSON object per line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf_lab::specs::extension;

use super::items::{Item, Unaries};

/// Names of the columns, the usual one first.
const IMAGE: &[&str] = &["image", "img"];
const PROBABILITIES: &[&str] = &["probabilities", "probs", "prob"];
const LOGITS: &[&str] = &["logits", "scores"];
const UNARIES: &[&str] = &["unaries", "unary", "energies"];
const LABELS: &[&str] = &["labels", "label"];
const TRUTH: &[&str] = &["truth"];
const OUTPUT: &[&str] = &["output", "name"];

type Row = BTreeMap<String, String>;

/// Reads a manifest. A line that is not understood is an error, because its image is unknown.
pub fn read(path: &Path) -> Result<Vec<Item>> {
    let shown = path.display();
    let text = relaxcrf_io::read_text(path)?;
    let rows = if extension(path) == "csv" { csv_rows(path, &text)? } else { json_rows(path, &text)? };
    if rows.is_empty() {
        bail!("{shown}: lists no images");
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    rows.iter()
        .map(|(line, row)| item(folder, row).with_context(|| format!("{shown}: line {line}")))
        .collect()
}

fn csv_rows(path: &Path, text: &str) -> Result<Vec<(u64, Row)>> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let heading = reader.headers().with_context(|| format!("{}: has no heading", path.display()))?.clone();
    let known = [IMAGE, PROBABILITIES, LOGITS, UNARIES, LABELS, TRUTH, OUTPUT].concat();
    if let Some(odd) = heading.iter().find(|name| !known.contains(&name.to_ascii_lowercase().as_str())) {
        bail!(
            "{}: the heading has `{odd}`; expected image, one of probabilities, logits, unaries or labels, and perhaps truth and \
             output",
            path.display()
        );
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.with_context(|| format!("{}: is no proper CSV", path.display()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let cells = heading.iter().zip(&record).filter(|(_, value)| !value.is_empty());
        rows.push((line, cells.map(|(k, v)| (k.to_ascii_lowercase(), v.to_string())).collect()));
    }
    Ok(rows)
}

fn json_rows(path: &Path, text: &str) -> Result<Vec<(u64, Row)>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(k, line)| {
            let row: Row = serde_json::from_str(line).with_context(|| {
                format!(
                    "{}: line {} is no JSON object of texts such as {{\"image\": \"a.jpg\", \"probabilities\": \"a.npy\"}}",
                    path.display(),
                    k + 1
                )
            })?;
            Ok((k as u64 + 1, row))
        })
        .collect()
}

fn item(folder: &Path, row: &Row) -> Result<Item> {
    let mut row = row.clone();
    let mut take = |names: &[&str]| -> Result<Option<String>> {
        let found: Vec<String> = names.iter().filter_map(|name| row.remove(*name)).collect();
        if found.len() > 1 {
            bail!("has {} under two names; keep one", names[0]);
        }
        Ok(found.into_iter().next())
    };
    let path = |text: String| -> PathBuf { folder.join(text) };
    let Some(image) = take(IMAGE)? else { bail!("has no image") };
    let sources: Vec<Unaries> = [
        take(PROBABILITIES)?.map(|p| Unaries::Probabilities(path(p))),
        take(LOGITS)?.map(|p| Unaries::Scores(path(p))),
        take(UNARIES)?.map(|p| Unaries::Energies(path(p))),
        take(LABELS)?.map(|p| Unaries::Labels(path(p))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let [source] = &sources[..] else {
        bail!("has {} of probabilities, logits, unaries and labels; expected exactly one", sources.len());
    };
    let truth = take(TRUTH)?.map(path);
    let stem = |i: &str| Path::new(i).file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
    let name = take(OUTPUT)?.map_or_else(|| stem(&image), |name| without_ending(&name));
    if let Some(odd) = row.keys().next() {
        bail!(
            "has `{odd}`; expected image, one of probabilities, logits, unaries or labels, and perhaps truth and output"
        );
    }
    Ok(Item { name, image: path(image), source: Ok(source.clone()), truth })
}

/// Removes the ending of a result's name; the output format sets it.
fn without_ending(name: &str) -> String {
    let endings = [".png", ".npy"];
    let bare = endings.iter().find_map(|e| name.strip_suffix(e)).unwrap_or(name);
    bare.replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str) -> Result<Vec<Item>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut items = read(&path)?;
        for item in &mut items {
            item.image = item.image.strip_prefix(dir.path()).unwrap().into();
        }
        Ok(items)
    }

    #[test]
    fn csv_and_jsonl_manifests_give_the_same_items() {
        let csv = "image,probs,truth,output\na/1.jpg,p/1.npy,t.png,x/one.png\n\"b,2.jpg\",p/2.npz,,\n";
        let json = "{\"image\": \"a/1.jpg\", \"probabilities\": \"p/1.npy\", \"truth\": \"t.png\", \"output\": \"x/one\"}\n\n\
                    {\"image\": \"b,2.jpg\", \"probs\": \"p/2.npz\"}\n";
        for (name, text) in [("m.csv", csv), ("m.jsonl", json)] {
            let items = read_text(name, text).unwrap();
            assert_eq!(items.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["x/one", "b,2"]);
            assert_eq!(items[1].image, Path::new("b,2.jpg"));
            assert!(matches!(&items[0].source, Ok(Unaries::Probabilities(p)) if p.ends_with("p/1.npy")));
            assert_eq!((items[0].truth.is_some(), items[1].truth.is_some()), (true, false));
        }
        let labels = read_text("m.csv", "image,labels\na.png,l.png\n").unwrap();
        assert!(matches!(labels[0].source, Ok(Unaries::Labels(_))));
    }

    #[test]
    fn manifest_errors_name_the_line() {
        for (name, text, why) in [
            ("m.csv", "image,color\na,b\n", "color"),
            ("m.csv", "image,probs\n", "no images"),
            ("m.csv", "image,probs\na.png,\n", "line 2"),
            ("m.csv", "image,probs\n,b.npy\n", "no image"),
            ("m.csv", "image,probs\na,b,c\n", "CSV"),
            ("m.csv", "image,probs,labels\na,b,c\n", "exactly one"),
            ("m.jsonl", "{\"image\": \"a\", \"probs\": \"b\"}\n{\n", "line 2"),
            ("m.jsonl", "{\"image\": \"a\", \"probs\": \"b\", \"prob\": \"c\"}\n", "two names"),
            ("m.jsonl", "{\"image\": \"a\", \"probs\": \"b\", \"x\": \"c\"}\n", "`x`"),
            ("m.jsonl", "{\"image\": 3}\n", "line 1"),
        ] {
            let e = format!("{:#}", read_text(name, text).unwrap_err());
            assert!(e.contains(why), "{text}: {e}");
        }
    }
}
