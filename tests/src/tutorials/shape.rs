//! Parts of an output that have to be the same each time: words, names and their order. Numbers and line breaks may differ.

/// Frames of a stack that are compared, innermost first.
const FRAMES: usize = 3;
/// The share of RSS from which on a term has to be there again.
const LARGE_SHARE: f64 = 0.1;
/// Between frames.
const CALLED_BY: &str = " ← ";
/// Lines that are there or not by chance: whether a rare sample makes a further row, and whether a kill came during a sample.
const BY_CHANCE: [&str; 3] = ["-n 0 shows all", "  in other stacks", "not complete: "];
/// Parts of lines, likewise: whether RSS was larger before, and how many small functions were sampled.
const PARTS_BY_CHANCE: [&str; 2] = [", # at its peak", "; # more"];
/// Characters that bars are drawn with.
const BARS: [char; 5] = ['█', '▓', '▒', '░', '·'];
/// Behind a number.
const UNITS: [&str; 14] =
    ["KiB", "MiB", "GiB", "TiB", "min", "days", "day", "ms", "µs", "ns", "B", "s", "h", "%"];

/// A line, with those below that go on with it.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    words: Vec<String>,
    /// It is longer than the terminal, and its end is missing.
    is_cut: bool,
    /// As it was printed.
    text: String,
}

/// The lines of an output without what differs from run to run: each number with its unit is `#`, as are dates and addresses; of a
/// stack the first frames stay; lines that were wrapped are one.
pub fn shape(output: &str) -> Vec<String> {
    lines(output).iter().map(|line| line.words.join(" ")).collect()
}

/// Whether two outputs have the same shape. A line that splits RSS up must contain the large terms again. Lines that are cut are
/// compared as far as both go.
pub fn is_same(written: &str, now: &str) -> bool {
    let (written, now) = (lines(written), lines(now));
    written.len() == now.len()
        && written.iter().zip(&now).all(|(written, now)| written.is_like(now))
}

impl Line {
    fn of(text: &str) -> Self {
        let mut text = text.to_owned();
        // A number for a name that another run has: of a function of node's, how it was compiled.
        for tier in ["JS:~", "JS:^", "JS:*", "JS:+"] {
            text = text.replace(tier, "JS:");
        }
        text = text.replace("nearly all of it", "1 MiB of it");
        let frames: Vec<&str> = text.splitn(FRAMES + 1, CALLED_BY).take(FRAMES).collect();
        let mut shown = numbers_masked(&frames.join(CALLED_BY));
        for part in PARTS_BY_CHANCE {
            shown = shown.replace(part, "");
        }
        let mut words: Vec<String> = shown.split_whitespace().map(str::to_owned).collect();
        for word in &mut words {
            if word.starts_with(BARS) {
                word.truncate(word.chars().next().map_or(0, char::len_utf8));
            }
        }
        let is_cut = shown.ends_with('…');
        Self { words, is_cut, text }
    }

    /// Whether `text`, below it, goes on with it: it is indented, and has no columns.
    fn goes_on(&self, text: &str) -> bool {
        let is_prose = !text.trim().is_empty() && !text.trim().contains("  ");
        let is_sum = self.text.contains("RSS ") && text.contains(" + ");
        !self.is_cut && !self.words.is_empty() && is_prose && (text.starts_with("  ") || is_sum)
    }

    fn add(&mut self, text: &str) {
        let below = Self::of(text);
        self.words.extend(below.words);
        self.text = format!("{} {}", self.text, below.text.trim());
        self.is_cut = below.is_cut;
    }

    fn is_like(&self, now: &Self) -> bool {
        if let (Some((whose, written)), Some((now_whose, now))) =
            (terms(&self.text), terms(&now.text))
        {
            let is_there = |name: &String| now.iter().any(|(other, _)| other == name);
            let has_large =
                written.iter().all(|(name, share)| *share < LARGE_SHARE || is_there(name));
            return has_large && numbers_masked(whose) == numbers_masked(now_whose);
        }
        let mut words = (self.words.clone(), now.words.clone());
        // Numbers in a row count as one: both of `2 min 5 s`, also if `min` and `s` are in two lines.
        words.0.dedup_by(|next, last| next == "#" && last == "#");
        words.1.dedup_by(|next, last| next == "#" && last == "#");
        if self.is_cut || now.is_cut {
            let whole = words.0.len().min(words.1.len()).saturating_sub(1);
            words.0.truncate(whole);
            words.1.truncate(whole);
        }
        words.0 == words.1
    }
}

fn lines(output: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let is_sure = |line: &&str| !BY_CHANCE.iter().any(|part| line.contains(part));
    for text in output.lines().filter(is_sure) {
        match lines.last_mut().filter(|last| last.goes_on(text)) {
            Some(last) => last.add(text),
            None => lines.push(Line::of(text)),
        }
    }
    while lines.last().is_some_and(|line| line.words.is_empty()) {
        lines.pop();
    }
    lines
}

/// What comes before a sum, and names of its terms with their shares of the whole, from a line like `server (pid 7): RSS 132 MiB = live 119 MiB
/// (±12%) + stacks 60.0 KiB`.
fn terms(line: &str) -> Option<(&str, Vec<(String, f64)>)> {
    let (whose, sum) = line.split_once("RSS ")?;
    let (whole, parts) = sum.split_once(" = ")?;
    let whole = bytes(whole)?;
    let parts = parts.split(" + ").flat_map(|part| part.split(" − "));
    let of_part = |part: &str| {
        let part = part.split('(').next().unwrap_or(part).trim();
        let at = part.find(|letter: char| letter.is_ascii_digit())?;
        Some((part[..at].trim().to_owned(), bytes(&part[at..])? / whole))
    };
    Some((whose, parts.filter_map(of_part).collect()))
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

fn numbers_masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut last = ' ';
    while let Some(letter) = rest.chars().next() {
        let is_name = last.is_alphanumeric() || last == '_';
        let length = if is_name { 0 } else { number(rest) };
        if length > 0 {
            out.truncate(out.trim_end_matches(['~', '<', '≥']).len());
            out.push('#');
            rest = &rest[length..];
            last = '#';
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
            last = letter;
        }
    }
    out
}

/// Bytes of the number at the begin of a text, with its unit; 0 if there is none.
fn number(text: &str) -> usize {
    if !text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return 0;
    }
    let year = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_date = year == 4 && text[4..].starts_with('-');
    let is_hex = text.starts_with("0x");
    let is_part = |letter: char| match letter {
        '0'..='9' | '.' | ',' => true,
        '-' | '+' | ':' | 'T' | 'Z' => is_date,
        'a'..='f' | 'x' => is_hex,
        _ => false,
    };
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let digits = text[..end].trim_end_matches(['.', ',', ':', '-']).len();
    let after = &text[digits..];
    let spaced = after.strip_prefix(' ').unwrap_or(after);
    let is_whole = |unit: &&&str| !spaced[unit.len()..].starts_with(char::is_alphanumeric);
    let unit = UNITS.iter().filter(|unit| spaced.starts_with(**unit)).find(is_whole);
    unit.map_or(digits, |unit| digits + (after.len() - spaced.len()) + unit.len())
}
