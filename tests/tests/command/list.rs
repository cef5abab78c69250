//! `ramson list`: what tells profiles apart, and which of them are shown.

use ramson_tests::program_with;
use ramson_tests::servers::*;
use std::fs;
use std::path::Path;

/// Holds some memory, and writes its process ID to standard output.
const SERVER: &str = r#"
import os, time
kept = [bytearray(100_000) for _ in range(100)]
print(os.getpid(), flush=True)
while True: time.sleep(600)
"#;

#[track_caller]
fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    finish(ramson(scratch).args(arguments))
}

/// A server under ramson, and its process ID.
fn server(scratch: &Scratch, name: &str) -> (Running, u32) {
    let script = scratch.file("server.py", SERVER);
    let log = scratch.path(&format!("log-{name}"));
    let mut command = ramson(scratch);
    command.args(["run", "--interval", "16K", "--"]).arg(python()).arg(script).arg(name);
    let said = || fs::read_to_string(&log).unwrap_or_default().contains('\n');
    let running = Running::start(&mut command, &log, said);
    let pid = fs::read_to_string(&log).unwrap().lines().next().unwrap().parse().unwrap();
    (running, pid)
}

/// The rows of the table that are of profiles in `scratch`.
fn rows(scratch: &Scratch, arguments: &[&str]) -> Vec<String> {
    let directory = scratch.path("profiles");
    let words = [&["list", "-n", "0", directory.to_str().unwrap()], arguments].concat();
    let table = say(scratch, &words).good().text();
    table.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn same_named_servers_show_command_lines() {
    let scratch = Scratch::new();
    let (mut one, one_pid) = server(&scratch, "one");
    let (_other, other_pid) = server(&scratch, "other");
    let all = rows(&scratch, &[]);
    for (pid, name) in [(one_pid, "one"), (other_pid, "other")] {
        let row = all.iter().find(|row| row.trim_start().starts_with(&pid.to_string())).unwrap();
        let parts = [&format!("server.py {name}"), "running", "for "];
        assert!(parts.iter().all(|part| row.contains(*part)), "{row}");
        let by_pid = rows(&scratch, &[&pid.to_string()]);
        assert_eq!(by_pid.len(), 1, "{by_pid:?}");
    }
    // One that takes one process says the same.
    let name = python().file_name().unwrap().to_str().unwrap().to_owned();
    let refused = say(&scratch, &["mark", &format!("tree:{}", std::process::id()), "now"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    for text in [one_pid.to_string(), other_pid.to_string(), "server.py other".into(), name] {
        assert!(refused.stderr.contains(&text), "{text}: {refused:?}");
    }
    // The dead one comes last, and says how long ago.
    signal(one_pid, "KILL");
    assert_eq!(code(one.wait()), 137);
    let both = rows(&scratch, &[]);
    assert!(both[0].contains("running") && both[1].contains("SIGKILL"), "{both:?}");
    assert!(both[1].contains(" ago "), "{both:?}");
}

#[test]
fn equal_short_processes_share_a_row() {
    let scratch = Scratch::new();
    let program = program_with("real/holds.c", "holds-listed", &[]);
    for _ in 0..5 {
        let mut command = ramson(&scratch);
        command.args(["run", "--interval", "1", "--"]).arg(&program).arg("6");
        assert_eq!(finish(&mut command).status, 6);
    }
    let table = rows(&scratch, &[]);
    assert_eq!(table.len(), 1, "{table:?}");
    assert!(table[0].contains("holds-listed (last of 5 alike)"), "{table:?}");
    let directory = scratch.path("profiles");
    let listed = say(&scratch, &["list", "--json", directory.to_str().unwrap()]).good().text();
    assert_eq!(Json::parse(&listed).list("profiles").len(), 5, "{listed}");
}

#[test]
fn list_filters_select_profiles() {
    let scratch = Scratch::new();
    let program = program_with("real/holds.c", "holds-of-users", &[]);
    finish(ramson(&scratch).args(["run", "--interval", "1", "--"]).arg(&program)).good();
    let own = fs::metadata(scratch.path("profiles")).map(|facts| owner(&facts)).unwrap();
    assert_eq!(rows(&scratch, &["--user", &own.to_string()]).len(), 1);
    for words in [["--user", "54321"].as_slice(), &["--running"], &["no-such-word"]] {
        let directory = scratch.path("profiles");
        let none = say(&scratch, &[&["list", directory.to_str().unwrap()], words].concat());
        assert_eq!(none.status, 5, "{none:?}");
        assert_eq!(none.remarks.len(), 1, "{none:?}");
        assert!(none.remarks[0].contains("profiles matches. "), "{none:?}");
    }
    let refused = say(&scratch, &["list", "--user", "no-such-user"]);
    assert_eq!((refused.status, refused.remarks.len()), (2, 1), "{refused:?}");
    assert!(refused.remarks[0].contains("no such user"), "{refused:?}");
}

fn owner(facts: &fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::uid(facts)
}

#[test]
fn pruning_says_what_it_removed() {
    let scratch = Scratch::new();
    let program = program_with("real/holds.c", "holds-pruned", &[]);
    finish(ramson(&scratch).args(["run", "--interval", "1", "--"]).arg(&program)).good();
    let directory = scratch.path("profiles");
    let shown = directory.to_str().unwrap();
    let nothing = say(&scratch, &["list", "--prune", shown]).good();
    assert!(
        nothing.remarks[0].contains(&format!("{shown}: no profile exceeds the limits")),
        "{nothing:?}"
    );
    let age = |path: &Path| {
        finish(clean("touch").args(["-d", "-31 days"]).arg(path)).good();
    };
    ramson_tests::profiles_in(&directory).iter().for_each(|path| age(path));
    let pruned = say(&scratch, &["list", "--prune", "--json", shown]).good();
    let answer = Json::parse(&pruned.text());
    assert_eq!(answer.number("pruned.removed"), 1.0, "{pruned:?}");
    assert!(answer.number("pruned.bytes") > 0.0 && answer.text("pruned.directory") == shown);
    finish(ramson(&scratch).args(["run", "--interval", "1", "--"]).arg(&program)).good();
    ramson_tests::profiles_in(&directory).iter().for_each(|path| age(path));
    let pruned = say(&scratch, &["list", "--prune"]).good();
    assert!(pruned.remarks[0].contains(&format!("{shown}: removed 1 old profile, ")), "{pruned:?}");
}

#[test]
fn empty_arguments_are_shown() {
    let scratch = Scratch::new();
    let name = python().file_name().unwrap().to_str().unwrap().to_owned();
    let script = scratch.file("big.py", "kept = [bytearray(100_000) for _ in range(100)]\n");
    let script = script.to_str().unwrap();
    for (arguments, shown) in [(["--save", ""], "--save ''"), (["", "two words"], "'' 'two words'")]
    {
        let path = scratch.path("profiles/7-8.ramson");
        let mut command = ramson(&scratch);
        command.args(["run", "--force", "--interval", "16K", "-o"]).arg(path).arg("--");
        finish(command.arg(python()).arg(script).args(arguments)).good();
        let table = say(&scratch, &["list", "big.py"]).good().text();
        assert!(table.contains(&format!("{name} {script} {shown} ")), "{table}");
    }
}
