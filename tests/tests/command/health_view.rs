//! `report --view health` and `--json` of profiles that lost something, and of a bound that was asked for.

use ramson_format::{HEALTH, Health};
use ramson_tests::servers::*;
use ramson_tests::{health, program, read};
use std::path::PathBuf;

/// A profile of this command, kept in a file of this name.
fn recorded(scratch: &Scratch, options: &[&str], command: &[&str]) -> PathBuf {
    let path = scratch.path("kept.ramson");
    let mut run = ramson(scratch);
    run.arg("run").args(options).arg("-o").arg(&path).arg("--").args(command);
    finish(&mut run).good();
    path
}

fn report(scratch: &Scratch, path: &PathBuf, more: &[&str]) -> String {
    finish(ramson(scratch).arg("report").arg(path).args(more)).good().text()
}

#[test]
fn losses_are_told_by_cause() {
    let scratch = Scratch::new();
    let keeps = "my @all; push @all, 'x' x (100 + $_ % 50) for 1..200000; print scalar @all";
    let options = ["--interval", "1", "--max-file", "1M"];
    let path = recorded(&scratch, &options, &["perl", "-e", keeps]);
    let snapshot = read(&path).unwrap();
    let dropped = health(&snapshot, Health::DroppedLive);
    assert!(dropped > 100_000, "{dropped}");

    let text = report(&scratch, &path, &["--view", "health"]);
    let lost: Vec<&str> = text.lines().filter(|line| line.starts_with("lost ")).collect();
    assert!(lost[0].contains("the live table was full"), "{text}");
    let heading = report(&scratch, &path, &[]);
    let is_told = |line: &str| line.starts_with("not complete: ") && line.contains("live table");
    assert!(heading.lines().any(is_told), "{heading}");

    let json = Json::parse(&report(&scratch, &path, &["--json"]));
    for (kind, name) in HEALTH {
        let value = json.number(&format!("health.{name}"));
        assert_eq!(value, health(&snapshot, kind) as f64, "{name}");
    }
    let own = |name: &str| json.number(&format!("recording.own_{name}_bytes"));
    assert!(own("most") >= (1 << 20) as f64 && own("most") < own("bound"), "{json:?}");
}

#[test]
fn max_overhead_option_is_kept() {
    let scratch = Scratch::new();
    let storm = program("governed.c");
    let storm = [storm.to_str().unwrap(), "storm", "300"];
    for (asked, ppm) in [("0.25", 2_500.0), ("5", 50_000.0), ("off", 0.0)] {
        let options = ["--interval", "4K", "--force", "--max-overhead", asked];
        let path = recorded(&scratch, &options, &storm);
        let recording = |name: &str| {
            Json::parse(&report(&scratch, &path, &["--json"])).number(&format!("recording.{name}"))
        };
        assert_eq!(recording("max_overhead_ppm"), ppm);
        assert_eq!(recording("interval_changes") > 0.0, asked != "off", "{asked}");
    }
}
