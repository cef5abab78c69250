//! The call tree that `ramson serve` cuts for a picture: its numbers are the report's, what is not shown is counted, and nothing is
//! too large for the wire.

use ramson_tests::random::Random;
use ramson_tests::servers::*;
use ramson_tests::serving::{Reply, Serving};
use ramson_tests::several::say;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// Collapsed stacks of so many lines, that share beginnings; other ones with another seed.
fn stacks(lines: usize, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut stack: Vec<u64> = Vec::new();
    let mut text = String::new();
    for _ in 0..lines {
        stack.truncate(random.below(stack.len() as u64 + 1) as usize);
        while stack.len() < 4 + random.below(12) as usize {
            // A few functions are in most stacks, and many in some.
            let most = if random.below(2) == 0 { 4 } else { 1 + random.below(2000) };
            stack.push(random.below(most));
        }
        let names: Vec<String> = stack
            .iter()
            .map(|name| format!("service{}::Handler{name}::process", name % 97))
            .collect();
        text += &format!("{} {}\n", names.join(";"), 1 + random.below(1 << 20));
    }
    text
}

fn json(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

fn numbers(of: &Value) -> Vec<i64> {
    of.as_array().unwrap().iter().map(|number| number.as_i64().unwrap_or(i64::MIN)).collect()
}

/// The nodes of a picture: depth, function, cum, flat, merged frames.
fn nodes(flame: &Value, of: &str) -> Vec<(usize, Option<String>, i64, i64, i64)> {
    let column = |name: &str| numbers(&flame[of][name]);
    let [depth, function, cum, flat, merged] =
        ["depth", "function", "cum", "flat", "merged"].map(column);
    (0..depth.len())
        .map(|at| {
            let place = usize::try_from(function[at]).ok();
            let name = place
                .map(|place| flame["functions"][place]["function"].as_str().unwrap().to_owned());
            (depth[at] as usize, name, cum[at], flat[at], merged[at])
        })
        .collect()
}

/// Sum of the values that the picture lacks at the zoomed frame or at any below it, in the unit of its values.
fn missing(flame: &Value) -> i64 {
    let zoomed = nodes(flame, "path").pop();
    let whole = flame["total"]["value"]["value"].as_i64().unwrap();
    let mut left = vec![zoomed.map_or(whole, |(_, _, cum, flat, _)| cum - flat)];
    let mut missing = 0;
    for (depth, _, cum, flat, merged) in nodes(flame, "nodes") {
        left.drain(depth + 1..).for_each(|rest| missing += rest.abs());
        left[depth] -= cum;
        left.push(if merged == 0 { cum - flat } else { 0 });
    }
    missing + left.iter().map(|rest| rest.abs()).sum::<i64>()
}

#[test]
fn shown_and_merged_frames_match_report() {
    let scratch = Scratch::new();
    let file = scratch.file("stacks", stacks(20_000, 1).as_bytes());
    let file = file.to_str().unwrap();
    let serving = Serving::start(&scratch, &[file]);
    for (view, direction) in [("tree", "callees"), ("callers", "callers")] {
        let report = say(&scratch, &["report", file, "--json", "--view", view, "-n", "0"]).good();
        let report: Value = serde_json::from_str(&report.text()).unwrap();
        let mut rows: BTreeMap<Vec<String>, (i64, i64)> = BTreeMap::new();
        let mut path: Vec<String> = Vec::new();
        for row in report["rows"].as_array().unwrap() {
            path.truncate(row["depth"].as_u64().unwrap() as usize);
            let Some(name) = row["function"].as_str() else { continue };
            path.push(name.to_owned());
            let of = |column: &str| row[column]["value"].as_i64().unwrap();
            rows.insert(path.clone(), (of("cum"), of("flat")));
        }
        let flame = json(&serving.get(&format!("/api/v1/flame?direction={direction}")).good());
        assert_eq!(missing(&flame), 0, "{direction}");
        assert_eq!(flame["total"]["value"], report["total"]);
        let merged = flame["merged"]["frames"].as_i64().unwrap();
        assert!(merged > 10_000, "{merged} frames are merged");
        path.clear();
        let mut compared = 0;
        for (depth, name, cum, flat, _) in nodes(&flame, "nodes") {
            path.truncate(depth);
            let Some(name) = name else { continue };
            path.push(name);
            if let Some(row) = rows.get(&path) {
                assert_eq!((cum, flat), *row, "{path:?}");
                compared += 1;
            }
        }
        assert!(compared > 10, "{compared} of {} rows", rows.len());
    }
}

#[test]
fn large_views_are_small_and_consistent() {
    let scratch = Scratch::new();
    let file = scratch.file("stacks", stacks(50_000, 2).as_bytes());
    let serving = Serving::start(&scratch, &[file.to_str().unwrap()]);
    let first = json(&serving.get("/api/v1/flame").good());
    let key = |of: &Value| {
        let place = of["nodes"]["function"][0].as_u64().unwrap() as usize;
        let number = of["functions"][place]["key"].as_u64().unwrap();
        base_36(number)
    };
    let zoom = key(&first);
    for query in [
        "",
        "?width=10000",
        "?width=100&direction=callers",
        "?frames=all&focus=Handler1",
        &format!("?path={zoom}"),
        &format!("?path={zoom}&width=10000"),
    ] {
        let reply = serving.get_packed(&format!("/api/v1/flame{query}")).good();
        assert_eq!(reply.header("content-encoding"), "gzip");
        assert!(reply.body.len() <= 64_000, "{query}: {} bytes", reply.body.len());
        let flame = json(&serving.get(&format!("/api/v1/flame{query}")).good());
        assert_eq!(missing(&flame), 0, "{query}");
        assert_eq!(flame["total"], first["total"], "{query}");
    }
    fs::write(&file, stacks(1000, 3)).unwrap();
    let changed = json(&serving.get("/api/v1/flame").good());
    let report = say(&scratch, &["report", file.to_str().unwrap(), "--json"]).good();
    let report: Value = serde_json::from_str(&report.text()).unwrap();
    assert_ne!(changed["total"], first["total"]);
    assert_eq!(changed["total"]["value"], report["total"]);
}

fn base_36(mut number: u64) -> String {
    let mut digits = Vec::new();
    while number > 0 || digits.is_empty() {
        digits.insert(0, char::from_digit((number % 36) as u32, 36).unwrap());
        number /= 36;
    }
    digits.into_iter().collect()
}
