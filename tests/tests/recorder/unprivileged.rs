//! ramson for a user who is not root: the profile of a running process is read-only even to its owner, `ramson run` still notes the
//! end there, and it may trace what it has started.

use ramson_tests::deaths::entry;
use ramson_tests::keeping::MIB;
use ramson_tests::program;
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `waits`, where nobody may execute it.
fn waits(scratch: &Scratch) -> PathBuf {
    let copied = scratch.open_directory("bin").join("waits");
    copy(&program("waits.c"), &copied);
    copied
}

/// `ramson run` of `waits` as nobody, and its entry in the list.
fn start(scratch: &Scratch) -> (Talking, Json) {
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "4K", "--"]).arg(waits(scratch)).arg("poll");
    let talking = Talking::start(&mut as_user("nobody", scratch, &command));
    assert_eq!(talking.expect("ready"), 0);
    (talking, entry(scratch, "waits"))
}

/// Ends the program as it ends by itself.
#[track_caller]
fn end(mut talking: Talking) {
    talking.tell("q");
    assert_eq!(talking.expect("poll"), 1);
    assert_eq!(code(talking.running.wait()), 0);
}

fn as_nobody(scratch: &Scratch, command: &Command) -> Outcome {
    finish(&mut as_user("nobody", scratch, command))
}

#[track_caller]
fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn owner_cannot_truncate_profile_in_use() {
    let scratch = Scratch::new();
    let (talking, found) = start(&scratch);
    let path = found.text("profile");
    let bytes = fs::metadata(path).unwrap().len();
    let mut cut = clean("sh");
    cut.args(["-c", r#": > "$0""#, path]);
    let outcome = as_nobody(&scratch, &cut);
    assert!(outcome.status != 0 && outcome.stderr.contains("ermission denied"), "{outcome:?}");
    assert_eq!((fs::metadata(path).unwrap().len(), mode(path)), (bytes, 0o400));
    end(talking);
}

#[test]
fn run_trims_a_descendant() {
    let scratch = Scratch::new();
    let log = scratch.open_directory("logs").join("trims");
    let mut command = ramson(&scratch);
    command.args(["run", "--trim-every", "50ms", "--trim-log"]).arg(&log);
    // The shell stays, so that `waits` is no child of ramson's but a descendant.
    command.args(["--", "/bin/sh", "-c", r#""$0" poll; exit $?"#]).arg(waits(&scratch));
    let talking = Talking::start(&mut as_user("nobody", &scratch, &command));
    assert_eq!(talking.expect("ready"), 0);
    let trims = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        text.lines().map(Json::parse).collect::<Vec<Json>>()
    };
    let is_trim = |said: &Json| {
        said.text("name") == "waits" && said.text("message").starts_with("malloc_trim")
    };
    wait_until("it trims", || trims().iter().any(is_trim));
    let trims = trims();
    let said = trims.iter().find(|said| is_trim(said)).unwrap();
    assert!(said.number("rss_diff") > 30.0 * MIB, "{said:?}");
    end(talking);
}

#[test]
fn run_notes_unprivileged_death() {
    let scratch = Scratch::new();
    let (mut talking, found) = start(&scratch);
    signal(found.number("pid") as u32, "KILL");
    talking.running.wait();
    let dead = entry(&scratch, "waits");
    assert_eq!((dead.text("state"), dead.number("end.signal")), ("SIGKILL", 9.0));
    assert!(Path::new(dead.text("profile")).exists());
}
