//! The life of a process and of its profile: exits, deaths, forks, threads, and file systems that refuse.

use ramson_format::{Health, flags, state};
use ramson_reader::Snapshot;
use ramson_tests::{
    Directory, Finished, Run, Site, health, live_of_size, profiles_in, program, program_with, read,
    sites, tool, total,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn exits(way: &str) -> Run {
    Run::new(program("exits.c")).arg(way)
}

fn forks(way: &str) -> Finished {
    Run::new(program("forks.c")).arg(way).succeed()
}

const PARENT: (u64, u64, u64) = (100, 40, 6001);
const CHILD: (u64, u64, u64) = (80, 70, 6002);

#[track_caller]
fn assert_site(
    snapshot: &Snapshot,
    source: &str,
    name: &str,
    (alloc, live, size): (u64, u64, u64),
) {
    let found = sites(snapshot, &program(source));
    assert_eq!(found.get(name), Some(&Site::exactly(alloc, live, size)), "{found:#?}");
}

/// The parent's profile holds its own truth and nothing of any child.
#[track_caller]
fn assert_parent(finished: &Finished) -> Snapshot {
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    assert_eq!(snapshot.header.state, state::EXITED);
    assert_site(&snapshot, "forks.c", "site_parent", PARENT);
    assert!(!sites(&snapshot, &program("forks.c")).contains_key("site_child"));
    assert_eq!(health(&snapshot, Health::Healed), 0);
    snapshot
}

/// The child's profile holds its own truth and nothing of the parent.
#[track_caller]
fn assert_child(finished: &Finished) -> Snapshot {
    let snapshot = finished.snapshot_of(finished.number("child ") as u32);
    assert_eq!(snapshot.defects, []);
    assert_eq!(snapshot.header.state, state::EXITED);
    assert_site(&snapshot, "forks.c", "site_child", CHILD);
    assert!(!sites(&snapshot, &program("forks.c")).contains_key("site_parent"));
    snapshot
}

#[test]
fn a_normal_exit_removes_the_profile() {
    for (way, status) in [("return", 7), ("exit", 7), ("_exit", 3), ("_Exit", 4)] {
        let finished = exits(way).without("RAMSON_KEEP").finish();
        finished.assert_status(status);
        assert_eq!(finished.profiles, [] as [PathBuf; 0], "{way}");
        assert!(finished.directory.path().join("profiles").exists(), "{way}: never recorded");
    }
}

#[test]
fn kept_profile_states_the_end() {
    for (way, status, known) in
        [("return", 7, -1), ("exit", 7, -1), ("_exit", 3, 3), ("_Exit", 4, 4)]
    {
        let finished = exits(way).finish();
        finished.assert_status(status);
        let header = finished.snapshot().header;
        assert_eq!((header.state, header.exit_status), (state::EXITED, known), "{way}");
        assert_eq!(header.flags, flags::KEEP);
        assert_eq!(header.pid, finished.pid);
        assert_eq!(header.interval_bytes, 1);
        assert_eq!(Path::new(&header.exe), program("exits.c").canonicalize().unwrap());
        assert_eq!(header.command[1..], [way]);
        assert_eq!(header.comm, "exits");
        assert!(header.last_monotonic_ns >= header.start_monotonic_ns);
    }
}

#[test]
fn violent_death_leaves_the_profile() {
    for (way, signal) in [("kill", 9), ("abort", 6)] {
        let finished = exits(way).without("RAMSON_KEEP").finish();
        finished.assert_killed_by(signal);
        let snapshot = finished.snapshot();
        assert_eq!(snapshot.defects, []);
        assert_eq!((snapshot.header.state, snapshot.header.exit_status), (state::RECORDING, -1));
        assert_site(&snapshot, "exits.c", "site_live", (11, 11, 5001));
    }
}

#[test]
fn unsampled_program_makes_no_file() {
    let silent = Run::new(program("silent.c")).succeed();
    assert!(!silent.directory.path().join("profiles").exists());
    // 55 KB of objects at an interval of a terabyte.
    let rare = exits("return").env("RAMSON_INTERVAL", "1T").finish();
    rare.assert_status(7);
    assert!(!rare.directory.path().join("profiles").exists());
}

#[test]
fn recording_off_makes_no_file() {
    for value in ["off", "0", "", "-1", "12 apples", "99999999999999999999", "1.5M", "9999T"] {
        let finished = exits("return").env("RAMSON_INTERVAL", value).finish();
        finished.assert_status(7);
        assert!(!finished.directory.path().join("profiles").exists(), "RAMSON_INTERVAL={value}");
    }
    let finished = exits("return").env("RAMSON_MAX_FILE", "many").finish();
    finished.assert_status(7);
    assert!(!finished.directory.path().join("profiles").exists());
}

#[test]
fn forked_child_has_its_own_profile() {
    let finished = forks("fork");
    assert_eq!(finished.profiles.len(), 2);
    assert_parent(&finished);
    let child = assert_child(&finished);
    assert_eq!(child.header.pid as u64, finished.number("child "));
}

#[test]
fn child_frees_change_nothing() {
    let finished = forks("fork-free");
    assert_parent(&finished);
    assert_eq!(finished.profiles.len(), 1, "the child allocated nothing");
}

#[test]
fn grandchild_has_its_own_profile() {
    let finished = forks("grandchild");
    assert_eq!(finished.profiles.len(), 2);
    assert_parent(&finished);
    assert_child(&finished);
}

#[test]
fn vfork_and_exec_keep_parent_exact() {
    let finished = forks("vfork-exec");
    assert_eq!(finished.profiles.len(), 2);
    assert_parent(&finished);
    assert_child(&finished);
}

#[test]
fn vforked_exit_leaves_parent_status() {
    let finished = forks("vfork-exit");
    let snapshot = assert_parent(&finished);
    assert_eq!(snapshot.header.exit_status, -1, "5 was the child's");
    assert_eq!(finished.profiles.len(), 1);
}

#[test]
fn posix_spawn_leaves_the_parent_exact() {
    let finished = forks("spawn");
    assert_eq!(finished.profiles.len(), 2);
    assert_parent(&finished);
    assert_child(&finished);
}

#[test]
fn raw_clone_is_its_own_process() {
    let finished = forks("clone");
    assert_eq!(finished.profiles.len(), 2);
    assert_parent(&finished);
    assert_child(&finished);
}

#[test]
fn concurrent_forks_leave_profiles_exact() {
    let finished = forks("threads");
    assert_parent(&finished);
    assert_eq!(finished.profiles.len(), 201);
    for path in &finished.profiles {
        let snapshot = read(path).unwrap();
        assert_eq!(snapshot.defects, [], "{}", path.display());
        if snapshot.header.pid != finished.pid {
            assert_eq!(live_of_size(&snapshot, 6002), CHILD.1);
            assert_eq!(live_of_size(&snapshot, 6001), 0);
            assert_eq!(total(&snapshot).alloc_objects, CHILD.0);
        }
    }
}

#[test]
fn exec_replaces_the_earlier_profile() {
    let finished = exits("exec").finish();
    finished.assert_status(7);
    assert_eq!(finished.profiles.len(), 1);
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.header.command[1..], ["return"]);
    assert_site(&snapshot, "exits.c", "site_live", (11, 11, 5001));
}

