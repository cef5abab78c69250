//! Names that come from elsewhere than the binaries: those that a profile carries, and those of a runtime's own code.

use ramson_tests::preload;
use ramson_tests::servers::*;
use std::fs;
use std::path::PathBuf;

/// A C++ program with debug information that has run under the library, and its profile.
fn recorded(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (program, profile) = (scratch.path("names"), scratch.path("names.ramson"));
    let mut compiler = clean(installed("g++", "g++"));
    compiler.args(["-g", "-O1", "-Wl,--build-id", "-o"]).arg(&program).arg(real("names.cc"));
    finish(&mut compiler).good();
    let mut command = clean(&program);
    preload(&mut command, "1").env("RAMSON_KEEP", "1").env("RAMSON_OUTPUT", &profile);
    finish(&mut command).good();
    (program, profile)
}

/// Here and elsewhere: what was learned here must not help there.
fn ramson_with_cache(scratch: &Scratch, cache: &str, arguments: &[&str]) -> Outcome {
    let mut command = ramson(scratch);
    finish(command.env("XDG_CACHE_HOME", scratch.open_directory(cache)).args(arguments))
}

/// A report without the lines that name the file.
fn report(scratch: &Scratch, cache: &str, arguments: &[&str]) -> String {
    let view: &[&str] = if arguments.contains(&"--view") { &[] } else { &["--view", "functions"] };
    let text =
        ramson_with_cache(scratch, cache, &[&["report", "--all-frames"], arguments, view].concat())
            .good()
            .text();
    text.split_once("\n\n").unwrap().1.to_owned()
}

const PUT: &str = "storage::Shelf<std::__cxx11::basic_string<char";

#[test]
fn symbolized_profile_needs_no_binaries() {
    let scratch = Scratch::new();
    let (program, profile) = recorded(&scratch);
    let profile = profile.to_str().unwrap();
    let carrying = scratch.path("carrying");
    let carrying = carrying.to_str().unwrap();
    let here = report(&scratch, "here", &[profile, "--view", "lines"]);
    assert!(here.contains(PUT) && here.contains("names.cc:8"), "{here}");
    ramson_with_cache(&scratch, "here", &["symbolize", profile, "-o", carrying]).good();
    fs::rename(&program, scratch.path("gone")).unwrap();
    assert!(!report(&scratch, "there", &[profile, "--view", "lines"]).contains(PUT));
    assert_eq!(report(&scratch, "there", &[carrying, "--view", "lines"]), here);
    let mut piped = ramson(&scratch);
    piped.env("XDG_CACHE_HOME", scratch.open_directory("there"));
    let piped = piped.args(["report", "-", "--view", "lines", "--all-frames"]);
    let piped = finish_with(piped, &fs::read(carrying).unwrap()).good().text();
    assert!(piped.ends_with(&here), "{piped}");

    // Written again where nothing can be looked up, into the file itself: nothing is lost.
    ramson_with_cache(&scratch, "there", &["symbolize", carrying]).good();
    assert_eq!(report(&scratch, "there", &[carrying, "--view", "lines"]), here);
}

#[test]
fn symbolize_keeps_mode_and_files() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let (_, profile) = recorded(&scratch);
    let profile = profile.to_str().unwrap();
    let other = scratch.file("other", "mine");
    let other = other.to_str().unwrap();
    let refused = ramson_with_cache(&scratch, "here", &["symbolize", profile, "-o", other]);
    assert_eq!((refused.status, fs::read(other).unwrap()), (1, b"mine".to_vec()));
    assert!(refused.remarks.len() == 1 && refused.remarks[0].contains("exists"), "{refused:?}");
    ramson_with_cache(&scratch, "here", &["symbolize", profile, "-o", other, "--force"]).good();
    assert_eq!(fs::metadata(other).unwrap().permissions().mode() & 0o777, 0o600);
    let no_root = ["symbolize", profile, "--sysroot", other];
    assert_eq!(ramson_with_cache(&scratch, "here", &no_root).status, 2);
}

