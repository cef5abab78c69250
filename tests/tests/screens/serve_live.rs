//! Features of `ramson serve` in addition to documents: what it has seen, source code, actions, a browser; and what stands for a process.

use ramson_tests::forged::{Forged, STRANGER, give};
use ramson_tests::golang::{self, LEAKS};
use ramson_tests::keeping::Keeping;
use ramson_tests::preload;
use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, holding, pid_of_only};
use ramson_tests::several::say;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tree of the test programs' sources.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The data of a stream's events, as they come.
fn events(serving: &Serving, pid: &str) -> impl Iterator<Item = Value> {
    let mut stream = serving.connect();
    let request = format!(
        "GET /api/v1/p/{pid}/events HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        serving.token
    );
    stream.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix("data: ").map(json))
}

#[test]
fn page_has_the_heap_and_the_collections_of_go() {
    let scratch = Scratch::new();
    let running = golang::start(&golang::go(golang::ONE), &scratch, "leaks", LEAKS, &[]);
    let pid = running.0.id().to_string();
    let serving = Serving::start(&scratch, &[&pid]);
    let report = json(&serving.get(&format!("/api/v1/p/{pid}/report")).text());
    assert_eq!((&report["is_of_go"], &report["is_running"]), (&true.into(), &true.into()));
    let seen = || json(&serving.get(&format!("/api/v1/p/{pid}/gc")).good().text());
    assert_eq!(seen()["collections"].as_array().unwrap().len(), 0);
    // Between two requests it is looked at, too.
    wait_until("collections and the stacks that allocate are known", || {
        let seen = seen();
        let all = seen["collections"].as_array().unwrap();
        let are_whole =
            all.iter().any(|it| it["before_bytes"].is_u64() && it["live_bytes"].is_u64());
        are_whole && seen["largest"]["function"].as_str().is_some_and(|it| it.starts_with("main."))
    });
}

#[test]
fn event_stream_follows_process_to_end() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-seen");
    let pid = pid_of_only(&scratch);
    let serving = Serving::start(&scratch, &[&pid]);
    let mut stream = events(&serving, &pid);
    let first = stream.next().unwrap();
    assert!(first["rss"].as_f64().unwrap() > 1e6 && first["live"]["value"].as_f64().unwrap() > 1e5);
    assert_eq!(first["live"]["half_width_95"].as_f64().unwrap(), 0.0);
    assert!(first["ended"].is_null());
    wait_until("the terms of RSS are read", || {
        let seen = json(&serving.get(&format!("/api/v1/p/{pid}/moments")).good().text());
        seen["moments"].as_array().unwrap().iter().any(|moment| moment["terms"].is_object())
    });
    drop(held.0.stdin.take());
    held.wait();
    let last = stream.last().expect("it says what became of the process");
    // With which status may be known a moment later.
    let has_exited = |of: &Value| of["ended"].as_str().is_some_and(|it| it.starts_with("exited"));
    assert!(has_exited(&last), "{last}");
    let seen = json(&serving.get(&format!("/api/v1/p/{pid}/moments")).good().text());
    assert!(has_exited(&seen), "{seen}");
    assert_eq!(seen["all"].as_f64().unwrap(), seen["moments"].as_array().unwrap().len() as f64);
    assert!(seen["all"].as_f64().unwrap() >= 2.0 && seen["steps"].is_array());
    // The terms of RSS add up to RSS in each moment that has them.
    let split = seen["moments"].as_array().unwrap().iter().filter(|it| it["terms"].is_object());
    let split: Vec<&Value> = split.collect();
    assert!(!split.is_empty(), "{seen}");
    for moment in split {
        let terms = moment["terms"].as_object().unwrap();
        let sum: f64 = terms.values().map(|bytes| bytes.as_f64().unwrap()).sum();
        assert!((sum - moment["rss"].as_f64().unwrap()).abs() <= 15.0, "{moment}");
    }
    let one = serving.get(&format!("/api/v1/p/{pid}/moments?rows=1")).good().text();
    assert_eq!(json(&one)["moments"].as_array().unwrap().len(), 1);
    assert_eq!(serving.get(&format!("/api/v1/p/{pid}/moments?rows=x")).status, 400);
    // The stream of a process that ended before consists of its end only.
    let all: Vec<Value> = events(&serving, &pid).collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["ended"].as_str(), Some("exited 0"));
}

