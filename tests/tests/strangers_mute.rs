//! Root's `ramson` beside processes that never answer, as a file system of their user's is behind what is to be read.

use ramson_tests::servers::*;
use ramson_tests::strangers::{Cost, copied, cost_within};
use ramson_tests::trimming::Talking;
use ramson_tests::{library, preload, program};

/// More than a command may wait for all that one user owns, and a busy machine.
const MOST_SECONDS: u32 = 40;

/// Starts `mute HOW`; and the process of the stranger, which it tells.
fn mute(scratch: &Scratch, how: &str) -> (Talking, u32) {
    let mut command = clean(copied(scratch, &program("mute.c"), "mute"));
    command.arg(how).arg(scratch.open_directory("mounted")).arg(library());
    let talking = Talking::start(&mut command);
    let pid = talking.expect("ready") as u32;
    (talking, pid)
}

/// What a command says within its time.
#[track_caller]
fn answer(scratch: &Scratch, words: &[&str]) -> Cost {
    let cost = cost_within(ramson(scratch).args(words), MOST_SECONDS);
    assert!(cost.status.is_some(), "{words:?}: no answer");
    cost
}

/// The line about it.
fn silence(pid: u32) -> String {
    format!("process {pid} (mute): it did not answer in ")
}

#[test]
fn a_process_that_does_not_answer_is_a_line_and_the_others_are_shown() {
    for how in ["profile", "maps"] {
        let scratch = Scratch::new();
        let mut honest = clean(program("exits.c"));
        let profiles = scratch.open_directory("profiles");
        finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &profiles));
        let (_mute, pid) = mute(&scratch, how);
        for words in [&["list"][..], &["list", "--json"]] {
            let list = answer(&scratch, words);
            assert_eq!(list.status, Some(0), "{how}: {list:?}");
            assert!(list.text.contains("exits"), "{how}: {list:?}");
            assert!(list.text.contains(&silence(pid)), "{how}: {list:?}");
        }
        assert_eq!(answer(&scratch, &["top", "--once"]).status, Some(0), "{how}");
        for command in ["report", "doctor", "trim"] {
            let one = answer(&scratch, &[command, &pid.to_string()]);
            assert_eq!(one.status, Some(1), "{how}: {one:?}");
            assert!(one.text.contains(&silence(pid)), "{how}: {one:?}");
        }
    }
}
