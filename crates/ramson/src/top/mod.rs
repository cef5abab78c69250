//! `ramson top`: what is using the memory of a running process, as it changes.
//!
//! `ramson_analysis::live` reads the process and makes rows of it. `model` holds them with what the user has chosen by `keys`,
//! `heading` and `table` are its text, `draw` puts it on the `screen`. `host` is the list of processes.

mod draw;
mod heading;
mod host;
mod keys;
mod model;
mod screen;
mod table;
mod view;

use crate::flags::TopFlags;
use crate::output::{print, print_json};
use crate::table::{columns, cut, say_what_is_missing};
use heading::Heading;
use ramson_analysis::live::picture::Live;
use ramson_analysis::live::watch::Watched;
use ramson_source::{Failure, Recording, Selector, open_recordings};
use std::thread;
use view::Watch;

pub fn top(flags: &TopFlags) -> Result<(), Failure> {
    if flags.filters.selection().uses_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: top shows whole stacks. Choose by frames (--focus, --show …), or threads by --view threads",
        ));
    }
    let selectors = flags.sources.iter().map(|source| Selector::parse(source));
    let selectors = selectors.collect::<Result<Vec<_>, _>>()?;
    let alone = alone(flags)?;
    match (flags.once || flags.json, alone) {
        (false, alone) => view::interactive(flags, alone, &selectors),
        (true, Some(recording)) => stream(flags, recording),
        (true, None) => host::stream(flags, &selectors),
    }
}

/// What is named, if that is one profile.
fn alone(flags: &TopFlags) -> Result<Option<Recording>, Failure> {
    if flags.sources.is_empty() {
        return Ok(None);
    }
    let (mut found, _) = open_recordings(&flags.sources)?;
    if found.len() == 1 {
        return Ok(found.pop());
    }
    if found.iter().any(|recording| recording.running.is_none()) {
        return Err(Failure::usage(format!(
            "{}: top lists processes that run, and not all of these do. \"ramson report\" sums them",
            flags.sources.join(" ")
        )));
    }
    Ok(None)
}

fn stream(flags: &TopFlags, recording: Recording) -> Result<(), Failure> {
    let mut watch = Watch::of(Watched::of(recording), flags)?;
    watch.read()?;
    watch.wait_for_names()?;
    loop {
        // Rates need two moments; a process that is dead has but one.
        if watch.watch.watched.end.is_none() {
            thread::sleep(flags.pause());
            watch.read()?;
            watch.wait_for_names()?;
        }
        let picture = &watch.model.picture;
        match flags.json {
            true => print_json(
                "top",
                &Live::of(&watch.watch.watched, picture, flags.view, flags.sort, flags.most_rows()),
            )?,
            false => print(&text(&watch, flags))?,
        }
        if flags.once {
            say_what_is_missing(&picture.shape.missing_symbols);
        }
        if flags.once || watch.watch.watched.end.is_some() {
            return Ok(());
        }
    }
}

fn text(watch: &Watch, flags: &TopFlags) -> String {
    const WIDTH_OF_A_FILE: usize = 4096;
    let (model, heading) = (&watch.model, Heading::of(&watch.watch.watched));
    let mut lines = vec![heading.title, heading.rss, heading::change_line(model)];
    lines.extend(heading.notes);
    lines.extend(draw::filter_line(model));
    let width = columns().unwrap_or(WIDTH_OF_A_FILE);
    lines.extend([String::new(), table::head_of_rows(model, width)]);
    let rows = model.rows.iter().take(flags.most_rows());
    cut_all(lines.into_iter().chain(rows.map(|row| table::line(row, width).to_string())))
}

/// Lines for standard output.
fn cut_all(lines: impl Iterator<Item = String>) -> String {
    let columns = columns();
    lines.map(|line| cut(line.trim_end(), columns) + "\n").collect()
}

/// The first row on a screen with room for `page` of them, one of which is the cursor's.
fn scrolled(first: usize, cursor: usize, page: usize) -> usize {
    first.min(cursor).max((cursor + 1).saturating_sub(page))
}

#[cfg(test)]
mod draw_tests;
#[cfg(test)]
mod tests;
