//! `/debug/pprof/heap` and `allocs`: a profile as it is, or what changed in some seconds.

use crate::parts::{Answered, Parts};
use crate::query::Query;
use crate::reply::{self, Reply};
use crate::sources::Entry;
use crate::work::{Overload, Work};
use hyper::StatusCode;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use ramson_analysis::delta;
use ramson_analysis::named::{Counting, Detail, Kinds, count, take_sum, unnamed};
use ramson_analysis::naming::Names;
use ramson_analysis::rss::Rss;
use ramson_encode::{heap_text, pprof};
use ramson_format::Kind;
use ramson_profile::{Profile, SampleType};
use ramson_source::{Failure, Opened, Recording, open_all, open_recording};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// `go tool pprof` waits for a minute: names that take longer to find are left out, and found in the background.
const NAMING_PATIENCE: Duration = Duration::from_secs(40);
/// Most seconds of a difference.
const MOST_SECONDS: u64 = 3600;
/// The answer to a request for any other profile.
pub const NO_OTHER: &str = "ramson is a heap profiler: use /debug/pprof/heap";
const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";

/// The parameters of a request for a heap profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// The default type.
    of: SampleType,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// The protobuf.
    Whole,
    /// With a fifth type, which adds up to RSS.
    Memory,
    /// The changes within `seconds` from now on.
    Change { seconds: u64 },
    /// For people.
    Text,
}

impl Asked {
    /// `gc` is accepted: there is no garbage to collect.
    pub fn parse(of: SampleType, query: &Query) -> Result<Self, Failure> {
        let is_text = query.is_set("debug");
        let is_memory = query.is_set("memory");
        let Some(seconds) = query.get("seconds") else {
            let form = match (is_text, is_memory) {
                (true, true) => return Err(Failure::usage("memory is incompatible with debug")),
                (true, false) => Form::Text,
                (false, true) => Form::Memory,
                (false, false) => Form::Whole,
            };
            return Ok(Self { of, form });
        };
        let Some(seconds) = seconds.parse().ok().filter(|&seconds: &u64| seconds > 0) else {
            let wrong = "invalid value for \"seconds\" - must be a positive integer";
            return Err(Failure::usage(wrong));
        };
        if is_text || is_memory {
            return Err(Failure::usage("seconds is incompatible with debug and memory"));
        }
        if seconds > MOST_SECONDS {
            let wrong = format!("invalid value for \"seconds\" - at most {MOST_SECONDS}");
            return Err(Failure::usage(wrong));
        }
        Ok(Self { of, form: Form::Change { seconds } })
    }

    fn file_name(&self) -> &'static str {
        let is_change = matches!(self.form, Form::Change { .. });
        match (self.of, is_change) {
            (SampleType::AllocSpace, false) => "attachment; filename=\"allocs\"",
            (SampleType::AllocSpace, true) => "attachment; filename=\"allocs-delta\"",
            (_, false) => "attachment; filename=\"heap\"",
            (_, true) => "attachment; filename=\"heap-delta\"",
        }
    }

    fn reply(&self, body: Vec<u8>) -> Reply {
        if self.form == Form::Text {
            return reply::of(TEXT, body);
        }
        let mut reply = reply::of(BINARY, body);
        let name = HeaderValue::from_static(self.file_name());
        reply.headers_mut().insert(CONTENT_DISPOSITION, name);
        reply
    }
}

/// Answers, when there is time for it.
pub async fn answer(work: &Work, parts: Arc<Parts>, id: Option<&str>, asked: Asked) -> Answered {
    let of = parts.clone();
    let id = id.map(str::to_owned);
    let source = match work.run(move || of.find(id.as_deref())).await? {
        Ok(entry) => entry.source,
        Err(failure) => return Ok(Err(failure)),
    };
    let body = match asked.form {
        Form::Change { seconds } => change(work, parts, source, asked.of, seconds).await,
        _ => whole(work, parts, source, asked).await,
    };
    Ok(body?.map(|body| asked.reply(body)))
}

