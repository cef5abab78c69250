//! One process under watch, and the loop that shows it until the user has seen enough.

use super::draw::draw;
use super::heading::Heading;
use super::host::Host;
use super::keys::Request;
use super::model::Model;
use super::screen::{Input, Screen};
use crate::flags::TopFlags;
use ramson_analysis::live;
use ramson_analysis::live::pace::Pace;
use ramson_analysis::live::shape::Wanted;
use ramson_analysis::live::watch::Watched;
use ramson_source::{Failure, Recording, Selector};
use ratatui::crossterm::event::KeyEvent;

/// What looking and drawing may take of one core; the split of RSS and new names have shares of their own.
pub const SHARE: f64 = 0.013;

pub struct Watch {
    pub watch: live::picture::Watch,
    pub model: Model,
}

impl Watch {
    pub fn of(watched: Watched, flags: &TopFlags) -> Result<Self, Failure> {
        let kind = flags.kind.of_recording();
        let wanted =
            Wanted { names: flags.names.names(), selection: flags.filters.selection(), kind };
        let watch = live::picture::Watch::of(watched, wanted, flags.once || flags.json)?;
        Ok(Self { watch, model: Model::new(kind, flags.view, flags.sort) })
    }

    pub fn read(&mut self) -> Result<(), Failure> {
        self.watch.read(&mut self.model.picture, self.model.view)?;
        self.model.arrange();
        Ok(())
    }

    /// Until the stacks that are known have names.
    pub fn wait_for_names(&mut self) -> Result<(), Failure> {
        self.watch.wait_for_names(&mut self.model.picture)?;
        self.model.arrange();
        Ok(())
    }
}

enum Shown {
    Host(Host),
    Process(Box<Watch>),
}

/// Of one process, or of the list of those that are named.
pub fn interactive(
    flags: &TopFlags,
    alone: Option<Recording>,
    wanted: &[Selector],
) -> Result<(), Failure> {
    let is_alone = alone.is_some();
    let mut shown = match alone {
        Some(recording) => Shown::Process(Box::new(Watch::of(Watched::of(recording), flags)?)),
        None => Shown::Host(Host::find(wanted)),
    };
    let mut screen = Screen::open()?;
    let mut pace = Pace::new(flags.pause(), SHARE);
    let mut page = 1;
    loop {
        if pace.is_due() {
            page = pace.run(|| {
                shown.read()?;
                shown.draw(&mut screen)
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
            Request::Back => shown = Shown::Host(Host::find(wanted)),
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

    fn draw(&mut self, screen: &mut Screen) -> Result<usize, Failure> {
        let mut page = 0;
        screen.draw(|frame| {
            page = match self {
                Shown::Host(host) => host.draw(frame),
                Shown::Process(watch) => {
                    let heading = Heading::of(&watch.watch.watched);
                    draw(frame, &mut watch.model, &heading)
                }
            };
        })?;
        Ok(page)
    }
}
