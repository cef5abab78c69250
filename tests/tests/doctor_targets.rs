//! Which processes `ramson doctor` looks at, and what it says where there is little or nothing to see.

use ramson_tests::keeping::*;
use ramson_tests::servers::*;
use ramson_tests::{program_with, shared_library};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn what_cannot_be_known_of_other_allocators_is_said() {
    for (library, name) in [
        ("libjemalloc.so.2", "jemalloc"),
        ("libtcmalloc.so.4", "tcmalloc"),
        ("libmimalloc.so.2", "mimalloc"),
    ] {
        let scratch = Scratch::new();
        let library = shared_library(library);
        let keeping = Keeping::start(&scratch, &["leak", "16"], |command| {
            command.env("LD_PRELOAD", &library);
        });
        let json = doctor(&scratch, keeping.pid());
        assert!(json.text("allocators.other.name").starts_with(name), "{json:?}");
        assert!(json.text("allocators.other.origin").starts_with("preloaded, "), "{json:?}");
        let why = json.text("books_missing");
        assert!(why.starts_with(name) && why.contains("cannot be read from outside"), "{why}");
        assert!(part(&json, "live") == 0.0 && part(&json, "own_mmaps") > 15.0 * MIB);
    }
}

#[test]
fn the_allocator_is_the_one_in_use_and_not_one_that_is_only_mapped() {
    let scratch = Scratch::new();
    // The C library comes first in the search order, so that jemalloc is never asked.
    let preload = format!("libc.so.6:{}", shared_library("libjemalloc.so.2").display());
    let keeping = Keeping::start(&scratch, &["leak", "16"], |command| {
        command.env("LD_PRELOAD", &preload);
    });
    let json = doctor(&scratch, keeping.pid());
    assert_agrees(&keeping, &json);
    assert!(json.text("allocators.other.name").starts_with("jemalloc"), "{json:?}");
    assert!(part(&json, "live") > 15.0 * MIB, "{json:?}");
}

#[test]
fn a_process_that_ends_meanwhile_is_a_line_and_no_more() {
    let scratch = Scratch::new();
    for delay_ms in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55] {
        let keeping = Keeping::plain(&scratch, &["leak", "64"]);
        let pid = keeping.pid();
        let end = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            signal(pid, "KILL");
        });
        let outcome = finish(ramson(&scratch).args(["doctor", &pid.to_string()]));
        end.join().unwrap();
        match outcome.status {
            0 => assert!(outcome.text().starts_with("RSS "), "{outcome:?}"),
            5 => assert!(outcome.remarks.len() == 1 && outcome.stdout.is_empty(), "{outcome:?}"),
            _ => panic!("{outcome:?}"),
        }
        fs::remove_file(&keeping.log).unwrap();
    }
}

#[test]
fn any_user_may_look_at_a_process_of_its_own_only() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["leak", "16"]);
    let mut look = clean(ramson_program());
    look.args(["doctor", &keeping.pid().to_string()]);
    let outcome = finish(&mut as_user("nobody", &scratch, &look));
    if fs::read_to_string("/proc/self/status").unwrap().contains("Uid:\t0") {
        assert_eq!((outcome.status, outcome.remarks.len()), (1, 1), "{outcome:?}");
        assert!(outcome.remarks[0].contains("Run ramson as user 0 or as root"), "{outcome:?}");
    }
    let program = program_with("keeps.c", "keeps", &["-Wno-deprecated-declarations"]);
    let copied = scratch.open_directory("bin").join("keeps");
    copy(&program, &copied);
    let mut own = clean(copied);
    own.args(["arenas", "16", "2"]);
    let log = scratch.path("own");
    let running = Running::start(&mut as_user("nobody", &scratch, &own), &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let mut look = clean(ramson_program());
    look.args(["doctor", "--json", &running.0.id().to_string()]);
    let json = Json::parse(&finish(&mut as_user("nobody", &scratch, &look)).good().text());
    assert_adds_up(&json);
    assert!(part(&json, "live") > 7.0 * MIB, "{json:?}");
}

#[test]
fn top_tells_what_malloc_keeps_free_as_a_part_of_rss() {
    let scratch = Scratch::new();
    let program = program_with("keeps.c", "keeps", &["-Wno-deprecated-declarations"]);
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "16K", "--max-overhead", "off", "--"]).arg(program);
    command.args(["survivors", "24"]);
    let log = scratch.path("log");
    let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    let _program = Running::start(&mut command, &log, is_ready);
    let pid = profiles(&scratch)[0].header.pid.to_string();
    let object = Json::parse(
        &finish(ramson(&scratch).args(["top", &pid, "--json", "--once"])).good().text(),
    );
    let part = |name: &str| object.number(&format!("resident.{name}"));
    let kept = part("kept_free.value");
    assert!((20e6..26e6).contains(&kept), "{kept}");
    let parts =
        ["live.value", "kept_free.value", "mmap", "files", "stacks", "ramson", "other_anonymous"];
    assert_eq!(parts.into_iter().map(part).sum::<f64>(), part("rss"), "{object:?}");
}

#[test]
fn what_is_no_process_with_memory_is_refused_in_one_line() {
    let scratch = Scratch::new();
    let mut child = Command::new("true").stdout(Stdio::null()).spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    wait_until("it is a zombie", || fs::read_to_string(&stat).unwrap().contains(") Z "));
    let zombie = child.id().to_string();
    let mut cases = vec![
        (zombie.as_str(), 5, "it is dead and waits for its parent"),
        ("4194305", 5, "there is none"),
        ("99999999999", 2, "not a process ID"),
        ("name:no such", 5, "no process has that name"),
        ("/proc/self/exe", 1, "not a profile"),
    ];
    // In a container there is none.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        cases.push(("2", 2, "a kernel thread"));
    }
    for (source, status, finding) in cases {
        let outcome = finish(ramson(&scratch).args(["doctor", source]));
        assert_eq!((outcome.status, outcome.remarks.len()), (status, 1), "{outcome:?}");
        assert!(outcome.remarks[0].contains(finding), "{outcome:?}");
        assert!(outcome.stdout.is_empty());
    }
    child.wait().unwrap();
}

#[test]
fn the_text_begins_with_the_sum_and_survives_a_closed_pipe() {
    let scratch = Scratch::new();
    let keeping = Keeping::plain(&scratch, &["survivors", "16"]);
    let pid = keeping.pid().to_string();
    let text = finish(ramson(&scratch).args(["doctor", &pid])).good().text();
    assert!(text.starts_with("RSS ") && text.contains(" + kept free "), "{text}");
    assert!(
        text.contains("kept free: whole pages") && text.contains("\narena threads heaps"),
        "{text}"
    );
    let mut narrow = ramson(&scratch);
    let narrow = finish(narrow.env("COLUMNS", "60").args(["doctor", &pid])).good().text();
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let shell = format!("{} doctor {pid} | head -1", ramson_program().display());
    let outcome = finish(clean("bash").args(["-o", "pipefail", "-c", &shell])).good();
    assert_eq!(outcome.text().lines().count(), 1);
}
