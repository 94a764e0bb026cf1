//! Names and colours of labels, from the user's file or from `labels.json` beside the data.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf_io::{self as io, Palette};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::specs::extension;
use serde_json::Value;

use crate::args::{ColourArgs, ShowArgs};

const FORMATS: &str = "expected a line per label such as `128 0 0 sky` or `#800000 sky`, a CSV with the columns name, r, g, b, \
                       or JSON such as {\"classes\": [{\"name\": \"sky\", \"rgb\": [128, 0, 0]}, ...]}";

/// One label of a file of colours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Class {
    name: Option<String>,
    colour: Option<[u8; 3]>,
}

/// Colours and names of the labels.
#[derive(Debug, Clone, Default)]
pub struct Appearance {
    pub palette: Palette,
    /// By label; empty if there are no names.
    pub names: Vec<String>,
    /// Colours given by the user, if any, and the file they are from.
    given: Option<(usize, String)>,
    /// Names from labels.json, without an option, are used only if they fit.
    found_names: bool,
}

impl Appearance {
    /// Reads the files that the options name; without a file of names, takes those of `labels.json` in the directories of
    /// the `inputs` or right above them.
    pub fn read(args: &ShowArgs, inputs: &[&Path]) -> Result<Self> {
        let mut appearance = Self::default();
        if let Some(path) = &args.colours.colours {
            let classes = read_colours(path)?;
            appearance.palette = palette(&classes, path)?;
            appearance.given = Some((classes.len(), path.display().to_string()));
            appearance.names = names(classes);
        }
        if let Some(path) = &args.names {
            appearance.names = names(read(path, true)?);
        }
        if appearance.names.is_empty()
            && let Some(path) = beside(inputs)
        {
            // Other programs write files of this name too, so missing entries are not an error.
            appearance.names = read(&path, true).map(names).unwrap_or_default();
            appearance.found_names = true;
        }
        Ok(appearance)
    }

    /// The colours that the user chose.
    pub fn given(&self) -> Option<&Palette> {
        self.given.as_ref().map(|_| &self.palette)
    }

    /// Fits the names to the number of labels, and warns of labels without a colour.
    pub fn fit(&mut self, labels: usize, messages: &Messages) {
        if self.found_names && self.names.len() < labels {
            self.names.clear();
        }
        if let Some((count, path)) = self.given.as_ref().filter(|(count, _)| *count < labels) {
            messages.warn(&format!(
                "{path}: has {count} colours for {labels} labels; labels from {count} on have the colours of PASCAL VOC"
            ));
        }
    }
}

/// The colours that the option names.
pub fn chosen_palette(args: &ColourArgs) -> Result<Option<Palette>> {
    args.colours.as_ref().map(|path| palette(&read_colours(path)?, path)).transpose()
}

fn names(classes: Vec<Class>) -> Vec<String> {
    if classes.iter().all(|class| class.name.is_none()) {
        return Vec::new();
    }
    let name = |(label, class): (usize, Class)| class.name.unwrap_or_else(|| format!("label {label}"));
    classes.into_iter().enumerate().map(name).collect()
}

fn palette(classes: &[Class], path: &Path) -> Result<Palette> {
    let colours: Vec<[u8; 3]> = classes.iter().filter_map(|class| class.colour).collect();
    if colours.len() > 256 {
        bail!(
            "{}: has {} colours; expected at most 256, the number that an indexed PNG holds",
            path.display(),
            colours.len()
        );
    }
    Ok(Palette::new(&colours)?)
}

fn beside(inputs: &[&Path]) -> Option<std::path::PathBuf> {
    let folders = inputs.iter().flat_map(|path| path.ancestors().skip(1).take(2));
    folders.map(|folder| folder.join("labels.json")).find(|path| path.is_file())
}

/// Reads the classes of a file, all of which must have a colour.
fn read_colours(path: &Path) -> Result<Vec<Class>> {
    let classes = read(path, false)?;
    if let Some(label) = classes.iter().position(|class| class.colour.is_none()) {
        bail!("{}: label {label} has no colour; {FORMATS}", path.display());
    }
    Ok(classes)
}

