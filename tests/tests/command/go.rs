//! Go programs that run without ramson: their own heap profile, read out of their memory.

use ramson_tests::golang::*;
use ramson_tests::servers::*;
use ramson_tests::several::{json, say};
use std::os::unix::process::CommandExt;

#[test]
fn heap_of_go_is_what_its_own_profile_has() {
    let scratch = Scratch::new();
    let stripped = "-ldflags=-s -w";
    for (name, flags) in [("shop", &[][..]), ("shop-pie", &["-buildmode=pie", stripped])] {
        let running = start(&go(ONE), &scratch, name, SHOP, flags);
        // As after an upgrade.
        std::fs::remove_file(scratch.path(name)).unwrap();
        assert_equals_own(&scratch, name, running.0.id());
        let report = say(&scratch, &["report", &running.0.id().to_string()]).good().text();
        assert!(report.contains(": RSS ") && report.contains("main.open  main.go:"), "{report}");
    }
}

#[test]
fn heap_of_another_users_go_program_is_read() {
    const USER: u32 = 1501;
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "shop", SHOP, &["-ldflags=-s"]);
    let mut command = clean(program);
    let running = run(command.arg("/dev/null").uid(USER).gid(USER), &scratch.path("shop.log"));
    let stacks = rows(&scratch, &running.0.id().to_string(), "live");
    let of = |name: &str| stacks.iter().any(|(stack, _)| stack.starts_with(name));
    assert!(of("main.open main.go:") && of("main.inlined main.go:"), "{stacks:#?}");
}

#[test]
fn heaps_of_c_and_of_go_are_one_report() {
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "mixed", WITH_C, &[]);
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "--"]).arg(program);
    let _running = run(&mut command, &scratch.path("mixed.log"));
    let live = rows(&scratch, "mixed", "live");
    // What the allocators round up to.
    for (stack, bytes) in [
        ("grab main.go:6 ← main._Cfunc_grab ", 50008.0),
        ("main.register main.go:26 ← main.main.func1 ", 4008.0),
        ("main.openSession main.go:29 ← main.main.func1 ", 10240.0),
    ] {
        let found = live.iter().filter(|row| row.0.starts_with(stack));
        let found: f64 = found.map(|row| row.1).sum();
        // The runtime may take a little for itself below the same function.
        assert!((0.0..1024.0).contains(&(found - 500.0 * bytes)), "{stack}: {live:#?}");
    }
    assert!(live.iter().all(|row| !row.0.contains("goexit")), "{live:#?}");
    let explained = json(&scratch, &["explain", "mixed"]);
    let part = |name: &str| explained.number(&format!("parts.{name}"));
    assert!(part("go_live") > 0.0 && part("live") > 500.0 * 54016.0, "{explained:?}");
    let text = say(&scratch, &["report", "mixed"]).good().text();
    assert!(text.contains(" in both\n") && !text.contains("not complete"), "{text}");
}

#[test]
fn history_keeps_the_heap_of_go() {
    let scratch = Scratch::new();
    let running = start(&go(ONE), &scratch, "shop", SHOP, &["-ldflags=-s -w"]);
    let pid = running.0.id().to_string();
    let history = scratch.path("history.db").display().to_string();
    let checked = say(&scratch, &["check", &pid]).good().text();
    assert!(checked.contains("Go itself takes one sample per 512 KiB"), "{checked}");
    let mut recorder = ramson(&scratch);
    recorder.args(["history", &pid, "-o", &history, "--every", "1s"]);
    let has_begun = || say(&scratch, &["report", &history]).status == 0;
    let recorder = Running::start(&mut recorder, &scratch.path("recorder"), has_begun);
    recorder.signal("INT");
    drop(recorder);
    for count in ["live", "live-objects", "allocated", "allocations"] {
        let (now, kept) = (rows(&scratch, &pid, count), rows(&scratch, &history, count));
        assert_eq!(now.len(), kept.len(), "{count}: {now:#?} {kept:#?}");
        let is_same = |(now, kept): (&(String, f64), &(String, f64))| {
            // Half a step of 1/96 of a sample.
            now.0 == kept.0 && (now.1 - kept.1).abs() <= now.1 / 192.0 + 1.0
        };
        assert!(now.iter().zip(&kept).all(is_same), "{count}: {now:#?} {kept:#?}");
    }
}

