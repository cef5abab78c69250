//! Situations that must never harm a program: confinement, jumps out of ramson's own frames, files that others take away, processes that
//! share a directory or an output.

use ramson_format::{Health, Inside, flags, state};
use ramson_reader::Defect;
use ramson_tests::servers::ramson_program;
use ramson_tests::{
    Directory, Finished, Run, STATIC_JEMALLOC, Site, health, library, private_snapshot,
    profiles_in, program, program_with, read, sites, total, wait_until_ready,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Child;

fn seccomp(way: &str) -> Run {
    Run::new(program("seccomp.c")).arg(way)
}

#[track_caller]
fn assert_done(finished: &Finished) {
    finished.assert_status(0);
    assert_eq!((&*finished.stdout, &*finished.stderr), ("done\n", ""));
}

#[test]
fn confined_program_keeps_its_profile() {
    for way in ["prctl", "syscall", "strict"] {
        let finished = seccomp(way).finish();
        assert_done(&finished);
        let snapshot = finished.snapshot();
        assert_eq!(snapshot.defects, [], "{way}");
        let expected = flags::KEEP | flags::CONFINED;
        assert_eq!(snapshot.header.flags, expected, "{way}");
        let found = sites(&snapshot, &program("seccomp.c"));
        assert_eq!(found.get("site_before"), Some(&Site::exactly(10, 10, 7001)), "{way}");
        // All at stacks and depths that were new when no call could be made any more.
        assert_eq!(found.get("site_after"), Some(&Site::exactly(600, 300, 702)), "{way}");
        assert_eq!(found.get("site_deep"), Some(&Site::exactly(31, 0, 703)), "{way}");
        assert_eq!(health(&snapshot, Health::FailedWalks), 0, "{way}");
        assert_eq!(health(&snapshot, Health::GrowFailures), 0, "{way}");
        // In strict mode not even exit_group is allowed, so that program ended by a raw system call.
        let expected = if way == "strict" { state::RECORDING } else { state::EXITED };
        assert_eq!(snapshot.header.state, expected, "{way}");
    }
}

#[test]
fn threads_of_confined_process_are_sampled() {
    let finished = seccomp("threads").finish();
    assert_done(&finished);
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    let found = sites(&snapshot, &program("seccomp.c"));
    assert_eq!(found.get("site_thread"), Some(&Site::exactly(2, 2, 704)));
    let tids: std::collections::HashSet<_> = snapshot.live.iter().map(|live| live.tid).collect();
    assert!(tids.len() == 3 && !tids.contains(&0), "{tids:?}");
}

#[test]
fn a_question_about_filters_confines_nothing() {
    let finished = seccomp("ask").finish();
    assert_done(&finished);
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.header.flags, flags::KEEP);
    assert_eq!(snapshot.header.state, state::EXITED);
}

#[test]
fn early_confinement_leaves_no_file() {
    for (way, interval) in [("prctl", "1T"), ("strict", "1T")] {
        let run = seccomp(way).env("RAMSON_INTERVAL", interval).without("RAMSON_KEEP");
        let finished = run.finish();
        assert_done(&finished);
        assert!(!finished.profiles_exist(), "{way}: a file that could not have been removed");
    }
}

