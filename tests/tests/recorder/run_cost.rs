//! Costs of `ramson run` around a program that ends well. The tests count calls, because times depend on the machine.

use ramson_tests::servers::*;
use std::fs;

/// The files that `ramson run -- /bin/true` and its program open.
fn opened_around_true(scratch: &Scratch, profiles: &str) -> Vec<String> {
    let log = scratch.path("calls");
    let mut command = ramson(scratch);
    let program = command.get_program().to_owned();
    let mut strace = clean(installed("strace", "strace"));
    strace.args(["-f", "-qq", "-s", "1000", "-e", "trace=open,openat", "-o"]).arg(&log);
    strace.arg(program).args(["run", "--", "/bin/true"]);
    for (name, value) in command.env("RAMSON_DIR", profiles).get_envs() {
        strace.env(name, value.unwrap_or_default());
    }
    finish(&mut strace).good();
    let calls = fs::read_to_string(&log).unwrap();
    calls.lines().filter_map(|call| Some(call.split('"').nth(1)?.to_owned())).collect()
}

#[test]
fn clean_run_opens_nothing_extra() {
    let scratch = Scratch::new();
    let profiles = scratch.open_directory("profiles");
    for old in ["1-2.ramson", "4711-5.ramson"] {
        fs::write(profiles.join(old), "not read").unwrap();
    }
    let opened = opened_around_true(&scratch, profiles.to_str().unwrap());
    assert!(opened.iter().any(|path| path.ends_with("/libramson.so")), "{opened:?}");
    let is_too_much = |path: &&String| {
        let is_of_a_process = path.starts_with("/proc/") && !path.starts_with("/proc/self/");
        *path == "/dev/kmsg"
            || is_of_a_process && path.ends_with("/maps")
            || path.ends_with(".ramson")
    };
    let too_much: Vec<_> = opened.iter().filter(is_too_much).collect();
    assert!(too_much.is_empty(), "{too_much:?}");
}
