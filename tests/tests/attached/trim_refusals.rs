//! Processes that `ramson trim` refuses, in one line, without a change to the program.

use ramson_tests::servers::*;
use ramson_tests::trimming::{Talking, Waiting, refusal};
use ramson_tests::{program, program_with};
use std::fs;
use std::path::Path;

fn pausing(program: &Path, how: &str) -> Talking {
    let talking = Talking::start(clean(program).arg(how));
    assert_eq!(talking.expect("ready"), 0);
    talking
}

#[test]
fn mimalloc_is_not_asked() {
    let scratch = Scratch::new();
    let waiting = Waiting::start("read", |command| {
        command.env("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2");
    });
    let refusal = refusal(&scratch, waiting.pid());
    assert!(refusal.contains("mimalloc") && refusal.contains("MIMALLOC_PURGE_DELAY"), "{refusal}");
    // Who follows the advice has no need to ask.
    let rss = |waiting: &Waiting| {
        let path = format!("/proc/{}/smaps_rollup", waiting.pid());
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let other = Waiting::start("read", |command| {
        command.env("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2");
        command.env("MIMALLOC_PURGE_DELAY", "0").env("MIMALLOC_RESET_DELAY", "0");
    });
    assert!(rss(&other) + (30 << 10) < rss(&waiting), "{} {}", rss(&other), rss(&waiting));
}

#[test]
fn untrimmable_program_is_refused_with_reason() {
    let scratch = Scratch::new();
    for (name, flag, why) in [
        ("pauses-static", "-static", "statically linked"),
        ("pauses-32", "-m32", "a 32-bit program"),
    ] {
        let talking = pausing(&program_with("pauses.c", name, &[flag]), "");
        let refusal = refusal(&scratch, talking.pid());
        assert!(refusal.contains(why), "{refusal}");
    }
    let strict = pausing(&program("pauses.c"), "strict");
    let seccomp = refusal(&scratch, strict.pid());
    assert!(seccomp.contains("seccomp"), "{seccomp}");
    let stopped = pausing(&program("pauses.c"), "");
    stopped.running.signal("STOP");
    wait_until("it is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", stopped.pid())).unwrap();
        stat.contains(") T ")
    });
    let why = refusal(&scratch, stopped.pid());
    assert!(why.contains("it is stopped"), "{why}");
    let traced = pausing(&program("pauses.c"), "traced");
    let why = refusal(&scratch, traced.pid());
    assert!(why.contains("traces it already"), "{why}");
}

#[test]
fn killing_filter_refuses_trim() {
    let scratch = Scratch::new();
    let mut waiting = Waiting::plain("filtered");
    waiting.until_it_waits();
    let why = refusal(&scratch, waiting.pid());
    assert!(why.contains("its seccomp filter might kill it for madvise"), "{why}");
    assert_eq!(waiting.release(""), 1);
    waiting.talking.expect("ready");
    // Another user's ramson may not.
    let copied = scratch.open_directory("bin").join("waits");
    copy(&program("waits.c"), &copied);
    let mut own = clean(copied);
    let talking = Talking::start(&mut as_user("nobody", &scratch, own.arg("filtered")));
    talking.expect("ready");
    let mut trim = clean(ramson_program());
    trim.args(["trim", "--force", &talking.pid().to_string()]);
    let outcome = finish(&mut as_user("nobody", &scratch, &trim));
    let why = "it has a seccomp filter that only root can read";
    assert!(outcome.status == 1 && outcome.remarks[0].contains(why), "{outcome:?}");
}

#[test]
fn locked_arena_refuses_trim() {
    let scratch = Scratch::new();
    let mut talking = pausing(&program("pauses.c"), "locked");
    let why = refusal(&scratch, talking.pid());
    assert!(why.contains("an arena of malloc stays locked"), "{why}");
    // It waits on, and answers.
    talking.tell("");
    assert!(talking.running.wait().success());
}

#[test]
fn wait_in_handler_is_left_alone() {
    let scratch = Scratch::new();
    // With one thread, malloc takes no locks: what the handler interrupted may be in the middle of it.
    let mut waiting = Waiting::plain("handler");
    let why = refusal(&scratch, waiting.pid());
    assert!(why.contains("a signal handler"), "{why}");
    // It was stopped again and again meanwhile, and did not notice.
    assert_eq!(waiting.release(""), 1);
    assert!(waiting.talking.running.wait().success());
}
