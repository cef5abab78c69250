//! `ramson serve`, and its clients: `go tool pprof`, and requests written by hand.

use crate::program_with;
use crate::servers::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// A server that runs until it is dropped.
pub struct Serving {
    /// The command.
    pub running: Running,
    /// Port on 127.0.0.1 at which it listens.
    pub port: u16,
    /// Token that lets clients in.
    pub token: String,
    /// Line that it printed at its start.
    pub line: String,
}

/// A server's answer.
#[derive(Debug)]
pub struct Reply {
    /// 0: it closed the connection without an answer.
    pub status: u16,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Whole.
    pub body: Vec<u8>,
}

impl Reply {
    /// Parses all bytes that a server sent before it closed the connection.
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            return Self { status: 0, headers: BTreeMap::new(), body: bytes.to_vec() };
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status, headers: headers.collect(), body: bytes[end + 4..].to_vec() }
    }

    /// As text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header; empty where it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Itself, if the status is 200.
    #[track_caller]
    pub fn good(self) -> Self {
        assert_eq!(self.status, 200, "{:?} {}", self.headers, self.text());
        self
    }
}

impl Serving {
    /// Starts `ramson serve` on a free port with these arguments.
    #[track_caller]
    pub fn start(scratch: &Scratch, arguments: &[&str]) -> Self {
        Self::start_command(
            ramson(scratch).args(["serve", "--listen", "127.0.0.1:0"]).args(arguments),
        )
    }

    /// Starts a command that prints an address.
    #[track_caller]
    pub fn start_command(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut running = Running(piped.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = line.trim().to_owned();
        let port = line.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split('/').next());
        let port = port.map_or(0, |port| port.parse().unwrap());
        let token = line.split_once("#token=").map_or("", |(_, token)| token).to_owned();
        Self { running, port, token, line }
    }

    /// The address of a path, with the token as password.
    pub fn at(&self, path: &str) -> String {
        format!("http://ramson:{}@127.0.0.1:{}{path}", self.token, self.port)
    }

    /// Asks with the token.
    #[track_caller]
    pub fn get(&self, path: &str) -> Reply {
        self.get_with(path, &[("Authorization", &format!("Bearer {}", self.token))])
    }

    /// Asks with the token, as a client that takes gzip.
    #[track_caller]
    pub fn get_packed(&self, path: &str) -> Reply {
        let token = format!("Bearer {}", self.token);
        self.get_with(path, &[("Authorization", &token), ("Accept-Encoding", "gzip")])
    }

    /// Asks with these headers, and with Host unless that is among them.
    #[track_caller]
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let is_host = |(name, _): &(&str, &str)| *name == "Host";
        let host = [("Host", "localhost")];
        let host = if headers.iter().any(is_host) { &[][..] } else { &host };
        let lines = host.iter().chain(headers).map(|(name, value)| format!("{name}: {value}\r\n"));
        let head = format!("GET {path} HTTP/1.1\r\n{}", lines.collect::<String>());
        self.send(format!("{head}Connection: close\r\n\r\n").as_bytes())
    }

    /// Posts with the token.
    #[track_caller]
    pub fn post(&self, path: &str, body: &str) -> Reply {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n",
            self.token,
            body.len()
        );
        self.send(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())
    }

    /// Sends bytes, and reads what comes until the server closes the connection.
    #[track_caller]
    pub fn send(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // A server that refuses need not read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Reply::parse(&answer)
    }

    /// A connection.
    #[track_caller]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// Resident bytes of the server.
    pub fn rss(&self) -> u64 {
        let statm =
            std::fs::read_to_string(format!("/proc/{}/statm", self.running.0.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

/// A profiled process that runs.
#[track_caller]
pub fn holding(scratch: &Scratch, name: &str) -> Running {
    let program = program_with("real/holds.c", name, &[]);
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "1", "--"]).arg(&program);
    let mut held = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut ready = [0; 6];
    held.0.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    held
}

/// The process ID of the only profile.
#[track_caller]
pub fn pid_of_only(scratch: &Scratch) -> String {
    profiles(scratch)[0].header.pid.to_string()
}

/// Runs `go tool pprof`, and returns its outcome.
#[track_caller]
pub fn pprof(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    let mut command = clean(pprof_program());
    let home = scratch.open_directory("pprof");
    command.args(arguments).env("HOME", &home).env("PPROF_TMPDIR", &home).env("TZ", "UTC");
    finish(command.env_remove("PPROF_BINARY_PATH").current_dir(&home))
}

/// The program behind `go tool pprof`, which Go builds on first use.
fn pprof_program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let go = installed("go", "golang-go");
        let _ = Command::new(&go).args(["tool", "pprof", "-help"]).output();
        let named = Command::new(&go).args(["tool", "-n", "pprof"]).output().unwrap();
        PathBuf::from(String::from_utf8(named.stdout).unwrap().trim())
    })
}
