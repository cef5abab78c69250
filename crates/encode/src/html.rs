//! A profile as one HTML file that needs no network: the application that `ramson serve` has, with the documents that it would ask
//! for. Nothing in it may load or run but its own style and script (a Content-Security-Policy names both by hash).

use crate::json::write_line;
use crate::markup::escape;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use std::io::{self, Write};

const MOST_LETTERS: usize = 1000;
const STYLE: &str = include_str!("../../../web/dist/app.css");
const SCRIPT: &str = include_str!("../../../web/dist/app.js");

/// Contents of the application's page.
#[derive(Default)]
pub struct Page {
    /// JSON documents by what is asked for: `report?view=functions`, parameters in the order of their names.
    pub documents: Vec<(String, Vec<u8>)>,
    /// Note on what was merged or left out.
    pub note: String,
    /// For readers without scripts.
    pub lines: Vec<String>,
}

/// Writes the file. The documents are of this time.
pub fn write(out: &mut dyn Write, title: &str, page: &Page, time_unix_ns: u64) -> io::Result<()> {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text));
    let escaped = |text: &str| {
        let mut out = String::new();
        escape(&mut out, text, MOST_LETTERS);
        out
    };
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; \
         script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} – ramson</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <div id=\"app\"></div>\n<noscript>\n<h1>{}</h1>\n<p>{}</p>\n<pre>\n",
        hash(STYLE),
        hash(SCRIPT),
        escaped(title),
        escaped(title),
        escaped(&page.note)
    )?;
    for line in &page.lines {
        writeln!(out, "{}", escaped(line))?;
    }
    write!(
        out,
        "</pre>\n</noscript>\n<script type=\"application/json\" id=\"saved\">{{\"unix_ns\":{time_unix_ns},\"note\":{},\"documents\":{{",
        inert(&line(&page.note)?)
    )?;
    for (number, (key, document)) in page.documents.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let document = String::from_utf8_lossy(document);
        write!(out, "{comma}{}:{}", inert(&line(key)?), inert(document.trim_end()))?;
    }
    write!(out, "}}}}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")?;
    out.flush()
}

/// A text as JSON, with what no reader sees escaped.
fn line(text: &str) -> io::Result<String> {
    let mut bytes = Vec::new();
    write_line(&text, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// JSON in which no text looks like markup.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_text_is_never_markup() {
        let page = Page {
            documents: vec![(
                "report?view=functions".into(),
                b"{\"name\":\"</script><b>\"}\n".to_vec(),
            )],
            note: "<i>".into(),
            lines: vec!["<u>".into()],
        };
        let mut out = Vec::new();
        write(&mut out, "</title><s>", &page, 7).unwrap();
        let text = String::from_utf8(out).unwrap();
        for markup in ["<b>", "<i>", "<u>", "<s>"] {
            assert!(!text.contains(markup), "{markup}");
        }
        assert_eq!(text.matches("</script>").count(), 2, "the data, and the application");
        assert!(text.contains("\"report?view=functions\":{\"name\":\"\\u003c/script>"), "{text}");
        assert_eq!(text.matches("sha256-").count(), 2);
    }
}
