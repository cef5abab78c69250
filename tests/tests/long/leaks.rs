//! `ramson leaks` and `ramson mark` on a real program whose truth is known.

use ramson_tests::program;
use ramson_tests::servers::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Least age: blocks freed within half a second are churn, because the program lives for seconds.
const SOON: [&str; 2] = ["--min-age", "500ms"];

fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    finish(ramson(scratch).args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The profile of a program with suspects, which was killed after six seconds. How old its blocks are is up to the machine: it runs again if that
/// stopped it for long.
fn dead(scratch: &Scratch) -> String {
    let path = scratch.path("dead.ramson");
    let program = program("suspects.c");
    let program = text(&program);
    let run = ["run", "--interval", "1", "-o", text(&path), "--", program, "6"];
    for _ in 0..10 {
        let outcome = say(scratch, &run);
        assert_eq!(outcome.status, 137);
        let said = outcome.text();
        let numbers = said.split_whitespace().filter_map(|word| word.parse().ok());
        let [turns, longest_ms]: [u32; 2] = numbers.collect::<Vec<_>>().try_into().unwrap();
        if turns > 1500 && longest_ms < 150 {
            return text(&path).to_owned();
        }
        std::fs::remove_file(&path).unwrap();
    }
    panic!("the machine never lets it run");
}

fn start(scratch: &Scratch) -> Running {
    let log = scratch.path("log");
    let program = program("suspects.c");
    let mut command: Command = ramson(scratch);
    command.args(["run", "--interval", "1", "-o", text(&scratch.path("live.ramson")), "--"]);
    let is_built = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("built"));
    Running::start(command.arg(program), &log, is_built)
}

fn suspects(scratch: &Scratch, arguments: &[&str]) -> Json {
    let arguments = [&["leaks"], arguments, &SOON, &["--json", "--rows", "0"]].concat();
    Json::parse(&say(scratch, &arguments).good().text())
}

fn is_true(value: &Json) -> bool {
    matches!(value, Json::Word(word) if word == "true")
}

/// Verdicts by the function that allocates.
fn verdicts(object: &Json) -> BTreeMap<String, String> {
    let of = |suspect: &Json| {
        (suspect.list("frames")[0].text("function").to_owned(), suspect.text("verdict").to_owned())
    };
    object.list("suspects").iter().map(of).collect()
}

#[test]
fn dead_program_verdicts_are_right() {
    let scratch = Scratch::new();
    let path = dead(&scratch);
    let object = suspects(&scratch, &[&path]);
    let found = verdicts(&object);
    // How long the blocks of a cache live is up to the machine: 300 ms, or more if it is busy.
    let turned_over: &[&str] = &["churn", "plateau"];
    for (site, verdicts) in [
        ("site_leak", &["growing"][..]),
        ("site_reachable", &["growing"]),
        ("site_cache", turned_over),
        ("site_sawtooth", turned_over),
        ("site_churn", &["churn"]),
        ("site_start_up", &["built-once"]),
    ] {
        let verdict = found.get(site).map(String::as_str);
        assert!(verdict.is_some_and(|verdict| verdicts.contains(&verdict)), "{site}: {found:?}");
    }
    // The larger of the two leaks comes first, and with every allocation recorded nothing is uncertain.
    let first = &object.list("suspects")[0];
    assert_eq!(first.list("frames")[0].text("function"), "site_reachable");
    assert_eq!(first.number("inuse_space.half_width_95"), 0.0);
    assert_eq!(first.number("survival.never_freed"), 1.0);
    let shown = say(&scratch, &["leaks", &path, "--min-age", "500ms", "-n", "1"]).good().text();
    let answer = shown.lines().next().unwrap();
    assert!(
        answer.starts_with("2 leak suspects: ") && answer.ends_with(" in site_reachable"),
        "{answer}"
    );
    assert!(shown.contains("\n1. leak suspect: site_reachable  "), "{shown}");
    assert!(shown.contains("\n   Nothing allocated here in the last "), "{shown}");
    assert!(shown.contains("\n   called by main:"), "{shown}");
    assert!(shown.contains("more findings; -n 0 shows all"), "{shown}");
    let in_short = object.at("answer");
    assert_eq!(in_short.number("leak_suspects"), 2.0);
    assert!(in_short.number("growth_per_hour.value") > 0.0);
    assert_eq!(first.list("lines").len(), 1);
    // A cache that outlives the least age is none of churn.
    let arguments = ["leaks", &path, "--min-age", "100ms", "--focus", "^site_cache$", "--json"];
    let object = Json::parse(&say(&scratch, &arguments).good().text());
    assert_eq!(verdicts(&object)["site_cache"], "plateau");
}

