//! `ramson serve` as `go tool pprof` and scrapers see it.

use ramson_tests::recorded::Recorded;
use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, pprof};
use ramson_tests::several::{json, redis, say};
use ramson_tests::{program_with, tool};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The profile of a redis that was killed, and its process ID.
fn dead_redis(scratch: &Scratch) -> (String, u32) {
    let server = redis(scratch, "redis-serve", "redis.sock", 4000, true);
    let pid = server.0.id();
    signal(pid, "KILL");
    drop(server);
    let found = fs::read_dir(scratch.path("profiles")).unwrap();
    let found = found.map(|entry| entry.unwrap().path());
    (text(&found.into_iter().next().unwrap()).to_owned(), pid)
}

/// The rows of `pprof -top`, without its heading.
#[track_caller]
fn rows(scratch: &Scratch, arguments: &[&str]) -> String {
    let outcome = pprof(scratch, &[&["-top"], arguments].concat()).good();
    let text = outcome.text();
    let at = text.find("      flat").unwrap_or_else(|| panic!("{outcome:?}"));
    text[at..].to_owned()
}

#[test]
fn served_heap_matches_the_export() {
    let scratch = Scratch::new();
    let (profile, pid) = dead_redis(&scratch);
    let serving = Serving::start(&scratch, &[&profile]);
    let file = scratch.path("export.pb.gz");
    say(&scratch, &["export", &profile, "-f", "pprof", "-o", text(&file)]).good();
    let heap = serving.get("/debug/pprof/heap").good();
    assert_eq!(heap.body, fs::read(&file).unwrap());
    assert_eq!(heap.header("content-type"), "application/octet-stream");
    assert_eq!(heap.header("content-disposition"), "attachment; filename=\"heap\"");
    assert_eq!(heap.header("x-content-type-options"), "nosniff");
    assert_eq!(heap.header("content-encoding"), "");

    let url = serving.at("/debug/pprof/heap");
    let file = text(&file);
    let expected = rows(&scratch, &[file]);
    assert!(expected.contains("zmalloc") || expected.contains("sdsnewlen"), "{expected}");
    assert_eq!(rows(&scratch, &[&url]), expected);
    assert_eq!(rows(&scratch, &[&serving.at(&format!("/p/{pid}/debug/pprof/heap"))]), expected);
    assert_eq!(rows(&scratch, &[&serving.at("/debug/pprof/heap?gc=1")]), expected);
    for option in ["-base", "-diff_base"] {
        for earlier in [url.as_str(), file] {
            let outcome = pprof(&scratch, &["-top", option, earlier, &url]).good();
            assert!(outcome.text().contains("accounting for 0, 0%"), "{}", outcome.text());
            assert!(!outcome.text().contains("zmalloc"), "{option}: {outcome:?}");
        }
    }
    let allocs = pprof(&scratch, &["-top", &serving.at("/debug/pprof/allocs")]).good().text();
    assert!(allocs.contains("Type: alloc_space"), "{allocs}");
}

#[test]
fn served_text_form_has_same_totals() {
    let scratch = Scratch::new();
    let (profile, _) = dead_redis(&scratch);
    let serving = Serving::start(&scratch, &[&profile]);
    let form = serving.get("/debug/pprof/heap?debug=1").good();
    assert_eq!(form.header("content-type"), "text/plain; charset=utf-8");
    let body = form.text();
    let first = body.lines().next().unwrap();
    assert!(first.starts_with("heap profile: ") && first.ends_with(" @ heap/32768"), "{first}");
    let named = |name| body.lines().any(|line| line.starts_with("#\t0x") && line.contains(name));
    assert!(named("\tzmalloc") || named("\tsdsnewlen"), "{body:.2000}");
    // Each frame's address is that of its call, just before where the call returns to.
    let address = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap();
    let lines: Vec<&str> = body.lines().collect();
    let sample = lines.iter().position(|line| line.contains("] @ 0x")).unwrap();
    let innermost = lines[sample].split(" @ ").nth(1).unwrap().split(' ').next().unwrap();
    let call = lines[sample + 1].split('\t').nth(1).unwrap();
    assert!((1..=4).contains(&(address(innermost) - address(call))), "{innermost} {call}");
    // Behind the name, as in Go, how far into the function: whichever call it is, "main" begins at one place.
    let of_main = lines.iter().filter(|line| line.contains("\tmain+0x"));
    let begins: BTreeSet<u64> = of_main
        .map(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            address(words[1]) - address(words[2].trim_start_matches("main+"))
        })
        .collect();
    assert_eq!(begins.len(), 1, "{begins:x?}");
    let total = |of: &str, path: &str| {
        let index = format!("-sample_index={of}");
        let unit = if of.ends_with("space") { "-unit=B" } else { "-unit=count" };
        let top = pprof(&scratch, &["-top", unit, &index, &serving.at(path)]).good().text();
        let words: Vec<&str> = top.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "total").unwrap();
        let number = words[at - 1].trim_end_matches('B');
        (number.parse::<f64>().unwrap(), top)
    };
    for of in ["inuse_space", "inuse_objects", "alloc_space"] {
        let (whole, _) = total(of, "/debug/pprof/heap");
        let (raw, top) = total(of, "/debug/pprof/heap?debug=1");
        assert!((raw / whole - 1.0).abs() < 0.02, "{of}: {raw}, not {whole}");
        assert!(top.contains("zmalloc") || top.contains("sdsnewlen"), "{top}");
    }
}

