//! `ramson trim` of a profiled program that cannot be traced: a thread that has just taken a sample gives the memory back, where that
//! is harmless, and nowhere else.

use ramson_format::{Function, MOST_PATIENCE_NS, Outcome, Reason, request_check};
use ramson_tests::asking::{Working, now_ns};
use ramson_tests::keeping::MIB;
use ramson_tests::servers::*;
use ramson_tests::trimming::{Talking, refusal, until_trimmed};
use ramson_tests::{program, program_with};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// What `works` keeps, at least.
const KEPT: f64 = 30.0 * MIB;
/// Long enough for a thread to come by on a busy machine.
const LONG: Duration = Duration::from_secs(50);

fn debian_library(name: &str) -> PathBuf {
    Path::new("/usr/lib/x86_64-linux-gnu").join(name)
}

#[track_caller]
fn trim_patiently(scratch: &Scratch, pid: u32) -> Json {
    let mut command = ramson(scratch);
    until_trimmed(command.args(["trim", "--json", &pid.to_string()]))
}

#[test]
fn a_traced_program_gives_its_memory_back_when_it_is_asked_inside() {
    let scratch = Scratch::new();
    for how in ["one", "threads"] {
        let working = Working::start(&scratch, how);
        let before = working.rss();
        let said = trim_patiently(&scratch, working.pid());
        assert_eq!(said.text("way"), "inside");
        let message = said.text("message");
        let is_named = message.starts_with("malloc_trim on thread ")
            && message.ends_with(" (works), asked inside");
        assert!(is_named, "{said:?}");
        // Threads hold a few MiB more or less.
        assert!((said.number("rss_before") - before).abs() < 8.0 * MIB, "{before} {said:?}");
        assert!(said.number("rss_diff") > KEPT, "{said:?}");
        assert!(working.rss() < before - KEPT, "{said:?}");
        assert!(said.number("stopped_ms") > 0.0 && said.number("tid") > 0.0, "{said:?}");
        for _ in 0..5 {
            trim_patiently(&scratch, working.pid());
        }
        working.end();
    }
}

#[test]
fn text_says_that_it_was_asked_inside_and_how_long_the_thread_did_nothing_else() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "one");
    let text = finish(ramson(&scratch).args(["trim", &working.pid().to_string()])).good().text();
    let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(first.contains("MiB given back in "), "{text}");
    assert!(second.starts_with("malloc_trim on thread "), "{text}");
    assert!(second.contains(", asked inside, which did nothing else for "), "{text}");
    working.end();
}

#[test]
fn without_the_right_to_trace_trim_and_run_ask_inside() {
    let scratch = Scratch::new();
    let denies = program_with("denies.c", "denies.so", &["-shared", "-fPIC"]);
    let working = Working::start(&scratch, "untraced");
    let mut command = ramson(&scratch);
    command.args(["trim", "--json", &working.pid().to_string()]).env("LD_PRELOAD", &denies);
    let said = until_trimmed(&mut command);
    assert_eq!(said.text("way"), "inside");
    assert!(said.number("rss_diff") > KEPT, "{said:?}");
    working.end();
    let log = scratch.path("trims");
    let mut command = ramson(&scratch);
    command.env("LD_PRELOAD", &denies).args(["run", "--interval", "4K", "--max-overhead", "off"]);
    command.args(["--trim-every", "100ms", "--trim-log"]).arg(&log);
    let mut talking = Talking::start(command.arg("--").arg(program("works.c")).arg("untraced"));
    assert_eq!(talking.expect("ready"), 0);
    let logged = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let mut lines = text.lines().filter(|line| line.ends_with('}')).map(Json::parse);
        lines.find(|said| said.text("message").ends_with(", asked inside"))
    };
    wait_until("it is trimmed", || logged().is_some());
    let said = logged().unwrap();
    assert_eq!(said.text("way"), "inside");
    signal(said.number("pid") as u32, "USR1");
    assert_eq!(talking.expect("wrong"), 0);
    assert_eq!(code(talking.running.wait()), 0);
}

