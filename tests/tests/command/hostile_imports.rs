//! Files in other tools' formats, made up so that few bytes stand for much: no command takes more memory or time than their
//! bytes explain.

use ramson_tests::budgets::cost;
use ramson_tests::program_with;
use ramson_tests::servers::*;
use ramson_tests::several::say;
use std::fs;
use std::path::Path;

/// Bytes of memory for each byte of a file, beside those that any file may take.
const BYTES_PER_BYTE: u64 = 12;
const FREE_BYTES: u64 = 96 << 20;

const COMMANDS: [&[&str]; 6] = [
    &["report", "--view", "callers", "--json", "-n", "0"],
    &["diff"],
    &["export", "-f", "svg"],
    &["export", "-f", "collapsed"],
    &["export", "-f", "csv"],
    &["export", "-f", "speedscope"],
];

/// Runs all commands on a file; returns what `report --json` says is missing.
#[track_caller]
fn survive(scratch: &Scratch, name: &str, bytes: &[u8]) -> String {
    let file = scratch.file(name, bytes);
    let bound = FREE_BYTES + BYTES_PER_BYTE * bytes.len() as u64;
    for words in COMMANDS {
        let mut command = ramson(scratch);
        command.args(words).arg(&file);
        if words[0] == "diff" {
            command.arg(&file);
        }
        let cost = cost(&command);
        assert_eq!(cost.status, 0, "{name} {words:?}: {cost:?}");
        assert!(cost.peak_bytes < bound, "{name} {words:?}: {cost:?}, {} bytes", bytes.len());
        assert!(cost.cpu_seconds < 5.0, "{name} {words:?}: {cost:?}");
    }
    missing(scratch, &file)
}

