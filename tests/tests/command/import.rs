//! Foreign profiles, written by their producers while the test runs, and what those producers' own tools say of them.

use ramson_tests::servers::*;
use ramson_tests::{program_with, shared_library, target_directory, tool};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

const SAMPLE_TYPES: [&str; 4] = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn holds() -> PathBuf {
    program_with("real/holds.c", "holds", &[])
}

/// `ramson report SRC --json` by function name.
fn report(scratch: &Scratch, source: &str, more: &[&str]) -> Json {
    let mut command = ramson(scratch);
    command.args(["report", source, "--json", "-n", "0", "--granularity", "functions"]);
    command.args(["--view", "functions", "--all-frames"]).args(more);
    Json::parse(&finish(&mut command).good().text())
}

/// Flat and cum of every function.
type Rows = BTreeMap<String, (i64, i64)>;

fn rows(report: &Json) -> Rows {
    let rows = report.list("rows").iter().map(|row| {
        let values = (row.number("flat.value") as i64, row.number("cum.value") as i64);
        (row.text("function").to_owned(), values)
    });
    rows.filter(|(_, values)| *values != (0, 0)).collect()
}

/// The same from `go tool pprof -top`.
fn go_rows(file: &Path, sample_type: &str) -> Rows {
    let index = format!("-sample_index={sample_type}");
    let go = installed("go", "golang-go");
    let flags = ["tool", "pprof", "-top", "-unit=B", "-nodecount=100000", "-nodefraction=0"];
    let mut command = clean(go);
    command.args(flags).args([&index, text(file)]).env("PPROF_BINARY_PATH", "/nowhere");
    let shown = finish(&mut command).good().text();
    let table = shown.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    let number = |word: &str| word.trim_end_matches('B').parse::<i64>().unwrap();
    let rows = table.map(|line| {
        let mut words = line.split_whitespace();
        let (flat, cum) = (words.next().unwrap(), words.nth(2).unwrap());
        let name = words.skip(1).collect::<Vec<_>>().join(" ");
        let name = name.trim_end_matches(" (inline)").trim_end_matches(" (partial-inline)");
        (name.to_owned(), (number(flat), number(cum)))
    });
    rows.filter(|(_, values)| *values != (0, 0)).collect()
}