#[test]
fn pprof_endpoints_answer_as_in_go() {
    let scratch = Scratch::new();
    let (profile, _) = dead_redis(&scratch);
    let serving = Serving::start(&scratch, &[&profile]);
    assert_eq!(serving.get("/debug/pprof/symbol").good().text(), "num_symbols: 1\n");
    let body = serving.get("/debug/pprof/heap?debug=1").good().text();
    let line = body.lines().find(|line| line.starts_with(|c: char| c.is_ascii_digit())).unwrap();
    let addresses: Vec<&str> = line.split(" @ ").nth(1).unwrap().split(' ').collect();
    for path in ["/debug/pprof/symbol", "/debug/pprof/symbolz"] {
        let named = serving.post(path, &addresses.join("+")).good().text();
        assert!(named.lines().count() > addresses.len() / 2, "{named}");
        let first = named.lines().nth(1).unwrap().split_once(' ').unwrap();
        assert!(addresses.contains(&first.0) && first.1.len() > 1, "{named}");
    }
    let large = serving.post("/debug/pprof/symbol", &"0x1+".repeat(300_000));
    assert_eq!(large.status, 413, "{large:?}");
    assert_eq!(serving.post("/debug/pprof/heap", "").status, 405);

    let command = serving.get("/debug/pprof/cmdline").good().text();
    let words: Vec<&str> = command.split('\0').collect();
    assert!(words[0].ends_with("redis-serve") && words.contains(&"--port"), "{words:?}");
    let index = serving.get("/debug/pprof/").good();
    assert_eq!(index.header("content-type"), "text/html; charset=utf-8");
    assert!(index.text().contains("href=\"heap\""), "{}", index.text());

    let bare = pprof(&scratch, &["-top", &serving.at("")]);
    assert!(bare.stderr.contains("ramson is a heap profiler: use /debug/pprof/heap"), "{bare:?}");
    for (query, part) in [
        ("seconds=0", "invalid value for \"seconds\" - must be a positive integer"),
        ("seconds=1&debug=1", "incompatible"),
        ("seconds=1", "is not running"),
        ("memory=1", "no running process"),
    ] {
        let refused = serving.get(&format!("/debug/pprof/heap?{query}"));
        assert_eq!((refused.status, refused.header("x-go-pprof")), (400, "1"), "{refused:?}");
        assert!(refused.text().contains(part), "{query}: {}", refused.text());
    }
}

#[test]
fn only_basic_and_bearer_are_accepted() {
    let scratch = Scratch::new();
    let (profile, _) = dead_redis(&scratch);
    let serving = Serving::start(&scratch, &[&profile]);
    let url = format!("http://127.0.0.1:{}/debug/pprof/heap", serving.port);
    let out = scratch.path("curled");
    let bearer = format!("Authorization: Bearer {}", serving.token);
    tool("curl", &["-fsS", "-o", text(&out), "-H", &bearer, &url]);
    assert_eq!(fs::read(&out).unwrap(), serving.get("/debug/pprof/heap").good().body);
    let refused = pprof(&scratch, &["-top", &url]);
    assert!(
        refused.status != 0 && refused.stderr.contains("no token, or a wrong one"),
        "{refused:?}"
    );
    let wrong = url.replace("http://", "http://ramson:wrong@");
    assert!(pprof(&scratch, &["-top", &wrong]).stderr.contains("no token, or a wrong one"));
    // ramson reads what ramson serves.
    let own = json(&scratch, &["report", &serving.at("/debug/pprof/heap")]).number("whole.value");
    let expected = json(&scratch, &["report", &profile]).number("live_requested.value");
    assert!((own / expected - 1.0).abs() < 0.001, "{own} {expected}");
}

#[test]
fn several_sources_are_listed() {
    let scratch = Scratch::new();
    let server = redis(&scratch, "redis-one", "one.sock", 1000, true);
    let other = redis(&scratch, "redis-two", "two.sock", 100, true);
    let pids = [server.0.id(), other.0.id()];
    let serving = Serving::start(&scratch, &["name:redis-one", &pids[1].to_string()]);
    let refused = serving.get("/debug/pprof/heap");
    assert_eq!((refused.status, refused.header("x-go-pprof")), (404, "1"));
    for pid in pids {
        let path = format!("/p/{pid}/debug/pprof/heap");
        assert!(refused.text().contains(&path), "{}", refused.text());
        assert!(rows(&scratch, &[&serving.at(&path)]).contains("flat"));
    }
    assert_eq!(serving.get("/p/1/debug/pprof/heap").status, 404);
    let sources = Json::parse(&serving.get("/api/v1/sources").good().text());
    let ids: Vec<&str> = sources.list("sources").iter().map(|one| one.text("id")).collect();
    assert_eq!(ids, pids.map(|pid| pid.to_string()));
}

