//! Clients: accepted up to a bound, served, and dropped where they are too slow.

use crate::listener::{Listener, Stream};
use crate::patience::Patient;
use crate::reply::Reply;
use crate::waiting::Waiting;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::sleep;

/// Clients at a time.
const MOST_CLIENTS: usize = 1100;
/// Descriptors that reading profiles needs.
const OWN_DESCRIPTORS: u64 = 200;
/// How long a client may take to send the head of a request, and may be silent between two.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long it may keep an answer waiting.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of a request's head.
const MOST_HEAD_BYTES: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
/// Until descriptors may be free again.
const PAUSE: Duration = Duration::from_millis(20);

/// Answers requests.
pub trait Answer: 'static {
    /// Answers a request that came to the address `local`.
    fn answer(
        &self,
        request: Request<Incoming>,
        local: Option<SocketAddr>,
    ) -> impl Future<Output = Reply>;
}

/// Serves clients until it is dropped.
pub async fn accept(listener: Listener, server: Rc<impl Answer>) {
    let clients = Clients { most: most_clients(), open: Rc::default(), next: Cell::new(0) };
    loop {
        match listener.accept().await {
            Ok(stream) => clients.add(stream, &server),
            Err(_) => {
                // A client that left, or no descriptor is free.
                clients.make_room();
                sleep(PAUSE).await;
            }
        }
    }
}

/// As many as there may be descriptors.
fn most_clients() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = MOST_CLIENTS as u64 + OWN_DESCRIPTORS;
    let may = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let current = limit.current.unwrap_or(may).max(may);
    // The bound that is in force stays, if it has to.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }).is_ok();
    let current = if raised { current } else { limit.current.unwrap_or(wanted) };
    (current.saturating_sub(OWN_DESCRIPTORS) as usize).clamp(8, MOST_CLIENTS)
}

struct Clients {
    most: usize,
    open: Rc<RefCell<HashMap<u64, Client>>>,
    next: Cell<u64>,
}

struct Client {
    task: AbortHandle,
    waiting: Waiting,
}

impl Clients {
    fn add(&self, stream: Stream, server: &Rc<impl Answer>) {
        if self.open.borrow().len() >= self.most && !self.make_room() {
            // All are being answered.
            return;
        }
        let number = self.next.replace(self.next.get() + 1);
        let waiting = Waiting::begin();
        let leave = Leave { number, open: self.open.clone() };
        let talk = talk(stream, server.clone(), waiting.clone());
        let task = spawn_local(async move {
            let _leave = leave;
            talk.await;
        });
        let client = Client { task: task.abort_handle(), waiting };
        self.open.borrow_mut().insert(number, client);
    }

    /// Drops the client that has waited longest without asking for anything.
    fn make_room(&self) -> bool {
        let mut open = self.open.borrow_mut();
        let waiting =
            open.iter().filter_map(|(&number, client)| Some((client.waiting.since()?, number)));
        let longest = waiting.min().and_then(|(_, number)| open.remove(&number));
        drop(open);
        longest.map(|client| client.task.abort()).is_some()
    }
}

/// Takes a client off the list when its task ends.
struct Leave {
    number: u64,
    open: Rc<RefCell<HashMap<u64, Client>>>,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.open.borrow_mut().remove(&self.number);
    }
}

async fn talk(stream: Stream, server: Rc<impl Answer>, waiting: Waiting) {
    let local = stream.local();
    let service = service_fn(|request| {
        let server = server.clone();
        let busy = waiting.interrupt();
        async move {
            let mut reply = server.answer(request, local).await;
            reply.body_mut().claims().busy = Some(busy);
            Ok::<_, Infallible>(reply)
        }
    });
    let io = TokioIo::new(Patient::new(stream, ANSWER_PATIENCE));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_BYTES);
    // A client's errors are its own affair.
    let _ = http.serve_connection(io, service).await;
}