/// A Go program that serves its profiles until it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Server {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        let program = BUILT.get_or_init(|| {
            let program = target_directory().join("test-programs/serves");
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            let mut go = clean(installed("go", "golang-go"));
            let cache = target_directory().join("test-programs/go-cache");
            go.args(["build", "-o", text(&program), text(&real("serves.go"))]);
            finish(go.env("GOCACHE", cache).env("GOFLAGS", "-mod=mod")).good();
            program
        });
        let mut command = clean(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { child, address: format!("http://{}", line.trim()) }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// Downloads a file as an ordinary client does.
    fn fetch(&self, path: &str, to: &Path) {
        tool("curl", &["-fsS", "-o", text(to), &self.at(path)]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn go_profile_matches_go_pprof() {
    let scratch = Scratch::new();
    let server = Server::start();
    for (path, default) in [("heap?gc=1", "inuse_space"), ("allocs", "alloc_space")] {
        let file = scratch.path("go.pb.gz");
        server.fetch(&format!("/debug/pprof/{path}"), &file);
        assert_eq!(report(&scratch, text(&file), &[]).text("sample_type"), default);
        let plain = scratch.path("go.pb");
        fs::write(&plain, tool_bytes("gzip", &["-dc", text(&file)])).unwrap();
        for sample_type in SAMPLE_TYPES {
            let ours = report(&scratch, text(&file), &["--count", sample_type]);
            assert_eq!(rows(&ours), go_rows(&file, sample_type), "{path} {sample_type}");
            let unpacked = report(&scratch, text(&plain), &["--count", sample_type]);
            assert_eq!(rows(&unpacked), rows(&ours));
        }
    }
}

fn tool_bytes(name: &str, arguments: &[&str]) -> Vec<u8> {
    Command::new(name).args(arguments).output().unwrap().stdout
}

#[test]
fn go_program_is_read_over_http() {
    let scratch = Scratch::new();
    let server = Server::start();
    let held = |path: &str| {
        let report = report(&scratch, &server.at(path), &["--count", "inuse_space"]);
        rows(&report).get("main.hold").map_or(0, |row| row.0)
    };
    let live = held("/debug/pprof/heap?gc=1");
    // 64 MiB, of which the 16 MiB in small blocks are known to ±35%.
    assert!((48 << 20..80 << 20).contains(&live), "{live}");
    // Nothing is allocated there any more: the very same numbers.
    assert_eq!(held("/debug/pprof/heap"), live);
    assert_eq!(held("/debug/pprof/allocs"), live);
    assert_eq!(held("/moved"), live);
    assert_eq!(held("/debug/pprof/heap?seconds=1"), 0);
}

#[test]
fn wrong_http_answers_are_one_line() {
    let scratch = Scratch::new();
    let server = Server::start();
    for (source, part) in [
        (server.at("/debug/pprof/"), "web page"),
        (server.at("/nothing"), "404"),
        (server.at("/debug/pprof/heap?seconds=x"), "400"),
        (server.at("/secure"), "curl"),
        (server.at("/circle"), "redirect"),
        (server.at("/debug/pprof/cmdline"), "not a profile"),
        ("http://127.0.0.1:1/debug/pprof/heap".into(), "refused"),
        ("https://127.0.0.1/debug/pprof/heap".into(), "refused"),
    ] {
        let outcome = finish(ramson(&scratch).args(["report", &source]));
        assert_ne!(outcome.status, 0, "{outcome:?}");
        assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
        assert!(outcome.remarks[0].to_lowercase().contains(part), "{part}: {outcome:?}");
    }
}

/// Runs `holds` under an allocator's own profiler; returns the dump.
fn dump(scratch: &Scratch, library: &str, variable: &str, value: &str, ending: &str) -> PathBuf {
    dump_of(scratch, &holds(), &shared_library(library), (variable, value), ending)
}

fn dump_of(
    scratch: &Scratch,
    program: &Path,
    library: &Path,
    (variable, value): (&str, &str),
    ending: &str,
) -> PathBuf {
    let mut command = clean(program);
    command.env("LD_PRELOAD", library).env(variable, value);
    let directory = scratch.open_directory("dumps");
    finish(command.current_dir(&directory)).good();
    let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| text(path).ends_with(ending)).expect("a dump was written")
}

/// `FLAT FLAT% SUM% CUM CUM% NAME` of the Perl script that came with the allocator, in bytes.
fn perl_rows(script: &str, package: &str, program: &Path, file: &Path) -> Rows {
    let mut command = clean(installed(script, package));
    command.args(["--text", "--show_bytes", text(program), text(file)]);
    let shown = finish(&mut command).text();
    let lines = shown.lines().filter(|line| line.contains('%'));
    let rows = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[5].to_owned(), (words[0].parse().unwrap(), words[3].parse().unwrap()))
    });
    rows.collect()
}

/// jeprof rounds each stack, and prints the sum.
#[track_caller]
fn assert_close(ours: &Rows, theirs: &Rows, name: &str) {
    let (ours, theirs) = (ours[name], theirs[name]);
    assert!(
        (ours.0 - theirs.0).abs() <= 2 && (ours.1 - theirs.1).abs() <= 2,
        "{ours:?} {theirs:?}"
    );
}

#[test]
fn jemalloc_dumps_match_jeprof() {
    assert_jemalloc_s_dumps_are_as_jeprof_has_them(&shared_library("libjemalloc.so.2"));
}

#[test]
fn jemalloc_5_2_dumps_match_jeprof() {
    let directory = target_directory().join("test-programs/jemalloc-5.2");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("jemalloc-5.2/build");
    finish(clean(script).arg(&directory)).good();
    assert_jemalloc_s_dumps_are_as_jeprof_has_them(&directory.join("libjemalloc.so"));
}

#[track_caller]
fn assert_jemalloc_s_dumps_are_as_jeprof_has_them(jemalloc: &Path) {
    for options in ["lg_prof_sample:0", "lg_prof_sample:10"] {
        let scratch = Scratch::new();
        let options = format!("prof:true,prof_final:true,prof_prefix:d,{options}");
        let file = dump_of(&scratch, &holds(), jemalloc, ("MALLOC_CONF", &options), ".heap");
        let ours = rows(&report(&scratch, text(&file), &[]));
        let theirs = perl_rows("jeprof", "libjemalloc-dev", &holds(), &file);
        assert_close(&ours, &theirs, "hold");
        assert!(ours["main"].1 > 0);
        // jemalloc counts what a block takes: 1,024 bytes for 1,000.
        if options.ends_with(":0") {
            assert_eq!(ours["hold"].0, 100 * 1024);
            assert_eq!(ours["inlined"].0, 50 * 512);
        }
    }
}

