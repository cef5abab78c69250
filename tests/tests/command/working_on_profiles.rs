//! Filters, views, differences and sums as their user meets them, on profiles of real programs, and their numbers beside those of
//! `go tool pprof` on what we export.

use ramson_tests::program_with;
use ramson_tests::servers::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

fn say(scratch: &Scratch, arguments: &[&str]) -> Outcome {
    finish(ramson(scratch).args(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A profile of a run of the compiled `real/compiled.cc` or `real/holds.c` at this interval.
fn profile(scratch: &Scratch, program: &Path, name: &str, interval: &str) -> String {
    let path = scratch.path(name);
    let arguments = ["run", "--interval", interval, "-o", text(&path), "--", text(program)];
    say(scratch, &arguments);
    text(&path).to_owned()
}

fn holds() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| program_with("real/holds.c", "holds-views", &["-g"]))
}

/// A program, built in a directory of its own, that holds 1,000 blocks of 100 bytes made by `keep`, 10 of 5,000 bytes made by `keep_large`
/// on a second thread, and more of the former with every argument; then dies.
fn keeps(scratch: &Scratch, more: usize) -> PathBuf {
    let blocks = 1000 + 500 * more;
    let source = format!(
        "#include <pthread.h>\n#include <stdlib.h>\n#include <signal.h>\n\
         void *volatile kept;\n\
         __attribute__((noinline)) void keep(void) {{ kept = malloc(100); }}\n\
         __attribute__((noinline)) void keep_large(void) {{ kept = malloc(5000); }}\n\
         __attribute__((noinline)) void *large(void *unused) {{\n\
           for (int i = 0; i < 10; i++) keep_large();\n  return unused;\n}}\n\
         int main(void) {{\n  pthread_t thread;\n\
           for (int i = 0; i < {blocks}; i++) keep();\n\
           pthread_create(&thread, 0, large, 0);\n  pthread_join(thread, 0);\n\
           raise(SIGKILL);\n}}\n"
    );
    let file = scratch.file(&format!("keeps{more}.c"), source);
    let program = scratch.path(&format!("keeps{more}"));
    let compiler = installed("gcc", "gcc");
    let flags = ["-g", "-O1", "-fno-optimize-sibling-calls", "-pthread", "-o"];
    finish(clean(compiler).args(flags).arg(&program).arg(&file)).good();
    program
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Json {
    Json::parse(&say(scratch, &[arguments, &["--json"]].concat()).good().text())
}

/// Rows of a report: flat by function.
fn flats(report: &Json) -> BTreeMap<String, i64> {
    let rows = report.list("rows").iter();
    rows.map(|row| (row.text("function").to_owned(), row.number("flat.value") as i64)).collect()
}

#[test]
fn filters_keep_percentages_of_all() {
    let scratch = Scratch::new();
    let path = profile(&scratch, &keeps(&scratch, 0), "out", "1");
    let report = |more: &[&str]| {
        json(
            &scratch,
            &[&["report", &path, "-n", "0", "--view", "functions", "--all-frames"], more].concat(),
        )
    };
    let whole = report(&[]).number("total.value");
    // glibc gives 104 bytes for 100, and 5,000 for 5,000.
    assert!(flats(&report(&[]))["keep"] == 104_000 && flats(&report(&[]))["keep_large"] == 50_000);
    let focused = report(&["--focus", "^keep_large$"]);
    assert_eq!(focused.number("total.value"), 50_000.0);
    assert_eq!(focused.number("whole.value"), whole);
    assert_eq!(flats(&report(&["--hide", "^keep$"]))["main"], 104_000);
    assert!(!flats(&report(&["--ignore", "^large$"])).contains_key("keep_large"));
    let from = flats(&report(&["--show-from", "^large$"]));
    assert_eq!(from.keys().collect::<Vec<_>>(), ["keep_large", "large"]);
    // The memory that pthread_create itself allocates is main's, too.
    let all_of_main = flats(&report(&["--show", "^main$"]))["main"];
    assert!((104_000..114_000).contains(&all_of_main), "{all_of_main}");
    assert_eq!(report(&["--tagfocus", "bytes=5000b"]).number("total.value"), 50_000.0);
    assert_eq!(report(&["--tagignore", "bytes=1kb:"]).number("total.value"), {
        let small = report(&["--tagfocus", "bytes=:1023b"]);
        small.number("total.value")
    });
    let files = flats(&report(&["--granularity", "files"]));
    let file = files.iter().find(|(name, _)| name.ends_with("keeps0.c"));
    assert_eq!(file.map(|(_, flat)| *flat), Some(154_000), "{files:?}");
    let mappings = flats(&report(&["--granularity", "mappings"]));
    assert_eq!(mappings["[keeps0]"], 154_000);
    let shown = say(&scratch, &["report", &path, "--focus", "^keep_large$"]).good().text();
    assert!(shown.contains("of total"), "{shown}");
}

#[test]
fn every_view_has_table_and_object() {
    let scratch = Scratch::new();
    let path = profile(&scratch, &keeps(&scratch, 0), "out", "1");
    for (view, kind, heading) in [
        ("stacks", "stacks", "allocated by"),
        ("functions", "report", "own%"),
        ("lines", "report", "own%"),
        ("tree", "tree", "callers above their callees"),
        ("callers", "callers", "callees above their callers"),
        ("peek ^keep", "peek", "called by"),
        ("sizes", "sizes", "block size"),
        ("threads", "threads", "thread"),
    ] {
        let shown = say(&scratch, &["report", &path, "--view", view]).good().text();
        assert!(shown.contains(heading), "{view}: {shown}");
        assert!(!shown.ends_with("\n\n"), "{view}: {shown}");
        let object = json(&scratch, &["report", &path, "--view", view]);
        assert_eq!(object.text("kind"), kind, "{view}");
        assert_eq!(object.number("ramson"), 1.0);
        assert_eq!(object.text("name"), "keeps0");
    }
    let sizes = json(&scratch, &["report", &path, "--view", "sizes"]);
    let class = sizes.list("rows").iter().find(|row| row.number("least_bytes") == 4096.0).unwrap();
    assert_eq!((class.number("most_bytes"), class.number("space.value")), (8191.0, 50_000.0));
    assert_eq!(class.number("objects.value"), 10.0);
    let threads = json(&scratch, &["report", &path, "--view", "threads"]);
    let values: Vec<f64> =
        threads.list("rows").iter().map(|row| row.number("value.value")).collect();
    assert_eq!((values.len(), values[1]), (2, 50_000.0), "{values:?}");
    assert!(threads.list("rows")[0].text("thread").starts_with("keeps0/"));
    let callers = json(&scratch, &["report", &path, "--view", "callers"]);
    let first = &callers.list("rows")[..2];
    assert_eq!((first[0].text("function"), first[1].text("function")), ("keep", "main"));
}

#[test]
fn empty_filter_result_says_so() {
    let scratch = Scratch::new();
    let path = profile(&scratch, &keeps(&scratch, 0), "out", "1");
    for (flag, value, status, part) in [
        ("--focus", "nosuch", 1, "--focus 'nosuch' leaves nothing of"),
        ("--focus", "nosuch", 1, "there: keep, keep_large"),
        ("--ignore", ".", 1, "--ignore '.' leaves nothing"),
        ("--tagfocus", "thread=nosuch", 1, "bytes="),
        ("--hide", "a(", 2, "at character 2: unclosed group"),
        ("--tagfocus", "thread=[", 2, "at character 1"),
        (
            "--granularity",
            "modules",
            2,
            "functions, filefunctions, files, lines, addresses, mappings",
        ),
    ] {
        let outcome = say(&scratch, &["report", &path, flag, value]);
        assert_eq!((outcome.status, outcome.stdout.len()), (status, 0), "{flag}: {outcome:?}");
        assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
        assert!(outcome.remarks[0].contains(part), "{part}: {outcome:?}");
    }
}

#[test]
fn diff_trips_only_on_growth() {
    let scratch = Scratch::new();
    let old = profile(&scratch, &keeps(&scratch, 0), "old", "1");
    let new = profile(&scratch, &keeps(&scratch, 1), "new", "1");
    let diff = json(&scratch, &["diff", &old, &new]);
    assert_eq!(diff.text("kind"), "diff");
    assert_eq!(diff.number("total.value"), 52_000.0);
    let row = &diff.list("rows")[0];
    assert_eq!((row.text("function"), row.number("flat.value")), ("keep", 52_000.0));
    assert_eq!((row.number("old_flat.value"), row.number("new_flat.value")), (104e3, 156e3));
    let text = say(&scratch, &["diff", &old, &new]).good().text();
    assert!(
        text.starts_with("live grew by 50.8 KiB (±0 B), +33.7%; 100% of it in keep\n"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    for (arguments, status) in [
        (vec![&*old, &*new, "--fail-above", "5%"], 3),
        (vec![&*old, &*new, "--fail-above", "40KiB"], 3),
        (vec![&*old, &*new, "--fail-above", "1MiB"], 0),
        (vec![&*old, &*new, "--fail-above", "90%"], 0),
        (vec![&*new, &*old, "--fail-above", "0%"], 0),
        (vec![&*old, &*new, "--fail-above", "5%", "--focus", "keep_large"], 0),
        (vec![&*old, &*new, "--fail-above", "400", "--count", "inuse_objects"], 3),
        (vec![&*old, &*new, "--fail-above", "4KiB", "--count", "inuse_objects"], 2),
        (vec![&*old, &*new, "--fail-above", "much"], 2),
    ] {
        let outcome = say(&scratch, &[&["diff"], &arguments[..]].concat());
        assert_eq!(outcome.status, status, "{arguments:?}: {outcome:?}");
        assert_eq!(outcome.remarks.len(), usize::from(status != 0), "{outcome:?}");
    }
    let nothing = say(&scratch, &["diff", &old, &old]).good().text();
    assert!(nothing.starts_with("live: no change\n"), "{nothing}");
}

#[test]
fn same_process_diff_cancels_common_error() {
    let scratch = Scratch::new();
    let script = "import sys, time\nkept = [bytearray(3000) for i in range(20000)]\n\
        print('up', flush=True)\nsys.stdin.readline()\nmore = [bytearray(30000) for i in range(20)]\n\
        print('more', flush=True)\nsys.stdin.readline()\n";
    let program = scratch.file("grows.py", script);
    let path = scratch.path("out");
    let mut command = ramson(&scratch);
    command
        .args(["run", "--interval", "64K", "--max-overhead", "off", "-o", text(&path), "--"])
        .arg(python())
        .arg(&program);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let before = scratch.path("before");
    std::fs::copy(&path, &before).unwrap();
    std::io::Write::write_all(&mut input, b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "more");
    let diff = json(&scratch, &["diff", text(&before), text(&path)]);
    drop(input);
    child.wait().unwrap();
    let width = |name: &str| diff.number(&format!("{name}.half_width_95"));
    // 600 kB more, of 60 MB whose own intervals are some MB wide.
    assert_eq!(*diff.at("is_same_process"), Json::Word("true".into()));
    assert!((diff.number("total.value") - 600_000.0).abs() < 4.0 * width("total").max(50_000.0));
    assert!(width("total") < 700_000.0 && width("old_total") > 2_000_000.0, "{diff:?}");
}

/// Flat and cum by name of `go tool pprof -top`.
fn pprof_top(scratch: &Scratch, arguments: &[&str]) -> BTreeMap<String, (i64, i64)> {
    let mut command = Command::new(installed("go", "golang-go"));
    command.args(["tool", "pprof", "-top", "-filefunctions", "-unit=B", "-nodecount=0"]);
    command.args(["-nodefraction=0"]).args(arguments);
    command.env("PPROF_TMPDIR", scratch.path(""));
    let text = finish(&mut command).good().text();
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("flat "));
    let number = |word: &str| word.trim_end_matches('B').parse::<i64>().unwrap();
    let rows = lines.skip(1).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words[5..].iter().filter(|word| !word.ends_with("inline)"));
        let name = name.copied().collect::<Vec<_>>().join(" ");
        (name, (number(words[0]), number(words[3])))
    });
    rows.collect()
}

fn our_top(report: &Json) -> BTreeMap<String, (i64, i64)> {
    let rows = report.list("rows").iter().map(|row| {
        let name = format!("{} {}", row.text("function"), row.text("file"));
        (
            name.trim_end().to_owned(),
            (row.number("flat.value") as i64, row.number("cum.value") as i64),
        )
    });
    rows.filter(|(_, values)| *values != (0, 0)).collect()
}

/// Only rows of functions with a file: pprof joins addresses without a name.
fn with_files(rows: BTreeMap<String, (i64, i64)>) -> BTreeMap<String, (i64, i64)> {
    rows.into_iter().filter(|(name, _)| name.contains(".c")).collect()
}

#[test]
fn exports_match_pprof_under_filters() {
    // Not live bytes: they are usable ones here, and requested ones in exports.
    const COUNTS: [&str; 2] = ["--count=inuse_objects", "--count=alloc_space"];
    let scratch = Scratch::new();
    let old = profile(&scratch, &keeps(&scratch, 0), "old", "1");
    let new = profile(&scratch, &keeps(&scratch, 2), "new", "1");
    let other = profile(&scratch, holds(), "other", "1");
    let export = |source: &str| {
        let out = format!("{source}.pb.gz");
        say(&scratch, &["export", source, "-f", "pprof", "-o", &out]).good();
        out
    };
    let files = [export(&old), export(&new), export(&other)];
    for (ours, theirs) in [
        (vec![], vec![]),
        (vec!["--focus", "^keep"], vec!["-focus=^keep"]),
        (vec!["--hide", "^keep$"], vec!["-hide=^keep$"]),
        (vec!["--tagfocus", "bytes=4kb:"], vec!["-tagfocus=bytes=4kb:"]),
        (vec!["--tagfocus", "thread=^keeps"], vec!["-tagfocus=thread=^keeps"]),
        (vec!["--show-from", "large", "--ignore", "zzz"], vec!["-show_from=large", "-ignore=zzz"]),
    ] {
        for count in COUNTS {
            let arguments =
                ["report", &*new, "-n", "0", "--view", "functions", "--all-frames", count];
            let report = json(&scratch, &[&arguments, &ours[..]].concat());
            let index = count.replace("--count", "-sample_index");
            let pprof = pprof_top(&scratch, &[&[&*index], &theirs[..], &[&*files[1]]].concat());
            assert_eq!(with_files(our_top(&report)), with_files(pprof), "{count} {ours:?}");
        }
    }
    for count in COUNTS {
        let diff = ["diff", &old, &new, "-n", "0", "--all-frames", count];
        let diff = json(&scratch, &[&diff[..], &["--granularity", "filefunctions"]].concat());
        let options =
            [&*count.replace("--count", "-sample_index"), &format!("-diff_base={}", files[0])];
        let pprof = pprof_top(&scratch, &[&options[..], &[&*files[1]]].concat());
        assert_eq!(with_files(our_top(&diff)), with_files(pprof), "{count}");
    }
    let merged = scratch.path("merged.pb.gz");
    let sum = ["export", &*old, &*new, &*other, "-f", "pprof", "-o", text(&merged)];
    say(&scratch, &sum).good();
    let [a, b, c] = [&*files[0], &*files[1], &*files[2]];
    assert_eq!(pprof_top(&scratch, &[text(&merged)]), pprof_top(&scratch, &[a, b, c]));
    let again = say(&scratch, &sum);
    assert_eq!(again.status, 1);
    assert!(again.remarks[0].contains("--force"), "{again:?}");
    say(&scratch, &[&sum[..], &["--force"]].concat()).good();
}
