//! Exports of profiles that real producers wrote, read by the tools that they are for.

use ramson_tests::program_with;
use ramson_tests::servers::*;
use std::fs;
use std::path::{Path, PathBuf};

const FORMATS: [&str; 7] = ["pprof", "collapsed", "speedscope", "svg", "html", "json", "csv"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn imported(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/import").join(name)
}

fn holds() -> PathBuf {
    program_with("real/holds.c", "holds-exports", &["-g"])
}

/// A profile of ours at this interval.
fn own(scratch: &Scratch, interval: &str) -> PathBuf {
    let path = scratch.path(&format!("{interval}.ramson"));
    let program = holds();
    let arguments = ["run", "--interval", interval, "-o", text(&path), "--", text(&program)];
    finish(ramson(scratch).args(arguments)).good();
    path
}

/// The file that `SRC` becomes.
fn export(scratch: &Scratch, source: &Path, format: &str, name: &str) -> PathBuf {
    let out = scratch.path(name);
    let arguments = ["export", text(source), "-f", format, "-o", text(&out)];
    finish(ramson(scratch).args(arguments)).good();
    out
}

fn json(scratch: &Scratch, source: &Path) -> Json {
    let arguments = ["export", text(source), "-f", "json"];
    Json::parse(&finish(ramson(scratch).args(arguments)).good().text())
}

/// Every stack, as functions and places, with its four rounded values; sorted.
fn stacks(profile: &Json) -> Vec<(String, Vec<i64>)> {
    let types = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];
    let stacks = profile.list("stacks").iter().map(|stack| {
        let frames = stack.list("frames").iter().map(|frame| {
            let line = frame.number("line");
            format!("{} {}:{line}", frame.text("function"), frame.text("file"))
        });
        // A pprof file has 0 for what is unknown.
        let values = types.map(|of| match stack.at(of).at("value") {
            Json::Number(value) => *value as i64,
            _ => 0,
        });
        (frames.collect::<Vec<_>>().join(";"), values.to_vec())
    });
    let mut stacks: Vec<_> = stacks.collect();
    stacks.sort();
    stacks
}

#[test]
fn pprof_round_trip_keeps_totals() {
    let scratch = Scratch::new();
    let mut sources = vec![own(&scratch, "1"), own(&scratch, "4K")];
    sources.extend(["go.pb.gz", "jemalloc.heap", "gperftools.heap"].map(imported));
    for (index, source) in sources.iter().enumerate() {
        let file = export(&scratch, source, "pprof", &format!("{index}.pb.gz"));
        let (before, after) = (json(&scratch, source), json(&scratch, &file));
        // Labels tell samples of one stack apart in a pprof file.
        assert_eq!(summed(stacks(&after)), summed(stacks(&before)), "{}", source.display());
        assert!(before.number("totals.inuse_space.value") > 0.0);
    }
}

/// Equal stacks once. A sum of rounded values may differ by 1 for each of them.
fn summed(stacks: Vec<(String, Vec<i64>)>) -> Vec<(String, Vec<i64>)> {
    let mut sums: Vec<(String, Vec<i64>)> = Vec::new();
    for (stack, values) in stacks {
        match sums.last_mut().filter(|last| last.0 == stack) {
            Some(last) => last.1.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            None => sums.push((stack, values)),
        }
    }
    sums
}

#[test]
fn go_pprof_lists_allocating_lines() {
    let scratch = Scratch::new();
    let file = export(&scratch, &own(&scratch, "1"), "pprof", "own.pb.gz");
    let mut command = clean(installed("go", "golang-go"));
    command.args(["tool", "pprof", "-list", "^hold$", text(&file)]);
    let shown = finish(command.env("PPROF_TMPDIR", scratch.path(""))).good().text();
    let line = shown.lines().find(|line| line.contains("malloc(")).expect(&shown);
    assert!(line.contains("97.66kB"), "{shown}");
}

#[test]
fn speedscope_matches_its_schema() {
    let scratch = Scratch::new();
    let schema =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/export/speedscope-1.25.0-schema.json");
    let script = "import json, jsonschema, sys
document, schema = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.validate(document, schema)
frames = len(document['shared']['frames'])
for profile in document['profiles']:
    assert all(0 <= frame < frames for stack in profile['samples'] for frame in stack)
    assert sum(profile['weights']) == profile['endValue']
    print(profile['name'], profile['unit'], profile['endValue'])";
    for source in [own(&scratch, "4K"), imported("jemalloc.heap")] {
        let name = format!("{}.json", source.file_name().unwrap().to_str().unwrap());
        let file = export(&scratch, &source, "speedscope", &name);
        let mut command = clean(python());
        let shown = finish(command.args(["-c", script, text(&file), text(&schema)])).good().text();
        let total = json(&scratch, &source).number("totals.inuse_space.value");
        let stacks = json(&scratch, &source).list("stacks").len() as f64;
        let line = shown.lines().find(|line| line.starts_with("inuse_space bytes ")).unwrap();
        let theirs: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((theirs - total).abs() <= stacks, "{shown} {total}");
        assert_eq!(shown.contains("alloc_space"), text(&source).ends_with("ramson"), "{shown}");
    }
}

#[test]
fn export_needs_force_to_replace() {
    let scratch = Scratch::new();
    let source = own(&scratch, "1");
    for format in FORMATS {
        let file = scratch.file(format, "precious");
        let arguments = ["export", text(&source), "-f", format, "-o", text(&file)];
        let refused = finish(ramson(&scratch).args(arguments));
        assert_eq!((refused.status, refused.remarks.len()), (1, 1), "{format}: {refused:?}");
        assert_eq!(fs::read(&file).unwrap(), b"precious", "{format}");
        finish(ramson(&scratch).args(arguments).arg("--force")).good();
        assert_ne!(fs::read(&file).unwrap(), b"precious", "{format}");
    }
}

#[test]
fn equal_profiles_give_equal_files() {
    let scratch = Scratch::new();
    let source = own(&scratch, "4K");
    for format in FORMATS {
        let first = export(&scratch, &source, format, "first");
        let second = export(&scratch, &source, format, "second");
        assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap(), "{format}");
        fs::remove_file(first).unwrap();
        fs::remove_file(second).unwrap();
    }
}

#[test]
fn large_page_merges_within_budget() {
    let scratch = Scratch::new();
    let long = "<&\"'>".repeat(150);
    let lines = (0..4_000).map(|n| format!("main;{long}{n};{};leaf{n} 1000\n", n % 97));
    let source = scratch.file("wide", lines.collect::<String>());
    let page = fs::read_to_string(export(&scratch, &source, "html", "wide.html")).unwrap();
    assert!(page.len() < 5 << 20, "{}", page.len());
    assert!(page.contains(" are merged: ") && page.contains(" functions, the largest "));
    assert!(!page.contains("<&"));
}
