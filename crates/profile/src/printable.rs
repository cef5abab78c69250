//! Foreign text as it is printed. A name may hold any character: a line feed forges a line, a control character steers a terminal, and
//! one that a reader does not see, or that reorders the text around it, makes one name look like another.

use std::borrow::Cow;

/// Whether a character may be printed as it is.
pub fn is_printable(character: char) -> bool {
    !character.is_control() && !is_invisible(character)
}

/// Whether a character steers the direction of text, ends a line, or has no width and no look of its own (Unicode's
/// Default_Ignorable_Code_Point, the separators of lines and paragraphs, and the marks of annotations).
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Foreign text on one line: control characters and line feeds as U+FFFD, what a reader does not see as `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    text.chars().for_each(|character| push_printable(&mut out, character));
    Cow::Owned(out)
}

/// Appends a character of foreign text.
pub fn push_printable(out: &mut String, character: char) {
    if is_invisible(character) {
        out.extend(character.escape_unicode());
    } else {
        out.push(if character.is_control() { '\u{fffd}' } else { character });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_text_is_escaped() {
        assert_eq!(printable("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(printable("x\u{200b}y\u{200f}\u{feff}"), "x\\u{200b}y\\u{200f}\\u{feff}");
        assert_eq!(printable("\u{61c}\u{e0041}\u{2029}"), "\\u{61c}\\u{e0041}\\u{2029}");
    }

    #[test]
    fn controls_forge_no_line() {
        for control in ('\0'..' ').chain('\u{7f}'..='\u{9f}') {
            assert_eq!(printable(&format!("a{control}b")), "a\u{fffd}b");
        }
    }

    #[test]
    fn what_is_seen_stays() {
        for text in ["größe", "日本", "א←↑Δ±…▁█", "naïve e\u{301}"] {
            assert!(matches!(printable(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
