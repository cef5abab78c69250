//! A program in a pseudo-terminal: what it draws, read by a terminal emulator, and what is typed at it.

use crate::servers::{Running, clean, installed};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// No picture takes longer to appear, not even on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(120);

/// A terminal and the program that runs in it, in a session of its own.
pub struct Terminal {
    keyboard: File,
    /// Our end of the program's side, which tells the mode that the terminal is in.
    line: OwnedFd,
    screen: Arc<Mutex<vt100::Parser>>,
    /// The command that was started.
    pub running: Running,
}

impl Terminal {
    /// Starts `command` in a terminal of this size.
    #[track_caller]
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(not_zero(rows), not_zero(columns), 0)));
        let mut session = clean(installed("setsid", "util-linux"));
        session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        session.env("TERM", "xterm-256color");
        let end = || Stdio::from(line.try_clone().unwrap());
        session.stdin(end()).stdout(end()).stderr(end());
        tcsetwinsize(&line, size(columns, rows)).unwrap();
        let running = Running(session.spawn().unwrap());
        let keyboard = File::from(master);
        let mut output = keyboard.try_clone().unwrap();
        let shown = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { keyboard, line, screen, running }
    }

    /// Types these bytes.
    pub fn press(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
    }

    /// As long as this is kept, nothing is taken from the program.
    pub fn freeze(&self) -> MutexGuard<'_, vt100::Parser> {
        self.screen.lock().unwrap()
    }

    /// Makes it another size.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(not_zero(rows), not_zero(columns));
        tcsetwinsize(&self.line, size(columns, rows)).unwrap();
    }

    /// Asks the emulator about the screen.
    pub fn ask<T>(&self, question: impl Fn(&vt100::Screen) -> T) -> T {
        question(self.screen.lock().unwrap().screen())
    }

    /// The text on the screen.
    pub fn text(&self) -> String {
        self.ask(|screen| screen.contents())
    }

    /// Waits until the text on the screen `is_so`, and returns it.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(start.elapsed() < MOST_TIME, "in vain: {what}; the screen shows\n{text}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the screen shows `part`.
    #[track_caller]
    pub fn wait_for(&self, part: &str) -> String {
        self.wait_until(part, |text| text.contains(part))
    }

    /// Whether it takes whole lines and shows what is typed, as a shell expects to find it.
    pub fn is_as_usual(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = tcgetattr(&self.line).unwrap().local_modes;
        let is_cooked = modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        is_cooked && self.ask(|screen| !screen.alternate_screen() && !screen.hide_cursor())
    }

    /// Waits for the program's end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        self.running.wait()
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn not_zero(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a screen has rows and columns")
}
