//! How much is done at a time, outside the event loop.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Profiles that are read and named at a time. Each takes memory of its own.
pub const MOST_COMPUTED: usize = 2;
/// Answers in memory: computed, or being sent.
const MOST_ANSWERS: usize = 8;
/// Clients that wait for a difference at a time.
const MOST_DELTAS: usize = 2;
/// Streams of moments at a time.
const MOST_STREAMS: usize = 32;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request waited for its turn in vain.
pub struct Overload;

/// The bounds, and what is left of them.
pub struct Work {
    computing: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    deltas: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Work {
    pub fn new() -> Self {
        let bound = |most| Arc::new(Semaphore::new(most));
        Self {
            computing: bound(MOST_COMPUTED),
            answers: bound(MOST_ANSWERS),
            deltas: bound(MOST_DELTAS),
            streams: bound(MOST_STREAMS),
        }
    }

    /// A place for an answer, to be held until it is sent.
    pub async fn seat(&self) -> Result<OwnedSemaphorePermit, Overload> {
        permit(&self.answers).await
    }

    /// A place for a difference, to be held while it is waited for; `None`: all are taken.
    pub fn delta(&self) -> Option<OwnedSemaphorePermit> {
        self.deltas.clone().try_acquire_owned().ok()
    }

    /// A place for a stream, to be held until it ends; `None`: all are taken.
    pub fn stream(&self) -> Option<OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().ok()
    }

    /// Does something that takes long. It goes on, and counts, also if the client leaves.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Overload> {
        let permit = permit(&self.computing).await?;
        let done = spawn_blocking(move || {
            let _permit = permit;
            job()
        });
        Ok(done.await.expect("a panic ends the process"))
    }
}

async fn permit(of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Overload> {
    match timeout(PATIENCE, of.clone().acquire_owned()).await {
        Ok(permit) => Ok(permit.expect("it is never closed")),
        Err(_) => Err(Overload),
    }
}
