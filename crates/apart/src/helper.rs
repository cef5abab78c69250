//! The asker's side of one helper: a child that is asked, watched and ended.

use crate::budget::Budget;
use crate::channel::{Channel, Message};
use crate::confine::Owner;
use crate::failure::Failure;
use crate::serve::{ANSWER, BROKEN, WORD, greeting};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::fs::read_to_string;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a helper that has not answered is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A helper that takes requests takes them at once.
const MOST_TIME_TO_SEND: Duration = Duration::from_secs(10);
/// The program itself takes a few milliseconds.
const MOST_CPU_TO_START: Duration = Duration::from_secs(10);
/// On a busy machine, a second of processor time takes longer.
const WAIT_FOR_CPU: u32 = 6;
const LEAST_WAIT: Duration = Duration::from_secs(60);

/// A process that reads for this one.
pub struct Helper {
    child: Child,
    channel: Channel,
    budget: Budget,
}

impl Helper {
    /// Starts one that becomes `owner`, and waits until it has given up all rights.
    pub fn start(owner: Option<Owner>, budget: Budget) -> Result<Self, Failure> {
        let started = |error: io::Error| Failure::NotStarted(error.to_string());
        let (ours, its) = UnixStream::pair().map_err(started)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORD).current_dir("/").stdin(OwnedFd::from(its));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // An arena of its own would reserve address space, which counts. What the user types is for this process.
        command.env_clear().env("MALLOC_ARENA_MAX", "1").process_group(0);
        let child = command.spawn().map_err(started)?;
        ours.set_read_timeout(Some(LOOK)).map_err(started)?;
        ours.set_write_timeout(Some(MOST_TIME_TO_SEND)).map_err(started)?;
        let mut helper = Self { child, channel: Channel(ours), budget };
        let greeting = greeting(owner, budget.memory_bytes);
        let answer = helper.exchange(0, &greeting, &[], Some(MOST_CPU_TO_START))?;
        match answer.kind {
            ANSWER => Ok(helper),
            _ => Err(Failure::NotStarted(String::from_utf8_lossy(&answer.body).into_owned())),
        }
    }

    /// Asks, and waits for the answer. After a failure there is no helper any more.
    pub fn ask(&mut self, kind: u8, body: &[u8], files: &[BorrowedFd]) -> Result<Vec<u8>, Failure> {
        let answer = self.exchange(kind, body, files, self.budget.cpu)?;
        match answer.kind {
            ANSWER => Ok(answer.body),
            _ => Err(Failure::BadAnswer),
        }
    }

    fn exchange(
        &mut self,
        kind: u8,
        body: &[u8],
        files: &[BorrowedFd],
        most_cpu: Option<Duration>,
    ) -> Result<Message, Failure> {
        let cpu_before = self.cpu().unwrap_or_default();
        let begin = Instant::now();
        let exceeded = |helper: &Self| {
            if helper.is_stopped() {
                return Some(Failure::Stopped);
            }
            let used = helper.cpu().unwrap_or_default().saturating_sub(cpu_before);
            exceeded(most_cpu?, used, begin.elapsed())
        };
        self.limit_cpu(cpu_before, most_cpu);
        let mut failure = None;
        let answer = self.channel.send(kind, body, files).and_then(|()| {
            self.channel.receive(self.budget.memory_bytes, || {
                failure = exceeded(self);
                failure.as_ref().map_or(Ok(()), |_| Err(ErrorKind::TimedOut.into()))
            })
        });
        match answer {
            Ok(Some(message)) if message.files.is_empty() => {
                exceeded(self).map_or(Ok(message), Err)
            }
            Err(error) if failure.is_none() && error.kind() == ErrorKind::InvalidData => {
                Err(Failure::BadAnswer)
            }
            _ => Err(failure.unwrap_or_else(|| self.why_it_ended())),
        }
    }

    /// It ends by itself should this process be gone by then.
    fn limit_cpu(&self, used: Duration, most: Option<Duration>) {
        let seconds = most.map(|most| (used + most).as_secs() + 2);
        // One that has just ended has no limits.
        let limit = Rlimit { current: seconds, maximum: None };
        let _ = prlimit(Some(self.pid()), Resource::Cpu, limit);
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Processor time that it has used; the kernel counts in hundredths of a second.
    pub fn cpu(&self) -> Option<Duration> {
        let stat = read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The name in parentheses may have any characters.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        let ticks = ticks()? + ticks()?;
        Some(Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32)
    }

    /// By a signal: it is a process of the owner, who may send it any.
    fn is_stopped(&self) -> bool {
        let stat = read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    }

    fn end(&mut self) -> Option<ExitStatus> {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().ok()
    }

    fn why_it_ended(&mut self) -> Failure {
        // Once it ends, no signal changes how.
        let status = self.end().unwrap_or_default();
        let abort = Signal::ABORT.as_raw();
        match (status.signal(), status.code()) {
            (Some(signal), _) if signal == abort => Failure::Memory(self.budget.memory_bytes),
            (Some(signal), _) if signal == Signal::XCPU.as_raw() => {
                Failure::Time(self.budget.cpu.unwrap_or_default())
            }
            (Some(signal), _) => Failure::Signal(signal),
            (None, Some(BROKEN)) => Failure::Broken,
            (None, _) => Failure::BadAnswer,
        }
    }
}

/// `Stuck`: it waits for what never comes.
fn exceeded(most: Duration, used: Duration, waited: Duration) -> Option<Failure> {
    let most_wait = (most * WAIT_FOR_CPU).max(LEAST_WAIT);
    match () {
        () if used > most => Some(Failure::Time(most)),
        () if waited > most_wait => Some(Failure::Stuck(most_wait)),
        () => None,
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}
