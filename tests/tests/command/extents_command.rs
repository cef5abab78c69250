//! Memory that a program maps itself, as users see it: apart from the heap, everywhere.

use ramson_tests::keeping::{assert_terms_add_up, term};
use ramson_tests::program;
use ramson_tests::servers::*;
use std::fs;

const MIB: f64 = (1 << 20) as f64;

/// `pool.c` at its `pause`, and its process ID.
fn pool(scratch: &Scratch) -> (Running, String) {
    paused(scratch, &[program("pool.c").to_str().unwrap()])
}

fn paused(scratch: &Scratch, program: &[&str]) -> (Running, String) {
    let log = scratch.path("log");
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "1", "--"]).args(program);
    let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    let running = Running::start(&mut command, &log, is_ready);
    let pid = profiles(scratch)[0].header.pid.to_string();
    (running, pid)
}

fn say(scratch: &Scratch, arguments: &[&str]) -> String {
    finish(ramson(scratch).args(arguments)).good().text()
}

#[test]
fn mmap_stays_apart_from_heap() {
    let scratch = Scratch::new();
    let (_running, pid) = pool(&scratch);
    let total = |kind: &str| {
        let report = say(&scratch, &["report", &pid, "--json", "--kind", kind]);
        Json::parse(&report).number("total.value")
    };
    let report = Json::parse(&say(&scratch, &["report", &pid, "--json"]));
    let [heap, requested] = ["total.value", "live_requested.value"].map(|path| report.number(path));
    assert!((30.0 * 102_400.0..30.0 * 102_400.0 + 100_000.0).contains(&heap), "{heap}");
    assert_eq!(total("heap"), heap);
    assert_eq!(total("mmap"), 72.0 * MIB);
    assert_eq!(total("all"), heap + 72.0 * MIB);
    let mapped = 72.0 * MIB;
    for (kind, sum) in [("heap", requested), ("mmap", mapped), ("all", requested + mapped)] {
        let collapsed = say(&scratch, &["export", &pid, "-f", "collapsed", "--kind", kind]);
        let of = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        assert_eq!(collapsed.lines().map(of).sum::<f64>(), sum, "{collapsed}");
        let apart = collapsed.lines().filter(|line| line.starts_with("[mmap];"));
        assert_eq!(apart.count(), if kind == "all" { 2 } else { 0 }, "{collapsed}");
        let json = Json::parse(&say(&scratch, &["export", &pid, "-f", "json", "--kind", kind]));
        assert_eq!(json.number("totals.inuse_space.value"), sum);
        let file = scratch.path(&format!("{kind}.pb.gz"));
        let file = file.to_str().unwrap();
        say(&scratch, &["export", &pid, "-f", "pprof", "--kind", kind, "-o", file]);
        let mut tags = clean("go");
        tags.args(["tool", "pprof", "-tags", file]);
        let tags = finish(&mut tags).good().text();
        assert_eq!(tags.contains(": mmap"), kind != "heap", "{tags}");
        // A profile of the heap alone needs no label.
        assert_eq!(tags.contains(": heap"), kind == "all", "{tags}");
    }
    let focus = ["report", &pid, "--json", "--kind", "all", "--tagfocus", "kind=mmap"];
    assert_eq!(Json::parse(&say(&scratch, &focus)).number("total.value"), 72.0 * MIB);
}

#[test]
fn rss_counts_resident_extents() {
    let scratch = Scratch::new();
    let (_running, pid) = pool(&scratch);
    let report = Json::parse(&say(&scratch, &["report", &pid, "--json"]));
    assert!((term(&report, "mmap") - 40.0 * MIB).abs() <= 2.0 * MIB, "{}", term(&report, "mmap"));
    // Under the kind mmap by its stack; in RSS what it is for every process that has it.
    assert_eq!(term(&report, "shared_memory"), 8.0 * MIB);
    assert_terms_add_up(&report);
    assert!(
        term(&report, "other_anonymous").abs() < 2.0 * MIB,
        "{}",
        term(&report, "other_anonymous")
    );
    assert_eq!(report.number("mmap.mapped.value"), 72.0 * MIB);
    assert_eq!(report.number("mmap.reserved.value"), (1u64 << 34) as f64);
    let shown = say(&scratch, &["report", &pid]);
    assert!(shown.lines().next().unwrap().contains(" + mmap 40."), "{shown}");
    assert!(
        shown.contains(
            "mmap 72.0 MiB in 2 extents, touched or not, beside live: --kind all shows both"
        ),
        "{shown}"
    );
    assert!(shown.contains("plus 16.0 GiB reserved (mapped PROT_NONE)"), "{shown}");
    let rows = say(&scratch, &["report", &pid, "--kind", "mmap"]);
    assert!(rows.contains("\nmapped, total 72.0 MiB"), "{rows}");
    let rows = say(&scratch, &["report", &pid, "--kind", "all"]);
    assert!(rows.contains("\nlive+mmap, total 7"), "{rows}");
}

/// `extents.c` maps 7 and 16 MiB; of these it unmaps 2, and maps a file over 1.
#[test]
fn unmapped_holes_count_only_after_kill() {
    const NOTE: &str = "holes that the program unmapped inside an extent still count";
    let scratch = Scratch::new();
    let (mut running, pid) = paused(&scratch, &[program("extents.c").to_str().unwrap(), "holes"]);
    let snapshot = scratch.path("moment.ramson");
    let snapshot = snapshot.to_str().unwrap();
    say(&scratch, &["mark", &pid, "-o", snapshot]);
    for source in [&pid, snapshot] {
        let report = Json::parse(&say(&scratch, &["report", source, "--json", "--kind", "mmap"]));
        assert_eq!(report.number("total.value"), 20.0 * MIB, "{source}");
        assert_eq!(report.number("mmap.mapped.value"), 20.0 * MIB, "{source}");
        let shown = say(&scratch, &["report", source]);
        assert!(shown.contains("mmap 20.0 MiB in 5 extents"), "{shown}");
        assert!(!shown.contains(NOTE), "{shown}");
    }
    let report = Json::parse(&say(&scratch, &["report", &pid, "--json"]));
    let mmap = term(&report, "mmap");
    assert!((7.0 * MIB..7.1 * MIB).contains(&mmap), "{mmap}");
    let copy = say(&scratch, &["report", snapshot]);
    let first = copy.lines().next().unwrap();
    assert!(first.contains(" MiB when it was copied; live then "), "{copy}");
    assert!(copy.contains(&format!("(pid {pid}), copied while it ran, ")), "{copy}");
    signal(pid.parse().unwrap(), "KILL");
    running.wait();
    let log = fs::read_to_string(scratch.path("log")).unwrap();
    let last = log.lines().rfind(|line| line.contains(&format!("(pid {pid})"))).unwrap();
    assert!(last.contains(", mmap 23.0 MiB: ") && last.ends_with(" --kind all"), "{log}");
    let shown = say(&scratch, &["report", &pid]);
    assert!(shown.contains("mmap 23.0 MiB in 2 extents"), "{shown}");
    assert!(shown.contains(NOTE), "{shown}");
}