#[track_caller]
fn missing(scratch: &Scratch, file: &Path) -> String {
    let report = finish(ramson(scratch).args(["report", "--json", "-n", "1"]).arg(file)).good();
    let report = Json::parse(&report.text());
    report.list("defects").iter().map(|defect| format!("{defect:?}\n")).collect()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn message(field: u64, value: &[u8]) -> Vec<u8> {
    [&varint(field << 3 | 2), &varint(value.len() as u64), value].concat()
}

/// A pprof file of in-use bytes with a function `f` (1) and a further string (4).
fn pprof(text: &[u8], more: &[Vec<u8>]) -> Vec<u8> {
    let strings: [&[u8]; 5] = [b"", b"space", b"bytes", b"f", text];
    let strings = strings.map(|text| message(6, text)).concat();
    let types = message(1, &[number(1, 1), number(2, 2)].concat());
    let function = message(5, &[number(1, 1), number(2, 3)].concat());
    [types, strings, function, more.concat()].concat()
}

/// Location 1 with so many inlined frames.
fn location(lines: usize) -> Vec<u8> {
    let line = message(4, &number(1, 1));
    message(4, &[number(1, 1), line.repeat(lines)].concat())
}

fn sample(depth: usize, more: &[u8]) -> Vec<u8> {
    let stack = message(1, &vec![1; depth]);
    message(2, &[&stack, &message(2, &varint(1 << 20)), more].concat())
}

#[test]
fn repeated_frames_cost_their_bytes() {
    let scratch = Scratch::new();
    let file = pprof(b"", &[location(40_000), sample(40_000, b"")]);
    let missing = survive(&scratch, "deep.pb", &file);
    assert!(missing.contains("frames were cut"), "{missing}");
    // The same product over many samples, which a label tells apart.
    let labelled =
        |number: u64| sample(16, &message(3, &[[8, 3, 24].to_vec(), varint(number)].concat()));
    let samples = (1..10_000).flat_map(labelled).collect();
    let missing = survive(&scratch, "wide.pb", &pprof(b"", &[location(256), samples]));
    assert!(missing.contains("frames were cut"), "{missing}");
}

#[test]
fn repeated_long_text_costs_its_bytes() {
    let scratch = Scratch::new();
    let text = vec![b'N'; 3 << 20];
    let named = message(5, &[number(1, 2), number(2, 4)].concat());
    let outer = message(4, &[number(1, 2), message(4, &number(1, 2))].concat());
    let stack = message(1, &[1, 2].repeat(2000));
    let deep = message(2, &[stack, message(2, &varint(1 << 20))].concat());
    let names = pprof(&text, &[named, location(1), outer, deep]);
    let missing = survive(&scratch, "names.pb", &names);
    assert!(missing.contains("16 KiB"), "{missing}");
    let mapping = |id: u64| message(3, &[number(1, id), number(5, 4)].concat());
    let mappings: Vec<u8> = (1..20_000).flat_map(mapping).collect();
    let bytes = pprof(&text, &[mappings, location(1), sample(1, b"")]);
    let file = scratch.file("mappings.pb", &bytes);
    // 20,000 paths of 3 MiB.
    let cost = cost(ramson(&scratch).arg("report").arg(&file));
    assert_eq!(cost.status, 1, "{cost:?}");
    assert!(format!("{cost:?}").contains("it takes more than 4096 MiB to read"), "{cost:?}");
    assert!(cost.peak_bytes < FREE_BYTES + BYTES_PER_BYTE * bytes.len() as u64, "{cost:?}");
    let label =
        |id: u64| sample(1, &message(3, &[number(1, 4), number(2, 4), number(3, id)].concat()));
    let samples: Vec<u8> = (1..20_000).flat_map(label).collect();
    survive(&scratch, "labels.pb", &pprof(&text, &[location(1), samples]));
}

#[test]
fn deep_text_stacks_are_cut() {
    let scratch = Scratch::new();
    let lines = "i 1 1".to_owned() + &" 1 1 1".repeat(4000);
    let chain: String = (0..50_000).map(|parent| format!("t 1 {parent:x}\n")).collect();
    let sizes: String = (0..50_000).map(|at| format!("a 10 {:x}\n+ {at:x}\n", at + 1)).collect();
    let heaptrack = format!("v 10300 3\ns 1 f\n{lines}\n{chain}{sizes}");
    let missing = survive(&scratch, "heaptrack", heaptrack.as_bytes());
    assert!(missing.contains("frames were cut"), "{missing}");
    let stack = |last: u64| format!("{}end{last} 100\n", "a;".repeat(1_000_000));
    let collapsed = format!("main;f 1\nmain;g 2\n{}{}", stack(1), stack(2));
    let missing = survive(&scratch, "collapsed", collapsed.as_bytes());
    assert!(missing.contains("frames were cut"), "{missing}");
    let addresses =
        |step: usize| (1..400_000).map(|at| format!(" {:x}", at * step)).collect::<String>();
    let jemalloc = format!(
        "heap_v2/524288\n  t*: 1: 9 [0: 0]\n@{}\n  t*: 1: 9 [0: 0]\n\nMAPPED_LIBRARIES:\n",
        addresses(7)
    );
    survive(&scratch, "jemalloc", jemalloc.as_bytes());
    let gperftools = format!(
        "heap profile: 1: 2 [ 3: 4] @ heapprofile\n 1: 9 [1: 9] @{}\n\nMAPPED_LIBRARIES:\n",
        addresses(3)
    );
    survive(&scratch, "gperftools", gperftools.as_bytes());
}

const FORGED: &str = "\nramson: forged \u{202e}";

/// Runs a command on input whose names begin lines of their own, and fails if one does so on a terminal.
#[track_caller]
fn says_nothing_forged(scratch: &Scratch, words: &[&str]) {
    let said = say(scratch, words);
    let written = said.text();
    let is_own = |letter: char| "\n\r\t".contains(letter) || !letter.is_control();
    for line in written.lines().chain(said.remarks.iter().map(String::as_str)) {
        assert!(!line.starts_with("ramson: forged"), "{words:?}: {said:?}");
        assert!(!line.starts_with("forged"), "{words:?}: {said:?}");
        assert!(!line.contains('\u{202e}') && line.chars().all(is_own), "{words:?}: {said:?}");
    }
    assert_eq!(said.stderr, "", "{words:?}");
}

#[test]
fn names_of_files_forge_no_line() {
    let scratch = Scratch::new();
    let file = scratch.path(&format!("x{FORGED}.pb.gz"));
    let makes = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/forged_lines.py");
    finish(clean(python()).arg(makes).arg(&file)).good();
    let file = file.to_str().unwrap();
    for view in ["stacks", "functions", "lines", "tree", "callers", "sizes", "threads", "health"] {
        says_nothing_forged(&scratch, &["report", "--view", view, file]);
    }
    for format in ["csv", "collapsed", "svg", "json", "speedscope"] {
        says_nothing_forged(&scratch, &["export", "-f", format, "-o", "-", file]);
    }
    for command in ["leaks", "explain", "timeline", "symbolize"] {
        says_nothing_forged(&scratch, &[command, file]);
    }
    says_nothing_forged(&scratch, &["diff", file, file]);
    says_nothing_forged(&scratch, &["report", &format!("{file}.missing")]);
    says_nothing_forged(&scratch, &["report", &format!("name:{FORGED}")]);
}

#[test]
fn names_of_programs_forge_no_line() {
    let scratch = Scratch::new();
    let program = scratch.path(&format!("x{FORGED}"));
    copy(&program_with("real/holds.c", "holds-forged", &[]), &program);
    let program = program.to_str().unwrap();
    says_nothing_forged(&scratch, &["run", "--interval", "1", "--", program, FORGED]);
    let mut found = fs::read_dir(scratch.path("profiles")).unwrap();
    let profile = found.next().unwrap().unwrap().path();
    let profile = profile.to_str().unwrap();
    for words in [
        &["list"][..],
        &["report", profile],
        &["report", "--view", "threads", profile],
        &["leaks", profile],
        &["diff", profile, profile],
        &["timeline", profile],
        &["export", "-f", "csv", "-o", "-", profile],
        &["export", "-f", "collapsed", "-o", "-", profile],
    ] {
        says_nothing_forged(&scratch, words);
    }
}
