//! `ramson serve`: profiles over HTTP.

use crate::flags::{Cli, Command, NameFlags, ServeFlags, TimelineFlags, command, line_of};
use crate::open::Door;
use crate::output::{print_raw, remark};
use crate::{diff, explain, leaks, list, report, timeline};
use clap::FromArgMatches;
use ramson_analysis::timeline::Timeline;
use ramson_encode::json::write_document;
use ramson_serve::{Document, Documents, Options, Sources, Token};
use ramson_source::{Failure, Selector, open_recording};
use serde::Serialize;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::Arc;

/// Largest size of one document, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// Status of a failure: not found, or not profiled.
const NOT_FOUND: u8 = 5;
/// Flags that say which part of a profile is asked for.
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

pub fn serve(flags: &ServeFlags) -> Result<(), Failure> {
    let sources = Sources::new(flags.sources.clone());
    let first = sources.check()?;
    let token = flags.token_file.as_deref().map_or_else(Token::random, Token::of_file)?;
    let options = Options {
        address: flags.listen.clone(),
        hosts: flags.allow_host.clone(),
        token,
        sources,
        first,
        names: flags.names.names(),
        documents: Arc::new(Commands { names: flags.names.clone() }),
        source_roots: flags.source_root.clone(),
        allows_actions: flags.allow_actions,
    };
    // A service's standard output is a log, and the file has the token.
    let is_log = flags.token_file.is_some() && !io::stdout().is_terminal();
    let mut door = None;
    ramson_serve::serve(options, |with_token, alone| {
        print_raw(format!("{}\n", if is_log { alone } else { with_token }).as_bytes())?;
        if flags.open {
            door = Door::open(with_token).map_err(remark).ok();
        }
        Ok(())
    })
}

/// The commands make the documents.
struct Commands {
    names: NameFlags,
}

impl Documents for Commands {
    fn make(
        &self,
        document: Document,
        source: Option<&str>,
        words: &[(String, String)],
    ) -> Result<Vec<u8>, Failure> {
        self::document(&self.names, document, source, words)
    }
}

/// The bytes of a document, as the command makes it.
pub fn document(
    names: &NameFlags,
    document: Document,
    source: Option<&str>,
    words: &[(String, String)],
) -> Result<Vec<u8>, Failure> {
    let matches = command().try_get_matches_from(arguments(document, source, words)?);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|error| Failure::usage(line_of(&error)))?;
    let kind = Some(document.command());
    match cli.command {
        Command::List(flags) => bytes(kind, &list::document(&flags)),
        Command::Report(mut flags) => {
            flags.source.names = names.clone();
            bytes(None, &report::document(&flags)?)
        }
        Command::Leaks(mut flags) => {
            flags.source.names = names.clone();
            bytes(kind, &leaks::document(&flags)?)
        }
        Command::Explain(mut flags) => {
            flags.names = names.clone();
            bytes(kind, &explain::document(&flags)?)
        }
        Command::Diff(mut flags) => {
            flags.names = names.clone();
            bytes(kind, &diff::document(&flags)?)
        }
        Command::Timeline(flags) => bytes(kind, &series(&flags)?),
        _ => Err(Failure::not_found(format!("{}: no such document", document.command()))),
    }
}

/// A process without a history is no failure of a page: it has what the server has seen.
fn series(flags: &TimelineFlags) -> Result<Timeline, Failure> {
    let made = timeline::document(flags);
    match made.as_ref().err().map(Failure::status) {
        Some(NOT_FOUND) => open_recording(&flags.source)
            .map_or(made, |recording| Ok(Timeline::without_history(&recording))),
        _ => made,
    }
}

/// The command line that prints the document. Flags that name files, wait, or act are not a client's to choose.
fn arguments(
    document: Document,
    source: Option<&str>,
    words: &[(String, String)],
) -> Result<Vec<String>, Failure> {
    let allowed: &[&[&str]] = match document {
        Document::List => &[&["running", "user", "word"]],
        Document::Report => &[&PARTS, &OF_REPORT],
        Document::Leaks => &[&PARTS, &["min-age"]],
        Document::Explain => &[&["all-frames", "library", "rows", "wrapper"]],
        Document::Timeline => &[&["rows"]],
        Document::Diff => &[&PARTS, &["old", "count", "sort"]],
    };
    let mut arguments = vec!["ramson".to_owned(), document.command().to_owned(), "--json".into()];
    let mut operands: Vec<String> = source.map(str::to_owned).into_iter().collect();
    for (name, value) in words {
        if !allowed.concat().contains(&name.as_str()) {
            let known = allowed.concat().join(", ");
            let name = name.escape_debug();
            return Err(Failure::usage(format!("{name}: not a parameter here. There are {known}")));
        }
        match name.as_str() {
            "all-frames" | "running" => arguments.push(format!("--{name}")),
            "word" => operands.push(value.clone()),
            "old" => operands.insert(0, moment_of(source, value)?),
            _ => arguments.push(format!("--{name}={value}")),
        }
    }
    arguments.push("--".into());
    arguments.extend(operands);
    Ok(arguments)
}

/// An earlier moment of the same process. A client names no file.
fn moment_of(source: Option<&str>, moment: &str) -> Result<String, Failure> {
    Selector::at_moment(source.unwrap_or_default(), moment).ok_or_else(|| {
        Failure::usage(format!(
            "old={}: not a moment, such as -1h, 2026-11-20T17:00, peak or mark:NAME",
            moment.escape_debug()
        ))
    })
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

    fn words(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_client_chooses_rows_and_filters_and_nothing_that_names_a_file_waits_or_acts() {
        let made =
            arguments(Document::Report, Some("-x"), &words(&[("view", "peek a"), ("rows", "3")]));
        let expected = ["ramson", "report", "--json", "--view=peek a", "--rows=3", "--", "-x"];
        assert_eq!(made.unwrap(), expected);
        for bad in [
            "suppressions",
            "since",
            "baseline",
            "window",
            "fail-on",
            "debug-path",
            "sysroot",
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
        ] {
            for document in [
                Document::List,
                Document::Report,
                Document::Leaks,
                Document::Explain,
                Document::Timeline,
                Document::Diff,
            ] {
                let refused = arguments(document, Some("1"), &words(&[(bad, "x")]));
                assert_eq!(refused.unwrap_err().status(), 2, "{bad}");
            }
        }
    }
}
