//! Answers to requests about one process, other than those for its profiles and documents.

use crate::events;
use crate::moments::Moments;
use crate::of_process::OfProcess;
use crate::parts::Parts;
use crate::query::Query;
use crate::reply::{self, Reply};
use crate::sources::Entry;
use crate::work::{Overload, Work};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName};
use ramson_analysis::source_lines::{Question, source_lines};
use ramson_control::{Accepts, TrimAnswer};
use ramson_encode::json::write_document;
use ramson_profile::SampleType;
use ramson_source::{Failure, find_target, open_all};
use serde::Serialize;
use std::sync::Arc;

/// Most bytes of an answer with source code.
const MOST_SOURCE_BYTES: usize = 64 << 10;
/// Moments in an answer that says nothing else.
const USUAL_MOMENTS: usize = 2_000;
const MOST_MOMENTS: usize = 50_000;
/// A page of another server cannot send it without asking first, which is refused.
const ACTION: HeaderName = HeaderName::from_static("x-ramson-action");

/// Whether a request may change a process; else why not.
pub fn may_act(allows_actions: bool, headers: &HeaderMap) -> Result<(), &'static str> {
    let is_meant = headers.get(ACTION).is_some_and(|value| value == "trim");
    if !allows_actions {
        Err(
            "this server changes no process. Start \"ramson serve --allow-actions\", or run \"ramson trim\"",
        )
    } else if !is_meant {
        Err("an action needs the header \"X-Ramson-Action: trim\"")
    } else {
        Ok(())
    }
}

/// A stream of the moments of a process.
pub async fn events(work: &Work, parts: &Arc<Parts>, id: Option<&str>) -> Result<Reply, Overload> {
    let permit = work.stream().ok_or(Overload)?;
    let of = parts.clone();
    let id = id.map(str::to_owned);
    let found = work.run(move || of.find(id.as_deref())).await?;
    Ok(match found {
        Err(failure) => reply::failure_document(&failure),
        Ok(Entry { pid: Some(pid), is_running: true, .. }) => {
            events::stream(&parts.watch, pid, permit)
        }
        Ok(Entry { state: Some(state), .. }) => events::of_ended(&state),
        Ok(entry) => reply::failure_document(&Failure::not_found(format!(
            "{}: a file without a process, so there are no events",
            entry.source
        ))),
    })
}

/// Answers the rest.
pub fn answer(
    parts: &Parts,
    id: Option<&str>,
    what: OfProcess,
    query: &Query,
) -> Result<Reply, Failure> {
    let entry = parts.find(id)?;
    match what {
        OfProcess::Collections => document("gc", &parts.collections.of(&entry, &parts.names)?),
        OfProcess::Moments => document("moments", &moments(parts, &entry, query)?),
        OfProcess::Source => source(parts, &entry, query),
        OfProcess::Trim => trim(&entry),
        OfProcess::Events => Ok(reply::error(StatusCode::NOT_FOUND, "a stream is no document")),
    }
}

fn moments(parts: &Parts, entry: &Entry, query: &Query) -> Result<Moments, Failure> {
    let most = match query.get("rows") {
        None => USUAL_MOMENTS,
        Some(rows) => {
            let rows = rows.parse().ok().filter(|rows| (1..=MOST_MOMENTS).contains(rows));
            rows.ok_or_else(|| {
                Failure::usage(format!("rows: not a number from 1 to {MOST_MOMENTS}"))
            })?
        }
    };
    let seen = parts.watch.seen();
    // A dead process's ID may be another's now.
    let series = entry.pid.and_then(|pid| seen.of(pid));
    let series = series.filter(|series| Some(series.start_unix_ns) == entry.start_unix_ns);
    let state = entry.state.clone().filter(|_| !entry.is_running);
    Ok(Moments {
        pid: entry.pid,
        ended: series.and_then(|series| series.ended.clone()).or(state),
        all: series.map_or(0, |series| series.moments.len()),
        moments: series.map_or_else(Vec::new, |series| series.thinned(most)),
        steps: series.map_or_else(Vec::new, |series| series.steps()),
    })
}

fn source(parts: &Parts, entry: &Entry, query: &Query) -> Result<Reply, Failure> {
    let file = query.get("file").filter(|file| !file.is_empty());
    let file = file.ok_or_else(|| {
        Failure::usage("file: missing. Pass ?file= with a path from \"report --view lines\"")
    })?;
    let of = query.get("count").unwrap_or(SampleType::InuseSpace.name());
    let sample_type = SampleType::from_name(of);
    let question = Question {
        names: &parts.names,
        file,
        roots: &parts.source_roots,
        sample_type: sample_type.ok_or_else(|| Failure::usage("count: no such sample type"))?,
        most_bytes: MOST_SOURCE_BYTES,
    };
    document("source", &source_lines(&mut open_all(&[&entry.source])?, &question)?)
}

fn trim(entry: &Entry) -> Result<Reply, Failure> {
    let pid = entry.pid.filter(|_| entry.is_running).ok_or_else(|| {
        Failure::not_found(format!(
            "{}: no running process, so there is nothing to trim",
            entry.source
        ))
    })?;
    let target = find_target(&pid.to_string())?;
    match ramson_control::trim(&target, Accepts::default()) {
        Ok(trimmed) => document("trim", &TrimAnswer::of(&target, Ok(&trimmed), None)),
        Err(failure) => Ok(reply::refused_action(&failure)),
    }
}

fn document(kind: &str, answer: &impl Serialize) -> Result<Reply, Failure> {
    let mut body = Vec::new();
    write_document(Some(kind), answer, &mut body)?;
    Ok(reply::document(body))
}
