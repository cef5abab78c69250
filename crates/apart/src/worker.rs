//! The asker's side of one worker: a child that is asked, watched and ended.

use crate::budget::Budget;
use crate::channel::{Channel, Message};
use crate::failure::Failure;
use crate::owner::Owner;
use crate::proc::wanted;
use crate::serve::{ANSWER, BROKEN, DENIED, FILE, GONE, Role, WANTED, WORD};
use crate::watch::Watch;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// How often a worker that has not answered is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// A worker that takes requests takes them at once.
const MOST_TIME_TO_SEND: Duration = Duration::from_secs(10);
/// How long a killed worker may take to end. It ends at once, unless it waits in the kernel for something that may never come.
const MOST_TIME_TO_END: Duration = Duration::from_millis(500);

/// A process that reads for this one.
pub struct Worker {
    child: Child,
    channel: Channel,
    /// First message, until it has been sent.
    greeting: Option<Vec<u8>>,
    /// Whose processes' files it may have.
    owner: Owner,
    budget: Budget,
    watch: Watch,
}

/// The result of a request.
pub struct Outcome {
    pub answer: Result<Vec<u8>, Failure>,
    /// How long it took.
    pub time: Duration,
}

/// Most that a request may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until the answer has come; `None`: as long as it takes.
    pub time: Option<Duration>,
    /// Without progress.
    pub idle: Duration,
}

impl Worker {
    /// Starts one. It gives up what its role does not take before it answers.
    pub fn start(role: &Role, owner: Owner, budget: Budget) -> Result<Self, Failure> {
        let started = |error: io::Error| Failure::NotStarted(error.to_string());
        let (ours, its) = UnixStream::pair().map_err(started)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(WORD).current_dir("/").stdin(OwnedFd::from(its));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // An arena of its own would reserve address space, which counts. The signals of the user's keyboard are for this process.
        command.env_clear().env("MALLOC_ARENA_MAX", "1").process_group(0);
        let child = command.spawn().map_err(started)?;
        ours.set_read_timeout(Some(LOOK)).map_err(started)?;
        ours.set_write_timeout(Some(MOST_TIME_TO_SEND)).map_err(started)?;
        let watch = Watch::of(child.id());
        let greeting = Some(borsh::to_vec(role).map_err(started)?);
        Ok(Self { child, channel: Channel(ours), greeting, owner, budget, watch })
    }

    /// Asks, and waits for the answer. After a failure it is to be ended.
    pub fn ask(&mut self, kind: u8, body: &[u8], files: &[BorrowedFd], most: Limits) -> Outcome {
        self.watch.begin();
        self.limit_cpu(self.watch.cpu_before(), most.time);
        let exceeded = |watch: &Watch| match most.time {
            Some(_) if watch.idle() > most.idle => Some(Failure::Stuck(most.idle)),
            Some(time) if watch.busy() <= time => None,
            Some(time) if watch.idle() > time / 2 => Some(Failure::Stuck(time)),
            Some(time) => Some(Failure::Time(time)),
            None => None,
        };
        let answer = self.greet(&exceeded).and_then(|()| {
            let answer = self.exchange(kind, body, files, &exceeded)?;
            Some(answer.body).filter(|_| answer.kind == ANSWER).ok_or(Failure::BadAnswer)
        });
        Outcome { answer, time: self.watch.busy() }
    }

    /// Tells its role, if it has just been started.
    fn greet(&mut self, exceeded: &impl Fn(&Watch) -> Option<Failure>) -> Result<(), Failure> {
        let Some(greeting) = self.greeting.take() else { return Ok(()) };
        let answer = self.exchange(0, &greeting, &[], exceeded)?;
        match answer.kind {
            ANSWER => Ok(()),
            GONE => Err(Failure::Gone),
            DENIED => Err(Failure::Denied),
            _ => Err(Failure::NotStarted(String::from_utf8_lossy(&answer.body).into_owned())),
        }
    }

    fn exchange(
        &mut self,
        kind: u8,
        body: &[u8],
        files: &[BorrowedFd],
        exceeded: &impl Fn(&Watch) -> Option<Failure>,
    ) -> Result<Message, Failure> {
        let Self { channel, owner, budget, watch, .. } = self;
        let mut failure = None;
        let mut look = || {
            watch.look();
            failure = exceeded(watch);
            failure.as_ref().map_or(Ok(()), |_| Err(ErrorKind::TimedOut.into()))
        };
        let mut answer = channel
            .send(kind, body, files)
            .and_then(|()| channel.receive(budget.memory_bytes, &mut look));
        while let Ok(Some(Message { kind: WANTED, body, .. })) = &answer {
            // Questions without end count, too.
            if look().is_err() {
                break;
            }
            let file = opened(body.clone(), *owner, &mut look);
            let file: Vec<_> = file.iter().map(AsFd::as_fd).collect();
            let sent = channel.send(FILE, &[], &file);
            answer = sent.and_then(|()| channel.receive(budget.memory_bytes, &mut look));
        }
        match answer {
            Ok(Some(message)) => {
                watch.look();
                exceeded(watch).map_or(Ok(message), Err)
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
        let _ = prlimit(Some(Pid::from_child(&self.child)), Resource::Cpu, limit);
    }

    /// Ends it. `None`: it waits in the kernel, and ends when that comes to an end.
    pub fn end(&mut self) -> Option<ExitStatus> {
        // It may have ended by itself.
        let _ = self.child.kill();
        let begin = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            match self.child.try_wait() {
                Ok(None) if begin.elapsed() < MOST_TIME_TO_END => {}
                ended => return ended.unwrap_or_default(),
            }
            sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }

    /// Whether it has ended since.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn why_it_ended(&mut self) -> Failure {
        // Once it ends, no signal changes how.
        let status = self.end().unwrap_or_default();
        let abort = Signal::ABORT.as_raw();
        match (status.signal(), status.code()) {
            (Some(signal), _) if signal == abort => Failure::Memory(self.budget.memory_bytes),
            (Some(signal), _) if signal == Signal::XCPU.as_raw() => {
                Failure::Time(self.budget.time.unwrap_or_default())
            }
            (Some(signal), _) => Failure::Signal(signal),
            (None, Some(BROKEN)) => Failure::Broken,
            (None, _) => Failure::BadAnswer,
        }
    }
}

/// A file of /proc that a worker wants. Who opens it may wait for the process, so a thread does that, which ends with this process.
fn opened(
    path: Vec<u8>,
    owner: Owner,
    mut wait: impl FnMut() -> io::Result<()>,
) -> Option<std::fs::File> {
    let (says, hears) = mpsc::channel();
    let open = move || says.send(wanted(&path, owner)).unwrap_or_default();
    thread::Builder::new().spawn(open).ok()?;
    loop {
        match hears.recv_timeout(LOOK) {
            Ok(file) => return file,
            Err(mpsc::RecvTimeoutError::Timeout) => wait().ok()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
