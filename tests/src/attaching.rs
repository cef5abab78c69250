//! A program that others attach to (`tests/programs/visited.c`), and what `ramson attach`, `detach` and `set` say.

use crate::program;
use crate::servers::*;
use crate::trimming::Talking;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// It.
pub struct Visited {
    /// The program.
    pub talking: Talking,
}

impl Visited {
    /// With so many threads that allocate all the time.
    pub fn start(threads: u32) -> Self {
        Self::start_program(&program("visited.c"), threads)
    }

    /// The same, linked otherwise.
    pub fn start_program(program: &Path, threads: u32) -> Self {
        let talking = Talking::start(clean(program).arg(threads.to_string()));
        talking.expect("ready");
        Self { talking }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.talking.pid()
    }

    /// Does what it is told. Returns its rounds by then; nothing failed and nothing was interrupted.
    #[track_caller]
    pub fn tell(&mut self, line: &str) -> i64 {
        self.talking.tell(line);
        self.answer(line)
    }

    /// Returns the program's answer to a line, and fails if the program counted a fault.
    #[track_caller]
    pub fn answer(&mut self, line: &str) -> i64 {
        assert_eq!(self.talking.expect("faults"), 0, "after {line}");
        self.talking.expect("rounds")
    }

    /// Its open descriptors and its threads.
    pub fn descriptors_and_threads(&self) -> (usize, usize) {
        let count =
            |name: &str| fs::read_dir(format!("/proc/{}/{name}", self.pid())).unwrap().count();
        (count("fd"), count("task"))
    }
}

/// Runs a command on a process with `--json`, and returns what it prints.
#[track_caller]
pub fn told(scratch: &Scratch, command: &str, pid: u32, flags: &[&str]) -> Json {
    let mut ramson = ramson(scratch);
    ramson.args([command, "--json", &pid.to_string()]).args(flags);
    Json::parse(&finish(&mut ramson).good().text())
}

/// Returns the one line on standard error of a command that refuses a process.
#[track_caller]
pub fn refused(scratch: &Scratch, command: &str, pid: u32) -> String {
    let outcome = finish(ramson(scratch).args([command, &pid.to_string()]));
    assert_eq!((outcome.status, outcome.text().as_str()), (1, ""), "{outcome:?}");
    assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
    outcome.remarks[0].clone()
}

/// Every page of a mapped file, by its address, and how it may be accessed; what libramson.so has itself is left out.
pub fn page_access(pid: u32) -> BTreeMap<usize, String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let parse = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let pages = |line: &str| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let access = rest[..4].to_owned();
        (parse(start)..parse(end)).step_by(4096).map(move |page| (page, access.clone()))
    };
    let lines = maps.lines().filter(|line| line.contains('/') && !line.contains("libramson"));
    lines.flat_map(pages).collect()
}

/// Every word in memory of files that points to code of a file, by its address; what libramson.so has itself is left out.
pub fn code_pointers(pid: u32) -> BTreeMap<u64, u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let parse = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let lines: Vec<(u64, u64, &str, &str)> = maps
        .lines()
        .filter(|line| line.contains('/'))
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            (parse(start), parse(end), &rest[..4], line)
        })
        .collect();
    let is_code = |word: u64| {
        lines
            .iter()
            .any(|&(start, end, access, _)| access.contains('x') && (start..end).contains(&word))
    };
    let mut found = BTreeMap::new();
    for &(start, end, access, line) in &lines {
        if access.contains('x') || line.contains("libramson") {
            continue;
        }
        let mut bytes = vec![0; (end - start) as usize];
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        for (place, word) in (start..).step_by(8).zip(bytes.as_chunks().0) {
            let word = u64::from_le_bytes(*word);
            if is_code(word) {
                found.insert(place, word);
            }
        }
    }
    found
}
