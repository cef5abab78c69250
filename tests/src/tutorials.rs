//! The tutorial and how-to pages: their commands are run as they stand, and their output is what the commands print.
//!
//! A block marked `console` has commands, on lines that begin with `$ `, and below each what it prints. All commands of a
//! page run in one shell, in namespaces of their own: no other process has a name or a profile there, and what is left
//! running ends with the page. How pages are compared is in `shape`.

mod shape;

pub use shape::{is_same, shape};

use crate::library;
use crate::run::Directory;
use crate::servers::{clean, copy, finish, installed, ramson_program};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Directory in which the commands run. Every Debian has it, so that paths are the same on all machines.
const PLACE: &str = "/srv";
/// Lines are cut there.
const COLUMNS: &str = "120";
/// The limit of a whole page.
const MOST_SECONDS: &str = "300";
/// The status of a page on which a command waits in a loop for too long.
const WAITED_IN_VAIN: i32 = 97;
const OPENING: &str = "```console";
const CLOSING: &str = "```";

/// A command and what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// One line, or several that end in a backslash.
    pub command: String,
    /// With the last line's end.
    pub output: String,
}

/// A document in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Everything between the blocks.
    Prose(String),
    /// One block.
    Block(Vec<Step>),
}

impl Piece {
    /// The commands of a block.
    pub fn steps_mut(&mut self) -> Option<&mut Vec<Step>> {
        match self {
            Self::Prose(_) => None,
            Self::Block(steps) => Some(steps),
        }
    }
}

/// The pieces of a page, in order.
pub fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut prose = String::new();
    let mut block = None::<Vec<Step>>;
    let mut is_continued = false;
    for line in page.split_inclusive('\n') {
        let text = line.trim_end();
        match &mut block {
            None => {
                prose += line;
                if text == OPENING {
                    pieces.push(Piece::Prose(std::mem::take(&mut prose)));
                    block = Some(Vec::new());
                }
            }
            Some(steps) if text == CLOSING => {
                pieces.push(Piece::Block(std::mem::take(steps)));
                block = None;
                prose = line.to_owned();
            }
            Some(steps) if is_continued => {
                let last = steps.last_mut().expect("a command goes on");
                last.command += "\n";
                last.command += text;
                is_continued = text.ends_with('\\');
            }
            Some(steps) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(_), _) => {
                    steps.push(Step { command: text[2..].to_owned(), output: String::new() });
                    is_continued = text.ends_with('\\');
                }
                (None, Some(step)) => step.output += line,
                (None, None) => panic!("a block begins with output: {line}"),
            },
        }
    }
    pieces.push(Piece::Prose(prose));
    pieces
}

/// The page of these pieces.
pub fn page(pieces: &[Piece]) -> String {
    let mut page = String::new();
    for piece in pieces {
        match piece {
            Piece::Prose(prose) => page += prose,
            Piece::Block(steps) => {
                for Step { command, output } in steps {
                    let _ = write!(page, "$ {command}\n{output}");
                }
            }
        }
    }
    page
}

/// The page with what its commands print now. `programs` are copied to where they run. A command that waits in a loop
/// may take `most_seconds`.
pub fn played(pieces: &[Piece], programs: &[PathBuf], most_seconds: u32) -> Vec<Piece> {
    let stage = Stage::new(programs);
    let mut script = String::new();
    let commands = steps(pieces).map(|step| step.command.as_str());
    for (number, command) in commands.enumerate() {
        let is_wait = command.starts_with("until ");
        if is_wait {
            // Bash runs this before each command of the loop.
            let limit = format!("((SECONDS < {most_seconds})) || exit {WAITED_IN_VAIN}");
            let _ = writeln!(script, "SECONDS=0; trap '{limit}' DEBUG");
        }
        // Not in a subshell: what it starts stays a child, what it sets stays set.
        let _ = writeln!(script, "{{\n{command}\n}} > .output/{number} 2>&1 < /dev/null");
        if is_wait {
            let _ = writeln!(script, "trap - DEBUG");
        }
    }
    stage.run(&script);
    let mut number = 0;
    let mut next = |step: &Step| {
        let output = stage.output(number);
        number += 1;
        Step { command: step.command.clone(), output }
    };
    let play = |piece: &Piece| match piece {
        Piece::Prose(prose) => Piece::Prose(prose.clone()),
        Piece::Block(steps) => Piece::Block(steps.iter().map(&mut next).collect()),
    };
    pieces.iter().map(play).collect()
}

/// All commands of a page.
pub fn steps(pieces: &[Piece]) -> impl Iterator<Item = &Step> {
    pieces.iter().flat_map(|piece| match piece {
        Piece::Prose(_) => &[],
        Piece::Block(steps) => steps.as_slice(),
    })
}