/// Reads the classes of a file; `plain_names` takes lines without a colour for names.
fn read(path: &Path, plain_names: bool) -> Result<Vec<Class>> {
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        bail!("{}: is not a regular file; {FORMATS}", path.display());
    }
    let text = io::read_text(path)?;
    let text = text.trim_start_matches('\u{feff}');
    let starts_with_colour =
        || text.lines().find(|l| !is_skipped(l)).is_some_and(|l| leading_colour(l).is_some());
    let classes = match extension(path).as_str() {
        "json" => from_json(text),
        "csv" if !starts_with_colour() => from_csv(text),
        _ => from_lines(text, plain_names),
    };
    let classes = classes.with_context(|| path.display().to_string())?;
    if classes.is_empty() {
        bail!("{}: describes no labels; {FORMATS}", path.display());
    }
    Ok(classes)
}

/// Whether a line is empty or a comment: `#` without a colour after it.
fn is_skipped(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || (line.starts_with('#') && leading_colour(line).is_none())
}

fn from_lines(text: &str, plain_names: bool) -> Result<Vec<Class>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !is_skipped(line));
    let class = |(k, line): (usize, &str)| {
        let line = line.trim();
        match leading_colour(line) {
            Some((colour, name)) => {
                Ok(Class { name: (!name.is_empty()).then_some(name), colour: Some(colour) })
            }
            None if plain_names => Ok(Class { name: Some(line.into()), colour: None }),
            None => bail!("line {} is `{}`; {FORMATS}", k + 1, line.chars().take(60).collect::<String>()),
        }
    };
    lines.map(class).collect()
}

/// Splits a line into a colour and the text after it.
fn leading_colour(line: &str) -> Option<([u8; 3], String)> {
    let mut words = line.split([' ', '\t', ',', ';']).filter(|word| !word.is_empty());
    let first = words.next()?;
    let colour = match hex_colour(first) {
        Some(colour) => colour,
        None => [first.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?],
    };
    Some((colour, words.collect::<Vec<_>>().join(" ")))
}

/// `#rrggbb`.
fn hex_colour(text: &str) -> Option<[u8; 3]> {
    let digits =
        text.strip_prefix('#').filter(|d| d.len() == 6 && d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some([red, green, blue])
}

fn from_csv(text: &str) -> Result<Vec<Class>> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let heading: Vec<String> = reader.headers()?.iter().map(str::to_lowercase).collect();
    let column = |names: &[&str]| heading.iter().position(|h| names.contains(&h.as_str()));
    let name = column(&["name", "class", "label"]);
    let index = column(&["index", "id"]);
    let parts = [column(&["r", "red"]), column(&["g", "green"]), column(&["b", "blue"])];
    let whole = column(&["rgb", "colour", "color", "hex"]);
    if name.is_none() && whole.is_none() && parts.contains(&None) {
        bail!("the heading is `{}`; {FORMATS}", heading.join(","));
    }
    let mut classes = Vec::new();
    for (k, record) in reader.records().enumerate() {
        let record = record?;
        let cell = |at: Option<usize>| at.and_then(|at| record.get(at)).filter(|cell| !cell.is_empty());
        let colour = match (parts.map(cell), cell(whole)) {
            ([Some(r), Some(g), Some(b)], _) => Some(format!("{r} {g} {b}")),
            (_, whole) => whole.map(Into::into),
        };
        let row = k + 1;
        let colour = colour.map(|text| {
            let found = leading_colour(&text).map(|(colour, _)| colour);
            found.with_context(|| {
                format!("row {row}: the colour is `{text}`; expected 0 to 255 three times, or #rrggbb")
            })
        });
        let index = cell(index).map(|i| {
            i.parse::<u16>().with_context(|| format!("row {row}: the index is `{i}`; expected a label"))
        });
        let class = Class { name: cell(name).map(Into::into), colour: colour.transpose()? };
        put(&mut classes, index.transpose()?, class);
    }
    Ok(classes)
}

fn from_json(text: &str) -> Result<Vec<Class>> {
    let file: Value = serde_json::from_str(text).with_context(|| format!("is not understood; {FORMATS}"))?;
    let Some(list) = file.get("classes").unwrap_or(&file).as_array() else {
        bail!("holds no list of classes; {FORMATS}");
    };
    let mut classes = Vec::new();
    for (k, entry) in list.iter().enumerate() {
        let name = entry.get("name").and_then(Value::as_str).map(Into::into);
        let index = entry.get("index").and_then(Value::as_u64).and_then(|i| u16::try_from(i).ok());
        let colour = ["rgb", "colour", "color"].iter().find_map(|key| entry.get(key));
        let colour = colour.or((!entry.is_object()).then_some(entry)).map(|value| {
            json_colour(value).with_context(|| {
                format!("class {k}: the colour is {value}; expected [R, G, B] (0 to 255) or \"#rrggbb\"")
            })
        });
        put(&mut classes, index, Class { name, colour: colour.transpose()? });
    }
    Ok(classes)
}

