//! Several processes of one server or of one name, and what the `ramson` command says of them together.

use crate::preload;
use crate::servers::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Names that no other process has.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}{}x{}", std::process::id(), COUNT.fetch_add(1, Relaxed))
}

/// Runs a command, and returns its outcome.
pub fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    finish(ramson(scratch).args(arguments))
}

/// Its object with `--json`.
#[track_caller]
pub fn json(scratch: &Scratch, arguments: &[&str]) -> Json {
    Json::parse(&finish(ramson(scratch).args(arguments).arg("--json")).good().text())
}

/// Process IDs of an answer about several, in their order.
pub fn pids(answer: &Json) -> Vec<u32> {
    let mut pids: Vec<u32> =
        answer.list("processes").iter().map(|one| one.number("pid") as u32).collect();
    pids.sort_unstable();
    pids
}

/// Fails unless the number at `path` is the sum of the processes' numbers at `path` in the same answer.
#[track_caller]
pub fn assert_summed(answer: &Json, path: &str) {
    let sum: f64 = answer.list("processes").iter().map(|one| one.number(path)).sum();
    let whole = answer.number(path);
    assert!(sum > 0.0 && (whole - sum).abs() <= 1e-6 * sum, "{path}: {whole}, not {sum}");
}

/// A redis of this name that holds `keys` keys of 1,000 bytes.
pub fn redis(scratch: &Scratch, name: &str, socket: &str, keys: u32, is_profiled: bool) -> Running {
    let program = scratch.path(name);
    let socket = scratch.path(socket);
    if !program.exists() {
        copy(&installed("redis-server", "redis-server"), &program);
    }
    let mut server = clean(program);
    server.args(["--port", "0", "--save", "", "--dir"]).arg(scratch.path(""));
    server.arg("--unixsocket").arg(&socket);
    if is_profiled {
        preload(&mut server, "16K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    }
    let running = Running::start(&mut server, &scratch.path("log"), || accepts(&socket));
    let fill = format!("for i = 1, {keys} do redis.call('set', i, string.rep('x', 1000)) end");
    let mut client = clean(installed("redis-cli", "redis-tools"));
    finish(client.arg("-s").arg(&socket).args(["eval", &fill, "0"])).good();
    running
}

/// Two that are profiled and one that is not.
pub struct Redises {
    /// Directory of the servers' files.
    pub scratch: Scratch,
    /// `name:NAME` of all three.
    pub source: String,
    /// Process IDs, ascending.
    pub profiled: Vec<u32>,
    /// The process ID of the other one.
    pub plain: u32,
    _servers: [Running; 3],
}

impl Redises {
    /// Starts them.
    pub fn start() -> Self {
        let scratch = Scratch::new();
        let name = unique("r");
        let one = redis(&scratch, &name, "1", 20_000, true);
        let other = redis(&scratch, &name, "2", 5_000, true);
        let plain = redis(&scratch, &name, "3", 1, false);
        let mut profiled = vec![one.0.id(), other.0.id()];
        profiled.sort_unstable();
        let source = format!("name:{name}");
        let plain_pid = plain.0.id();
        let servers = [one, other, plain];
        Self { scratch, source, profiled, plain: plain_pid, _servers: servers }
    }

    /// Runs a command with `--json`, and returns what it prints.
    pub fn json(&self, arguments: &[&str]) -> Json {
        json(&self.scratch, arguments)
    }
}

/// An nginx with two workers.
pub struct Nginx {
    /// Its first process.
    pub master: Running,
    /// Its configuration.
    pub conf: PathBuf,
    /// Directory of nginx's files.
    pub scratch: Scratch,
}

impl Nginx {
    /// `begun` makes the command that starts it of the one that would.
    pub fn start(begun: impl Fn(&Path) -> Command) -> Self {
        let scratch = Scratch::new();
        let socket = scratch.path("socket");
        let conf = scratch.file(
            "conf",
            format!(
                "daemon off; pid {0}/pid; error_log {0}/error.log; worker_processes 2; events {{}}
                 http {{
                   access_log off; client_body_temp_path {0}/1; proxy_temp_path {0}/2;
                   fastcgi_temp_path {0}/3; uwsgi_temp_path {0}/4; scgi_temp_path {0}/5;
                   server {{ listen unix:{1}; root {0}; }}
                 }}",
                scratch.path("").display(),
                socket.display()
            ),
        );
        let program = installed("nginx", "nginx-light");
        let script = scratch.file(
            "start",
            format!(
                "exec {} -e {} -c {}",
                program.display(),
                scratch.path("error.log").display(),
                conf.display()
            ),
        );
        let mut command = begun(&script);
        preload(&mut command, "1").env("RAMSON_DIR", scratch.open_directory("profiles"));
        let master = Running::start(&mut command, &scratch.path("log"), || accepts(&socket));
        let nginx = Self { master, conf, scratch };
        wait_until("master and workers have profiles", || nginx.members(&nginx.tree()).len() == 3);
        nginx
    }

    /// The SRC of all its processes.
    pub fn tree(&self) -> String {
        format!("tree:{}", self.master.0.id())
    }

    /// The members of a SRC that have profiles.
    pub fn members(&self, source: &str) -> Vec<u32> {
        let outcome = say(&self.scratch, &["report", source, "--json", "-n", "1"]);
        match outcome.status {
            0 if outcome.text().contains("\"processes\"") => pids(&Json::parse(&outcome.text())),
            _ => Vec::new(),
        }
    }

    /// Replaces its workers.
    pub fn reload(&self) {
        let mut reload = clean(installed("nginx", "nginx-light"));
        reload.arg("-e").arg(self.scratch.path("error.log")).arg("-c").arg(&self.conf);
        finish(reload.args(["-s", "reload"])).good();
    }
}

/// Makes the command that runs the start script outside of any group.
pub fn shell(script: &Path) -> Command {
    let mut shell = clean("sh");
    shell.arg(script);
    shell
}
