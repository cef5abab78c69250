//! The line below a report that says which symbols would give names to what it shows.

use super::report::missing;
use super::stacks::shown_frames;
use crate::output::hint;
use ramson_analysis::report::{Report, View};
use ramson_analysis::summary::Subject;
use ramson_profile::view::{TreeRow, TreeRowKind};
use ramson_symbols::SymbolDefect;
use std::process::{Command, Stdio};

/// Of missing symbols, only those are worth a line that would name a frame of the first rows (0: all).
pub fn say(report: &Report, rows: usize) {
    let name = match &report.subject {
        Subject::Recording(summary) => &*summary.name,
        _ => "",
    };
    let shown = shown_names(report, super::most(rows));
    let file = |path: &'_ str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let would_name = |path: &str| {
        let is_of = |object: &str| object == file(path) || object == name;
        shown.iter().filter_map(|name| name.rsplit_once("+0x")).any(|(object, _)| is_of(object))
    };
    let is_worth_it = |defect: &&SymbolDefect| match defect {
        SymbolDefect::NoSymbols { path, .. } => would_name(path),
        // Nobody looks for lines of libraries before the program's own are there.
        SymbolDefect::NoLines { path, .. } | SymbolDefect::FewLines { path, .. } => {
            file(path) == name
        }
        _ => true,
    };
    if let Some(defect) = missing(report).1.into_iter().find(is_worth_it) {
        let package = defect.binary().and_then(debug_package);
        hint(&defect.line(package.as_deref()));
    }
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
    // Files of merged directories are listed as their packages have them.
    [Some(path), path.strip_prefix("/usr")].into_iter().flatten().find_map(|path| {
        let mut search = Command::new("dpkg-query");
        let found = search.args(["--search", "--", path]).stderr(Stdio::null()).output().ok()?;
        let found = String::from_utf8(found.stdout).ok()?;
        let package = found.split(": ").next()?.split(':').next()?;
        let is_package = !package.is_empty() && !package.contains([' ', ',']);
        is_package.then(|| format!("{package}-dbgsym"))
    })
}
