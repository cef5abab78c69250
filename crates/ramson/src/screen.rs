//! The terminal: taken over for the view, and given back as it was however the view ends.

mod guard;

use crate::output::keep_terminal_clean;
use guard::{Guard, MOUSE_OFF, MOUSE_ON};
use ramson_process::stat;
use ramson_source::Failure;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyEvent, MouseEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::style::Color;
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgid, getpgrp, getppid, getsid, kill_current_process_group};
use signal_hook::consts::signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

pub use guard::guard;

/// Time that a terminal has to take our last words, after a signal.
const PATIENCE: Duration = Duration::from_millis(500);
/// Our own signal arrives sooner, also on a busy machine.
const MOST_TIME_TO_STOP: Duration = Duration::from_secs(5);
/// Whether the terminal is ours. Giving it back twice would move the cursor.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Gives the terminal back if we abort; none where it could not be started.
static GUARD: OnceLock<Guard> = OnceLock::new();
/// Held while a picture is drawn, so that nothing of it is drawn after the terminal was given back.
static DRAWING: Mutex<()> = Mutex::new(());

type Canvas = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

pub struct Screen {
    canvas: Canvas,
    keyboard: OwnedFd,
    continued: Arc<AtomicBool>,
    has_colours: bool,
}

pub enum Input {
    Key(KeyEvent),
    Mouse(MouseEvent),
    /// Nothing was typed in time, a signal came, or the terminal has a new size.
    Nothing,
    Gone,
}

