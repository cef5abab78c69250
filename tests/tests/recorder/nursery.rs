//! Forked children that take few samples: recorded in their own memory, found there, and moved to a file once there are more.

use ramson_format::Health;
use ramson_tests::servers::*;
use ramson_tests::several::{json, pids};
use ramson_tests::{
    health, library, live_of_size, preload, private_snapshot, profiles_in, program, read,
};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn number(line: &str) -> u32 {
    line.split(' ').nth(1).unwrap().trim().parse().unwrap()
}

#[test]
fn growing_child_moves_to_a_file() {
    let scratch = Scratch::new();
    let directory = scratch.open_directory("profiles");
    let mut forks = clean(program("forks.c"));
    preload(forks.arg("few").stdout(Stdio::piped()), "1").env("RAMSON_DIR", &directory);
    let mut parent = forks.spawn().unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let child = number(&lines.next().unwrap());

    // No file is made; who it is comes from the kernel.
    assert_eq!(profiles_in(&directory).len(), 1, "the parent's");
    let before = private_snapshot(child);
    assert_eq!(before.defects, []);
    assert_eq!(live_of_size(&before, 6003), 5);
    assert_eq!(live_of_size(&before, 6001), 0, "the parent's");
    let of_child = json(&scratch, &["report", &child.to_string(), "--view", "functions"]);
    assert!(of_child.list("rows").iter().any(|row| row.text("function") == "site_few"));
    let tree = json(&scratch, &["report", &format!("tree:{}", parent.id())]);
    assert_eq!(pids(&tree), [parent.id(), child]);
    let listed = json(&scratch, &["list", "-n", "0"]);
    assert!(listed.list("profiles").iter().any(|row| row.number("pid") == child as f64));

    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child as i32).unwrap(),
        rustix::process::Signal::USR1,
    )
    .unwrap();
    assert_eq!(lines.next().unwrap(), "many");
    assert_eq!(profiles_in(&directory).len(), 2);
    let profiles: Vec<_> =
        profiles_in(&directory).into_iter().map(|path| read(&path).unwrap()).collect();
    let of = |pid: u32| profiles.iter().find(|snapshot| snapshot.header.pid == pid).unwrap();
    let after = of(child);
    assert_eq!(after.header.identity(), before.header.identity());
    assert_eq!(after.defects, []);
    assert_eq!((live_of_size(after, 6003), live_of_size(after, 6002)), (5, 70));
    let children = [Health::Children, Health::ChildrenWithFile];
    assert_eq!(children.map(|counter| health(of(parent.id()), counter)), [2, 1]);
    for pid in [child, parent.id()] {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    parent.wait().unwrap();
}

#[test]
fn sampleless_child_points_to_its_parent() {
    let scratch = Scratch::new();
    let directory = scratch.open_directory("profiles");
    let fork = "import os, time\nheld = [bytes(100000) for _ in range(300)]\nprint(os.fork(), flush=True)\ntime.sleep(1000)";
    let log = scratch.path("log");
    let mut command = clean(python());
    preload(command.args(["-c", fork]), "512K").env("RAMSON_DIR", &directory);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    // Each of the two says what fork returned.
    let parent = Running::start(&mut command, &log, || said().lines().count() == 2);
    let child = said().lines().find(|&line| line != "0").unwrap().to_owned();
    let outcome = finish(ramson(&scratch).args(["report", &child]));
    assert_eq!(outcome.essence().0, 5, "{outcome:?}");
    let parent = parent.0.id();
    let expected = format!(
        "ramson: process {child}: forked by process {parent}, no sample of its own yet. \"ramson report {parent}\" shows what it inherited\n"
    );
    assert!(outcome.remarks.contains(&expected), "{outcome:?}");
}

#[test]
fn run_counts_children_without_profile() {
    let scratch = Scratch::new();
    let mut run = ramson(&scratch);
    run.args(["run", "--interval", "1", "--"]).arg(program("relatives.c")).arg("few-children");
    let outcome = finish(run.env("RAMSON_LIBRARY", library()));
    assert!(
        outcome
            .remarks
            .iter()
            .any(|line| line.contains("3 forked children ended before a profile file was made")),
        "{outcome:?}"
    );
}

#[test]
fn short_child_makes_few_syscalls() {
    let scratch = Scratch::new();
    let trace = |is_profiled: bool| {
        let log = scratch.path("trace");
        let mut strace = clean(installed("strace", "strace"));
        strace.args(["-f", "-o"]).arg(&log);
        if is_profiled {
            strace.arg("-E").arg(format!("LD_PRELOAD={}", library().display()));
            strace
                .arg("-E")
                .arg(format!("RAMSON_DIR={}", scratch.open_directory("profiles").display()));
            strace.args(["-E", "RAMSON_INTERVAL=64K"]);
        }
        finish(strace.arg(program("relatives.c")).arg("a-short-child")).good();
        let text = std::fs::read_to_string(&log).unwrap();
        let child = text.lines().last().unwrap();
        let first = text.lines().next().unwrap().split(' ').next().unwrap().to_owned();
        assert!(child.starts_with(&first), "the parent ends last");
        text.lines().filter(|line| !line.starts_with(&first) && line.contains('(')).count()
    };
    let (plain, profiled) = (trace(false), trace(true));
    assert!(profiled <= plain + 8, "{profiled} system calls instead of {plain}");
}
