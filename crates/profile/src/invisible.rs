//! Characters that a reader does not see, or that reorder what stands beside them: in a name they make one thing look like another.

use std::borrow::Cow;

/// Whether a character steers the direction of text, ends a line, or has no width and no look of its own (Unicode's
/// Default_Ignorable_Code_Point, the separators of lines and paragraphs, and the marks of annotations).
pub fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with such characters as `\u{202e}`.
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.contains(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_invisible(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_text_is_escaped() {
        assert_eq!(escape_invisible("a\u{202e}b\u{2066}c"), "a\\u{202e}b\\u{2066}c");
        assert_eq!(escape_invisible("x\u{200b}y\u{200f}\u{feff}"), "x\\u{200b}y\\u{200f}\\u{feff}");
        assert_eq!(escape_invisible("\u{61c}\u{e0041}\u{2029}"), "\\u{61c}\\u{e0041}\\u{2029}");
    }

    #[test]
    fn what_is_seen_stays() {
        for text in ["größe", "日本", "א←↑Δ±…▁█", "naïve e\u{301}", "\u{1b}[2m"] {
            assert!(matches!(escape_invisible(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
