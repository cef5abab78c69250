//! Parts that work outside the event loop needs.

use crate::collections::Collections;
use crate::documents::document;
use crate::metrics::Metrics;
use crate::reply::{self, Reply};
use crate::sources::{Entries, Entry, Sources};
use crate::trees::Trees;
use crate::watch::Watch;
use crate::work::Overload;
use ramson_analysis::naming::Names;
use ramson_analysis::question::Document;
use ramson_source::{Failure, Selector};
use serde::Serialize;
use std::collections::BTreeMap;
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
    pub metrics: Metrics,
    pub collections: Collections,
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

/// A group of one target, as Prometheus' HTTP service discovery has it.
#[derive(Serialize)]
struct Target {
    targets: [String; 1],
    labels: BTreeMap<&'static str, String>,
}

impl Target {
    fn of(entry: &Entry, pid: u32, host: &str) -> Self {
        let labels = [
            // Read by Alloy's pyroscope.scrape; the next one is for others, relabelled to __metrics_path__.
            ("__profile_path_prefix__", format!("/p/{}", entry.id)),
            ("__meta_ramson_heap_path", format!("/p/{}/debug/pprof/heap", entry.id)),
            ("service_name", entry.name.clone()),
            ("pid", pid.to_string()),
        ];
        Self { targets: [host.to_owned()], labels: labels.into() }
    }
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

    /// Running processes as scrapers of profiles find them, at the name by which one called the server.
    pub fn targets(&self, host: &str) -> Result<Reply, Failure> {
        let entries = self.sources.entries()?.sources.into_iter();
        let running = entries.filter(|entry| entry.is_running);
        // A sum of several processes has no process ID; they are targets themselves.
        let target = |entry: Entry| Some(Target::of(&entry, entry.pid?, host));
        let targets: Vec<Target> = running.filter_map(target).collect();
        let mut body = Vec::new();
        ramson_encode::json::write_line(&targets, &mut body)?;
        Ok(reply::document(body))
    }

    /// Figures for Prometheus.
    pub fn metrics(&self) -> Result<Reply, Failure> {
        let body = self.metrics.scrape(&self.sources, &self.names)?;
        Ok(reply::of("application/openmetrics-text; version=1.0.0; charset=utf-8", body))
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
