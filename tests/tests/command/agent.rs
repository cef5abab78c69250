//! `ramson agent` without a server; `make fleet` has one.

use ramson_tests::servers::*;
use ramson_tests::serving::{holding, pid_of_only};
use ramson_tests::several::{json, say};
use serde_json::Value;
use std::fs;

/// A server that nobody is: port 1 is reserved.
fn config(scratch: &Scratch, more: &str) -> String {
    let state = scratch.path("agent");
    let text = format!(
        "state = \"{}\"\n{more}\n[clickhouse]\nurl = \"http://127.0.0.1:1\"\n",
        state.display()
    );
    scratch.file("agent.toml", text).display().to_string()
}

#[test]
fn agent_says_what_is_wrong_with_its_configuration() {
    let scratch = Scratch::new();
    let file = config(&scratch, "every_second = 5");
    let refused = say(&scratch, &["agent", "--config", &file]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(
        refused.remarks[0].contains("agent.toml:2: unknown field `every_second`"),
        "{refused:?}"
    );
    let absent = say(&scratch, &["agent", "--config", "/work-of-nobody.toml"]);
    assert_eq!(absent.status, 2, "{absent:?}");
    let check = say(&scratch, &["agent", "--config", &config(&scratch, ""), "--check"]);
    assert_eq!(check.status, 1, "{check:?}");
    assert!(check.remarks[0].contains("http://127.0.0.1:1: "), "{check:?}");
}

#[test]
fn rows_of_a_dry_run_have_what_is_live() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-for-an-agent");
    let pid = pid_of_only(&scratch);
    let file = config(&scratch, "");
    let printed = say(&scratch, &["agent", "--config", &file, "--once", "--dry-run"]).good().text();
    let rows: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |table: &str| {
        let rows: Vec<&Value> =
            rows.iter().filter(|row| row["table"] == table).map(|row| &row["row"]).collect();
        rows
    };
    let process = of("processes")
        .into_iter()
        .find(|row| row["pid"].as_u64() == pid.parse().ok())
        .unwrap()
        .clone();
    assert_eq!(process["program"], "holds-for-an-agent");
    let heap: Vec<&Value> =
        of("heap").into_iter().filter(|row| row["process"] == process["process"]).collect();
    // At an interval of 1 each block is a sample, of its size. It began on this day: what it has freed is known, too.
    assert!(heap.iter().all(|row| row["age"] != 0 && row["interval"] == 1), "{heap:?}");
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let sign = |row: &Value| if row["age"] == 1 { 1.0 } else { -1.0 };
    let bytes: f64 =
        heap.iter().map(|row| sign(row) * number(row, "n") * number(row, "size")).sum();
    assert_eq!(bytes, json(&scratch, &["report", &pid]).number("live_requested.value"));
    let stacks = of("stacks");
    let frames = of("frames");
    for row in &heap {
        let stack = stacks.iter().find(|stack| stack["stack"] == row["stack"]).unwrap();
        let known = |frame: &Value| frames.iter().any(|row| row["frame"] == *frame);
        assert!(stack["frames"].as_array().unwrap().iter().all(known), "{stack:?}");
    }
    assert!(!scratch.path("agent").exists());
}

#[test]
fn rows_wait_for_a_server() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-for-a-server");
    let file = config(&scratch, "");
    let waiting = || fs::read_dir(scratch.path("agent/batches")).unwrap().count();
    let mut before = 0;
    for _ in 0..2 {
        let refused = say(&scratch, &["agent", "--config", &file, "--once"]);
        // Of all processes that are profiled here: one batch or several.
        assert!(refused.status == 1 && waiting() > before, "{refused:?}");
        before = waiting();
        assert!(
            refused.remarks[0].ends_with("http://127.0.0.1:1: Connection refused\n"),
            "{refused:?}"
        );
    }
}
