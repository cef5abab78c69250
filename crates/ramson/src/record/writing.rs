//! Writing to the history, in a thread of its own: a slow disk does not delay the next snapshot.
//! What is not written yet waits in memory, up to a bound.

use super::followed::Shot;
use ramson_history::{HistoryError, HistoryWriter, Taken};
use ramson_reader::Header;
use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What the writer waits for.
pub enum Event {
    Done(Done),
    /// A signal asks us to end.
    End,
}

/// No snapshot is taken while this much waits.
const MOST_WAITING_BYTES: usize = 96 << 20;

/// What the thread has done, in the order in which it was asked.
pub enum Done {
    Kept(Result<(), HistoryError>, Vec<Shot>),
    /// Whether there is more to be removed.
    Tidied(Result<bool, HistoryError>),
}

enum Job {
    /// One snapshot of each of some processes.
    Keep(Vec<Shot>),
    Tidy(u64),
    Forget(Box<Header>),
}

struct Waiting {
    since: Instant,
    bytes: usize,
}

pub struct Writing {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    is_tidying: bool,
}

impl Writing {
    pub fn start(mut writer: HistoryWriter, events: Sender<Event>) -> Self {
        let (jobs, queue) = mpsc::channel();
        let thread = thread::spawn(move || {
            for job in queue {
                let done = match job {
                    Job::Keep(shots) => {
                        let taken: Vec<Taken> = shots.iter().filter_map(Shot::taken).collect();
                        Done::Kept(writer.append(&taken), shots)
                    }
                    Job::Tidy(now_ns) => {
                        Done::Tidied(writer.tidy(now_ns).map(|removed| removed.has_more))
                    }
                    Job::Forget(header) => {
                        writer.forget(&header);
                        continue;
                    }
                };
                // The asking thread may have ended.
                let _ = events.send(Event::Done(done));
            }
        });
        Self { jobs, thread, waiting: VecDeque::new(), is_tidying: false }
    }

    pub fn has_room(&self) -> bool {
        self.waiting.iter().map(|waiting| waiting.bytes).sum::<usize>() < MOST_WAITING_BYTES
    }

    /// Since when the oldest round waits.
    pub fn behind(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.since.elapsed())
    }

    pub fn keep(&mut self, shots: Vec<Shot>) {
        let bytes = shots.iter().map(Shot::bytes).sum();
        self.waiting.push_back(Waiting { since: Instant::now(), bytes });
        self.ask(Job::Keep(shots));
    }

    /// The oldest round was kept, or was not.
    pub fn settle(&mut self) {
        self.waiting.pop_front();
    }

    pub fn tidy(&mut self, now_ns: u64) {
        self.is_tidying = true;
        self.ask(Job::Tidy(now_ns));
    }

    pub fn is_tidying(&self) -> bool {
        self.is_tidying
    }

    pub fn has_tidied(&mut self) {
        self.is_tidying = false;
    }

    pub fn forget(&self, header: &Header) {
        self.ask(Job::Forget(Box::new(header.clone())));
    }

    fn ask(&self, job: Job) {
        // The thread ends only after `finish`.
        let _ = self.jobs.send(job);
    }

    /// Waits until all of it is written.
    pub fn finish(self) {
        drop(self.jobs);
        let _ = self.thread.join();
    }
}