#[test]
fn resident_memory_is_fifth_sample_type() {
    let scratch = Scratch::new();
    let server = redis(&scratch, "redis-rss", "rss.sock", 4000, true);
    let serving = Serving::start(&scratch, &["name:redis-rss"]);
    let rss = || json(&scratch, &["report", &server.0.id().to_string()]).number("rss.bytes");
    // jemalloc returns memory meanwhile.
    let before = rss();
    let top = pprof(&scratch, &["-top", "-unit=B", &serving.at("/debug/pprof/heap?memory=1")]);
    let top = top.good().text();
    assert!(top.contains("Type: memory_space") && top.contains("[live]"), "{top}");
    let words: Vec<&str> = top.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "total").unwrap();
    let total: f64 = words[at - 1].trim_end_matches('B').parse().unwrap();
    let after = rss();
    let (least, most) = (before.min(after) * 0.98, before.max(after) * 1.02);
    assert!((least..most).contains(&total), "{total}, {before} before and {after} after");
    // Without it, the types are Go's.
    let usual = pprof(&scratch, &["-top", &serving.at("/debug/pprof/heap")]).good().text();
    assert!(usual.contains("Type: inuse_space"), "{usual}");
}

#[test]
fn delta_profile_has_the_change() {
    let recorded = Recorded::new();
    let serving = Serving::start(&recorded.scratch, &[&recorded.pid.to_string()]);
    let grow = |step: usize| {
        recorded.scratch.file(&format!("step{step}"), "");
        let done = recorded.scratch.path(&format!("done{step}"));
        wait_until("the program grows", || done.exists());
    };
    // On a busy machine the growth may come before the first moment, or after the last: then once more, with more time.
    let mut seconds = 1;
    // The program's own start is over.
    grow(0);
    for step in 1.. {
        let path = format!("/debug/pprof/heap?seconds={seconds}");
        let reply = thread::scope(|scope| {
            let asked = scope.spawn(|| serving.get(&path));
            thread::sleep(Duration::from_millis(300 * seconds));
            grow(step);
            asked.join().unwrap().good()
        });
        assert_eq!(reply.header("content-disposition"), "attachment; filename=\"heap-delta\"");
        let file = recorded.scratch.file("delta.pb.gz", &reply.body);
        let top = pprof(&recorded.scratch, &["-top", "-unit=B", text(&file)]).good().text();
        assert!(top.contains(&format!("Duration: {seconds}s")), "{top}");
        let words: Vec<&str> = top.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "total").unwrap();
        let change: f64 = words[at - 1].trim_end_matches('B').parse().unwrap();
        // 400 blocks of 32 KiB, of which six in seven are sampled: ± 8% at four sigmas.
        let grown = 400.0 * 32768.0;
        assert!(change < 1.1 * grown, "{change}");
        if change > 0.9 * grown {
            return;
        }
        seconds *= 2;
        assert!(seconds < 64, "the growth is never seen: {top}");
    }
}

#[test]
fn waiting_delta_clients_are_bounded() {
    let scratch = Scratch::new();
    let program = program_with("real/holds.c", "holds-served", &[]);
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "--"]).arg(&program);
    let mut held = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut ready = [0; 6];
    std::io::Read::read_exact(held.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let serving = Serving::start(&scratch, &["name:holds-served"]);
    let ask = |seconds: u32| {
        let mut stream = serving.connect();
        let head =
            format!("GET /debug/pprof/heap?seconds={seconds} HTTP/1.1\r\nHost: localhost\r\n");
        let token = format!("Authorization: Bearer {}\r\n\r\n", serving.token);
        stream.write_all((head + &token).as_bytes()).unwrap();
        stream
    };
    // Which of the three is read last is refused.
    let waiting = [ask(3600), ask(3600), ask(3600)];
    let answers = || waiting.iter().filter_map(answer).collect::<Vec<_>>();
    wait_until("one is refused", || !answers().is_empty());
    assert_eq!(answers(), ["HTTP/1.1 503"]);
    let status = || serving.get("/debug/pprof/heap?seconds=1").status;
    assert_eq!(status(), 503);
    assert_eq!(answers().len(), 1, "two wait");
    drop(waiting);
    wait_until("there is room again", || status() == 200);
}

/// The first words of what a server has answered.
fn answer(stream: &TcpStream) -> Option<String> {
    stream.set_nonblocking(true).unwrap();
    let mut line = [0; 12];
    let read = stream.peek(&mut line).ok()?;
    Some(String::from_utf8_lossy(&line[..read]).into_owned())
}
