//! Debug files from servers: Debian's debuginfod, and small ones that misbehave.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::*;
use ramson_symbols::{
    Binary, FileAddress, Options, ServerOptions, SymbolSource, Symbolized, Symbolizer,
};

/// A stripped program, its debug file elsewhere, and what it says unstripped.
struct Setup {
    folder: Folder,
    binary: Binary,
    address: u64,
    whole: Symbolized,
}

impl Setup {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("a.c", C_SOURCE);
        folder.run("gcc -g -O2 -Wl,--build-id a.c -o a");
        let symbols = nm(&folder, "a");
        let hidden = symbols.iter().find(|symbol| symbol.name == "hidden").unwrap();
        let address = hidden.address + hidden.size / 2;
        let binary = binary(&folder.path("a"), &build_id(&folder, "a"));
        let whole = symbolize(&binary, &[address]);
        assert!(whole.frames[0][0].line > 0);
        folder.run("mkdir served");
        folder.run("objcopy --only-keep-debug a served/a.debug");
        folder.run("strip a");
        Self { folder, binary, address, whole }
    }

    fn debug_file(&self) -> Vec<u8> {
        std::fs::read(self.folder.path("served/a.debug")).unwrap()
    }

    fn servers(&self, urls: &[&str]) -> ServerOptions {
        ServerOptions {
            urls: urls.iter().map(|url| url.to_string()).collect(),
            folder: self.folder.path("fetched"),
            timeout: Duration::from_secs(20),
            max_wait: Duration::from_secs(60),
            max_file_bytes: 1 << 30,
            on_fetch: None,
        }
    }

    fn symbolizer(&self, servers: Option<ServerOptions>) -> Symbolizer {
        let cache_dir = Some(self.folder.path("cache"));
        Symbolizer::new(Options { servers, cache_dir, ..Options::default() })
    }

    /// Asks with new state, and returns what was said of the servers too.
    fn ask(&self, servers: ServerOptions) -> (Symbolized, Vec<String>) {
        let mut symbolizer = self.symbolizer(Some(servers));
        let symbolized = symbolizer.symbolize(&self.binary, &[FileAddress(self.address)]);
        let failures = symbolizer.server_failures();
        (symbolized, failures.iter().map(ToString::to_string).collect())
    }

    fn path(&self) -> String {
        format!("/buildid/{}/debuginfo", self.binary.build_id)
    }
}

/// The whole response to each path.
type Responses = HashMap<String, Vec<u8>>;

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A server on this machine that lives as long as the test, and the requests it got.
fn serve(responses: Responses) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let path = requested(stream.as_ref().unwrap());
            let not_found = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
            let response = responses.get(&path).cloned().unwrap_or(not_found);
            seen.lock().unwrap().push(path);
            // The client may have had enough.
            let _ = stream.unwrap().write_all(&response);
        }
    });
    (url, requests)
}

fn requested(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap();
    while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
    first.split(' ').nth(1).unwrap().to_owned()
}

/// Debian's debuginfod, serving a folder.
struct Debuginfod {
    process: Child,
    url: String,
}

