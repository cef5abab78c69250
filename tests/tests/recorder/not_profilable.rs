//! Programs into which nothing can be preloaded: `ramson run` says which and why in one line, and they run.

use ramson_tests::servers::*;
use rustix::fs::XattrFlags;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `ramson run --interval 1 -- …`
fn run(scratch: &Scratch, program: &Path) -> Outcome {
    finish(ramson(scratch).args(["run", "--interval", "1", "--"]).arg(program))
}

/// The same as a user who is nobody.
fn run_as_nobody(scratch: &Scratch, program: &Path) -> Outcome {
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "1", "--"]).arg(program);
    finish(&mut as_user("nobody", scratch, &command))
}

/// It ended with this status, and ramson said one line.
#[track_caller]
fn assert_unprofiled(outcome: &Outcome, status: i32, part: &str) {
    assert_eq!(outcome.status, status, "{outcome:?}");
    assert!(outcome.stdout.is_empty() && outcome.stderr.is_empty(), "{outcome:?}");
    assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
    assert!(outcome.remarks[0].contains(part), "{part}: {outcome:?}");
}

/// It ended with 7, and there is a profile of it.
#[track_caller]
fn assert_profiled(outcome: &Outcome) {
    assert_eq!(outcome.status, 7, "{outcome:?}");
    assert!(outcome.remarks[0].contains("ramson report"), "{outcome:?}");
}

#[test]
fn invalid_setting_is_named() {
    let scratch = Scratch::new();
    let program = small_program(&scratch, "seven", &["gcc"]);
    for (variable, value, expected) in [
        ("RAMSON_KEEP", "yes", "must be 0 or 1"),
        ("RAMSON_SECCOMP", "12abc", "must be a number"),
        ("RAMSON_RUN_ID", "x", "must be a number"),
        ("RAMSON_FREES", "1K", "must be a number from 0 to 65536"),
    ] {
        let mut command = ramson(&scratch);
        command.args(["run", "--interval", "1", "--"]).arg(&program).env(variable, value);
        assert_unprofiled(&finish(&mut command), 7, &format!("{variable}={value} {expected}"));
        // Preloaded by hand, the library says nothing.
        let mut preloaded = clean(&program);
        preloaded.env("LD_PRELOAD", ramson_tests::library()).env("RAMSON_KEEP", "1");
        preloaded.env("RAMSON_INTERVAL", "1").env("RAMSON_DIR", scratch.path("profiles"));
        preloaded.env(variable, value);
        let outcome = finish(&mut preloaded);
        assert!(outcome.stderr.is_empty() && outcome.remarks.is_empty(), "{outcome:?}");
    }
    assert_eq!(fs::read_dir(scratch.path("profiles")).unwrap().count(), 0);
}

/// Compiles a program that exits with 7.
fn small_program(scratch: &Scratch, name: &str, compiler: &[&str]) -> PathBuf {
    let source =
        scratch.file("seven.c", "#include <stdlib.h>\nint main() { return free(malloc(9)), 7; }");
    let package = if compiler[0] == "gcc" { "gcc gcc-multilib" } else { "musl-tools" };
    let mut command = clean(installed(compiler[0], package));
    finish(command.args(&compiler[1..]).arg(source).arg("-o").arg(scratch.path(name))).good();
    scratch.path(name)
}

