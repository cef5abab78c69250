//! The series of a history as a chart, as a picture and as numbers for Prometheus.

use ramson_tests::recorded::Recorded;
use ramson_tests::servers::*;
use ramson_tests::terminal::Terminal;
use std::process::Command;

/// A program that was marked before and after it grew; it runs.
fn recorded() -> Recorded {
    let recorded = Recorded::new();
    let mut recorder = recorded.record("PID");
    recorded.good("mark PID before");
    recorded.grow(0);
    recorded.good("mark PID after");
    recorded.wait_for("live-peak");
    recorder.signal("TERM");
    recorder.wait();
    recorded
}

#[test]
fn chart_appears_on_terminals_only() {
    let recorded = recorded();
    let plain = recorded.good("timeline PID");
    assert!(!plain.contains(['█', '│', '▲']), "{plain}");
    let asked = recorded.good("timeline PID --chart -n 3");
    let marks = asked.lines().find(|line| line.contains("░ the rest of RSS")).expect(&asked);
    assert!(marks.ends_with("▲ before, after"), "{asked}");
    assert!(asked.contains("0 B └") && asked.find('█') < asked.find("allocated/s"), "{asked}");
    assert!(asked.lines().filter(|line| line.contains('│')).all(|line| line.chars().count() <= 80));

    let mut command = recorded.ramson("timeline PID -n 3");
    command.env_remove("COLUMNS");
    let mut terminal = Terminal::start(&command, 60, 40);
    terminal.wait();
    let screen = terminal.wait_for("why");
    assert!(screen.contains('█') && screen.contains('▲'), "{screen}");
    let never = finish(recorded.ramson("timeline PID").args(["--chart=never"])).good();
    assert!(!never.text().contains('█'));
}

#[test]
fn timeline_rows_say_their_reason() {
    let recorded = recorded();
    let text = recorded.good("timeline PID -n 0");
    assert!(!text.contains("clock") && !text.contains("rss-peak"), "{text}");
    let why = |word: &str| text.lines().filter(|line| line.ends_with(word)).count();
    assert_eq!((why("mark before"), why("start")), (1, 1), "{text}");
    assert_eq!(text.matches("RSS peak").count(), 1, "{text}");
    assert_eq!(text.matches("live peak").count(), 1, "{text}");
    let json = recorded.json("timeline PID -n 3");
    let marks: Vec<&str> = json.list("marks").iter().map(|mark| mark.text("name")).collect();
    assert_eq!(marks, ["before", "after"]);
    // RSS is what is live, what is free, and the rest, at every moment at which all are known.
    let is_known = |row: &&Json| matches!(row.at("rest"), Json::Object(_));
    for row in json.list("rows").iter().filter(is_known) {
        let parts = ["live.value", "free_in_allocator.value", "rest.value"];
        let sum: f64 = parts.into_iter().map(|part| row.number(part)).sum();
        assert!((sum - row.number("rss")).abs() < 1.0, "{text}");
    }
    json.list("steps");
}

#[test]
fn series_exports_as_svg_and_csv() {
    let recorded = recorded();
    let svg = recorded.good("export PID -f svg --view timeline");
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("class=\"live\""), "{svg:.500}");
    assert!(svg.contains(">before</text>") && svg.contains(">after</text>"), "{svg:.500}");
    assert_eq!(
        recorded.good("export PID -f csv --view timeline"),
        recorded.good("timeline PID --csv")
    );
    recorded.refused("export PID -f pprof --view timeline", 2, "svg, csv or openmetrics");
    recorded.refused("export PID -f svg --view timeline --focus x", 2, "only totals");
}

#[test]
fn moment_knows_free_allocator_memory() {
    let recorded = recorded();
    let mut moved = Command::new("kill");
    assert!(moved.args(["-STOP", &recorded.pid.to_string()]).status().unwrap().success());
    recorded.good("mark PID stopped");
    let report = recorded.json("report PID");
    let terms = report.at("rss").at("terms");
    let free = terms.number("free_in_allocator.value");
    let rows = recorded.json("timeline PID -n 0");
    let rows = rows.list("rows");
    let last = rows.last().unwrap();
    assert_eq!((last.text("triggers"), last.number("free_in_allocator.value")), ("mark", free));
    assert_eq!(last.at("held_by_allocator"), &Json::Word("null".into()));
    // The terms of a moment are those of a report, and add up.
    let Json::Object(kept) = last.at("terms") else { panic!("{last:?}") };
    let sum: f64 = kept.keys().map(|term| last.at("terms").number(term)).sum();
    assert_eq!(sum, last.number("rss"));
    for term in kept.keys() {
        let reported = terms.number(&format!("{term}.value"));
        assert!((last.at("terms").number(term) - reported).abs() < 1.0, "{term}");
    }
    let text = recorded.good("timeline PID --chart");
    assert!(text.contains("▒ free in the allocator") && text.contains("       free "), "{text}");
    let svg = recorded.good("export PID -f svg --view timeline");
    assert!(
        svg.contains("class=\"free\"") && svg.contains(">free in the allocator<"),
        "{svg:.900}"
    );
}

/// Prints each sample as Prometheus' own parser reads it.
const PARSE: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        print(family.name, family.type, family.unit, sample.labels['pid'], sample.value, sample.timestamp)";

/// Name, value, and whether it has a time, of each sample.
#[track_caller]
fn parsed(text: &str) -> Vec<(String, f64, bool)> {
    // Debian's takes a later time for an earlier one: make test installs prometheus_client from PyPI.
    let mut command = clean(python());
    let shown = finish_with(command.args(["-c", PARSE]), text.as_bytes()).good().text();
    let fields = shown.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .map(|fields| (fields[0].to_owned(), fields[4].parse().unwrap(), fields[5] != "None"))
        .collect()
}

#[test]
fn prometheus_reads_totals_and_history() {
    let recorded = recorded();
    let now = parsed(&recorded.good("export PID -f openmetrics"));
    let mut names: Vec<&str> = now.iter().map(|(name, ..)| name.as_str()).collect();
    names.dedup();
    let expected = [
        "ramson_rss_bytes",
        "ramson_live_bytes",
        "ramson_live_half_width_bytes",
        "ramson_free_in_allocator_bytes",
        "ramson_free_in_allocator_half_width_bytes",
        "ramson_live_samples",
        "ramson_allocated_bytes",
        "ramson_rss_term_bytes",
        "ramson_sampled",
        "ramson_stack_live_bytes",
        "ramson_stack_live_half_width_bytes",
    ];
    assert_eq!(names, expected);
    let is_right = |(name, value, has_time): &(String, f64, bool)| {
        (*value > 0.0 || name.contains("_half_width_")) && !has_time
    };
    assert!(now.iter().all(is_right), "{now:?}");
    // glibc's heap is walked, and its total says what is live.
    let half_width = |of: &str| now.iter().find(|(name, ..)| name == of).map(|it| it.1);
    assert_eq!(half_width("ramson_free_in_allocator_half_width_bytes"), Some(0.0));
    assert_eq!(half_width("ramson_live_half_width_bytes"), Some(0.0));

    let series = parsed(&recorded.good("export PID -f openmetrics --view timeline"));
    let mut moments = recorded.moments();
    // Keeps the first of two moments in one millisecond.
    moments.dedup_by_key(|moment| moment.0 / 1_000_000);
    let live = series.iter().filter(|(name, ..)| name == "ramson_live_bytes");
    let live: Vec<f64> =
        live.map(|(_, value, has_time)| if *has_time { *value } else { -1.0 }).collect();
    assert_eq!(live, moments.iter().map(|moment| moment.1).collect::<Vec<_>>());
}