#[test]
fn blocked_directory_keeps_profile_in_memory() {
    // Root may write anywhere, so the way is blocked by a file.
    let run = exits("return");
    let blocked = run.directory.path().join("file");
    std::fs::write(&blocked, "not a directory").unwrap();
    let finished = run.env("RAMSON_DIR", blocked.join("profiles")).finish();
    finished.assert_status(7);
    assert_eq!(finished.profiles, [] as [PathBuf; 0]);
    assert_eq!(std::fs::read_to_string(&blocked).unwrap(), "not a directory");
}

/// A profile without a file, read from a process that sleeps.
fn memory_snapshot(mut run: Run) -> Snapshot {
    let mut child = run.spawn();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
    let range = maps.lines().find(|line| line.contains("memfd:ramson"));
    let range = range.and_then(|line| line.split_whitespace().next()).map(str::to_owned);
    let snapshot = range.as_deref().and_then(|range| range.split_once('-')).map(|(start, end)| {
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let files = ramson_reader::ProcessFiles::open(child.id()).unwrap();
        let range = number(start)..number(end);
        let memory = ramson_reader::ProcessRange::new(files.into(), &range, false);
        Snapshot::read(&memory).unwrap()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    snapshot.unwrap_or_else(|| panic!("no memfd in\n{maps}"))
}

#[test]
fn memory_profile_is_readable_while_running() {
    let run = exits("sleep");
    let blocked = run.directory.path().join("file");
    std::fs::write(&blocked, "not a directory").unwrap();
    let snapshot = memory_snapshot(run.env("RAMSON_DIR", blocked.join("profiles")));
    assert_eq!(snapshot.header.flags & flags::MEMFD, flags::MEMFD);
    assert_eq!(snapshot.defects, []);
    assert_site(&snapshot, "exits.c", "site_live", (11, 11, 5001));
}

/// A tiny file system, unmounted when dropped.
struct TinyFileSystem(Directory);

impl TinyFileSystem {
    fn new(options: &str) -> Self {
        let directory = Directory::new();
        let target = directory.path().as_os_str();
        // Needs root, as in any container that runs these tests. Without it this fails, rather than being skipped.
        tool(
            "mount",
            &[
                "-t".as_ref(),
                "tmpfs".as_ref(),
                "-o".as_ref(),
                options.as_ref(),
                "tmpfs".as_ref(),
                target,
            ],
        );
        Self(directory)
    }
}

impl Drop for TinyFileSystem {
    fn drop(&mut self) {
        tool("umount", &["-l".as_ref(), self.0.path().as_os_str()]);
    }
}

#[test]
fn full_disk_sends_profile_to_memory() {
    for options in ["size=64k", "size=4k", "size=1m,nr_inodes=2"] {
        let full = TinyFileSystem::new(options);
        let directory = full.0.path().join("profiles");
        let snapshot = memory_snapshot(exits("sleep").env("RAMSON_DIR", &directory));
        assert_eq!(snapshot.header.flags & flags::MEMFD, flags::MEMFD, "{options}");
        assert_site(&snapshot, "exits.c", "site_live", (11, 11, 5001));
        assert_eq!(profiles_in(&directory), [] as [PathBuf; 0], "{options}");
    }
}

#[test]
fn readonly_disk_sends_profile_to_memory() {
    let read_only = TinyFileSystem::new("ro,size=1m");
    let snapshot = memory_snapshot(exits("sleep").env("RAMSON_DIR", read_only.0.path()));
    assert_eq!(snapshot.header.flags & flags::MEMFD, flags::MEMFD);
}

#[test]
fn filling_disk_costs_only_records() {
    // Enough for the first tables, not for 40,000 live samples.
    let small = TinyFileSystem::new("size=400k");
    let directory = small.0.path().join("profiles");
    let program = program("threads.c");
    let finished = Run::new(&program)
        .arg("threads")
        .arg("4")
        .arg("10000")
        .arg("10000")
        .env("RAMSON_DIR", &directory)
        .succeed();
    drop(finished);
    let profiles = profiles_in(&directory);
    let snapshot = read(&profiles[0]).unwrap();
    assert_eq!(snapshot.defects, []);
    assert!(health(&snapshot, Health::DroppedLive) > 1000);
    assert!(health(&snapshot, Health::GrowFailures) > 0);
    // Allocations are counted even if there is no room to follow their blocks.
    let site = &sites(&snapshot, &program)["site_work"];
    assert_eq!(site.alloc_objects, 4 * 10_000 * 4);
    assert_eq!(site.alloc_bytes, 4 * 10_000 * (301 + 302 + 303 + 304));
}

#[test]
fn file_size_limit_never_kills() {
    for blocks in ["0", "1", "100", "1023", "4000"] {
        let script = format!("ulimit -f {blocks}; exec {} return", program("exits.c").display());
        let run = Run::new("/bin/bash").arg("-c").arg(script).env("RAMSON_INTERVAL", "4K");
        let finished = run.finish();
        finished.assert_status(7);
        for path in &finished.profiles {
            let length = path.metadata().unwrap().len();
            assert!(
                length <= blocks.parse::<u64>().unwrap() * 1024 || length == 64 << 20,
                "{length}"
            );
        }
    }
}

#[test]
fn later_processes_append_id_to_output() {
    let run = Run::new(program("forks.c")).arg("fork");
    let output = run.directory.path().join("out.ramson");
    let finished = run.env("RAMSON_OUTPUT", &output).succeed();
    assert_eq!(finished.profiles, [] as [PathBuf; 0], "RAMSON_DIR is not used");
    let child = finished.number("child ");
    assert_site(&read(&output).unwrap(), "forks.c", "site_parent", PARENT);
    let later = finished.directory.path().join(format!("out.ramson.{child}"));
    assert_site(&read(&later).unwrap(), "forks.c", "site_child", CHILD);
}

#[test]
fn existing_output_is_never_overwritten() {
    let run = exits("return");
    let output = run.directory.path().join("precious");
    std::fs::write(&output, "do not touch").unwrap();
    let finished = run.env("RAMSON_OUTPUT", &output).without("RAMSON_KEEP").finish();
    finished.assert_status(7);
    assert_eq!(std::fs::read_to_string(&output).unwrap(), "do not touch");
}

#[test]
fn chdir_removes_no_foreign_file() {
    let mut run = exits("chdir");
    let elsewhere = run.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("out.ramson"), "do not touch").unwrap();
    run.command.arg(&elsewhere).current_dir(run.directory.path());
    let finished = run.env("RAMSON_OUTPUT", "out.ramson").without("RAMSON_KEEP").succeed();
    assert_eq!(std::fs::read_to_string(elsewhere.join("out.ramson")).unwrap(), "do not touch");
    assert!(!finished.directory.path().join("out.ramson").exists(), "the profile was not removed");
}

#[test]
fn replaced_profile_path_is_left_alone() {
    let mut run = exits("replace");
    let output = run.directory.path().join("out.ramson");
    run.command.arg(&output);
    let finished = run.env("RAMSON_OUTPUT", &output).without("RAMSON_KEEP").finish();
    finished.assert_status(7);
    assert_eq!(std::fs::read_to_string(&output).expect("it is still there"), "another's");
}

#[test]
fn a_default_directory_is_private() {
    let finished = exits("return").finish();
    let mode = finished.directory.path().join("profiles").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mode = finished.profiles[0].metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o400);
}

