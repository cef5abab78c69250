//! `history` in a real memory control group, as root: a bound that is met is a reason for a snapshot.

use ramson_tests::cgroups::Group;
use ramson_tests::servers::*;
use std::fs;
use std::process::Command;

const LIMIT_MIB: u64 = 48;

/// Says when it has taken the place of the shell that went into the group, and has been sampled.
const IDLE: &str = "import time
kept = bytearray(4 << 20)
print('ready', flush=True)
time.sleep(3600)
";

#[test]
fn cgroup_limit_triggers_snapshot() {
    let scratch = Scratch::new();
    let group = Group::new(LIMIT_MIB);
    let history = scratch.path("history/history.db");
    let script = scratch.file("idle.py", IDLE);
    let idle = format!("{} {}", python().display(), script.display());
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "16K", "--max-overhead", "off", "--", "sh", "-c"]);
    let log = scratch.path("log");
    let is_ready = || fs::read_to_string(&log).is_ok_and(|log| log.contains("ready"));
    let _program = Running::start(command.arg(group.script(&idle)), &log, is_ready);
    let pid = profiles(&scratch)[0].header.pid.to_string();
    let ramson = |words: &[&str]| {
        let mut command = ramson(&scratch);
        command.env("RAMSON_HISTORY", &history).args(words);
        command
    };
    let timeline = || finish(&mut ramson(&["timeline", &pid, "--csv"])).text();
    let mut command = ramson(&["history", "--every", "1h", &pid]);
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
