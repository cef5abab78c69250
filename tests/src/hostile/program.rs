//! A hostile program as its first comment describes it: plain words, then lines of the form `directive: value`.
//!
//! | directive | meaning |
//! |---|---|
//! | `build: FLAGS` | further options of the compiler |
//! | `lib: FILE FLAGS` | a source in `tests/hostile/parts` to build as a shared library `{built}/FILE.so` |
//! | `args: WORDS` | the program's arguments |
//! | `env: NAME=VALUE` | a variable of its environment |
//! | `preload: before FILE`, `preload: after FILE` | a library preloaded before or after ramson, in the plain run too |
//! | `needs: root` | counted as not testable for other users |
//! | `allocators: NAMES (REASON)` | makes sense over these only: `glibc`, `jemalloc`, `tcmalloc`, `mimalloc`, preloaded or linked in |
//! | `ends: N`, `signal N`, `any` | how the plain program ends; exit status 0 if not said; another end over an allocator is not testable |
//! | `recorded: NAMES` | beginnings of the names of executables that must have a profile at an interval of 1, if the program starts others |
//! | `ramson: recorded`, `off`, `any` | whether a profile must have come out at an interval of 1; recorded if not said |
//! | `in-flight: N` | allocations that other threads may be in the middle of at the end: accounts may differ by as many |
//! | `varies: TEXT` | lines of output with this text are not compared |
//! | `varies-attached: TEXT` | … where the program is attached to: the loader then allocates from the program's heap, too |
//! | `not-attached: REASON` | is not run where programs are attached to |
//! | `time: N` | seconds that one run may take; 60 if not said |
//! | `representative` | is part of `make test` |
//!
//! In values, `{built}` is the directory of built libraries, `{parts}` that of the sources beside the programs, and `{tmp}` a
//! directory of this run alone, which is also the working directory.

use super::cell::Allocator;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whether a profile must have come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// At an interval of 1.
    Recorded,
    /// Never: ramson must have stayed away.
    Off,
    /// Either will do.
    Any,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It did not, and was killed.
    Hang,
}

/// A shared library that belongs to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// File name in `tests/hostile/parts`.
    pub source: String,
    /// Options of the compiler.
    pub flags: Vec<String>,
}

/// One hostile program.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name without its extension.
    pub name: String,
    /// Path of its source file.
    pub source: PathBuf,
    pub(super) build: Vec<String>,
    pub(super) parts: Vec<Part>,
    pub(super) arguments: Vec<String>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    pub(super) preload_before: Vec<String>,
    pub(super) preload_after: Vec<String>,
    pub(super) needs_root: bool,
    /// Over which it makes sense.
    pub allocators: Vec<Allocator>,
    pub(super) ends: Option<End>,
    pub(super) expected: Expected,
    /// Beginnings of names of executables of which there must be a profile.
    pub recorded: Vec<String>,
    pub(super) in_flight: u64,
    pub(super) varies: Vec<String>,
    varies_attached: Vec<String>,
    pub(super) is_attachable: bool,
    pub(super) time: Duration,
    /// Whether it is part of `make test`.
    pub is_representative: bool,
}

/// The directory of hostile programs.
pub(super) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile")
}

/// All of them, by name.
pub fn programs() -> Result<Vec<Program>, String> {
    let entries =
        std::fs::read_dir(directory()).map_err(|error| format!("tests/hostile: {error}"))?;
    let mut paths: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_program(path)).collect();
    paths.sort();
    paths.iter().map(|path| Program::of(path)).collect()
}

/// Headers, and directories, are for programs to share.
fn is_program(path: &Path) -> bool {
    path.is_file() && path.extension().is_none_or(|extension| extension != "h")
}

impl Program {
    /// Reads a program's first comment.
    pub fn of(source: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(source)
            .map_err(|error| format!("{}: {error}", source.display()))?;
        Self::parse(source, &text).map_err(|error| format!("{}: {error}", source.display()))
    }

    /// Whether an allocator can be linked into it. Scripts run others' programs.
    pub fn is_linked(&self) -> bool {
        self.source.extension().is_some_and(|kind| kind == "c" || kind == "cc")
    }

    /// The same, for runs in which it is attached to and those that they are compared with.
    pub(super) fn attached(&self) -> Self {
        let varies = [&self.varies[..], &self.varies_attached].concat();
        Self { varies, ..self.clone() }
    }

    fn parse(source: &Path, text: &str) -> Result<Self, String> {
        let mut program = Self {
            name: source.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            source: source.to_owned(),
            build: Vec::new(),
            parts: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            preload_before: Vec::new(),
            preload_after: Vec::new(),
            needs_root: false,
            allocators: Allocator::ALL.to_vec(),
            ends: Some(End::Exit(0)),
            expected: Expected::Recorded,
            recorded: Vec::new(),
            in_flight: 0,
            varies: Vec::new(),
            varies_attached: Vec::new(),
            is_attachable: true,
            time: Duration::from_secs(60),
            is_representative: false,
        };
        let comment = first_comment(text);
        if comment.is_empty() {
            return Err("the first lines must be a comment that says what it tries".to_owned());
        }
        for line in comment {
            program.take(line)?;
        }
        let is_linked = program.is_linked();
        program.allocators.retain(|allocator| is_linked || !allocator.is_inside());
        Ok(program)
    }

