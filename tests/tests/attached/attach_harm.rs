//! Harm that an attach must not do to a process, whatever the process does meanwhile: none to another program in it, none to its
//! descriptors, and none to debuggers that come afterwards.

use ramson_tests::attaching::{Visited, told};
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use ramson_tests::{program, program_with};
use std::process::Command;

/// Whether a debugger can attach to the process and let go of it again; it is killed if it does not end.
fn debugger_sees_libraries(pid: u32) -> Outcome {
    let mut gdb = Command::new("timeout");
    gdb.args(["-k", "1", "60", "gdb", "-nx", "-p", &pid.to_string(), "-batch"]);
    finish(gdb.args(["-ex", "info sharedlibrary"]).env("DEBUGINFOD_URLS", ""))
}

#[test]
fn debugger_works_after_attach_and_detach() {
    let scratch = Scratch::new();
    // Without threads that wait: the debugger's own stops interrupt epoll_wait.
    let mut visited = Visited::start(0);
    for command in ["attach", "detach", "attach"] {
        told(&scratch, command, visited.pid(), &[]);
        let seen = debugger_sees_libraries(visited.pid());
        assert_eq!(seen.status, 0, "{seen:?}");
        assert!(seen.text().contains("libc.so.6"), "{seen:?}");
        visited.tell("hold 10");
    }
    told(&scratch, "detach", visited.pid(), &[]);
    visited.talking.tell("quit");
    assert!(visited.talking.running.wait().success());
}

#[test]
fn own_c_library_is_entered() {
    let scratch = Scratch::new();
    for how in ["read", "namespace"] {
        let mut two = Talking::start(clean(program("two_libcs.c")).arg(how));
        assert_eq!(two.expect("ready"), 0);
        assert!(told(&scratch, "attach", two.pid(), &[]).number("slots") > 0.0, "{how}");
        assert!(told(&scratch, "detach", two.pid(), &[]).number("slots") > 0.0, "{how}");
        // Two C libraries with an allocator each are not trimmed.
        let trim = finish(ramson(&scratch).args(["trim", "--force", &two.pid().to_string()]));
        assert_eq!(trim.status, i32::from(how == "namespace"), "{trim:?}");
        two.tell("");
        assert!(two.running.wait().success(), "{how}");
    }
}

// Which pages the loader made readable only is not what counts, but which are now.
#[test]
fn writable_page_stays_writable() {
    let scratch = Scratch::new();
    let flags = ["-Wl,-z,relro", "-Wl,-z,now"];
    let mut rewrites = Talking::start(&mut clean(program_with("rewrites.c", "rewrites", &flags)));
    rewrites.expect("ready");
    for (times, command) in ["attach", "detach", "attach"].into_iter().enumerate() {
        let slots = told(&scratch, command, rewrites.pid(), &[]).number("slots");
        assert!(slots > 0.0, "{command}");
        rewrites.tell("");
        assert_eq!(rewrites.expect("wrote"), times as i64 + 1, "after {command}");
    }
}
