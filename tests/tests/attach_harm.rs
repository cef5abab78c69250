//! What an attach must not do to a process, whatever that does meanwhile: nothing to another program in it, nothing to its descriptors, and
//! nothing to debuggers that come afterwards.

use ramson_tests::attaching::{Visited, told};
use ramson_tests::program;
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
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

#[test]
fn a_program_that_has_mapped_the_c_library_to_read_it_goes_on() {
    let scratch = Scratch::new();
    let mut reads = Talking::start(&mut clean(program("reads_libc.c")));
    assert_eq!(reads.expect("ready"), 0);
    assert!(told(&scratch, "attach", reads.pid(), &[]).number("slots") > 0.0);
    assert!(told(&scratch, "detach", reads.pid(), &[]).number("slots") > 0.0);
    finish(ramson(&scratch).args(["trim", &reads.pid().to_string()])).good();
    reads.tell("");
    assert!(reads.running.wait().success());
}