#[test]
fn binary_is_found_in_sysroot() {
    let scratch = Scratch::new();
    let (program, profile) = recorded(&scratch);
    let profile = profile.to_str().unwrap();
    let sysroot = scratch.path("image");
    let inside = sysroot.join(program.strip_prefix("/").unwrap());
    fs::create_dir_all(inside.parent().unwrap()).unwrap();
    fs::rename(&program, inside).unwrap();
    let found = report(&scratch, "a", &[profile, "--sysroot", sysroot.to_str().unwrap()]);
    assert!(found.contains(PUT), "{found}");
    assert!(!report(&scratch, "b", &[profile]).contains(PUT));
}

#[test]
fn mapped_binary_wins_without_build_id() {
    let scratch = Scratch::new();
    let code = "#include <stdlib.h>\n#include <stdio.h>\n#include <unistd.h>\nvoid *volatile kept;\n\
        __attribute__((noinline)) void ALLOCATE(void) { kept = malloc(1000); }\n\
        int main(void) { ALLOCATE(); puts(\"ready\"); fflush(stdout); pause(); }\n";
    let source = scratch.file("held.c", code);
    let built = |name: &str, function: &str| {
        let mut compiler = clean(installed("gcc", "gcc"));
        compiler.args(["-g", "-Wl,--build-id=none", &format!("-DALLOCATE={function}"), "-o"]);
        let program = scratch.path(name);
        finish(compiler.arg(&program).arg(&source)).good();
        program
    };
    let (program, other) = (built("held", "of_this"), built("other", "of_another"));
    let log = scratch.path("log");
    let profile = scratch.path("held.ramson");
    let mut command = clean(&program);
    preload(&mut command, "1").env("RAMSON_OUTPUT", &profile);
    let is_ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"));
    let _running = Running::start(&mut command, &log, is_ready);
    fs::rename(other, program).unwrap();
    let text = report(&scratch, "cache", &[profile.to_str().unwrap()]);
    assert!(text.contains("of_this") && !text.contains("of_another"), "{text}");
}

#[test]
fn demangle_option_shapes_names() {
    let scratch = Scratch::new();
    let (_, profile) = recorded(&scratch);
    let profile = profile.to_str().unwrap();
    for (demangle, name) in [
        ("full", "::put(std::__cxx11::basic_string<"),
        ("short", "  storage::Shelf::put  "),
        ("short", "  std::__cxx11::basic_string::_M_construct  "),
        ("none", "  _ZN7storage5ShelfINSt7__cxx1112basic_string"),
    ] {
        let text = report(&scratch, "here", &[profile, "--demangle", demangle]);
        assert!(text.contains(name), "{demangle}: {text}");
    }
}

#[test]
fn nameless_pprof_gets_names() {
    let scratch = Scratch::new();
    let (program, profile) = recorded(&scratch);
    let profile = profile.to_str().unwrap();
    let hidden = scratch.path("hidden");
    let (nameless, named) = (scratch.path("nameless.pb.gz"), scratch.path("named.pb.gz"));
    let (nameless, named) = (nameless.to_str().unwrap(), named.to_str().unwrap());
    fs::rename(&program, &hidden).unwrap();
    let export = ["export", profile, "-f", "pprof", "-o", nameless];
    ramson_with_cache(&scratch, "there", &export).good();
    assert!(!report(&scratch, "there", &[nameless]).contains(PUT));
    fs::rename(&hidden, &program).unwrap();
    // Any command looks up what is missing; symbolize keeps it.
    assert!(report(&scratch, "here", &[nameless]).contains(PUT));
    assert_eq!(ramson_with_cache(&scratch, "here", &["symbolize", nameless]).status, 2);
    ramson_with_cache(&scratch, "here", &["symbolize", nameless, "-o", named]).good();
    fs::rename(&program, &hidden).unwrap();
    assert!(report(&scratch, "there", &[named]).contains(PUT));
    let mut pprof = clean(installed("go", "golang-go"));
    let pprof = pprof.args(["tool", "pprof", "-top", named]);
    assert!(finish(pprof).good().text().contains("storage::Shelf"));
}

/// node with a map of the code that it compiles; ready.
fn node(scratch: &Scratch, arguments: &[&str], wait: &str) -> Running {
    let mut command = clean(installed("node", "nodejs"));
    command.args(arguments).arg(real("holds.js")).arg(wait).current_dir(scratch.path(""));
    preload(&mut command, "16K").env("RAMSON_KEEP", "1");
    command.env("RAMSON_OUTPUT", scratch.path("node.ramson"));
    let log = scratch.path("log");
    Running::start(&mut command, &log, || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("ready"))
    })
}

