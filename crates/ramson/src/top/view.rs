//! One process under watch, and the loop that shows it until the user has seen enough.

use super::TopOptions;
use super::draw::{Palette, draw};
use super::heading::Heading;
use super::host::Host;
use super::keys::Request;
use super::model::{Choice, Model};
use super::pace::Pace;
use super::row::View;
use super::screen::{Input, Screen};
use super::shape::{Namer, Wanted};
use super::watch::Watched;
use crate::failure::Failure;
use ratatui::crossterm::event::KeyEvent;
use std::fs;

/// What looking and drawing may take of one core; the split of RSS and new names have shares of their own.
pub const SHARE: f64 = 0.013;

/// A process, and what is shown of it.
pub struct Watch {
    pub watched: Watched,
    pub model: Model,
    namer: Namer,
}

impl Watch {
    pub fn open(source: &str, options: &TopOptions) -> Result<Self, Failure> {
        Self::of(Watched::open(source)?, options)
    }

    pub fn of(watched: Watched, options: &TopOptions) -> Result<Self, Failure> {
        let wanted = Wanted {
            names: options.names.clone(),
            filters: options.filters.clone(),
            kind: options.kind.only(),
        };
        let is_patient = options.once || options.json;
        let namer = Namer::start(&watched.source, wanted, is_patient)?;
        let model = Model::new(options.kind.only(), Choice::new(options.view, options.sort));
        Ok(Self { watched, model, namer })
    }

    /// Reads the process, and takes the names that have been found.
    pub fn read(&mut self) -> Result<(), Failure> {
        self.watched.read();
        let Self { watched, model, namer, .. } = self;
        namer.ask(&watched.source, watched.snapshot());
        if let Some(shape) = namer.answer() {
            model.set_shape(shape?);
        }
        if model.choice.view == View::Threads {
            name_threads(model, watched.pid);
        }
        model.update(watched.snapshot(), watched.now_ns());
        Ok(())
    }

    /// Until the stacks that are known have names.
    pub fn wait_for_names(&mut self) -> Result<(), Failure> {
        if let Some(shape) = self.namer.wait() {
            self.model.set_shape(shape?);
        }
        Ok(())
    }
}

/// Names of threads that run; those of others are kept.
fn name_threads(model: &mut Model, pid: u32) {
    let mut unknown: Vec<u32> = model.moments.pieces().map(|piece| piece.tid).collect();
    unknown.sort_unstable();
    unknown.dedup();
    for tid in unknown {
        if !model.thread_names.contains_key(&tid)
            && let Ok(name) = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))
        {
            model.thread_names.insert(tid, name.trim_end().to_owned());
        }
    }
}

/// What is on the screen.
enum Shown {
    Host(Host),
    Process(Box<Watch>),
}

pub fn interactive(options: &TopOptions, source: Option<&str>) -> Result<(), Failure> {
    let mut shown = match source {
        Some(source) => Shown::Process(Box::new(Watch::open(source, options)?)),
        None => Shown::Host(Host::find()),
    };
    let is_alone = source.is_some();
    let mut screen = Screen::open()?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let palette = Palette { has_colours: !no_colour };
    let mut pace = Pace::new(options.pause(), SHARE);
    let mut page = 1;
    loop {
        let is_due = pace.is_due();
        if is_due {
            page = pace.run(|| {
                shown.read()?;
                shown.draw(&mut screen, palette)
            })?;
        }
        let key = match screen.next_input(pace.next())? {
            Input::Key(key) => key,
            Input::Nothing => continue,
            Input::Gone => return Ok(()),
        };
        match shown.press(key, page) {
            Request::Done => {}
            Request::Quit => return Ok(()),
            Request::Back if is_alone => {}
            Request::Back => shown = Shown::Host(Host::find()),
            Request::Suspend => screen.suspend()?,
            Request::Redraw => screen.clear()?,
            Request::Open => {
                if let Shown::Host(host) = &mut shown
                    && let Some(watched) = host.take_chosen()
                {
                    shown = Shown::Process(Box::new(Watch::of(watched, options)?));
                    shown.read()?;
                }
            }
        }
        page = shown.draw(&mut screen, palette)?;
    }
}

impl Shown {
    fn read(&mut self) -> Result<(), Failure> {
        match self {
            Shown::Host(host) => {
                host.read();
                Ok(())
            }
            Shown::Process(watch) if watch.model.choice.is_paused => Ok(()),
            Shown::Process(watch) => watch.read(),
        }
    }

    fn press(&mut self, key: KeyEvent, page: usize) -> Request {
        match self {
            Shown::Host(host) => host.press(key, page),
            Shown::Process(watch) => watch.model.press(key, page),
        }
    }

    fn draw(&mut self, screen: &mut Screen, palette: Palette) -> Result<usize, Failure> {
        let mut page = 0;
        screen.draw(|frame| {
            page = match self {
                Shown::Host(host) => host.draw(frame, palette),
                Shown::Process(watch) => {
                    let heading = Heading::of(&watch.watched);
                    draw(frame, &mut watch.model, &heading, palette)
                }
            };
        })?;
        Ok(page)
    }
}
