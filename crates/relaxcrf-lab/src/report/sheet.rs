//! A table that can be shown on a terminal, in Markdown, as CSV and on a page, with the best in bold.

use comfy_table::Table;

use super::{align_numbers, table};

/// A table: headings and rows of cells.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    /// The columns, with their headings.
    pub columns: Vec<Column>,
    /// The rows, one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column's name and which of its values is best.
#[derive(Debug, Clone)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// Which value of the column is the best.
    pub best: Best,
}

/// Which values of a column deserve to be bold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// The column is no competition.
    None,
    /// The smallest value is the best.
    Lowest,
    /// The largest value is the best.
    Highest,
}

/// What a cell holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value.
    Empty,
    /// A text.
    Text(String),
    /// A number and how it is shown.
    Number(f64, String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Cell {
    /// A number shown by a function; empty if there is none.
    pub fn number(value: impl Into<Option<f64>>, show: impl Fn(f64) -> String) -> Self {
        value.into().map_or(Self::Empty, |v| Self::Number(v, show(v)))
    }

    fn shown(&self) -> &str {
        match self {
            Self::Empty => "-",
            Self::Text(text) | Self::Number(_, text) => text,
        }
    }

    /// The value to the last digit, for programs.
    fn plain(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.clone(),
            Self::Number(value, _) => value.to_string(),
        }
    }
}

impl Sheet {
    /// An empty table with these columns.
    pub fn new(columns: &[(&str, Best)]) -> Self {
        let columns = columns.iter().map(|&(name, best)| Column { name: name.into(), best }).collect();
        Self { columns, rows: Vec::new() }
    }

    /// One row more.
    pub fn add(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// The best value of a column.
    fn best(&self, column: usize) -> Option<f64> {
        let values = self.rows.iter().filter_map(|row| match row.get(column) {
            Some(Cell::Number(v, _)) if v.is_finite() => Some(*v),
            _ => None,
        });
        match self.columns[column].best {
            Best::None => None,
            Best::Lowest => values.min_by(f64::total_cmp),
            Best::Highest => values.max_by(f64::total_cmp),
        }
    }

    /// Rows of shown texts, each with whether it is the best of its column. What looks equal is equal.
    pub fn shown(&self) -> Vec<Vec<(String, bool)>> {
        let best: Vec<Option<String>> = (0..self.columns.len())
            .map(|c| {
                let best = self.best(c)?;
                let mut cells = self.rows.iter().filter_map(|row| row.get(c));
                cells
                    .find(|cell| matches!(cell, Cell::Number(v, _) if *v == best))
                    .map(|cell| cell.shown().into())
            })
            .collect();
        let show = |(cell, best): (&Cell, &Option<String>)| {
            let is_best = matches!(cell, Cell::Number(..)) && best.as_deref() == Some(cell.shown());
            (cell.shown().to_string(), is_best)
        };
        self.rows.iter().map(|row| row.iter().zip(&best).map(show).collect()).collect()
    }

    /// Formats the table for a terminal; the best values have a star.
    pub fn terminal(&self) -> Table {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        let mut shown = table(&names);
        for row in self.shown() {
            shown.add_row(row.into_iter().map(|(text, best)| if best { format!("*{text}") } else { text }));
        }
        align_numbers(&mut shown);
        shown
    }

    /// A Markdown table, numbers to the right.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let clean = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let mut out = line(self.columns.iter().map(|c| clean(&c.name)).collect());
        let rule = |c: usize| {
            let number = self.rows.iter().any(|row| matches!(row.get(c), Some(Cell::Number(..))));
            if number { "---:".to_string() } else { "---".to_string() }
        };
        out += &line((0..self.columns.len()).map(rule).collect());
        for row in self.shown() {
            let cell = |(text, best): (String, bool)| {
                if best { format!("**{}**", clean(&text)) } else { clean(&text) }
            };
            out += &line(row.into_iter().map(cell).collect());
        }
        out
    }

    /// Comma-separated, numbers to the last digit.
    pub fn csv(&self) -> String {
        let quote = |text: String| {
            if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
        };
        let line = |cells: Vec<String>| cells.into_iter().map(quote).collect::<Vec<_>>().join(",") + "\n";
        let mut out = line(self.columns.iter().map(|c| c.name.clone()).collect());
        for row in &self.rows {
            out += &line(row.iter().map(Cell::plain).collect());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet =
            Sheet::new(&[("method", Best::None), ("energy, E", Best::Lowest), ("right", Best::Highest)]);
        let row = |name: &str, e: Option<f64>, r: f64| {
            vec![name.into(), Cell::number(e, |v| format!("{v:.1}")), Cell::number(r, |v| format!("{v:.2}"))]
        };
        sheet.add(row("a|b", Some(-3.01), 0.5));
        sheet.add(row("say \"c\"", Some(-3.02), 0.7));
        sheet.add(row("d", None, f64::NAN));
        sheet
    }

    #[test]
    fn best_cells_are_marked_ties_included() {
        let shown = sheet().shown();
        assert_eq!(shown[0][1], ("-3.0".into(), true));
        assert_eq!(shown[1][1], ("-3.0".into(), true));
        assert_eq!((shown[0][2].1, shown[1][2].1), (false, true));
        assert_eq!(shown[2][1], ("-".into(), false));
    }

    #[test]
    fn sheet_has_the_same_cells_in_every_format() {
        let markdown = sheet().markdown();
        assert!(
            markdown
                .starts_with("| method | energy, E | right |\n| --- | ---: | ---: |\n| a\\|b | **-3.0** |")
        );
        let csv = sheet().csv();
        assert_eq!(csv.lines().next(), Some("method,\"energy, E\",right"));
        assert_eq!(csv.lines().nth(2), Some("\"say \"\"c\"\"\",-3.02,0.7"));
        assert!(sheet().terminal().to_string().contains("*0.70"));
    }
}