#[test]
fn leak_gate_trips_on_growth_only() {
    let scratch = Scratch::new();
    let path = dead(&scratch);
    let known = scratch.file("known", "# a list\nleak:^site_reachable$\nleak:*suspects.c\n");
    let gate = |more: &[&str]| say(&scratch, &[&["leaks", &path], &SOON[..], more].concat());
    let tripped = gate(&["--fail-on", "growing"]);
    assert_eq!(tripped.status, 3);
    assert!(tripped.remarks[0].contains("2 leak suspects, growing by "), "{:?}", tripped.remarks);
    assert_eq!(gate(&["--fail-on", "1KiB/h"]).status, 3);
    assert_eq!(gate(&["--fail-on", "1TiB/h"]).status, 0);
    assert_eq!(gate(&["--fail-on", "unknown,growing"]).status, 3);
    let hidden = gate(&["--fail-on", "growing,unknown", "--suppressions", text(&known)]);
    assert_eq!(hidden.status, 4);
    let hidden = gate(&["--fail-on", "growing", "--suppressions", text(&known)]);
    assert_eq!(hidden.status, 0);
    let text = hidden.text();
    assert!(!text.contains("leak suspect") && text.contains(" by suppressions"), "{text}");
    // Six seconds say nothing if nothing is judged before a minute.
    let early = ["leaks", &path, "--fail-on", "growing"];
    let unlisted = say(&scratch, &early);
    assert_eq!(unlisted.status, 0);
    assert!(unlisted.remarks[0].contains("the recording is too short to tell"), "{unlisted:?}");
    let early_text = unlisted.text();
    let largest = early_text.lines().filter(|line| line.contains(" of all: ")).count();
    assert!(largest == 2 && !early_text.contains("1. "), "{early_text}");
    let listed = say(&scratch, &[&early[..3], &["growing,unknown"]].concat());
    assert_eq!(listed.status, 4);
    let json = Json::parse(&say(&scratch, &["leaks", &path, "--json"]).good().text());
    assert_eq!(json.text("answer.cannot_tell"), "too-short");
    // A baseline of one process hides the same stacks in another.
    let baseline = gate(&["--fail-on", "growing", "--baseline", &path]);
    assert_eq!(baseline.status, 0);
    assert!(
        baseline.text().contains("2 stacks already growing in the baseline"),
        "{}",
        baseline.text()
    );
    mistakes_are_one_line_that_says_what_to_do(&scratch, &path);
}

#[test]
fn growth_covers_window_or_mark() {
    let scratch = Scratch::new();
    let running = start(&scratch);
    let path = scratch.path("live.ramson");
    // The mark is a profile like any other. An early verdict comes and goes with the samples.
    let shows_the_leak = |name: &String| {
        let mark = say(&scratch, &["mark", text(&path), name]).good().text();
        let marked = suspects(&scratch, &[mark.trim_end()]);
        let is_shown = verdicts(&marked).get("site_leak").is_some_and(|of| of == "growing");
        assert!(!is_shown || marked.list("defects").is_empty(), "{mark}");
        is_shown
    };
    let mut names = (0..300).map(|number| format!("early{number}"));
    let early = names.find(shows_the_leak).expect("a mark that shows the leak");
    let again = say(&scratch, &["mark", text(&path), &early]);
    assert_eq!(again.status, 1);
    for how in [["--window", "2s"], ["--since", &early]] {
        let object = suspects(&scratch, &[&[text(&path)], &how[..]].concat());
        let leak = object
            .list("suspects")
            .iter()
            .find(|suspect| suspect.list("frames")[0].text("function") == "site_leak");
        let growth = leak.unwrap().at("growth");
        assert!(is_true(growth.at("is_measured")), "{how:?}");
        assert!(is_true(growth.at("is_significant")), "{how:?}");
        assert!(growth.number("bytes_per_hour.value") > 0.0, "{how:?}");
    }
    too_short_a_window_is_refused(&scratch, text(&path));
    // The first tooth of the sawtooth may be in the baseline, too, because the baseline is so early.
    let known = suspects(&scratch, &[text(&path), "--baseline", &early]);
    assert!(known.number("known") >= 2.0 && !verdicts(&known).contains_key("site_leak"));
    drop(running);
    // It was killed right after a mark, perhaps without another sample.
    let refused = say(&scratch, &["leaks", text(&path), "--since", "now"]);
    assert_eq!((refused.status, refused.remarks.len()), (1, 1), "{:?}", refused.remarks);
    assert!(refused.remarks[0].contains("recorded after it"), "{:?}", refused.remarks);
}

