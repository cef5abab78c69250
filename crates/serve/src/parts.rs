//! Parts that work outside the event loop needs.

use crate::documents::document;
use crate::reply::{self, Reply};
use crate::sources::{Entries, Entry, Sources};
use crate::trees::Trees;
use crate::watch::Watch;
use crate::work::Overload;
use ramson_analysis::naming::Names;
use ramson_analysis::question::Document;
use ramson_source::{Failure, Selector};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The result of a request: an answer, a failure, or neither in time.
pub type Answered = Result<Result<Reply, Failure>, Overload>;

/// The parts that answers are made of.
pub struct Parts {
    pub sources: Sources,
    pub names: Names,
    /// Directories in which source files may be.
    pub source_roots: Vec<PathBuf>,
    pub watch: Arc<Watch>,
    pub trees: Trees,
    /// Whether a client may change processes.
    pub allows_actions: bool,
}

/// The sources that are served, and what a client may do with them.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Served {
    /// The sources.
    #[serde(flatten)]
    pub entries: Entries,
    /// Whether a process may be trimmed.
    pub allows_actions: bool,
}

impl Parts {
    /// The source with this ID, or the only one.
    pub fn find(&self, id: Option<&str>) -> Result<Entry, Failure> {
        self.sources.find(id)
    }

    /// All sources, as a document.
    pub fn list(&self) -> Result<Reply, Failure> {
        let mut body = Vec::new();
        let served =
            Served { entries: self.sources.entries()?, allows_actions: self.allows_actions };
        ramson_encode::json::write_document(Some("sources"), &served, &mut body)?;
        Ok(reply::document(body))
    }

    /// A document of the command line, of the source with this ID, or of the only one.
    pub fn document(
        &self,
        id: Option<&str>,
        kind: Document,
        words: &[(String, String)],
    ) -> Result<Reply, Failure> {
        let source = match kind {
            Document::List => None,
            _ => Some(self.find(id)?.source),
        };
        let (at, words): (Vec<_>, Vec<_>) =
            words.iter().cloned().partition(|(name, _)| name == "at");
        let source = match (source, at.first()) {
            (Some(source), Some((_, moment))) => Some(at_moment(&source, "at", moment)?),
            (source, _) => source,
        };
        document(kind, source.as_deref(), &self.names, &words).map(reply::document)
    }
}

/// The SRC of a moment in the history of a source, as a parameter of that name has it.
pub fn at_moment(source: &str, name: &str, moment: &str) -> Result<String, Failure> {
    Selector::at_moment(source, moment).ok_or_else(|| {
        Failure::usage(format!(
            "{name}={}: not a moment, such as -1h, 2026-11-20T17:00, peak or mark:NAME",
            moment.escape_debug()
        ))
    })
}