#[test]
fn cross_thread_frees_are_counted_exactly() {
    let program = program("threads.c");
    let finished = Run::new(&program).arg("threads").arg("8").arg("40000").arg("500").succeed();
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    for lost in [
        Health::DroppedLive,
        Health::DroppedStacks,
        Health::DroppedWalks,
        Health::Healed,
        Health::GrowFailures,
    ] {
        assert_eq!(health(&snapshot, lost), 0, "{lost:?}");
    }
    let n = 8 * 40_000;
    let kept = 8 * 500;
    let site = &sites(&snapshot, &program)["site_work"];
    assert_eq!(site.alloc_objects, n * 4);
    assert_eq!(site.alloc_bytes, n * (301 + 302 + 303 + 304));
    assert_eq!(site.freed_objects, n * 4 - kept);
    assert_eq!(site.freed_bytes, n * (301 + 302 + 303 + 304) - kept * 304);
    assert_eq!((site.live_objects, site.live_bytes), (kept, kept * 304));
    let all = total(&snapshot);
    assert_eq!(health(&snapshot, Health::Samples), all.alloc_objects);
    assert_eq!(health(&snapshot, Health::Frees), all.freed_objects);
    assert_eq!(all.alloc_objects - all.freed_objects, all.live_objects);
    assert_eq!(all.alloc_bytes - all.freed_bytes, all.live_bytes);
}

