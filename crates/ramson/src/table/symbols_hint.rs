//! Why functions that a report shows have no names, and what would give them some: one line, below the report where that hides what its
//! first row is of, else for terminals only.

use super::push_prose;
use super::report::missing;
use super::stacks::shown_frames;
use crate::output::hint;
use ramson_analysis::report::{Report, View};
use ramson_analysis::summary::Subject;
use ramson_process::identify::base_name;
use ramson_process::other_root;
use ramson_profile::view::{TreeRow, TreeRowKind};
use ramson_profile::{Function, Language};
use ramson_symbols::SymbolDefect;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

/// Advice on how to get names of Python's functions.
pub const NO_PYTHON_NAMES: &str = "Python functions have no names: they take Python 3.12 or newer, started with \"ramson run --languages\"";
/// Lists of each package's files, by its name.
const PACKAGES: &str = "/var/lib/dpkg/info";

/// Adds why the functions of the first row, or of a program that an interpreter runs, have no names. Says whether there was anything to add.
pub fn push(out: &mut String, report: &Report, rows: usize) -> bool {
    let shown = shown_names(report, super::most(rows));
    let Some(first) = shown.first() else { return false };
    let hides_first = |defect: &&SymbolDefect| match defect {
        SymbolDefect::NoPerfMap { .. } => true,
        SymbolDefect::NoSymbols { path, .. } => would_name(report, path, first),
        _ => false,
    };
    let of_defect = || missing(report).1.into_iter().find(hides_first).map(|it| line(report, it));
    let of_defect = || of_defect().map(|line| of_server(report).unwrap_or(line));
    let line = of_python(report).or_else(of_defect);
    line.iter().for_each(|line| push_prose(out, "", line));
    line.is_some()
}

/// Of missing symbols, only those are worth a line that would name a frame of the first rows (0: all).
pub fn say(report: &Report, rows: usize) {
    let shown = shown_names(report, super::most(rows));
    let is_worth_it = |defect: &&SymbolDefect| match defect {
        SymbolDefect::NoSymbols { path, .. } => {
            shown.iter().any(|name| would_name(report, path, name))
        }
        // Nobody looks for lines of libraries before the program's own are there.
        SymbolDefect::NoLines { path, .. } | SymbolDefect::FewLines { path, .. } => {
            path == program(report).1
        }
        _ => true,
    };
    if !io::stderr().is_terminal() {
        return;
    }
    if let Some(defect) = missing(report).1.into_iter().find(is_worth_it) {
        hint(&of_server(report).unwrap_or_else(|| line(report, defect)));
    }
}

/// Name and path of the program.
fn program(report: &Report) -> (&str, &str) {
    match &report.subject {
        Subject::Recording(summary) => (&summary.name, &summary.executable),
        _ => ("", ""),
    }
}

/// Whether the symbols of the binary at `path` would name this frame.
fn would_name(report: &Report, path: &str, frame: &str) -> bool {
    let (name, executable) = program(report);
    frame.rsplit_once("+0x").is_some_and(|(object, _)| {
        object == base_name(path) || object == name && path == executable
    })
}

fn line(report: &Report, defect: &SymbolDefect) -> String {
    defect.line(defect.binary().filter(|_| is_here(report)).and_then(debug_package).as_deref())
}

/// Why a debuginfod server gave no names, if one was asked in vain.
fn of_server(report: &Report) -> Option<String> {
    let is_it = |defect: &&SymbolDefect| matches!(defect, SymbolDefect::ServerFailed { .. });
    missing(report).1.into_iter().find(is_it).map(|failed| line(report, failed))
}

/// What gives names to Python's functions, where none has one: its interpreter's own frames have names, or are not missed.
fn of_python(report: &Report) -> Option<String> {
    let is_its =
        |function: &Function| Language::of(&function.system_name) == Some(Language::Python);
    let is_named = report.profile.functions.iter().any(is_its);
    let is_python = Language::of_program(Path::new(program(report).1)) == Some(Language::Python);
    (is_python && !is_named).then(|| NO_PYTHON_NAMES.into())
}

/// Whether the paths are this machine's: those of a program in a container may be other files.
fn is_here(report: &Report) -> bool {
    let Subject::Recording(summary) = &report.subject else { return false };
    summary.is_running && other_root(summary.pid).is_none()
}

/// The names of the frames in the first rows.
fn shown_names<'a>(report: &'a Report, rows: usize) -> Vec<&'a str> {
    match &report.view {
        View::Stacks(table) => {
            let frames = table.rows.iter().flat_map(|row| shown_frames(&row.frames));
            frames.map(|frame| &*frame.name).collect()
        }
        View::Report(table) => table.rows.iter().take(rows).map(|row| &*row.name).collect(),
        View::Tree(tree) | View::Callers(tree) => {
            let frame = |row: &'a TreeRow| match &row.kind {
                TreeRowKind::Frame(frame) => Some(&*frame.name),
                _ => None,
            };
            tree.rows.iter().take(rows).filter_map(frame).collect()
        }
        _ => Vec::new(),
    }
}

/// Debian's package with the debug symbols of a file, where dpkg knows whose it is.
pub fn debug_package(path: &str) -> Option<String> {
    // Either may be listed, since /lib is a link into /usr.
    let other = path.strip_prefix("/usr").map_or_else(|| format!("/usr{path}"), str::to_owned);
    let has_it = |list: &Path| {
        let listed = fs::read_to_string(list).unwrap_or_default();
        listed.lines().any(|line| line == path || line == other)
    };
    let mut lists = fs::read_dir(PACKAGES).ok()?.flatten().map(|entry| entry.path());
    let list =
        lists.find(|list| list.extension().is_some_and(|it| it == "list") && has_it(list))?;
    let package = list.file_stem()?.to_str()?.split(':').next()?;
    Some(match package {
        "libc6" => "libc6-dbg".into(),
        _ => {
            format!("{package}-dbgsym (Debian has it in the archive debian-debug, Ubuntu in ddebs)")
        }
    })
}
