//! Who gets in, and what clients that mean harm achieve.

use ramson_tests::program_with;
use ramson_tests::servers::*;
use ramson_tests::serving::{Reply, Serving};
use ramson_tests::several::say;
use ramson_tests::strangers::{STRANGER, as_stranger};
use ramson_tests::tool;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// The file of a process that has ended.
fn dead(scratch: &Scratch) -> String {
    let program = program_with("real/holds.c", "holds-guarded", &[]);
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "1", "--"]).arg(&program);
    finish(&mut command).good();
    let mut found = fs::read_dir(scratch.path("profiles")).unwrap();
    found.next().unwrap().unwrap().path().to_str().unwrap().to_owned()
}

#[test]
fn wrong_host_or_token_gets_nothing() {
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch, &[&dead(&scratch), "--allow-host", "profiles.example"]);
    let bearer = format!("Bearer {}", serving.token);
    let with = |name: &str, value: &str| {
        serving.get_with("/debug/pprof/heap", &[("Authorization", &bearer), (name, value)])
    };
    for good in ["localhost", "127.0.0.1:1", "[::1]:7777", "profiles.example"] {
        assert_eq!(with("Host", good).status, 200, "{good}");
    }
    for bad in
        ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "", "127.1"]
    {
        let refused = with("Host", bad);
        assert_eq!(refused.status, 403, "{bad}");
        assert_no_secret(&serving, &refused);
    }
    for bad in ["http://evil.example", "http://localhost:1", "null"] {
        assert_eq!(with("Origin", bad).status, 403, "{bad}");
    }
    for bad in ["cross-site", "same-site"] {
        assert_eq!(with("Sec-Fetch-Site", bad).status, 403, "{bad}");
    }
    assert_eq!(with("Origin", "http://localhost").status, 200);
    assert_eq!(with("Sec-Fetch-Site", "same-origin").status, 200);
    let nearly = &bearer[..bearer.len() - 1];
    for bad in ["", "Bearer", "Bearer x", nearly, "Basic cmFtc29uOng="] {
        for path in ["/debug/pprof/heap", "/debug/pprof/cmdline", "/api/v1/sources", "/nothing"] {
            let refused = serving.get_with(path, &[("Authorization", bad)]);
            assert_eq!(refused.status, 401, "{bad} {path}");
            assert_eq!(refused.header("www-authenticate"), "Bearer realm=\"ramson\"");
            assert_no_secret(&serving, &refused);
        }
    }
    assert_eq!(
        serving.get_with(&format!("/debug/pprof/heap?token={}", serving.token), &[]).status,
        401
    );
}

#[test]
fn server_proves_its_token() {
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch, &[&dead(&scratch)]);
    let nonce = "c4".repeat(32);
    let path = format!("/api/v1/challenge?nonce={nonce}");
    let host = format!("127.0.0.1:{}", serving.port);
    let proof = serving.get_with(&path, &[("Host", &host)]).good();
    assert_no_secret(&serving, &proof);
    let hmac = "import hmac, sys; print(hmac.new(*[it.encode() for it in sys.argv[1:]], 'sha256').hexdigest())";
    let message = format!("{nonce}{host}");
    let expected = finish(clean(python()).args(["-c", hmac, &serving.token, &message])).good();
    assert_eq!(proof.text(), expected.text());
    // Another port's, as an impostor there would ask for it.
    let refused = serving.get_with(&path, &[("Host", "127.0.0.1:1")]);
    assert_eq!(refused.status, 403);
    assert_no_secret(&serving, &refused);
    assert_eq!(serving.get_with("/api/v1/challenge", &[("Host", &host)]).status, 400);
}

/// Binds a port on both loopback addresses, and executes a program with the sockets, as systemd does.
const PASSES_SOCKETS: &str = "
import os, socket, sys
first = socket.create_server(('127.0.0.1', 0))
second = socket.create_server(('::1', first.getsockname()[1]), family=socket.AF_INET6)
os.dup2(first.fileno(), 10)
os.dup2(second.fileno(), 11)
os.dup2(10, 3)
os.dup2(11, 4)
os.environ.update(LISTEN_FDS='2', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])
";

