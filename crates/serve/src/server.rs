//! The server: from a request to an answer.

use crate::address::Address;
use crate::collections::Collections;
use crate::connections::{self, Answer};
use crate::flame;
use crate::guard::Guard;
use crate::heap::{self, Asked};
use crate::metrics::Metrics;
use crate::of_process::OfProcess;
use crate::parts::{Answered, Parts};
use crate::process;
use crate::query::Query;
use crate::reply::{self, Reply};
use crate::route::{Pprof, Route, route};
use crate::sources::{First, Sources};
use crate::symbol;
use crate::token::Token;
use crate::trees::Trees;
use crate::watch::Watch;
use crate::work::{MOST_COMPUTED, Overload, Work};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use ramson_analysis::naming::Names;
use ramson_source::Failure;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{LocalSet, spawn_blocking, spawn_local};

/// Bytes of stack of a thread that reads profiles: as much as a command's only thread has.
const STACK_BYTES: usize = 8 << 20;
/// Threads that read, and one that packs what was read. Memory that a thread frees stays with the C library for that thread alone.
const MOST_THREADS: usize = MOST_COMPUTED + 1;
/// The message for a client that comes when too many requests are under way.
const BUSY: &str = "too many requests at a time: try again in a few seconds";
/// Seconds.
const RETRY: HeaderValue = HeaderValue::from_static("5");
const READS: &str = "GET, HEAD";

/// The sources that are served, and where and to whom.
pub struct Options {
    /// The address to listen at.
    pub address: Address,
    /// By which further names it may be called.
    pub hosts: Vec<String>,
    /// The token that lets clients in.
    pub token: Token,
    /// The sources that are served.
    pub sources: Sources,
    /// The content that `Sources::check` read of them.
    pub first: Option<First>,
    /// Which names of functions are shown in profiles.
    pub names: Names,
    /// Directories beneath which source code may be shown.
    pub source_roots: Vec<PathBuf>,
    /// Whether a client may change processes.
    pub allows_actions: bool,
}

