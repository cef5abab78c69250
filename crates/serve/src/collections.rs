//! Go programs whose collections a page shows: they are watched from one request to the next.

use crate::sources::Entry;
use ramson_analysis::gc::{BETWEEN, Gc, Watcher};
use ramson_analysis::naming::Names;
use ramson_analysis::question::Question;
use ramson_analysis::selection::Selection;
use ramson_profile::OwnFrames;
use ramson_source::Failure;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Nobody looks at a process any more that was not asked for so long.
const LOOKED_AT: Duration = Duration::from_secs(20);
/// Then the counts begin anew.
const MOST_TIME: Duration = Duration::from_secs(3600);
/// Collections in an answer.
const MOST: usize = 60;
/// Stacks in an answer.
const ROWS: usize = 10;

type Watched = Arc<Mutex<(Instant, Watcher)>>;

/// Processes that are watched, by their IDs, each by a thread of its own.
#[derive(Clone, Default)]
pub struct Collections(Arc<Mutex<HashMap<u32, Watched>>>);

impl Collections {
    /// What was seen of a process since it is watched: from now on, if it was not.
    pub fn of(&self, entry: &Entry, names: &Names) -> Result<Gc, Failure> {
        let pid = entry.pid.filter(|_| entry.is_running);
        let gone = || Failure::not_found(format!("{}: no running process", entry.source));
        let pid = pid.ok_or_else(gone)?;
        let known = self.all().get(&pid).cloned();
        let watched = match known {
            Some(watched) => watched,
            None => {
                let new = Arc::new(Mutex::new((Instant::now(), begin(pid, names)?)));
                let watched = self.all().entry(pid).or_insert_with(|| new.clone()).clone();
                if Arc::ptr_eq(&new, &watched) {
                    let own = self.clone();
                    thread::spawn(move || own.follow(pid, &new));
                }
                watched
            }
        };
        let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.0 = Instant::now();
        let mut found = watched.1.found()?;
        found.collections.drain(..found.collections.len().saturating_sub(MOST));
        Ok(found)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u32, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow(self, pid: u32, watched: &Watched) {
        loop {
            thread::sleep(BETWEEN);
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            let (asked, watcher) = &mut *watched;
            let is_over = asked.elapsed() > LOOKED_AT || watcher.age() > MOST_TIME;
            if is_over || watcher.look().is_err() {
                self.all().remove(&pid);
                return;
            }
        }
    }
}

fn begin(pid: u32, names: &Names) -> Result<Watcher, Failure> {
    Watcher::begin(&Question {
        sources: vec![pid.to_string()],
        names: names.clone(),
        selection: Selection { own_frames: Some(OwnFrames::default()), ..Selection::default() },
        rows: ROWS,
        ..Question::default()
    })
}
