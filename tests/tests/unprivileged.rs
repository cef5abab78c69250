//! ramson for a user who is not root: the profile of a running process is read-only even to its owner, and still `ramson` writes in it.

use ramson_tests::deaths::entry;
use ramson_tests::keeping::MIB;
use ramson_tests::program;
use ramson_tests::servers::*;
use ramson_tests::trimming::{Talking, until_trimmed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// `ramson run` of `works`, which can only be asked inside, as nobody; and its entry in the list.
fn works(scratch: &Scratch) -> (Talking, Json) {
    let copied = scratch.open_directory("bin").join("works");
    copy(&program("works.c"), &copied);
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "4K", "--max-overhead", "off", "--"]).arg(copied).arg("one");
    let talking = Talking::start(&mut as_user("nobody", scratch, &command));
    assert_eq!(talking.expect("ready"), 0);
    (talking, entry(scratch, "works"))
}

/// Ends the program, and fails if any of its memory was not what it had written.
#[track_caller]
fn end(mut talking: Talking, found: &Json) {
    signal(found.number("pid") as u32, "USR1");
    assert_eq!(talking.expect("wrong"), 0);
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
fn a_profile_in_use_is_not_cut_by_a_slip_of_its_owner() {
    let scratch = Scratch::new();
    let (talking, found) = works(&scratch);
    let path = found.text("profile");
    let bytes = fs::metadata(path).unwrap().len();
    let mut cut = clean("sh");
    cut.args(["-c", r#": > "$0""#, path]);
    let outcome = as_nobody(&scratch, &cut);
    assert!(outcome.status != 0 && outcome.stderr.contains("ermission denied"), "{outcome:?}");
    assert_eq!((fs::metadata(path).unwrap().len(), mode(path)), (bytes, 0o400));
    end(talking, &found);
}

#[test]
fn its_owner_asks_inside_and_the_profile_is_read_only_again() {
    let scratch = Scratch::new();
    let (talking, found) = works(&scratch);
    let pid = found.number("pid") as u32;
    let mut command = ramson(&scratch);
    command.args(["trim", "--json", &pid.to_string()]);
    let said = until_trimmed(&mut as_user("nobody", &scratch, &command));
    assert_eq!(said.text("way"), "inside");
    assert!(said.number("rss_diff") > 30.0 * MIB, "{said:?}");
    assert_eq!(mode(found.text("profile")), 0o400);
    end(talking, &found);
}

#[test]
fn run_notes_how_its_owner_s_program_died() {
    let scratch = Scratch::new();
    let (mut talking, found) = works(&scratch);
    signal(found.number("pid") as u32, "KILL");
    talking.running.wait();
    let dead = entry(&scratch, "works");
    assert_eq!((dead.text("state"), dead.number("end.signal")), ("SIGKILL", 9.0));
    assert!(Path::new(dead.text("profile")).exists());
}
