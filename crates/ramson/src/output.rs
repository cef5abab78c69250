//! Results go to standard output, remarks to standard error, hints to a terminal only.

use ramson_encode::json::write_document;
use ramson_profile::{is_printable, printable};
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

/// Writes a result. Names of foreign files and processes in it were made printable one by one, because they may have line feeds; what
/// was missed steers no terminal.
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

/// Says why a command failed.
pub fn failure(failure: &Failure) {
    let _ = io::stderr().write_all(visible(&format!("ramson: {failure}\n")).as_bytes());
}

/// A line for a person, also in a log. A failure to write it cannot be reported: a full disk under
/// standard error ends nothing.
pub fn remark(message: impl fmt::Display) {
    let line = format!("ramson: {}\n", printable(&message.to_string()));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Lines of printable text; `dim` stays.
fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(|letter| letter == '\n' || is_printable(letter)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(printable_between(&["\n", DIM, NOT_DIM], text))
}

fn printable_between(own: &[&str], text: &str) -> String {
    let Some((first, others)) = own.split_first() else { return printable(text).into_owned() };
    let parts = text.split(first).map(|part| printable_between(others, part));
    parts.collect::<Vec<_>>().join(first)
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
        assert!(matches!(visible("größe ±3%\n"), Cow::Borrowed(_)));
    }
}