#[test]
fn short_threads_are_counted_exactly() {
    let program = program("threads.c");
    let finished = Run::new(&program).arg("short").arg("2000").succeed();
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    let site = &sites(&snapshot, &program)["site_short"];
    assert_eq!((site.alloc_objects, site.alloc_bytes), (4000, 2000 * (401 + 402)));
    assert_eq!((site.live_objects, site.live_bytes), (2000, 2000 * 402));
    let tids: std::collections::HashSet<_> =
        snapshot.live.iter().filter(|sample| sample.size == 402).map(|sample| sample.tid).collect();
    assert_eq!(tids.len(), 2000);
}

/// Generated libraries that allocate different sizes and are laid out alike, down to the last byte of code.
fn plugins(build_id: &str) -> Vec<(PathBuf, u64)> {
    (0..20)
        .map(|number| {
            let size = 7000 + number;
            let options = [
                "-shared".to_owned(),
                "-fPIC".to_owned(),
                format!("-DSIZE={size}"),
                format!("-Wl,--build-id={build_id}"),
            ];
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let name = format!("plugin-{build_id}-{number}.so");
            (program_with("plugin.c", &name, &options), size)
        })
        .collect()
}

/// Each library's objects are charged to a mapping with its own path.
#[track_caller]
fn assert_plugins(plugins: &[(PathBuf, u64)]) {
    const ROUNDS: u64 = 5;
    let mut run = Run::new(program("plugins.c")).arg(ROUNDS.to_string());
    for (path, _) in plugins {
        run.command.arg(path.canonicalize().unwrap());
    }
    let snapshot = run.succeed().snapshot();
    assert_eq!(snapshot.defects, []);
    for (path, size) in plugins {
        let samples: Vec<_> = snapshot.live.iter().filter(|sample| sample.size == *size).collect();
        assert_eq!(samples.len() as u64, ROUNDS);
        for sample in samples {
            let stack = &snapshot.stacks[sample.stack];
            let mapping = snapshot.mapping_at(stack.frames[0], stack.epoch).expect("a mapping");
            assert_eq!(Path::new(&snapshot.mappings[mapping].path), path.canonicalize().unwrap());
        }
    }
}

#[test]
fn libraries_at_one_address_are_distinct() {
    assert_plugins(&plugins("sha1"));
}

#[test]
fn libraries_without_build_id_are_distinct() {
    assert_plugins(&plugins("none"));
}
