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

/// A function's name without parameters, template arguments and the return type that templates have.
pub fn short_name(name: &str) -> String {
    // An operator's own < or ( is not an argument list, nor is the name of an anonymous namespace.
    if name.contains("operator") || name.contains("(anonymous") || name.starts_with(['<', '(', '{'])
    {
        return name.to_owned();
    }
    let name = name.strip_suffix(" const").unwrap_or(name);
    let mut short = String::new();
    let (mut depth, mut is_list, mut last_word, mut before) = (0usize, false, 0, ' ');
    for character in name.chars() {
        let outer = depth;
        match character {
            '<' | '(' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => last_word = short.len() + 1,
            _ => {}
        }
        if outer == 0 && depth == 1 {
            is_list = is_argument_list(&mut short, character);
        }
        if !is_list || (outer, depth) == (0, 0) {
            short.push(character);
        }
        before = character;
    }
    // Only what has parameters has a return type; names of compiled code may have any text in them.
    if is_list && name.ends_with(')') {
        short.drain(..last_word);
    }
    short
}

/// Whether arguments follow `name`, with `opening` before them. Rust's come after `::`, which goes with them. After a dot, a space
/// or a single colon it is Go's `(*Receiver)`, Python's `<lambda>` or some other runtime's text.
fn is_argument_list(name: &mut String, opening: char) -> bool {
    if opening == '<' && name.ends_with("::") && !name.starts_with("py::") {
        name.truncate(name.len() - 2);
        return true;
    }
    !name.ends_with(['.', ' ', ':'])
}

/// A rough duration for people: `42 s`, `3 min`, `5 h`, `2 d`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time in ns since 1970 as `2026-11-21 20:57:03 UTC`.
pub fn utc(realtime_ns: u64) -> String {
    let seconds = realtime_ns / 1_000_000_000;
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    // Years begin with March, so that leap days come last; 719,468 days from 0000-03-01 to 1970-01-01.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_have_no_arguments_of_any_kind() {
        assert_eq!(short_name("a::B<int, C<D> >::f(std::string const&) const"), "a::B::f");
        assert_eq!(short_name("void a::f<int>(int) const"), "a::f");
        assert_eq!(short_name("JS:*total /srv/app.js:3:15"), "JS:*total /srv/app.js:3:15");
        assert_eq!(short_name("zmalloc_usable"), "zmalloc_usable");
        assert_eq!(short_name("X::operator<(X const&)"), "X::operator<(X const&)");
        assert_eq!(short_name("long* Pool::get<long>(unsigned long)"), "Pool::get");
        assert_eq!(short_name("f(int)::Local::g(char (*)(int)) const"), "f::Local::g");
        assert_eq!(
            short_name("core::slice::sort::<impl [T]>::merge<u8>"),
            "core::slice::sort::merge"
        );
        assert_eq!(short_name("a::call::<fn() -> u8>::{closure#0}"), "a::call::{closure#0}");
    }

    #[test]
    fn names_of_other_languages_lose_nothing_but_arguments() {
        for name in [
            "net/http.(*conn).serve",
            "main.(*Tree[go.shape.int]).Add.func1",
            "StubRoutines (1)",
            "py::keep.<locals>.<lambda>:/srv/app.py",
            "RegExp:(a|b) c",
        ] {
            assert_eq!(short_name(name), name);
        }
        assert_eq!(short_name("void J.main(java.lang.String[])"), "J.main");
    }

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

    #[test]
    fn times_are_those_of_the_calendar() {
        let second = 1_000_000_000;
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399 * second), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400 * second), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_798_761_599 * second), "2026-12-31 23:59:59 UTC");
        assert_eq!(utc(4_107_542_400 * second), "2100-03-01 00:00:00 UTC");
    }
}
