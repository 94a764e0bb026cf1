//! One self-contained HTML page: no network, no scripts, light and dark, phone and desk.

use std::path::Path;

use anyhow::{Context, Result};
use relaxcrf_io::write_atomically;

use super::picture::Picture;
use super::plot::{NARROW, Plot, WIDE};
use super::sheet::Sheet;

/// A page: title, lead and sections.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// One sentence below the heading.
    pub lead: String,
    /// The parts, in order.
    pub sections: Vec<Section>,
}

/// A heading with its content.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// The heading of the part; none if empty.
    pub title: String,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a page.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A paragraph that stands out.
    Warning(String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Sheet),
    /// Plots beside each other.
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
        let lead = if self.lead.is_empty() {
            String::new()
        } else {
            format!("<p class=\"lead\">{}</p>", escape(&self.lead))
        };
        let sections = self.sections.iter().map(section).collect::<Result<String>>()?;
        Ok(fill(
            include_str!("page.html"),
            &[
                ("title", &escape(&self.title)),
                ("lead", &lead),
                ("sections", &sections),
                ("version", env!("CARGO_PKG_VERSION")),
            ],
        ))
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

/// Escapes text for elements and double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Puts values in the places `{{ name }}` of a template. The values are markup already.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split("{{ ");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, rest) = part.split_once(" }}").unwrap_or((part, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        debug_assert!(value.is_some(), "no value for {name}");
        out += value.map_or("", |(_, value)| value);
        out += rest;
    }
    out
}

fn section(section: &Section) -> Result<String> {
    let title = match section.title.as_str() {
        "" => String::new(),
        title => format!("<h2>{}</h2>\n", escape(title)),
    };
    let blocks = section.blocks.iter().map(block).collect::<Result<String>>()?;
    Ok(format!("<section>\n{title}{blocks}</section>\n"))
}

fn block(block: &Block) -> Result<String> {
    Ok(match block {
        Block::Text(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Warning(text) => format!("<p class=\"warning\" role=\"note\">{}</p>\n", escape(text)),
        Block::Facts(facts) => {
            let fact = |(name, value): &(String, String)| {
                format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value))
            };
            format!("<dl>{}</dl>\n", facts.iter().map(fact).collect::<String>())
        }
        Block::Table(sheet) => table(sheet),
        Block::Plots(plots) => {
            // Our own markup, every text in it escaped.
            let drawn = |p: &Plot| {
                let [wide, narrow] = [WIDE, NARROW].map(|w| p.svg(w));
                format!(
                    "<figure class=\"plot-figure\"><div class=\"wide\">{wide}</div>\
                     <div class=\"narrow\">{narrow}</div></figure>"
                )
            };
            let plots: String = plots.iter().filter(|p| !p.is_empty()).map(drawn).collect();
            format!("<div class=\"plots\">{plots}</div>\n")
        }
        Block::Pictures(pictures) => {
            let pictures = pictures.iter().map(|(caption, p)| figure(&escape(caption), p));
            format!("<div class=\"pictures\">{}</div>\n", pictures.collect::<Result<String>>()?)
        }
    })
}

fn table(sheet: &Sheet) -> String {
    let names = sheet.columns.iter().map(|c| format!("<th scope=\"col\">{}</th>", escape(&c.name)));
    let cell = |(text, is_best): &(String, bool)| {
        let class = if *is_best { " class=\"best\"" } else { "" };
        format!("<td{class}>{}</td>", escape(text))
    };
    let shown = sheet.shown();
    let rows = shown.iter().map(|row| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>()));
    format!(
        "<div class=\"scroll\"><table><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table></div>\n",
        names.collect::<String>(),
        rows.collect::<String>()
    )
}

/// A picture with its caption, which is markup already. Touching it enlarges it.
fn figure(caption: &str, picture: &Picture) -> Result<String> {
    let Picture { width, height, .. } = picture;
    let address = picture.data_uri()?;
    Ok(format!(
        "<figure><label><input type=\"checkbox\" aria-label=\"enlarge {caption}\">\
         <img src=\"{address}\" alt=\"{caption}\" width=\"{width}\" height=\"{height}\"></label>\
         <figcaption>{caption}</figcaption></figure>"
    ))
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
    fn page_escapes_texts_and_refers_to_nothing_outside() {
        let html = page().html().unwrap();
        for text in ["T&lt;script&gt;", "S &lt;1&gt;", "1 &lt; 2", "&lt;v&gt;", "a &amp; b", "&lt;img&gt;"] {
            assert!(html.contains(text), "{text} is missing in {html}");
        }
        assert!(!html.contains("<script"));
        assert!(!html.contains("{{") && !html.contains("}}"), "every place of the template is filled");
        assert_eq!(html.matches("<figure").count(), 2, "one plot that is not empty, one picture");
        assert_eq!(html.matches("<svg xmlns").count(), 2, "wide and narrow");
        // The only address is the name of the SVG language, which no browser visits.
        assert_eq!(html.matches("http").count(), html.matches("http://www.w3.org/2000/svg").count() + 1);
        assert!(html.contains("http-equiv=\"Content-Security-Policy\""));
    }

    #[test]
    fn page_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        page().write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), page().html().unwrap());
        assert!(page().write(&folder.path().join("absent/a.html")).is_err());
    }
}
