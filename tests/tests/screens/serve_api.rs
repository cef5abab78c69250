//! The documents of `ramson serve`, which are the command line's.

use ramson_tests::recorded::Recorded;
use ramson_tests::servers::*;
use ramson_tests::serving::{Serving, holding, pid_of_only};
use ramson_tests::several::say;
use serde_json::Value;

#[test]
fn dead_process_documents_match_the_command() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-dead");
    let pid = pid_of_only(&scratch);
    drop(held.0.stdin.take());
    held.wait();
    let serving = Serving::start(&scratch, &[]);
    for (path, words) in [
        ("report", "report PID --json"),
        (
            "report?view=functions&rows=2&sort=total",
            "report PID --json --view functions --rows 2 --sort total",
        ),
        ("report?view=peek+hold&all-frames=1", "report PID --json --view=peek@hold --all-frames"),
        ("report?view=tree&kind=all", "report PID --json --view tree --kind all"),
        (
            "report?view=sizes&count=alloc_space",
            "report PID --json --view sizes --count alloc_space",
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

#[test]
fn running_process_documents_match_the_command() {
    let scratch = Scratch::new();
    let _held = holding(&scratch, "holds-live");
    let pid = pid_of_only(&scratch);
    let serving = Serving::start(&scratch, &[&pid]);
    // Two moments of one process: ages, verdicts and the width of a survey move on; these do not.
    let stays = |document: &serde_json::Value| {
        let fields: Vec<String> = document.as_object().unwrap().keys().cloned().collect();
        let rows: Vec<serde_json::Value> = document["rows"]
            .as_array()
            .map(|rows| {
                rows.iter()
                    .map(|row| [&row["frames"], &row["value"]].into_iter().cloned().collect())
            })
            .into_iter()
            .flatten()
            .collect();
        (fields, document["pid"].clone(), document["live"].clone(), rows)
    };
    for name in ["explain", "report", "leaks"] {
        let served = serving.get(&format!("/api/v1/{name}")).good().text();
        let printed = say(&scratch, &[name, &pid, "--json"]).good().text();
        let [served, printed]: [serde_json::Value; 2] =
            [served, printed].map(|text| serde_json::from_str(&text).unwrap());
        assert_eq!(stays(&served), stays(&printed), "{name}");
        assert_eq!(served["pid"].to_string(), pid, "{name}");
        if name == "report" {
            assert_eq!(served["rows"].as_array().map(Vec::len), Some(3), "{served}");
            let [served, printed] =
                [served, printed].map(|document| document["rss"]["bytes"].as_f64().unwrap());
            assert!((served / printed - 1.0).abs() < 0.05, "{served} {printed}");
        }
    }
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
fn timeline_is_empty_without_history() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-unkept");
    let pid = pid_of_only(&scratch);
    // The machine may have one at the usual place.
    let mut serve = ramson(&scratch);
    serve.env("RAMSON_HISTORY", scratch.path("none.db"));
    let serving = Serving::start_command(serve.args(["serve", "--listen", "127.0.0.1:0", &pid]));
    let served = serving.get("/api/v1/timeline").good().text();
    drop(held.0.stdin.take());
    held.wait();
    for part in [&*format!("\"pid\":{pid},"), "\"history\":null,", "\"rows\":[],"] {
        assert!(served.contains(part), "{part}: {served}");
    }
}

#[test]
fn refusals_are_error_documents() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-wrong");
    let pid = pid_of_only(&scratch);
    drop(held.0.stdin.take());
    held.wait();
    let serving = Serving::start(&scratch, &[&pid]);
    let secret = scratch.file("secret", "leak:x");
    let secret = format!("suppressions={}", secret.display());
    for (path, status, part) in [
        ("explain", 404, ""),
        ("report?view=none", 400, "one of"),
        ("report?rows=x", 400, "rows"),
        ("report?focus=%28", 400, "focus"),
        ("report?focus=nothing_has_this_name", 404, "leaves nothing of"),
        ("report?view=peek%20nothing_has_this_name", 404, "matches no function"),
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
    let printed = say(&scratch, &["explain", &pid, "--json"]);
    let document: serde_json::Value =
        serde_json::from_str(&serving.get("/api/v1/explain").text()).unwrap();
    assert_eq!(format!("ramson: {}\n", document["message"].as_str().unwrap()), printed.remarks[0]);
    for unknown in ["/api/v1/trims", "/api/v1/p/1/report", "/api/v2/report", "/api/v1/p/x/list"] {
        assert_eq!(serving.get(unknown).status, 404, "{unknown}");
    }
}

#[test]
fn foreign_files_are_served() {
    let scratch = Scratch::new();
    let collapsed = scratch.file("other.collapsed", "main;run;make 4096\nmain;idle 16\n");
    let file = collapsed.to_str().unwrap();
    let serving = Serving::start(&scratch, &[file]);
    let sources = Json::parse(&serving.get("/api/v1/sources").good().text());
    let [one] = sources.list("sources") else { panic!("{sources:?}") };
    assert_eq!((one.text("id"), one.text("name")), ("f1", file));
    let served = serving.get("/api/v1/p/f1/report?view=functions").good().text();
    let printed = say(&scratch, &["report", file, "--json", "--view", "functions"]).good().text();
    assert_eq!(served, printed);
    assert!(!serving.get("/p/f1/debug/pprof/heap").good().body.is_empty());
    // The answer names a file that cannot be read any more, and why.
    std::fs::remove_file(&collapsed).unwrap();
    let gone = serving.get("/api/v1/flame");
    assert!(gone.status == 404 && gone.text().contains(file), "{gone:?}");
    let absent = scratch.path("absent");
    for (source, status) in
        [("-", 2), (absent.to_str().unwrap(), 5), ("name:no-such-program-runs", 5)]
    {
        let refused = say(&scratch, &["serve", "--listen", "127.0.0.1:0", source]);
        assert_eq!((refused.status, refused.remarks.len()), (status, 1), "{refused:?}");
    }
}

#[test]
fn several_processes_are_served_summed() {
    let scratch = Scratch::new();
    let mut held: Vec<Running> = (0..2).map(|_| holding(&scratch, "holds-summed")).collect();
    let source = "name:holds-summed";
    let serving = Serving::start(&scratch, &[source]);
    let sources = Json::parse(&serving.get("/api/v1/sources").good().text());
    let entries = sources.list("sources");
    let ids: Vec<&str> = entries.iter().map(|entry| entry.text("id")).collect();
    assert_eq!((ids.len(), ids[0]), (3, "f1"));
    assert_eq!((entries[0].number("processes"), entries[0].text("source")), (2.0, source));
    let printed = say(&scratch, &["report", source, "--json", "--view", "functions"]).good().text();
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let read = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&serving.get(&format!("/api/v1/p/f1/{path}")).good().body).unwrap()
    };
    let (table, flame) = (read("report?view=functions"), read("flame"));
    // Nothing is allocated meanwhile.
    for (served, said) in [
        (&table["rows"], &printed["rows"]),
        (&table["total"], &printed["total"]),
        (&table["live"], &printed["live"]),
        (&flame["total"]["value"], &printed["total"]),
    ] {
        assert_eq!(served, said);
        assert!(!said.is_null());
    }
    assert_eq!(entries[0].number("live.value"), printed["live"]["value"].as_f64().unwrap());
    let one: serde_json::Value =
        serde_json::from_slice(&serving.get(&format!("/api/v1/p/{}/flame", ids[1])).good().body)
            .unwrap();
    let of = |total: &serde_json::Value| total["value"].as_f64().unwrap();
    let (one, all) = (of(&one["total"]["value"]), of(&printed["total"]));
    assert_eq!(2.0 * one, all);
    held.iter_mut().for_each(|held| drop(held.0.stdin.take()));
}

#[test]
fn ended_process_is_served_from_file() {
    let scratch = Scratch::new();
    let mut held = holding(&scratch, "holds-ended");
    let serving = Serving::start(&scratch, &["name:holds-ended"]);
    let source = || {
        let all: Value =
            serde_json::from_str(&serving.get("/api/v1/sources").good().text()).unwrap();
        let [only] = all["sources"].as_array().unwrap().as_slice() else { panic!("{all}") };
        (only["id"].clone(), only["source"].as_str().unwrap().to_owned())
    };
    let (id, name) = source();
    assert_eq!(name, "name:holds-ended");
    drop(held.0.stdin.take());
    held.wait();
    let (id_now, file) = source();
    assert_eq!(id, id_now);
    assert!(file.ends_with(".ramson") && std::path::Path::new(&file).is_file(), "{file}");
    let of_file = say(&scratch, &["report", &file, "--json"]).good().text();
    assert_eq!(serving.get("/api/v1/report").good().text(), of_file);
}
