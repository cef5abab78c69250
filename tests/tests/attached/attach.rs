//! `ramson attach`, `detach` and `set`: a running program is recorded from now on, and left as it was found.

use ramson_tests::attaching::{Visited, code_pointers, page_access, refused, told};
use ramson_tests::servers::*;
use ramson_tests::trimming::Talking;
use ramson_tests::{Random, program, program_with};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// Length of the blocks that `visited` keeps.
const BLOCK_BYTES: f64 = 100_000.0;

fn report(scratch: &Scratch, pid: u32) -> Json {
    let mut command = ramson(scratch);
    command.args(["export", "-f", "json", &pid.to_string()]);
    Json::parse(&finish(&mut command).good().text())
}

fn live(scratch: &Scratch, pid: u32) -> f64 {
    report(scratch, pid).number("totals.inuse_objects.value")
}

#[test]
fn attach_records_and_detach_restores_pointers() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    // All functions that it calls are bound by then, except those that its other threads would call.
    for line in ["hold 100", "drop", "hold 100"] {
        visited.tell(line);
    }
    let before = code_pointers(visited.pid());
    let pid = visited.pid();
    let access = page_access(pid);
    let changed_access = || {
        let mut pages = page_access(pid);
        pages.retain(|page, now| access.get(page).is_some_and(|before| before != now));
        pages
    };
    let counts = visited.descriptors_and_threads();
    let attached = told(&scratch, "attach", visited.pid(), &["--interval", "1"]);
    assert!(
        attached.number("objects") >= 2.0 && attached.list("missed").is_empty(),
        "{attached:?}"
    );
    assert_eq!(changed_access(), BTreeMap::new());
    let attached_pointers = code_pointers(visited.pid());
    let changed = before.iter().filter(|(at, word)| attached_pointers.get(at) != Some(word));
    assert_eq!(changed.count() as f64, attached.number("slots"), "{attached:?}");
    visited.tell("hold 40");
    // Blocks from before the attach are freed without a trace.
    visited.tell("drop");
    visited.tell("hold 30");
    assert_eq!(live(&scratch, visited.pid()), 30.0);
    assert_eq!(
        report(&scratch, visited.pid()).number("totals.alloc_space.value"),
        70.0 * BLOCK_BYTES
    );
    let detached = told(&scratch, "detach", visited.pid(), &[]);
    assert_eq!(detached.number("slots"), attached.number("slots"));
    assert_eq!(changed_access(), BTreeMap::new());
    let after = code_pointers(visited.pid());
    let is_changed = |at: &u64| before.get(at) != after.get(at);
    let changed: Vec<_> = before.keys().filter(|at| is_changed(at)).collect();
    assert!(changed.is_empty(), "{changed:x?}");
    visited.tell("hold 20");
    // What is live is as of the detach.
    assert_eq!(live(&scratch, visited.pid()), 30.0);
    assert_eq!(visited.descriptors_and_threads(), counts);
    // Blocks that were freed meanwhile are not taken for live, and counts stay.
    visited.tell("drop");
    told(&scratch, "attach", visited.pid(), &["--interval", "1"]);
    visited.tell("hold 10");
    assert_eq!(live(&scratch, visited.pid()), 10.0);
    assert_eq!(
        report(&scratch, visited.pid()).number("totals.alloc_space.value"),
        80.0 * BLOCK_BYTES
    );
    visited.talking.tell("quit");
    assert!(visited.talking.running.wait().success());
}

#[test]
fn reports_name_start_and_unattributed_memory() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    visited.tell("hold 300");
    let pid = visited.pid().to_string();
    let said = |words: &[&str]| finish(ramson(&scratch).args(words)).good().text();
    said(&["attach", "--interval", "1", "--for", "1h", &pid]);
    visited.tell("hold 100");
    let report = said(&["report", &pid]);
    let part = |words: &str| assert!(report.contains(words), "{words}: {report}");
    part("live 9.54 MiB");
    part("+ allocated before the attach or not seen 28.");
    part("not complete: allocations before the attach, ");
    let list = || said(&["list", &pid]);
    assert!(list().contains(" attached "), "{}", list());
    // The terms add up to RSS.
    let json = told(&scratch, "report", visited.pid(), &[]);
    let Json::Object(terms) = json.at("rss.terms") else { panic!("{json:?}") };
    let sum: f64 = terms.values().map(|term| term.number("value")).sum();
    assert_eq!(sum, json.number("rss.bytes"));
    said(&["detach", &pid]);
    assert!(list().contains(" detached "), "{}", list());
    said(&["attach", "--for", "1ms", &pid]);
    wait_until("its time is over", || list().contains("ended, hooks still in place"));
    let report = said(&["report", &pid]);
    assert!(report.contains(&format!("still in place: ramson detach {pid}")), "{report}");
    said(&["detach", &pid]);
    assert!(list().contains(" detached "), "{}", list());
}