type Body = Result<Result<Vec<u8>, Failure>, Overload>;

async fn whole(work: &Work, parts: Arc<Parts>, source: String, asked: Asked) -> Body {
    let again = source.clone();
    let named = move || read(&source, &parts.names, asked);
    in_time(work, NAMING_PATIENCE, named, move || read_unnamed(&again, asked.of)).await
}

/// Returns what `named` makes, or what `unnamed` makes if `named` takes longer than `patience`. `named` goes on, for the next request.
async fn in_time(
    work: &Work,
    patience: Duration,
    named: impl FnOnce() -> Result<Vec<u8>, Failure> + Send + 'static,
    unnamed: impl FnOnce() -> Result<Vec<u8>, Failure> + Send + 'static,
) -> Body {
    match timeout(patience, work.run(named)).await {
        Ok(body) => body,
        Err(_) => work.run(unnamed).await,
    }
}

/// Reads twice, with `seconds` of sleep in between. If the client leaves, nobody waits for a read that goes on, and the sleep ends.
async fn change(
    work: &Work,
    parts: Arc<Parts>,
    source: String,
    of: SampleType,
    seconds: u64,
) -> Body {
    let Some(_permit) = work.delta() else { return Err(Overload) };
    let again = source.clone();
    let first = match work.run(move || running(&source)).await? {
        Ok(first) => first,
        Err(failure) => return Ok(Err(failure)),
    };
    sleep(Duration::from_secs(seconds)).await;
    work.run(move || {
        let later = open_recording(&again)?;
        let named = delta::delta(&first, &later, seconds * 1_000_000_000, &parts.names)?;
        encoded(&named.profile, |profile, out| pprof::write(profile, out, of))
    })
    .await
}

fn running(source: &str) -> Result<Recording, Failure> {
    let recording = open_recording(source)?;
    match recording.running {
        Some(_) => Ok(recording),
        None => Err(Failure::usage(format!(
            "{source}: its process is not running, so nothing changes in it. Leave out seconds"
        ))),
    }
}

fn read(source: &str, names: &Names, asked: Asked) -> Result<Vec<u8>, Failure> {
    let mut members = open_all(&[source])?;
    count(&mut members.opened, Counting::Requested);
    let named = take_sum(&mut members.opened, names, Detail::Labels, Kinds::Usual)?;
    match asked.form {
        Form::Text => encoded(&named.profile, |profile, out| heap_text::write(profile, out)),
        Form::Memory => {
            let terms = terms(source, &members.opened)?;
            encoded(&named.profile, |profile, out| pprof::write_memory(profile, out, &terms))
        }
        Form::Whole | Form::Change { .. } => {
            encoded(&named.profile, |profile, out| pprof::write(profile, out, asked.of))
        }
    }
}

/// The terms of RSS, the live bytes first.
fn terms(source: &str, opened: &[Opened]) -> Result<Vec<(String, i64)>, Failure> {
    let rss = match opened {
        [Opened::Recording(recording)] => recording
            .running
            .and_then(|pid| Rss::read(pid, &recording.origin, &recording.snapshot, &mut None)),
        _ => None,
    };
    let rss = rss.ok_or_else(|| {
        Failure::usage(format!(
            "{source}: no running process whose RSS could be read. Leave out memory"
        ))
    })?;
    Ok(rss.words().map(|(word, bytes)| (format!("[{word}]"), bytes.value.round() as i64)).collect())
}

/// Addresses only, as `go tool pprof` can name some of them itself.
fn read_unnamed(source: &str, of: SampleType) -> Result<Vec<u8>, Failure> {
    let mut recording = open_recording(source)?;
    recording.snapshot.counting = Counting::Requested;
    let profile = unnamed(&recording, Detail::Labels, Some(Kind::Heap));
    encoded(&profile, |profile, out| pprof::write(profile, out, of))
}

