//! The JSON documents of the command line, of one source or of all.

use crate::parts::at_moment;
use ramson_analysis::answer::{Answer, answer};
use ramson_analysis::naming::Names;
use ramson_analysis::question::{Document, Question};
use ramson_analysis::timeline::Timeline;
use ramson_encode::json::write_document;
use ramson_source::{Failure, open_recording};
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// Largest size of one document, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Status of a failure: not found, or not profiled.
const NOT_FOUND: u8 = 5;
/// Parameters that say which part of a profile is asked for.
const PARTS: [&str; 12] = [
    "all-frames",
    "focus",
    "granularity",
    "hide",
    "ignore",
    "library",
    "rows",
    "show",
    "show-from",
    "tagfocus",
    "tagignore",
    "wrapper",
];
const OF_REPORT: [&str; 5] = ["address", "kind", "count", "sort", "view"];

/// Returns the bytes of a document about a SRC, or about all profiles; `parameters` are as a client sent them. The parameter `old` of
/// a difference is an earlier moment of the same process: a client names no file.
pub fn document(
    document: Document,
    source: Option<&str>,
    names: &Names,
    parameters: &[(String, String)],
) -> Result<Vec<u8>, Failure> {
    let known = known(document).concat();
    if let Some((name, _)) = parameters.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        let name = name.escape_debug();
        let known = known.join(", ");
        return Err(Failure::usage(format!(
            "{name}: not a parameter here. The parameters: {known}"
        )));
    }
    let (old, others): (Vec<_>, Vec<_>) = parameters.iter().partition(|(name, _)| name == "old");
    let mut sources: Vec<String> = source.map(str::to_owned).into_iter().collect();
    for (name, moment) in old {
        sources.insert(0, at_moment(source.unwrap_or_default(), name, moment)?);
    }
    let others = others.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let question = Question::parse(document, sources, names.clone(), others)?;
    let made = match answer(document, &question) {
        // A process without a history is no failure of a page: it has what the server has seen.
        Err(failure) if document == Document::Timeline && failure.status() == NOT_FOUND => {
            let recording = open_recording(source.unwrap_or_default()).map_err(|_| failure)?;
            Answer::Timeline(Box::new(Timeline::without_history(&recording)))
        }
        made => made?,
    };
    bytes(document.kind(), &made)
}

/// Names of the parameters that a client may send: none that names a file, waits or acts.
fn known(document: Document) -> &'static [&'static [&'static str]] {
    match document {
        Document::List => &[&["running", "user", "word"]],
        Document::Report => &[&PARTS, &OF_REPORT],
        Document::Leaks => &[&PARTS, &["min-age"]],
        Document::Explain => &[&["all-frames", "library", "rows", "wrapper"]],
        Document::Timeline => &[&["rows"]],
        Document::Diff => &[&PARTS, &["old", "count", "sort"]],
    }
}

fn bytes(kind: Option<&str>, answer: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut body = Bounded(Vec::new());
    write_document(kind, answer, &mut body).map_err(|_| {
        let most = MOST_BYTES >> 20;
        Failure::usage(format!("the document is larger than {most} MiB. Ask for fewer rows"))
    })?;
    Ok(body.0)
}

/// Takes no more than a bound.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_name_no_file() {
        let bad = [
            "suppressions",
            "since",
            "baseline",
            "window",
            "fail-on",
            "debug-path",
            "sysroot",
            "binary",
            "debuginfod",
            "budget",
            "ask",
            "exact",
            "prune",
            "max-age",
            "csv",
            "help",
            "json",
            "n",
            "",
            "--rows",
        ];
        let all = ["list", "report", "leaks", "explain", "timeline", "diff"];
        for name in bad {
            for kind in all.map(|name| Document::named(name).unwrap()) {
                let parameters = [(name.to_owned(), "x".to_owned())];
                let refused = document(kind, Some("1"), &Names::default(), &parameters);
                let failure = refused.unwrap_err();
                assert!(failure.to_string().contains("not a parameter here"), "{name}: {failure}");
            }
        }
    }
}