impl Debuginfod {
    fn start(folder: &Folder) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("debuginfod");
        command.args(["-d", ":memory:", "-p", &port.to_string(), "-F", "served"]);
        command.env_remove("DEBUGINFOD_URLS").current_dir(&folder.0);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { process, url: format!("http://127.0.0.1:{port}") }
    }

    /// Until it has looked through its folder.
    fn wait_for(&self, path: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_served = || {
            let stream = TcpStream::connect(self.url.trim_start_matches("http://")).ok()?;
            let mut stream = BufReader::new(stream);
            write!(stream.get_mut(), "GET {path} HTTP/1.0\r\n\r\n").ok()?;
            let mut status = String::new();
            stream.read_line(&mut status).ok()?;
            status.contains("200").then_some(())
        };
        while is_served().is_none() {
            assert!(Instant::now() < deadline, "debuginfod does not serve {path}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Debuginfod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn debug_file_is_fetched_once() {
    let setup = Setup::new();
    let server = Debuginfod::start(&setup.folder);
    server.wait_for(&setup.path());
    let (symbolized, failures) = setup.ask(setup.servers(&[&server.url]));
    assert_eq!((&symbolized.frames, symbolized.defect), (&setup.whole.frames, None));
    assert!(failures.is_empty());
    drop(server);
    setup.folder.run("rm -r cache served");
    // Neither the server nor the answers are there any more: the file is.
    let (kept, failures) = setup.ask(setup.servers(&["http://127.0.0.1:1"]));
    assert_eq!((kept.frames, failures), (setup.whole.frames.clone(), vec![]));
    assert!(matches!(kept.source, SymbolSource::Dwarf));
}

#[test]
fn servers_are_asked_when_needed() {
    let setup = Setup::new();
    let (url, requests) = serve(Responses::from([(setup.path(), ok(&setup.debug_file()))]));
    assert!(
        setup.symbolizer(None).symbolize(&setup.binary, &[FileAddress(setup.address)]).frames[0]
            .is_empty()
    );
    assert_eq!(requests.lock().unwrap().len(), 0);
    setup.folder.run("cp served/a.debug whole");
    let servers = Some(setup.servers(&[&url]));
    let debug_paths = vec![setup.folder.path("debug")];
    let id = &setup.binary.build_id;
    setup.folder.run(&format!("mkdir -p debug/.build-id/{}", &id[..2]));
    setup.folder.run(&format!("cp whole debug/.build-id/{}/{}.debug", &id[..2], &id[2..]));
    let mut symbolizer = Symbolizer::new(Options { debug_paths, servers, ..Options::default() });
    let symbolized = symbolizer.symbolize(&setup.binary, &[FileAddress(setup.address)]);
    assert_eq!(symbolized.frames, setup.whole.frames);
    assert_eq!(requests.lock().unwrap().len(), 0);
}

#[test]
fn offline_answers_allow_later_asking() {
    let setup = Setup::new();
    setup.folder.run("gcc -g -O2 -Wl,--build-id a.c -o a");
    setup.folder.run("strip -g a");
    let before = setup.symbolizer(None).symbolize(&setup.binary, &[FileAddress(setup.address)]);
    assert_eq!(before.frames[0].len(), 1);
    let (url, _) = serve(Responses::from([(setup.path(), ok(&setup.debug_file()))]));
    assert_eq!(setup.ask(setup.servers(&[&url])).0.frames, setup.whole.frames);
}

#[test]
fn servers_are_asked_in_order() {
    let setup = Setup::new();
    let (empty, asked_empty) = serve(Responses::new());
    let (full, asked_full) = serve(Responses::from([(setup.path(), ok(&setup.debug_file()))]));
    for _ in 0..2 {
        let (symbolized, _) = setup.ask(setup.servers(&[&empty]));
        assert!(symbolized.frames[0].is_empty());
    }
    assert_eq!(*asked_empty.lock().unwrap(), [setup.path()]);
    setup.folder.run("rm -r fetched");
    let (symbolized, failures) = setup.ask(setup.servers(&[&empty, &full]));
    assert_eq!((symbolized.frames, failures), (setup.whole.frames.clone(), vec![]));
    assert_eq!(asked_empty.lock().unwrap().len(), 2);
    assert_eq!(*asked_full.lock().unwrap(), [setup.path()]);
}

#[test]
fn failing_server_is_named_once() {
    let setup = Setup::new();
    let (full, _) = serve(Responses::from([(setup.path(), ok(&setup.debug_file()))]));
    let error = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_vec();
    let (failing, asked) = serve(Responses::from([(setup.path(), error)]));
    let closed = "http://127.0.0.1:1";
    let (symbolized, failures) = setup.ask(setup.servers(&[closed, &failing, &full]));
    assert_eq!(symbolized.frames, setup.whole.frames);
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].starts_with(closed) && failures[1].contains("500"), "{failures:?}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[test]
fn wrong_files_are_not_kept() {
    let setup = Setup::new();
    let right = setup.debug_file();
    setup.folder.write("b.c", "int main() { return 0; }");
    setup.folder.run("gcc -g -Wl,--build-id b.c -o b");
    let other = std::fs::read(setup.folder.path("b")).unwrap();
    let endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [b"10000\r\n", &vec![b'x'; 0x10000][..], b"\r\n"].concat();
    let endless = [endless, chunk.repeat(64)].concat();
    let whole = ok(&right);
    for (what, response, max_file_bytes) in [
        ("another build", ok(&other), 1 << 30),
        ("cut", whole[..whole.len() - 100].to_vec(), 1 << 30),
        ("not ELF", ok(b"<html>"), 1 << 30),
        ("too large", whole.clone(), right.len() as u64 - 1),
        ("too large, and does not say so", endless, 100_000),
    ] {
        let (url, _) = serve(Responses::from([(setup.path(), response)]));
        let servers = ServerOptions { max_file_bytes, ..setup.servers(&[&url]) };
        let (symbolized, _) = setup.ask(servers);
        assert!(symbolized.frames[0].is_empty(), "{what}");
        let kept = std::fs::read_dir(setup.folder.path("fetched")).into_iter().flatten();
        let kept: Vec<_> = kept.map(|entry| entry.unwrap().path()).collect();
        let is_miss = |path: &std::path::PathBuf| path.extension() == Some("missing".as_ref());
        assert!(kept.iter().all(is_miss), "{what}: {kept:?}");
        setup.folder.run("rm -rf fetched");
    }
    let (url, _) = serve(Responses::from([(setup.path(), whole)]));
    let servers = ServerOptions { max_file_bytes: right.len() as u64, ..setup.servers(&[&url]) };
    assert_eq!(setup.ask(servers).0.frames, setup.whole.frames);
}

#[test]
fn silent_server_costs_allowed_time() {
    let setup = Setup::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    for (timeout_ms, max_wait_ms) in [(300, 60_000), (60_000, 300)] {
        let servers = ServerOptions {
            timeout: Duration::from_millis(timeout_ms),
            max_wait: Duration::from_millis(max_wait_ms),
            ..setup.servers(&[&url])
        };
        let start = Instant::now();
        let (symbolized, failures) = setup.ask(servers);
        assert!(symbolized.frames[0].is_empty());
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert!(failures[0].contains("in time") && failures[0].contains(&url), "{failures:?}");
    }
}

#[test]
fn concurrent_fetches_all_succeed() {
    let setup = Setup::new();
    let (url, _) = serve(Responses::from([(setup.path(), ok(&setup.debug_file()))]));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let frames = setup.ask(setup.servers(&[&url])).0.frames;
                assert_eq!(frames, setup.whole.frames);
            });
        }
    });
}
