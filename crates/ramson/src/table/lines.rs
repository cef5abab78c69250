//! Text in lines that fit the terminal: cut where the end matters least, broken between terms where all of it matters.

use ramson_profile::printable;
use std::io;

/// Prose is not broken to less.
const LEAST_PROSE_COLUMNS: usize = 20;
/// Units that stay on the line of their number.
const UNITS: [&str; 14] =
    ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "%", "ns", "µs", "ms", "s", "min", "h", "d"];

/// Columns of the terminal, or of `COLUMNS`; `None` where the output is not a terminal: then nothing is cut.
pub fn columns() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal =
        || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    // A terminal that does not know says 0.
    asked.filter(|&columns| columns > 0).or_else(|| of_terminal().filter(|&columns| columns > 0))
}

/// `line` cut to `columns` characters, ending in … if anything is missing.
pub fn cut(line: &str, columns: Option<usize>) -> String {
    let line = printable(line);
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

/// Shortens a function's name to `room` characters. Its namespaces and types are left out before its own name is cut:
/// `…SessionManager::open`. In a stack, `leaf ← caller`, the callers go first.
pub fn fitted(stack: &str, room: Option<usize>) -> String {
    let name = stack.split(" ← ").next().unwrap_or_default();
    let Some(room) = room.filter(|&room| name.chars().count() > room) else {
        return cut(stack, room);
    };
    let rests: Vec<&str> = outer_separators(name).into_iter().map(|end| &name[end..]).collect();
    let fitting = rests.iter().find(|rest| rest.chars().count() < room);
    match fitting.or(rests.last()) {
        Some(rest) => cut(&format!("…{rest}"), Some(room)),
        None => cut(name, Some(room)),
    }
}

/// Behind each `::` that is not among a name's arguments.
fn outer_separators(name: &str) -> Vec<usize> {
    let mut depth = 0usize;
    let mut ends = Vec::new();
    for (at, character) in name.char_indices() {
        match character {
            '<' | '(' | '{' => depth += 1,
            '>' | ')' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && name[at..].starts_with("::") => ends.push(at + 2),
            _ => {}
        }
    }
    ends
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
    let text = format!("{label}{prose}");
    push_wrapped(out, words(&printable(&text)), label.chars().count());
}

/// Adds what is made of terms, which is never cut: broken between these, behind `label`, further lines by so much indented.
pub fn push_terms(out: &mut String, label: &str, text: &str, indent: usize) {
    let text = format!("{label}{text}");
    let text = printable(&text);
    let room = columns().unwrap_or(usize::MAX).max(indent + LEAST_PROSE_COLUMNS) - indent;
    let parts = terms(&text)
        .into_iter()
        .flat_map(|term| if term.chars().count() > room { words(term) } else { vec![term] });
    push_wrapped(out, parts, indent);
}

fn push_wrapped<'a>(out: &mut String, parts: impl IntoIterator<Item = &'a str>, indent: usize) {
    let most = columns().unwrap_or(usize::MAX).max(indent + LEAST_PROSE_COLUMNS);
    let lines = wrap(parts, most, indent);
    out.extend(lines.iter().map(|line| line.trim_end().to_owned() + "\n"));
}

/// Words with the space behind them; a number and its unit are one.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    for (space, _) in text.match_indices(' ') {
        let (word, rest) = (&text[start..space], &text[space + 1..]);
        let is_number = word
            .trim_start_matches(['(', '±', '−', '+', '≤', '~'])
            .starts_with(|it: char| it.is_ascii_digit());
        let next = rest.split([' ', ',', ';', ')', '.', ':', '/']).next().unwrap_or_default();
        if !(is_number && UNITS.contains(&next)) {
            words.push(&text[start..=space]);
            start = space + 1;
        }
    }
    words.push(&text[start..]);
    words
}

/// The summands, list items and clauses of a line, each with the space behind it.
fn terms(text: &str) -> Vec<&str> {
    let mut ends: Vec<usize> = [", ", "; "]
        .iter()
        .flat_map(|separator| text.match_indices(separator).map(|(at, _)| at + 2))
        .chain(
            [" + ", " − ", " ← "]
                .iter()
                .flat_map(|sign| text.match_indices(sign).map(|(at, _)| at + 1)),
        )
        .collect();
    ends.sort_unstable();
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(ends.iter().copied().chain([text.len()])).map(|(from, to)| &text[from..to]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_characters() {
        assert_eq!(cut("ä€bcd", Some(4)), "ä€b…");
        assert_eq!(cut("abcd", Some(4)), "abcd");
        assert_eq!(cut("abcd", None), "abcd");
        assert_eq!(cut("a\u{202e}bcd", Some(6)), "a\\u{2…");
    }

    #[test]
    fn own_function_name_is_kept_longest() {
        let name = "acme::net::SessionManager::open_session";
        assert_eq!(fitted(name, None), name);
        assert_eq!(fitted(name, Some(39)), name);
        assert_eq!(fitted(name, Some(38)), "…net::SessionManager::open_session");
        assert_eq!(fitted(name, Some(20)), "…open_session");
        assert_eq!(fitted(name, Some(8)), "…open_s…");
        assert_eq!(fitted("a::b(x::y)::c", Some(3)), "…c");
        assert_eq!(fitted("processMultibulkBuffer", Some(10)), "processMu…");
        assert_eq!(fitted("a::b ← c::d", Some(6)), "a::b …");
        assert_eq!(fitted("a::b ← c::d", Some(3)), "…b");
    }

    #[test]
    fn lines_break_between_terms() {
        let line = "RSS 132 MiB = live 119 MiB (±12%) + stacks 60.0 KiB − changed 4.00 KiB";
        let parts =
            ["RSS 132 MiB = live 119 MiB (±12%) ", "+ stacks 60.0 KiB ", "− changed 4.00 KiB"];
        assert_eq!(terms(line), parts);
        assert_eq!(terms("a ← b, c; d"), ["a ", "← b, ", "c; ", "d"]);
        assert_eq!(
            words("of (±12%) and 3.5 MiB/h, 2 of"),
            ["of ", "(±12%) ", "and ", "3.5 MiB/h, ", "2 ", "of"]
        );
    }
}
