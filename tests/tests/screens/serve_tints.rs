//! The call tree that `ramson serve` draws, coloured: its figures are those of the commands.

use ramson_tests::recorded::Recorded;
use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, holding, pid_of_only};
use ramson_tests::several::say;
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {value}"))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(1.0)
}

/// Sum over the frames that the tree begins with.
fn first_frames(flame: &Value, column: &str) -> f64 {
    let of = |name: &str| flame["nodes"][name].as_array().unwrap().iter().map(|it| it.as_f64());
    of("depth").zip(of(column)).filter(|(depth, _)| *depth == Some(0.0)).filter_map(|it| it.1).sum()
}

#[test]
fn age_colours_match_the_report() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-aged");
    let pid = pid_of_only(&scratch);
    // The clock behind ages ticks every 1 to 10 ms.
    sleep(Duration::from_millis(50));
    drop(held.0.stdin.take());
    held.wait();
    let serving = Serving::start(&scratch, &[&pid]);
    let report = json(&say(&scratch, &["report", &pid, "--json", "--rows", "0"]).good().text());
    let rows = report["rows"].as_array().unwrap();
    let aged = |row: &Value| number(row, "/value/value") * number(row, "/ages/mean_ns");
    let mean = rows.iter().map(aged).sum::<f64>() / number(&report, "/total/value");
    let flame = json(&serving.get("/api/v1/flame?colour=age").good().text());
    assert_eq!(flame["tint"]["by"].as_str(), Some("age"));
    let found = number(&flame, "/tint/figure/value");
    // Each row's mean is cut to whole ns.
    assert!((found - mean).abs() <= 1.0 + 1e-9 * mean && mean > 0.0, "{found} {mean}");
    assert!(near(number(&flame, "/total/value/value"), number(&report, "/total/value")));
    let nodes = flame["nodes"]["tint"].as_array().unwrap();
    assert_eq!(nodes.len(), flame["nodes"]["cum"].as_array().unwrap().len());
    let plain = json(&serving.get("/api/v1/flame").good().text());
    assert!(plain["tint"].is_null() && plain["nodes"]["tint"].is_null());
    // Memory that was allocated, live or freed, has no age.
    let refused = serving.get("/api/v1/flame?colour=age&count=alloc_space");
    assert_eq!(refused.status, 400, "{}", refused.text());
    let foreign = scratch.path("holds.pb.gz");
    say(&scratch, &["export", &pid, "-f", "pprof", "-o", foreign.to_str().unwrap()]).good();
    let imported = Serving::start(&scratch, &[foreign.to_str().unwrap()]);
    let refused = imported.get("/api/v1/flame?colour=growth").text();
    assert!(refused.contains("does not say when its blocks were allocated"), "{refused}");
}

#[test]
fn change_colours_match_the_diff() {
    let recorded = Recorded::new();
    let recorder = recorded.record("PID");
    recorded.grow(0);
    recorded.good("mark PID before");
    recorded.grow(1);
    recorded.good("mark PID after");
    drop(recorder);
    let mut command = recorded.ramson("serve --listen 127.0.0.1:0 PID");
    let serving = Serving::start_command(&mut command);
    let ways = [("before", "after"), ("after", "before")];
    let types = ["", "&count=alloc_space", "&count=inuse_objects"];
    for (of, (earlier, later)) in types.into_iter().flat_map(|of| ways.map(|way| (of, way))) {
        let words = of.replace("&count=", " --count ");
        let diff = json(
            &recorded
                .good(&format!("diff PID@mark:{earlier} PID@mark:{later} --json --rows 0{words}")),
        );
        let path = format!("/api/v1/flame?old=mark:{earlier}&at=mark:{later}{of}");
        let flame = json(&serving.get(&path).good().text());
        assert_eq!(flame["tint"]["by"].as_str(), Some("change"));
        for part in ["value", "half_width_95"] {
            let [found, expected] = [(&flame, "/tint/figure/"), (&diff, "/total/")]
                .map(|(of, path)| number(of, &format!("{path}{part}")));
            assert!(near(found, expected), "{earlier} {of} {part} {found} {expected}");
        }
        let [width, new] =
            [number(&flame, "/total/value/value"), number(&diff, "/new_total/value")];
        assert!(near(width, new), "{earlier} {of} {width} {new}");
        let (change, frames) = (first_frames(&flame, "tint"), first_frames(&flame, "merged"));
        let total = number(&diff, "/total/value");
        assert!(total != 0.0 && (change - total).abs() <= 2.0 + frames, "{change} {total}");
    }
    // The process runs on, so only the sign of the change from now to the earlier mark is known.
    let now = json(&serving.get("/api/v1/flame?old=now&at=mark:before").good().text());
    assert!(number(&now, "/tint/figure/value") < 0.0, "{now}");
}

#[test]
fn history_tree_grows_with_it() {
    let recorded = Recorded::new();
    let recorder = recorded.record("PID");
    recorded.grow(0);
    recorded.good("mark PID before");
    let database = recorded.database().display().to_string();
    let serving = Serving::start_command(
        &mut recorded.ramson(&format!("serve --listen 127.0.0.1:0 {database}")),
    );
    let total = || {
        let flame = json(&serving.get("/api/v1/flame").good().text());
        number(&flame, "/total/value/value")
    };
    let before = total();
    recorded.grow(1);
    recorded.good("mark PID after");
    wait_until("the tree has what came since", || total() > 1.5 * before);
    drop(recorder);
}
