//! Sockets at which the server listens, and connections that come to them.

use crate::address::{Address, SocketFile};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Sockets on which clients may come; there is at least one.
pub(crate) struct Listener {
    sockets: Vec<Socket>,
    localhost: Option<u16>,
    file: Option<SocketFile>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// `localhost`: the port that the sockets have on every loopback address.
    pub fn of_tcp(sockets: Vec<TcpListener>, localhost: Option<u16>) -> Self {
        let sockets = sockets.into_iter().map(Socket::Tcp).collect();
        Self { sockets, localhost, file: None }
    }

    pub fn of_unix(socket: UnixListener, file: SocketFile) -> Self {
        Self { sockets: vec![Socket::Unix(socket)], localhost: None, file: Some(file) }
    }

    /// The port that it has on every loopback address.
    pub fn localhost(&self) -> Option<u16> {
        self.localhost
    }

    /// The next client of any socket.
    pub async fn accept(&self) -> io::Result<Stream> {
        poll_fn(|context| {
            let mut polled = self.sockets.iter().map(|socket| socket.poll_accept(context));
            polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
        })
        .await
    }

    /// The address of the first socket, with the port that the kernel chose.
    pub fn address(&self) -> io::Result<Address> {
        match (&self.sockets[0], &self.file) {
            (Socket::Tcp(listener), _) => listener.local_addr().map(Address::Tcp),
            (Socket::Unix(_), Some(file)) => Ok(Address::Unix(file.path.clone())),
            (Socket::Unix(_), None) => unreachable!("a Unix socket is made with its file"),
        }
    }
}

impl Socket {
    fn poll_accept(&self, context: &mut Context) -> Poll<io::Result<Stream>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(context).map_ok(|(stream, _)| Stream::Tcp(stream))
            }
            Self::Unix(listener) => {
                listener.poll_accept(context).map_ok(|(stream, _)| Stream::Unix(stream))
            }
        }
    }
}

/// A connection with a client.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// The address that the client connected to.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => {
                let local = stream.local_addr().ok()?;
                // A socket for both families shows addresses of version 4 as ::ffff:127.0.0.1.
                Some(SocketAddr::new(local.ip().to_canonical(), local.port()))
            }
            Self::Unix(_) => None,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context,
        into: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