#[test]
fn event_streams_are_bounded() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-watched");
    let pid = pid_of_only(&scratch);
    let serving = Serving::start(&scratch, &[&pid]);
    let path = format!("/api/v1/p/{pid}/events");
    let mut streams: Vec<_> = (0..32).map(|_| events(&serving, &pid)).collect();
    streams.iter_mut().for_each(|stream| drop(stream.next().unwrap()));
    assert_eq!(serving.get(&path).status, 503);
    // Other answers are not kept waiting.
    serving.get(&format!("/api/v1/p/{pid}/report")).good();
    streams.pop();
    wait_until("there is room", || events(&serving, &pid).next().is_some());
    let without = serving.get_with(&path, &[]);
    assert_eq!(without.status, 401);
}

/// The name that the debug information has for the source of the program that holds memory.
fn source_file(serving: &Serving) -> String {
    let report = json(&serving.get("/api/v1/report?view=lines").good().text());
    let rows = report["rows"].as_array().unwrap();
    let files = rows.iter().filter_map(|row| row["file"].as_str());
    let mut files = files.filter(|file| file.ends_with("holds.c"));
    files.next().expect("a row of the program").to_owned()
}

#[test]
fn source_code_stays_beneath_its_root() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-source");
    let pid = pid_of_only(&scratch);
    let root = scratch.open_directory("root");
    let outside = scratch.open_directory("outside");
    fs::write(outside.join("secret.c"), "secret").unwrap();
    let off = Serving::start(&scratch, &[&pid]);
    let file = source_file(&off);
    let ask = |serving: &Serving, file: &str| serving.get(&format!("/api/v1/source?file={file}"));
    let refused = |reply: ramson_tests::serving::Reply, finding: &str| {
        assert_eq!(reply.status, 404, "{}", reply.text());
        let text = reply.text();
        assert_eq!(json(&text)["kind"].as_str(), Some("error"));
        assert!(text.contains(finding) && !text.contains("secret\""), "{text}");
    };
    refused(ask(&off, &file), "Start again with --source-root DIR");
    let serving = Serving::start(&scratch, &[&pid, "--source-root", PROGRAMS]);
    let answer = ask(&serving, &file).good();
    assert!(answer.body.len() <= 64 << 10);
    let answer = json(&answer.text());
    let text = fs::read_to_string(&file).unwrap();
    let mut flat = 0.0;
    let lines = answer["lines"].as_array().unwrap();
    for line in lines {
        let number = line["line"].as_u64().unwrap() as usize;
        assert_eq!(Some(line["text"].as_str().unwrap()), text.lines().nth(number - 1));
        flat += line["flat"]["value"].as_f64().unwrap_or(0.0);
    }
    // All but the buffer of its standard output is allocated by lines of this file, and all of it was recorded.
    let [total, of_file] = ["total", "of_file"].map(|of| answer[of]["value"].as_f64().unwrap());
    assert!(flat > 0.9 * total && flat <= of_file && of_file <= total, "{flat} {answer}");
    refused(ask(&serving, "/etc/passwd"), "not in this profile's debug information");
    refused(ask(&serving, &format!("{file}/../holds.c")), "debug information");
    // In the place of the file there is a link out of the root.
    symlink(outside.join("secret.c"), root.join("holds.c")).unwrap();
    let linked = Serving::start(&scratch, &[&pid, "--source-root", root.to_str().unwrap()]);
    refused(ask(&linked, &file), "a symbolic link");
    fs::remove_file(root.join("holds.c")).unwrap();
    refused(ask(&linked, &file), "not beneath a --source-root");
    // Another tool's file may have any name in it.
    let foreign = scratch.path("holds.pb.gz");
    let words = ["export", &pid, "-f", "pprof", "-o", foreign.to_str().unwrap()];
    say(&scratch, &words).good();
    let imported =
        Serving::start(&scratch, &[foreign.to_str().unwrap(), "--source-root", PROGRAMS]);
    refused(ask(&imported, &file), "for ramson's profiles only");
}

/// Posts with the token and these lines of the head.
fn post(serving: &Serving, path: &str, lines: &str) -> ramson_tests::serving::Reply {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n{lines}"
    );
    let token = format!("Authorization: Bearer {}\r\n\r\n", serving.token);
    serving.send((head + &token).as_bytes())
}

