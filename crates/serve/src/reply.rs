//! Answers to clients, with the headers that all of them have.

use crate::guard::Refusal;
use crate::waiting::Busy;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use ramson_source::Failure;
use serde::Serialize;
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;

/// The content security policy: a page may run and show what this server sends, and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// By this `go tool pprof` knows that the body says what is wrong.
const GO_PPROF: HeaderName = HeaderName::from_static("x-go-pprof");
/// Bytes that a connection is handed at a time. The rest stays here, and with it the claims, until the client has taken the piece.
const PIECE_BYTES: usize = 64 << 10;

/// An answer.
pub type Reply = Response<Content>;

/// A body that is all there, or one of which more comes.
#[derive(Default)]
pub struct Content {
    rest: Bytes,
    more: Option<Receiver<Bytes>>,
    claims: Claims,
}

/// The claims that an answer holds until the client has it.
#[derive(Default)]
pub struct Claims {
    /// One of the answers that may be there at a time.
    pub seat: Option<OwnedSemaphorePermit>,
    /// Its connection is not one that waits.
    pub busy: Option<Busy>,
}

impl Content {
    pub fn claims(&mut self) -> &mut Claims {
        &mut self.claims
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { rest, more, .. } = self.get_mut();
        if let Some(more) = more.as_mut().filter(|_| rest.is_empty()) {
            match more.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(came) => *rest = came.unwrap_or_default(),
            }
        }
        if rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        // A part of the whole would keep all of it in memory.
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.more.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.more {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.rest.len() as u64),
        }
    }
}

/// Bytes of this kind.
pub fn of(kind: &'static str, body: impl Into<Bytes>) -> Reply {
    reply(kind, Content { rest: body.into(), ..Content::default() })
}

/// Bytes of this kind that come as long as they are sent.
pub fn stream(kind: &'static str, more: Receiver<Bytes>) -> Reply {
    reply(kind, Content { more: Some(more), ..Content::default() })
}

fn reply(kind: &'static str, content: Content) -> Reply {
    let mut reply = Response::new(content);
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    guard_headers(headers);
    reply
}

/// Whether a client takes what is packed.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|text| {
        let mut codings = text.split(',').map(|coding| coding.split(';').map(str::trim));
        codings.any(|mut parts| parts.next() == Some("gzip") && parts.next() != Some("q=0"))
    })
}

/// The same reply with its body packed.
pub fn packed(mut reply: Reply) -> Reply {
    let rest = std::mem::take(&mut reply.body_mut().rest);
    reply.body_mut().rest = gzip(&rest).into();
    as_packed(reply)
}

/// Says that the body is packed.
pub fn as_packed(mut reply: Reply) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    reply
}

/// Bytes as a client gets them that takes gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    let written = packer.write_all(bytes).and_then(|()| packer.finish());
    written.expect("writing to memory does not fail")
}

/// A line of text.
pub fn text(status: StatusCode, line: &str) -> Reply {
    let mut reply = of("text/plain; charset=utf-8", format!("{line}\n"));
    *reply.status_mut() = status;
    reply
}

/// An answer that says what is wrong, in a line that `go tool pprof` shows.
pub fn error(status: StatusCode, line: &str) -> Reply {
    let mut reply = text(status, line);
    reply.headers_mut().insert(GO_PPROF, HeaderValue::from_static("1"));
    reply
}

/// Why a command would have failed.
pub fn failure(failure: &Failure) -> Reply {
    error(status_of(failure), &failure.to_string())
}

/// The same as a JSON document.
pub fn failure_document(failure: &Failure) -> Reply {
    document_of(failure, status_of(failure))
}

/// Why a process was left as it is.
pub fn refused_action(failure: &Failure) -> Reply {
    document_of(failure, StatusCode::CONFLICT)
}

fn document_of(failure: &Failure, status: StatusCode) -> Reply {
    #[derive(Serialize)]
    struct Failed {
        status: u8,
        message: String,
    }
    let answer = Failed { status: failure.status(), message: failure.to_string() };
    let mut body = Vec::new();
    // Writing to memory does not fail.
    let _ = ramson_encode::json::write_document(Some("error"), &answer, &mut body);
    let mut reply = document(body);
    *reply.status_mut() = status;
    reply
}

/// A JSON document.
pub fn document(body: Vec<u8>) -> Reply {
    of("application/json", body)
}

/// The answer to a request that is not let in.
pub fn refusal(refusal: Refusal) -> Reply {
    let mut reply = error(refusal.status(), refusal.text());
    if refusal == Refusal::Token {
        // Not Basic: a browser would keep the token, and send it along with what other pages ask for.
        let challenge = HeaderValue::from_static("Bearer realm=\"ramson\"");
        reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    reply
}

/// The answer to a request for what is there, with a method that is not allowed.
pub fn wrong_method(allowed: &'static str) -> Reply {
    let mut reply =
        error(StatusCode::METHOD_NOT_ALLOWED, &format!("only {allowed} is answered here"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

fn status_of(failure: &Failure) -> StatusCode {
    if let Failure::NothingLeft(_) = failure {
        return StatusCode::NOT_FOUND;
    }
    match failure.status() {
        2 => StatusCode::BAD_REQUEST,
        5 => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn guard_headers(headers: &mut HeaderMap) {
    let policies = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    headers.extend(policies.map(|(name, value)| (name, HeaderValue::from_static(value))));
}
