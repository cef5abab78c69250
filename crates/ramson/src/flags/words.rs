//! The words of a command line before clap sees them.

use std::ffi::OsString;

/// Rewrites what clap cannot tell: `--view peek RE` becomes one argument, so that `--view tree SRC` does not take SRC for an expression; and
/// `-p PID`, which other profilers have, becomes the SRC that it is.
pub fn rewritten(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut rewritten: Vec<OsString> = Vec::new();
    for word in words {
        // The words of a program that is run are its own.
        let is_of_other = rewritten.get(1).is_some_and(|command| command == "run")
            || rewritten.iter().any(|word| word == "--");
        let is_view = matches!(rewritten.as_slice(), [.., flag, _] if flag == "--view");
        match rewritten.last_mut().filter(|_| !is_of_other) {
            Some(last) if last == "-p" && is_number(&word) => *last = word,
            Some(last) if last == "peek" && is_view => {
                last.push(" ");
                last.push(word);
            }
            _ => rewritten.push(word),
        }
    }
    rewritten
}

fn is_number(word: &OsString) -> bool {
    word.to_str().is_some_and(|word| word.parse::<u32>().is_ok())
}

/// Whether `--view peek` took for its expression what was meant as SRC.
pub fn has_peeked(words: &[OsString]) -> bool {
    words.iter().any(|word| word.as_encoded_bytes().starts_with(b"peek "))
}
