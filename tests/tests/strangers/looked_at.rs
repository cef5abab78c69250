//! Root's `ramson` looks at processes of another user that are there to stop it, to fool it, or to make it take all memory.

use ramson_tests::keeping::MIB;
use ramson_tests::servers::*;
use ramson_tests::strangers::{as_stranger, cost_within, stranger};
use ramson_tests::{preload, profiles_in, program, tool};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Most CPU time of a command that looks at one process.
const MOST_SECONDS: f64 = 1.0;
const MOST_BYTES: f64 = 200.0 * MIB;

/// Fails unless looking at a stranger's process costs no more than looking at any.
#[track_caller]
fn assert_cheap(how: &str) {
    let scratch = Scratch::new();
    let stranger = stranger(&scratch, how, &[]);
    for subcommand in ["explain", "trim"] {
        let mut command = ramson(&scratch);
        let cost = cost_within(command.args([subcommand, &stranger.pid().to_string()]), 8);
        let is_answer = matches!(cost.status, Some(0 | 1));
        assert!(is_answer, "{how}: {subcommand}: {cost:?}");
        assert!(cost.seconds < MOST_SECONDS, "{how}: {subcommand}: {cost:?}");
        assert!(cost.peak_bytes < MOST_BYTES, "{how}: {subcommand}: {cost:?}");
    }
}

#[test]
fn own_libc_of_stranger_is_handled() {
    let scratch = Scratch::new();
    let own = scratch.open_directory("own");
    for library in ["ld-linux-x86-64.so.2", "libc.so.6"] {
        let path = Path::new("/lib/x86_64-linux-gnu").join(library);
        finish(&mut as_stranger(clean("cp").arg("-L").arg(path).arg(&own))).good();
    }
    let mut command = clean(own.join("ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(&own).arg("/bin/cat");
    let mut its =
        as_stranger(&command).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", its.id())).unwrap();
    let libc = own.join("libc.so.6");
    wait_until("it waits", || {
        read("maps").contains(libc.to_str().unwrap()) && read("stat").contains(") S ")
    });
    let pid = its.id().to_string();
    for words in [&["attach"][..], &["set", "--off"], &["detach"], &["trim", "--force"]] {
        finish(ramson(&scratch).args(words).arg(&pid)).good();
    }
    drop(its.stdin.take());
    assert!(its.wait().unwrap().success());
}

#[test]
fn sparse_mapped_file_is_not_read() {
    assert_cheap("sparse");
}

#[test]
fn mapped_fifo_is_not_waited_for() {
    assert_cheap("fifo");
}

#[test]
fn mapped_device_link_is_not_followed() {
    assert_cheap("zero");
}

#[test]
fn endless_arguments_are_cut() {
    assert_cheap("endless");
}

#[test]
fn repeated_library_mapping_stays_cheap() {
    assert_cheap("copies");
}

#[test]
fn endless_arenas_take_no_memory() {
    assert_cheap("heaps");
}

#[test]
fn endless_mounts_are_cut() {
    assert_cheap("mounts");
}

/// A file system of its own in which inode numbers begin at 1, as in a stranger's.
struct FileSystem(PathBuf);

impl FileSystem {
    fn mount(at: PathBuf) -> Self {
        tool("mount", &["-t", "tmpfs", "none", at.to_str().unwrap()]);
        Self(at)
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        tool("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

#[test]
fn forged_inode_is_not_the_profile() {
    /// Offset of `pid` in the header (format/FORMAT.md).
    const PID_OFFSET: u64 = 20;
    let scratch = Scratch::new();
    let mut honest = clean(program("exits.c"));
    let profiles = scratch.open_directory("honest");
    finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &profiles));
    let system = FileSystem::mount(scratch.open_directory("mounted"));
    let profile = system.0.join("dead.ramson");
    copy(&profiles_in(&profiles)[0], &profile);
    tool("chmod", &["600", profile.to_str().unwrap()]);
    // As if it had been the first process of a container.
    File::options()
        .write(true)
        .open(&profile)
        .unwrap()
        .write_all_at(&[1, 0, 0, 0], PID_OFFSET)
        .unwrap();
    let inode = fs::metadata(&profile).unwrap().ino().to_string();
    let _stranger = stranger(&scratch, "poses", &[&inode]);
    let outcome = finish(ramson(&scratch).arg("explain").arg(&profile));
    assert_eq!(outcome.status, 5, "{outcome:?}");
    assert!(outcome.remarks[0].contains("its process is gone"), "{outcome:?}");
}
