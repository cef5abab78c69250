//! What of an output has to be the same each time: words, names, their order, lines. Not the numbers.

/// Frames of a stack that are compared, innermost first.
const FRAMES: usize = 3;
/// The share of RSS from which on a term has to be there again.
const LARGE_SHARE: f64 = 0.1;
/// Between frames.
const CALLED_BY: &str = " ← ";
/// Of a number, with a space before or without.
const UNITS: [&str; 16] = [
    "KiB/s", "MiB/s", "KiB/h", "MiB/h", "GiB/h", "KiB", "MiB", "GiB", "TiB", "min", "ms", "µs", "ns", "B", "s", "h",
];

/// The lines of an output without what differs from run to run: each number with its unit becomes `#`, as do dates and
/// addresses, spaces in a row become one, and of a stack the first frames stay.
pub fn shape(output: &str) -> Vec<String> {
    lines(output).iter().map(|line| masked(line)).collect()
}

/// Whether two outputs have the same shape. Of a line that splits RSS up, each large term of the one must be a term of the other.
pub fn is_same(written: &str, now: &str) -> bool {
    let (written, now) = (lines(written), lines(now));
    let is_alike = |(written, now): (&String, &String)| match (terms(written), terms(now)) {
        (Some(written), Some(now)) => {
            let is_there = |name: &String| now.iter().any(|(other, _)| other == name);
            written.iter().all(|(name, share)| *share < LARGE_SHARE || is_there(name))
        }
        (None, None) => masked(written) == masked(now),
        _ => false,
    };
    written.len() == now.len() && written.iter().zip(&now).all(is_alike)
}

/// Lines, those that go on below joined.
fn lines(output: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in output.lines() {
        match lines.last_mut().filter(|last| last.starts_with("RSS ") && line.starts_with("  ")) {
            Some(last) => *last += line,
            None => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Of `RSS 132 MiB = live 119 MiB (±12 %) + stacks 60.0 KiB`, the terms' names and their shares of the whole.
fn terms(line: &str) -> Option<Vec<(String, f64)>> {
    let (whole, parts) = line.strip_prefix("RSS ")?.split_once(" = ")?;
    let whole = bytes(whole)?;
    let parts = parts.split(" + ").flat_map(|part| part.split(" − "));
    let of_part = |part: &str| {
        let part = part.split('(').next().unwrap_or(part).trim();
        let at = part.find(|letter: char| letter.is_ascii_digit())?;
        Some((part[..at].trim().to_owned(), bytes(&part[at..])? / whole))
    };
    Some(parts.filter_map(of_part).collect())
}

fn bytes(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.replace(',', "").parse().ok()?;
    let unit = match words.next()? {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    Some(number * f64::from(1 << unit))
}

fn masked(line: &str) -> String {
    let mut frames = line.split(CALLED_BY);
    let shown: Vec<String> = frames.by_ref().take(FRAMES).map(numbers_masked).collect();
    let words = shown.iter().flat_map(|frame| {
        let words = frame.split_whitespace().map(str::to_owned);
        words.chain(std::iter::once("←".to_owned()))
    });
    let mut words: Vec<String> = words.collect();
    words.pop();
    // Of `2 min 5 s` both.
    words.dedup_by(|next, last| next == "#" && last == "#");
    words.join(" ")
}

fn numbers_masked(text: &str) -> String {
    let (mut out, mut rest, mut last) = (String::new(), text, ' ');
    while let Some(letter) = rest.chars().next() {
        let is_name = last.is_alphanumeric() || last == '_';
        let length = if is_name { 0 } else { number(rest) };
        if length > 0 {
            while out.ends_with(['~', '<', '≥']) {
                out.pop();
            }
            out.push('#');
            (rest, last) = (&rest[length..], '#');
        } else {
            out.push(letter);
            (rest, last) = (&rest[letter.len_utf8()..], letter);
        }
    }
    out
}

/// Bytes of the number at the begin of a text, with its unit; 0 if there is none.
fn number(text: &str) -> usize {
    let is_date = text.len() > 4 && text.as_bytes()[..4].iter().all(u8::is_ascii_digit) && text[4..].starts_with('-');
    let is_hex = text.starts_with("0x");
    let is_part = |letter: char| match letter {
        '0'..='9' | '.' | ',' => true,
        '-' | ':' | 'T' | 'Z' => is_date,
        'a'..='f' | 'x' => is_hex,
        _ => false,
    };
    if !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return 0;
    }
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let digits = text[..end].trim_end_matches(['.', ',', ':', '-']).len();
    let after = &text[digits..];
    let spaced = after.strip_prefix(' ').unwrap_or(after);
    let is_whole = |unit: &&&str| !spaced[unit.len()..].starts_with(|letter: char| letter.is_alphanumeric());
    let unit = UNITS.iter().filter(|unit| spaced.starts_with(**unit)).find(is_whole);
    let unit = unit.or_else(|| spaced.starts_with('%').then_some(&"%"));
    unit.map_or(digits, |unit| digits + (after.len() - spaced.len()) + unit.len())
}