#[test]
fn passed_sockets_are_served() {
    let scratch = Scratch::new();
    let words = ["serve", "--listen", "systemd", &dead(&scratch)];
    let alone = say(&scratch, &words);
    assert!(alone.status == 1 && alone.remarks[0].contains("no socket was passed"), "{alone:?}");
    let served = ramson(&scratch);
    let mut command = clean(python());
    command.args(["-c", PASSES_SOCKETS]).arg(served.get_program()).args(words);
    command.envs(served.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let serving = Serving::start_command(&mut command);
    serving.get("/debug/pprof/heap").good();
    let mut other = TcpStream::connect(("::1", serving.port)).unwrap();
    let nonce = "c4".repeat(32);
    let host = format!("localhost:{}", serving.port);
    let head = format!("GET /api/v1/challenge?nonce={nonce} HTTP/1.1\r\nHost: {host}\r\n");
    write!(other, "{head}Connection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    other.read_to_end(&mut answer).unwrap();
    Reply::parse(&answer).good();
}

#[track_caller]
fn assert_no_secret(serving: &Serving, reply: &Reply) {
    let text = format!("{:?} {}", reply.headers, reply.text());
    assert!(!text.contains(&serving.token) && !text.contains("holds-guarded"), "{text}");
}

#[test]
fn public_page_is_empty_and_strict() {
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch, &[&dead(&scratch)]);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/app.css", "text/css; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/flame", "text/html; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
    ] {
        let reply = serving.get_with(path, &[]).good();
        assert_eq!(reply.header("content-type"), kind);
        assert_no_secret(&serving, &reply);
        let policy = reply.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(reply.header(name), value, "{path}");
        }
        assert_eq!(serving.get_with(path, &[("Host", "evil.example")]).status, 403);
    }
    let page = serving.get_with("/", &[]).text();
    assert!(!page.contains("<script>") && !page.contains(" style=") && !page.contains("onclick"));
}

#[test]
fn token_file_is_private_and_unlogged() {
    let scratch = Scratch::new();
    let profile = dead(&scratch);
    let file = scratch.path("token");
    let file = file.to_str().unwrap();
    let log = scratch.path("log");
    let mut command = ramson(&scratch);
    command.args(["serve", "--listen", "127.0.0.1:0", &profile, "--token-file", file]);
    let mut first = Serving::start_command(command.stderr(fs::File::create(&log).unwrap()));
    assert_eq!(fs::metadata(file).unwrap().mode() & 0o7777, 0o600);
    let token = fs::read_to_string(file).unwrap().trim().to_owned();
    assert!(!first.line.contains(&token) && token.len() >= 32, "{}", first.line);
    first.token.clone_from(&token);
    first.get("/debug/pprof/heap").good();
    let command = fs::read(format!("/proc/{}/cmdline", first.running.0.id())).unwrap();
    assert!(!String::from_utf8_lossy(&command).contains(&token));
    // Nor is it in a line about a request, be it one that has it in its path.
    let nearly = format!("Bearer {token}x");
    let in_path = format!("/debug/pprof/heap?token={token}");
    assert_eq!(first.get_with("/debug/pprof/heap", &[("Authorization", &nearly)]).status, 401);
    assert_eq!(first.get_with(&in_path, &[]).status, 401);
    assert_ne!(first.get(&in_path).status, 401);
    first.running.signal("TERM");
    first.running.wait();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(!logged.contains(&token), "{logged}");
    let mut again = Serving::start(&scratch, &[&profile, "--token-file", file]);
    again.token = token;
    again.get("/debug/pprof/heap").good();
    fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    let words = ["serve", "--listen", "127.0.0.1:0", &profile, "--token-file", file];
    let refused = say(&scratch, &words);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(refused.remarks[0].contains("Make its mode 0600"), "{refused:?}");
}

#[test]
fn interrupt_removes_the_socket() {
    let scratch = Scratch::new();
    let profile = dead(&scratch);
    let socket = scratch.open_directory("sockets").join("serve.sock");
    let listen = format!("unix:{}", socket.display());
    let start = || {
        let mut command = ramson(&scratch);
        Serving::start_command(command.args(["serve", "--listen", &listen, &profile]))
    };
    let mut serving = start();
    assert_eq!(fs::symlink_metadata(&socket).unwrap().mode() & 0o777, 0o700);
    let bearer = format!("Authorization: Bearer {}", serving.token);
    let url = "http://localhost/api/v1/sources";
    let path = socket.to_str().unwrap();
    let got = tool("curl", &["-fsS", "--unix-socket", path, "-H", &bearer, url]);
    assert!(got.contains("holds-guarded"), "{got}");
    let connects = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let mut stranger = clean(python());
    let stranger = finish(&mut as_stranger(stranger.args(["-c", connects, path])));
    assert!(stranger.stderr.contains("PermissionError"), "{stranger:?}");
    let taken = say(&scratch, &["serve", "--listen", &listen, &profile]);
    assert!(taken.status == 1 && taken.remarks[0].contains("Another program"), "{taken:?}");
    serving.running.signal("INT");
    assert_eq!(code(serving.running.wait()), 0);
    assert!(!socket.exists());
    // The socket of a server that was killed is not in the way.
    let mut killed = start();
    killed.running.signal("KILL");
    killed.running.wait();
    assert!(socket.exists());
    let mut last = start();
    last.running.signal("TERM");
    assert_eq!(code(last.running.wait()), 0);
    assert!(!socket.exists());
    // Another user's stays, though none listens on it; a file stays.
    drop(UnixListener::bind(&socket).unwrap());
    lchown(&socket, Some(STRANGER), None).unwrap();
    let refused = say(&scratch, &["serve", "--listen", &listen, &profile]);
    assert!(refused.status == 1 && refused.remarks[0].contains("cannot listen"), "{refused:?}");
    assert_eq!(fs::symlink_metadata(&socket).unwrap().uid(), STRANGER);
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "not a socket").unwrap();
    let refused = say(&scratch, &["serve", "--listen", &listen, &profile]);
    assert_eq!((refused.status, socket.exists()), (1, true), "{refused:?}");
}