#[test]
fn threads_that_only_compute_over_other_allocators_are_asked_for_their_own_function() {
    let scratch = Scratch::new();
    for (library, function, least) in [
        ("libjemalloc.so.2", "mallctl on thread ", KEPT),
        // Its threads keep a part in their caches.
        ("libtcmalloc.so.4", "MallocExtension_ReleaseFreeMemory on thread ", KEPT / 2.0),
    ] {
        // Nobody traces it; but none of its threads waits.
        let working = Working::over(&scratch, "untraced", Some(&debian_library(library)));
        let said = trim_patiently(&scratch, working.pid());
        assert_eq!(said.text("way"), "inside", "{said:?}");
        assert!(said.text("message").starts_with(function), "{said:?}");
        assert!(said.number("rss_diff") > least, "{said:?}");
        working.end();
    }
    // mimalloc has none; jemalloc's may need more than 40 KiB of stack, which glibc's does not.
    let [jemalloc, mimalloc] = ["libjemalloc.so.2", "libmimalloc.so.2"].map(debian_library);
    for (how, allocator, outcome) in [
        ("one", Some(&mimalloc), Outcome::Refused(Reason::Allocator)),
        ("small", Some(&jemalloc), Outcome::Refused(Reason::Room)),
        ("small", None, Outcome::Called(Function::MallocTrim)),
    ] {
        let working = Working::over(&scratch, how, allocator.map(PathBuf::as_path));
        let words = working.words(&scratch);
        words.ask(1, LONG);
        wait_until("it answers", || words.done() == 1);
        assert_eq!(words.outcome(), Some(outcome), "{how} {allocator:?}");
        working.end();
    }
}

#[test]
fn what_is_never_harmless_is_never_done() {
    let scratch = Scratch::new();
    for (how, reason) in [
        ("handler", Reason::Frames),
        ("untold", Reason::Frames),
        ("lying", Reason::Frames),
        ("restorer", Reason::Frames),
        ("alternate", Reason::Stack),
        ("within", Reason::Stack),
        ("coroutine", Reason::Stack),
        ("forks", Reason::Inside),
        ("locked", Reason::Locked),
    ] {
        let working = Working::start(&scratch, how);
        let words = working.words(&scratch);
        words.ask(1, LONG);
        wait_until(&format!("{how} is refused"), || words.done() == 1);
        assert_eq!(words.outcome(), Some(Outcome::Refused(reason)), "{how}");
        assert_eq!((words.taken(), words.number()), (1, 0), "{how}");
        working.end();
    }
}

#[test]
fn a_program_that_confined_itself_serves_nothing() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "filtered");
    let words = working.words(&scratch);
    words.ask(1, LONG);
    let before = words.samples();
    wait_until("it has had occasion to", || words.samples() > before + 1000);
    assert_eq!((words.taken(), words.number()), (0, 1));
    let why = refusal(&scratch, working.pid());
    assert!(why.contains("traces it already") && !why.contains("asked inside"), "{why}");
    working.end();
}

#[test]
fn a_filter_that_is_installed_meanwhile_waits_and_no_signal_stays_blocked() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "confines");
    let words = working.words(&scratch);
    words.ask(1, LONG);
    assert_eq!(working.talking.expect("confined"), 0);
    assert_eq!((words.done(), words.outcome()), (1, Some(Outcome::Called(Function::MallocTrim))));
    // The thread has still to return from there.
    wait_until("no signal is blocked", || {
        let tasks = fs::read_dir(format!("/proc/{}/task", working.pid())).unwrap().flatten();
        let statuses = tasks.map(|task| fs::read_to_string(task.path().join("status")).unwrap());
        statuses.into_iter().all(|status| status.contains("SigBlk:\t0000000000000000"))
    });
    working.end();
}

#[test]
fn a_refusal_names_both_ways() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "coroutine");
    let why = refusal(&scratch, working.pid());
    assert!(why.contains("traces it already") && why.contains("stacks of coroutines"), "{why}");
    working.end();
}

