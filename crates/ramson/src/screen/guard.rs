//! A child that gives the terminal back where this process cannot: an abort, as a failed allocation ends in, leaves no time for it.
//!
//! It is this program again, with one end of a socket as its standard input. It hears when the terminal is taken and given back; the
//! socket ends with its parent, however that ended.

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::LeaveAlternateScreen;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use std::io::{self, Read, Write, stdin, stdout};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Have the terminal report clicks and the wheel, but not each move of the mouse, and no more.
pub const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
pub const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";
/// The hidden command that the child runs.
pub const COMMAND: &str = "guard-terminal";
const READY: u8 = b'r';
const TAKEN: u8 = b't';
const LEFT: u8 = b'l';
/// A child that is not ready by then is left alone.
const MOST_TIME_TO_START: Duration = Duration::from_secs(5);

/// The parent's end.
pub struct Guard(UnixStream);

impl Guard {
    /// Starts the child, before the terminal is changed: it remembers how it was.
    pub fn start() -> io::Result<Self> {
        let (mut ours, its) = UnixStream::pair()?;
        let mut child = Command::new("/proc/self/exe");
        child.arg(COMMAND).stdin(OwnedFd::from(its)).stderr(Stdio::null());
        child.spawn()?;
        // The `Command` holds the child's end of the socket; here our copy of that end closes.
        drop(child);
        ours.set_read_timeout(Some(MOST_TIME_TO_START))?;
        ours.read_exact(&mut [0])?;
        ours.set_nonblocking(true)?;
        Ok(Self(ours))
    }

    pub fn say_taken(&self) {
        self.say(TAKEN);
    }

    pub fn say_left(&self) {
        self.say(LEFT);
    }

    fn say(&self, word: u8) {
        // Without the child the terminal is given back in all other cases.
        let _ = (&self.0).write(&[word]);
    }
}

/// Runs in the child, until its parent has ended.
pub fn guard() -> io::Result<()> {
    // A signal that ends the parent may be sent to both.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        flag::register(signal, Arc::default())?;
    }
    let before = tcgetattr(stdout()).ok();
    let mut socket = UnixStream::from(rustix::io::dup(stdin())?);
    socket.write_all(&[READY])?;
    let mut words = [0; 64];
    let mut last = LEFT;
    loop {
        match socket.read(&mut words) {
            Ok(count @ 1..) => last = words[count - 1],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
        }
    }
    if last == TAKEN {
        let _ = execute!(stdout(), Print(MOUSE_OFF), LeaveAlternateScreen, Show);
        if let Some(before) = before {
            let _ = tcsetattr(stdout(), OptionalActions::Now, &before);
        }
    }
    Ok(())
}