/// A copy of a program with one byte changed.
fn patched(scratch: &Scratch, program: &Path, name: &str, at: usize, byte: u8) -> PathBuf {
    let mut bytes = fs::read(program).unwrap();
    bytes[at] = byte;
    let path = scratch.path(name);
    copy(&scratch.file("bytes", bytes), &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn unprofilable_program_still_runs() {
    const EI_CLASS: usize = 4;
    const E_MACHINE: usize = 18;
    const AARCH64: u8 = 183;
    let scratch = Scratch::new();
    let ordinary = small_program(&scratch, "ordinary", &["gcc"]);
    assert_eq!(run(&scratch, &ordinary).status, 7);
    let fixed = small_program(&scratch, "fixed", &["gcc", "-static"]);
    assert_unprofiled(&run(&scratch, &fixed), 7, "Link it dynamically");
    let narrow = small_program(&scratch, "narrow", &["gcc", "-m32"]);
    assert_unprofiled(&run(&scratch, &narrow), 7, "Profile a build for x86-64");
    // Linux runs this one, too: it goes by the machine.
    let odd = patched(&scratch, &ordinary, "odd", EI_CLASS, 1);
    assert_unprofiled(&run(&scratch, &odd), 7, "32-bit");
    let foreign = patched(&scratch, &ordinary, "foreign", E_MACHINE, AARCH64);
    assert_unprofiled(
        &run(&scratch, &foreign),
        126,
        "Aarch64); this ramson profiles only x86-64. Profile a build for x86-64",
    );
    let musl = small_program(&scratch, "musl", &["musl-gcc"]);
    assert_unprofiled(&run(&scratch, &musl), 7, "--target x86_64-unknown-linux-gnu");
    let script = scratch.file("script", format!("#!{}\n", fixed.display()));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    assert_unprofiled(&run(&scratch, &script), 7, "statically linked");
}

/// A copy of a program with this mode.
fn with_mode(scratch: &Scratch, program: &Path, name: &str, mode: u32) -> PathBuf {
    let path = scratch.path(name);
    copy(program, &path);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn privileged_program_runs_without_profile() {
    let scratch = Scratch::new();
    let ordinary = small_program(&scratch, "ordinary", &["gcc"]);
    let privileged = with_mode(&scratch, &ordinary, "privileged", 0o4755);
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        // Nobody else is to be had, and only root may give capabilities.
        return assert_profiled(&run(&scratch, &privileged));
    }
    let unreadable = with_mode(&scratch, &ordinary, "unreadable", 0o4711);
    assert_unprofiled(&run_as_nobody(&scratch, &unreadable), 7, "set-user-ID");
    // Without the right to execute, the bit means something else.
    let locking = with_mode(&scratch, &ordinary, "locking", 0o2745);
    assert_profiled(&run_as_nobody(&scratch, &locking));
    assert_unprofiled(&run_as_nobody(&scratch, &privileged), 7, "sudo -u '#0' ramson run");

    let capable = with_mode(&scratch, &ordinary, "capable", 0o755);
    // An attribute of revision 2, effective, with CAP_CHOWN, which containers have, too.
    let capabilities: Vec<u8> = [0x0200_0001_u32, 1, 0, 0, 0].map(u32::to_le_bytes).concat();
    rustix::fs::setxattr(&capable, "security.capability", &capabilities, XattrFlags::empty())
        .unwrap();
    assert_unprofiled(&run_as_nobody(&scratch, &capable), 7, "Run ramson as root");

    // Whoever has these privileges already gains none: nothing hinders the loader.
    for path in [&privileged, &capable] {
        assert_profiled(&run(&scratch, path));
    }
}

#[test]
fn unprofilable_program_gets_no_frames_advice() {
    let scratch = Scratch::new();
    let program = small_program(&scratch, "seven", &["gcc", "-static"]);
    let outcome = finish(ramson(&scratch).args(["run", "--languages", "--"]).arg(&program));
    assert_unprofiled(&outcome, 7, "static");
}

#[test]
fn without_proc_one_line_names_it() {
    let scratch = Scratch::new();
    let command = ramson(&scratch);
    const SCRIPT: &str = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    for (words, status) in
        [(&["run", "--", "true"][..], 125), (&["report", "1"], 1), (&["list"], 1)]
    {
        let mut hidden = clean("unshare");
        hidden.args(["--mount", "sh", "-c", SCRIPT]).arg(command.get_program()).args(words);
        hidden.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert_unprofiled(
            &finish(&mut hidden),
            status,
            "/proc: not mounted, and ramson needs it. Mount it",
        );
    }
}

#[test]
fn program_runs_without_the_library() {
    let scratch = Scratch::new();
    let alone = scratch.path("ramson");
    copy(ramson_program(), &alone);
    let outcome = finish(clean(&alone).args(["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!((outcome.status, outcome.remarks.len()), (7, 1), "{outcome:?}");
    assert!(outcome.remarks[0].contains("libramson.so"), "{outcome:?}");
    assert!(outcome.remarks[0].ends_with("/sh runs without a profile\n"), "{outcome:?}");
}
