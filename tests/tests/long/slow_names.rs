//! A profile whose names take long to find comes without them, in time for a scraper.

use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, pprof};
use ramson_tests::several::redis;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The profile of a redis that was killed.
fn dead_redis(scratch: &Scratch) -> String {
    let server = redis(scratch, "redis-scraped", "scraped.sock", 2000, true);
    signal(server.0.id(), "KILL");
    drop(server);
    let found = fs::read_dir(scratch.path("profiles")).unwrap().next().unwrap();
    found.unwrap().path().to_str().unwrap().to_owned()
}

/// Output of `go tool pprof`, which has the same parser as the scrapers, for a profile.
#[track_caller]
fn top(scratch: &Scratch, body: &[u8], options: &[&str]) -> String {
    let file = scratch.file("scraped.pb.gz", body);
    pprof(scratch, &[&["-symbolize=none", "-top"], options, &[file.to_str().unwrap()]].concat())
        .good()
        .text()
}

/// A debuginfod server that keeps its clients waiting until it is let go; then it has no file.
struct SlowServer {
    address: String,
    asked: Arc<AtomicUsize>,
    is_free: Arc<(Mutex<bool>, Condvar)>,
    is_over: Arc<AtomicBool>,
}

impl SlowServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            asked: Arc::default(),
            is_free: Arc::default(),
            is_over: Arc::default(),
        };
        let asked = server.asked.clone();
        let is_free = server.is_free.clone();
        let is_over = server.is_over.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                asked.fetch_add(1, Ordering::Relaxed);
                let stream = stream.unwrap();
                let is_free = is_free.clone();
                thread::spawn(move || answer(stream, &is_free));
            }
        });
        server
    }

    fn let_go(&self) {
        *self.is_free.0.lock().unwrap() = true;
        self.is_free.1.notify_all();
    }
}

fn answer(mut stream: TcpStream, is_free: &(Mutex<bool>, Condvar)) {
    let _ = stream.read(&mut [0; 4096]);
    let waiting = is_free.0.lock().unwrap();
    drop(is_free.1.wait_while(waiting, |is_free| !*is_free).unwrap());
    let _ = stream
        .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

impl Drop for SlowServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.let_go();
    }
}

/// How long `go tool pprof` waits for a profile: github.com/google/pprof, internal/driver/fetch.go (`adjustURL`: a minute and 5 s).
const CLIENT_PATIENCE: Duration = Duration::from_secs(65);

#[test]
fn slow_names_do_not_delay_profile() {
    let scratch = Scratch::new();
    let profile = dead_redis(&scratch);
    let slow = SlowServer::start();
    let mut command = ramson(&scratch);
    command.args(["serve", "--listen", "127.0.0.1:0", &profile]);
    command.env("RAMSON_DEBUGINFOD", "1").env("DEBUGINFOD_URLS", &slow.address);
    command.env("DEBUGINFOD_TIMEOUT", "600").env("DEBUGINFOD_MAXTIME", "600");
    let serving = Serving::start_command(&mut command);
    let begun = Instant::now();
    let late = serving.get("/debug/pprof/heap").good();
    let took = begun.elapsed();
    assert!(slow.asked.load(Ordering::Relaxed) > 0, "no names were looked for");
    assert!(took < CLIENT_PATIENCE, "{took:?}");
    let unnamed = top(&scratch, &late.body, &["-unit=B"]);
    assert!(unnamed.contains("Type: inuse_space") && !unnamed.contains("zmalloc"), "{unnamed}");
    slow.let_go();
    wait_until("the names are found", || {
        let named = serving.get("/debug/pprof/heap");
        named.status == 200 && top(&scratch, &named.body, &[]).contains("zmalloc")
    });
    let total =
        |text: &str| text.split(" total").next().unwrap().rsplit(' ').next().unwrap().to_owned();
    let named = top(&scratch, &serving.get("/debug/pprof/heap").good().body, &["-unit=B"]);
    assert_eq!(total(&named), total(&unnamed), "{named}");
}
