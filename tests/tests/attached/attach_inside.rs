//! `ramson attach --inside`: hooks are written into the code of a program that runs, and taken out of it again.

use ramson_tests::attaching::{Visited, told};
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use ramson_tests::{Random, STATIC_JEMALLOC, program_with, tests_directory};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

const INSIDE: [&str; 3] = ["--inside", "--interval", "1"];

/// `visited`, which has jemalloc inside.
fn with_jemalloc(name: &str, options: &[&str]) -> PathBuf {
    let options: Vec<&str> = STATIC_JEMALLOC.iter().chain(options).copied().collect();
    program_with("visited.c", name, &options)
}

fn live(scratch: &Scratch, pid: u32) -> f64 {
    let mut command = ramson(scratch);
    command.args(["export", "-f", "json", &pid.to_string()]);
    Json::parse(&finish(&mut command).good().text()).number("totals.inuse_objects.value")
}

/// Bytes of a file's code that are others in the memory of a process.
fn changed_code(pid: u32, path: &Path) -> usize {
    let path = path.canonicalize().unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let file = fs::read(&path).unwrap();
    let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(path.to_str().unwrap());
    let changed = maps.lines().filter(is_code).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let parse = |text: &str| usize::from_str_radix(text, 16).unwrap();
        let (start, end) = words[0].split_once('-').unwrap();
        let mut bytes = vec![0; parse(end) - parse(start)];
        memory.read_exact_at(&mut bytes, parse(start) as u64).unwrap();
        bytes.iter().zip(&file[parse(words[2])..]).filter(|(one, other)| one != other).count()
    });
    changed.sum()
}

#[test]
fn executable_s_allocator_is_recorded_and_left_as_it_was() {
    let scratch = Scratch::new();
    let program = with_jemalloc("visited-jemalloc", &[]);
    let library = program_with("grows_library.c", "grows.so", &["-shared", "-fPIC", "-Wl,-z,lazy"]);
    let mut visited = Visited::start_program(&program, 0);
    let pid = visited.pid();
    visited.tell("hold 100");
    let load = format!("load {}", library.display());
    visited.tell(&load);
    let counts = visited.descriptors_and_threads();
    for round in 1..4 {
        // Calls of the library are counted through its pointers at first.
        if round == 2 {
            finish(ramson(&scratch).args(["attach", "--inside", &pid.to_string()])).good();
            finish(ramson(&scratch).args(["detach", &pid.to_string()])).good();
        }
        let attached = told(&scratch, "attach", pid, &INSIDE);
        assert!(attached.list("missed").is_empty(), "{attached:?}");
        assert_eq!(attached.list("inside"), [Json::Text("jemalloc in the executable".into())]);
        assert!(changed_code(pid, &program) >= 12 * 4);
        visited.tell("drop");
        visited.tell("hold 30");
        assert_eq!(live(&scratch, pid), 30.0, "{round}");
        // Other objects call it through pointers, and are counted once.
        visited.tell(&load);
        assert_eq!(live(&scratch, pid), 130.0, "{round}");
        let detached = told(&scratch, "detach", pid, &[]);
        assert!(detached.number("places") >= 12.0, "{detached:?}");
        assert_eq!(changed_code(pid, &program), 0);
        visited.tell("hold 20");
        assert_eq!(live(&scratch, pid), 130.0, "{round}");
    }
    assert_eq!(visited.descriptors_and_threads(), counts);
    visited.talking.tell("quit");
    assert!(visited.talking.running.wait().success());
}

#[test]
fn allocator_is_reached_after_a_plain_attach() {
    let scratch = Scratch::new();
    // Other objects have the C library's.
    let program = with_jemalloc("visited-hidden", &["-Wl,--exclude-libs,ALL"]);
    let mut visited = Visited::start_program(&program, 0);
    let pid = visited.pid();
    let refused = finish(ramson(&scratch).args(["attach", &pid.to_string()]));
    assert!(
        refused.remarks[0].trim_end().ends_with(&format!("ramson attach --inside {pid}")),
        "{refused:?}"
    );
    told(&scratch, "attach", pid, &INSIDE);
    visited.tell("hold 30");
    assert_eq!(live(&scratch, pid), 30.0);
    told(&scratch, "detach", pid, &[]);
    assert_eq!(changed_code(pid, &program), 0);
    // The next one says what it does not record.
    let refused = finish(ramson(&scratch).args(["attach", &pid.to_string()]));
    assert!(refused.remarks[0].contains("--inside"), "{refused:?}");
}

