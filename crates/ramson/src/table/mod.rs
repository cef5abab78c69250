//! Answers as text.

mod chart;
pub mod comparison;
pub mod doctor;
mod doctor_details;
pub mod doctor_sum;
mod frees;
mod health;
pub mod listing;
mod pins;
pub mod report;
mod sizes;
pub mod stacks;
pub mod subject;
pub mod suspects;
pub mod timeline;
mod trees;

use crate::output::{DIM, NOT_DIM, hint};
use ramson_analysis::members::{Each, Row};
use ramson_profile::format::{format_bytes, format_percent};
use ramson_profile::{FrameName, escape_invisible};
use ramson_symbols::SymbolDefect;
use std::fmt::Write;
use std::io::{self, IsTerminal};

/// Prose is not broken to less.
const LEAST_PROSE_COLUMNS: usize = 20;
/// Missing symbols reported one by one.
const MAX_HINTS: usize = 3;

/// Columns of the terminal, or of `COLUMNS`; `None` where the output is not a terminal: then nothing is cut.
pub fn columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || rustix::termios::tcgetwinsize(io::stdout()).ok();
    asked.or_else(|| of_terminal().map(|size| size.ws_col.into()).filter(|&columns| columns > 0))
}

/// `line` cut to `columns` characters, ending in … if anything is missing; what no reader sees of it takes room, escaped.
pub fn cut(line: &str, columns: Option<usize>) -> String {
    let line = escape_invisible(line);
    match columns {
        Some(columns) if line.chars().count() > columns => {
            line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.into_owned(),
    }
}

/// Lines for standard output, as columns fit.
pub fn cut_all(lines: impl Iterator<Item = String>) -> String {
    let columns = columns();
    lines.map(|line| cut(line.trim_end(), columns) + "\n").collect()
}

/// Parts of a text in lines of at most `columns` characters, as far as they fit; all but the first indented.
pub fn wrap<'a>(
    parts: impl IntoIterator<Item = &'a str>,
    columns: usize,
    indent: usize,
) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in parts {
        let last = lines.last_mut().expect("never empty");
        if last.is_empty() || last.chars().count() + part.trim_end().chars().count() <= columns {
            last.push_str(part);
        } else {
            lines.push(format!("{:indent$}{part}", ""));
        }
    }
    lines
}

/// Adds prose, which is never cut: broken at spaces, behind `label` and below what follows it.
pub fn push_prose(out: &mut String, label: &str, prose: &str) {
    let indent = label.chars().count();
    let most = columns().unwrap_or(usize::MAX).max(indent + LEAST_PROSE_COLUMNS);
    let text = label.to_owned() + prose;
    let lines = wrap(text.split_inclusive(' '), most, indent);
    out.extend(lines.iter().map(|line| line.trim_end().to_owned() + "\n"));
}

/// Lines below the names of their columns, each cut to the terminal.
pub struct Table<'a> {
    out: &'a mut String,
    /// Of a column that is aligned right; negative: left; 0: the last one, which takes the rest.
    widths: Vec<isize>,
    pub columns: Option<usize>,
}

impl<'a> Table<'a> {
    /// Adds the heading: names and widths of the columns, as in `pid:>8|state:<10|name`.
    pub fn new(out: &'a mut String, heads: &str) -> Self {
        let head = |head: &str| {
            let right = head.rsplit_once(":>").map(|(name, width)| (name, width, 1));
            let left = || head.rsplit_once(":<").map(|(name, width)| (name, width, -1));
            let (name, width, sign) = right.or_else(left).unwrap_or((head, "0", 1));
            (name.to_owned(), sign * width.parse::<isize>().expect("a width"))
        };
        let (names, widths): (Vec<String>, _) = heads.split('|').map(head).unzip();
        let mut table = Self { out, widths, columns: None };
        table.row(names);
        Self { columns: columns(), ..table }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let line = self.line(cells);
        self.line_across(&line);
    }

    /// The same in the background.
    pub fn dim_row(&mut self, cells: impl IntoIterator<Item = String>) {
        let line = dim(&cut(&self.line(cells), self.columns));
        self.out.push_str(&(line + "\n"));
    }

