//! Go programs, built by a version of Go out of the module proxy, and what their own profiles have.

use crate::servers::*;
use crate::several::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Has goroutines that wait in different ways, and says how many; with an argument, ever more of one of them. Others come and go.
pub const WAITS: &str = "package main

import (
\t\"fmt\"
\t\"os\"
\t\"runtime\"
\t\"runtime/pprof\"
\t\"sync\"
\t\"time\"
)

//go:noinline
func stuck(c chan int) int { return <-c }

//go:noinline
func pool(a, b chan int) {
\tselect {
\tcase <-a:
\tcase <-b:
\t}
}

//go:noinline
func locked(lock *sync.Mutex) { lock.Lock() }

//go:noinline
func serve() { go stuck(make(chan int)) }

func request() { time.Sleep(30 * time.Millisecond) }

func main() {
\tpprof.Lookup(\"heap\")
\tvar lock sync.Mutex
\tlock.Lock()
\tfor i := 0; i < 30; i++ {
\t\tserve()
\t}
\tfor i := 0; i < 7; i++ {
\t\tgo pool(make(chan int), make(chan int))
\t}
\tfor i := 0; i < 3; i++ {
\t\tgo locked(&lock)
\t}
\ttime.Sleep(100 * time.Millisecond)
\truntime.GC()
\truntime.GC()
\tfmt.Println(runtime.NumGoroutine(), \"ready\")
\tif len(os.Args) == 1 {
\t\ttime.Sleep(time.Hour)
\t}
\tfor {
\t\tserve()
\t\tfor i := 0; i < 5; i++ {
\t\t\tgo request()
\t\t}
\t\ttime.Sleep(10 * time.Millisecond)
\t}
}
";

/// Has goroutines that wait in C, in Go that C called back, and in a system call.
pub const CALLS: &str = "package main

// #include <unistd.h>
// extern void goCallback(void);
// static void back(void) { goCallback(); }
// static void wait(void) { pause(); }
import \"C\"

import (
\t\"fmt\"
\t\"syscall\"
\t\"time\"
)

var never = make(chan int)

//export goCallback
func goCallback() { <-never }

//go:noinline
func inC() { C.wait() }

//go:noinline
func reads(file int) {
\tvar byte [1]byte
\tsyscall.Read(file, byte[:])
}

func main() {
\tvar pipe [2]int
\tsyscall.Pipe(pipe[:])
\tfor i := 0; i < 5; i++ {
\t\tgo C.back()
\t}
\tfor i := 0; i < 3; i++ {
\t\tgo inC()
\t}
\tfor i := 0; i < 4; i++ {
\t\tgo reads(pipe[0])
\t}
\ttime.Sleep(500 * time.Millisecond)
\tfmt.Println(\"ready\")
\ttime.Sleep(time.Hour)
}
";

/// Keeps memory for the cause that its argument names, says what its runtime counts, and does what gives it back when it gets SIGUSR1.
pub const KEEPS: &str = "package main

import (
\t\"fmt\"
\t\"os\"
\t\"os/signal\"
\t\"runtime\"
\t\"runtime/debug\"
\t\"runtime/metrics\"
\t\"syscall\"
\t\"time\"
)

type node struct {
\tnext *node
\tpad  [7]int
}

var nodes []*node
var blocks [][]byte
var garbage []byte

func fill(count int) {
\tfor i := 0; i < count; i++ {
\t\tblock := make([]byte, 100000)
\t\tfor j := range block {
\t\t\tblock[j] = 1
\t\t}
\t\tblocks = append(blocks, block)
\t\tgarbage = block
\t}
}

//go:noinline
func wait(depth int, c chan int) int {
\tvar used [1024]byte
\tfor i := range used {
\t\tused[i] = byte(depth)
\t}
\tif depth == 0 {
\t\treturn <-c
\t}
\treturn wait(depth-1, c) + int(used[depth])
}

func main() {
\tcauses := make(chan os.Signal, 1)
\tsignal.Notify(causes, syscall.SIGUSR1)
\tswitch os.Args[1] {
\tcase \"live\":
\t\tfor i := 0; i < 1000000; i++ {
\t\t\tnodes = append(nodes, &node{pad: [7]int{1, 1, 1, 1, 1, 1, 1}})
\t\t}
\t\truntime.GC()
\tcase \"free\":
\t\tfill(2000)
\t\tblocks = append([][]byte(nil), blocks[:100]...)
\t\truntime.GC()
\tcase \"off\":
\t\tdebug.SetGCPercent(-1)
\t\tfill(1000)
\t\tblocks = append([][]byte(nil), blocks[:100]...)
\tcase \"stacks\":
\t\tc := make(chan int)
\t\tfor i := 0; i < 1000; i++ {
\t\t\tgo wait(50, c)
\t\t}
\t\ttime.Sleep(time.Second)
\t}
\tsamples := []metrics.Sample{{Name: \"/memory/classes/heap/objects:bytes\"}, {Name: \"/memory/classes/heap/free:bytes\"}, {Name: \"/memory/classes/heap/stacks:bytes\"}}
\tmetrics.Read(samples)
\tfor _, sample := range samples {
\t\tfmt.Print(sample.Value.Uint64(), \" \")
\t}
\tfmt.Println(\"ready\")
\t<-causes
\tdebug.SetGCPercent(100)
\tdebug.FreeOSMemory()
\tfmt.Println(\"returned\")
\ttime.Sleep(time.Hour)
}
";

/// Allocates 61,440 and 30,720 bytes in two functions, again and again; the library's profiler is on.
pub const LITTERS: &str = "package main

import (
\t\"fmt\"
\t\"runtime\"
\t\"os\"
\t\"runtime/pprof\"
\t\"time\"
)

var kept [][]byte
var sink []byte

//go:noinline
func page() {
\tfor i := 0; i < 15; i++ {
\t\tsink = make([]byte, 4096)
\t}
}

//go:noinline
func session() {
\tfor i := 0; i < 15; i++ {
\t\tsink = make([]byte, 2048)
\t}
}

func main() {
\tif len(os.Args) > 1 {
\t\tpprof.WriteHeapProfile(os.Stdout)
\t}
\tfor i := 0; i < 1000; i++ {
\t\tkept = append(kept, make([]byte, 8192))
\t}
\truntime.GC()
\truntime.GC()
\tfmt.Println(\"ready\")
\tfor {
\t\tpage()
\t\tsession()
\t\ttime.Sleep(time.Millisecond)
\t}
}
";

/// Keeps a block of 10,000 bytes in one function every 5 ms, and replaces one of 64 in another; each block is a sample.
pub const LEAKS: &str = "package main

import (
\t\"fmt\"
\t\"runtime\"
\t\"runtime/pprof\"
\t\"time\"
)

var kept [][]byte
var replaced [64][]byte

//go:noinline
func keep() { kept = append(kept, make([]byte, 10000)) }

//go:noinline
func replace(i int) { replaced[i%64] = make([]byte, 10000) }

func main() {
\truntime.MemProfileRate = 1
\t_ = pprof.Profiles()
\tfor i := 0; ; i++ {
\t\tkeep()
\t\treplace(i)
\t\tif i%20 == 0 {
\t\t\truntime.GC()
\t\t}
\t\tif i == 200 {
\t\t\tfmt.Println(\"ready\")
\t\t}
\t\ttime.Sleep(5 * time.Millisecond)
\t}
}
";

/// Keeps 500 blocks each: of C by itself, of C for a string of Go, and of Go; each block of Go is a sample.
pub const WITH_C: &str = "package main

/*
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void *grab(int n) { return memset(malloc(n), 1, n); }
*/
import \"C\"
import (
\t\"fmt\"
\t\"runtime\"
\t\"runtime/pprof\"
\t\"strings\"
\t\"time\"
\t\"unsafe\"
)

var images = make([]unsafe.Pointer, 0, 500)
var names = make([]*C.char, 0, 500)
var sessions = make([][]byte, 0, 500)

//go:noinline
func openImage() { images = append(images, C.grab(50000)) }

//go:noinline
func register() { names = append(names, C.CString(strings.Repeat(\"x\", 4000))) }

//go:noinline
func openSession() { sessions = append(sessions, make([]byte, 10000)) }

func main() {
\truntime.MemProfileRate = 1
\t_ = pprof.Profiles()
\tdone := make(chan bool)
\tgo func() {
\t\tfor i := 0; i < 500; i++ {
\t\t\topenImage()
\t\t\tregister()
\t\t\topenSession()
\t\t}
\t\tdone <- true
\t}()
\t<-done
\truntime.GC()
\truntime.GC()
\tfmt.Println(\"ready\")
\ttime.Sleep(time.Hour)
}
";

/// The same program with a part in C, so that it uses the C library.
pub fn with_c(source: &str) -> String {
    const WITH_C: &str = "\n// #include <stdlib.h>\nimport \"C\"\n\nimport (";
    source.replacen("\nimport (", WITH_C, 1) + "\nfunc init() { C.free(nil) }\n"
}

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
    let mut command = clean(program);
    command.arg(profile(scratch, name));
    run(&mut command, &scratch.path(&format!("{name}.log")))
}

/// Starts it, and waits until it says that it is ready.
pub fn run(command: &mut Command, log: &Path) -> Running {
    Running::start(command, log, || says(log, "ready"))
}

fn says(log: &Path, word: &str) -> bool {
    fs::read_to_string(log).is_ok_and(|said| said.contains(word))
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

/// Compares the parts of RSS of a program of this version with what its runtime counts, and what advice predicts with what it brings.
#[track_caller]
pub fn assert_memory_is_explained(version: &str) {
    const MIB: f64 = 1048576.0;
    let scratch = Scratch::new();
    let program = built(&go(version), &scratch, "keeps", KEEPS, &["-ldflags=-s -w"]);
    for (cause, advice) in
        [("live", None), ("free", Some("go_free")), ("off", Some("go_garbage")), ("stacks", None)]
    {
        let log = scratch.path(cause);
        let running = run(clean(&program).arg(cause), &log);
        let said = fs::read_to_string(&log).unwrap();
        let counted: Vec<f64> = said.split(' ').map_while(|it| it.parse().ok()).collect();
        let pid = running.0.id().to_string();
        let explained = json(&scratch, &["explain", &pid]);
        let part = |name: &str| explained.number(&format!("parts.{name}"));
        let near = |found: f64, truth: f64| (found - truth).abs() <= 0.02 * truth + 2.0 * MIB;
        let objects = part("go_live") + part("go_not_collected");
        let [of_objects, of_free, of_stacks] = counted[..] else { panic!("{said}") };
        let what = format!("go{version} {cause}: {explained:?}\n{said}");
        assert!(near(objects, of_objects), "objects {objects}: {what}");
        // Some of it was never touched, and the runtime goes on returning it.
        let free = part("free_in_go");
        assert!(free <= of_free + MIB, "free: {what}");
        assert!(cause != "free" || free >= 0.9 * of_free - 8.0 * MIB, "free: {what}");
        // A goroutine does not touch all of its stack.
        let stacks = part("stacks_of_goroutines");
        assert!(stacks <= of_stacks && stacks >= 0.75 * of_stacks - MIB, "stacks: {what}");
        assert!(part("other_anonymous") <= 0.02 * explained.number("rss.bytes"), "{what}");
        let Some(advice) = advice else { continue };
        let all = explained.list("advice");
        let predicted = all.iter().find(|it| it.text("cause") == advice).expect(&what);
        let predicted = predicted.number("saving.bytes");
        let before = explained.number("rss.bytes");
        running.signal("USR1");
        wait_until("memory is returned", || says(&log, "returned"));
        let after = json(&scratch, &["explain", &pid]).number("rss.bytes");
        // It is an upper bound.
        let returned = before - after;
        let is_bound = returned <= predicted + 2.0 * MIB && returned >= 0.85 * predicted;
        assert!(is_bound, "{returned} returned of {predicted}: {what}");
    }
}

/// Compares what is read of the collector of a program of this version with what its runtime prints of it.
#[track_caller]
pub fn assert_collections_are_read(version: &str) {
    const MIB: f64 = 1048576.0;
    let scratch = Scratch::new();
    let program = built(&go(version), &scratch, "litters", LITTERS, &["-ldflags=-s -w"]);
    let log = scratch.path("log");
    let running = run(clean(&program).env("GODEBUG", "gctrace=1"), &log);
    let pid = running.0.id().to_string();
    let gc = json(&scratch, &["gc", &pid, "--window", "6s", "-n", "0"]);
    let traced = json(&scratch, &["gc", &log.display().to_string(), "-n", "0"]);
    let (read, traced) = (gc.list("collections"), traced.list("collections"));
    assert!(read.len() >= 6, "go{version}: {gc:?}");
    for one in read {
        let number = one.number("number");
        let its = traced.iter().find(|it| it.number("number") == number);
        // The last lines may not be in the file yet.
        let Some(its) = its else { continue };
        let pauses = ["pause_ns"].map(|name| (one.number(name), its.number(name)));
        assert!(pauses.iter().all(|(a, b)| (a - b).abs() <= 0.1 * b + 20_000.0), "{one:?} {its:?}");
        let live = (one.number("live_bytes"), its.number("live_bytes"));
        // The line has whole MiB, rounded down.
        assert!((-0.1..1.1).contains(&((live.0 - live.1) / MIB)), "{one:?} {its:?}");
        // It has two or three digits.
        let of = |it: &Json| match it.at("assist_ns") {
            Json::Number(ns) => Some(*ns),
            _ => None,
        };
        let assist = of(one).zip(of(its));
        let is_same = |(a, b): (f64, f64)| (a - b).abs() <= 0.1 * b + 2_000.0;
        assert!(assist.is_none_or(is_same), "{one:?} {its:?}");
    }
    let rows = gc.list("allocated.rows");
    let total = gc.number("allocated.total.value");
    for (function, share) in [("main.page", 2.0 / 3.0), ("main.session", 1.0 / 3.0)] {
        let is_it = |row: &&Json| row.list("frames")[0].text("function") == function;
        let row = rows.iter().find(is_it).unwrap_or_else(|| panic!("{function}: {gc:?}"));
        let half_width = row.number("value.half_width_95");
        // Two and a half times the half-width: once in a million runs.
        let difference = (row.number("value.value") - share * total).abs();
        assert!(difference <= 2.5 * half_width, "go{version} {function}: {gc:?}");
    }
    // Each millisecond and a little more, 92,160 bytes.
    let rate = total / gc.number("allocated_in_seconds");
    assert!((20.0 * MIB..95.0 * MIB).contains(&rate), "go{version} {rate}: {gc:?}");
}

/// Checks the goroutines that are read against those that the program has.
pub fn assert_goroutines_are_read(version: &str) {
    let scratch = Scratch::new();
    for (name, flags) in [("waits", &[][..]), ("waits-pie", &["-buildmode=pie", "-ldflags=-s -w"])]
    {
        let program = built(&go(version), &scratch, name, WAITS, flags);
        let log = scratch.path(&format!("{name}.log"));
        let running = run(&mut clean(&program), &log);
        let said = fs::read_to_string(&log).unwrap();
        let all: f64 = said.split(' ').next().unwrap().parse().unwrap();
        let explained = json(&scratch, &["explain", &running.0.id().to_string()]);
        let read = explained.number("goroutines.count");
        assert_eq!(read, all, "go{version} {name}: {explained:?}");
        let places = explained.list("goroutines.places");
        for (within, reason, started_in, count) in [
            ("main.stuck", "chan receive", "main.serve", 30.0),
            ("main.pool", "select", "main.main", 7.0),
            ("main.locked", "sync.Mutex.Lock", "main.main", 3.0),
            ("main.main", "sleep", "", 1.0),
        ] {
            let is_it = |place: &&Json| place.text("within.function") == within;
            let place = places.iter().find(is_it).unwrap_or_else(|| panic!("{within}: {places:?}"));
            assert_eq!(place.text("reason"), reason, "go{version} {name}: {place:?}");
            let started = match place.at("started_in") {
                Json::Word(_) => "",
                by => by.text("function"),
            };
            assert_eq!(started, started_in, "go{version} {name}: {place:?}");
            assert_eq!(place.number("count"), count, "go{version} {name}: {place:?}");
            // The collector notes how long one waits.
            assert!(
                within == "main.main" || matches!(place.at("longest_ns"), Json::Number(_)),
                "{place:?}"
            );
        }
    }
}
