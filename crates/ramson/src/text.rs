//! Printing: results to standard output, hints to a terminal only.

use crate::failure::Failure;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DIM: &str = "\x1b[2m";
const NOT_DIM: &str = "\x1b[0m";
/// Prose is not broken to less.
const LEAST_PROSE_COLUMNS: usize = 20;
/// Whether the terminal shows a picture that a remark would spoil.
static IS_DRAWN_UPON: AtomicBool = AtomicBool::new(false);

/// Writes a result, which may have names of foreign files and processes in it.
pub fn print(text: &str) -> Result<(), Failure> {
    print_raw(visible(text).as_bytes())
}

/// Writes what is all our own.
pub fn print_raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// A remark for a person; a program that reads our output does not get it.
pub fn hint(message: &str) {
    if io::stderr().is_terminal() && !IS_DRAWN_UPON.load(Relaxed) {
        remark(message);
    }
}

/// A line for a person, also in a log. That it could not be written can be told to nobody: a full disk under standard error ends nothing.
pub fn remark(message: impl fmt::Display) {
    let line = format!("ramson: {message}\n");
    let _ = io::stderr().write_all(visible(&line).as_bytes());
}

/// `text` without what would steer a terminal, but for `dim`.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_harmless = |character: char| !character.is_control() || character == '\n';
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let own = [DIM, NOT_DIM].into_iter().find(|code| rest.starts_with(code));
        match own {
            Some(code) => out.push_str(code),
            None => out.push(if is_harmless(character) { character } else { '\u{fffd}' }),
        }
        rest = &rest[own.map_or(character.len_utf8(), str::len)..];
    }
    Cow::Owned(out)
}

/// No remarks from here on.
pub fn keep_terminal_clean() {
    IS_DRAWN_UPON.store(true, Relaxed);
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_steers_no_terminal() {
        let text = format!("{}\na\x1b[2Jb\rc\u{9b}2Kd", format_args!("{DIM}x{NOT_DIM}"));
        assert_eq!(visible(&text), format!("{DIM}x{NOT_DIM}\na\u{fffd}[2Jb\u{fffd}c\u{fffd}2Kd"));
        assert!(matches!(visible("größe ±3 %\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_are_cut_by_characters_and_marked() {
        assert_eq!(cut("ä€bcd", Some(4)), "ä€b…");
        assert_eq!(cut("abcd", Some(4)), "abcd");
        assert_eq!(cut("abcd", None), "abcd");
    }
}