#[test]
fn children_that_share_the_file_or_the_memory_are_not_who_is_asked() {
    let scratch = Scratch::new();
    let both: Vec<_> = ["child", "shared"].map(|how| Working::start(&scratch, how)).into();
    // Each waits for as long as ramson does: at once.
    thread::scope(|scope| {
        let ask = |working: &Working| {
            let (scratch, pid) = (&scratch, working.pid());
            scope.spawn(move || refusal(scratch, pid))
        };
        let refusals: Vec<_> = both.iter().map(ask).collect();
        for refusal in refusals {
            let why = refusal.join().unwrap();
            assert!(why.contains("no thread of it took a sample"), "{why}");
        }
    });
    for working in both {
        assert_eq!(working.words(&scratch).taken(), 0);
        working.end();
    }
}

#[test]
fn a_request_that_is_corrupt_or_out_of_date_is_not_served() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "threads");
    let words = working.words(&scratch);
    let now = now_ns();
    let ahead = now + LONG.as_nanos() as u64;
    // Nobody asked with these words.
    for (number, deadline_ns, check) in [
        (1, ahead, 0),
        (1, ahead, request_check(2, ahead)),
        (1, ahead, request_check(1, ahead) ^ 1 << 40),
        (u64::MAX, 0, u64::MAX),
        (u64::MAX, u64::MAX, u64::MAX),
    ] {
        words.write(number, deadline_ns, check);
        let before = words.samples();
        wait_until("threads have come by", || words.samples() > before + 100);
        assert_eq!(words.number(), number);
    }
    // Nor is it time for these.
    for deadline_ns in [now, 0, u64::MAX, now + 2 * MOST_PATIENCE_NS] {
        words.write(1, deadline_ns, request_check(1, deadline_ns));
        wait_until("it is dropped", || words.number() == 0);
    }
    assert_eq!((words.taken(), words.done()), (0, 0));
    // And one that is right is served.
    let said = trim_patiently(&scratch, working.pid());
    assert!(said.number("rss_diff") > KEPT, "{said:?}");
    working.end();
}

#[test]
fn two_who_ask_at_once_are_served_one_after_the_other() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "threads");
    let (pid, words) = (working.pid(), working.words(&scratch));
    thread::scope(|scope| {
        let ask = || trim_patiently(&scratch, pid);
        let trims: Vec<_> = (0..2).map(|_| scope.spawn(ask)).collect();
        for trim in trims {
            assert_eq!(trim.join().unwrap().text("way"), "inside");
        }
    });
    // Each had a number of its own.
    let served = words.taken();
    assert!(served >= 2);
    words.lock();
    let why = refusal(&scratch, pid);
    assert!(why.contains("another ramson has just asked it"), "{why}");
    assert_eq!((words.taken(), words.number()), (served, 0));
    working.end();
}

#[test]
fn whoever_is_killed_while_it_asks_leaves_nothing_that_is_served_late() {
    let scratch = Scratch::new();
    let working = Working::start(&scratch, "later");
    let words = working.words(&scratch);
    let mut command = ramson(&scratch);
    command.args(["trim", &working.pid().to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut asking = Running(command.spawn().unwrap());
    wait_until("it asks", || words.number() != 0 || asking_has_ended(&working, &asking));
    asking.0.kill().unwrap();
    asking.wait();
    let left = words.number();
    assert_ne!(left, 0);
    // As if its time were over.
    let past = now_ns() - 1;
    words.write(left, past, request_check(left, past));
    working.talking.running.signal("USR2");
    wait_until("it is dropped", || words.number() == 0);
    assert_eq!((words.taken(), words.done()), (0, 0));
    // Nobody is in the way of the next one.
    assert!(trim_patiently(&scratch, working.pid()).number("rss_diff") > KEPT);
    working.end();
}

/// It asks for seconds; a machine that is slower than that has missed it.
fn asking_has_ended(working: &Working, asking: &Running) -> bool {
    let path = format!("/proc/{}/stat", asking.0.id());
    let has_ended = fs::read_to_string(path).is_ok_and(|stat| stat.contains(") Z "));
    assert!(!has_ended, "{} was not asked", working.pid());
    false
}