/// Directories that take the places of `PLACE`, /tmp and /var/tmp.
struct Stage(Directory);

impl Stage {
    fn new(programs: &[PathBuf]) -> Self {
        let stage = Self(Directory::new());
        for name in ["place/.output", "place/.cache", "place/.bin", "tmp", "var-tmp"] {
            fs::create_dir_all(stage.path(name)).unwrap();
        }
        for name in ["tmp", "var-tmp"] {
            fs::set_permissions(stage.path(name), fs::Permissions::from_mode(0o1777)).unwrap();
        }
        for program in programs {
            copy(program, &stage.path("place").join(program.file_name().unwrap()));
        }
        // Copies: the checkout may lie below one of the directories that the stage hides.
        copy(ramson_program(), &stage.path("place/.bin/ramson"));
        copy(library(), &stage.path("place/.bin/libramson.so"));
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs all commands, however they end.
    fn run(&self, script: &str) {
        fs::write(self.path("place/.script"), script).unwrap();
        let places = [("place", PLACE), ("var-tmp", "/var/tmp"), ("tmp", "/tmp")];
        // Names relative to the stage, which the mounts may hide.
        let mut begin = format!("cd '{}' && ", self.0.path().display());
        for (name, place) in places {
            let _ = write!(begin, "mount --no-canonicalize --bind {name} {place} && ");
        }
        let _ = write!(begin, "cd {PLACE} && exec bash .script");
        let mut command = clean(installed("timeout", "coreutils"));
        command.args(["--signal=KILL", MOST_SECONDS]).arg(installed("unshare", "util-linux"));
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["bash", "-c", &begin]);
        // Debian's programs before others of the same names.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{PLACE}/.bin:/usr/bin:/bin:{path}"));
        command.env("RAMSON_LIBRARY", format!("{PLACE}/.bin/libramson.so"));
        command.env("XDG_CACHE_HOME", format!("{PLACE}/.cache"));
        command.env("COLUMNS", COLUMNS);
        let outcome = finish(&mut command);
        assert!(
            outcome.status != 137,
            "the page does not end within {MOST_SECONDS} s: {outcome:?}"
        );
        assert!(outcome.status != WAITED_IN_VAIN, "{}", self.waited_in_vain(script));
        let is_quiet = outcome.stderr.is_empty() && outcome.remarks.is_empty();
        assert!(is_quiet, "the page's shell complains: {outcome:?}");
    }

    /// The last command that began, and every log that it may have waited for.
    fn waited_in_vain(&self, script: &str) -> String {
        let lines: Vec<&str> = script.lines().collect();
        let mut begun = lines.iter().enumerate().filter(|(_, line)| {
            let output = line.strip_prefix("} > ").and_then(|rest| rest.split(' ').next());
            output.is_some_and(|output| self.path("place").join(output).exists())
        });
        let wait = begun.next_back().map_or("", |(end, _)| lines[end - 1]);
        let mut text = format!("{wait}: waited in vain");
        let files = fs::read_dir(self.path("place")).unwrap().flatten().map(|entry| entry.path());
        for log in files.filter(|path| path.extension().is_some_and(|it| it == "log")) {
            let content = fs::read(&log).unwrap_or_default();
            let name = log.file_name().unwrap_or_default().display();
            let _ = write!(text, "\n{name}:\n{}", String::from_utf8_lossy(&content));
        }
        text
    }

    fn output(&self, number: usize) -> String {
        let path = self.path(&format!("place/.output/{number}"));
        let mut output = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("command {number} was not run: {error}"));
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output
    }
}

/// `docs`.
pub fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"))
}

/// Names of the pages in `directory` that show commands.
pub fn pages() -> Vec<String> {
    let of = |folder: &str| {
        let entries = fs::read_dir(directory().join(folder)).unwrap().flatten();
        let names = entries.map(|entry| format!("{folder}{}", entry.file_name().display()));
        names.filter(|name| name.ends_with(".md")).collect::<Vec<String>>()
    };
    let mut pages = [of(""), of("how-to/")].concat();
    pages.retain(|name| {
        let page = fs::read_to_string(directory().join(name)).unwrap();
        page.lines().any(|line| line == OPENING)
    });
    pages
}

/// The programs that the pages run.
pub fn programs() -> Vec<PathBuf> {
    let of = |folder: &str| fs::read_dir(directory().join(folder)).unwrap().flatten();
    let entries = of("tutorial").chain(of("how-to/programs"));
    entries.map(|entry| entry.path()).collect()
}
