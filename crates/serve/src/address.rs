//! Addresses at which the server listens.

use crate::listener::Listener;
use listenfd::ListenFd;
use ramson_source::Failure;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{getuid, umask};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// How often another free port is tried if the kernel's choice is free on one loopback address only.
const MOST_TRIES: usize = 20;

/// An address of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `localhost:7777`: the port on both loopback addresses. Clients try either first, so another user must have neither.
    Localhost(u16),
    /// `127.0.0.1:7777`, `[::1]:7777`, or port 0 for any that is free.
    Tcp(SocketAddr),
    /// `systemd`: the TCP sockets that a socket unit passes.
    Passed,
    /// `unix:PATH`: a socket that only this user can connect to.
    Unix(PathBuf),
}

impl Address {
    /// Parses an address as a user wrote it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "systemd" {
            return Ok(Self::Passed);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("no path. Pass one, as in unix:/run/user/1000/ramson.sock".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let parsed = match text.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(Self::Localhost),
            None => text.parse().ok().map(Self::Tcp),
        };
        parsed.ok_or_else(|| {
            "not an address with a port (127.0.0.1:7777), unix:PATH or systemd".into()
        })
    }

    pub(crate) async fn listen(&self) -> Result<Listener, Failure> {
        match self {
            Self::Localhost(port) => localhost(*port).await,
            Self::Tcp(address) => bind(*address).await.map(|it| Listener::of_tcp(vec![it], None)),
            Self::Passed => passed(),
            Self::Unix(path) => unix(path),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Localhost(port) => write!(f, "http://127.0.0.1:{port}/"),
            Self::Tcp(address) => write!(f, "http://{address}/"),
            Self::Passed => write!(f, "systemd"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Binds both loopback addresses, or 127.0.0.1 alone on a machine without IPv6.
async fn localhost(port: u16) -> Result<Listener, Failure> {
    let mut tries = 1;
    loop {
        let first = bind((Ipv4Addr::LOCALHOST, port).into()).await?;
        let bound = first.local_addr().map_err(|error| cannot_listen("127.0.0.1", &error))?;
        let other = SocketAddr::from((Ipv6Addr::LOCALHOST, bound.port()));
        let of_tcp = |sockets| Listener::of_tcp(sockets, Some(bound.port()));
        match TcpListener::bind(other).await {
            Ok(second) => return Ok(of_tcp(vec![first, second])),
            Err(error) if has_no_ipv6(&error) => return Ok(of_tcp(vec![first])),
            Err(_) if port == 0 && tries < MOST_TRIES => tries += 1,
            Err(error) => return Err(cannot_listen(other, &error)),
        }
    }
}

fn has_no_ipv6(error: &io::Error) -> bool {
    [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT].map(Some).contains(&Errno::from_io_error(error))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| cannot_listen(address, &error))
}

/// Takes the sockets of a systemd socket unit, which stay bound while the server restarts.
fn passed() -> Result<Listener, Failure> {
    let mut given = ListenFd::from_env();
    let sockets = (0..given.len()).filter_map(|at| given.take_tcp_listener(at).transpose());
    let sockets = sockets.map(|socket| {
        let socket = socket?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket)
    });
    let sockets: io::Result<Vec<_>> = sockets.collect();
    let sockets = sockets.map_err(|error| cannot_listen("systemd", &error))?;
    let bound: Vec<_> = sockets.iter().flat_map(TcpListener::local_addr).collect();
    let Some(port) = bound.first().map(SocketAddr::port) else {
        let finding = "systemd: no socket was passed. Start the socket unit, such as deploy/ramson-serve.socket";
        return Err(Failure::failed(finding.to_owned()));
    };
    let loopbacks: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let has_both = loopbacks.iter().all(|ip| bound.contains(&(*ip, port).into()));
    Ok(Listener::of_tcp(sockets, has_both.then_some(port)))
}

fn unix(path: &Path) -> Result<Listener, Failure> {
    remove_abandoned(path)?;
    // Between its making and a change of its mode, others could connect.
    let before = umask(Mode::RWXG | Mode::RWXO);
    let bound = UnixListener::bind(path);
    umask(before);
    let listener = bound.map_err(|error| cannot_listen(path.display(), &error))?;
    let identity = std::fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()));
    Ok(Listener::of_unix(listener, SocketFile { path: path.to_owned(), identity }))
}

fn cannot_listen(address: impl fmt::Display, error: &io::Error) -> Failure {
    let next = match error.kind() {
        ErrorKind::AddrInUse => "Another program listens there: choose another --listen",
        _ => "Choose another --listen",
    };
    Failure::failed(format!("{address}: cannot listen: {error}. {next}"))
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
    pub path: PathBuf,
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
        assert_eq!(Address::parse("localhost:80"), Ok(Address::Localhost(80)));
        assert_eq!(Address::parse("systemd"), Ok(Address::Passed));
        for wrong in [
            "",
            "7777",
            "127.0.0.1",
            "localhost",
            "localhost:x",
            "unix:",
            "example.com:80",
            "::1:7777x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    fn in_runtime<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_io().build().unwrap().block_on(work)
    }

    #[test]
    fn localhost_is_both_loopbacks() {
        in_runtime(async {
            let listener = Address::Localhost(0).listen().await.unwrap();
            let Address::Tcp(first) = listener.address().unwrap() else { panic!() };
            // A machine without IPv6 has one.
            let is_here = |ip: &IpAddr| std::net::TcpListener::bind((*ip, 0)).is_ok();
            let loopbacks = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            for ip in loopbacks.into_iter().filter(is_here) {
                let client = std::net::TcpStream::connect((ip, first.port())).unwrap();
                let accepted = listener.accept().await.unwrap();
                assert_eq!(accepted.local(), Some(client.peer_addr().unwrap()));
            }
        });
    }

    #[test]
    fn half_taken_port_is_refused() {
        in_runtime(async {
            let Ok(squatter) = std::net::TcpListener::bind("[::1]:0") else {
                assert!(Address::Localhost(0).listen().await.is_ok(), "without IPv6");
                return;
            };
            let port = squatter.local_addr().unwrap().port();
            let refused = Address::Localhost(port).listen().await.err().unwrap().to_string();
            let expected = format!("[::1]:{port}: cannot listen: ");
            assert!(refused.starts_with(&expected), "{refused}");
            assert!(refused.ends_with("Another program listens there: choose another --listen"));
        });
    }
}
