//! Builds what the tests run: the library, and the programs of `tests/programs`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

/// Tools that tests need, and the Debian package of each.
const PACKAGES: [(&str, &str); 10] = [
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("objdump", "binutils"),
    ("nm", "binutils"),
    ("readelf", "binutils"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("libjemalloc.so.2", "libjemalloc2"),
    ("libtcmalloc.so.4", "libgoogle-perftools4"),
    ("libmimalloc.so.2", "libmimalloc2.0"),
];

/// Options under which a call site's frame is the one that the source shows: no call becomes a jump, no pair of malloc and
/// free is optimised away.
const FLAGS: [&str; 8] = [
    "-O1",
    "-g",
    "-Wall",
    "-fno-builtin",
    "-fno-optimize-sibling-calls",
    "-fno-inline",
    "-pthread",
    "-Wno-unused-result",
];

/// The folder of this package.
pub fn tests_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of `tests/golden`.
pub fn golden(name: &str) -> PathBuf {
    tests_directory().join("golden").join(name)
}

/// Cargo's target directory.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| tests_directory().join("../target"), PathBuf::from)
}

/// Notes a test that cannot exist on this machine, and why. `tests/run` repeats it at its end. A tool that is only missing fails the test
/// instead.
#[track_caller]
pub fn not_here(why: &str) {
    let place = std::panic::Location::caller();
    let path = target_directory().join("not-here.txt");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let line = format!("{}:{}: {}\n", place.file(), place.line(), why.trim());
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("cargo's target directory can be written");
}

/// Tells how to install a missing tool.
fn advice(name: &str) -> String {
    let package =
        PACKAGES.iter().find(|(known, _)| *known == name).map_or(name, |(_, package)| package);
    format!("{name} is missing: apt-get install {package}")
}

/// Runs a tool and returns what it wrote.
pub fn tool<S: AsRef<OsStr>>(name: &str, arguments: &[S]) -> String {
    try_tool(name, arguments).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, with a failure as what the tool said.
pub fn try_tool<S: AsRef<OsStr>>(name: &str, arguments: &[S]) -> Result<String, String> {
    let output = Command::new(name).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{} ({error})", advice(name)))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `target/release/ramson`, built once.
pub fn ramson_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut build = Command::new(env!("CARGO"));
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        build.args(["build", "--quiet", "--release", "--package", "ramson"]);
        // Removes the variables that cargo set for this test's own package, because ring would be rebuilt for them.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
                build.env_remove(name);
            }
        }
        let built = build.status();
        assert!(built.unwrap().success(), "ramson does not build");
        target_directory().join("release/ramson").canonicalize().unwrap()
    })
}

/// The library under test: built from this workspace, or the file that `RAMSON_LIBRARY` names.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("RAMSON_LIBRARY") {
            return PathBuf::from(given);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--package", "libramson", "--profile", "guest"])
            .current_dir(tests_directory().join(".."))
            .stdin(Stdio::null())
            .status()
            .expect("cargo can be run");
        assert!(built.success(), "libramson does not build");
        let library = target_directory().join("guest/libramson.so");
        library.canonicalize().expect("cargo built target/guest/libramson.so")
    })
}

/// A shared library that the loader finds by name, as a path to preload.
pub fn shared_library(name: &str) -> PathBuf {
    ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{}", advice(name)))
}

/// The program of a source file of `tests/programs`, compiled if it has changed.
pub fn program(source: &str) -> PathBuf {
    program_with(source, source.split('.').next().unwrap_or(source), &[])
}

/// Links Debian's jemalloc into a program.
pub const STATIC_JEMALLOC: [&str; 5] =
    ["-l:libjemalloc_pic.a", "-lstdc++", "-lm", "-ldl", "-lpthread"];

/// The same under another name and with further options of the compiler.
pub fn program_with(source: &str, name: &str, options: &[&str]) -> PathBuf {
    // One at a time: a second compilation would replace the program of a test that runs already, and with it its path.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _compiling = COMPILING.lock();
    let source_path = tests_directory().join("programs").join(source);
    let directory = target_directory().join("test-programs");
    std::fs::create_dir_all(&directory).expect("target/test-programs can be made");
    let path = directory.join(name);
    let changed = |path: &Path| path.metadata().and_then(|facts| facts.modified()).ok();
    let mut sources = vec![source_path.clone(), tests_directory().join("src/build.rs")];
    let beside = std::fs::read_dir(tests_directory().join("programs")).expect("there are programs");
    let beside = beside.flatten().map(|entry| entry.path());
    sources.extend(beside.filter(|path| path.extension().is_some_and(|name| name == "h")));
    let newest = sources.iter().filter_map(|path| changed(path)).max();
    if changed(&path).unwrap_or(SystemTime::UNIX_EPOCH) > newest.expect("the source exists") {
        return path;
    }
    // Another process may compile at the same time: each to a name of its own, then into place at once.
    let partial = directory.join(format!("{name}.{}", std::process::id()));
    let compiler = if source.ends_with(".cc") { "g++" } else { "gcc" };
    let mut arguments: Vec<&OsStr> = FLAGS.iter().map(OsStr::new).collect();
    arguments.extend([source_path.as_os_str(), OsStr::new("-o"), partial.as_os_str()]);
    arguments.extend(options.iter().map(OsStr::new));
    tool(compiler, &arguments);
    std::fs::rename(&partial, &path).expect("the program can be moved into place");
    path
}
