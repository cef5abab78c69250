//! The documents of `ramson serve`, which are the command line's.

use ramson_tests::recorded::Recorded;
use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, holding, pid_of_only};
use ramson_tests::several::say;

#[test]
fn every_document_of_a_dead_process_is_the_command_s_byte_for_byte() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-dead");
    let pid = pid_of_only(&scratch);
    drop(held.0.stdin.take());
    held.wait();
    let serving = Serving::start(&scratch, &[]);
    for (path, words) in [
        ("report", "report PID --json"),
        ("report?view=top&rows=2&sort=cum", "report PID --json --view top --rows 2 --sort cum"),
        ("report?view=peek+hold&all-frames=1", "report PID --json --view=peek@hold --all-frames"),
        ("report?view=tree&kind=all", "report PID --json --view tree --kind all"),
        (
            "report?view=sizes&sample-index=alloc_space",
            "report PID --json --view sizes --sample-index alloc_space",
        ),
        ("report?view=health", "report PID --json --view health"),
        ("leaks", "leaks PID --json"),
        (
            "leaks?min-age=1ms&rows=1&focus=hold",
            "leaks PID --json --min-age 1ms --rows 1 --focus hold",
        ),
    ] {
        let words: Vec<String> =
            words.split(' ').map(|word| word.replace("PID", &pid).replace('@', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let served = serving.get(&format!("/api/v1/p/{pid}/{path}")).good();
        assert_eq!(served.header("content-type"), "application/json");
        let printed = say(&scratch, &words).good().text();
        assert_eq!(served.text(), printed, "{path}");
        Json::parse(&served.text());
    }
    // Other processes of this machine change meanwhile.
    let served = serving.get("/api/v1/list?word=holds-dead").good().text();
    let printed = say(&scratch, &["list", "holds-dead", "--json"]).good().text();
    let [served, printed] = [served, printed].map(|text| {
        let list: serde_json::Value = serde_json::from_str(&text).unwrap();
        list["profiles"].clone()
    });
    assert_eq!(served, printed);
    assert_eq!(served.as_array().map(Vec::len), Some(1), "{served}");
}

/// A document of a running process without what moves on: numbers, which may not be known yet
/// (null), and figures with their unit in sentences ("0.9 s", "12 s", "900 ms").
fn without_numbers(document: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match document {
        Value::Number(_) => Value::Null,
        Value::String(sentence) => {
            let words = sentence.split(' ').filter(|word| {
                !word.starts_with(|first: char| first.is_ascii_digit())
                    && !["ms", "s", "min", "B", "KiB", "MiB"].contains(word)
            });
            Value::from(words.collect::<Vec<_>>().join(" "))
        }
        Value::Array(values) => Value::Array(values.into_iter().map(without_numbers).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, without_numbers(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

#[test]
fn a_running_process_has_the_same_documents_as_on_the_command_line() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-live");
    let pid = pid_of_only(&scratch);
    let serving = Serving::start(&scratch, &[&pid]);
    for name in ["doctor", "report", "leaks"] {
        let served = serving.get(&format!("/api/v1/{name}")).good().text();
        let printed = say(&scratch, &[name, &pid, "--json"]).good().text();
        Json::parse(&served);
        let [served, printed] =
            [served, printed].map(|text| without_numbers(serde_json::from_str(&text).unwrap()));
        assert_eq!(served, printed, "{name}");
    }
    let [served, printed] = [
        serving.get("/api/v1/report").good().text(),
        say(&scratch, &["report", &pid, "--json"]).good().text(),
    ]
    .map(|text| Json::parse(&text));
    assert_eq!(served.at("live"), printed.at("live"));
    let (served, printed) = (served.number("rss.bytes"), printed.number("rss.bytes"));
    assert!((served / printed - 1.0).abs() < 0.05, "{served} {printed}");
}

#[test]
fn a_history_has_the_same_timeline() {
    let recorded = Recorded::new();
    let recorder = recorded.record("PID");
    recorded.grow(0);
    drop(recorder);
    let mut command = recorded.ramson("serve --listen 127.0.0.1:0 PID");
    let serving = Serving::start_command(&mut command);
    for (query, words) in [("", "timeline PID --json"), ("?rows=2", "timeline PID --json -n 2")] {
        let served = serving.get(&format!("/api/v1/timeline{query}")).good().text();
        assert_eq!(served, recorded.good(words));
    }
}

#[test]
fn what_cannot_be_answered_is_the_command_s_line_as_a_document() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-wrong");
    let pid = pid_of_only(&scratch);
    drop(held.0.stdin.take());
    held.wait();
    let serving = Serving::start(&scratch, &[&pid]);
    let secret = scratch.file("secret", "leak:x");
    let secret = format!("suppressions={}", secret.display());
    for (path, status, part) in [
        ("doctor", 404, ""),
        ("report?view=none", 400, "one of"),
        ("report?rows=x", 400, "rows"),
        ("report?focus=%28", 400, "focus"),
        ("report?focus=nothing_has_this_name", 500, ""),
        ("leaks?window=1s", 400, "not a parameter"),
        (&format!("leaks?{secret}"), 400, "not a parameter"),
        ("report?debug-path=/etc", 400, "not a parameter"),
    ] {
        let reply = serving.get(&format!("/api/v1/{path}"));
        let text = reply.text();
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (status, "application/json"),
            "{text}"
        );
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["kind"], "error");
        assert!(document["message"].as_str().unwrap().contains(part), "{path}: {text}");
    }
    let printed = say(&scratch, &["doctor", &pid, "--json"]);
    let document: serde_json::Value =
        serde_json::from_str(&serving.get("/api/v1/doctor").text()).unwrap();
    assert_eq!(format!("ramson: {}\n", document["message"].as_str().unwrap()), printed.remarks[0]);
    for unknown in ["/api/v1/trims", "/api/v1/p/1/report", "/api/v2/report", "/api/v1/p/x/list"] {
        assert_eq!(serving.get(unknown).status, 404, "{unknown}");
    }
}

#[test]
fn files_of_other_tools_are_served_too_and_standard_input_is_not() {
    let scratch = Scratch::new();
    let collapsed = scratch.file("other.collapsed", "main;run;make 4096\nmain;idle 16\n");
    let file = collapsed.to_str().unwrap();
    let serving = Serving::start(&scratch, &[file]);
    let sources = Json::parse(&serving.get("/api/v1/sources").good().text());
    let [one] = sources.list("sources") else { panic!("{sources:?}") };
    assert_eq!((one.text("id"), one.text("name")), ("f1", file));
    let served = serving.get("/api/v1/p/f1/report?view=top").good().text();
    let printed = say(&scratch, &["report", file, "--json", "--view", "top"]).good().text();
    assert_eq!(served, printed);
    assert!(!serving.get("/p/f1/debug/pprof/heap").good().body.is_empty());
    for (source, status) in [("-", 2), ("/nonexistent", 5), ("name:no-such-program-runs", 5)] {
        let refused = say(&scratch, &["serve", "--listen", "127.0.0.1:0", source]);
        assert_eq!((refused.status, refused.remarks.len()), (status, 1), "{refused:?}");
    }
}
