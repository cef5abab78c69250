//! Answers as text.

pub mod comparison;
pub mod doctor;
pub mod doctor_sum;
mod frees;
mod health;
mod heap_map;
pub mod listing;
mod pins;
pub mod report;
mod sizes;
pub mod subject;
pub mod suspects;
pub mod timeline;
mod trees;

use crate::output::{DIM, NOT_DIM, hint};
use ramson_profile::format::format_percent;
use ramson_profile::{FrameName, is_library_function};
use ramson_symbols::SymbolDefect;
use std::io::{self, IsTerminal};

/// Prose is not broken to less.
const LEAST_PROSE_COLUMNS: usize = 20;
/// Missing symbols reported one by one.
const MAX_HINTS: usize = 3;

/// Columns of the terminal, or of `COLUMNS`; `None` where the output is not a terminal: then nothing is cut.
pub fn columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    if asked.is_some() {
        return asked;
    }
    if !io::stdout().is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| size.ws_col as usize)
        .filter(|&columns| columns > 0)
}

/// `line` cut to `columns` characters, ending in … if anything is missing.
pub fn cut(line: &str, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if line.chars().count() > columns => {
            line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}

/// Adds prose, which is never cut: broken at spaces to `columns`, behind `label` and below what follows it.
pub fn push_prose(out: &mut String, label: &str, prose: &str, columns: Option<usize>) {
    let indent = label.chars().count();
    let most = columns.unwrap_or(usize::MAX).max(indent + LEAST_PROSE_COLUMNS);
    out.push_str(label);
    let mut at = indent;
    for (index, word) in prose.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && at + 1 + length > most {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            at = indent;
        } else if index > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += length;
    }
    out.push('\n');
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

/// `leaf:12 ← caller:34 ← …`: short names without the C++ library's own functions, at most so many.
pub fn stack(frames: &[FrameName], most: usize) -> String {
    let shown = frames.iter().filter(|frame| !is_library_function(&frame.name));
    let names: Vec<String> = shown.clone().take(most).map(FrameName::short).collect();
    let names = names.join(" ← ");
    if shown.count() > most { names + " ← …" } else { names }
}

/// Says what kept frames from having names, and what to do about it.
pub fn say_what_is_missing(defects: &[SymbolDefect]) {
    for defect in defects.iter().take(MAX_HINTS) {
        hint(&defect.to_string());
    }
    if defects.len() > MAX_HINTS {
        hint(&format!("{} more binaries lack symbols", defects.len() - MAX_HINTS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_characters_and_marked() {
        assert_eq!(cut("ä€bcd", Some(4)), "ä€b…");
        assert_eq!(cut("abcd", Some(4)), "abcd");
        assert_eq!(cut("abcd", None), "abcd");
    }
}
