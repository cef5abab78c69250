//! Addresses at which the server listens.

use ramson_source::Failure;
use rustix::fs::Mode;
use rustix::process::{getuid, umask};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `127.0.0.1:7777`, `[::1]:7777`, or port 0 for any that is free.
    Tcp(SocketAddr),
    /// `unix:PATH`: a socket that only this user can connect to.
    Unix(PathBuf),
}

impl Address {
    /// Parses an address as a user wrote it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("no path: as unix:/run/user/1000/ramson.sock".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        text.parse()
            .map(Self::Tcp)
            .map_err(|_| "neither an address with a port (127.0.0.1:7777) nor unix:PATH".to_owned())
    }

    pub(crate) async fn listen(&self) -> Result<Listener, Failure> {
        match self {
            Self::Tcp(address) => {
                let bound = TcpListener::bind(address).await;
                bound.map(Listener::Tcp).map_err(|error| cannot_listen(self, &error))
            }
            Self::Unix(path) => {
                remove_abandoned(path)?;
                // Between its making and a change of its mode, others could connect.
                let before = umask(Mode::RWXG | Mode::RWXO);
                let bound = UnixListener::bind(path);
                umask(before);
                let listener = bound.map_err(|error| cannot_listen(self, &error))?;
                let identity = std::fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()));
                Ok(Listener::Unix(listener, SocketFile { path: path.clone(), identity }))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn cannot_listen(address: &Address, error: &io::Error) -> Failure {
    let next = match error.kind() {
        ErrorKind::AddrInUse => "Another program listens there: choose another --listen",
        _ => "Choose another --listen",
    };
    let shown = match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    };
    Failure::failed(format!("{shown}: cannot listen: {error}. {next}"))
}

/// A socket of this user on which none listens any more, as a killed server leaves it, is removed.
fn remove_abandoned(path: &Path) -> Result<(), Failure> {
    let Ok(facts) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let is_own = facts.file_type().is_socket() && facts.uid() == getuid().as_raw();
    let is_refused = || {
        let connected = BlockingStream::connect(path);
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    if is_own && is_refused() {
        // Binding says what is wrong.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// The file of a socket: removed when the server ends, unless it is another's by then.
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let now = std::fs::symlink_metadata(&self.path).ok().map(|it| (it.dev(), it.ino()));
        if now.is_some() && now == self.identity {
            // It may be gone by now.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// The next client.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener, _) => {
                listener.accept().await.map(|(stream, _)| Stream::Unix(stream))
            }
        }
    }

    /// The address at which it listens, with the port that the kernel chose.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
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
    pub fn local_ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr().ok().map(|address| address.ip()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_port_or_socket() {
        let parse = |text: &str| Address::parse(text).map(|address| address.to_string());
        assert_eq!(parse("127.0.0.1:7777").unwrap(), "http://127.0.0.1:7777/");
        assert_eq!(parse("localhost:80").unwrap(), "http://127.0.0.1:80/");
        assert_eq!(parse("[::1]:0").unwrap(), "http://[::1]:0/");
        assert_eq!(parse("unix:/run/r.sock").unwrap(), "unix:/run/r.sock");
        for wrong in ["", "7777", "127.0.0.1", "unix:", "example.com:80", "::1:7777x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