#[test]
fn trim_needs_post_header_and_permission() {
    let scratch = Scratch::new();
    let keeping = Keeping::start(&scratch, &["survivors", "16"], |command| {
        preload(command, "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    });
    let pid = keeping.pid().to_string();
    let path = format!("/api/v1/p/{pid}/trim");
    let action = "X-Ramson-Action: trim\r\n";
    let off = Serving::start(&scratch, &[&pid]);
    let refused = post(&off, &path, action);
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("--allow-actions"), "{}", refused.text());
    let serving = Serving::start(&scratch, &[&pid, "--allow-actions"]);
    for path in [&path, "/api/v1/trim"] {
        assert_eq!(serving.get(path).status, 405);
        assert_eq!(serving.get(path).header("allow"), "POST");
    }
    assert_eq!(post(&serving, &path, "").status, 403);
    assert_eq!(post(&serving, &path, "X-Ramson-Action: free\r\n").status, 403);
    assert_eq!(
        post(&serving, &path, &format!("{action}Origin: http://evil.example\r\n")).status,
        403
    );
    assert_eq!(
        post(&serving, &path, &format!("{action}Sec-Fetch-Site: cross-site\r\n")).status,
        403
    );
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{action}\r\n");
    assert_eq!(serving.send(head.as_bytes()).status, 401);
    let trimmed = post(&serving, &path, &format!("{action}Origin: http://localhost\r\n")).good();
    let trimmed = json(&trimmed.text());
    assert_eq!(trimmed["kind"].as_str(), Some("trim"));
    assert_eq!(trimmed["pid"].to_string(), pid);
    let again = post(&serving, &path, action);
    assert_eq!(again.status, 409);
    assert!(again.text().contains("malloc has no free page"), "{}", again.text());
    for (server, allows) in [(&off, false), (&serving, true)] {
        let sources = json(&server.get("/api/v1/sources").good().text());
        assert_eq!(sources["allows_actions"].as_bool(), Some(allows));
    }
    let stopped = Command::new("kill").args(["-STOP", &pid]).status().unwrap();
    assert!(stopped.success());
    let refused = post(&serving, &path, action);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(json(&refused.text())["message"].as_str().unwrap().contains("stopped"));
}

/// A script that notes its arguments and what is in the file that it is given.
fn browser(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (script, note) = (scratch.path("browser"), scratch.path("note"));
    let text = format!(
        "#!/bin/sh\nstat -c %a \"${{1#file://}}\" > {0}.new\ncat \"${{1#file://}}\" >> {0}.new\necho \"$*\" >> {0}.new\nmv {0}.new {0}\n",
        note.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    (script, note)
}

fn opened(scratch: &Scratch, browser: &Path) -> (Serving, PathBuf) {
    let pid = pid_of_only(scratch);
    let said = scratch.path("said");
    let mut command = ramson(scratch);
    command.args(["serve", "--listen", "127.0.0.1:0", "--open", &pid]).env("BROWSER", browser);
    command.env("XDG_RUNTIME_DIR", scratch.path(".")).stderr(fs::File::create(&said).unwrap());
    (Serving::start_command(&mut command), said)
}

#[test]
fn browser_command_line_hides_token() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-opened");
    let (script, note) = browser(&scratch);
    let (serving, _) = opened(&scratch, &script);
    wait_until("the browser has begun", || note.exists());
    let note = fs::read_to_string(&note).unwrap();
    let (mode, rest) = note.split_once('\n').unwrap();
    let arguments = note.lines().last().unwrap();
    assert_eq!(mode, "600");
    assert!(rest.contains(&serving.line), "{note}");
    assert!(!arguments.contains(&serving.token), "{arguments}");
    drop(serving);
}

#[test]
fn without_a_browser_serving_goes_on() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-unopened");
    let (serving, said) = opened(&scratch, &scratch.path("absent"));
    assert_eq!(serving.get("/healthz").good().text(), "ok\n");
    let said = fs::read_to_string(said).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    let absent = scratch.path("absent");
    assert!(said.contains(&format!("--open: cannot start {}", absent.display())), "{said}");
}

#[test]
fn forged_profile_takes_no_other_id() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-claimed");
    let pid = pid_of_only(&scratch);
    drop(held.0.stdin.take());
    held.wait();
    let before = Serving::start(&scratch, &[]).get(&format!("/api/v1/p/{pid}/report")).good();
    // It says that it is of the same process and has begun later.
    let forged = scratch.path(&format!("profiles/{pid}-99.ramson"));
    fs::create_dir_all(forged.parent().unwrap()).unwrap();
    Forged::new(pid.parse().unwrap()).write(&forged, 64 << 10);
    give(&forged, STRANGER);
    let serving = Serving::start(&scratch, &[]);
    assert_eq!(serving.get(&format!("/api/v1/p/{pid}/report")).good().text(), before.text());
    let sources = json(&serving.get("/api/v1/sources").good().text());
    let ids_of = |name: &str| -> Vec<String> {
        let all = sources["sources"].as_array().unwrap().iter();
        let named = all.filter(|source| source["name"].as_str() == Some(name));
        let mine = named.filter(|source| source["pid"].as_u64() == pid.parse().ok());
        mine.map(|source| source["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids_of("holds-claimed"), std::slice::from_ref(&pid));
    let stranger = format!("u{STRANGER}-{pid}-99");
    assert_eq!(ids_of("forged"), std::slice::from_ref(&stranger));
    serving.get(&format!("/p/{stranger}/debug/pprof/heap")).good();
}
