//! A program in another root directory with another C library: it is recorded there, and its names are found from here, while it runs
//! and afterwards, or one line says why not.

use ramson_reader::Header;
use ramson_tests::forged::give;
use ramson_tests::releases::Release;
use ramson_tests::servers::*;
use ramson_tests::strangers::{STRANGER, copied, stranger};
use ramson_tests::{library, preload, profiles_in, program, read};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Ways into another root directory. The second leaves no path to it in /proc, and the third has namespaces of all kinds.
const WAYS: [&str; 3] = ["chroot", "pivot", "bubblewrap"];
/// Directory of the program's profiles, below its root directory.
const PROFILES: &str = "var/tmp/ramson-0";

/// The command that runs the program as root of its own user namespace, with process IDs of its own.
fn bubblewrap(root: &Path) -> Command {
    let mut command = clean("bwrap");
    command.args(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--uid", "0", "--gid", "0"]);
    command.arg("--bind").arg(root).args(["/", "--proc", "/proc", "--dev", "/dev"]);
    command.args(["--setenv", "LD_PRELOAD", "/libramson.so", "/held"]);
    command
}

/// A program in a root directory of its own that runs until it is ended.
struct Contained {
    scratch: Scratch,
    root: PathBuf,
    running: Running,
}

impl Contained {
    /// By `wrapped`, what starts it is put into another command.
    fn start(how: &str, wrapped: impl Fn(&Scratch, &Command) -> Command) -> Self {
        let scratch = Scratch::new();
        let root = Release::of("bullseye").root_with(&scratch, "held.c");
        let mut command = match how {
            "bubblewrap" => bubblewrap(&root),
            _ => {
                let mut command = clean(program("contains.c"));
                command.arg(how).arg(&root).arg("/held");
                command
            }
        };
        command.env("RAMSON_INTERVAL", "64K");
        let mut command = wrapped(&scratch, command.env("RAMSON_KEEP", "1"));
        // As it is called from both sides.
        let profiles = scratch.open_directory("profiles");
        fs::create_dir_all(root.join(profiles.strip_prefix("/").unwrap())).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { scratch, root, running: Running(child) }
    }

    fn alone(how: &str) -> Self {
        Self::start(how, |_, command| {
            let mut same = clean(command.get_program());
            same.args(command.get_args());
            same.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            same
        })
    }

    /// As it is called here: what started it may be a process of its own.
    fn pid(&self) -> u32 {
        let mut tree = vec![self.running.0.id()];
        loop {
            let pid = tree.pop().expect("it runs");
            if fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() == "held" {
                return pid;
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            tree.extend(children.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        }
    }

    fn profile(&self) -> PathBuf {
        let chosen = self.scratch.path("profiles");
        let mut found = profiles_in(&self.root.join(PROFILES));
        found.extend(profiles_in(&self.root.join(chosen.strip_prefix("/").unwrap())));
        let is_its = |path: &&PathBuf| header(path).comm == "held";
        found.iter().find(is_its).expect("it has a profile").clone()
    }

    /// Ends it, and puts its profile where nothing tells its root directory.
    fn end(&mut self) -> PathBuf {
        drop(self.running.0.stdin.take());
        assert!(self.running.wait().success());
        let moved = self.scratch.path("moved.ramson");
        copy(&self.profile(), &moved);
        moved
    }

    /// A report with what was looked up before under this name only.
    fn report(&self, cache: &str, of: impl AsRef<std::ffi::OsStr>) -> String {
        let mut command = ramson(&self.scratch);
        command.env("XDG_CACHE_HOME", self.scratch.open_directory(cache));
        finish(command.args(["report", "-n", "5"]).arg(of)).good().text()
    }
}

fn header(profile: &Path) -> Header {
    read(profile).unwrap().header
}

#[track_caller]
fn assert_named(report: &str) {
    assert!(report.contains("  site_held"), "{report}");
    assert!(!report.contains("names are missing"), "{report}");
}

/// Nothing is named, and one line says why.
#[track_caller]
fn assert_unnamed(report: &str, why: &str) {
    assert!(!report.contains("  site_held"), "{report}");
    let lines: Vec<&str> =
        report.lines().filter(|line| line.starts_with("names are missing")).collect();
    assert_eq!(lines.len(), 1, "{report}");
    assert!(lines[0].contains(why), "{why}: {report}");
    assert!(lines[0].contains("held") && lines[0].contains("libc"), "{report}");
}

#[test]
fn names_come_from_program_root() {
    for how in WAYS {
        let mut contained = Contained::alone(how);
        let pid = contained.pid().to_string();
        assert_named(&contained.report("while it ran", &pid));
        // The reader has noted where it is.
        let noted = header(&contained.profile()).root.expect("it was noted");
        assert_eq!(noted.path(), contained.root.as_os_str().as_bytes(), "{how}");
        let profile = contained.end();
        assert_named(&contained.report("afterwards", &profile));

        // Another one, with another C library, at the same path.
        let root = &contained.root;
        let old = contained.scratch.path("old");
        fs::rename(root, &old).unwrap();
        let gone = format!("the program's root directory {} is gone", root.display());
        assert_unnamed(&contained.report("gone", &profile), &gone);
        fs::create_dir(root).unwrap();
        let replaced =
            format!("{}, the program's root directory, has been replaced", root.display());
        assert_unnamed(&contained.report("replaced", &profile), &replaced);
        assert_named(&contained.report("while it ran", &profile));
        // It is still good for being named.
        let mut command = ramson(&contained.scratch);
        command.env("XDG_CACHE_HOME", contained.scratch.open_directory("named"));
        command.args(["report", "-n", "5", "--sysroot"]).arg(&old).arg(&profile);
        assert_named(&finish(&mut command).good().text());
    }
}

#[test]
fn foreign_profile_gets_no_root_note() {
    let scratch = Scratch::new();
    let mut honest = clean(program("exits.c"));
    let directory = scratch.open_directory("honest");
    finish(preload(honest.arg("kill"), "1").env("RAMSON_DIR", &directory));
    let shared = scratch.path("shared.ramson");
    copy(&profiles_in(&directory)[0], &shared);
    fs::set_permissions(&shared, Permissions::from_mode(0o666)).unwrap();
    let library = copied(&scratch, library(), "libramson.so");
    let paths = [&library, &shared].map(|path| path.to_str().unwrap());
    let _stranger = stranger(&scratch, "chrooted", &paths);
    let noted = || {
        finish(ramson(&scratch).arg("list")).good();
        header(&shared).root
    };
    assert_eq!(noted(), None);
    give(&shared, STRANGER);
    assert!(noted().is_some());
}

#[test]
fn unread_profile_finds_root_by_place() {
    let mut contained = Contained::alone("chroot");
    let moved = contained.end();
    assert!(header(&moved).root.is_none());
    assert_named(&contained.report("usual", contained.profile()));
    assert_unnamed(
        &contained.report("moved", &moved),
        "replaced or removed since the profile was taken",
    );
}

#[test]
fn run_notes_roots_of_its_tree() {
    for how in WAYS {
        let mut contained = Contained::start(how, |scratch, command| {
            let mut run = ramson(scratch);
            // A descendant of its program.
            run.args(["run", "--interval", "64K", "--", "sh", "-c", "\"$@\"; true", "sh"]);
            run.arg(command.get_program()).args(command.get_args());
            run
        });
        let profile = contained.profile();
        let root = contained.root.clone();
        wait_until("its root directory is noted", || header(&profile).root.is_some());
        let noted = header(&profile).root.unwrap();
        assert_eq!(noted.path(), root.as_os_str().as_bytes());
        let profile = contained.end();
        fs::rename(root, contained.scratch.path("old")).unwrap();
        assert_named(&contained.report("elsewhere", &profile));
    }
}

#[test]
fn run_names_its_chrooted_program() {
    let mut contained = Contained::start("chroot", |scratch, command| {
        let mut run = ramson(scratch);
        run.args(["run", "--interval", "64K", "--"]);
        run.arg(command.get_program()).args(command.get_args());
        run
    });
    let profile = contained.profile();
    wait_until("its root directory is noted", || header(&profile).root.is_some());
    let profile = contained.end();
    fs::rename(&contained.root, contained.scratch.path("old")).unwrap();
    assert_named(&contained.report("elsewhere", &profile));
}

#[test]
fn recorder_notes_followed_roots() {
    let mut contained = Contained::alone("pivot");
    let mut record = ramson(&contained.scratch);
    let history = contained.scratch.path("history.db");
    record.args(["history", "--every", "1s", "-o"]).arg(&history);
    record.arg(contained.running.0.id().to_string());
    let log = contained.scratch.path("record.log");
    let profile = contained.profile();
    let mut recording = Running::start(&mut record, &log, || header(&profile).root.is_some());
    recording.signal("TERM");
    recording.wait();
    contained.end();
    assert_named(&contained.report("empty", &history));
}
