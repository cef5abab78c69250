//! Root's `ramson` beside processes that never answer, as a file system of their user's is behind what is to be read.

use ramson_format::RegionKind::Stacks;
use ramson_tests::forged::Forged;
use ramson_tests::servers::*;
use ramson_tests::strangers::{Cost, copied, cost_within};
use ramson_tests::trimming::Talking;
use ramson_tests::{library, preload, profiles_in, program};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::scope;

/// With 10 ms for each page, more than twice what is read of one user in the time that is allowed.
const DRIPPING_BYTES: u64 = 10 << 20;
/// More than a command may wait for all that one user owns, and a busy machine.
const MOST_SECONDS: u32 = 40;

/// Starts `mute HOW`; and the process of the stranger, which it tells. Each is another one: what those of one user keep waiting is counted together.
fn mute(scratch: &Scratch, how: &str) -> (Talking, u32) {
    mute_with(scratch, how, None)
}

fn mute_with(scratch: &Scratch, how: &str, profile: Option<&Path>) -> (Talking, u32) {
    static USERS: AtomicU32 = AtomicU32::new(1600);
    let user = USERS.fetch_add(1, Relaxed).to_string();
    let mut command = clean(copied(scratch, &program("mute.c"), "mute"));
    command.arg(how).arg(scratch.open_directory("mounted")).arg(library()).arg(user).args(profile);
    command.env("RAMSON_DIR", scratch.open_directory("profiles"));
    let talking = Talking::start(&mut command);
    let pid = talking.expect("ready") as u32;
    (talking, pid)
}

/// Runs a command, fails unless it ends within its time, and returns its output and costs.
#[track_caller]
fn answer(scratch: &Scratch, words: &[&str]) -> Cost {
    answer_within(scratch, None, words)
}

/// The same from the mount namespace of process `inside`.
#[track_caller]
fn answer_within(scratch: &Scratch, inside: Option<u32>, words: &[&str]) -> Cost {
    let mut command = ramson(scratch);
    if let Some(pid) = inside {
        let mut entering = clean(installed("nsenter", "util-linux"));
        entering.arg(format!("--mount=/proc/{pid}/ns/mnt")).arg(command.get_program());
        entering.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command = entering;
    }
    let cost = cost_within(command.args(words), MOST_SECONDS);
    assert!(cost.status.is_some(), "{words:?}: no answer");
    cost
}

/// The line about it.
fn silence(pid: u32) -> String {
    format!("process {pid} (mute): it did not answer in ")
}

fn others_are_listed(scratch: &Scratch, pid: u32, words: &[&str]) {
    let list = answer(scratch, words);
    assert_eq!(list.status, Some(0), "{list:?}");
    assert!(list.text.contains("exits"), "{list:?}");
    assert!(list.text.contains(&silence(pid)), "{list:?}");
}

fn it_is_a_line(scratch: &Scratch, pid: u32, command: &str) {
    let one = answer(scratch, &[command, &pid.to_string()]);
    assert_eq!(one.status, Some(1), "{one:?}");
    assert_eq!(one.text.lines().count(), 1, "{one:?}");
    // A trim needs no profile, and finds no malloc in what it was not told.
    assert!(command == "trim" || one.text.contains(&silence(pid)), "{one:?}");
}

/// Fails unless each command reports a process that does not answer in this way. All commands run at once, because each waits by itself.
fn a_silent_process_is_a_line(how: &str) {
    let scratch = &Scratch::new();
    let mut honest = clean(program("exits.c"));
    let profiles = scratch.open_directory("profiles");
    finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &profiles));
    let (_mute, pid) = mute(scratch, how);
    scope(|scope| {
        for words in [&["list"][..], &["list", "--json"]] {
            scope.spawn(move || others_are_listed(scratch, pid, words));
        }
        for command in ["report", "explain", "trim"] {
            scope.spawn(move || it_is_a_line(scratch, pid, command));
        }
        let top = answer(scratch, &["top", "--once"]);
        assert_eq!(top.status, Some(0), "{how}: {top:?}");
    });
}

