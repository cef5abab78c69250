//! Regular expressions as Go's RE2 reads them, which is what `go tool pprof` users type. The crate's syntax is nearly the
//! same; what it reads otherwise is rewritten here: `\d \s \w \b` are ASCII only, `\Q…\E` quotes, `\123` is an octal code, and
//! `[`, `&&` and `~~` inside a class are plain characters.

use regex::Regex;
use std::fmt;

/// A regular expression that matches anywhere in a text.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

/// Why a text is not a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// In one line.
    pub finding: String,
    /// Where in the text: characters from 1; `None` if the whole is at fault.
    pub character: Option<usize>,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.character {
            Some(character) => {
                write!(f, "not a regular expression at character {character}: {}", self.finding)
            }
            None => write!(f, "not a usable regular expression: {}", self.finding),
        }
    }
}

impl std::error::Error for BadPattern {}

impl Pattern {
    /// Compiles the text.
    pub fn new(text: &str) -> Result<Pattern, BadPattern> {
        let rewritten = rewrite(text);
        match Regex::new(&rewritten.text) {
            Ok(regex) => Ok(Pattern { text: text.to_owned(), regex }),
            Err(error) => Err(explain(&rewritten, &error)),
        }
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn explain(rewritten: &Rewritten, error: &regex::Error) -> BadPattern {
    let (finding, offset) = match regex_syntax::Parser::new().parse(&rewritten.text) {
        Err(regex_syntax::Error::Parse(error)) => {
            (error.kind().to_string(), Some(error.span().start.offset))
        }
        Err(regex_syntax::Error::Translate(error)) => {
            (error.kind().to_string(), Some(error.span().start.offset))
        }
        // It is too large, which only the compiler finds.
        _ => (error.to_string().lines().last().unwrap_or_default().trim().to_owned(), None),
    };
    // Kinds of the crate mention its own switches in further sentences.
    let finding = finding.split(", ").next().unwrap_or_default().to_owned();
    BadPattern { finding, character: offset.map(|offset| rewritten.character_at(offset)) }
}

/// An expression for the crate.
#[derive(Default)]
struct Rewritten {
    text: String,
    /// For each piece that was written: where it starts in `text`, and the number from 1 of the character it stands for.
    origins: Vec<(usize, usize)>,
}

impl Rewritten {
    fn push(&mut self, character: usize, piece: &str) {
        self.origins.push((self.text.len(), character));
        self.text.push_str(piece);
    }

    fn character_at(&self, offset: usize) -> usize {
        let next = self.origins.partition_point(|&(start, _)| start <= offset);
        next.checked_sub(1).map_or(1, |index| self.origins[index].1)
    }
}

fn rewrite(text: &str) -> Rewritten {
    let characters: Vec<char> = text.chars().collect();
    let mut out = Rewritten::default();
    let mut in_class = false;
    let mut at = 0;
    while at < characters.len() {
        let (start, rest) = (at + 1, &characters[at..]);
        match rest {
            ['\\', 'Q', quoted @ ..] if !in_class => {
                at += 2 + quote(&mut out, start + 2, quoted);
            }
            ['\\', next, ..] => {
                at += escape(&mut out, start, *next, &rest[2..], in_class);
            }
            ['[', ':', ..] if in_class => {
                let end = rest.windows(2).position(|pair| pair == [':', ']']);
                let length = end.map_or(1, |end| end + 2);
                let class: String = rest[..length].iter().collect();
                out.push(start, if length == 1 { "\\[" } else { &class });
                at += length;
            }
            ['[', ..] if in_class => {
                out.push(start, "\\[");
                at += 1;
            }
            ['[', ..] => {
                in_class = true;
                out.push(start, "[");
                at += 1;
                if characters.get(at) == Some(&'^') {
                    out.push(at + 1, "^");
                    at += 1;
                }
                // The first one is a member, not the end.
                if characters.get(at) == Some(&']') {
                    out.push(at + 1, "\\]");
                    at += 1;
                }
            }
            [']', ..] if in_class => {
                in_class = false;
                out.push(start, "]");
                at += 1;
            }
            [first @ ('&' | '~'), ..] if in_class => {
                out.push(start, &format!("\\{first}"));
                at += 1;
            }
            [first, ..] => {
                out.push(start, &first.to_string());
                at += 1;
            }
            [] => unreachable!("the loop ends before"),
        }
    }
    out
}

/// What follows `\Q`, up to `\E` or the end. Returns how many characters that were.
fn quote(out: &mut Rewritten, start: usize, rest: &[char]) -> usize {
    let end = rest.windows(2).position(|pair| pair == ['\\', 'E']);
    for (index, character) in rest[..end.unwrap_or(rest.len())].iter().enumerate() {
        out.push(start + index, &regex::escape(&character.to_string()));
    }
    end.map_or(rest.len(), |end| end + 2)
}

/// A backslash and what belongs to it. Returns how many characters that were.
fn escape(out: &mut Rewritten, start: usize, next: char, rest: &[char], in_class: bool) -> usize {
    let ascii = match (next, in_class) {
        ('d', false) => Some("[0-9]"),
        ('d', true) => Some("0-9"),
        ('s', false) => Some("[\\t\\n\\f\\r ]"),
        ('s', true) => Some("\\t\\n\\f\\r "),
        ('w', false) => Some("[0-9A-Za-z_]"),
        ('w', true) => Some("0-9A-Za-z_"),
        ('D', _) => Some("[^0-9]"),
        ('S', _) => Some("[^\\t\\n\\f\\r ]"),
        ('W', _) => Some("[^0-9A-Za-z_]"),
        ('b', false) => Some("(?-u:\\b)"),
        ('B', false) => Some("(?-u:\\B)"),
        _ => None,
    };
    if let Some(ascii) = ascii {
        out.push(start, ascii);
        return 2;
    }
    let octal = rest.iter().take(2).take_while(|digit| digit.is_digit(8)).count();
    // A single digit but 0 would be a reference to a group, which neither has.
    if next.is_digit(8) && (next == '0' || octal > 0) {
        let digits = std::iter::once(&next).chain(&rest[..octal]);
        let code = digits.fold(0, |code, digit| code * 8 + digit.to_digit(8).unwrap_or(0));
        out.push(start, &format!("\\x{{{code:x}}}"));
        return 2 + octal;
    }
    out.push(start, &format!("\\{next}"));
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
    }

    #[test]
    fn expressions_mean_what_they_mean_in_go() {
        // Each checked with Go's regexp.MatchString.
        for (pattern, text, expected) in [
            (r"\d", "٣", false),
            (r"\w", "ä", false),
            (r"[\w]", "ä", false),
            (r"^\W$", "ä", true),
            (r"[^\d]", "٣", true),
            (r"\s", "\u{b}", false),
            (r"\bb", "äb", true),
            (r"a\Bb", "ab", true),
            (r"\Qa.b[\E.", "a.b[x", true),
            (r"\Qa.b", "axb", false),
            (r"[[a]", "[", true),
            (r"[a&&b]", "&", true),
            (r"[&~]", "~", true),
            (r"[]a]", "]", true),
            (r"[^]a]", "]", false),
            (r"[[:alpha:]]", "x", true),
            (r"[[:alpha:]]", ":", false),
            (r"\141", "a", true),
            (r"\x{e4}|\x61", "ä", true),
            (r"(?i)STRASSE", "strasse", true),
            (r".", "\n", false),
            (r"a$", "a\n", false),
            (r"(?P<n>a)|\pL", "ß", true),
            (r"^(?:ns|std)::", "std::vector", true),
            ("", "anything", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn a_bad_expression_is_told_in_one_line_with_its_position() {
        for (pattern, character, part) in [
            ("(", 1, "unclosed group"),
            ("ab(c", 3, "unclosed group"),
            ("ä)", 2, "unopened group"),
            (r"\d\d[z-a]", 6, "invalid character class range"),
            ("*a", 1, "repetition operator missing expression"),
            (r"\d\1", 3, "backreferences are not supported"),
            ("(?=a)", 1, "look-around"),
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert_eq!(error.character, Some(character), "{pattern}: {error}");
            assert!(error.finding.contains(part), "{pattern}: {error}");
            assert!(!error.to_string().contains('\n'), "{error:?}");
        }
        let huge = Pattern::new("((a{1000}){1000}){1000}").unwrap_err();
        assert_eq!(huge.character, None);
        assert!(!huge.to_string().contains('\n'), "{huge:?}");
    }
}