#[test]
fn messages_name_state_and_next_step() {
    let scratch = Scratch::new();
    let visited = Visited::start(0);
    let pid = visited.pid().to_string();
    let said = |words: &[&str]| finish(ramson(&scratch).args(words).arg(&pid)).good().text();
    let nothing = said(&["detach"]);
    assert!(nothing.contains("has no hooks"), "{nothing}");
    let text = said(&["attach", "--for", "10m"]);
    assert!(text.lines().count() == 1 && text.contains("from now on for 10 min"), "{text}");
    assert!(text.ends_with(&format!("ramson report {pid}\n")), "{text}");
    let again = said(&["attach"]);
    assert!(again.contains("already recorded for "), "{again}");
    let set = said(&["set", "--interval", "64K", "--max-overhead", "off"]);
    assert!(set.contains("per 64.0 KiB") && set.contains("no overhead target"), "{set}");
    let off = said(&["set", "--off"]);
    assert!(off.contains("sampling is off; to resume"), "{off}");
    let back = said(&["detach"]);
    assert!(back.contains("detached: "), "{back}");
}

#[test]
fn threads_survive_repeated_attach_and_detach() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(2);
    let mut rounds = visited.tell("");
    let counts = visited.descriptors_and_threads();
    for cycle in 0..8 {
        let interval = if cycle % 2 == 0 { "1" } else { "16K" };
        told(&scratch, "attach", visited.pid(), &["--interval", interval]);
        visited.tell("hold 5");
        told(&scratch, "detach", visited.pid(), &[]);
        let now = visited.tell("drop");
        assert!(now > rounds, "{cycle}");
        rounds = now;
    }
    assert_eq!(visited.descriptors_and_threads(), counts);
}

// As long as a thread is traced, the kernel tells its process of children that ended though the program ignores that: some other thread is woken.
#[test]
fn child_exit_interrupts_no_other_thread() {
    let scratch = Scratch::new();
    let mut parent = Talking::start(&mut clean(program("parent.c")));
    parent.expect("ready");
    for _ in 0..20 {
        told(&scratch, "attach", parent.pid(), &[]);
        told(&scratch, "detach", parent.pid(), &[]);
    }
    parent.tell("");
    assert_eq!(parent.expect("interrupted"), 0);
}

#[test]
fn attach_recovers_after_killed_ramson() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(1);
    let counts = visited.descriptors_and_threads();
    let mut random = Random::new(7);
    for round in 0..24 {
        let command = if round % 3 == 2 { "detach" } else { "attach" };
        let mut tool = ramson(&scratch);
        tool.args([command, &visited.pid().to_string()]).stdout(Stdio::null());
        let mut tool = tool.stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_micros(random.below(60_000)));
        let _ = tool.kill();
        tool.wait().unwrap();
        wait_until("it is let go", || {
            let status = fs::read_to_string(format!("/proc/{}/status", visited.pid())).unwrap();
            status.contains("TracerPid:\t0")
        });
        visited.tell("");
    }
    // One that was killed may have begun to record, at another interval.
    told(&scratch, "detach", visited.pid(), &[]);
    told(&scratch, "attach", visited.pid(), &["--interval", "1"]);
    visited.tell("hold 10");
    assert!(live(&scratch, visited.pid()) >= 10.0);
    told(&scratch, "detach", visited.pid(), &[]);
    visited.tell("drop");
    assert_eq!(visited.descriptors_and_threads(), counts);
}

