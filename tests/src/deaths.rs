//! Programs that die under `ramson run`, and what it and `ramson list` say of it.

use crate::program;
use crate::servers::*;
use std::path::Path;

/// The command of `deaths.c` that dies in this way.
pub fn deaths(way: &str) -> String {
    format!("{} {way}", program("deaths.c").display())
}

/// `ramson run` with whatever estimates the tests judge.
pub const RUN: [&str; 5] = ["run", "--interval", "64K", "--max-overhead", "off"];

/// Runs a shell's command like that.
pub fn run(scratch: &Scratch, script: &str) -> Outcome {
    let mut command = ramson(scratch);
    finish(command.args(RUN).args(["--", "sh", "-c", &format!("exec {script}")]))
}

/// Runs a command of ramson, and returns what it prints.
pub fn say(scratch: &Scratch, arguments: &[&str]) -> String {
    finish(ramson(scratch).args(arguments)).good().text()
}

/// The one entry of the list that is called so.
#[track_caller]
pub fn entry(scratch: &Scratch, name: &str) -> Json {
    let list = Json::parse(&say(scratch, &["list", "--json"]));
    let own = scratch.path("profiles");
    let is_it = |profile: &&Json| {
        profile.text("name") == name && Path::new(profile.text("profile")).starts_with(&own)
    };
    let found: Vec<&Json> = list.list("profiles").iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{list:?}");
    found[0].clone()
}

/// Fails unless `ramson run` reported a death for lack of memory: its cause, the sites, and the next command.
#[track_caller]
pub fn assert_last_words(outcome: &Outcome, what: &str, sites: &[&str]) {
    let words = &outcome.remarks;
    assert!((3..=5).contains(&words.len()), "{words:#?}");
    assert!(words[0].contains(what), "{words:#?}");
    for (site, line) in sites.iter().zip(&words[1..]) {
        assert!(line.contains(site) && line.contains("main:"), "{words:#?}");
    }
    assert!(words.last().unwrap().contains("ramson report /"), "{words:#?}");
}