fn json_colour(value: &Value) -> Option<[u8; 3]> {
    if let Some(text) = value.as_str() {
        return leading_colour(text).map(|(colour, _)| colour);
    }
    let numbers: Option<Vec<u8>> = value.as_array()?.iter().map(|v| u8::try_from(v.as_u64()?).ok()).collect();
    numbers?.try_into().ok()
}

/// Puts a class at its index, or behind the ones before.
fn put(classes: &mut Vec<Class>, index: Option<u16>, class: Class) {
    let at = index.map_or(classes.len(), usize::from);
    classes.resize(classes.len().max(at + 1), Class::default());
    classes[at] = class;
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn class(name: &str, colour: [u8; 3]) -> Class {
        Class { name: Some(name.into()), colour: Some(colour) }
    }

    #[test]
    fn palette_is_the_same_in_all_file_formats() {
        let expected = [class("sky", [128, 0, 1]), class("tall grass", [0, 255, 16])];
        for (name, text) in [
            ("a.txt", "# colours\n\n128 0 1 sky\r\n#00FF10 tall grass\n"),
            ("b.csv", "name,r,g,b\nsky,128,0,1\ntall grass, 0, 255, 16\n"),
            ("c.csv", "128,0,1,sky\n0,255,16,tall grass\n"),
            ("d.csv", "index,Name,hex\n1,tall grass,#00ff10\n0,sky,#800001\n"),
            (
                "e.json",
                r##"{"classes": [{"name": "sky", "rgb": [128, 0, 1]}, {"name": "tall grass", "color": "#00ff10"}]}"##,
            ),
            (
                "f.json",
                r#"[{"index": 1, "name": "tall grass", "colour": [0, 255, 16]}, {"index": 0, "name": "sky", "colour": [128, 0, 1]}]"#,
            ),
        ] {
            let (_folder, path) = file(name, text);
            assert_eq!(read_colours(&path).unwrap(), expected, "{name}");
        }
        let (_folder, path) = file("bare.json", "[[1, 2, 3], \"#040506\"]");
        let classes = read_colours(&path).unwrap();
        assert_eq!(palette(&classes, &path).unwrap().colour(1), [4, 5, 6]);
        assert!(names(classes).is_empty());
    }

    #[test]
    fn files_without_colours_give_names_only() {
        for (name, text) in [
            ("a.txt", "sky\ntall grass\n"),
            ("b.json", r#"{"classes": [{"name": "sky"}, {"name": "tall grass"}]}"#),
        ] {
            let (_folder, path) = file(name, text);
            assert_eq!(names(read(&path, true).unwrap()), ["sky", "tall grass"]);
            let e = format!("{:#}", read_colours(&path).unwrap_err());
            assert!(e.contains(name) && e.contains("#800000 sky"), "{e}");
        }
    }

    #[test]
    fn bad_palette_is_an_error_with_the_place_and_the_expected_form() {
        let many = "1 2 3\n".repeat(257);
        for (name, text, part) in [
            ("a.txt", "1 2 3\n1 2 300 x\n", "line 2 is `1 2 300 x`"),
            ("a.txt", "", "describes no labels"),
            ("a.csv", "name,r,g,b\nsky,1,2,x\n", "row 1: the colour is `1 2 x`"),
            ("a.csv", "foo,bar\n1,2\n", "the heading is `foo,bar`"),
            ("a.csv", "id,hex\n-1,#000000\n", "the index is `-1`"),
            ("a.json", "{", "is not understood"),
            ("a.json", "{\"a\": 1}", "no list of classes"),
            ("a.json", "[[1, 2]]", "class 0: the colour is [1,2]"),
            ("a.txt", many.as_str(), "257 colours; expected at most 256"),
        ] {
            let (_folder, path) = file(name, text);
            let e = read_colours(&path).and_then(|classes| palette(&classes, &path)).unwrap_err();
            let e = format!("{e:#}");
            assert!(e.contains(name) && e.contains(part), "{e}");
        }
    }
}
