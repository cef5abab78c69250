//! A server under load, and `ramson top` of it.

use crate::preload;
use crate::servers::*;
use crate::terminal::Terminal;
use std::process::Command;

/// A redis that is recorded, and a client that fills it without end.
pub struct Loaded {
    /// Directory that contains its profile.
    pub scratch: Scratch,
    /// The server.
    pub server: Running,
    _client: Running,
}

impl Loaded {
    /// Waits until it has allocated.
    #[track_caller]
    pub fn start() -> Self {
        let scratch = Scratch::new();
        let server = redis(&scratch);
        let mut client = clean(installed("redis-benchmark", "redis-tools"));
        client.arg("-s").arg(scratch.path("redis.sock"));
        client.args(["-q", "-t", "set,lpush", "-r", "100000", "-d", "200", "-n", "1000000000"]);
        let client = Running::start(&mut client, &scratch.path("client"), || true);
        let loaded = Self { scratch, server, _client: client };
        wait_until("redis has allocated", || {
            profiles(&loaded.scratch).iter().any(|found| found.live.len() > 20)
        });
        loaded
    }

    /// `ramson top` of it, in a terminal of that size.
    pub fn top(&self, columns: u16, rows: u16) -> Terminal {
        Terminal::start(&top(&self.scratch, &[&self.server.0.id().to_string()]), columns, rows)
    }
}

fn redis(scratch: &Scratch) -> Running {
    let socket = scratch.path("redis.sock");
    let mut server = clean(installed("redis-server", "redis-server"));
    server.args(["--port", "0", "--save", "", "--dir"]).arg(scratch.path(""));
    server.arg("--unixsocket").arg(&socket);
    preload(&mut server, "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    Running::start(&mut server, &scratch.path("log"), || accepts(&socket))
}

/// `ramson top` with these arguments.
pub fn top(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = ramson(scratch);
    command.arg("top").args(arguments);
    command
}

/// Whether the row of a stack is open: below it is a frame a row, far behind the numbers.
pub fn shows_frames(text: &str) -> bool {
    let is_frame =
        |line: &str| line.starts_with("          ") && line.trim_start().starts_with("← ");
    text.lines().any(is_frame)
}
