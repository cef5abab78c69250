//! Go programs that run without ramson: their own heap profile, read out of their memory.

use ramson_tests::servers::*;
use ramson_tests::several::{json, say};
use std::fs;
use std::path::Path;

/// Allocates by a function, an inlined one and the library, and writes its heap profile to a file.
const SHOP: &str = "package main

import (
\t\"fmt\"
\t\"os\"
\t\"runtime\"
\t\"runtime/pprof\"
\t\"strings\"
\t\"time\"
)

type session struct {
\tdata []byte
\ttags []string
}

var kept = map[int]*session{}
var blobs [][]byte

//go:noinline
func open() *session {
\treturn &session{data: make([]byte, 20000), tags: strings.Split(\"a,b,c,d,e,f\", \",\")}
}

func inlined(i int) []byte { return make([]byte, 3000+i%2) }

func main() {
\tfor i := 0; i < 20000; i++ {
\t\tkept[i] = open()
\t\tblobs = append(blobs, inlined(i))
\t\tif i%3 == 0 {
\t\t\tdelete(kept, i-1)
\t\t}
\t}
\truntime.GC()
\truntime.GC()
\tfile, _ := os.Create(os.Args[1])
\tpprof.Lookup(\"heap\").WriteTo(file, 0)
\tfile.Close()
\tfmt.Println(\"ready\")
\ttime.Sleep(time.Hour)
}
";
/// Without the library's profiler.
const PLAIN: &str = "package main

import (
\t\"fmt\"
\t\"time\"
)

func main() {
\tfmt.Println(\"ready\")
\ttime.Sleep(time.Hour)
}
";

/// Builds it, with these flags, and starts it.
fn start(scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Running {
    let folder = scratch.open_directory(&format!("{name}-source"));
    fs::write(folder.join("main.go"), source).unwrap();
    fs::write(folder.join("go.mod"), format!("module {name}\ngo 1.21\n")).unwrap();
    let program = scratch.path(name);
    let mut build = clean(installed("go", "golang-go"));
    build.arg("build").args(flags).arg("-o").arg(&program).arg(".");
    finish(build.current_dir(&folder)).good();
    let log = scratch.path(&format!("{name}.log"));
    let mut command = clean(program);
    command.arg(profile(scratch, name));
    Running::start(&mut command, &log, || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("ready"))
    })
}

fn profile(scratch: &Scratch, name: &str) -> String {
    scratch.path(&format!("{name}.pb.gz")).display().to_string()
}

/// Every stack with its functions, files and lines, and its value.
fn rows(scratch: &Scratch, source: &str, count: &str) -> Vec<(String, f64)> {
    let report = json(scratch, &["report", source, "-n", "0", "--count", count]);
    let mut rows: Vec<(String, f64)> = report
        .list("rows")
        .iter()
        .map(|row| {
            let frames = row.list("frames").iter();
            let frames: Vec<String> = frames
                .map(|frame| {
                    let file = Path::new(frame.text("file")).file_name().unwrap();
                    let line = frame.number("line");
                    format!("{} {}:{line}", frame.text("function"), file.display())
                })
                .collect();
            (frames.join(" ← "), row.number("value.value"))
        })
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows
}

#[test]
fn heap_of_go_is_what_its_own_profile_has() {
    let scratch = Scratch::new();
    for (name, flags) in [("shop", &[][..]), ("shop-pie", &["-buildmode=pie"])] {
        let running = start(&scratch, name, SHOP, flags);
        let pid = running.0.id().to_string();
        for count in ["live", "live-objects", "allocated", "allocations"] {
            let own = rows(&scratch, &profile(&scratch, name), count);
            assert!(own.iter().any(|(stack, _)| stack.contains("main.inlined")), "{own:#?}");
            let read = rows(&scratch, &pid, count);
            let stacks = |rows: &[(String, f64)]| -> Vec<String> {
                rows.iter().map(|(stack, _)| stack.clone()).collect()
            };
            assert_eq!(stacks(&read), stacks(&own), "{name} {count}");
            // A file has whole numbers, cut off for each size of a stack; there are up to twenty.
            let is_equal =
                |pair: (&(String, f64), &(String, f64))| (pair.0.1 - pair.1.1).abs() <= 20.0;
            assert!(read.iter().zip(&own).all(is_equal), "{name} {count}: {read:#?} {own:#?}");
        }
        let report = say(&scratch, &["report", &pid]).good().text();
        assert!(report.starts_with("RSS ") && report.contains("main.open  main.go:"), "{report}");
    }
}

#[test]
fn go_programs_without_a_profile_say_why() {
    let scratch = Scratch::new();
    for (source, flags, why) in [
        (PLAIN, &[][..], "Go's heap profile is off"),
        (SHOP, &["-ldflags=-s"], "a Go program without symbols"),
    ] {
        let running = start(&scratch, "plain", source, flags);
        let refused = say(&scratch, &["leaks", &running.0.id().to_string()]);
        assert_eq!(refused.status, 5, "{refused:?}");
        assert!(refused.remarks[0].contains(why), "{refused:?}");
    }
}
