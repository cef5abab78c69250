//! `ramson top`: what is using the memory of a running process, as it changes.
//!
//! `ramson_analysis::live` reads the process and makes rows of it. `model` holds them with what the user has chosen by `keys`,
//! `heading` and `table` are its text, `charts` its pictures, `draw` puts it on the screen. `host` is the list of processes.

pub mod charts;
mod draw;
mod heading;
mod host;
pub mod keys;
mod model;
mod table;

pub use table::FAINT;

use crate::flags::TopFlags;
use crate::output::{print, print_json};
use crate::screen::{Input, Screen};
use crate::table::{columns, cut_all, say_what_is_missing, words, wrap};
use heading::{Heading, total_text};
use host::Host;
use keys::Request;
use model::Model;
use ramson_analysis::live::picture::Live;
use ramson_analysis::live::shape::{Namer, Wanted};
use ramson_analysis::live::watch::Watched;
use ramson_follow::Pace;
use ramson_source::{Failure, Recording, Selector, open_recordings};
use ratatui::crossterm::event::{KeyEvent, MouseEvent};
use std::thread;

pub fn top(flags: &TopFlags) -> Result<(), Failure> {
    if flags.filters.selection().uses_labels() {
        return Err(Failure::usage(
            "--tagfocus and --tagignore: top shows whole stacks. Filter by frames (--focus, --show …), or see the threads with --view threads",
        ));
    }
    let selectors = flags.sources.iter().map(|source| Selector::parse(source));
    let selectors = selectors.collect::<Result<Vec<_>, _>>()?;
    let alone = alone(flags)?;
    match (flags.once || flags.json, alone) {
        (false, alone) => interactive(flags, alone, &selectors),
        (true, Some(recording)) => stream(flags, recording),
        (true, None) => host::stream(flags, &selectors),
    }
}

/// Returns the profile that the user named, if there is only one.
fn alone(flags: &TopFlags) -> Result<Option<Recording>, Failure> {
    if flags.sources.is_empty() {
        return Ok(None);
    }
    let (mut found, _) = open_recordings(&flags.sources)?;
    if found.len() > 1 && found.iter().any(|recording| recording.running.is_none()) {
        return Err(Failure::usage(format!(
            "{}: some of these have ended, and top shows only running processes. \"ramson report\" sums them",
            flags.sources.join(" ")
        )));
    }
    Ok(found.pop().filter(|_| found.is_empty()))
}

fn stream(flags: &TopFlags, recording: Recording) -> Result<(), Failure> {
    let mut watch = Watch::of(Watched::of(recording), flags)?;
    watch.read_all()?;
    loop {
        // Rates need two moments; a process that is dead has but one.
        if watch.watched.end.is_none() {
            thread::sleep(flags.pause());
            watch.read_all()?;
        }
        // Only on a screen rows keep their places for a while.
        watch.model.arrange();
        let picture = &watch.model.picture;
        if flags.json {
            print_json(
                "top",
                &Live::of(&watch.watched, picture, flags.view(), flags.sort(), flags.most_rows()),
            )?;
        } else {
            print(&text(&watch, flags))?;
        }
        if flags.once {
            say_what_is_missing(&picture.shape.missing_symbols);
        }
        if flags.once || watch.watched.end.is_some() {
            return Ok(());
        }
    }
}

fn text(watch: &Watch, flags: &TopFlags) -> String {
    const WIDTH_OF_A_FILE: usize = 4096;
    let model = &watch.model;
    let heading = Heading::of(&watch.watched);
    let width = columns().unwrap_or(WIDTH_OF_A_FILE);
    let prose = [heading.title, heading.rss].into_iter();
    let prose = prose.chain(heading.split.map(|split| split.line(usize::MAX))).chain(heading.notes);
    // A file keeps what a screen has no room for.
    let wrapped = |line: String| wrap(words(&line), width, 2);
    let mut lines: Vec<String> = prose.flat_map(wrapped).collect();
    lines.extend([String::new(), table::head_without_keys(model, width)]);
    let profiled_ns = model.picture.profiled_ns;
    lines.push(table::total(&model.shown, &total_text(model), width, profiled_ns).to_string());
    let rows = model.rows.iter().take(flags.most_rows());
    let rows = rows.map(|row| table::line(row, width, profiled_ns).to_string());
    cut_all(lines.into_iter().chain(rows))
}

