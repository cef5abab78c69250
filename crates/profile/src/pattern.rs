//! Regular expressions, in the syntax of the regex crate.

use borsh::{BorshDeserialize, BorshSerialize};
use regex::Regex;
use std::fmt;
use std::io::{self, Read, Write};

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
    /// Position in the text: characters from 1; `None` if the whole is at fault.
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

impl BorshSerialize for Pattern {
    fn serialize<W: Write>(&self, out: &mut W) -> io::Result<()> {
        self.text.serialize(out)
    }
}

impl BorshDeserialize for Pattern {
    fn deserialize_reader<R: Read>(input: &mut R) -> io::Result<Self> {
        let text = String::deserialize_reader(input)?;
        Self::new(&text).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

impl Pattern {
    /// Compiles the text.
    pub fn new(text: &str) -> Result<Pattern, BadPattern> {
        match Regex::new(text) {
            Ok(regex) => Ok(Pattern { text: text.to_owned(), regex }),
            Err(error) => Err(explain(text, &error)),
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

fn explain(text: &str, error: &regex::Error) -> BadPattern {
    let (finding, span) = match regex_syntax::Parser::new().parse(text) {
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), Some(*error.span())),
        Err(regex_syntax::Error::Translate(error)) => {
            (error.kind().to_string(), Some(*error.span()))
        }
        // It is too large, which only the compiler finds.
        _ => (error.to_string().lines().last().unwrap_or_default().trim().to_owned(), None),
    };
    // The crate mentions its own switches in further clauses.
    let finding = finding.split(", ").next().unwrap_or_default().to_owned();
    let character = span.map(|span| text[..span.start.offset].chars().count() + 1);
    BadPattern { finding, character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_pattern_is_told_with_position() {
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
