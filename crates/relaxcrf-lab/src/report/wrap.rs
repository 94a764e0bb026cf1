//! Text in lines of at most 80 columns, for lists that people read in a terminal, a log or a pager.

/// Columns of a line.
pub const WIDTH: usize = 80;

/// Breaks text at spaces into lines of at most [`WIDTH`] columns, and starts every line after the first with `indent`
/// spaces. A word that is too long has a line of its own.
pub fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for line in text.lines() {
        let margin = line.len() - line.trim_start().len();
        out += &line[..margin];
        column += margin;
        let mut is_first = true;
        for word in line.trim_start().split(' ') {
            let length = word.chars().count();
            if is_first {
                is_first = false;
            } else if column + 1 + length > WIDTH {
                out.truncate(out.trim_end().len());
                out += &format!("\n{:indent$}", "");
                column = indent;
            } else {
                out.push(' ');
                column += 1;
            }
            out += word;
            column += length;
        }
        out.push('\n');
        column = 0;
    }
    out
}

/// A name, and a text about it that keeps to the right of the names' column.
pub fn entry(name: &str, column: usize, text: &str) -> String {
    let width = column.saturating_sub(1);
    wrap(&format!("{name:width$} {text}"), column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_and_indented() {
        let text = "word ".repeat(40);
        let shown = wrap(&format!("  {}", text.trim()), 4);
        assert!(shown.lines().all(|l| l.chars().count() <= WIDTH && l == l.trim_end()), "{shown}");
        assert!(shown.starts_with("  word") && shown.lines().skip(1).all(|l| l.starts_with("    word")));
        assert_eq!(shown.split_whitespace().count(), 40);
    }

    #[test]
    fn short_lines_and_columns_are_kept() {
        assert_eq!(wrap("a  b\n\n  c\n", 3), "a  b\n\n  c\n");
        assert_eq!(entry("mf", 5, "mean field"), "mf   mean field\n");
        let long = "x".repeat(100);
        assert_eq!(wrap(&format!("a {long} b"), 2), format!("a\n  {long}\n  b\n"));
    }
}