#[test]
fn foreign_dump_is_named_by_sysroot() {
    // Linked to a fixed address, which nothing but the binary tells.
    let program = program_with("real/holds.c", "holds-fixed", &["-no-pie"]);
    let scratch = Scratch::new();
    let there = scratch.path("holds");
    copy(&program, &there);
    let options = ("MALLOC_CONF", "prof:true,prof_final:true,prof_prefix:d,lg_prof_sample:0");
    let jemalloc = shared_library("libjemalloc.so.2");
    let file = dump_of(&scratch, &there, &jemalloc, options, ".heap");
    let root = scratch.path("root");
    let copy = root.join(text(&there).trim_start_matches('/'));
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::rename(&there, copy).unwrap();
    let nameless = rows(&report(&scratch, text(&file), &[]));
    assert!(!nameless.contains_key("hold"), "{nameless:?}");
    let named = rows(&report(&scratch, text(&file), &["--sysroot", text(&root)]));
    assert_eq!(named["hold"].0, 100 * 1024);
}

#[test]
fn gperftools_dumps_match_pprof() {
    let scratch = Scratch::new();
    let file = dump(&scratch, "libtcmalloc.so.4", "HEAPPROFILE", "d", ".heap");
    let ours = rows(&report(&scratch, text(&file), &[]));
    assert_eq!((ours["hold"].0, ours["inlined"].0), (100_000, 25_000));
    let all = report(&scratch, text(&file), &["--count", "alloc_objects"]);
    assert_eq!(rows(&all)["hold"].0, 1_100);
    let theirs = perl_rows("google-pprof", "google-perftools", &holds(), &file);
    assert_close(&ours, &theirs, "hold");
}

#[test]
fn what_tcmalloc_samples_is_weighted_once() {
    let scratch = Scratch::new();
    let library = shared_library("libtcmalloc.so.4");
    let program = program_with("real/sampled.cc", "sampled", &["-g", text(&library)]);
    let mut command = clean(&program);
    command.env("TCMALLOC_SAMPLE_PARAMETER", "65536");
    let file = scratch.file("sampled.heap", finish(&mut command).good().stdout);
    assert!(fs::read_to_string(&file).unwrap().contains("@ heap_v2/65536"));
    let ours = rows(&report(&scratch, text(&file), &[]));
    let held = ours["hold(int)"].0;
    // A fifth of that was sampled.
    assert!((40 << 20..80 << 20).contains(&held), "{held}");
    let script = perl_rows("google-pprof", "google-perftools", &program, &file)["hold"].0;
    let go: i64 = go_rows(&file, "inuse_space").values().map(|row| row.0).sum();
    let total: i64 = ours.values().map(|row| row.0).sum();
    // The others round each of some hundred lines.
    for (theirs, ours) in [(script, held), (go, total)] {
        assert!((theirs - ours).abs() <= 4_096, "{theirs} {ours}");
    }
}

#[test]
fn heaptrack_recordings_are_exact() {
    let scratch = Scratch::new();
    let mut command = clean(installed("heaptrack", "heaptrack"));
    command.args(["-o", text(&scratch.path("recording")), text(&holds())]);
    finish(&mut command).good();
    let file = scratch.path("recording.zst");
    let of = |source: &str, sample_type: &str| {
        rows(&report(&scratch, source, &["--count", sample_type]))
    };
    let source = text(&file);
    assert_eq!(of(source, "inuse_space")["hold"].0, 100_000);
    assert_eq!(of(source, "inuse_objects")["inlined"].0, 50);
    assert_eq!(of(source, "alloc_space")["hold"].0, 100_000 + 2_000_000);
    let calls: i64 = of(source, "alloc_objects").values().map(|row| row.0).sum();
    let printed = tool("heaptrack_print", &[source]);
    assert!(printed.contains(&format!("calls to allocation functions: {calls} ")), "{printed}");
    let peak: i64 = of(&format!("{source}@peak"), "inuse_space").values().map(|row| row.0).sum();
    let peak = format!("peak heap memory consumption: {:.2}K", peak as f64 / 1000.0);
    assert!(printed.contains(&peak), "{peak}: {printed}");
}

