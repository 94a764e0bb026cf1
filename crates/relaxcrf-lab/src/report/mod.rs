//! Results as tables, plots and pages for people, and as JSON for programs.

pub mod advice;
pub mod page;
pub mod picture;
pub mod plot;
mod run;
pub mod sheet;
pub mod wrap;

use std::io;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use terminal_size::{Width, terminal_size_of};

pub use self::run::{
    ConstantReport, EnergyReport, FilterReport, KernelReport, RunReport, TraceLine, model_facts,
};

/// Fewest columns of a terminal that tables are fitted to. Narrower widths are ignored: cells of one letter are unreadable.
const MIN_TABLE_WIDTH: u16 = 60;

/// An empty table with these headings, as wide as the terminal at most.
pub fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    let style = presets::UTF8_HORIZONTAL_ONLY
        .header_separator(LineStyle::none().fill('─').junction('─'))
        .row_separator(LineStyle::none());
    table.load_style(style);
    if let Some((Width(width), _)) = terminal_size_of(io::stdout())
        && width >= MIN_TABLE_WIDTH
    {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(headings);
    table
}

/// Names and values, one pair a line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Aligns all columns but the first to the right, for columns of numbers.
pub fn align_numbers(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Formats an energy with one decimal, and with four if it is small.
pub fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.4}") } else { format!("{value:.1}") }
}

/// Formats a fraction as percent.
pub fn percent(value: f64) -> String {
    format!("{:.2}%", 100.0 * value)
}

/// A dash where there is nothing.
pub fn optional(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or("-".into(), show)
}