/// Serves until SIGINT or SIGTERM comes. `on_ready` gets the address with the token, and the address alone, once clients may come.
pub fn serve(
    mut options: Options,
    on_ready: impl FnOnce(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot serve: {error}. Try again"));
    let mut builder = Builder::new_current_thread();
    builder.enable_all().thread_stack_size(STACK_BYTES).max_blocking_threads(MOST_THREADS);
    let runtime = builder.build().map_err(failed)?;
    let ended = LocalSet::new().block_on(&runtime, async {
        let listener = options.address.listen().await?;
        let address = listener.address().map_err(failed)?;
        let fragment = options.token.fragment();
        let first = options.first.take();
        let server = Rc::new(Server::new(options, listener.localhost()));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        on_ready(&format!("{address}{fragment}"), &address.to_string())?;
        if let Some(first) = first {
            let server = server.clone();
            spawn_local(async move { server.prepare(first).await });
        }
        tokio::select! {
            () = connections::accept(listener, server) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    });
    // Reads that go on are of no use any more.
    runtime.shutdown_background();
    ended
}

/// The state from which requests are answered.
pub struct Server {
    guard: Guard,
    work: Work,
    parts: Arc<Parts>,
}

impl Server {
    fn new(options: Options, localhost: Option<u16>) -> Self {
        let Options { address, hosts, token, sources, names, .. } = options;
        let Options { source_roots, allows_actions, .. } = options;
        let guard = Guard::new(&address, localhost, &hosts, token);
        let watch = Watch::start(&sources);
        let trees = Trees::new();
        let parts = Parts {
            sources,
            names,
            source_roots,
            watch,
            trees,
            metrics: Metrics::default(),
            collections: Collections::default(),
            allows_actions,
        };
        Self { guard, work: Work::new(), parts: Arc::new(parts) }
    }
}

impl Answer for Server {
    async fn answer(&self, request: Request<Incoming>, local: Option<SocketAddr>) -> Reply {
        let (head, body) = request.into_parts();
        let route = route(head.uri.path());
        if let Err(refusal) = self.guard.check(&head, local, route.is_public()) {
            return reply::refusal(refusal);
        }
        let is_sent = head.method == Method::POST && (route.takes_body() || route.acts());
        let is_read = matches!(head.method, Method::GET | Method::HEAD) && !route.acts();
        if !is_read && !is_sent {
            return reply::wrong_method(if route.acts() {
                "POST"
            } else if route.takes_body() {
                "GET, HEAD, POST"
            } else {
                READS
            });
        }
        match route {
            Route::Page(asset) => return asset.reply(reply::takes_gzip(&head.headers)),
            Route::Health => return reply::text(StatusCode::OK, "ok"),
            Route::Challenge => {
                let query = Query::parse(head.uri.query());
                return match self.guard.prove(&head, query.get("nonce").unwrap_or_default(), local)
                {
                    Ok(proof) => reply::text(StatusCode::OK, &proof),
                    Err(unproven) => reply::error(unproven.status(), unproven.text()),
                };
            }
            Route::Unknown => return unknown(),
            Route::Process(id, OfProcess::Events) => {
                return process::events(&self.work, &self.parts, id)
                    .await
                    .unwrap_or_else(|_| busy());
            }
            Route::Process(_, OfProcess::Trim) => {
                if let Err(line) = process::may_act(self.parts.allows_actions, &head.headers) {
                    return reply::error(StatusCode::FORBIDDEN, line);
                }
            }
            _ => {}
        }
        let Ok(seat) = self.work.seat().await else { return busy() };
        let is_document = route.is_document();
        let is_packed = is_document && reply::takes_gzip(&head.headers);
        let query = head.uri.query();
        let answered = match route {
            Route::Pprof(id, Pprof::Symbol) => {
                let asked = if is_sent {
                    symbol::sent(body).await
                } else {
                    Ok(symbol::addresses(query.unwrap_or_default()))
                };
                match asked {
                    Ok(addresses) => self.symbols(id, addresses).await,
                    Err(untaken) => return untaken.reply(),
                }
            }
            Route::Targets => {
                let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
                let (parts, host) = (self.parts.clone(), host.unwrap_or_default().to_owned());
                self.work.run(move || parts.targets(&host)).await
            }
            route => self.answer_route(route, query, is_packed).await,
        };
        let mut reply = match answered {
            Ok(Ok(reply)) => reply,
            Ok(Err(failure)) if is_document => reply::failure_document(&failure),
            Ok(Err(failure)) => reply::failure(&failure),
            Err(Overload) => busy(),
        };
        if is_packed && !reply.headers().contains_key(CONTENT_ENCODING) {
            reply = spawn_blocking(move || reply::packed(reply))
                .await
                .expect("a panic ends the process");
        }
        reply.body_mut().claims().seat = Some(seat);
        reply
    }
}

impl Server {
    /// Makes the picture that the page begins with of what has been read.
    async fn prepare(&self, first: First) {
        let parts = self.parts.clone();
        // Overloaded at its start, it makes the picture when it is asked for.
        let _ = self.work.run(move || flame::prepare(&parts, first)).await;
    }

    async fn answer_route(
        &self,
        route: Route<'_>,
        query: Option<&str>,
        is_packed: bool,
    ) -> Answered {
        let parts = self.parts.clone();
        match route {
            Route::Sources => self.work.run(move || parts.list()).await,
            Route::Metrics => self.work.run(move || parts.metrics()).await,
            Route::Document(id, document) => {
                let id = id.map(str::to_owned);
                let words = Query::parse(query).pairs();
                self.work.run(move || parts.document(id.as_deref(), document, &words)).await
            }
            Route::Flame(id) => match flame::Asked::parse(&Query::parse(query)) {
                Ok(asked) => {
                    let id = id.map(str::to_owned);
                    self.work
                        .run(move || flame::reply(&parts, id.as_deref(), &asked, is_packed))
                        .await
                }
                Err(wrong) => Ok(Err(wrong)),
            },
            Route::Process(id, what) => {
                let id = id.map(str::to_owned);
                let query = Query::parse(query);
                self.work.run(move || process::answer(&parts, id.as_deref(), what, &query)).await
            }
            Route::Pprof(id, Pprof::Index) => {
                let id = id.map(str::to_owned);
                self.work.run(move || Ok(heap::index(&parts.find(id.as_deref())?))).await
            }
            Route::Pprof(id, Pprof::Command) => {
                let id = id.map(str::to_owned);
                self.work.run(move || heap::command(&parts.find(id.as_deref())?)).await
            }
            Route::Pprof(id, Pprof::Heap(of)) => match Asked::parse(of, &Query::parse(query)) {
                Ok(asked) => heap::answer(&self.work, parts, id, asked).await,
                Err(wrong) => Ok(Err(wrong)),
            },
            _ => Ok(Ok(reply::error(StatusCode::NOT_FOUND, heap::NO_OTHER))),
        }
    }

    async fn symbols(&self, id: Option<&str>, addresses: Vec<u64>) -> Answered {
        let parts = self.parts.clone();
        let id = id.map(str::to_owned);
        let job = move || symbol::reply(&parts.find(id.as_deref())?, &parts.names, &addresses);
        self.work.run(job).await
    }
}

fn unknown() -> Reply {
    reply::error(
        StatusCode::NOT_FOUND,
        "no such path. / is the page, /debug/pprof/ the profile of the only source, /p/ID/debug/pprof/ of one of several, /api/v1/sources the list",
    )
}

fn busy() -> Reply {
    let mut reply = reply::error(StatusCode::SERVICE_UNAVAILABLE, BUSY);
    reply.headers_mut().insert(RETRY_AFTER, RETRY);
    reply
}
