//! One self-contained HTML page: no network, no scripts, light and dark, phone and desk.

use std::path::Path;

use anyhow::{Context, Result};
use minijinja::value::Value;
use minijinja::{Environment, context};
use relaxcrf::io::write_atomically;

use super::picture::Picture;
use super::plot::{NARROW, Plot, WIDE};
use super::sheet::Sheet;

/// A page: a title, what it is about, and its sections.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub title: String,
    pub lead: String,
    pub sections: Vec<Section>,
}

/// A heading with what belongs under it.
#[derive(Debug, Clone, Default)]
pub struct Section {
    pub title: String,
    pub blocks: Vec<Block>,
}

/// What a page is made of.
#[derive(Debug, Clone)]
pub enum Block {
    Text(String),
    Warning(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    Table(Sheet),
    Plots(Vec<Plot>),
    /// Pictures side by side, each with a caption. Touching one enlarges it.
    Pictures(Vec<(String, Picture)>),
}

impl Section {
    /// An empty section.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// The same section with one block more.
    pub fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

impl Page {
    /// The HTML text.
    pub fn html(&self) -> Result<String> {
        let mut environment = Environment::new();
        environment.add_template("page.html", include_str!("page.html"))?;
        let sections = self.sections.iter().map(section).collect::<Result<Vec<_>>>()?;
        let version = env!("CARGO_PKG_VERSION");
        Ok(environment.get_template("page.html")?.render(
            context! { title => self.title, lead => self.lead, sections => sections, version => version },
        )?)
    }

    /// Writes the page, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_text(path, &self.html()?)
    }
}

/// Writes a text file, whole or not at all.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    write_atomically(path, |out| out.write_all(text.as_bytes())).context("nothing was written")
}

fn section(section: &Section) -> Result<Value> {
    let blocks = section.blocks.iter().map(block).collect::<Result<Vec<_>>>()?;
    Ok(context! { title => section.title, blocks => blocks })
}

fn block(block: &Block) -> Result<Value> {
    Ok(match block {
        Block::Text(text) => context! { kind => "text", text => text },
        Block::Warning(text) => context! { kind => "warning", text => text },
        Block::Facts(facts) => context! { kind => "facts", facts => facts },
        Block::Table(sheet) => {
            let names: Vec<&str> = sheet.columns.iter().map(|c| c.name.as_str()).collect();
            context! { kind => "table", names => names, rows => sheet.shown() }
        }
        Block::Plots(plots) => {
            // Our own markup, every text in it escaped.
            let drawn = |p: &Plot| {
                let [wide, narrow] = [WIDE, NARROW].map(|w| Value::from_safe_string(p.svg(w)));
                context! { wide => wide, narrow => narrow }
            };
            let plots: Vec<Value> = plots.iter().filter(|p| !p.is_empty()).map(drawn).collect();
            context! { kind => "plots", plots => plots }
        }
        Block::Pictures(pictures) => {
            let shown = |(caption, p): &(String, Picture)| {
                let uri = Value::from_safe_string(p.data_uri()?);
                Ok(context! { caption => caption, uri => uri, width => p.width, height => p.height })
            };
            context! { kind => "pictures", pictures => pictures.iter().map(shown).collect::<Result<Vec<_>>>()? }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plot::{Axis, Series};
    use crate::report::sheet::Best;

    fn page() -> Page {
        let plot =
            Plot::new("p", Axis::linear("x"), Axis::linear("y")).with(Series::new("s", vec![(1.0, 2.0)]));
        let picture = Picture::verdicts((2, 1), [Some(true), None].into_iter());
        let mut sheet = Sheet::new(&[("<name>", Best::None)]);
        sheet.add(vec!["a & b".into()]);
        let section = Section::new("S <1>")
            .with(Block::Text("1 < 2".into()))
            .with(Block::Warning("mind \"this\"".into()))
            .with(Block::Facts(vec![("k".into(), "<v>".into())]))
            .with(Block::Table(sheet))
            .with(Block::Plots(vec![plot, Plot::default()]))
            .with(Block::Pictures(vec![("<img>".into(), picture)]));
        Page { title: "T<script>".into(), lead: "lead".into(), sections: vec![section] }
    }

    #[test]
    fn texts_are_escaped_and_nothing_comes_from_outside() {
        let html = page().html().unwrap();
        for text in ["T&lt;script&gt;", "S &lt;1&gt;", "1 &lt; 2", "&lt;v&gt;", "a &amp; b", "&lt;img&gt;"] {
            assert!(html.contains(text), "{text} is missing in {html}");
        }
        assert!(!html.contains("<script"));
        assert_eq!(html.matches("<figure").count(), 2, "one plot that is not empty, one picture");
        assert_eq!(html.matches("<svg xmlns").count(), 2, "wide and narrow");
        // The only address is the name of the SVG language, which no browser visits.
        assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count() + 1);
        assert!(html.contains("http-equiv=\"Content-Security-Policy\""));
    }

    #[test]
    fn a_page_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        page().write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), page().html().unwrap());
        assert!(page().write(&folder.path().join("absent/a.html")).is_err());
    }
}