    /// Applies one line of the comment; prose is ignored.
    fn take(&mut self, line: &str) -> Result<(), String> {
        if line == "representative" {
            self.is_representative = true;
            return Ok(());
        }
        let Some((directive, value)) = line.split_once(": ") else { return Ok(()) };
        let wrong = || format!("{directive}: {value:?} cannot be understood");
        let words = || value.split_whitespace().map(str::to_owned);
        match directive {
            "build" => self.build.extend(words()),
            "lib" => {
                let source = words().next().ok_or_else(wrong)?;
                self.parts.push(Part { source, flags: words().skip(1).collect() });
            }
            "args" => self.arguments.extend(words()),
            "env" => {
                let (name, value) = value.split_once('=').ok_or_else(wrong)?;
                self.environment.push((name.to_owned(), value.to_owned()));
            }
            "preload" => match value.split_once(' ').ok_or_else(wrong)? {
                ("before", library) => self.preload_before.push(library.to_owned()),
                ("after", library) => self.preload_after.push(library.to_owned()),
                _ => return Err(wrong()),
            },
            "needs" if value == "root" => self.needs_root = true,
            "allocators" => {
                let (names, _reason) = value.split_once(" (").ok_or_else(wrong)?;
                let named = names.split(", ").map(Allocator::named);
                let named: Vec<_> = named.collect::<Option<_>>().ok_or_else(wrong)?;
                let is_named = |own: &Allocator| named.contains(&own.preloaded());
                self.allocators.retain(is_named);
            }
            "ends" => {
                let number = |text: &str| text.parse().map_err(|_| wrong());
                self.ends = match value.strip_prefix("signal ") {
                    Some(signal) => Some(End::Signal(number(signal)?)),
                    None if value == "any" => None,
                    None => Some(End::Exit(number(value)?)),
                };
            }
            "ramson" => {
                self.expected = match value {
                    "recorded" => Expected::Recorded,
                    "off" => Expected::Off,
                    "any" => Expected::Any,
                    _ => return Err(wrong()),
                };
            }
            "recorded" => self.recorded.extend(words()),
            "in-flight" => self.in_flight = value.parse().map_err(|_| wrong())?,
            "varies" => self.varies.push(value.to_owned()),
            "varies-attached" => self.varies_attached.push(value.to_owned()),
            "not-attached" => self.is_attachable = false,
            "time" => self.time = Duration::from_secs(value.parse().map_err(|_| wrong())?),
            _ if directive.chars().all(|c| c.is_ascii_lowercase() || c == '-') => {
                return Err(format!("{directive}: there is no such directive"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The lines of a file's first comment, without its marks. A script's first line is not part of it.
fn first_comment(text: &str) -> Vec<&str> {
    let text = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => rest,
        _ => text,
    };
    if let Some((comment, _)) = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
        return comment.lines().map(|line| line.trim().trim_start_matches("* ")).collect();
    }
    let mark = if text.starts_with('#') { "#" } else { "//" };
    text.lines().map_while(|line| line.strip_prefix(mark)).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Program, String> {
        Program::parse(Path::new("tests/hostile/example.c"), text)
    }

    #[test]
    fn directives_come_from_first_comment() {
        let text = "/* Tries: this and that, at the end.\n   build: -ldl -O2\n   lib: part.c -lm\n   \
            args: one two\n   env: A=b=c\n   preload: before {built}/part.so\n   \
            allocators: glibc, mimalloc (the others lack it)\n   ends: signal 6\n   ramson: any\n   \
            in-flight: 3\n   recorded: sh cat\n   time: 7\n   representative */\nint main;\n/* args: three */";
        let program = parsed(text).unwrap();
        assert_eq!(program.name, "example");
        assert_eq!(program.build, ["-ldl", "-O2"]);
        let part = Part { source: "part.c".to_owned(), flags: vec!["-lm".to_owned()] };
        assert_eq!(program.parts, [part]);
        assert_eq!(program.arguments, ["one", "two"]);
        assert_eq!(program.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(program.preload_before, ["{built}/part.so"]);
        assert_eq!(
            program.allocators,
            [Allocator::Glibc, Allocator::Mimalloc, Allocator::MimallocInside]
        );
        assert_eq!(program.ends, Some(End::Signal(6)));
        assert_eq!((program.expected, program.in_flight), (Expected::Any, 3));
        assert_eq!(program.recorded, ["sh", "cat"]);
        assert_eq!(program.time, Duration::from_secs(7));
        assert!(program.is_representative);
    }

    #[test]
    fn script_and_line_comments_are_read() {
        assert_eq!(parsed("#!/bin/sh\n# Why.\n# time: 3\ntrue\n").unwrap().time.as_secs(), 3);
        assert_eq!(parsed("// Why.\n// time: 4\nfn main() {}\n").unwrap().time.as_secs(), 4);
    }

    #[test]
    fn unknown_directive_is_an_error() {
        for wrong in
            ["timee: 3", "time: soon", "ends: signal SIGABRT", "allocators: glibc", "needs: luck"]
        {
            parsed(&format!("/* Tries.\n   {wrong} */")).unwrap_err();
        }
        parsed("int main(void) { return 0; }").unwrap_err();
    }
}
