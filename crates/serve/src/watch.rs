//! Watches the processes that are served, in a thread of its own and for a bounded share of a core.

use crate::moments::{Moment, Seen};
use crate::sources::Sources;
use ramson_analysis::attachment::is_detached;
use ramson_analysis::live::processes::{Process, Processes};
use ramson_analysis::live::watch::free_or_held;
use ramson_analysis::terms::Terms;
use ramson_follow::Pace;
use ramson_process::Term;
use ramson_process::clock::unix_ns;
use ramson_source::Selector;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Share of a core for the processes that somebody looks at; all others together take what `Processes` allows.
const SHARE: f64 = 0.05;
/// The split of RSS of the others, one process after another: the kernel walks a page table for it.
const SPLIT_SHARE: f64 = 0.003;
/// One event a second at most.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// Free memory is not known any more after this.
const MOST_AGE: Duration = Duration::from_secs(10);
/// The terms of RSS are of a moment no longer than this before it.
const MOST_SPLIT_AGE: Duration = Duration::from_millis(1500);
const STEP: Duration = Duration::from_millis(200);

/// The moments that have been seen, and the processes that clients look at.
#[derive(Default)]
pub struct Watch {
    seen: Mutex<Seen>,
    /// How many look at each process.
    looked_at: Mutex<HashMap<u32, usize>>,
}

/// A client looks at a process as long as there is this.
pub struct Look {
    watch: Arc<Watch>,
    pid: u32,
}

impl Watch {
    /// Watches until it is dropped.
    pub fn start(sources: &Sources) -> Arc<Self> {
        let wanted: Vec<Selector> =
            sources.named().iter().filter_map(|source| Selector::parse(source).ok()).collect();
        let watch = Arc::new(Self::default());
        let weak = Arc::downgrade(&watch);
        thread::spawn(move || keep_watching(&weak, &wanted));
        watch
    }

    /// The moments that have been seen.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a client looks at the process.
    pub fn look_at(self: &Arc<Self>, pid: u32) -> Look {
        *self.looked_at().entry(pid).or_default() += 1;
        Look { watch: self.clone(), pid }
    }

    fn looked_at(&self) -> MutexGuard<'_, HashMap<u32, usize>> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        let mut looked_at = self.watch.looked_at();
        if let Some(count) = looked_at.get_mut(&self.pid) {
            *count -= 1;
            if *count == 0 {
                looked_at.remove(&self.pid);
            }
        }
    }
}

fn keep_watching(watch: &Weak<Watch>, wanted: &[Selector]) {
    let mut processes = Processes::find(wanted);
    let mut pace = Pace::new(LEAST_PAUSE, SHARE);
    let mut split_pace = Pace::new(LEAST_PAUSE, SPLIT_SHARE);
    let mut turn = 0;
    while let Some(watch) = watch.upgrade() {
        if !processes.list.is_empty() && split_pace.is_due() {
            turn = (turn + 1) % processes.list.len();
            split_pace.run(|| processes.list[turn].watched.read_split());
        }
        let has_read_all = processes.read();
        if has_read_all {
            let mut seen = watch.seen();
            processes.list.iter().for_each(|process| note(&mut seen, process));
            for process in processes.ended.drain(..) {
                note(&mut seen, &process);
                let how = process.watched.end.clone().unwrap_or_default();
                seen.end(process.watched.followed.pid, how);
            }
        }
        let looked_at: Vec<u32> = watch.looked_at().keys().copied().collect();
        if !looked_at.is_empty() && pace.is_due() {
            let is_meant =
                |process: &&mut Process| looked_at.contains(&process.watched.followed.pid);
            pace.run(|| {
                for process in processes.list.iter_mut().filter(is_meant) {
                    process.watched.read_split();
                    // A process that was read with all others just now need not be read again.
                    if !has_read_all {
                        process.read();
                        note(&mut watch.seen(), process);
                    }
                }
            });
        }
        drop(watch);
        thread::sleep(STEP);
    }
}

fn note(seen: &mut Seen, process: &Process) {
    let watched = &process.watched;
    let is_fresh = watched.rss_age() < MOST_AGE;
    let free = watched.rss.as_ref().filter(|_| is_fresh).map(free_or_held);
    let split = watched.rss.as_ref().filter(|_| watched.rss_age() < MOST_SPLIT_AGE);
    let moment = Moment {
        unix_ns: unix_ns(),
        // The sum of the terms, if they are known.
        rss: split.map(|rss| rss.bytes).or(watched.rss_bytes),
        live: (!is_detached(&watched.followed.recording)).then_some(process.moments.total.live),
        free: free
            .filter(|(term, free)| *term != Term::Held && free.value > 0.0)
            .map(|(_, free)| free),
        terms: split.map(Terms::of),
    };
    seen.push(
        watched.followed.pid,
        watched.followed.recording.snapshot.header.start_realtime_ns,
        moment,
    );
}