#[test]
fn inherited_filter_keeps_profile_in_memory() {
    let exits = program("exits.c");
    for action in ["kill", "errno"] {
        let finished = seccomp("exec").arg(action).arg(&exits).arg("return").finish();
        finished.assert_status(7);
        assert!(!finished.profiles_exist());
        let mut run = seccomp("exec").arg(action).arg(&exits).arg("sleep");
        let mut child = run.spawn();
        wait_until_ready(&mut child);
        let snapshot = private_snapshot(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(snapshot.defects, []);
        let header = &snapshot.header;
        assert_eq!((header.state, header.pid), (state::RECORDING, child.id()));
        assert_eq!(header.flags, flags::KEEP | flags::PRIVATE);
        assert_eq!(Path::new(&header.exe), exits.canonicalize().unwrap());
        assert_eq!(health(&snapshot, Health::FailedWalks), 0);
        let found = sites(&snapshot, &exits);
        assert_eq!(found.get("site_live"), Some(&Site::exactly(11, 11, 5001)), "{action}");
        assert_eq!(total(&snapshot).live_objects, snapshot.live.len() as u64);
    }
}

/// `ramson run -- PROGRAM` under a filter of the kind that service managers install.
fn under_filter(filter: &str, program: impl AsRef<OsStr>) -> Run {
    let run = seccomp("exec").arg(filter).arg(ramson_program()).arg("run").arg("--interval=1");
    let run = run.arg("--").arg(program).without("LD_PRELOAD");
    run.env("RAMSON_LIBRARY", library())
}

fn service(filter: &str, way: &str) -> Run {
    under_filter(filter, program("exits.c")).arg(way)
}

/// The filter of a container (Docker, Kubernetes) or of a service.
#[test]
fn allocators_inside_are_recorded_under_a_tried_filter() {
    let inside = program_with("inside.c", "inside", &STATIC_JEMALLOC);
    let allowed = under_filter("lenient", &inside).succeed();
    let snapshot = read(&allowed.profiles[0]).unwrap();
    assert_eq!(snapshot.header.inside, Inside::Followed as u64);
    assert!(snapshot.allocators[0].samples > 0);
    let denied = under_filter("no-code", &inside).succeed();
    assert!(denied.stderr.contains("allocators inside it are not recorded"), "{}", denied.stderr);
    assert_eq!(denied.stdout, allowed.stdout);
    let snapshot = read(&denied.profiles[0]).unwrap();
    assert_eq!(snapshot.header.inside, Inside::Off as u64);
    assert!(snapshot.allocators.is_empty());
}

#[test]
fn allocators_inside_are_not_recorded_under_an_unknown_filter() {
    let inside = program_with("inside.c", "inside", &STATIC_JEMALLOC);
    let finished = seccomp("exec").arg("lenient").arg(&inside).env("RAMSON_INSIDE", "on").succeed();
    assert_eq!(finished.profiles, [] as [PathBuf; 0]);
}

#[test]
fn lenient_filter_allows_profile_file() {
    let finished = service("lenient", "return").finish();
    finished.assert_status(7);
    assert_eq!(
        finished.profiles.len(),
        1,
        "what tried the filter left nothing: {}",
        finished.stderr
    );
    let snapshot = read(&finished.profiles[0]).unwrap();
    assert_eq!((snapshot.header.state, snapshot.header.flags), (state::EXITED, flags::KEEP));
}

#[test]
fn deadly_filter_is_reported_by_run() {
    let finished = service("strict-service", "return").finish();
    finished.assert_status(7);
    assert_eq!(finished.profiles, [] as [PathBuf; 0], "what tried the filter cleaned up");
    assert!(finished.stderr.contains("its seccomp filter may kill"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("too little"), "{}", finished.stderr);
}

#[test]
fn filtered_coroutine_sample_reads_no_file() {
    let finished =
        seccomp("exec").arg("lenient").arg(program("seccomp.c")).arg("coroutines").finish();
    finished.assert_status(0);
    assert!(!finished.profiles_exist(), "ramson was not tried under this filter");
    // The program's own, one for its file.
    assert!(finished.number("reads ") < 10, "{} in 500 samples", finished.stdout);
}

#[test]
fn jump_out_costs_no_later_sample() {
    for way in ["own", "alternate", "cancel"] {
        let finished = Run::new(program("jumps.c")).arg(way).succeed();
        assert_eq!(finished.stdout, "jumps 150\n");
        let snapshot = finished.snapshot();
        // A slot that was being filled or emptied stays reserved, and is reported.
        let is_left = |defect: &Defect| {
            matches!(defect, Defect::TornSamples(1..=150) | Defect::TornFrees(1..=150))
        };
        assert!(snapshot.defects.iter().all(is_left), "{way}: {:?}", snapshot.defects);
        assert_eq!(health(&snapshot, Health::DroppedWalks), 0, "{way}: its room was taken back");
        let found = sites(&snapshot, &program("jumps.c"));
        assert_eq!(found.get("site_afterwards"), Some(&Site::exactly(1000, 500, 901)), "{way}");
    }
}

#[test]
fn every_exec_image_has_its_output() {
    let run = Run::new("/bin/sh").arg("-c");
    let output = run.directory.path().join("out.ramson");
    let exits = program("exits.c");
    // Three images of one process: the shell, another shell, the program.
    let script = format!("exec /bin/sh -c 'exec {} return'", exits.display());
    let finished = run.arg(script).env("RAMSON_OUTPUT", &output).finish();
    finished.assert_status(7);
    let command = |name: String| {
        let snapshot = read(&finished.directory.path().join(&name)).expect(&name);
        assert_eq!((snapshot.header.pid, snapshot.defects), (finished.pid, vec![]), "{name}");
        snapshot.header.command.len()
    };
    let names = ["out.ramson".into(), format!("out.ramson.{}", finished.pid)];
    assert_eq!(names.map(command), [3, 3], "the shells");
    let last = format!("out.ramson.{}.2", finished.pid);
    assert_eq!(command(last.clone()), 2);
    let snapshot = read(&finished.directory.path().join(last)).unwrap();
    assert_eq!(sites(&snapshot, &exits)["site_live"], Site::exactly(11, 11, 5001));
}

/// `exits sleep` as process 1 of a PID namespace of its own.
fn container(directory: &Directory) -> Run {
    // Built before anything sleeps.
    ramson_program();
    let run = Run::new("/usr/bin/unshare").arg("--pid").arg("--fork").arg("--mount-proc");
    let run = run.arg("--kill-child").arg(program("exits.c")).arg("sleep");
    run.env("RAMSON_DIR", directory.path()).env("RAMSON_KEEP", "")
}

/// Running containers in the output of `ramson list`: process IDs and profiles.
fn listed(directory: &Directory) -> Vec<(u32, String)> {
    let mut list = std::process::Command::new(ramson_program());
    list.args(["list", "-n", "0"]).env("RAMSON_DIR", directory.path());
    let list = String::from_utf8(list.output().unwrap().stdout).unwrap();
    let lines = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Another test may run the same program at the same time, and every profiled process is listed.
    let is_ours = |words: &Vec<&str>| {
        let is_here = Path::new(words.last().unwrap()).starts_with(directory.path());
        is_here && words.contains(&"running") && words.contains(&"exits")
    };
    let ours = lines.filter(is_ours);
    ours.map(|words| (words[0].parse().unwrap(), (*words.last().unwrap()).to_owned())).collect()
}

#[test]
fn simultaneous_containers_are_told_apart() {
    let directory = Directory::new();
    let mut runs: Vec<Run> = (0..8).map(|_| container(&directory)).collect();
    let mut children: Vec<Child> = runs.iter_mut().map(Run::spawn).collect();
    children.iter_mut().for_each(wait_until_ready);
    let listed = listed(&directory);
    assert_eq!(listed.len(), 8, "{listed:?}");
    for (pid, profile) in &listed {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        assert!(maps.contains(profile), "{pid}: {profile} of {listed:?}");
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn equal_container_pids_share_a_directory() {
    // Both are process 1 of a namespace; the second starts while the first runs.
    let directory = Directory::new();
    let mut runs = [container(&directory), container(&directory)];
    let mut children = runs.each_mut().map(|run| {
        let mut child = run.spawn();
        wait_until_ready(&mut child);
        child
    });
    let files = profiles_in(directory.path());
    let of_exits: Vec<_> = files
        .iter()
        .filter(|path| read(path).is_ok_and(|snapshot| snapshot.header.command[1..] == ["sleep"]))
        .collect();
    assert_eq!(of_exits.len(), 2, "{files:?}");
    assert!(of_exits.iter().all(|path| read(path).unwrap().header.pid == 1), "{files:?}");
    let listed = listed(&directory);
    assert_eq!(listed.len(), 2, "{listed:?}");
    for (pid, _) in listed {
        assert_ne!(pid, 1, "as it is called here");
        let mut report = std::process::Command::new(ramson_program());
        report.args(["report", &pid.to_string()]).env("RAMSON_DIR", directory.path());
        let report = String::from_utf8(report.output().unwrap().stdout).unwrap();
        assert!(report.contains(&format!("exits (pid {pid}), recorded for ")));
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn sanitized_program_runs_and_is_recorded() {
    let program = program_with("exits.c", "exits-sanitized", &["-fsanitize=address"]);
    let run = Run::new(ramson_program()).arg("run").arg("--interval=1").arg("--").arg(&program);
    let run = run.arg("return").without("LD_PRELOAD").env("RAMSON_LIBRARY", library());
    let finished = run.env("ASAN_OPTIONS", "detect_leaks=0").finish();
    finished.assert_status(7);
    let found = sites(&read(&finished.profiles[0]).unwrap(), &program);
    assert_eq!(found.get("site_live"), Some(&Site::exactly(11, 11, 5001)), "{}", finished.stderr);
}

#[test]
fn sample_takes_little_stack() {
    // Bound at the start: the loader's own way to a function takes more than we do.
    let finished = Run::new(program_with("paint.c", "paint-bound", &["-Wl,-z,now"])).succeed();
    // Measured: 2,656 with the file made, 1,880 with unwind tables read, 808, of which 16 align the stack.
    for (which, most) in [("first ", 3072), ("new ", 2600), ("known ", 816)] {
        let bytes = finished.number(which);
        assert!((100..=most).contains(&bytes), "{which}{bytes}");
    }
}

#[test]
fn ifunc_resolver_may_allocate() {
    let finished = Run::new(program("resolver.c")).succeed();
    assert_eq!(finished.stdout, "resolved\n");
    let found = sites(&finished.snapshot(), &program("resolver.c"));
    assert_eq!(found.get("site_main"), Some(&Site::exactly(5, 5, 611)));
}

#[test]
fn exit_under_allocation_leaves_readable_profile() {
    for way in ["exit", "_exit", "quick_exit", "exec"] {
        for _ in 0..5 {
            let finished = Run::new(program("endings.c")).arg(way).finish();
            finished.assert_status(5);
            let snapshot = finished.snapshot();
            // Samples and frees that were being written at that instant are torn; nothing else is.
            let is_torn = |defect: &Defect| {
                matches!(defect, Defect::TornSamples(1..=4) | Defect::TornFrees(1..=4))
            };
            assert!(snapshot.defects.iter().all(is_torn), "{way}: {:?}", snapshot.defects);
            let ended = matches!(way, "exit" | "_exit");
            assert!(!ended || snapshot.header.state == state::EXITED, "{way}");
        }
    }
}
