//! Programs that wait to be told what to do (`tests/programs/waits.c`), and what `ramson trim` says of them.

use crate::program;
use crate::servers::*;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;

/// System calls in which `waits` waits: read, poll, select, pause, nanosleep, semop, msgrcv, flock, rt_sigtimedwait,
/// futex, restart_syscall, semtimedop, clock_nanosleep, epoll_wait, pselect6, ppoll, recvmmsg, io_uring_enter.
const WAITING_CALLS: [&str; 18] = [
    "0", "7", "23", "34", "35", "65", "70", "73", "128", "202", "219", "220", "230", "232", "270",
    "271", "299", "426",
];

/// A program that is told things line by line, and answers so.
pub struct Talking {
    /// The program.
    pub running: Running,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Talking {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running(piped.process_group(0).spawn().unwrap());
        let input = running.0.stdin.take().unwrap();
        let output = BufReader::new(running.0.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { running, input, lines }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.running.0.id()
    }

    /// Its next line.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(MOST_TIME).unwrap_or_else(|error| panic!("no line: {error}"))
    }

    /// The number of its next line, which begins with `what`.
    #[track_caller]
    pub fn expect(&self, what: &str) -> i64 {
        let line = self.line();
        let number = line.strip_prefix(what).and_then(|number| number.trim().parse().ok());
        number.unwrap_or_else(|| panic!("{what}? {line}"))
    }

    /// Gives it a line.
    #[track_caller]
    pub fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
}

/// `tests/programs/waits.c`.
pub struct Waiting {
    /// The program.
    pub talking: Talking,
    how: String,
}

impl Waiting {
    /// Starts it with a changed environment, and waits until it is about to wait.
    pub fn start(how: &str, set: impl Fn(&mut Command)) -> Self {
        Self::start_program(program("waits.c"), how, set)
    }

    /// The same program, built otherwise.
    pub fn start_program(program: PathBuf, how: &str, set: impl Fn(&mut Command)) -> Self {
        let mut command = clean(program);
        set(command.arg(how));
        let talking = Talking::start(&mut command);
        talking.expect("ready");
        Self { talking, how: how.to_owned() }
    }

    /// Starts it.
    pub fn plain(how: &str) -> Self {
        Self::start(how, |_| {})
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.talking.pid()
    }

    /// Waits until its first thread waits in one of `calls`.
    #[track_caller]
    pub fn until_it_waits_in(&self, calls: &[&str]) {
        let path = format!("/proc/{}/syscall", self.pid());
        wait_until(&format!("{} waits in {calls:?}", self.how), || {
            let call = fs::read_to_string(&path).unwrap();
            call.split_whitespace().next().is_some_and(|number| calls.contains(&number))
        });
    }

    /// Waits until its first thread waits.
    #[track_caller]
    pub fn until_it_waits(&self) {
        self.until_it_waits_in(&WAITING_CALLS);
    }

    /// Ends the wait by a line, and returns what came of it.
    #[track_caller]
    pub fn release(&mut self, line: &str) -> i64 {
        self.talking.tell(line);
        self.talking.expect(&self.how)
    }
}

/// Trims a process, and returns what `ramson trim` prints.
#[track_caller]
pub fn trim(scratch: &Scratch, pid: u32) -> Json {
    let mut command = ramson(scratch);
    Json::parse(
        &finish(command.args(["trim", "--force", "--json", &pid.to_string()])).good().text(),
    )
}

/// Returns the one line on standard error of a trim that is refused.
#[track_caller]
pub fn refusal(scratch: &Scratch, pid: u32) -> String {
    let outcome = finish(ramson(scratch).args(["trim", "--force", &pid.to_string()]));
    assert_eq!((outcome.status, outcome.text().as_str()), (1, ""), "{outcome:?}");
    assert_eq!(outcome.remarks.len(), 1, "{outcome:?}");
    outcome.remarks[0].clone()
}
