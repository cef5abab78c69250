//! Functions of node, Java and Python have their names beside native ones under `ramson run --languages`, also once the perf map is gone.

use ramson_tests::releases::Release;
use ramson_tests::servers::*;
use ramson_tests::{profiles_in, program_with, read};
use std::fs;
use std::path::{Path, PathBuf};

fn run(scratch: &Scratch, arguments: &[&str], program: &[&str]) -> (Outcome, PathBuf) {
    let profile = scratch.path("one.ramson");
    let mut run = ramson(scratch);
    run.args(["run", "--interval", "16K", "-o"]).arg(&profile).args(arguments).arg("--");
    let outcome = finish(run.args(program).current_dir(scratch.path("")));
    for entry in fs::read_dir("/tmp").unwrap().flatten() {
        // Whatever names it has now, it brings along.
        let is_map = entry.file_name().to_string_lossy() == format!("perf-{}.map", pid(&profile));
        if is_map {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    (outcome, profile)
}

fn pid(profile: &Path) -> u32 {
    read(profile).unwrap().header.pid
}

/// Function, base name of the file, line, language.
type Frame = (String, String, f64, Option<String>);

/// The frames of the largest stacks, innermost first.
fn frames(scratch: &Scratch, profile: &Path) -> Vec<Vec<Frame>> {
    let report =
        finish(ramson(scratch).args(["report", "--json", "-n", "0"]).arg(profile)).good().text();
    let report = Json::parse(&report);
    let frame = |frame: &Json| {
        let file = frame.text("file").rsplit('/').next().unwrap().to_owned();
        let has_language = matches!(frame, Json::Object(fields) if fields.contains_key("language"));
        let language = has_language.then(|| frame.text("language").to_owned());
        (frame.text("function").to_owned(), file, frame.number("line"), language)
    };
    let stack = |row: &Json| row.list("frames").iter().map(frame).collect();
    report.list("rows").iter().map(stack).collect()
}

const NODE: &str = "const held = [];
function loadTable(count) {
  for (let i = 0; i < count; i++) held.push(Buffer.alloc(100000, 1));
}
function serve() { loadTable(400); }
serve();
process.kill(process.pid, 'SIGKILL');
";

#[test]
fn node_functions_are_named_after_kill() {
    let scratch = Scratch::new();
    scratch.file("n.js", NODE);
    let node = installed("node", "nodejs");
    let program = [node.to_str().unwrap(), "n.js"];
    let (outcome, profile) = run(&scratch, &["--languages"], &program);
    assert!(outcome.remarks[0].contains("NODE_OPTIONS"), "{:?}", outcome.remarks);
    let logs = fs::read_dir(scratch.path("")).unwrap().flatten();
    let mut logs = logs.filter(|entry| entry.file_name().to_string_lossy().ends_with(".log"));
    assert!(logs.next().is_none(), "node leaves nothing where it ran");
    let stacks = frames(&scratch, &profile);
    let of = |name: &str, line: f64| {
        (name.to_owned(), "n.js".to_owned(), line, Some("javascript".to_owned()))
    };
    let largest: Vec<_> = stacks[0].iter().filter(|frame| frame.1 == "n.js").cloned().collect();
    assert_eq!(largest[..2], [of("loadTable", 2.0), of("serve", 5.0)], "{:?}", stacks[0]);
    let text = finish(ramson(&scratch).args(["report", "--details"]).arg(&profile)).good().text();
    let inlined = "functions that the JIT compiler inlined count for their callers";
    // Lines are as wide as the terminal.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(inlined), "{text}");
    let glue = |name: &str| name.starts_with("Builtin") || name.starts_with("BytecodeHandler");
    assert!(!stacks.iter().flatten().any(|frame| glue(&frame.0)));
    let pprof = scratch.path("one.pb.gz");
    finish(ramson(&scratch).args(["export", "-f", "pprof", "-o"]).arg(&pprof).arg(&profile)).good();
    let mut tool = clean(installed("go", "golang-go"));
    let tags = finish(tool.args(["tool", "pprof", "-tags"]).arg(&pprof)).good().text();
    assert!(tags.contains("language") && tags.contains("javascript"), "{tags}");
}

#[test]
fn java_functions_are_named_after_exit() {
    let scratch = Scratch::new();
    scratch.file(
        "Rows.java",
        "import java.nio.ByteBuffer;
public class Rows {
    static java.util.List<ByteBuffer> held = new java.util.ArrayList<>();
    static void parseRow() { held.add(ByteBuffer.allocateDirect(64 << 10)); }
    public static void main(String[] arguments) {
        for (int i = 0; i < 3000; i++) parseRow();
    }
}",
    );
    let directory = scratch.path("");
    let mut compiler = clean(installed("javac", "default-jdk-headless"));
    finish(compiler.arg("Rows.java").current_dir(&directory)).good();
    let java = installed("java", "default-jdk-headless");
    // Compiled before they run.
    let program = [java.to_str().unwrap(), "-Xcomp", "-XX:CompileCommand=quiet"];
    let program = [
        &program[..],
        &[
            "-XX:CompileCommand=compileonly,Rows::*",
            "-XX:CompileCommand=dontinline,Rows::*",
            "Rows",
        ],
    ]
    .concat();
    let (outcome, profile) = run(&scratch, &["--languages"], &program);
    assert!(outcome.remarks[0].contains("JAVA_TOOL_OPTIONS"), "{:?}", outcome.remarks);
    let stacks = frames(&scratch, &profile);
    let parse_row = ("Rows.parseRow()".to_owned(), String::new(), 0.0, Some("java".to_owned()));
    assert!(stacks[0].contains(&parse_row), "{:?}", stacks[0]);
}

#[test]
fn what_the_user_set_stays() {
    let scratch = Scratch::new();
    let printed = |arguments: &[&str]| {
        let mut run = ramson(&scratch);
        run.args(["run", "--languages", "--"]).args(arguments);
        run.env("NODE_OPTIONS", "--max-old-space-size=64 --perf-basic-prof");
        run.env("PYTHONMALLOC", "debug");
        finish(&mut run).good().text()
    };
    let text = printed(&["env"]);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    let node = value("NODE_OPTIONS");
    assert_eq!(node, "--interpreted-frames-native-stack --max-old-space-size=64 --perf-basic-prof");
    assert_eq!(value("PYTHONMALLOC"), "debug");
    assert_eq!(value("PYTHONPERFSUPPORT"), "1");
    assert!(value("JAVA_TOOL_OPTIONS").ends_with("-XX:+DumpPerfMapAtExit"), "{text}");
}

#[test]
fn missing_frames_suggest_languages_option() {
    let scratch = Scratch::new();
    let node = installed("node", "nodejs");
    let remarks = |arguments: &[&str]| {
        let mut run = ramson(&scratch);
        run.args(["run", "--"]).arg(&node).args(arguments).current_dir(scratch.path(""));
        let outcome = finish(&mut run).good();
        outcome.remarks.iter().filter(|line| line.contains("--languages")).count()
    };
    assert_eq!(remarks(&["-e", "0"]), 1);
    assert_eq!(remarks(&["--perf-basic-prof", "-e", "process.exit()"]), 0);
}

/// Debian's Python 3.11 is told by nothing but its report: `ramson run` says nothing, since nothing would help.
#[test]
fn report_says_what_python_functions_take() {
    let scratch = Scratch::new();
    let kept = "import os; kept = [bytearray(3000) for _ in range(10000)]; os.kill(os.getpid(), 9)";
    let (_, profile) = run(&scratch, &[], &["/usr/bin/python3", "-c", kept]);
    let shown = finish(ramson(&scratch).arg("report").arg(&profile)).good().text();
    let hints: Vec<&str> = shown.lines().filter(|line| line.contains("no names")).collect();
    let hint = "Python functions have no names: they take Python 3.12 or newer, started with \"ramson run --languages\"";
    assert_eq!(hints, [hint], "{shown}");
}

#[test]
fn linker_names_are_demangled_by_language() {
    for (name, options) in [("linker-names", &["-g0"][..]), ("linker-names-g", &["-Wa,-g", "-g0"])]
    {
        let scratch = Scratch::new();
        let program = program_with("real/linker_names.c", name, options);
        let (_, profile) = run(&scratch, &[], &[program.to_str().unwrap()]);
        let report =
            finish(ramson(&scratch).args(["report", "--json", "--all-frames"]).arg(&profile));
        let report = Json::parse(&report.good().text());
        let stack = report.list("rows")[0].list("frames");
        let functions: Vec<&str> = stack.iter().map(|frame| frame.text("function")).collect();
        let expected = [
            "own",
            "_D3app5cache__T5CacheTPvZQk4loadMFiZv",
            "Stdlib.List.iter",
            "cache::load_table",
            "main",
        ];
        assert_eq!(functions[..5], expected, "{name}");
    }
}

const PYTHON: &str = "import os
class Sessions:
    def start(self):
        self.kept = [bytes(900) for _ in range(20000)]
def load_table():
    return [bytes(900) for _ in range(40000)]
held, sessions = load_table(), Sessions()
sessions.start()
os.kill(os.getpid(), 9)
";

#[test]
fn python_functions_are_named_in_chroot() {
    let scratch = Scratch::new();
    let root = Release::root_with_python(&scratch);
    fs::write(root.join("app.py"), PYTHON).unwrap();
    let library = scratch.path("libramson.so");
    copy(ramson_tests::library(), &library);
    copy(&library, &root.join(library.strip_prefix("/").unwrap()));
    let start = format!(
        "mount -t proc proc {root}/proc && exec chroot {root} /usr/bin/python3.13 /app.py",
        root = root.display()
    );
    let mut run = ramson(&scratch);
    run.args(["run", "--languages", "--interval", "16K", "--"]).env("RAMSON_LIBRARY", &library);
    let outcome = finish(run.args(["unshare", "--mount", "sh", "-c", &start]));
    assert!(outcome.remarks[0].contains("Python"), "{:?}", outcome.remarks);
    let profiles = profiles_in(&root.join(scratch.path("profiles").strip_prefix("/").unwrap()));
    let [profile] = &profiles[..] else { panic!("{profiles:?}: {:?}", outcome.remarks) };
    fs::remove_file(root.join(format!("tmp/perf-{}.map", pid(profile)))).unwrap();
    let stacks = frames(&scratch, profile);
    let named: Vec<Vec<(&str, &str, Option<&str>)>> = stacks
        .iter()
        .map(|stack| {
            let python = stack.iter().filter(|frame| frame.1 == "app.py");
            python.map(|frame| (&*frame.0, &*frame.1, frame.3.as_deref())).collect()
        })
        .collect();
    let of = |name| (name, "app.py", Some("python"));
    assert_eq!(named[0], [of("load_table"), of("<module>")], "{:?}", stacks[0]);
    assert_eq!(named[1], [of("Sessions.start"), of("<module>")], "{:?}", stacks[1]);
}
