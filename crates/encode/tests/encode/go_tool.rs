//! Runs the real `go tool pprof`. Without Go these tests fail, they do not skip.

use ramson_encode::pprof;
use ramson_profile::{Profile, SampleType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A directory of one test; nothing of pprof's is written outside it.
pub struct Workplace {
    directory: TempDir,
}

impl Workplace {
    pub fn new(name: &str) -> Workplace {
        let directory = TempDir::with_prefix_in(name, env!("CARGO_TARGET_TMPDIR"));
        Workplace { directory: directory.expect("the target directory is writable") }
    }

    /// Returns the path of the file of this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes `profile` in pprof's format and returns the file's path.
    pub fn write(&self, name: &str, profile: &Profile) -> String {
        let mut bytes = Vec::new();
        pprof::write(profile, &mut bytes, SampleType::InuseSpace).unwrap();
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().expect("a UTF-8 path").to_string()
    }

    /// pprof with these arguments, at home in this directory.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(pprof_program());
        command
            .args(arguments)
            .env("HOME", self.directory.path())
            .env("PPROF_TMPDIR", self.directory.path())
            .env("TZ", "UTC")
            .env_remove("PPROF_BINARY_PATH")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns the output of pprof; panics if pprof fails or writes to stderr.
    pub fn pprof(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("pprof starts");
        quiet_success(&output, arguments)
    }
}

fn quiet_success(output: &Output, arguments: &[&str]) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "pprof {arguments:?}: {}\n{stderr}", output.status);
    assert_eq!(stderr, "", "pprof {arguments:?} warned");
    String::from_utf8(output.stdout.clone()).expect("pprof prints UTF-8")
}

/// Path of the program behind `go tool pprof`, which Go builds on first use. Started directly it saves a second of `go`
/// per run, and can be given a HOME without a build cache.
fn pprof_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // `go tool -n` alone names the program; running it once makes sure that it is built.
        let built = Command::new("go").args(["tool", "pprof", "-help"]).output();
        built.expect("these tests need Go: install it so that `go tool pprof` works");
        let output = Command::new("go").args(["tool", "-n", "pprof"]).output().unwrap();
        assert!(output.status.success(), "go tool -n pprof: {output:?}");
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        assert!(path.is_file(), "go tool -n pprof names {path:?}, which is no file");
        path
    })
}

/// Flat and cum by function from the text of `-top -unit=bytes`.
pub fn parse_top(text: &str) -> BTreeMap<String, (i64, i64)> {
    let mut rows = BTreeMap::new();
    for (name, row) in parse_rows(text) {
        assert_eq!(rows.insert(name.clone(), row), None, "two rows {name}");
    }
    rows
}

/// Name, flat and cum of every row.
pub fn parse_rows(text: &str) -> impl Iterator<Item = (String, (i64, i64))> {
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("flat "));
    lines.skip(1).map(|line| {
        let mut rest = line;
        let mut field = || {
            let (word, tail) = rest.trim_start().split_once(' ').expect("six columns");
            rest = tail.trim_start();
            word
        };
        let [flat, _, _, cum, _] = std::array::from_fn(|_| field());
        let name = rest.trim_end_matches(" (inline)").trim_end_matches(" (partial-inline)");
        (name.to_string(), (number(flat), number(cum)))
    })
}

/// `80B`, `-16B`, or `7bytes`, which is what `-unit=bytes` makes of objects.
pub fn number(text: &str) -> i64 {
    text.trim_end_matches(char::is_alphabetic)
        .parse()
        .unwrap_or_else(|_| panic!("not a number: {text}"))
}