#[test]
fn later_library_s_allocator_is_recorded_and_left_as_it_was() {
    let scratch = Scratch::new();
    let hidden = tests_directory().join("programs/hidden.c");
    let options = ["-shared", "-fPIC", "-O2", hidden.to_str().unwrap()];
    let library = program_with("grows_library.c", "grows-hidden.so", &options);
    let load = format!("load {}", library.display());
    let unload = format!("unload {}", library.display());
    // Nobody is stopped to learn of later libraries where there is no allocator at first.
    let mut visited = Visited::start(0);
    let told_of_none = told(&scratch, "attach", visited.pid(), &INSIDE);
    assert!(told_of_none.list("inside").is_empty());
    assert_eq!(told(&scratch, "detach", visited.pid(), &[]).number("places"), 0.0);
    visited.talking.tell("quit");
    let program = with_jemalloc("visited-hidden", &["-Wl,--exclude-libs,ALL"]);
    let mut visited = Visited::start_program(&program, 0);
    let pid = visited.pid();
    told(&scratch, "attach", pid, &INSIDE);
    for round in 1..4 {
        visited.tell(&load);
        assert!(changed_code(pid, &library) > 0);
        assert_eq!(live(&scratch, pid), 100.0 * f64::from(round));
        visited.tell(&unload);
    }
    visited.tell(&load);
    told(&scratch, "detach", pid, &[]);
    assert_eq!(changed_code(pid, &library), 0);
    visited.tell(&load);
    assert_eq!(live(&scratch, pid), 400.0);
    told(&scratch, "attach", pid, &INSIDE);
    visited.tell(&load);
    assert_eq!(live(&scratch, pid), 100.0);
}

#[test]
fn threads_survive_hooks_that_come_and_go() {
    let scratch = Scratch::new();
    let program = with_jemalloc("visited-killed", &["-DMAY_INTERRUPT=1"]);
    let mut visited = Visited::start_program(&program, 3);
    let mut rounds = visited.tell("");
    let counts = visited.descriptors_and_threads();
    for interval in ["1", "16K", "512K"].iter().cycle().take(12) {
        told(&scratch, "attach", visited.pid(), &["--inside", "--interval", interval]);
        visited.tell("hold 5");
        told(&scratch, "detach", visited.pid(), &[]);
        let now = visited.tell("drop");
        assert!(now > rounds);
        rounds = now;
    }
    assert_eq!(visited.descriptors_and_threads(), counts);
    assert_eq!(changed_code(visited.pid(), &program), 0);
}

#[test]
fn hooks_inside_are_whole_after_killed_ramson() {
    let scratch = Scratch::new();
    let program = with_jemalloc("visited-killed", &["-DMAY_INTERRUPT=1"]);
    let mut visited = Visited::start_program(&program, 2);
    let mut random = Random::new(11);
    for round in 0..24 {
        let command = if round % 3 == 2 { "detach" } else { "attach" };
        let mut tool = ramson(&scratch);
        tool.args([command, &visited.pid().to_string()]).stdout(Stdio::null());
        tool.args((command == "attach").then_some("--inside"));
        let mut tool = tool.stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_micros(random.below(80_000)));
        let _ = tool.kill();
        tool.wait().unwrap();
        wait_until("it is let go", || {
            let status = fs::read_to_string(format!("/proc/{}/status", visited.pid())).unwrap();
            status.contains("TracerPid:\t0")
        });
        visited.tell("");
    }
    told(&scratch, "detach", visited.pid(), &[]);
    assert_eq!(changed_code(visited.pid(), &program), 0);
    told(&scratch, "attach", visited.pid(), &INSIDE);
    visited.tell("hold 10");
    assert!(live(&scratch, visited.pid()) >= 10.0);
}

#[test]
fn interrupted_instructions_are_not_moved() {
    let scratch = Scratch::new();
    let program = program_with("in_prologue.c", "in_prologue", &["-O1"]);
    let mut talking = Talking::start(&mut clean(&program));
    talking.expect("ready");
    let pid = talking.pid();
    let refused = finish(ramson(&scratch).args(["attach", "--inside", &pid.to_string()]));
    assert!(refused.remarks[0].contains("it is in the code that is to be written"), "{refused:?}");
    assert_eq!(changed_code(pid, &program), 0);
    let report = finish(ramson(&scratch).args(["report", &pid.to_string()]));
    assert!(report.remarks[0].contains("not profiled"), "{report:?}");
    talking.tell("");
    assert_eq!(talking.expect("freed"), 1);
    told(&scratch, "attach", pid, &INSIDE);
    talking.tell("");
    assert_eq!(talking.expect("taken"), 1);
    assert_eq!(live(&scratch, pid), 1.0);
}