/// A file system that always goes on answering costs its user's rows some seconds, and nobody else's.
#[test]
fn dripping_profile_delays_nobody() {
    let scratch = &Scratch::new();
    let profiles = scratch.open_directory("profiles");
    let mut honest = clean(program("exits.c"));
    finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &profiles));
    let dripping = scratch.path("dripping");
    let mut forged = Forged::new(1);
    forged.place(Stacks, 1 << 20, DRIPPING_BYTES / Stacks.entry_bytes());
    forged.write(&dripping, 64 << 20);
    let (_mute, pid) = mute_with(scratch, "drips", Some(&dripping));
    let mut list = ramson(scratch);
    let mut list = list.arg("list").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(list.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(rows.any(|row| row.contains("exits")));
    assert!(list.try_wait().unwrap().is_none(), "it waits for the other user's rows");
    let ended = list.wait_with_output().unwrap();
    assert!(ended.status.success());
    let remarks = String::from_utf8(ended.stderr).unwrap();
    assert!(remarks.contains("used up the time allowed"), "{remarks}");
    let report = answer(scratch, &["report", &pid.to_string()]);
    assert_eq!(report.status, Some(1), "{report:?}");
    assert_eq!(report.text.lines().count(), 1, "{report:?}");
}

#[test]
fn mute_process_is_one_line() {
    ["profile", "maps", "opens"].into_iter().for_each(a_silent_process_is_a_line);
}

/// A profile of its own says what can be said without that file system. One command after the other: what one keeps waiting is the same for all.
#[test]
fn mute_executable_is_reported_without_symbols() {
    let how = "runs";
    let scratch = &Scratch::new();
    let (_mute, pid) = mute(scratch, how);
    let words = pid.to_string();
    let list = answer(scratch, &["list"]);
    assert_eq!(list.status, Some(0), "{list:?}");
    assert!(list.text.contains(&format!("mute {how}")), "{list:?}");
    for command in ["report", "explain", "leaks"] {
        let one = answer(scratch, &[command, &words]);
        assert_eq!(one.status, Some(0), "{command}: {one:?}");
        assert!(one.text.contains(&format!("mute (pid {pid})")), "{command}: {one:?}");
    }
    let trim = answer(scratch, &["trim", "--force", &words]);
    assert_eq!(trim.status, Some(0), "{trim:?}");
    let top = answer(scratch, &["top", "--once"]);
    assert_eq!(top.status, Some(0), "{top:?}");
}

/// What the kernel tells is read, and its profile; no file in its root directory answers.
#[test]
fn mute_root_directory_delays_nobody() {
    let scratch = &Scratch::new();
    let mut honest = clean(program("exits.c"));
    let profiles = scratch.open_directory("profiles");
    finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &profiles));
    let (_mute, pid) = mute(scratch, "overlays");
    let words = pid.to_string();
    // The lock on its profile tells that it runs.
    let list = answer(scratch, &["list"]);
    let row = list.text.lines().find(|line| line.trim_start().starts_with(&words));
    assert!(list.status == Some(0) && list.text.contains("exits"), "{list:?}");
    assert!(row.is_some_and(|row| row.contains(" running ")), "{list:?}");
    let report = answer(scratch, &["report", &words]);
    assert_eq!(report.status, Some(0), "{report:?}");
    assert!(report.text.contains(&format!("mute (pid {pid})")), "{report:?}");
    let explained = answer(scratch, &["explain", &words]);
    assert_eq!(explained.status, Some(0), "{explained:?}");
    assert!(explained.text.contains(&format!("mute (pid {pid})")), "{explained:?}");
    let trim = answer(scratch, &["trim", &words]);
    assert_eq!(trim.status, Some(1), "{trim:?}");
    assert!(trim.text.contains("malloc has no free page"), "{trim:?}");
    let top = answer(scratch, &["top", "--once"]);
    assert_eq!(top.status, Some(0), "{top:?}");
}