#[test]
fn set_changes_sampling_while_running() {
    let scratch = Scratch::new();
    let mut command = ramson(&scratch);
    command.args(["run", "--interval", "1", "--"]).arg(program("visited.c"));
    let talking = Talking::start(&mut command);
    talking.expect("ready");
    let mut visited = Visited { talking };
    visited.tell("hold 10");
    let pid = profiles(&scratch)[0].header.pid;
    let count = || live(&scratch, pid);
    let already = told(&scratch, "attach", pid, &[]);
    assert_eq!(already.at("was_recorded"), &Json::Word("true".into()));
    let before = count();
    assert!(before >= 10.0);
    told(&scratch, "set", pid, &["--off"]);
    visited.tell("hold 50");
    assert_eq!(count(), before);
    let set = told(&scratch, "set", pid, &["--on"]);
    assert_eq!(set.number("noticed_within_bytes"), f64::from(128 << 10));
    // Two blocks at most are not seen any more.
    visited.tell("hold 10");
    let on = count();
    assert!((before + 8.0..=before + 10.0).contains(&on), "{before} {on}");
    visited.tell("hold 100");
    assert_eq!(count(), on + 100.0);
    let text = finish(ramson(&scratch).args(["report", &pid.to_string()])).good().text();
    assert!(text.contains("not complete: allocations while sampling was off, for "), "{text}");
    let set = told(&scratch, "set", pid, &["--interval", "1M"]);
    assert_eq!(set.number("interval_bytes"), f64::from(1 << 20));
    visited.tell("hold 1");
    assert_eq!(report(&scratch, pid).number("interval_bytes"), f64::from(1 << 20));
    let refusal = refused(&scratch, "detach", pid);
    assert!(refusal.contains("started under ramson") && refusal.contains("--off"), "{refusal}");
}

#[test]
fn fork_keeps_and_exec_ends_attachment() {
    let scratch = Scratch::new();
    let mut visited = Visited::start(0);
    told(&scratch, "attach", visited.pid(), &["--interval", "1"]);
    visited.talking.tell("fork");
    // Its line and the parent's come in any order.
    let lines = [visited.talking.line(), visited.talking.line(), visited.talking.line()];
    let child = lines.iter().find_map(|line| line.strip_prefix("child ")).unwrap();
    let child: u32 = child.parse().unwrap();
    assert_eq!(live(&scratch, child), 50.0);
    signal(child, "KILL");
    let shell = Talking::start(clean("sh").args(["-c", "echo ready 0; read line; exec cat"]));
    shell.expect("ready");
    let mut shell = shell;
    told(&scratch, "attach", shell.pid(), &[]);
    shell.tell("");
    shell.tell("still there");
    assert_eq!(shell.line(), "still there");
    let maps = fs::read_to_string(format!("/proc/{}/maps", shell.pid())).unwrap();
    assert!(!maps.contains("libramson"));
    // The first program's profile is not lost to the second one's.
    let listed = |pid: u32| {
        let list = finish(ramson(&scratch).args(["list", "--json"])).good().text();
        let list = Json::parse(&list);
        let of_shell = |entry: &&Json| entry.number("pid") == f64::from(pid);
        let states = list.list("profiles").iter().filter(of_shell);
        states.map(|entry| entry.text("state").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(shell.pid()), ["replaced"]);
    told(&scratch, "attach", shell.pid(), &[]);
    let both = listed(shell.pid());
    assert!(both.len() == 2 && both.contains(&"attached".to_owned()), "{both:?}");
}

/// The words of a library that the process has loaded that lead to code.
fn pointers_of(pid: u32, library: &Path) -> BTreeMap<u64, u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let name = format!("/{}", library.file_name().unwrap().to_str().unwrap());
    let lines = maps.lines().filter(|line| line.ends_with(&name));
    let range = |line: &str| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        [start, end].map(|address| u64::from_str_radix(address, 16).unwrap())
    };
    let ranges: Vec<[u64; 2]> = lines.map(range).collect();
    let mut pointers = code_pointers(pid);
    pointers.retain(|at, _| ranges.iter().any(|[start, end]| (start..end).contains(&at)));
    pointers
}