impl Screen {
    pub fn open() -> Result<Self, Failure> {
        if !stdout().is_terminal() {
            return Err(Failure::usage(
                "standard output is not a terminal. Use --once for one table, or --json for a stream of objects",
            ));
        }
        if std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb") {
            return Err(Failure::usage(
                "TERM=dumb: ramson cannot draw on this terminal. Use --once or --json",
            ));
        }
        let screen = Self::take_over().map_err(|error| {
            leave();
            Failure::failed(format!("cannot take over the terminal: {error}. Use --once or --json"))
        })?;
        keep_terminal_clean();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
        Ok(screen)
    }

    fn take_over() -> io::Result<Self> {
        let keyboard = if stdin().is_terminal() {
            stdin().as_fd().try_clone_to_owned()?
        } else {
            File::open("/dev/tty")?.into()
        };
        if let Ok(guard) = Guard::start() {
            GUARD.get_or_init(|| guard);
        }
        let continued = Arc::new(AtomicBool::new(false));
        flag::register(SIGCONT, continued.clone())?;
        let signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP])?;
        let stopped = continued.clone();
        thread::spawn(move || obey(signals, &stopped));
        enter()?;
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Self { canvas: canvas()?, keyboard, continued, has_colours })
    }

    pub fn draw(&mut self, picture: impl FnOnce(&mut Frame)) -> io::Result<()> {
        if self.continued.swap(false, Relaxed) {
            enter()?;
            self.clear()?;
        }
        let _drawing = DRAWING.lock();
        self.canvas.draw(|frame| {
            picture(frame);
            if !self.has_colours {
                take_colours(frame.buffer_mut());
            }
        })?;
        Ok(())
    }

    /// Draws all of the next picture. (The canvas's own clear asks the terminal where the cursor is, and fails without an answer.)
    pub fn clear(&mut self) -> io::Result<()> {
        execute!(stdout(), Clear(ClearType::All))?;
        self.canvas = canvas()?;
        Ok(())
    }

    /// Stops the whole job, as the terminal would at Ctrl-Z. The next picture finds whether it goes on.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.continued.store(false, Relaxed);
        kill_current_process_group(Signal::TSTP)?;
        let start = Instant::now();
        while !self.continued.load(Relaxed) && start.elapsed() < MOST_TIME_TO_STOP {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns the next input; waits for it `until` this time at most.
    pub fn next_input(&mut self, until: Instant) -> io::Result<Input> {
        loop {
            // Asked of a terminal that has gone, the library would read for ever.
            if self.wait(Duration::ZERO)?.contains(PollFlags::HUP) {
                return Ok(Input::Gone);
            }
            if event::poll(Duration::ZERO)? {
                return Ok(match event::read()? {
                    Event::Key(key) => Input::Key(key),
                    Event::Mouse(mouse) => Input::Mouse(mouse),
                    _ => Input::Nothing,
                });
            }
            let pause = until.saturating_duration_since(Instant::now());
            if pause.is_zero() || self.wait(pause)?.is_empty() {
                return Ok(Input::Nothing);
            }
        }
    }

    /// Until something is typed or the terminal goes; nothing: the time is over, or a signal came.
    fn wait(&self, most: Duration) -> io::Result<PollFlags> {
        let most = Timespec::try_from(most).map_err(io::Error::other)?;
        let mut keyboard = [PollFd::new(&self.keyboard, PollFlags::IN)];
        match poll(&mut keyboard, Some(&most)) {
            Ok(_) | Err(Errno::INTR) => Ok(keyboard[0].revents()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// In a thread of its own: the other one may wait for a terminal that does not answer.
fn obey(mut signals: Signals, continued: &AtomicBool) {
    for signal in signals.forever() {
        match signal {
            SIGTSTP => stop(continued),
            _ => end_at(signal),
        }
    }
}

fn end_at(signal: i32) {
    // Nor must one that takes nothing any more (Ctrl-S) keep us: then the picture stays on it.
    thread::spawn(move || {
        thread::sleep(PATIENCE);
        let _ = disable_raw_mode();
        let _ = emulate_default_handler(signal);
    });
    let _drawing = DRAWING.lock();
    leave();
    // The process that waits for us then sees which signal ended us.
    let _ = emulate_default_handler(signal);
}

/// Gives the terminal back and stops until SIGCONT. If no shell could send SIGCONT, nothing stops, as the
/// kernel would have it.
fn stop(continued: &AtomicBool) {
    let start = Instant::now();
    let mut drawing = DRAWING.try_lock();
    while drawing.is_err() && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
        drawing = DRAWING.try_lock();
    }
    if !has_shell() {
        continued.store(true, Relaxed);
        return;
    }
    match drawing {
        Ok(_) => leave(),
        // It takes nothing: the picture stays on it.
        Err(_) => drop(disable_raw_mode()),
    }
    // Returns when we go on.
    let _ = emulate_default_handler(SIGTSTP);
}

/// Whether some ancestor of this session is in another process group: then it is told when ours stops.
fn has_shell() -> bool {
    const MOST_ANCESTORS: usize = 64;
    let group = getpgrp();
    let session = getsid(None);
    let mut ancestor = getppid();
    for _ in 0..MOST_ANCESTORS {
        let Some(pid) = ancestor else { return false };
        if getsid(Some(pid)) != session {
            return false;
        }
        if getpgid(Some(pid)).is_ok_and(|other| other != group) {
            return true;
        }
        let parent = stat::number(pid.as_raw_pid().cast_unsigned(), 4);
        ancestor = parent.and_then(|parent| Pid::from_raw(parent as i32));
    }
    false
}

pub fn take_colours(picture: &mut Buffer) {
    picture.content.iter_mut().for_each(|cell| cell.fg = Color::Reset);
}

fn canvas() -> io::Result<Canvas> {
    Terminal::new(CrosstermBackend::new(BufWriter::new(stdout())))
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Relaxed);
    GUARD.get().inspect(|guard| guard.say_taken());
    execute!(stdout(), EnterAlternateScreen, Print(MOUSE_ON), Hide)
}

/// Gives the terminal back. If something fails here, the terminal has gone.
fn leave() {
    if !IS_TAKEN.swap(false, Relaxed) {
        return;
    }
    let _ = execute!(stdout(), Print(MOUSE_OFF), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    GUARD.get().inspect(|guard| guard.say_left());
}
