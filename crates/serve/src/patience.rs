//! A stream that gives up on a client which does not take what it is sent.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A client that does not take so many bytes …
const LEAST_BYTES: usize = 64 << 10;

/// A stream on which writing fails with `TimedOut` once a client has been too slow for too long.
pub struct Patient<S> {
    stream: S,
    /// … in this time is dropped, unless it has taken all there was.
    patience: Duration,
    /// Since the client has kept us waiting, and what it has taken since.
    waiting: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Patient<S> {
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None }
    }

    fn wait<T>(&mut self, context: &mut Context) -> Poll<io::Result<T>> {
        let patience = self.patience;
        let (deadline, _) = self.waiting.get_or_insert_with(|| (Box::pin(sleep(patience)), 0));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context,
        into: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_write(context, bytes) {
            Poll::Pending => this.wait(context),
            Poll::Ready(written) => {
                let taken = *written.as_ref().unwrap_or(&0);
                if let Some((_, since)) = &mut this.waiting {
                    *since += taken;
                    if taken == bytes.len() || *since >= LEAST_BYTES {
                        this.waiting = None;
                    }
                }
                Poll::Ready(written)
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::pause;

    const SECOND: Duration = Duration::from_secs(1);
    const MOST: usize = 1 << 20;

    /// Writes `MOST` bytes to a client that takes `piece` bytes a second, and returns the result.
    async fn write_to_client_that_takes(piece: usize) -> io::Result<()> {
        let (ours, mut its) = duplex(piece);
        let mut patient = Patient::new(ours, 10 * SECOND);
        let client = async move {
            let mut taken = vec![0; piece];
            loop {
                sleep(SECOND).await;
                if its.read_exact(&mut taken).await.is_err() {
                    return;
                }
            }
        };
        let bytes = vec![7; MOST];
        let written = async move {
            let written = patient.write_all(&bytes).await;
            drop(patient);
            written
        };
        tokio::join!(written, client).0
    }

    /// Time passes when all wait.
    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            pause();
            test.await
        })
    }

    #[test]
    fn only_too_slow_clients_are_dropped() {
        let slow = run(write_to_client_that_takes(1 << 10));
        assert_eq!(slow.unwrap_err().kind(), ErrorKind::TimedOut);
        run(write_to_client_that_takes(32 << 10)).unwrap();
    }
}
