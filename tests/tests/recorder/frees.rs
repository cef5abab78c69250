//! Recent frees: what `--view frees` says of a program that used a block after its free, and of others.

use ramson_format::{Health, KINDS};
use ramson_reader::{Freed, Snapshot, Stack};
use ramson_tests::servers::*;
use ramson_tests::{Finished, Run, Symbols, health, program};

/// Prepares a run of the program with recent frees remembered.
fn run(arguments: &[&str]) -> Run {
    plain(arguments).env("RAMSON_FREES", "1024")
}

fn plain(arguments: &[&str]) -> Run {
    arguments.iter().fold(Run::new(program("frees.c")), |run, argument| run.arg(argument))
}

/// The address that the program printed on a line `name 0x…`.
fn address(finished: &Finished, name: &str) -> u64 {
    let line =
        finished.stdout.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" 0x"));
    u64::from_str_radix(line.expect("an address"), 16).expect("a hexadecimal number")
}

/// The innermost function of a stack.
fn leaf(snapshot: &Snapshot, stack: usize) -> String {
    let symbols = Symbols::of(&program("frees.c"));
    let frame = snapshot.stacks[stack].frames[0];
    let stack_epoch = snapshot.stacks[stack].epoch;
    let mapping = &snapshot.mappings[snapshot.mapping_at(frame, stack_epoch).expect("mapped")];
    symbols.at(frame.0.wrapping_sub(mapping.bias)).expect("a function").to_owned()
}

fn of_size(snapshot: &Snapshot, size: u64) -> Vec<&Freed> {
    snapshot.freed.iter().filter(|freed| freed.size == size).collect()
}

#[test]
fn freed_block_names_both_stacks() {
    let scratch = Scratch::new();
    let path = scratch.path("crash.ramson");
    let path = path.to_str().unwrap();
    let program = program("frees.c");
    let mut crash = ramson(&scratch);
    crash
        .args(["run", "--interval", "1", "--recent-frees", "1024", "-o", path, "--"])
        .arg(program)
        .arg("crash");
    let outcome = finish(&mut crash);
    assert_eq!(outcome.status, 128 + 11);
    let output = outcome.text();
    let session = output.trim().strip_prefix("session 0x").expect("its address");
    let inside = u64::from_str_radix(session, 16).unwrap() + 40;
    let report = |address: u64, more: &[&str]| {
        let address = format!("{address:#x}");
        let arguments = ["report", path, "--view", "frees", "--address", &address];
        finish(ramson(&scratch).args(arguments).args(more)).good().text()
    };
    let text = report(inside, &[]);
    let place = |function: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(function));
        line.and_then(|line| line.rsplit_once("frees.c:")?.1.parse::<u32>().ok())
    };
    assert!(
        text.contains(&format!("40 bytes into a block of 48 B at 0x{session}, freed")),
        "{text}"
    );
    assert!(place("make_session").is_some() && place("drop_session").is_some(), "{text}");
    let object = Json::parse(&report(inside, &["--json"]));
    let [freed] = object.list("frees") else { panic!("{text}") };
    assert_eq!((freed.number("size"), freed.number("offset")), (48.0, 40.0));
    let function = |stack: &str| freed.list(stack)[0].text("function").to_owned();
    assert_eq!(function("alloc_stack"), "make_session");
    assert_eq!(function("free_stack"), "drop_session");
    assert!(report(inside + 8, &[]).contains("in none of the"), "an address behind the block");
    // Without an address, who freed what who allocated.
    let pairs = finish(ramson(&scratch).args(["report", path, "--view", "frees"])).good().text();
    let pair = pairs.lines().find(|line| line.contains("drop_session:")).expect(&pairs);
    assert!(pair.contains(" ← make_session:"), "{pairs}");
    let all = finish(ramson(&scratch).args(["report", path, "--view", "frees", "--json"]));
    let all = Json::parse(&all.good().text());
    let blocks: f64 = all.list("pairs").iter().map(|pair| pair.number("blocks")).sum();
    assert_eq!(blocks, all.list("frees").len() as f64);
    // Who only frees holds nothing.
    let top = finish(ramson(&scratch).args(["report", path, "-n", "0", "--view", "functions"]))
        .good()
        .text();
    assert!(!top.contains("drop_session"), "{top}");
}

