//! Reports name memory that did not come from malloc, with its share of the anonymous memory and the reason; memory that ramson sees needs
//! no word.

use ramson_tests::preload;
use ramson_tests::servers::*;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Starts a program under the library; it has said "ready".
fn start(scratch: &Scratch, program: impl AsRef<Path>, arguments: &[&str]) -> Running {
    let mut command = clean(program.as_ref());
    preload(command.args(arguments), "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let log = scratch.path("log");
    Running::start(&mut command, &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    })
}

/// The line of a report about what did not come from malloc, if it says one; and the same as JSON.
fn coverage(scratch: &Scratch, running: &Running) -> (Option<String>, Json) {
    let pid = running.0.id().to_string();
    let say =
        |more: &[&str]| finish(ramson(scratch).args(["report", &pid]).args(more)).good().text();
    let text = say(&["--view", "health"]);
    let line = text.lines().find(|line| line.starts_with("live is ")).map(str::to_owned);
    (line, Json::parse(&say(&["--json"])))
}

/// At least 100 MiB are outside, and few are seen.
#[track_caller]
fn assert_unseen(scratch: &Scratch, running: &Running, reason: &str) {
    let (line, json) = coverage(scratch, running);
    let line = line.unwrap_or_else(|| panic!("ramson is silent: {json:?}"));
    assert!(line.contains("is outside malloc: ") && line.ends_with(reason), "{line}");
    assert_eq!(line.split_once("; ").unwrap().1, json.text("coverage.reason"));
    let outside = json.number("coverage.outside_bytes");
    assert!((100.0..130.0).contains(&(outside / f64::from(1 << 20))), "{outside}");
    let allocator = json.number("coverage.allocator_bytes");
    assert_eq!(json.number("coverage.anonymous_bytes"), outside + allocator);
}

fn compile(scratch: &Scratch, options: &[&str]) -> std::path::PathBuf {
    let program = scratch.path("unseen");
    let mut gcc = Command::new(installed("gcc", "gcc"));
    finish(
        gcc.args(["-O1", "-Wno-unused-result", "-o"])
            .arg(&program)
            .args(options)
            .arg(real("unseen.c")),
    )
    .good();
    program
}

#[test]
fn mmap_pool_is_reported() {
    let scratch = Scratch::new();
    let running = start(&scratch, compile(&scratch, &[]), &[]);
    let reason = "mapped by a pool or an allocator of the program's own";
    assert_unseen(&scratch, &running, reason);
}

#[test]
fn allocator_in_executable_is_reported() {
    let scratch = Scratch::new();
    let running = start(&scratch, compile(&scratch, &["-DSTATIC_ALLOCATOR"]), &[]);
    let reason = "jemalloc in the executable (\"ramson run --inside on\" records it)";
    assert_unseen(&scratch, &running, reason);
}

#[test]
fn allocator_in_library_is_named() {
    let scratch = Scratch::new();
    let library = scratch.path("libframes.so");
    let mut gcc = Command::new(installed("gcc", "gcc"));
    let options = ["-O1", "-shared", "-fPIC", "-DLIBRARY", "-o"];
    finish(gcc.args(options).arg(&library).arg(real("unseen.c"))).good();
    let program =
        compile(&scratch, &["-DPROGRAM", "-Wl,--no-as-needed", library.to_str().unwrap()]);
    assert_unseen(
        &scratch,
        &start(&scratch, program, &[]),
        "jemalloc inside libframes.so (\"ramson run --inside on\" records it)",
    );
}

#[test]
fn go_heap_is_reported() {
    let scratch = Scratch::new();
    let program = scratch.path("unseen");
    let mut go = clean(installed("go", "golang-go"));
    go.args(["build", "-o"]).arg(&program).arg(real("unseen.go"));
    finish(go.env("GO111MODULE", "off").env("CGO_ENABLED", "1")).good();
    assert_unseen(&scratch, &start(&scratch, program, &[]), "the Go heap");
}

#[test]
fn java_heap_is_reported() {
    let scratch = Scratch::new();
    let mut javac = clean(installed("javac", "default-jdk-headless"));
    finish(javac.arg("-d").arg(scratch.path("")).arg(real("Unseen.java"))).good();
    let classes = scratch.path("").to_string_lossy().into_owned();
    // A heap of which nothing but the objects is touched.
    let options = ["-Xint", "-XX:+UseSerialGC", "-Xmx200m", "-cp", &classes, "Unseen"];
    let java = installed("java", "default-jdk-headless");
    let running = start(&scratch, java, &options);
    let (line, json) = coverage(&scratch, &running);
    let line = line.unwrap_or_else(|| panic!("ramson is silent: {json:?}"));
    assert!(line.ends_with("is outside malloc: the Java heap"), "{line}");
    assert!(json.number("coverage.outside_bytes") >= 100.0 * f64::from(1 << 20), "{json:?}");
}

#[test]
fn fully_seen_redis_gets_no_remark() {
    let scratch = Scratch::new();
    let socket = scratch.path("redis.sock");
    let mut command = clean(installed("redis-server", "redis-server"));
    command
        .args(["--port", "0", "--save", "", "--dir"])
        .arg(scratch.path(""))
        .arg("--unixsocket")
        .arg(&socket);
    preload(&mut command, "64K").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let running = Running::start(&mut command, &scratch.path("log"), || accepts(&socket));
    let mut client = clean(installed("redis-cli", "redis-tools"));
    let script = "for i = 1, 300000 do redis.call('SET', 'key:' .. i, string.rep('x', 100)) end";
    client.arg("-s").arg(&socket).args(["EVAL", script, "0"]);
    finish(&mut client).good();
    let (line, json) = coverage(&scratch, &running);
    assert_eq!(line, None);
    let seen = json.number("coverage.live_bytes") / json.number("coverage.anonymous_bytes");
    assert!(json.number("coverage.anonymous_bytes") > 4e7 && seen > 0.7, "{json:?}");
}

#[test]
fn running_static_program_is_reported() {
    let scratch = Scratch::new();
    let program = compile(&scratch, &["-static"]);
    let log = scratch.path("log");
    let running = Running::start(&mut clean(program), &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let pid = running.0.id().to_string();
    let outcome = finish(ramson(&scratch).args(["report", &pid]));
    assert_eq!((outcome.status, outcome.remarks.len()), (5, 1), "{outcome:?}");
    assert!(outcome.remarks[0].contains("not profiled: statically linked"), "{outcome:?}");
}