#[test]
fn later_libraries_are_hooked_and_restored() {
    let scratch = Scratch::new();
    for (name, how) in [("grows.so", "-Wl,-z,lazy"), ("grows-now.so", "-Wl,-z,now")] {
        let flags = ["-shared", "-fPIC", how];
        let library = program_with("grows_library.c", name, &flags);
        let mut visited = Visited::start(0);
        let pid = visited.pid();
        let load = format!("load {}", library.display());
        let attached = told(&scratch, "attach", pid, &["--interval", "1"]);
        assert_eq!(attached.at("follows"), &Json::Word("true".into()));
        visited.tell(&load);
        let before = pointers_of(pid, &library);
        // A sample; nothing of what the library allocated by then.
        visited.tell("hold 1");
        assert_eq!(live(&scratch, pid), 1.0);
        let hooked = pointers_of(pid, &library);
        let changed = before.iter().filter(|(at, word)| hooked.get(at) != Some(word)).count();
        assert!(changed >= 1, "{name}: {before:x?}");
        visited.tell(&load);
        assert_eq!(live(&scratch, pid), 101.0, "{name}");
        // It has gone and is there again, probably in the same place.
        visited.tell(&format!("unload {}", library.display()));
        visited.tell("hold 1");
        visited.tell(&load);
        visited.tell("hold 1");
        visited.tell(&load);
        assert_eq!(live(&scratch, pid), 203.0, "{name}");
        // One that is attached to is left as it is.
        assert_eq!(
            told(&scratch, "attach", pid, &[]).at("was_recorded"),
            &Json::Word("true".into())
        );
        let slots = attached.number("slots") + changed as f64;
        assert_eq!(told(&scratch, "detach", pid, &[]).number("slots"), slots, "{name}");
        assert_eq!(pointers_of(pid, &library), before, "{name}");
        visited.tell(&load);
        assert_eq!(live(&scratch, pid), 203.0, "{name}");
    }
}

#[test]
fn attach_survives_constant_library_loading() {
    let scratch = Scratch::new();
    let library = program_with("grows_library.c", "grows.so", &["-shared", "-fPIC", "-Wl,-z,lazy"]);
    // The first attach to a process is the one at which most can go wrong.
    for interval in ["1", "4K", "512K"].iter().cycle().take(12) {
        let mut visited = Visited::start(2);
        visited.tell(&format!("storm {}", library.display()));
        let counts = visited.descriptors_and_threads();
        let mut rounds = visited.tell("");
        for _ in 0..2 {
            // One that finds the loader at work all the time says so, and has done nothing.
            let attach = ["attach", "--interval", interval, &visited.pid().to_string()];
            let attached = finish(ramson(&scratch).args(attach));
            assert!([0, 1].contains(&attached.status), "{attached:?}");
            sleep(Duration::from_millis(30));
            visited.tell("hold 5");
            let detach = ["detach", &visited.pid().to_string()];
            let detached = finish(ramson(&scratch).args(detach));
            assert!([0, 1].contains(&detached.status), "{detached:?}");
            let now = visited.tell("drop");
            assert!(now > rounds);
            rounds = now;
        }
        assert_eq!(visited.descriptors_and_threads().1, counts.1);
    }
}

#[test]
fn busy_thread_is_borrowed_at_syscall() {
    let scratch = Scratch::new();
    for allocator in ["", "libjemalloc.so.2"] {
        let mut program = clean(program("never_waits.c"));
        if !allocator.is_empty() {
            program.env("LD_PRELOAD", format!("/usr/lib/x86_64-linux-gnu/{allocator}"));
        }
        let talking = Talking::start(&mut program);
        talking.expect("ready");
        let pid = talking.pid();
        for _ in 0..6 {
            told(&scratch, "attach", pid, &["--interval", "4K"]);
            assert!(told(&scratch, "detach", pid, &[]).number("slots") > 0.0);
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(!stat.contains(") Z "), "{allocator}: {stat}");
        signal(pid, "KILL");
    }
}

#[test]
fn all_attaches_to_every_match() {
    let scratch = Scratch::new();
    let copied = scratch.open_directory("bin").join("visited-by-name");
    copy(&program("visited.c"), &copied);
    let start = || {
        let talking = Talking::start(clean(&copied).arg("0"));
        talking.expect("ready");
        talking
    };
    let (one, other) = (start(), start());
    let both = |words: &[&str]| finish(ramson(&scratch).args(words));
    let attached = both(&["attach", "--json", "--all", "--match", "visited-by-name"]);
    let Json::List(attached) = Json::parse(&attached.good().text()).at("processes").clone() else {
        panic!("not a list")
    };
    let pids: Vec<f64> = attached.iter().map(|one| one.number("pid")).collect();
    for process in [&one, &other] {
        assert!(pids.contains(&f64::from(process.pid())), "{pids:?}");
    }
    let none = both(&["attach", "--all", "--match", "no-such-name-anywhere"]);
    assert_eq!((none.status, none.remarks.len()), (5, 1), "{none:?}");
    assert_eq!(both(&["attach", "--all"]).status, 2);
}
