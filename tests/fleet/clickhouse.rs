//! A real ClickHouse server: that of the locked npm package, which `make fleet` installs.

use ramson_tests::servers::*;
use ramson_tests::serving::Reply;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// A server that runs until it is dropped.
pub struct ClickHouse {
    child: Child,
    /// Port of its HTTP interface on 127.0.0.1.
    pub port: u16,
}

/// The repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// clickhouse-local, linked once.
fn program() -> &'static Path {
    static LINKED: OnceLock<PathBuf> = OnceLock::new();
    LINKED.get_or_init(|| {
        let library = root().join("tests/fleet/node_modules/@chdb/lib-linux-x64-gnu");
        let library = library.canonicalize().expect("make fleet installs it");
        let path = ramson_program().with_file_name("clickhouse");
        let mut link = clean("gcc");
        link.arg("-O1").arg(root().join("tests/fleet/clickhouse.c")).arg("-o").arg(&path);
        link.arg("-L").arg(&library).arg("-lchdb").arg(format!("-Wl,-rpath,{}", library.display()));
        finish(&mut link).good();
        path
    })
}

impl ClickHouse {
    /// Starts a server on a free port.
    pub fn start(scratch: &Scratch) -> Self {
        let (child, port) = start(scratch, 0);
        Self { child, port }
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, with what it had.
    pub fn start_again(&mut self, scratch: &Scratch) {
        self.child = start(scratch, self.port).0;
    }

    /// Both.
    pub fn kill_and_start(&mut self, scratch: &Scratch) {
        self.kill();
        self.start_again(scratch);
    }

    /// Runs deploy/clickhouse/schema.sql.
    pub fn make_tables(&self) {
        let text = fs::read_to_string(root().join("deploy/clickhouse/schema.sql")).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        let text = lines.join("\n");
        let statements = text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty());
        statements.for_each(|statement| drop(self.post("", statement)));
    }

    /// What a statement answers.
    pub fn ask(&self, statement: &str) -> String {
        self.post("database=ramson", statement)
    }

    fn post(&self, parameters: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head =
            format!("POST /?{parameters} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Reply::parse(&answer).good().text()
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.kill();
    }
}

/// It runs until its standard input is closed. Port 0 is any that is free: its log tells which.
fn start(scratch: &Scratch, port: u16) -> (Child, u16) {
    let place = scratch.open_directory("clickhouse");
    let log = place.join("log");
    let _ = fs::remove_file(&log);
    let config = format!(
        "<clickhouse><listen_host>127.0.0.1</listen_host><http_port>{port}</http_port><path>{0}/data/</path>\
         <max_server_memory_usage>4000000000</max_server_memory_usage>\
         <logger><level>information</level><log>{1}</log></logger></clickhouse>",
        place.display(),
        log.display()
    );
    let config = scratch.file("clickhouse.xml", config);
    let mut command: Command = clean(program());
    command.arg("--config-file").arg(config).arg("--path").arg(place.join("data"));
    command.args([
        "--query",
        "SYSTEM START LISTEN HTTP; SELECT count() FROM file('-', 'LineAsString')",
    ]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let listens = || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        let (_, rest) = log.split_once("Listening for http://127.0.0.1:")?;
        rest.split_once('\n')?.0.trim().parse().ok()
    };
    wait_until("ClickHouse listens", || {
        assert!(
            child.try_wait().unwrap().is_none(),
            "ClickHouse ended; {} says why",
            log.display()
        );
        listens().is_some()
    });
    (child, listens().unwrap())
}
