//! Go programs, built by a version of Go out of the module proxy, and what their own profiles have.

use crate::servers::*;
use crate::several::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The last release of each version that can be read.
pub const VERSIONS: [&str; 7] =
    ["1.21.13", "1.22.12", "1.23.12", "1.24.13", "1.25.7", "1.26.8", "1.27.0"];
/// Of these, the one that tests take that need one only.
pub const ONE: &str = "1.26.8";

/// Allocates by a function, an inlined one and the library, and writes its heap profile to a file.
pub const SHOP: &str = "package main

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
pub const PLAIN: &str = "package main

import (
\t\"fmt\"
\t\"time\"
)

func main() {
\tfmt.Println(\"ready\")
\ttime.Sleep(time.Hour)
}
";

/// The command of this version of Go: the one that is installed, or one that is downloaded (70 MB).
pub fn go(version: &str) -> PathBuf {
    let installed = installed("go", "golang-go");
    let mut ask = clean(&installed);
    ask.arg("version").env("GOTOOLCHAIN", "local");
    if finish(&mut ask).good().text().contains(&format!(" go{version} ")) {
        return installed;
    }
    let mut download = clean(&installed);
    let module = format!("golang.org/toolchain@v0.0.1-go{version}.linux-amd64");
    download.args(["mod", "download", "-json", &module]).env("GOTOOLCHAIN", "local");
    let told = finish(download.current_dir("/")).good().text();
    let folder = told.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \""));
    let folder = PathBuf::from(folder.unwrap().trim_end_matches("\","));
    for programs in ["bin", "pkg/tool/linux_amd64"] {
        for program in fs::read_dir(folder.join(programs)).unwrap() {
            let executable = fs::Permissions::from_mode(0o555);
            fs::set_permissions(program.unwrap().path(), executable).unwrap();
        }
    }
    folder.join("bin/go")
}

/// Builds it with these flags, and starts it.
pub fn start(go: &Path, scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> Running {
    let program = built(go, scratch, name, source, flags);
    let log = scratch.path(&format!("{name}.log"));
    let mut command = clean(program);
    command.arg(profile(scratch, name));
    Running::start(&mut command, &log, || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("ready"))
    })
}

/// Builds it with these flags.
pub fn built(go: &Path, scratch: &Scratch, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let folder = scratch.open_directory(&format!("{name}-source"));
    fs::write(folder.join("main.go"), source).unwrap();
    fs::write(folder.join("go.mod"), format!("module {name}\ngo 1.21\n")).unwrap();
    let program = scratch.path(name);
    let mut build = clean(go);
    build.arg("build").args(flags).arg("-o").arg(&program).arg(".").env("GOTOOLCHAIN", "local");
    finish(build.current_dir(&folder)).good();
    program
}

/// The profile that the program writes of itself.
pub fn profile(scratch: &Scratch, name: &str) -> String {
    scratch.path(&format!("{name}.pb.gz")).display().to_string()
}

/// Every stack with its functions, files and lines, and its value.
pub fn rows(scratch: &Scratch, source: &str, count: &str) -> Vec<(String, f64)> {
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

/// Compares what is read out of the program's memory with the profile that it wrote.
#[track_caller]
pub fn assert_equals_own(scratch: &Scratch, name: &str, pid: u32) {
    for count in ["live", "live-objects", "allocated", "allocations"] {
        let own = rows(scratch, &profile(scratch, name), count);
        assert!(own.iter().any(|(stack, _)| stack.contains("main.inlined")), "{own:#?}");
        let read = rows(scratch, &pid.to_string(), count);
        let stacks = |rows: &[(String, f64)]| -> Vec<String> {
            rows.iter().map(|(stack, _)| stack.clone()).collect()
        };
        assert_eq!(stacks(&read), stacks(&own), "{name} {count}");
        // A file has whole numbers, cut off for each size of a stack; there are up to twenty.
        let is_equal = |pair: (&(String, f64), &(String, f64))| (pair.0.1 - pair.1.1).abs() <= 20.0;
        assert!(read.iter().zip(&own).all(is_equal), "{name} {count}: {read:#?} {own:#?}");
    }
}