#[test]
fn own_exports_round_trip() {
    let scratch = Scratch::new();
    let own = scratch.path("own.ramson");
    let mut run = ramson(&scratch);
    finish(run.args(["run", "--interval", "1", "-o", text(&own), "--", text(&holds())])).good();
    let export = |format: &str| {
        let file = scratch.path(format);
        let arguments = ["export", text(&own), "-f", format, "-o", text(&file)];
        finish(ramson(&scratch).args(arguments)).good();
        file
    };
    let pprof = export("pprof");
    for sample_type in SAMPLE_TYPES.into_iter().filter(|of| *of != "inuse_space") {
        let options = ["--count", sample_type];
        let before = rows(&report(&scratch, text(&own), &options));
        assert_eq!(rows(&report(&scratch, text(&pprof), &options)), before, "{sample_type}");
    }
    // Our own report has usable live bytes, exports have requested ones.
    let requested = rows(&report(&scratch, text(&pprof), &[]));
    assert_eq!((requested["hold"], requested["inlined"]), ((100_000, 100_000), (25_000, 25_000)));
    let own_rows = rows(&report(&scratch, text(&own), &[]));
    assert_eq!((own_rows["hold"], own_rows["inlined"]), ((100_000, 100_000), (25_200, 25_200)));
    let collapsed = report(&scratch, text(&export("collapsed")), &[]);
    assert_eq!(rows(&collapsed), requested);
    // An error that nobody knows is not 0.
    assert!(matches!(collapsed.at("whole.half_width_95"), Json::Word(word) if word == "null"));
    let mut objects = ramson(&scratch);
    objects.args(["report", text(&scratch.path("collapsed")), "--count", "inuse_objects"]);
    let refused = finish(&mut objects);
    assert_eq!(refused.status, 2);
    assert!(refused.remarks[0].contains("--count live"), "{refused:?}");
    // Through a pipe, and what google/pprof makes of it.
    let go = finish(
        clean(installed("go", "golang-go"))
            .args(["tool", "pprof", "-proto", "-output"])
            .args([text(&scratch.path("again")), text(&pprof)]),
    );
    go.good();
    for (file, expected) in [(scratch.path("again"), requested), (own.clone(), own_rows)] {
        let mut command = ramson(&scratch);
        command.args(["report", "-", "--json", "-n", "0", "--granularity", "functions"]);
        command.args(["--view", "functions", "--all-frames"]);
        let piped = finish_with(&mut command, &fs::read(file).unwrap()).good().text();
        assert_eq!(rows(&Json::parse(&piped)), expected);
    }
}

/// Peak resident memory in bytes of `ramson report FILE`, and its exit status.
fn peak_bytes(scratch: &Scratch, file: &Path) -> u64 {
    let script = "import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let report = ramson(scratch);
    let mut command = clean(python());
    command.args(["-c", script, text(Path::new(report.get_program())), "report", text(file)]);
    finish(&mut command).good().text().trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn import_memory_is_bounded_by_size() {
    const A_LITTLE: u64 = 48 << 20;
    let scratch = Scratch::new();
    // Each line a stack of its own; of names that all lines share, and with one that no other has.
    let stacks = |name: &str, leaf: fn(u64) -> String| {
        let file = scratch.path(name);
        let mut out = std::io::BufWriter::new(fs::File::create(&file).unwrap());
        for number in 0..400_000u64 {
            let frames = (0..12).map(|bit| format!("f{};", number >> bit & 255));
            writeln!(out, "main;{}{} 1", frames.collect::<String>(), leaf(number)).unwrap();
        }
        file
    };
    let shared = stacks("shared", |number| format!("leaf{}", number >> 12));
    let unique = stacks("unique", |number| format!("{number:x}"));
    for file in [shared, unique, bomb(&scratch)] {
        let size = fs::metadata(&file).unwrap().len();
        let peak = peak_bytes(&scratch, &file);
        assert!(peak < 4 * size + A_LITTLE, "{}: {peak} of {size}", file.display());
    }
}

/// pprof samples of one frame each that name locations that do not exist: as much profile for as few bytes as can be.
fn bomb(scratch: &Scratch) -> PathBuf {
    let mut file = b"\x0a\x04\x08\x01\x10\x02\x32\x00\x32\x05space\x32\x05bytes".to_vec();
    for number in 0..1_000_000u32 {
        let id = [number as u8 | 128, (number >> 7) as u8 | 128, (number >> 14) as u8 & 127];
        file.extend([0x12, 8, 0x0a, 3]);
        file.extend(id);
        file.extend([0x12, 1, 1]);
    }
    scratch.file("bomb", file)
}
