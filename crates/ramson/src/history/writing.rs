//! Writing to the history, in a thread of its own: a slow disk does not delay the next snapshot.
//! Snapshots that are not written yet wait in memory, up to a bound.

use super::kept::Shot;
use ramson_history::{HistoryError, HistoryWriter, Taken};
use ramson_process::clock::unix_ns;
use ramson_reader::Header;
use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// No snapshot is taken while this much waits.
const MOST_WAITING_BYTES: usize = 96 << 20;
/// How often old snapshots are looked for.
const TIDY_NS: u64 = 60_000_000_000;

pub enum Event {
    /// The oldest round was kept, or was not.
    Done(Result<(), HistoryError>, Vec<Shot>),
    End,
}

enum Job {
    /// One snapshot of each of some processes.
    Keep(Vec<Shot>),
    Forget(Box<Header>),
}

pub struct Writing {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
    /// Since when rounds wait, and their bytes; the oldest first.
    waiting: VecDeque<(Instant, usize)>,
}

impl Writing {
    pub fn start(mut writer: HistoryWriter, events: Sender<Event>) -> Self {
        let (jobs, queue) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut tidied_ns = 0;
            for job in queue {
                match job {
                    Job::Keep(shots) => {
                        let kept = keep(&mut writer, &shots, &mut tidied_ns);
                        // The command may have ended.
                        let _ = events.send(Event::Done(kept, shots));
                    }
                    Job::Forget(header) => writer.forget(&header),
                }
            }
        });
        Self { jobs, thread, waiting: VecDeque::new() }
    }

    pub fn has_room(&self) -> bool {
        self.waiting.iter().map(|(_, bytes)| bytes).sum::<usize>() < MOST_WAITING_BYTES
    }

    pub fn behind(&self) -> Option<Duration> {
        self.waiting.front().map(|(since, _)| since.elapsed())
    }

    pub fn keep(&mut self, shots: Vec<Shot>) {
        let bytes = shots.iter().map(|shot| shot.follower.bytes()).sum();
        self.waiting.push_back((Instant::now(), bytes));
        self.ask(Job::Keep(shots));
    }

    /// The oldest round does not wait any more.
    pub fn settle(&mut self) {
        self.waiting.pop_front();
    }

    pub fn forget(&self, header: Header) {
        self.ask(Job::Forget(Box::new(header)));
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

/// First makes room, if it is time: where there is more to be removed, the next round goes on with it.
fn keep(
    writer: &mut HistoryWriter,
    shots: &[Shot],
    tidied_ns: &mut u64,
) -> Result<(), HistoryError> {
    let now_ns = unix_ns();
    if now_ns >= *tidied_ns + TIDY_NS && !writer.tidy(now_ns)?.has_more {
        *tidied_ns = now_ns;
    }
    writer.append(&shots.iter().filter_map(Shot::taken).collect::<Vec<Taken>>())
}
