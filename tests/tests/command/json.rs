//! `--json` of commands that keep or write something, and the schemas that are published.

use ramson_tests::schemas::{check, directory};
use ramson_tests::servers::*;
use ramson_tests::terminal::Terminal;
use ramson_tests::{preload, program_with};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[track_caller]
fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    let mut command = ramson(scratch);
    command.env("RAMSON_HISTORY", scratch.path("history.db"));
    finish(command.args(arguments))
}

#[track_caller]
fn answer(scratch: &Scratch, arguments: &[&str]) -> Json {
    Json::parse(&say(scratch, arguments).good().text())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A profiled process that runs.
fn waiting(scratch: &Scratch) -> Running {
    let program = program_with("real/holds.c", "holds-json", &[]);
    let mut command = clean(program);
    preload(command.arg("4"), "1").env("RAMSON_DIR", scratch.open_directory("profiles"));
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(piped.spawn().unwrap());
    let mut ready = [0; 6];
    std::io::Read::read_exact(running.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    running
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(file).unwrap())
        })
        .collect()
}

#[test]
fn published_schemas_match_types() {
    let scratch = Scratch::new();
    let made = scratch.open_directory("schemas");
    say(&scratch, &["schema", "--dir", text(&made)]).good();
    let (made, published) = (files(&made), files(&directory()));
    let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&made), names(&published), "run make schemas");
    for (name, schema) in &made {
        assert!(
            published[name] == *schema,
            "docs/schemas/{name} is not up to date: run make schemas"
        );
    }
    let one = say(&scratch, &["schema", "list"]).good().text();
    assert_eq!(one, published["list.json"]);
    let refused = say(&scratch, &["schema", "nothing"]);
    assert!(refused.status == 2 && refused.remarks[0].contains("timeline"), "{refused:?}");
}

#[test]
fn writing_commands_answer_one_object() {
    let scratch = Scratch::new();
    let running = waiting(&scratch);
    let pid = running.0.id().to_string();
    let mark = answer(&scratch, &["mark", &pid, "deploy", "--json"]);
    assert_eq!((mark.text("mark"), mark.text("name")), ("deploy", "holds-json"));
    assert!(Path::new(mark.text("file")).exists(), "{mark:?}");
    assert_eq!(mark.at("in_history"), &Json::Word("false".into()));

    let file = scratch.path("moment.ramson");
    let mark = answer(&scratch, &["mark", &pid, "-o", text(&file), "--json"]);
    assert_eq!(mark.at("mark"), &Json::Word("null".into()));
    assert_eq!((mark.text("file"), mark.number("pid")), (text(&file), f64::from(running.0.id())));
    assert!(file.exists());

    let named = scratch.path("named.ramson");
    let symbolize = answer(&scratch, &["symbolize", text(&file), "-o", text(&named), "--json"]);
    assert!(symbolize.number("named") > 0.0, "{symbolize:?}");
    assert!(symbolize.number("addresses") >= symbolize.number("named"), "{symbolize:?}");
    assert_eq!(symbolize.text("file"), text(&named));
}

#[test]
fn recorder_prints_begins_and_ends() {
    let scratch = Scratch::new();
    let running = waiting(&scratch);
    let pid = running.0.id();
    let log = scratch.path("events");
    let history = scratch.path("h.db");
    let mut record = ramson(&scratch);
    record.args(["history", &pid.to_string(), "--json", "--every", "100ms", "-o", text(&history)]);
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let mut recorder = Running::start(&mut record, &log, || lines().contains("\"begins\""));
    signal(pid, "KILL");
    drop(running);
    assert!(recorder.wait().success());
    let events: Vec<Json> = lines().lines().map(Json::parse).collect();
    let names: Vec<&str> = events.iter().map(|event| event.text("event")).collect();
    assert_eq!(names, ["begins", "ends"]);
    assert!(events.iter().all(|event| event.number("pid") == f64::from(pid)), "{events:?}");
    let again = answer(&scratch, &["timeline", text(&history), "--json"]);
    assert!(again.number("moments") >= 2.0, "{again:?}");
}

#[test]
fn every_answer_matches_its_schema() {
    let scratch = Scratch::new();
    let running = waiting(&scratch);
    let pid = running.0.id().to_string();
    let views = [
        "functions",
        "lines",
        "tree",
        "callers",
        "peek main",
        "sizes",
        "threads",
        "frees",
        "health",
    ];
    let mut checked = 0;
    let mut check_all = |command: &str, arguments: &str| {
        let words: Vec<&str> = [command].into_iter().chain(arguments.split(' ')).collect();
        let printed = say(&scratch, &words).good().text();
        check(&printed);
        checked += printed.matches("{\"ramson\":1").count();
    };
    for view in views {
        check_all("report", &format!("{pid} --json --view {view}"));
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/import/go.pb.gz");
    check_all("report", &format!("{} --json", golden.display()));
    check_all("report", &format!("{pid} {} --json", golden.display()));
    check_all("leaks", &format!("{pid} --json"));
    check_all("diff", &format!("{pid} {pid} --json"));
    check_all("explain", &format!("{pid} --json"));
    check_all("explain", &format!("{pid} {} --json", std::process::id()));
    check_all("trim", &format!("{pid} --force --json"));
    check_all("top", &format!("{pid} --once --json"));
    check_all("top", "--once --json");
    check_all("list", "--json");
    check_all("export", &format!("{pid} -f json"));
    assert_eq!(checked, 20);
}

#[test]
fn nothing_binary_goes_to_a_terminal() {
    let scratch = Scratch::new();
    let running = waiting(&scratch);
    let pid = running.0.id().to_string();
    for (words, what) in [
        (vec!["export", &pid, "-f", "pprof"], "pprof is binary"),
        (vec!["mark", &pid, "-o", "-"], "a profile is binary"),
    ] {
        let mut command = ramson(&scratch);
        let mut terminal = Terminal::start(command.args(&words), 100, 10);
        assert_eq!(terminal.wait().code(), Some(2), "{words:?}");
        terminal.wait_for(&format!("ramson: {what}: use -o FILE or a pipe"));
    }
    assert!(!say(&scratch, &["export", &pid, "-f", "pprof"]).good().stdout.is_empty());
}
