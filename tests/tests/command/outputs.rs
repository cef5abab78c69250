//! Outputs of a command never replace anything but a regular file, not even for root with --force, and are not written to another user's
//! file.

use ramson_tests::forged::{STRANGER, give};
use ramson_tests::servers::*;
use ramson_tests::{not_here, program};
use std::fs;
use std::os::unix::fs::{FileTypeExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// A node like /dev/null, which only root can make.
fn device(scratch: &Scratch) -> Option<PathBuf> {
    let path = scratch.path("null");
    let made = clean(installed("mknod", "coreutils")).arg(&path).args(["c", "1", "3"]).status();
    if made.is_ok_and(|status| status.success()) && fs::write(&path, "x").is_ok() {
        return Some(path);
    }
    not_here("no device node can be made");
    None
}

fn own(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("own.ramson");
    let run = ["run", "--interval", "4K", "-o", path.to_str().unwrap(), "--"];
    assert_eq!(finish(ramson(scratch).args(run).arg(program("allocates.c"))).status, 7);
    path
}

#[track_caller]
fn is_device(path: &Path) {
    assert!(fs::symlink_metadata(path).unwrap().file_type().is_char_device());
}

#[test]
fn device_is_written_never_replaced() {
    let scratch = Scratch::new();
    let Some(device) = device(&scratch) else { return };
    let own = own(&scratch);
    let out = device.to_str().unwrap();
    let own = own.to_str().unwrap();
    let link = scratch.path("link");
    symlink(&device, &link).unwrap();
    for command in [
        vec!["export", own, "-f", "pprof"],
        vec!["export", own, "-f", "html"],
        vec!["mark", own],
        vec!["symbolize", own],
    ] {
        for (force, out) in [(true, out), (false, out), (true, link.to_str().unwrap())] {
            let mut ramson = ramson(&scratch);
            ramson.args(&command).args(["-o", out]).args(force.then_some("--force"));
            finish(&mut ramson).good();
            is_device(&device);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{command:?}");
        }
    }
}

#[test]
fn device_holds_no_profile_or_history() {
    let scratch = Scratch::new();
    let Some(device) = device(&scratch) else { return };
    let out = device.to_str().unwrap();
    for flags in [&["--force"][..], &[]] {
        let mut run = ramson(&scratch);
        run.args(["run", "-o", out]).args(flags).arg("--").arg(program("allocates.c"));
        let outcome = finish(&mut run);
        assert_eq!(outcome.status, 125, "{outcome:?}");
        assert!(outcome.remarks[0].contains("never replaced. Choose another file"), "{outcome:?}");
        is_device(&device);
    }
    let outcome = finish(ramson(&scratch).args(["history", "-o", out, "1"]));
    assert_eq!(outcome.status, 1, "{outcome:?}");
    assert!(outcome.remarks[0].contains("no history can be kept"), "{outcome:?}");
    let left: Vec<_> = fs::read_dir(scratch.path(".")).unwrap().flatten().collect();
    let beside = left.iter().filter(|file| file.file_name().to_string_lossy().starts_with("null"));
    assert_eq!(beside.count(), 1, "{left:?}");
    is_device(&device);
}

#[test]
fn open_file_is_written_through_link() {
    let scratch = Scratch::new();
    let own = own(&scratch);
    let link = scratch.path("stdout");
    symlink("/proc/self/fd/1", &link).unwrap();
    let export = ["export", own.to_str().unwrap(), "-f", "json", "-o"];
    let outcome = finish(ramson(&scratch).args(export).arg(&link).arg("--force")).good();
    assert!(outcome.text().contains("alloc_space"), "{outcome:?}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn root_avoids_foreign_links_and_fifos() {
    let scratch = Scratch::new();
    let Some(device) = device(&scratch) else { return };
    let own = own(&scratch);
    let theirs = scratch.open_directory("theirs");
    let export = |to: &Path| {
        let mut command = ramson(&scratch);
        command.arg("export").arg(&own).args(["-f", "json", "--force", "-o"]).arg(to);
        finish(&mut command)
    };
    for target in [Path::new("/proc/self/fd/1"), &device] {
        let link = theirs.join("link");
        symlink(target, &link).unwrap();
        lchown(&link, Some(STRANGER), None).unwrap();
        give(&theirs, STRANGER);
        assert_eq!(export(&link).good().text(), "");
        assert!(fs::symlink_metadata(&link).unwrap().is_file(), "{target:?}");
        assert!(fs::read_to_string(&link).unwrap().contains("alloc_space"));
        fs::remove_file(&link).unwrap();
    }
    let fifo = theirs.join("fifo");
    finish(clean(installed("mkfifo", "coreutils")).arg(&fifo)).good();
    // A FIFO that has a reader, so that writing to it would not wait.
    let _reader = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    for path in [&fifo, &device] {
        give(path, STRANGER);
        let refused = export(path);
        assert_eq!(refused.status, 1, "{refused:?}");
        let why = "a device or FIFO of another user, which is never replaced";
        assert!(refused.remarks[0].contains(why), "{refused:?}");
        assert!(!fs::symlink_metadata(path).unwrap().is_file());
    }
}
