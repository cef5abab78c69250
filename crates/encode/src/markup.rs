//! Foreign text in XML and HTML. Names come from the binaries of whoever runs them: all of it is hostile.

use ramson_profile::push_printable;
use std::fmt::Write;

/// Appends text for an element or a quoted attribute, of at most `most` characters (a longer one ends in …). What
/// XML cannot hold becomes U+FFFD.
pub fn escape(out: &mut String, text: &str, most: usize) {
    let is_cut = text.chars().nth(most).is_some();
    let kept = if is_cut { most.saturating_sub(1) } else { most };
    for letter in text.chars().take(kept) {
        let _ = match letter {
            '&' => write!(out, "&amp;"),
            '<' => write!(out, "&lt;"),
            '>' => write!(out, "&gt;"),
            '"' => write!(out, "&quot;"),
            '\'' => write!(out, "&#39;"),
            '\n' | '\t' | '\r' => write!(out, " "),
            '\u{fffe}' | '\u{ffff}' => write!(out, "\u{fffd}"),
            _ => {
                push_printable(out, letter);
                Ok(())
            }
        };
    }
    if is_cut {
        out.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str, most: usize) -> String {
        let mut out = String::new();
        escape(&mut out, text, most);
        out
    }

    #[test]
    fn nothing_of_a_name_is_markup() {
        assert_eq!(escaped("a<b>(\"&'\n", 99), "a&lt;b&gt;(&quot;&amp;&#39; ");
        assert_eq!(escaped("\0\u{1b}\u{7f}\u{ffff}é", 99), "\u{fffd}".repeat(4) + "é");
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(escaped("a\u{202e}\u{200b}b", 99), "a\\u{202e}\\u{200b}b");
    }

    #[test]
    fn long_names_are_cut_visibly() {
        assert_eq!(escaped("abcd", 4), "abcd");
        assert_eq!(escaped("<<<<<", 4), "&lt;&lt;&lt;…");
    }
}
