//! Watches what a worker uses while it is waited for, and whether it gets on, as the kernel tells it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// More than the kernel tells of a process in one of the files.
const MOST_BYTES: usize = 16 << 10;

/// One that looks every 20 ms is late by then.
const MOST_BETWEEN_LOOKS: Duration = Duration::from_millis(40);

/// Looks at one process from time to time.
pub struct Watch {
    files: Files,
    first: Sight,
    /// Time that has passed since it was seen first.
    passed: Duration,
    last: Sight,
    seen: Instant,
    idle: Duration,
    busy: Duration,
}

/// Progress of a process up to one moment.
#[derive(Clone, Copy, Default, PartialEq)]
struct Sight {
    cpu: Duration,
    /// How long it could have run while others had the processors. The kernel adds a wait once it is over.
    queued: Duration,
    /// How often it has waited for something, and got it.
    waits: u64,
    is_runnable: bool,
}

impl Watch {
    pub fn of(pid: u32) -> Self {
        let files = Files::of(pid);
        let first = Sight::of(&files);
        let (passed, idle, busy) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { files, first, passed, last: first, seen: Instant::now(), idle, busy }
    }

    /// Counts anew: it has done nothing since the last look.
    pub fn begin(&mut self) {
        self.first = self.last;
        self.passed = Duration::ZERO;
        self.seen = Instant::now();
        self.idle = Duration::ZERO;
        self.busy = Duration::ZERO;
    }

    pub fn look(&mut self) {
        let sight = Sight::of(&self.files);
        let now = Instant::now();
        // Time beyond that is this process's own delay: others had the processors.
        let passed = (now - self.seen).min(MOST_BETWEEN_LOOKS);
        self.passed += passed;
        let is_queued = sight.is_runnable && sight.cpu == self.last.cpu;
        if !is_queued {
            let queued = sight.queued.saturating_sub(self.first.queued);
            self.busy = self.passed.saturating_sub(queued);
        }
        if !sight.is_runnable && sight == self.last {
            self.idle += passed;
        }
        self.last = sight;
        self.seen = now;
    }

    /// Processor time before.
    pub fn cpu_before(&self) -> Duration {
        self.first.cpu
    }

    /// Time since the beginning, without that in which others had the processors: a busy machine makes no input slow.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Time in which it waited and nothing came. On a busy machine, one that could go on does not wait.
    pub fn idle(&self) -> Duration {
        self.idle
    }
}

/// Kept open, as a worker is looked at after each answer. `None` for a process that has gone.
struct Files {
    status: Option<File>,
    stat: Option<File>,
    schedstat: Option<File>,
}

impl Files {
    fn of(pid: u32) -> Self {
        let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).ok();
        Self { status: open("status"), stat: open("stat"), schedstat: open("schedstat") }
    }
}

fn text(file: Option<&File>) -> String {
    let mut bytes = [0; MOST_BYTES];
    let length = file.and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

impl Sight {
    fn of(files: &Files) -> Self {
        let waits = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
        let waits = text(files.status.as_ref()).lines().find_map(waits).unwrap_or(0);
        let stat = text(files.stat.as_ref());
        // The name in parentheses may have any characters.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let mut fields = fields.split(' ');
        let is_runnable = fields.next() == Some("R");
        let mut ticks = fields.skip(10).map(|field| field.parse::<u64>().unwrap_or(0));
        let ticks = ticks.next().unwrap_or(0) + ticks.next().unwrap_or(0);
        // The kernel counts in hundredths of a second.
        let cpu = Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32;
        // Time on a processor and in its queue, in nanoseconds (sched-stats.rst).
        let schedstat = text(files.schedstat.as_ref());
        let queued_ns = schedstat.split(' ').nth(1).and_then(|number| number.parse().ok());
        let queued = Duration::from_nanos(queued_ns.unwrap_or(0));
        Self { cpu, queued, waits, is_runnable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_waiting_process_is_idle() {
        let begin = |program: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let said = &mut [0; 1];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), said).unwrap();
            child
        };
        let mut waits = begin("echo; read never");
        // It says so before it waits.
        let is_idle = |watch: &mut Watch| {
            watch.look();
            watch.idle() > Duration::ZERO
        };
        let mut watch = Watch::of(waits.id());
        while !is_idle(&mut watch) {}
        let mut computes = begin("echo; while :; do :; done");
        let mut watch = Watch::of(computes.id());
        while watch.busy() < Duration::from_millis(100) {
            watch.look();
        }
        assert_eq!(watch.idle(), Duration::ZERO);
        for child in [&mut waits, &mut computes] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
