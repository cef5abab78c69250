//! `ramson top`: who holds the memory of a running process, as it changes.
//!
//! `watch` reads the process, `shape` names its stacks, `sums` and `rows` make numbers and rows of both, `model` holds them with what
//! the user has chosen by `keys`, `heading` and `table` are its text, `draw` puts it on the `screen`. `host` is the list of
//! processes. `pace` keeps all of it cheap.

mod draw;
mod heading;
mod host;
mod kept;
mod keys;
mod model;
mod object;
mod options;
mod pace;
mod row;
mod rows;
mod screen;
mod shape;
mod sums;
mod table;
mod view;
mod watch;

pub use options::TopOptions;

use crate::failure::Failure;
use crate::report::say_what_is_missing;
use crate::text;
use heading::Heading;
use std::thread;
use std::time::Duration;
use table::Columns;
use view::Watch;

const VIEW_EVERY: Duration = Duration::from_millis(250);
const STREAM_EVERY: Duration = Duration::from_secs(1);

pub fn top(options: &TopOptions) -> Result<(), Failure> {
    if options.filters.use_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: top shows whole stacks. Choose by frames (--focus, --show …), or threads by --view threads",
        ));
    }
    match (options.once || options.json, &options.source) {
        (false, source) => view::interactive(options, source.as_deref()),
        (true, Some(source)) => stream(options, source),
        (true, None) => host::stream(options),
    }
}

impl TopOptions {
    fn pause(&self) -> Duration {
        let usual = if self.once || self.json { STREAM_EVERY } else { VIEW_EVERY };
        self.every.map_or(usual, Duration::from_nanos)
    }

    fn most_rows(&self) -> usize {
        if self.rows == 0 { usize::MAX } else { self.rows }
    }
}

/// `--once` and `--json`: to standard output.
fn stream(options: &TopOptions, source: &str) -> Result<(), Failure> {
    let mut watch = Watch::open(source, options)?;
    watch.read()?;
    watch.wait_for_names()?;
    loop {
        // Rates need two moments; a process that is dead has but one.
        if watch.watched.end.is_none() {
            thread::sleep(options.pause());
            watch.read()?;
            watch.wait_for_names()?;
        }
        let out = match options.json {
            true => format!("{}\n", object::object(&watch, options)),
            false => printed(&watch, options),
        };
        text::print(&out)?;
        if options.once {
            say_what_is_missing(&watch.model.shape.missing_symbols);
        }
        if options.once || watch.watched.end.is_some() {
            return Ok(());
        }
    }
}

/// The picture as lines of text.
fn printed(watch: &Watch, options: &TopOptions) -> String {
    const WIDTH_OF_A_FILE: usize = 4096;
    let model = &watch.model;
    let columns = text::columns();
    let heading = Heading::of(&watch.watched);
    let mut lines = vec![heading.title, heading.rss, heading::change_line(model)];
    lines.extend(heading.notes);
    lines.extend(draw::filter_line(model));
    let table = Columns::of(columns.unwrap_or(WIDTH_OF_A_FILE));
    lines.push(String::new());
    lines.push(table::head(model, table));
    let rows = model.rows.iter().take(options.most_rows());
    lines.extend(
        rows.map(|row| {
            table::line(row, table).into_iter().map(|span| span.text).collect::<String>()
        }),
    );
    let cut = lines.iter().map(|line| text::cut(line.trim_end(), columns) + "\n");
    cut.collect()
}

#[cfg(test)]
mod draw_tests;
#[cfg(test)]
mod tests;
