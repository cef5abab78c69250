//! Programs that could not be profiled: ramson says the true cause, and what another user put in the way of root's is no cause.

use ramson_tests::servers::*;
use ramson_tests::{library, program};
use std::path::{Path, PathBuf};

/// A copy where every user can read it.
fn open_copy(scratch: &Scratch, file: &Path) -> PathBuf {
    let copied = scratch.open_directory("bin").join(file.file_name().unwrap());
    copy(file, &copied);
    copied
}

/// A shell script in a mount namespace of its own with an empty /var/tmp and /var/lib, where `$ramson` is the command, `$as N` runs one as
/// user N, and `$changes` is the program.
fn private(script: &str) -> Outcome {
    let scratch = Scratch::new();
    let begin = "mount -t tmpfs -o mode=1777 none /var/tmp; mount -t tmpfs -o mode=755 none /var/lib\n\
                 as() { user=$1; shift; setpriv --reuid=$user --regid=$user --clear-groups -- \"$@\"; }\n";
    let mut command = clean(installed("unshare", "util-linux"));
    command.args(["-m", "sh", "-ec", &format!("{begin}{script}")]);
    command.env("ramson", open_copy(&scratch, ramson_program()));
    command.env("RAMSON_LIBRARY", open_copy(&scratch, library()));
    command.env("changes", open_copy(&scratch, &program("changes.c")));
    finish(command.env("XDG_CACHE_HOME", "/var/tmp/cache").current_dir("/"))
}

#[track_caller]
fn assert_said(script: &str, what: &str) -> Outcome {
    let outcome = private(script).good();
    assert!(outcome.remarks.iter().any(|line| line.contains(what)), "{what}: {outcome:?}");
    let guess = "the program allocated too little";
    assert!(!outcome.remarks.iter().any(|line| line.contains(guess)), "{outcome:?}");
    outcome
}

#[test]
fn changed_user_lacks_write_access() {
    let script =
        "mkdir -m 755 /var/tmp/own; RAMSON_DIR=/var/tmp/own $ramson run -- $changes user 1502";
    let cause = "no profile: the program changed to user 1502, and /var/tmp/own: user 1502 may not write to it";
    assert_said(script, cause);
}

#[test]
fn changed_user_finds_directory_taken() {
    let script = "mkdir -m 777 /var/tmp/ramson-1502; chown 1501 /var/tmp/ramson-1502\n\
                  $ramson run -- $changes user 1502";
    assert_said(script, "/var/tmp/ramson-1502: it belongs to user 1501");
}

#[test]
fn unsafe_directory_is_named_before_start() {
    let private = "other users may enter it; its mode must be 0700";
    for (owner, mode, finding) in [
        (1501, "777", "it belongs to user 1501"),
        (1502, "777", private),
        (1502, "750", private),
        (1502, "701", private),
    ] {
        let script = format!(
            "mkdir -m {mode} /var/tmp/ramson-1502; chown {owner} /var/tmp/ramson-1502\n\
             as 1502 $ramson run -- $changes nothing\n\
             ls -A /var/tmp/ramson-1502"
        );
        let cause = format!("/var/tmp/ramson-1502: {finding}: the profile will be lost");
        assert_eq!(assert_said(&script, &cause).text(), "", "{owner} {mode}");
    }
}

#[test]
fn changed_root_names_what_is_missing() {
    assert_said(
        "mkdir /var/tmp/jail; $ramson run -- $changes root /var/tmp/jail",
        "/var/tmp/jail/var/tmp does not exist",
    );
    let script =
        "mkdir -p -m 1777 /var/tmp/jail/var/tmp; $ramson run -- $changes root /var/tmp/jail";
    assert_said(script, "/var/tmp/jail/proc/self does not exist");
}

#[test]
fn profile_in_changed_root_is_found() {
    let script = "mkdir -p -m 1777 /var/tmp/jail/var/tmp; mkdir /var/tmp/jail/proc\n\
                  mount -t proc none /var/tmp/jail/proc\n\
                  $ramson run -- $changes root /var/tmp/jail\n\
                  ls /var/tmp/jail/var/tmp/ramson-0";
    assert_said(script, "ramson report /var/tmp/jail/var/tmp/ramson-0/");
}

#[test]
fn taken_directory_does_not_stop_root() {
    // By itself, and as root of a user namespace.
    for makes in ["as 1501 mkdir", "as 1501 unshare -Ur mkdir"] {
        let script = format!(
            "{makes} /var/tmp/ramson-0\n\
             $ramson run -- $changes nothing\n\
             $ramson list"
        );
        let outcome = private(&script).good();
        assert!(outcome.text().contains("/var/lib/ramson-0/"), "{outcome:?}");
        let said = |what: &str| outcome.remarks.iter().any(|line| line.contains(what));
        assert!(said("ramson report /var/lib/ramson-0/"), "{outcome:?}");
        assert!(said("/var/tmp/ramson-0: left out: it belongs to user 1501"), "{outcome:?}");
    }
}

#[test]
fn file_size_limit_is_named() {
    for kilobytes in [0, 4] {
        let script = format!("ulimit -f {kilobytes}; $ramson run -- $changes nothing");
        assert_said(&script, "\"ulimit -f\" may be too low");
    }
}

#[test]
fn too_few_allocations_are_named() {
    // The few kilobytes of "sleep" are sampled once in 100,000 runs.
    let outcome = private("$ramson run --interval 1G -- sleep 0.5").good();
    let what = "no profile: the program allocated too little to be sampled";
    assert!(outcome.remarks.iter().any(|line| line.contains(what)), "{outcome:?}");
}
