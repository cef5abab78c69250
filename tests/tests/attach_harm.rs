//! What an attach must not do to a process, whatever that does meanwhile: nothing to another program in it, nothing to its descriptors, and
//! nothing to debuggers that come afterwards.

use ramson_tests::attaching::{Visited, told};
use ramson_tests::servers::*;
use std::process::Command;

/// Whether a debugger can attach to the process and let go of it again; it is killed if it does not end.
fn debugger_sees_libraries(pid: u32) -> Outcome {
    let mut gdb = Command::new("timeout");
    gdb.args(["-k", "1", "60", "gdb", "-nx", "-p", &pid.to_string(), "-batch"]);
    finish(gdb.args(["-ex", "info sharedlibrary"]).env("DEBUGINFOD_URLS", ""))
}

#[test]
fn a_debugger_can_be_attached_after_an_attach_and_after_a_detach() {
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