#[test]
fn unstoppable_thread_delays_nobody() {
    let scratch = Scratch::new();
    let (_mute, pid) = mute(&scratch, "reads");
    let state = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let trim = answer(&scratch, &["trim", "--force", &pid.to_string()]);
    assert_eq!(trim.status, Some(1), "{trim:?}");
    assert!(trim.text.starts_with(&format!("ramson: process {pid} (mute): ")), "{trim:?}");
    assert!(trim.text.contains("it does not stop"), "{trim:?}");
    assert_eq!(trim.text.lines().count(), 1, "{trim:?}");
    // The process that had begun to trace it ends by itself.
    wait_until("nothing traces it", || state().contains("TracerPid:\t0\n"));
    // Who asks the command to end need not wait either.
    let mut command = ramson(&scratch);
    let trim = command.args(["trim", "--force", &pid.to_string()]);
    let mut running = Running::start(trim, &scratch.path("log"), || true);
    wait_until("it is traced", || !state().contains("TracerPid:\t0\n"));
    running.signal("INT");
    assert!(!running.0.wait().unwrap().success());
    wait_until("nothing traces it", || state().contains("TracerPid:\t0\n"));
}

/// A profile that names a file there is reported without that file.
fn it_is_reported(scratch: &Scratch, inside: Option<u32>, source: &str, pid: u32) {
    let one = answer_within(scratch, inside, &["report", "--json", source]);
    assert_eq!(one.status, Some(0), "{source}: {one:?}");
    assert!(
        one.text.contains(&format!("\"pid\":{pid},\"sum_of\":null,\"name\":\"mute\"")),
        "{source}: {one:?}"
    );
    let missing = "mounted/file: no names: it did not answer in ";
    assert!(one.text.contains(missing), "{source}: {one:?}");
}

/// An administrator lets all users into such file systems, and one is mounted where root's commands look.
fn a_path_here_is_left_alone(how: &str) {
    let scratch = &Scratch::new();
    let mut honest = clean(program("exits.c"));
    let profiles = scratch.open_directory("profiles");
    finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &profiles));
    let (mute, pid) = mute(scratch, how);
    let inside = Some(mute.pid());
    let words = pid.to_string();
    let list = answer_within(scratch, inside, &["list"]);
    assert_eq!(list.status, Some(0), "{list:?}");
    assert!(list.text.contains("exits"), "{list:?}");
    assert!(list.text.contains(&format!("mute {how}")), "{list:?}");
    let is_its = |path: &Path| path.file_name().unwrap().to_str().unwrap().starts_with(&words);
    let its = profiles_in(&profiles).into_iter().find(|path| is_its(path)).unwrap();
    for source in [&words, its.to_str().unwrap()] {
        it_is_reported(scratch, inside, source, pid);
    }
    for words in [&["explain", &words][..], &["top", "--once"], &["attach", &words]] {
        answer_within(scratch, inside, words);
    }
}

#[test]
fn mute_mounted_file_is_skipped() {
    ["runs", "ends"].into_iter().for_each(a_path_here_is_left_alone);
}

/// A command closes a file that it opened when it ends, if not before.
#[test]
fn mute_close_delays_nobody() {
    for how in ["closes", "covers"] {
        let scratch = &Scratch::new();
        let (mute, pid) = mute(scratch, how);
        it_is_reported(scratch, Some(mute.pid()), &pid.to_string(), pid);
        let explain = answer_within(scratch, Some(mute.pid()), &["explain", &pid.to_string()]);
        assert_eq!(explain.status, Some(0), "{explain:?}");
    }
}

/// Root cannot read it, but its user and who reads for him can.
#[test]
fn falsely_root_owned_file_is_read() {
    let scratch = Scratch::new();
    let (mute, pid) = mute(&scratch, "claims");
    let report = answer_within(&scratch, Some(mute.pid()), &["report", &pid.to_string()]);
    assert_eq!(report.status, Some(0), "{report:?}");
    assert!(report.text.contains("main"), "{report:?}");
    assert!(!report.text.contains("file+0x"), "{report:?}");
}
