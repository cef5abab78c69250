//! The line below a report that says which symbols would give names to what it shows.

use super::report::missing;
use super::stacks::shown_frames;
use crate::output::hint;
use ramson_analysis::report::{Report, View};
use ramson_analysis::summary::Subject;
use ramson_process::identify::base_name;
use ramson_process::other_root;
use ramson_profile::view::{TreeRow, TreeRowKind};
use ramson_symbols::SymbolDefect;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;

/// Lists of each package's files, by its name.
const PACKAGES: &str = "/var/lib/dpkg/info";

/// Of missing symbols, only those are worth a line that would name a frame of the first rows (0: all).
pub fn say(report: &Report, rows: usize) {
    let (name, executable) = match &report.subject {
        Subject::Recording(summary) => (&*summary.name, &*summary.executable),
        _ => ("", ""),
    };
    let shown = shown_names(report, super::most(rows));
    let would_name = |path: &str| {
        let is_of =
            |object: &str| object == base_name(path) || object == name && path == executable;
        shown.iter().filter_map(|name| name.rsplit_once("+0x")).any(|(object, _)| is_of(object))
    };
    let is_worth_it = |defect: &&SymbolDefect| match defect {
        SymbolDefect::NoSymbols { path, .. } => would_name(path),
        // Nobody looks for lines of libraries before the program's own are there.
        SymbolDefect::NoLines { path, .. } | SymbolDefect::FewLines { path, .. } => {
            path == executable
        }
        _ => true,
    };
    if !io::stderr().is_terminal() {
        return;
    }
    if let Some(defect) = missing(report).1.into_iter().find(is_worth_it) {
        let package = defect.binary().filter(|_| is_here(report)).and_then(debug_package);
        hint(&defect.line(package.as_deref()));
    }
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
fn debug_package(path: &str) -> Option<String> {
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
        _ => format!("{package}-dbgsym"),
    })
}