#[test]
fn leak_of_go_is_found_since_a_mark() {
    let scratch = Scratch::new();
    let running = start(&go(ONE), &scratch, "leaks", LEAKS, &[]);
    let pid = running.0.id().to_string();
    say(&scratch, &["mark", &pid, "before"]).good();
    std::thread::sleep(std::time::Duration::from_secs(4));
    for how in [&["--since", "before"][..], &["--window", "4s"]] {
        let leaks = json(&scratch, &[&["leaks", &pid, "--min-age", "1s"], how].concat());
        let suspects = leaks.list("suspects").iter();
        let suspects = suspects.filter(|it| it.text("verdict") == "growing");
        let names: Vec<&str> = suspects.map(|it| it.text("function")).collect();
        assert_eq!(names, ["main.keep"], "{how:?} {leaks:?}");
    }
    let top = json(&scratch, &["top", "--once", &pid]);
    let row = |number: usize| &top.list("rows")[number];
    assert!(row(0).text("name").starts_with("main.keep "), "{top:?}");
    assert!(row(1).text("name").starts_with("main.replace "), "{top:?}");
    // Each of them takes 10,240 bytes.
    assert_eq!(row(1).number("live.value"), 64.0 * 10240.0, "{top:?}");
    let text = say(&scratch, &["top", "--once", &pid]).good().text();
    assert!(text.contains("RSS, 1 s ago: Go heap ") && !text.contains("rest"), "{text}");
}

#[test]
fn go_program_without_a_profile_says_why() {
    let scratch = Scratch::new();
    let running = start(&go(ONE), &scratch, "plain", PLAIN, &[]);
    let refused = say(&scratch, &["report", &running.0.id().to_string()]);
    assert_eq!(refused.status, 5, "{refused:?}");
    assert!(refused.remarks[0].contains("Go's heap profile is off"), "{refused:?}");
    let checked = say(&scratch, &["check", &running.0.id().to_string()]).good().text();
    assert!(checked.contains("! Go ") && checked.contains("heap profile is off"), "{checked}");
}

#[test]
fn static_go_program_needs_no_recording() {
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "plain", PLAIN, &["-ldflags=-s -w"]);
    let mut command = ramson(&scratch);
    let log = scratch.path("run.log");
    let running = run(command.args(["run", "--"]).arg(&program), &log);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("Go's own heap profile is read while it runs"), "{text}");
    let refused = say(&scratch, &["attach", "name:plain"]);
    assert!(refused.remarks[0].contains("a Go program without C. \"ramson report"), "{refused:?}");
    drop(running);
}

#[test]
fn memory_of_go_is_explained() {
    assert_memory_is_explained(ONE);
}

#[test]
fn collections_of_go_are_read() {
    assert_collections_are_read(ONE);
}

#[test]
fn goroutines_of_go_are_read() {
    assert_goroutines_are_read(ONE);
}

#[test]
fn goroutines_in_c_are_read() {
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "calls", CALLS, &["-ldflags=-s -w"]);
    let running = run(&mut clean(&program), &scratch.path("calls.log"));
    let explained = json(&scratch, &["explain", &running.0.id().to_string()]);
    let places = explained.list("goroutines.places");
    for (within, reason, started_in, count) in [
        ("main.goCallback", "chan receive", "main.main", 5.0),
        ("main.inC", "cgo call", "main.main", 3.0),
        ("main.reads", "syscall", "main.main", 4.0),
    ] {
        let is_it = |place: &&Json| place.text("within.function") == within;
        let place = places.iter().find(is_it).unwrap_or_else(|| panic!("{within}: {places:?}"));
        assert_eq!((place.text("reason"), place.number("count")), (reason, count), "{place:?}");
        assert_eq!(place.text("started_in.function"), started_in, "{place:?}");
    }
    // main.main, too.
    assert_eq!(explained.number("goroutines.count"), 13.0, "{explained:?}");
}

#[test]
fn goroutines_that_become_more_are_suspects() {
    let scratch = Scratch::new();
    let program = built(&go(ONE), &scratch, "waits", WAITS, &["-ldflags=-s -w"]);
    for (argument, status) in [(None, 0), (Some("more"), 3)] {
        let mut command = clean(&program);
        let running = run(command.args(argument), &scratch.path("waits.log"));
        let pid = running.0.id().to_string();
        let window = ["--window", "5s", "--min-age", "1s", "--fail-on", "growing"];
        let found = say(&scratch, &[&["leaks", &pid][..], &window].concat());
        assert_eq!(found.status, status, "{found:?}");
        let text = found.text();
        let first = text.lines().next().unwrap();
        let suspect = "(chan receive), started in main.serve:";
        let is_suspect = first.starts_with("goroutine leak suspect: ") && first.contains(suspect);
        assert_eq!(is_suspect, argument.is_some(), "{text}");
        assert!(!text.contains("main.request"), "{text}");
    }
}

#[test]
fn gc_of_others_says_what_it_takes() {
    let scratch = Scratch::new();
    let mut sleeper = clean("sleep");
    let sleeper = Running(sleeper.arg("1000").spawn().unwrap());
    let refused = say(&scratch, &["gc", &sleeper.0.id().to_string()]);
    assert_eq!(refused.status, 5, "{refused:?}");
    assert!(refused.remarks[0].contains("no Go program"), "{refused:?}");
    std::fs::write(scratch.path("log"), "gc is never here\n").unwrap();
    let refused = say(&scratch, &["gc", &scratch.path("log").display().to_string()]);
    assert!(refused.remarks[0].contains("no GODEBUG=gctrace=1 line"), "{refused:?}");
}
