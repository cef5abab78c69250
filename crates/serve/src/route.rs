//! Paths of requests, and their meaning.

use crate::ids::is_id;
use crate::of_process::OfProcess;
use crate::page::Asset;
use ramson_analysis::question::Document;
use ramson_profile::SampleType;

/// The thing that a path asks for.
#[derive(Debug, PartialEq)]
pub enum Route<'a> {
    /// A file of the page.
    Page(Asset),
    /// Whether the server is there.
    Health,
    /// A proof that the server has the token.
    Challenge,
    /// A part of net/http/pprof, of the source with this ID; `None`: of the only one.
    Pprof(Option<&'a str>, Pprof),
    /// The list of what is served.
    Sources,
    /// The same for scrapers of profiles.
    Targets,
    /// Figures for Prometheus.
    Metrics,
    /// A JSON document; of the source with this ID, or of the only one.
    Document(Option<&'a str>, Document),
    /// The call tree for a picture; of the source with this ID, or of the only one.
    Flame(Option<&'a str>),
    /// Another request about the process of the source with this ID, or of the only one.
    Process(Option<&'a str>, OfProcess),
    /// Nothing.
    Unknown,
}

/// A part of net/http/pprof.
#[derive(Debug, PartialEq)]
pub enum Pprof {
    Index,
    /// A heap profile with this type first.
    Heap(SampleType),
    Symbol,
    Command,
    /// Another kind of profile.
    Other,
}

impl Route<'_> {
    /// Whether it has nothing of any process.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Page(_) | Self::Health | Self::Challenge)
    }

    /// Whether a body may be sent to it.
    pub fn takes_body(&self) -> bool {
        matches!(self, Self::Pprof(_, Pprof::Symbol))
    }

    /// Whether what is wrong is said as JSON.
    pub fn is_document(&self) -> bool {
        matches!(
            self,
            Self::Sources | Self::Targets | Self::Document(..) | Self::Flame(_) | Self::Process(..)
        )
    }

    /// Whether it changes something: it is asked for by POST only.
    pub fn acts(&self) -> bool {
        matches!(self, Self::Process(_, what) if what.acts())
    }
}

/// Understands a path.
pub fn route(path: &str) -> Route<'_> {
    if let Some(asset) = Asset::at(path) {
        return Route::Page(asset);
    }
    if path == "/healthz" {
        return Route::Health;
    }
    if path == "/metrics" {
        return Route::Metrics;
    }
    if let Some(rest) = path.strip_prefix("/debug/pprof") {
        return pprof(None, rest);
    }
    if let Some(rest) = path.strip_prefix("/p/") {
        let found = rest.split_once("/debug/pprof").filter(|(id, _)| is_id(id));
        return found.map_or(Route::Unknown, |(id, rest)| pprof(Some(id), rest));
    }
    let Some(rest) = path.strip_prefix("/api/v1/") else { return Route::Unknown };
    if rest == "sources" {
        return Route::Sources;
    }
    if rest == "targets" {
        return Route::Targets;
    }
    if rest == "challenge" {
        return Route::Challenge;
    }
    let (id, name) = match rest.strip_prefix("p/").and_then(|rest| rest.split_once('/')) {
        Some((id, name)) if is_id(id) => (Some(id), name),
        _ => (None, rest),
    };
    if let Some(what) = OfProcess::named(name) {
        return Route::Process(id, what);
    }
    match Document::named(name) {
        None if name == "flame" => Route::Flame(id),
        Some(document) if document != Document::List || id.is_none() => {
            Route::Document(id, document)
        }
        _ => Route::Unknown,
    }
}

fn pprof<'a>(id: Option<&'a str>, rest: &str) -> Route<'a> {
    let what = match rest {
        "" | "/" => Pprof::Index,
        "/heap" => Pprof::Heap(SampleType::InuseSpace),
        "/allocs" => Pprof::Heap(SampleType::AllocSpace),
        "/symbol" | "/symbolz" => Pprof::Symbol,
        "/cmdline" => Pprof::Command,
        other if other.starts_with('/') => Pprof::Other,
        _ => return Route::Unknown,
    };
    Route::Pprof(id, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_may_omit_the_only_source() {
        let heap = || Pprof::Heap(SampleType::InuseSpace);
        assert_eq!(route("/debug/pprof/heap"), Route::Pprof(None, heap()));
        assert_eq!(route("/p/4711/debug/pprof/heap"), Route::Pprof(Some("4711"), heap()));
        assert_eq!(route("/p/f2/debug/pprof/"), Route::Pprof(Some("f2"), Pprof::Index));
        assert_eq!(route("/debug/pprof/profile"), Route::Pprof(None, Pprof::Other));
        assert_eq!(route("/api/v1/p/7/leaks"), Route::Document(Some("7"), Document::Leaks));
        assert_eq!(route("/api/v1/report"), Route::Document(None, Document::Report));
        assert_eq!(route("/api/v1/p/7/flame"), Route::Flame(Some("7")));
        assert_eq!(route("/api/v1/flame"), Route::Flame(None));
        assert_eq!(
            route("/api/v1/p/u1-7-8/events"),
            Route::Process(Some("u1-7-8"), OfProcess::Events)
        );
        assert_eq!(route("/api/v1/trim"), Route::Process(None, OfProcess::Trim));
        assert_eq!(route("/api/v1/list"), Route::Document(None, Document::List));
        for unknown in [
            "",
            "/x",
            "/p/",
            "/p/../debug/pprof/heap",
            "/p/a%2fb/debug/pprof/heap",
            "/debug/pprofx",
            "/api/v2/list",
            "/api/v1/p/7/list",
            "/api/v1/p//report",
            "/api/v1/p/7/trims",
        ] {
            assert_eq!(route(unknown), Route::Unknown, "{unknown}");
        }
    }

    #[test]
    fn nothing_of_a_process_is_public() {
        for path in ["/", "/app.js", "/app.css", "/healthz", "/api/v1/challenge"] {
            assert!(route(path).is_public(), "{path}");
        }
        for path in ["/debug/pprof/", "/p/7/debug/pprof/cmdline", "/api/v1/list", "/metrics", "/no"]
        {
            assert!(!route(path).is_public(), "{path}");
        }
    }
}
