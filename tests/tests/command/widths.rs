//! Tables on terminals of 80 and 120 columns: no line is longer, no column is cut, and the function's own name is always whole.

use ramson_tests::program;
use ramson_tests::servers::*;
use std::path::Path;

const WIDTHS: [usize; 2] = [80, 120];
const OWN_NAME: &str = "open_session";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns a command's output on a terminal of this width, and fails if a line is longer.
fn shown(scratch: &Scratch, columns: usize, arguments: &[&str]) -> String {
    let mut command = ramson(scratch);
    let shown = finish(command.env("COLUMNS", columns.to_string()).args(arguments)).good().text();
    for line in shown.lines() {
        assert!(line.chars().count() <= columns, "{columns}, {arguments:?}: {line}\n{shown}");
    }
    shown
}

/// The line of `text` that has a column of this name at its end.
fn head<'a>(text: &'a str, last: &str) -> &'a str {
    let mut lines = text.lines().filter(|line| line.trim_end().ends_with(last));
    lines.next().unwrap_or_else(|| panic!("no {last}: {text}"))
}

/// Lines that differ only in the width of a gap are the same.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn dead_program_tables_fit_width() {
    let scratch = Scratch::new();
    let path = scratch.path("profiles/7-8.ramson");
    let program = program("widths.cc");
    scratch.open_directory("profiles");
    let run = ["run", "--interval", "1", "-o", text(&path), "--", text(&program), "die"];
    assert_eq!(finish(ramson(&scratch).args(run)).status, 137);
    let empty = scratch.file("empty.collapsed", "main;load 0\n");
    let path = text(&path);
    let diff = ["Δ ± new function", "Δ ± Δ total old new function"];
    let [report, top, list] = [
        ["live share ± age allocated by", "live share ± objects age allocated by"],
        [
            "own own% total ± function file:line",
            "own own% sum% total total% ± objects function file:line",
        ],
        ["pid state when live RSS command", "pid state when live ± RSS command"],
    ];
    for (at, columns) in WIDTHS.into_iter().enumerate() {
        let shown = |arguments: &[&str]| shown(&scratch, columns, arguments);
        let check = |arguments: &[&str], last: &str, heads: [&str; 2]| {
            let shown = shown(arguments);
            assert_eq!(words(head(&shown, last)), heads[at], "{shown}");
            shown
        };
        let report = check(&["report", path], "allocated by", report);
        assert!(report.contains("open_session  widths.cc:"), "{report}");
        for view in ["functions", "lines"] {
            let shown = check(&["report", path, "--view", view], "file:line", top);
            assert!(shown.contains(OWN_NAME), "{shown}");
        }
        let diff = check(&["diff", text(&empty), path], "function", diff);
        assert!(diff.contains(OWN_NAME), "{diff}");
        let leaks = shown(&["leaks", path, "--min-age", "1ms", "-v"]);
        assert!(leaks.contains(" acme::networking::SessionManager::open_session  "), "{leaks}");
        let leaks = shown(&["leaks", path, "--min-age", "1ms"]);
        assert!(leaks.contains("acme::networking::SessionManager::open_session "), "{leaks}");
        let list = check(&["list", path], "command", list);
        assert!(list.contains("widths"), "{list}");
    }
}

#[test]
fn running_program_tables_fit_width() {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let program = program("widths.cc");
    let mut command = ramson(&scratch);
    let path = scratch.path("live.ramson");
    command.args(["run", "--interval", "1", "-o", text(&path), "--"]).arg(program);
    let is_ready = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("ready"));
    let running = Running::start(&mut command, &log, is_ready);
    let pins = ["pins ± age p50 allocated by", "pins ± live ± age p50 oldest allocated by"];
    let top = ["live▼ ± Δ age function file:line", "live▼ ± Δ alloc/s age function file:line"];
    for (at, columns) in WIDTHS.into_iter().enumerate() {
        let shown = |arguments: &[&str]| shown(&scratch, columns, arguments);
        let explain = shown(&["explain", text(&path)]);
        assert_eq!(words(head(&explain, "allocated by")), pins[at], "{explain}");
        let below = explain.split_once("allocated by\n").unwrap().1;
        assert!(below.lines().next().unwrap().contains(OWN_NAME), "{explain}");
        let once = shown(&["top", text(&path), "--once", "--every", "100ms"]);
        assert_eq!(words(head(&once, "file:line")), top[at], "{once}");
        assert!(once.contains(OWN_NAME), "{once}");
    }
    drop(running);
}
