//! `ramson explain --ask`: allocators whose books cannot be read say themselves what they have.

use ramson_tests::keeping::{MIB, explain_with, part};
use ramson_tests::servers::*;
use ramson_tests::trimming::{Talking, Waiting, trim as trim_of};
use ramson_tests::{library, program, program_with, shared_library, target_directory};
use std::path::PathBuf;
use std::process::Stdio;

fn asked(scratch: &Scratch, pid: u32) -> Json {
    explain_with(scratch, pid, &["--ask"])
}

/// A figure of the allocator; the names of figures have dots in them.
#[track_caller]
fn figure(json: &Json, name: &str) -> f64 {
    let Json::Object(figures) = json.at("asked.figures") else { panic!("{json:?}") };
    match figures.get(name) {
        Some(Json::Number(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

/// The figures of its allocator that the program prints.
fn figures(talking: &Talking) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    loop {
        let line = talking.line();
        let (name, value) = line.split_once(' ').unwrap();
        if name == "ready" {
            return found;
        }
        found.push((name.to_owned(), value.parse().unwrap()));
    }
}

#[test]
fn asked_figures_match_the_program() {
    let program = program_with("figures.c", "figures", &["-ldl"]);
    for (library, first, count) in [
        ("libjemalloc.so.2", "stats.allocated", 8),
        ("libtcmalloc.so.4", "generic.current_allocated_bytes", 7),
    ] {
        let scratch = Scratch::new();
        let mut command = clean(&program);
        let mut talking = Talking::start(command.env("LD_PRELOAD", shared_library(library)));
        figures(&talking);
        // The first figures are from before the program allocated the memory that printing takes.
        talking.tell("");
        let before = figures(&talking);
        assert_eq!((before.len(), before[0].0.as_str()), (count, first));
        let json = asked(&scratch, talking.pid());
        for (name, value) in &before {
            let told = figure(&json, name);
            // Asking may make the allocator take a little itself.
            assert!((told - value).abs() < 0.1 * MIB, "{name}: {told} {value}");
        }
        assert!((part(&json, "live") - before[0].1).abs() < 0.1 * MIB, "{json:?}");
        assert!(
            part(&json, "live") > 6.0 * MIB && part(&json, "other_anonymous") < 4.0 * MIB,
            "{json:?}"
        );
        // And it goes on as it did.
        talking.tell("");
        assert_eq!(figures(&talking).len(), count);
    }
}

#[test]
fn linked_in_allocator_is_asked() {
    let scratch = Scratch::new();
    let archive = shared_library("libjemalloc.a").display().to_string();
    let options = ["-rdynamic", &archive, "-lm", "-lstdc++", "-ldl", "-lpthread"];
    let program = program_with("figures.c", "figures-inside", &options);
    // A smaller interval would not help, and is not advised.
    let off = ["run", "--inside", "off", "--"];
    let run = finish(ramson(&scratch).args(off).arg(&program).stdin(Stdio::null()));
    let said = run.remarks.join("\n");
    assert!(said.contains("its allocator, jemalloc, is linked into the executable"), "{said}");
    assert!(!said.contains("interval"), "{said}");
    let mut running = ramson(&scratch);
    let running = Talking::start(running.args(off).arg(&program));
    figures(&running);
    let list = finish(ramson(&scratch).args(["list", "--running"])).good();
    assert!(list.text().contains(": its allocator, jemalloc, is linked into"), "{list:?}");
    drop(running);
    let talking = Talking::start(&mut clean(program));
    figures(&talking);
    let check = finish(ramson(&scratch).args(["check", &talking.pid().to_string()])).good();
    let inside = format!("\"ramson attach --inside {}\"", talking.pid());
    assert!(check.text().contains("  allocator  jemalloc, in the executable"), "{check:?}");
    assert!(check.text().contains(&inside), "{check:?}");
    let json = asked(&scratch, talking.pid());
    assert_eq!(json.text("allocators.other.origin"), "in the executable", "{json:?}");
    assert!(part(&json, "live") > 6.0 * MIB && part(&json, "free_in_used_pages") > 6.0 * MIB);
    assert_eq!(json.list("advice")[0].text("cause"), "scattered", "{json:?}");
    // Unasked, nobody knows what is free. Whose memory it is, and which variable configures that, the executable tells.
    let json = explain_with(&scratch, talking.pid(), &[]);
    let advice = &json.list("advice")[0];
    assert_eq!(advice.text("cause"), "other_lever", "{json:?}");
    assert!(advice.text("action").starts_with("start it with MALLOC_CONF="), "{json:?}");
    assert_eq!(json.text("allocators.other.name"), "jemalloc");
}

/// A static jemalloc whose functions have a prefix.
fn prefixed_jemalloc() -> PathBuf {
    let archive = target_directory().join("test-programs/libprefixed.a");
    let mut objcopy = clean("objcopy");
    for name in [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "posix_memalign",
        "aligned_alloc",
        "memalign",
        "valloc",
        "mallocx",
        "rallocx",
        "xallocx",
        "sallocx",
        "dallocx",
        "sdallocx",
        "nallocx",
        "mallctl",
        "mallctlnametomib",
        "mallctlbymib",
        "malloc_usable_size",
        "malloc_stats_print",
    ] {
        objcopy.arg(format!("--redefine-sym={name}=je_{name}"));
    }
    finish(objcopy.arg(shared_library("libjemalloc_pic.a")).arg(&archive)).good();
    archive
}

#[test]
fn prefixed_allocator_inside_is_asked_and_trimmed() {
    let scratch = Scratch::new();
    let archive = prefixed_jemalloc().display().to_string();
    let options = [&archive, "-lm", "-lstdc++", "-lpthread"];
    let program = program_with("prefixed.c", "prefixed", &options);
    let mut command = clean(program);
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    command.env("LD_PRELOAD", library()).env("RAMSON_INSIDE", "on");
    let talking = Talking::start(&mut command);
    let said = figures(&talking);
    let [allocated, active, unused] = [said[0].1, said[1].1, said[2].1];
    let pid = talking.pid();
    let json = asked(&scratch, pid);
    assert_eq!(json.text("inside.origin"), "in the executable", "{json:?}");
    for (name, value) in &said {
        let told = figure(&json, name);
        assert!((told - value).abs() < 0.1 * MIB, "{name}: {told} {value}");
    }
    // 20,000 blocks of 1,000 bytes are the C library's.
    let live = allocated + 20_000.0 * 1008.0;
    // What the samples fall short of the count is called not seen.
    let counted = part(&json, "live") + part(&json, "allocated_before_the_attach_or_not_seen");
    assert!((counted - live).abs() < 1.0 * MIB, "{live}: {json:?}");
    for (name, expected) in
        [("free_whole_pages_inside", unused), ("free_in_used_pages_inside", active - allocated)]
    {
        assert!((part(&json, name) - expected).abs() < 1.0 * MIB, "{name} {expected}: {json:?}");
    }
    let advice = json.list("advice");
    let trim = advice.iter().find(|advice| advice.text("cause") == "other_lever").unwrap();
    assert!(trim.text("action").contains("for good, start it with MALLOC_CONF="), "{trim:?}");
    let options = ["explain", "--ask", "--details", &pid.to_string()];
    let text = finish(ramson(&scratch).args(options)).good().text();
    assert!(text.contains(" + free in jemalloc "), "{text}");
    let trimmed = trim_of(&scratch, pid);
    assert!(trimmed.text("message").contains("mallctl on thread"), "{trimmed:?}");
    assert!((trimmed.number("rss_diff") - unused).abs() < 1.0 * MIB, "{unused}: {trimmed:?}");
}

#[test]
fn redis_agrees_with_asked_jemalloc() {
    let scratch = Scratch::new();
    let socket = scratch.path("redis.sock");
    let ask = |words: &[&str]| {
        let mut client = clean(installed("redis-cli", "redis-tools"));
        finish(client.arg("-s").arg(&socket).args(words)).good().text()
    };
    let mut command = clean(installed("redis-server", "redis-server"));
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
    let log = scratch.path("log");
    let mut server = Running::start(&mut command, &log, || accepts(&socket));
    let script = "for i = 1, 20000 do redis.call('SET', 'key:' .. i, string.rep('x', 1100)) end \
        for i = 1, 20000 do if i % 4 ~= 0 then redis.call('DEL', 'key:' .. i) end end";
    ask(&["EVAL", script, "0"]);
    let json = asked(&scratch, server.0.id());
    let info = ask(&["INFO", "memory"]);
    let said = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.trim().split_once(':'));
        let (_, value) = lines.find(|(key, _)| *key == name).unwrap();
        value.parse::<f64>().unwrap()
    };
    for (own, theirs) in [
        ("stats.allocated", "allocator_allocated"),
        ("stats.active", "allocator_active"),
        ("stats.resident", "allocator_resident"),
    ] {
        let (told, said) = (figure(&json, own), said(theirs));
        // It serves and purges meanwhile.
        assert!((told - said).abs() < 2.0 * MIB, "{own}: {told} {said}");
    }
    assert!(part(&json, "free_in_used_pages") > 5.0 * MIB, "{json:?}");
    assert_eq!(ask(&["DBSIZE"]), "5000\n");
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn failed_ask_still_explains() {
    let scratch = Scratch::new();
    let waiting = Waiting::start("read", |command| {
        command.env("LD_PRELOAD", shared_library("libmimalloc.so.2"));
    });
    let json = asked(&scratch, waiting.pid());
    let why = json.text("asked_missing");
    assert!(
        why.contains("mimalloc has no function that returns its statistics as numbers"),
        "{why}"
    );
    assert!(json.text("statistics_missing").starts_with("mimalloc"), "{json:?}");
    // Nobody of it waits, and its locks cannot be seen.
    let mut computing = clean(program("waits.c"));
    computing.arg("compute").env("LD_PRELOAD", shared_library("libjemalloc.so.2"));
    let computing = Talking::start(&mut computing);
    assert_eq!(computing.expect("ready"), 0);
    let why = asked(&scratch, computing.pid()).text("asked_missing").to_owned();
    assert!(why.contains("no thread is in a safe state for a call"), "{why}");
    // glibc's books are read without.
    let waiting = Waiting::plain("read");
    let json = asked(&scratch, waiting.pid());
    assert_eq!(*json.at("asked"), Json::Word("null".into()));
    assert!(!json.list("statistics.arenas").is_empty());
}

#[test]
fn preloaded_allocator_is_asked_and_trimmed() {
    let scratch = Scratch::new();
    let socket = scratch.path("redis.sock");
    let mut command = clean(installed("redis-server", "redis-server"));
    // Debian's is linked with jemalloc.
    command.env("LD_PRELOAD", shared_library("libtcmalloc.so.4"));
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
    let log = scratch.path("log");
    let mut server = Running::start(&mut command, &log, || accepts(&socket));
    let json = asked(&scratch, server.0.id());
    assert!(json.text("allocators.other.name").starts_with("tcmalloc"), "{json:?}");
    assert_eq!(json.text("asked.function"), "MallocExtension_GetNumericProperty");
    assert!(part(&json, "live") > 0.5 * MIB, "{json:?}");
    let trimmed = trim_of(&scratch, server.0.id());
    let message = trimmed.text("message");
    assert!(message.starts_with("MallocExtension_ReleaseFreeMemory"), "{message}");
    server.signal("TERM");
    assert!(server.wait().success());
}