#[test]
fn interrupt_ends_serving_despite_waiting_client() {
    let scratch = Scratch::new();
    let program = program_with("real/holds.c", "holds-guarded", &[]);
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "--"]).arg(&program);
    let mut held = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    held.0.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let mut serving = Serving::start(&scratch, &["name:holds-guarded"]);
    let mut waits = serving.connect();
    let head = "GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n";
    write!(waits, "{head}Authorization: Bearer {}\r\n\r\n", serving.token).unwrap();
    serving.running.signal("INT");
    assert_eq!(code(serving.running.wait()), 0);
}

/// A request that is cut, turned or made of noise: what it is depends on its number only.
fn malformed(number: usize, token: &str) -> Vec<u8> {
    let good = format!(
        "GET /debug/pprof/heap?seconds=0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut state = number as u64 * 2 + 1;
    let mut next = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut bytes = good.into_bytes();
    match number % 10 {
        0 => bytes.truncate(next() % 100),
        1 => (0..200).for_each(|_| bytes.push(next() as u8)),
        2 => bytes = (0..300).map(|_| next() as u8).collect(),
        3 => bytes = [b"GET /", "a".repeat(20_000).as_bytes(), b" HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat(),
        4 => bytes = ["GET / HTTP/1.1\r\n", &"X: y\r\n".repeat(100), "\r\n"].concat().into_bytes(),
        5 => bytes = b"POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n0x1".to_vec(),
        6 => bytes = b"POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nzz".to_vec(),
        7 => bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        8 => bytes = b"GET /p/%00%ff/../../etc/passwd/debug/pprof/heap?seconds=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        _ => {
            // Without the token, as some of them ask for what is there.
            bytes = b"GET /debug/pprof/heap?seconds=0 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
            let at = next() % bytes.len();
            bytes[at] ^= 1 << (next() % 8);
        }
    }
    bytes
}

#[test]
fn hostile_clients_cost_little() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch, &[&dead(&scratch)]);
    let expected = serving.get("/debug/pprof/heap").good().body;
    let before = serving.rss();
    let request = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        serving.token
    );
    let mut idle: Vec<TcpStream> = (0..1000).map(|_| serving.connect()).collect();
    for client in &mut idle {
        client.write_all(request.as_bytes()).unwrap();
        let mut begin = [0; 15];
        client.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
    }
    // More than there is room for: each has begun a request, and goes on a byte at a time.
    let mut slow: Vec<TcpStream> = (0..300).map(|_| serving.connect()).collect();
    for client in &mut slow {
        client.write_all(b"GET /api/v1/sources HTTP/1.1\r\nHost: local").unwrap();
    }
    let serving = &serving;
    let expected = &expected;
    let is_done = &AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut count = 0;
            while !is_done.load(Relaxed) || count == 0 {
                assert_eq!(serving.get("/debug/pprof/heap").good().body, *expected);
                count += 1;
            }
            count
        });
        for number in 0..10_000 {
            let mut stream = serving.connect();
            let _ = stream.write_all(&malformed(number, &serving.token));
            if number % 7 == 0 {
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                let reply = Reply::parse(&answer);
                assert_ne!(reply.status, 200, "{number}: {:?}", reply.text());
            }
            if number % 100 == 0 {
                for client in &mut slow {
                    // It may have been dropped for another.
                    let _ = client.write_all(b"h");
                }
            }
        }
        is_done.store(true, Relaxed);
        let count = reader.join().unwrap();
        assert!(count > 1, "{count}");
    });
    let grown = serving.rss().saturating_sub(before);
    assert!(grown < 64 << 20, "RSS grew by {grown}");
    drop((idle, slow));
    assert_eq!(serving.get("/debug/pprof/heap").good().body, *expected);
}

#[test]
fn page_takes_token_from_address() {
    let scratch = Scratch::new();
    let serving = Serving::start(&scratch, &[&dead(&scratch)]);
    let mut browser = clean(installed("chromium", "chromium"));
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    browser.arg("--virtual-time-budget=10000").env("HOME", scratch.open_directory("home"));
    let page = finish(browser.arg(&serving.line)).good();
    for part in ["<h1>holds-guarded</h1>", "exited 0", "What is using the memory?"] {
        assert!(page.text().contains(part), "{part}: {}\n{}", page.text(), page.stderr);
    }
    // Under the page's policy, and without a way for what a server says to be markup.
    assert!(!page.stderr.contains("Content Security Policy"), "{}", page.stderr);
}
