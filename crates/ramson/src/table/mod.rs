//! Answers as text.

mod chart;
pub mod comparison;
pub mod explain;
mod explain_details;
pub mod explain_file;
pub mod explain_sum;
pub mod fleet;
mod frees;
pub mod gc;
mod health;
mod lines;
pub mod listing;
mod pins;
pub mod report;
mod sizes;
pub mod stacks;
pub mod subject;
pub mod suspects;
pub mod symbols_hint;
pub mod timeline;
mod totals;
mod trees;

pub use lines::{columns, cut, cut_all, fitted, push_prose, push_terms, words, wrap};

use crate::output::{DIM, NOT_DIM, hint};
use ramson_analysis::members::{Each, Row};
use ramson_profile::format::{format_bytes, format_percent};
use ramson_profile::{FrameName, fold_addresses, printable, short_name};
use ramson_symbols::SymbolDefect;
use std::fmt::Write;
use std::io::{self, IsTerminal};

/// Missing symbols reported one by one.
const MAX_HINTS: usize = 3;

/// Lines below the names of their columns, each cut to the terminal.
pub struct Table<'a> {
    out: &'a mut String,
    pub columns: Option<usize>,
    /// Width of each column. Positive: aligned right; negative: left; 0: the last one, which takes the rest; `None`: there is no room for it.
    widths: Vec<Option<isize>>,
}

impl<'a> Table<'a> {
    /// Adds the heading: names and widths of the columns, as in `pid:>8|state:<10|live:>9@100|name`. A column is left out where
    /// the terminal has fewer columns than stand behind its @.
    pub fn new(out: &'a mut String, heads: &str) -> Self {
        let columns = columns();
        let head = |head: &str| {
            let (head, least) = head.rsplit_once('@').unwrap_or((head, "0"));
            let right = head.rsplit_once(":>").map(|(name, width)| (name, width, 1));
            let left = || head.rsplit_once(":<").map(|(name, width)| (name, width, -1));
            let (name, width, sign) = right.or_else(left).unwrap_or((head, "0", 1));
            let [width, least] =
                [width, least].map(|number| number.parse::<isize>().expect("a width"));
            let has_room = columns.is_none_or(|columns| columns >= least.unsigned_abs());
            (name.to_owned(), has_room.then_some(sign * width))
        };
        let (names, widths): (Vec<String>, _) = heads.split('|').map(head).unzip();
        let mut table = Self { out, columns, widths };
        table.row(names);
        table
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

    /// Characters that the last column has room for; `None`: any number.
    pub fn room(&self) -> Option<usize> {
        let taken: usize = self.widths.iter().flatten().map(|width| width.unsigned_abs() + 1).sum();
        self.columns.map(|columns| columns.saturating_sub(taken))
    }

    fn line(&self, cells: impl IntoIterator<Item = String>) -> String {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(&self.widths) {
            let Some(width) = width else { continue };
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
    let block = |each: &Each<T>| {
        format!("\n── {}\n{}", printable(&each.row.name_and_pid()), block(&each.answer))
    };
    heading.trim_end().to_owned() + "\n" + &all.iter().map(block).collect::<String>()
}

/// The command line of a process, else its name.
pub fn command(row: &Row) -> String {
    match row.command_line.first() {
        None => row.name.clone(),
        Some(title) if title.contains([' ', ':']) => row.command_line.join(" ").trim_end().into(),
        Some(_) => words_of(&row.command_line),
    }
}

/// Arguments as a shell would take them: those that are empty or have a space are quoted.
pub fn words_of<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let quoted = |word: &String| {
        if word.is_empty() || word.contains([' ', '\'']) {
            format!("'{}'", word.replace('\'', "'\\''"))
        } else {
            word.clone()
        }
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
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

/// A function's name and its place, as they fit: shorter names and the file alone come before a cut.
pub fn name_and_place(name: &str, file: &str, line: u32, room: Option<usize>) -> String {
    let length = |text: &str| text.chars().count();
    let fits =
        |name: &str, place: &str| room.is_none_or(|room| length(name) + length(place) <= room);
    let whole = place(file, line);
    let of_base = place(file.rsplit('/').next().unwrap_or(file), line);
    let short = short_name(name);
    for (name, place) in [(name, &whole), (&*short, &whole), (&*short, &of_base)] {
        if fits(name, place) {
            return name.to_owned() + place;
        }
    }
    // The place is worth more than the namespace, and less than the name.
    let least = short.rsplit("::").next().map_or(0, |own| length(own) + 1);
    let left = room.map(|room| room.saturating_sub(length(&of_base)));
    if left.is_some_and(|left| left >= least) {
        fitted(&short, left) + &of_base
    } else {
        fitted(&short, room)
    }
}

/// Frames of the library before the first one in the program's own language, if that is farther off than a line is long.
const BEFORE_LANGUAGE: usize = 2;

/// `leaf:12 ← caller:34 ← …`: short names, at most so many. Where a run time's language is called through many frames of a library, its
/// first function is worth more than these: `xmlNewNode ← xmlParse ← … ← getfeed:12`.
pub fn stack(frames: &[FrameName], most: usize) -> String {
    let of_language = frames.iter().position(|frame| frame.language.is_some());
    if let Some(far) = of_language.filter(|&far| far >= most) {
        let before = stack(&frames[..far], BEFORE_LANGUAGE);
        return format!("{before} ← {}", stack(&frames[far..], most - BEFORE_LANGUAGE));
    }
    let mut names = fold_addresses(frames.iter().map(FrameName::short));
    if names.len() > most {
        names.truncate(most);
        names.push("…".into());
    }
    names.join(" ← ")
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
    use ramson_profile::Language;

    #[test]
    fn far_function_of_a_language_is_shown() {
        let frame = |name: &str, language| FrameName {
            name: name.into(),
            language,
            ..FrameName::default()
        };
        let mut frames: Vec<FrameName> =
            "abcdefgh".chars().map(|name| frame(&name.to_string(), None)).collect();
        assert_eq!(stack(&frames, 6), "a ← b ← c ← d ← e ← f ← …");
        frames.push(frame("getfeed", Some(Language::Python)));
        frames.push(frame("main", Some(Language::Python)));
        assert_eq!(stack(&frames, 6), "a ← b ← … ← getfeed ← main");
        assert_eq!(stack(&frames, 9), "a ← b ← c ← d ← e ← f ← g ← h ← getfeed ← …");
    }

    #[test]
    fn single_rest_is_no_plural() {
        let rest = |all| {
            let mut out = String::new();
            push_rest(&mut out, all, 5, " moments");
            out
        };
        assert_eq!(rest(5), "");
        assert_eq!(rest(6), "(1 more moment; -n 0 shows all)\n");
        assert_eq!(rest(7), "(2 more moments; -n 0 shows all)\n");
    }
}
