//! Processes that `ramson attach` refuses, in one line, and leaves as they were.

use ramson_tests::attaching::{refused, told};
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use ramson_tests::{not_here, program, program_with, target_directory};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Everything that an attach could leave behind: mappings, descriptors and threads.
fn facts(pid: u32) -> (String, usize, usize) {
    let count = |name: &str| fs::read_dir(format!("/proc/{pid}/{name}")).unwrap().count();
    (fs::read_to_string(format!("/proc/{pid}/maps")).unwrap(), count("fd"), count("task"))
}

/// Fails unless a program that waits is refused for this reason, has the same facts as before, and ends well when it is told to.
#[track_caller]
fn is_refused(scratch: &Scratch, command: &mut Command, why: &str) {
    let mut talking = Talking::start(command);
    assert_eq!(talking.expect("ready"), 0);
    let before = facts(talking.pid());
    let refusal = refused(scratch, "attach", talking.pid());
    assert!(refusal.contains(why), "{refusal}");
    assert_eq!(facts(talking.pid()), before, "{why}");
    talking.tell("");
    assert!(talking.running.wait().success(), "{why}");
}

fn of_musl(scratch: &Scratch) -> PathBuf {
    let source = target_directory().join("../tests/programs/pauses.c");
    let built = scratch.path("pauses-musl");
    let compiler = installed("musl-gcc", "musl-tools");
    // Without the kernel's headers, which musl's do not have.
    let include = "-idirafter/usr/include";
    let machine = "-idirafter/usr/include/x86_64-linux-gnu";
    finish(clean(compiler).args([include, machine, "-pthread", "-o"]).arg(&built).arg(source))
        .good();
    built
}

#[test]
fn attach_requires_64_bit_glibc() {
    let scratch = Scratch::new();
    let of = |name: &str, how: &str| clean(program_with("pauses.c", name, &[how]));
    is_refused(&scratch, &mut of("pauses-static", "-static"), "statically linked");
    is_refused(&scratch, &mut of("pauses-32", "-m32"), "a 32-bit program");
    is_refused(&scratch, &mut clean(of_musl(&scratch)), "linked with musl");
}

#[test]
fn locked_malloc_refuses_attach() {
    let scratch = Scratch::new();
    is_refused(&scratch, clean(program("pauses.c")).arg("locked"), "stays locked");
}

#[test]
fn strict_seccomp_or_tracer_refuses_attach() {
    let scratch = Scratch::new();
    for (how, why) in [("strict", "seccomp"), ("traced", "traces it already")] {
        let talking = Talking::start(clean(program("pauses.c")).arg(how));
        assert_eq!(talking.expect("ready"), 0);
        let before = facts(talking.pid());
        let refusal = refused(&scratch, "attach", talking.pid());
        assert!(refusal.contains(why), "{how}: {refusal}");
        assert_eq!(facts(talking.pid()), before, "{how}");
    }
}

#[test]
fn changed_loader_list_refuses_attach() {
    let scratch = Scratch::new();
    for how in ["public", "wild", "copies", "tables", "names", "cycle", "self"] {
        for count in ["1", "8000"] {
            let mut lists = clean(program("lists.c"));
            is_refused(&scratch, lists.args([how, count]), "the program has changed it");
        }
    }
    // The same program is attached to if it has changed no entry.
    let mut lists = Talking::start(clean(program("lists.c")).args(["copies", "0"]));
    assert_eq!(lists.expect("ready"), 0);
    assert!(told(&scratch, "attach", lists.pid(), &[]).number("slots") > 0.0);
    lists.tell("");
    assert!(lists.running.wait().success());
}

#[test]
fn root_without_ptrace_is_told() {
    let talking = Talking::start(clean(program("pauses.c")).arg(""));
    assert_eq!(talking.expect("ready"), 0);
    let before = facts(talking.pid());
    let pid = talking.pid().to_string();
    let mut attach = clean(installed("setpriv", "util-linux"));
    attach.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]);
    attach.arg(ramson_program()).args(["attach", &pid]);
    let outcome = finish(attach.env("RAMSON_LIBRARY", ramson_tests::library()));
    if !rustix::process::getuid().is_root() {
        return not_here("another user than root has no capability to give up");
    }
    assert_eq!((outcome.status, outcome.remarks.len()), (1, 1), "{outcome:?}");
    assert!(outcome.remarks[0].contains("--cap-add SYS_PTRACE"), "{outcome:?}");
    assert_eq!(facts(talking.pid()), before);
}

#[test]
fn non_dumpable_program_needs_root() {
    let scratch = Scratch::new();
    let copied = scratch.open_directory("bin").join("pauses");
    copy(&program("pauses.c"), &copied);
    let mut own = clean(copied);
    let secret = Talking::start(&mut as_user("nobody", &scratch, own.arg("secret")));
    assert_eq!(secret.expect("ready"), 0);
    let pid = secret.pid().to_string();
    let mut attach = clean(ramson_program());
    attach.env("RAMSON_LIBRARY", ramson_tests::library());
    let outcome = finish(&mut as_user("nobody", &scratch, attach.args(["attach", &pid])));
    assert!(outcome.status == 1 && outcome.remarks.len() == 1, "{outcome:?}");
    assert!(outcome.remarks[0].contains("sudo"), "{outcome:?}");
    told(&scratch, "attach", secret.pid(), &[]);
    told(&scratch, "detach", secret.pid(), &[]);
}