#[test]
fn only_moving_realloc_is_a_free() {
    let finished = run(&["moves"]).succeed();
    let snapshot = finished.snapshot();
    assert_eq!((finished.number("has_moved"), finished.number("has_stayed")), (1, 1));
    let of = |name: &str| {
        let address = address(&finished, name);
        snapshot.freed.iter().find(|freed| freed.address == address)
    };
    let by = |name: &str| {
        let freed = of(name).expect("freed");
        (freed.size, leaf(&snapshot, freed.free_stack.expect("a stack")))
    };
    assert_eq!(by("moved"), (300, "grow_far".into()));
    assert_eq!(by("gone"), (77, "free_by_realloc".into()));
    assert_eq!(of("stays"), None);
}

#[test]
fn child_remembers_only_its_own_frees() {
    let finished = run(&["forks"]).succeed();
    let parent = finished.snapshot();
    let child = finished.snapshot_of(finished.number("child") as u32);
    let by = |snapshot: &Snapshot, size: u64| {
        let [freed] = of_size(snapshot, size)[..] else { panic!("{:?}", snapshot.freed) };
        leaf(snapshot, freed.free_stack.expect("a stack"))
    };
    assert_eq!(by(&parent, 501), "free_in_parent");
    assert_eq!(by(&child, 502), "free_in_child");
    assert_eq!((of_size(&parent, 502).len(), of_size(&child, 501).len()), (0, 0));
    assert_eq!((of_size(&parent, 500).len(), of_size(&child, 500).len()), (0, 0));
}

#[test]
fn ring_keeps_the_latest_frees() {
    for length in [0, 1, 64, 100] {
        let run = run(&["many", "3000"]).env("RAMSON_FREES", length.to_string());
        let snapshot = run.succeed().snapshot();
        assert_eq!((snapshot.max_freed, snapshot.freed.len() as u64), (length, length));
        let numbers: Vec<u64> = snapshot.freed.iter().map(|freed| freed.number).collect();
        let latest = numbers.first().copied().unwrap_or(0);
        assert!(numbers.iter().copied().eq((0..length).map(|back| latest - back)), "{numbers:?}");
        // In the order in which they were freed; stdio's own buffer may be among the last.
        let sizes = snapshot.freed.iter().map(|freed| freed.size);
        let sizes: Vec<u64> = sizes.filter(|size| (100..3100).contains(size)).collect();
        assert!(sizes.is_sorted_by(|later, earlier| later > earlier), "{sizes:?}");
        assert_eq!(sizes.first().copied().unwrap_or(3099), 3099);
        assert_eq!(snapshot.defects, []);
        let counters = [Health::DroppedFrees, Health::UnknownFreeStacks];
        assert_eq!(counters.map(|counter| health(&snapshot, counter)), [0; 2]);
    }
}

#[test]
fn unrequested_frees_take_no_room() {
    let snapshot = plain(&["many", "3000"]).succeed().snapshot();
    assert_eq!((snapshot.max_freed, snapshot.freed.len()), (0, 0));
    assert!(health(&snapshot, Health::Frees) >= 3000);
    // No stack is there that only freed.
    let has_allocated = |stack: &Stack| stack.sampled_alloc_objects > 0;
    assert!(snapshot.stacks.iter().skip(KINDS.len()).all(has_allocated));
}

#[test]
fn missing_frees_are_explained() {
    let scratch = Scratch::new();
    let finished = plain(&["many", "10"]).succeed();
    let path = finished.profiles[0].to_str().unwrap();
    let report = finish(ramson(&scratch).args(["report", path, "--view", "frees"])).good().text();
    assert_eq!(
        report.lines().filter(|line| line.contains("ramson run --recent-frees 1024")).count(),
        1,
        "{report}"
    );
    let stacks = scratch.file("stacks.txt", "main;f 100\n");
    let stacks = stacks.to_str().unwrap();
    let outcome = finish(ramson(&scratch).args(["report", stacks, "--view", "frees"]));
    assert_eq!(outcome.status, 2);
    assert!(
        outcome.remarks[0].contains("does not say what freed a block"),
        "{:?}",
        outcome.remarks
    );
}