/// Share of one core that looking and drawing may take; the split of RSS and new names have shares of their own.
const SHARE: f64 = 0.0055;

struct Watch {
    watched: Watched,
    namer: Namer,
    model: Model,
}

impl Watch {
    fn of(watched: Watched, flags: &TopFlags) -> Result<Self, Failure> {
        let kind = flags.kind.of_recording();
        let wanted = Wanted {
            names: flags.names.names(),
            selection: flags.frames.selection(&flags.filters),
            kind,
        };
        let namer = Namer::start(&watched.followed.recording, wanted, flags.once || flags.json)?;
        Ok(Self { watched, namer, model: Model::new(kind, flags.view(), flags.sort()) })
    }

    /// Reads all that there is.
    fn read_all(&mut self) -> Result<(), Failure> {
        self.watched.read_split();
        self.read()
    }

    /// Reads what is of the same moment: the profile and resident bytes.
    fn read(&mut self) -> Result<(), Failure> {
        self.model.picture.read(&mut self.watched, &mut self.namer, self.model.view)?;
        self.model.refresh();
        Ok(())
    }
}

enum Shown {
    Host(Box<Host>),
    Process(Box<Watch>),
}

/// Shows one process, or the list of those that are named.
fn interactive(
    flags: &TopFlags,
    alone: Option<Recording>,
    wanted: &[Selector],
) -> Result<(), Failure> {
    // A group may get other processes later.
    let is_alone = alone.is_some() && !wanted.iter().any(Selector::is_group);
    let mut shown = match alone {
        Some(recording) => Shown::Process(Box::new(Watch::of(Watched::of(recording), flags)?)),
        None => Shown::Host(Box::new(Host::find(wanted))),
    };
    let mut screen = Screen::open()?;
    let mut pace = Pace::new(flags.pause(), SHARE);
    let mut page = 1;
    loop {
        if pace.is_due() {
            shown.read_split();
            page = pace.run(|| {
                shown.read()?;
                shown.draw(&mut screen)
            })?;
        }
        let request = match screen.next_input(pace.next())? {
            Input::Key(key) => shown.press(key, page),
            Input::Mouse(mouse) => shown.point(mouse),
            Input::Nothing => continue,
            Input::Gone => return Ok(()),
        };
        match request {
            Request::Done => {}
            Request::Quit => return Ok(()),
            Request::Back if is_alone => {}
            Request::Back => shown = Shown::Host(Box::new(Host::find(wanted))),
            Request::Suspend => screen.suspend()?,
            Request::Redraw => screen.clear()?,
            Request::Open => {
                if let Shown::Host(host) = &mut shown
                    && let Some(watched) = host.take_chosen()
                {
                    shown = Shown::Process(Box::new(Watch::of(watched, flags)?));
                    shown.read()?;
                }
            }
        }
        page = shown.draw(&mut screen)?;
    }
}

impl Shown {
    fn read_split(&mut self) {
        match self {
            Shown::Process(watch) if !watch.model.is_paused => watch.watched.read_split(),
            Shown::Host(_) | Shown::Process(_) => {}
        }
    }

    fn read(&mut self) -> Result<(), Failure> {
        match self {
            Shown::Host(host) => {
                host.read();
                Ok(())
            }
            Shown::Process(watch) if watch.model.is_paused => Ok(()),
            Shown::Process(watch) => watch.read(),
        }
    }

    fn press(&mut self, key: KeyEvent, page: usize) -> Request {
        match self {
            Shown::Host(host) => host.press(key, page),
            Shown::Process(watch) => watch.model.press(key, page),
        }
    }

    fn point(&mut self, mouse: MouseEvent) -> Request {
        match self {
            Shown::Host(host) => host.point(mouse),
            Shown::Process(watch) => {
                watch.model.point(mouse);
                Request::Done
            }
        }
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<usize, Failure> {
        let mut page = 0;
        screen.draw(|frame| {
            page = match self {
                Shown::Host(host) => host.draw(frame),
                Shown::Process(watch) => {
                    let heading = Heading::of(&watch.watched);
                    draw::draw(frame, &mut watch.model, &heading)
                }
            };
        })?;
        Ok(page)
    }
}

#[cfg(test)]
mod draw_tests;
#[cfg(test)]
mod tests;
