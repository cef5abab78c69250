//! The HTML export in Debian's chromium. Without it these tests fail, they do not skip.

use crate::go_tool::Workplace;
use crate::profiles::about;
use ramson_encode::html;
use ramson_profile::{
    Estimate, Function, Line, Location, LookupAddress, Profile, SampleType, StackSample,
};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Uses the page in its frame as a reader does, and writes down what is seen after each step.
const READER: &str = include_str!("reader.html");

const FUNCTIONS: [&str; 7] = ["main", "a::parse", "Lambda", "b", "x", "y", "z"];

/// main → a::parse → Lambda 100, y 50; main → b → x 300, z 10.
fn profile() -> Profile {
    let function =
        |name: &str| Function { name: name.into(), system_name: name.into(), file: "".into() };
    let location = |function| {
        let lines = vec![Line { function, line: 1 }];
        Location { mapping: None, address: LookupAddress(0x1000 + function as u64), lines }
    };
    let stacks = [([2, 1, 0], 100.0), ([5, 1, 0], 50.0), ([4, 3, 0], 300.0), ([6, 3, 0], 10.0)];
    let samples = stacks.map(|(stack, bytes)| StackSample {
        locations: stack.to_vec(),
        values: [Estimate::exact(bytes); 4],
        ..StackSample::default()
    });
    Profile {
        functions: FUNCTIONS.map(function).to_vec(),
        locations: (0..FUNCTIONS.len()).map(location).collect(),
        samples: samples.to_vec(),
        ..Profile::default()
    }
}

/// What the reader has seen of `profile`.
fn seen() -> Value {
    let place = Workplace::new("browser");
    let mut page = Vec::new();
    html::write(&profile(), &mut page, SampleType::InuseSpace, &about()).unwrap();
    std::fs::write(place.path("page.html"), page).unwrap();
    std::fs::write(place.path("reader.html"), READER).unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=10", "300", "chromium", "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"])
        // The reader's page is another file than the one in its frame.
        .args(["--disable-web-security", "--allow-file-access-from-files"])
        .arg(format!("--user-data-dir={}", place.path("user").display()))
        // Time of the pages, not of the clock: it passes once nothing is left to load.
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("file://{}", place.path("reader.html").display()))
        .env("HOME", place.path(""))
        .stdin(Stdio::null())
        .output()
        .expect("timeout starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = dom.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let seen = seen.map(|(seen, _)| seen).unwrap_or_default();
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&seen).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("chromium ended with {}: {error}\n{dom}\n{said}", output.status)
    })
}

#[test]
fn the_page_can_be_searched_sorted_and_zoomed_under_its_own_policy() {
    let seen = seen();
    let all_rows = json!(["x", "Lambda", "y", "z", "main", "b", "a::parse"]);
    let all_boxes = json!(["all", "main", "b", "x", "z", "a::parse", "Lambda", "y"]);
    assert_eq!(seen["start"], json!({ "tools": true, "rows": all_rows, "boxes": all_boxes }));
    let found = json!({ "rows": ["Lambda"], "found": ["Lambda"], "output": "1 functions" });
    assert_eq!(seen["search"], found);
    assert_eq!(seen["cleared"], json!({ "rows": all_rows, "found": 0 }));
    let by_cum = ["main", "b", "x", "a::parse", "Lambda", "y", "z"];
    let by_cum_again: Vec<_> = by_cum.into_iter().rev().collect();
    let by_name = ["Lambda", "a::parse", "b", "main", "x", "y", "z"];
    let sorted =
        json!([["descending", by_cum], ["ascending", by_cum_again], ["ascending", by_name]]);
    assert_eq!(seen["sorted"], sorted);
    let zoomed =
        json!({ "boxes": ["all", "main", "a::parse", "Lambda"], "widths": [100, 100, 100, 100] });
    assert_eq!(seen["zoomed"], zoomed);
    assert_eq!(seen["whole"], all_boxes, "after Esc");
}
