//! A program that grows when it is told to, and a history of it.

use crate::servers::{
    Json, Outcome, Running, Scratch, clean, finish, installed, profiles, python, ramson, wait_until,
};
use crate::{profiles_in, read};
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Allocates some blocks whenever the next file `stepN` is there.
pub const GROW: &str = r#"
import os, sys, time
kept = []
step = 0
while True:
    if os.path.exists(f"{sys.argv[1]}/step{step}"):
        kept.extend(bytearray(32768) for _ in range(400))
        open(f"{sys.argv[1]}/done{step}", "w").close()
        step += 1
    time.sleep(0.01)
"#;

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// A program that grows when it is told to, and a history of it.
pub struct Recorded {
    /// Directory of its profile and its history.
    pub scratch: Scratch,
    /// Runs until this is dropped.
    _program: Running,
    /// Its ID.
    pub pid: u32,
}

impl Default for Recorded {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorded {
    /// Starts the program under ramson.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let script = scratch.file("grow.py", GROW);
        let mut command = ramson(&scratch);
        command.args(["run", "--interval", "16K", "--max-overhead", "off", "--"]);
        command.arg(python()).arg(script).arg(scratch.path(""));
        // One that is being made cannot be read yet.
        let paths = || profiles_in(&scratch.path("profiles"));
        let has_profile = || paths().iter().any(|path| read(path).is_ok());
        let program = Running::start(&mut command, &scratch.path("log"), has_profile);
        let pid = profiles(&scratch)[0].header.pid;
        Self { scratch, _program: program, pid }
    }

    /// The history.
    pub fn database(&self) -> PathBuf {
        self.scratch.path("history/history.db")
    }

    /// A command that finds the history.
    pub fn ramson(&self, words: &str) -> Command {
        let mut command = ramson(&self.scratch);
        command.env("RAMSON_HISTORY", self.database()).env("TZ", "UTC");
        let pid = self.pid.to_string();
        command.args(words.split(' ').map(|word| word.replace("PID", &pid)));
        command
    }

    /// Runs a command that must succeed, and returns what it prints.
    #[track_caller]
    pub fn good(&self, words: &str) -> String {
        finish(&mut self.ramson(words)).good().text()
    }

    /// Fails unless a command is refused with this status and one line that contains `why`.
    #[track_caller]
    pub fn refused(&self, words: &str, status: i32, why: &str) {
        let outcome: Outcome = finish(&mut self.ramson(words));
        assert_eq!((outcome.status, outcome.remarks.len()), (status, 1), "{words}: {outcome:?}");
        assert!(outcome.remarks[0].contains(why), "{words}: {outcome:?}");
    }

    /// The same with --json.
    #[track_caller]
    pub fn json(&self, words: &str) -> Json {
        Json::parse(&self.good(&format!("{words} --json")))
    }

    /// Starts a recorder and waits for its first snapshot.
    pub fn record(&self, words: &str) -> Running {
        let every = if words.contains("--every") { "" } else { "--every 100ms " };
        let mut command = self.ramson(&format!("history {every}{words}"));
        let before = self.moments().len();
        let has_more = || self.moments().len() > before;
        Running::start(&mut command, &self.scratch.path("recorder"), has_more)
    }

    /// Time, live bytes and triggers of every moment there is.
    pub fn moments(&self) -> Vec<(u64, f64, String)> {
        let outcome = finish(&mut self.ramson("timeline PID --csv"));
        let text = outcome.text();
        let fields = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        fields
            .map(|fields| {
                (fields[0].parse().unwrap(), fields[2].parse().unwrap(), fields[6].into())
            })
            .collect()
    }

    /// Lets the program allocate the blocks of a step.
    pub fn allocate(&self, step: usize) {
        self.scratch.file(&format!("step{step}"), "");
        wait_until("the program grows", || self.scratch.path(&format!("done{step}")).exists());
    }

    /// The same, until the history has it.
    pub fn grow(&self, step: usize) {
        self.allocate(step);
        let now = now_ns();
        let is_later = |moments: Vec<(u64, f64, String)>| moments.last().unwrap().0 > now;
        wait_until("a snapshot of what has grown", || is_later(self.moments()));
    }

    /// Waits for a moment with this trigger.
    pub fn wait_for(&self, trigger: &str) {
        wait_until(trigger, || self.moments().iter().any(|moment| moment.2.contains(trigger)));
    }

    /// Returns SQLite's integrity check of the history.
    pub fn integrity(&self) -> String {
        let query = "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('pragma integrity_check').fetchall())";
        let mut command = clean(installed("python3", "python3"));
        finish(command.args(["-c", query]).arg(self.database())).good().text()
    }
}