fn too_short_a_window_is_refused(scratch: &Scratch, path: &str) {
    say(scratch, &["mark", path, "now"]).good();
    for (how, status, part) in
        [(["--since", "now"], 1, "Ask again in "), (["--window", "59s"], 2, "Pass a longer window")]
    {
        let refused = say(scratch, &[&["leaks", path][..], &how].concat());
        assert_eq!((refused.status, refused.remarks.len()), (status, 1), "{:?}", refused.remarks);
        let remark = &refused.remarks[0];
        assert!(remark.contains("growth needs at least") && remark.contains(part), "{remark}");
    }
}

fn mistakes_are_one_line_that_says_what_to_do(scratch: &Scratch, path: &str) {
    let wrong = scratch.file("wrong", "race:x\n");
    for (more, status, part) in [
        (["--window", "1s"], 2, "is not running"),
        (["--since", "nowhere"], 5, "neither a mark"),
        (["--min-age", "soon"], 2, "not a time"),
        (["--fail-on", "churn"], 2, "10MiB/h"),
        (["--suppressions", text(&wrong)], 2, "leak:PATTERN"),
        (["--tagfocus", "1kb:"], 2, "whole stacks"),
    ] {
        let outcome = say(scratch, &[&["leaks", path][..], &more].concat());
        assert_eq!(outcome.status, status, "{more:?}");
        assert_eq!(outcome.remarks.len(), 1, "{more:?}: {:?}", outcome.remarks);
        assert!(outcome.remarks[0].contains(part), "{more:?}: {:?}", outcome.remarks);
    }
    assert_eq!(say(scratch, &["mark", path, "../x"]).status, 2);
}

#[test]
fn gate_sees_growth_outside_malloc() {
    const SCRIPT: &str = "import mmap, time\nkept = []\nprint('ready', flush=True)\n\
        for i in range(400):\n    kept.append(mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n    \
        kept[-1].write(b'x' * (1 << 20))\n    time.sleep(0.1)\n";
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let mut command = ramson(&scratch);
    command.args(["run", "--"]).arg(python()).arg(scratch.file("maps.py", SCRIPT));
    let _running = Running::start(&mut command, &log, || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    });
    let gate = |rate: &str| {
        say(
            &scratch,
            &["leaks", "maps.py", "--window", "20s", "--min-age", "1s", "--fail-on", rate],
        )
    };
    // 36 GiB an hour, on a machine that is not too busy.
    let tripped = gate("100MiB/h");
    assert_eq!(tripped.status, 3, "{tripped:?}");
    assert!(tripped.remarks[0].contains("memory outside malloc grows by "), "{tripped:?}");
}

/// What a metric has of a process's stacks, summed by function.
fn metric(text: &str, name: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(&format!("{name}{{"))) {
        let (labels, value) = line.split_once("} ").unwrap();
        let (_, function) = labels.split_once(",function=\"").unwrap();
        *sums.entry(function.trim_end_matches('"').to_owned()).or_default() +=
            value.parse::<f64>().unwrap();
    }
    sums
}

#[test]
fn growth_reaches_prometheus() {
    let scratch = Scratch::new();
    let running = start(&scratch);
    let pid = running.0.id().to_string();
    let path = scratch.path("live.ramson");
    let early = say(&scratch, &["export", text(&path), "-f", "openmetrics"]).good().text();
    assert!(!early.contains("ramson_live_growth_bytes_per_second{"), "{pid}: {early}");
    std::thread::sleep(std::time::Duration::from_secs(100));
    drop(running);
    // At the end of the process, so that both see the same.
    let now = say(&scratch, &["export", text(&path), "-f", "openmetrics"]).good().text();
    let report = say(&scratch, &["report", text(&path), "--json", "-n", "0"]).good().text();
    let grown = metric(&now, "ramson_stack_growth_bytes_per_second");
    assert_eq!(grown.keys().collect::<Vec<_>>(), ["site_leak", "site_reachable"]);
    for row in Json::parse(&report).list("rows") {
        let function = row.list("frames")[0].text("function");
        let Some(found) = grown.get(function) else { continue };
        let per_second = row.number("growth.bytes_per_hour.value") / 3600.0;
        assert!((found - per_second).abs() <= 1.0, "{function}: {found} {per_second}");
    }
    assert!(now.contains("ramson_live_growth_bytes_per_second{"), "{now}");
}