    pub fn line_across(&mut self, line: &str) {
        self.out.push_str(&(cut(line, self.columns) + "\n"));
    }

    fn line(&self, cells: impl IntoIterator<Item = String>) -> String {
        let mut line = String::new();
        for (cell, &width) in cells.into_iter().zip(&self.widths) {
            let room = width.unsigned_abs();
            let _ = match width {
                0 => write!(line, " {cell}"),
                1.. => write!(line, "{cell:>room$} "),
                _ => write!(line, "{cell:<room$} "),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// How many rows `-n` shows.
pub fn most(rows: usize) -> usize {
    if rows == 0 { usize::MAX } else { rows }
}

/// Says how many of `all` are not shown, if any: `(3 more rows; -n 0 shows all)`. `what` is a plural.
pub fn push_rest(out: &mut String, all: usize, shown: usize, what: &str) {
    let rest = all.saturating_sub(shown);
    if rest > 0 {
        let what = if rest == 1 { what.trim_end_matches('s') } else { what };
        let _ = writeln!(out, "({rest} more{what}; -n 0 shows all)");
    }
}

/// A block for each of several, below the heading of all.
pub fn blocks<T>(heading: &str, all: &[Each<T>], block: impl Fn(&T) -> String) -> String {
    let block =
        |each: &Each<T>| format!("\n── {}\n{}", each.row.name_and_pid(), block(&each.answer));
    heading.trim_end().to_owned() + "\n" + &all.iter().map(block).collect::<String>()
}

/// The command line of a process, else its name.
pub fn command(row: &Row) -> String {
    if row.command_line.is_empty() { row.name.clone() } else { row.command_line.join(" ") }
}

pub fn size(bytes: u64) -> String {
    format_bytes(bytes as f64)
}

pub fn or_dash(known: Option<String>) -> String {
    known.unwrap_or_else(|| "–".into())
}

/// `line` dimmed, on a terminal that may have colours.
pub fn dim(line: &str) -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if !io::stdout().is_terminal() || is_set("NO_COLOR") || is_dumb {
        return line.to_owned();
    }
    format!("{DIM}{line}{NOT_DIM}")
}

/// `29.6%`.
pub fn percent(part: f64, whole: f64) -> String {
    format_percent(part, whole).replace(' ', "")
}

/// `  file:line`, as far as it is known.
pub fn place(file: &str, line: u32) -> String {
    match (file, line) {
        ("", _) => String::new(),
        (file, 0) => format!("  {file}"),
        (file, line) => format!("  {file}:{line}"),
    }
}

/// `leaf:12 ← caller:34 ← …`: short names, at most so many.
pub fn stack(frames: &[FrameName], most: usize) -> String {
    let names: Vec<String> = frames.iter().take(most).map(FrameName::short).collect();
    let names = names.join(" ← ");
    if frames.len() > most { names + " ← …" } else { names }
}

pub fn say_what_is_missing<'a>(defects: impl IntoIterator<Item = &'a SymbolDefect>) {
    let mut defects = defects.into_iter();
    defects.by_ref().take(MAX_HINTS).for_each(|defect| hint(&defect.to_string()));
    let more = defects.count();
    if more > 0 {
        hint(&format!("{more} more binaries lack symbols"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_not_shown_is_no_plural() {
        let rest = |all| {
            let mut out = String::new();
            push_rest(&mut out, all, 5, " moments");
            out
        };
        assert_eq!(rest(5), "");
        assert_eq!(rest(6), "(1 more moment; -n 0 shows all)\n");
        assert_eq!(rest(7), "(2 more moments; -n 0 shows all)\n");
    }

    #[test]
    fn lines_are_cut_by_characters_and_marked() {
        assert_eq!(cut("ä€bcd", Some(4)), "ä€b…");
        assert_eq!(cut("abcd", Some(4)), "abcd");
        assert_eq!(cut("abcd", None), "abcd");
        assert_eq!(cut("a\u{202e}bcd", Some(6)), "a\\u{2…");
    }
}
