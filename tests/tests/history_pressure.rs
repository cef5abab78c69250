//! `record` in a real memory control group, as root: a bound that is met is a reason for a snapshot.

use ramson_tests::cgroups::Group;
use ramson_tests::servers::*;
use ramson_tests::{profiles_in, read};
use std::path::PathBuf;
use std::process::Command;

const LIMIT_MIB: u64 = 32;

#[test]
fn a_control_group_that_meets_its_limit_is_a_reason_for_a_snapshot() {
    let scratch = Scratch::new();
    let group = Group::new(LIMIT_MIB);
    let history = scratch.path("history/history.db");
    let script =
        scratch.file("idle.py", "import time\nkept = bytearray(4 << 20)\ntime.sleep(3600)\n");
    let idle = format!("{} {}", python().display(), script.display());
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "16K", "--max-overhead", "off", "--", "sh", "-c"]);
    let is_python = |path: &PathBuf| read(path).is_ok_and(|snapshot| !snapshot.live.is_empty());
    let has_profile = || profiles_in(&scratch.path("profiles")).iter().any(is_python);
    let _program =
        Running::start(command.arg(group.script(&idle)), &scratch.path("log"), has_profile);
    let pid = profiles(&scratch)[0].header.pid.to_string();
    let ramson = |words: &[&str]| {
        let mut command = ramson(&scratch);
        command.env("RAMSON_HISTORY", &history).args(words);
        command
    };
    let timeline = || finish(&mut ramson(&["timeline", &pid, "--csv"])).text();
    let mut command = ramson(&["record", "--every", "1h", &pid]);
    let is_begun = || timeline().contains("start");
    let _recorder = Running::start(&mut command, &scratch.path("recorder"), is_begun);
    assert!(!timeline().contains("pressure"), "{}", timeline());
    // Its pages count for the group, until the kernel takes them for the next ones.
    let filler = scratch.path("filler");
    let fill = format!("dd if=/dev/zero of={} bs=1M count={}", filler.display(), 2 * LIMIT_MIB);
    let filled = Command::new("sh").args(["-c", &group.script(&fill)]).output().unwrap();
    assert!(filled.status.success(), "{filled:?}");
    wait_until("the limit was the reason for a snapshot", || timeline().contains("pressure"));
}
