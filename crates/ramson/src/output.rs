//! Results go to standard output, remarks to standard error, hints to a terminal only.

use ramson_encode::json::write_document;
use ramson_profile::escape_invisible;
use ramson_source::Failure;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Turns dim on …
pub const DIM: &str = "\x1b[2m";
/// … and off.
pub const NOT_DIM: &str = "\x1b[0m";
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

/// Prints an answer as one JSON object and a newline, with version and kind first. Fields may be added within a version.
pub fn print_json(kind: &'static str, answer: &impl Serialize) -> Result<(), Failure> {
    print_object(Some(kind), answer)
}

/// The same for an answer that has its kind in itself.
pub fn print_json_of_kind(answer: &impl Serialize) -> Result<(), Failure> {
    print_object(None, answer)
}

fn print_object(kind: Option<&str>, answer: &impl Serialize) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    Ok(write_document(kind, answer, &mut out)?)
}

/// A remark for a person; a program that reads our output does not get it.
pub fn hint(message: &str) {
    if io::stderr().is_terminal() && !IS_DRAWN_UPON.load(Relaxed) {
        remark(message);
    }
}

/// A line for a person, also in a log. A failure to write it cannot be reported: a full disk under
/// standard error ends nothing.
pub fn remark(message: impl fmt::Display) {
    let line = format!("ramson: {message}\n");
    let _ = io::stderr().write_all(visible(&line).as_bytes());
}

/// `text` without what would steer a terminal, but for `dim`, and with what no reader sees shown escaped.
pub fn visible(text: &str) -> Cow<'_, str> {
    match without_controls(text) {
        Cow::Borrowed(text) => escape_invisible(text),
        Cow::Owned(text) => Cow::Owned(escape_invisible(&text).into_owned()),
    }
}

fn without_controls(text: &str) -> Cow<'_, str> {
    let is_foreign = |character: char| character.is_control() && character != '\n';
    if !text.contains(is_foreign) {
        return Cow::Borrowed(text);
    }
    let without_codes = |text: &str| text.replace(is_foreign, "\u{fffd}");
    let not_dim =
        |text: &str| text.split(NOT_DIM).map(without_codes).collect::<Vec<_>>().join(NOT_DIM);
    Cow::Owned(text.split(DIM).map(not_dim).collect::<Vec<_>>().join(DIM))
}

/// The exit status of a gate, which says why it has tripped.
pub fn gate(finding: Option<String>) -> u8 {
    finding.map_or(0, |finding| {
        remark(finding);
        3
    })
}

pub fn keep_terminal_clean() {
    IS_DRAWN_UPON.store(true, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_steers_no_terminal() {
        let text = format!("{}\na\x1b[2Jb\rc\u{9b}2Kd", format_args!("{DIM}x{NOT_DIM}"));
        assert_eq!(visible(&text), format!("{DIM}x{NOT_DIM}\na\u{fffd}[2Jb\u{fffd}c\u{fffd}2Kd"));
        assert_eq!(visible("a\u{202e}\tb"), "a\\u{202e}\u{fffd}b");
        assert!(matches!(visible("größe ±3 %\n"), Cow::Borrowed(_)));
    }
}