fn encoded(
    profile: &Profile,
    write: impl FnOnce(&Profile, &mut dyn std::io::Write) -> std::io::Result<()>,
) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    write(profile, &mut body)?;
    Ok(body)
}

/// The page with the links, as net/http/pprof has it.
pub fn index(entry: &Entry) -> Reply {
    let mut name = String::new();
    ramson_encode::markup::escape(&mut name, &entry.name, 200);
    let links = [
        ("heap?debug=1", "live and allocated memory, as text"),
        ("heap", "the same for go tool pprof"),
        ("allocs", "the same, allocations first"),
        ("cmdline", "the command line"),
        ("symbol", "names of addresses"),
    ];
    let rows =
        links.map(|(link, what)| format!("<li><a href=\"{link}\">{link}</a>: {what}</li>\n"));
    let body = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>/debug/pprof/</title></head>\n\
         <body><h1>{name}</h1>\n<ul>\n{}</ul></body></html>\n",
        rows.concat()
    );
    reply::of("text/html; charset=utf-8", body)
}

/// The arguments of a process, with zeros between them.
pub fn command(entry: &Entry) -> Result<Reply, Failure> {
    if entry.command.is_empty() {
        Ok(reply::error(StatusCode::NOT_FOUND, "its command line is not known"))
    } else {
        Ok(reply::of(TEXT, entry.command.join("\0")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<Form, String> {
        let asked = Asked::parse(SampleType::InuseSpace, &Query::parse(Some(query)));
        asked.map(|asked| asked.form).map_err(|failure| failure.to_string())
    }

    #[test]
    fn parameters_are_go_s() {
        assert_eq!(asked(""), Ok(Form::Whole));
        assert_eq!(asked("gc=1"), Ok(Form::Whole));
        assert_eq!(asked("debug=1"), Ok(Form::Text));
        assert_eq!(asked("debug=0&gc=1"), Ok(Form::Whole));
        assert_eq!(asked("debug=x"), Ok(Form::Whole));
        assert_eq!(asked("memory=1"), Ok(Form::Memory));
        assert_eq!(asked("seconds=5"), Ok(Form::Change { seconds: 5 }));
        assert_eq!(asked("seconds=5&debug=0"), Ok(Form::Change { seconds: 5 }));
        for wrong in ["0", "-1", "x", "", "1.5", "18446744073709551616"] {
            let finding = asked(&format!("seconds={wrong}")).unwrap_err();
            assert!(finding.contains("must be a positive integer"), "{wrong}: {finding}");
        }
        for wrong in ["seconds=1&debug=1", "seconds=1&memory=1", "debug=1&memory=1"] {
            assert!(asked(wrong).unwrap_err().contains("incompatible"), "{wrong}");
        }
        assert!(asked("seconds=3601").unwrap_err().contains("at most"));
    }

    #[test]
    fn late_names_are_left_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (done, is_done) = std::sync::mpsc::channel();
        let late = move || {
            released.recv().unwrap();
            done.send(()).unwrap();
            Ok(b"named".to_vec())
        };
        let (body, in_time_body) = runtime.block_on(async {
            let work = Work::new();
            let short = Duration::from_millis(5);
            let body = in_time(&work, short, late, || Ok(b"unnamed".to_vec())).await;
            let long = Duration::from_secs(600);
            let named = || Ok(b"named".to_vec());
            (body, in_time(&work, long, named, || Ok(b"unnamed".to_vec())).await)
        });
        let text =
            |body: Body| body.ok().and_then(Result::ok).map(|it| String::from_utf8(it).unwrap());
        assert_eq!(text(body).as_deref(), Some("unnamed"));
        assert_eq!(text(in_time_body).as_deref(), Some("named"));
        release.send(()).unwrap();
        is_done.recv().unwrap();
    }
}
