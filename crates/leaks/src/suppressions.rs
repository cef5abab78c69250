//! Suppressions in the syntax of LeakSanitizer: lines `leak:PATTERN`, and comments that begin with `#`. A pattern matches a
//! stack if it is found in the name of a function, in a source file or in the path of a binary of any of its frames; `*`
//! stands for any text, `^` at its begin and `$` at its end anchor it.

use regex::Regex;
use std::fmt;

/// A list of patterns.
#[derive(Clone, Debug, Default)]
pub struct Suppressions {
    /// As written, and what it matches.
    patterns: Vec<(String, Regex)>,
}

/// A line that is no suppression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSuppression {
    /// 1-based.
    pub line: usize,
    /// The line.
    pub text: String,
}

impl fmt::Display for BadSuppression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: \"{}\" is not leak:PATTERN", self.line, self.text)
    }
}

impl Suppressions {
    /// Reads the text of a suppressions file.
    pub fn parse(text: &str) -> Result<Self, BadSuppression> {
        let mut patterns = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pattern = line.strip_prefix("leak:").filter(|pattern| !pattern.is_empty());
            let known = pattern.and_then(|pattern| Some((pattern.to_owned(), compile(pattern)?)));
            let bad = || BadSuppression { line: index + 1, text: line.to_owned() };
            patterns.push(known.ok_or_else(bad)?);
        }
        Ok(Self { patterns })
    }

    /// The first pattern that matches one of the names (of functions, files and binaries) of a stack.
    pub fn matching<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Option<&str> {
        let is_match =
            |(_, regex): &&(String, Regex)| names.clone().any(|name| regex.is_match(name));
        self.patterns.iter().find(is_match).map(|(pattern, _)| pattern.as_str())
    }
}

/// `None` if it is too long to be compiled.
fn compile(pattern: &str) -> Option<Regex> {
    let (start, rest) = pattern.strip_prefix('^').map_or(("", pattern), |rest| ("^", rest));
    let (rest, end) = rest.strip_suffix('$').map_or((rest, ""), |rest| (rest, "$"));
    let parts: Vec<String> = rest.split('*').map(regex::escape).collect();
    Regex::new(&format!("(?s){start}{}{end}", parts.join(".*"))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_agree_with_leak_sanitizer() {
        for (pattern, name) in [
            ("foo", "a_foo_b"),
            ("^foo", "foobar"),
            ("bar$", "foobar"),
            ("^foo$", "foo"),
            ("f*r", "xfoobarx"),
            ("^f*r$", "foobar"),
            ("^*bar$", "foobar"),
            ("lib*.so", "/usr/lib/libx.so.1"),
        ] {
            assert!(compile(pattern).unwrap().is_match(name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("foo", "fo"),
            ("^oo", "foo"),
            ("fo$", "foo"),
            ("^foo$", "foobar"),
            ("^f*r$", "foobarx"),
            ("b*a", "ab"),
            ("^ab*ba$", "aba"),
        ] {
            assert!(!compile(pattern).unwrap().is_match(name), "{pattern} {name}");
        }
    }

    #[test]
    fn file_lines_must_parse() {
        let known = Suppressions::parse("# known\n\n  leak:foo  \nleak:^bar$\n").unwrap();
        assert_eq!(known.matching(["x", "bar"].into_iter()), Some("^bar$"));
        assert_eq!(known.matching(["x"].into_iter()), None);
        assert_eq!(Suppressions::parse("leak:a\nrace:b").unwrap_err().line, 2);
        assert!(Suppressions::parse("leak:").is_err());
    }
}