/// Goes away with the test.
struct Map(PathBuf);

impl Map {
    fn of(node: &Running) -> Self {
        Self(PathBuf::from(format!("/tmp/perf-{}.map", node.0.id())))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn node_functions_keep_names_after_exit() {
    let scratch = Scratch::new();
    let profile = scratch.path("node.ramson");
    let profile = profile.to_str().unwrap();
    let flags = ["--perf-basic-prof", "--interpreted-frames-native-stack"];
    let mut node = node(&scratch, &flags, "wait");
    let map = Map::of(&node);
    let has_names = || report(&scratch, "a", &[profile, "--view", "tree"]).contains("holdBuffers");
    assert!(has_names());
    let running = ramson_with_cache(&scratch, "a", &["symbolize", profile]);
    assert!(running.status == 2 && running.remarks[0].contains("still runs"), "{running:?}");
    node.signal("KILL");
    node.wait();
    assert!(has_names());
    // Kept in the profile they outlive the map.
    ramson_with_cache(&scratch, "a", &["symbolize", profile]).good();
    drop(map);
    assert!(has_names());
}

#[test]
fn functions_that_java_compiled_have_names() {
    let scratch = Scratch::new();
    let source = "public class Holds {
    static java.util.List<Object> held = new java.util.ArrayList<>();
    static void holdDeflater() {
        java.util.zip.Deflater deflater = new java.util.zip.Deflater();
        deflater.deflate(new byte[100]);
        held.add(deflater);
    }
    public static void main(String[] arguments) {
        for (int i = 0; i < 20; i++) holdDeflater();
        System.out.println(ProcessHandle.current().pid());
    }
}";
    scratch.file("Holds.java", source);
    let directory = scratch.path("");
    let mut compiler = clean(installed("javac", "default-jdk-headless"));
    finish(compiler.arg("Holds.java").current_dir(&directory)).good();
    let mut java = clean(installed("java", "default-jdk-headless"));
    // Compiled before they run, and walked through by their frame pointers.
    java.args(["-Xcomp", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Holds::*"])
        .args(["-XX:CompileCommand=dontinline,Holds::*", "-XX:+PreserveFramePointer"])
        .args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "Holds"])
        .current_dir(&directory);
    let profile = scratch.path("java.ramson");
    preload(&mut java, "16K").env("RAMSON_KEEP", "1").env("RAMSON_OUTPUT", &profile);
    let printed = finish(&mut java).good().text();
    let _map = Map(format!("/tmp/perf-{}.map", printed.trim()).into());
    let tree = report(&scratch, "a", &[profile.to_str().unwrap(), "--view", "tree", "-n", "0"]);
    for name in ["Holds.main(java.lang.String[])", "Holds.holdDeflater()"] {
        assert!(tree.contains(name), "{name}: {tree}");
    }
}

#[test]
fn foreign_or_stale_map_is_ignored() {
    let scratch = Scratch::new();
    let profile = scratch.path("node.ramson");
    let profile = profile.to_str().unwrap();
    let node = node(&scratch, &["--interpreted-frames-native-stack"], "wait");
    let missing = || {
        let text = ramson_with_cache(&scratch, "a", &["report", profile, "--json"]).good().text();
        assert!(!text.contains("WRONG"), "{text}");
        text
    };
    assert!(missing().contains("ramson run --languages"));
    let map = Map::of(&node);
    fs::write(&map.0, "0 7fffffffffff WRONG\n").unwrap();
    std::os::unix::fs::chown(&map.0, Some(1), Some(1)).unwrap();
    assert!(missing().contains("belongs to user 1"));
    fs::remove_file(&map.0).unwrap();
    std::os::unix::fs::symlink(scratch.file("mine", "0 7fffffffffff WRONG\n"), &map.0).unwrap();
    assert!(missing().contains("not used"));
    fs::remove_file(&map.0).unwrap();
    // A map of an earlier process with this number.
    fs::write(&map.0, "0 7fffffffffff WRONG\n").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::options().write(true).open(&map.0).unwrap().set_modified(old).unwrap();
    assert!(missing().contains("ramson run --languages"));
}
