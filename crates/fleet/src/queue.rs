//! What waits to be sent, on disk: batches in the order in which they were made, each with the state of its processes as of then. A batch and
//! its states are one file, so that rows are neither lost nor made twice when the agent is killed. If too much waits, the oldest go.

use crate::layout::Table;
use borsh::{BorshDeserialize, BorshSerialize};
use rustix::fs::syncfs;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Rows that are sent together.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Batch {
    /// By tables.
    pub tables: Vec<Table>,
    /// What becomes of the states of processes.
    pub states: Vec<(u64, Change)>,
}

/// What becomes of a state on disk. To do it twice in a row is the same as to do it once.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Change {
    /// From byte `at` on it has these.
    Add {
        /// As many as are there already.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Its process has ended.
    End,
}

/// The queue of one agent.
pub struct Queue {
    batches: PathBuf,
    states: PathBuf,
    most_bytes: u64,
    next: u64,
    /// Number and bytes of those that wait.
    waiting: BTreeMap<u64, u64>,
    /// A batch whose states could not be written.
    unsettled: Option<u64>,
    /// Rows that were dropped since it was opened.
    pub dropped_rows: u64,
    /// Batches that could not be read any more.
    pub damaged_batches: u64,
    /// Tells this agent's batches from those of others, as long as its folder is kept.
    pub id: String,
    _lock: File,
}

impl Queue {
    /// Opens the queue in a folder, which is made if it is not there, and which no other agent may use meanwhile.
    pub fn open(folder: &Path, most_bytes: u64, new_id: &str) -> io::Result<Self> {
        let [batches, states] = ["batches", "states"].map(|name| folder.join(name));
        for path in [&batches, &states] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        let lock = File::create(folder.join("lock"))?;
        if lock.try_lock().is_err() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let named = folder.join("id");
        let id = match fs::read_to_string(&named) {
            Ok(id) => id,
            Err(_) => {
                put(&named, new_id.as_bytes())?;
                new_id.into()
            }
        };
        let mut waiting = BTreeMap::new();
        for entry in fs::read_dir(&batches)?.flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            match number {
                Some(number) => drop(waiting.insert(number, entry.metadata()?.len())),
                // It was being written.
                None => fs::remove_file(entry.path())?,
            }
        }
        let last = fs::read_to_string(folder.join("states/last")).ok();
        let last = last.and_then(|last| last.parse().ok()).max(waiting.keys().max().copied());
        let next = last.map_or(1, |last: u64| last + 1);
        let latest = waiting.keys().max().copied();
        let mut queue = Self {
            batches,
            states,
            most_bytes,
            next,
            waiting,
            // States are written after their batch.
            unsettled: latest,
            dropped_rows: 0,
            damaged_batches: 0,
            id,
            _lock: lock,
        };
        // On a full disk, what is sent makes room for it.
        let _ = queue.settle();
        Ok(queue)
    }

    /// When something was kept last; nanoseconds since 1970.
    pub fn last_kept_ns(&self) -> Option<u64> {
        let kept = fs::metadata(self.states.join("last")).and_then(|it| it.modified()).ok()?;
        Some(kept.duration_since(UNIX_EPOCH).ok()?.as_nanos() as u64)
    }

    /// Writes the states of the latest batch, if that failed. Until then no state is as it should be.
    pub fn settle(&mut self) -> io::Result<()> {
        if let Some(number) = self.unsettled {
            if let Some(batch) = self.read_or_drop(number)? {
                self.keep_states(number, &batch)?;
            }
            self.unsettled = None;
        }
        Ok(())
    }

    /// Adds a batch, and drops the oldest if too much waits. If it fails, nothing has changed.
    pub fn put(&mut self, batch: &Batch) -> io::Result<()> {
        self.settle()?;
        let bytes = borsh::to_vec(batch)?;
        let number = self.next;
        put_synced(&self.path(number), &bytes)?;
        self.next += 1;
        self.waiting.insert(number, bytes.len() as u64);
        if self.keep_states(number, batch).is_err() {
            self.unsettled = Some(number);
            return Ok(());
        }
        while self.waiting.values().sum::<u64>() > self.most_bytes && self.waiting.len() > 1 {
            let Some((number, _)) =
                self.waiting.first_key_value().map(|(&number, &bytes)| (number, bytes))
            else {
                break;
            };
            self.dropped_rows +=
                self.read(number)?.tables.iter().map(|table| table.rows).sum::<u64>();
            self.remove(number)?;
        }
        Ok(())
    }

    /// The oldest batch, with a number that no other batch of this agent has.
    pub fn first(&mut self) -> io::Result<Option<(u64, Batch)>> {
        while let Some(&number) = self.waiting.keys().next() {
            if self.unsettled == Some(number) {
                self.settle()?;
            }
            if let Some(batch) = self.read_or_drop(number)? {
                return Ok(Some((number, batch)));
            }
        }
        Ok(None)
    }

    /// It was sent.
    pub fn remove(&mut self, number: u64) -> io::Result<()> {
        fs::remove_file(self.path(number))?;
        self.waiting.remove(&number);
        Ok(())
    }

    /// How many batches wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What is counted of a process.
    pub fn state(&self, process: u64) -> Option<Vec<u8>> {
        fs::read(self.state_path(process)).ok()
    }

    /// All processes of which something is counted.
    pub fn processes(&self) -> Vec<u64> {
        let names = fs::read_dir(&self.states).into_iter().flatten().flatten();
        names
            .filter_map(|entry| u64::from_str_radix(entry.file_name().to_str()?, 16).ok())
            .collect()
    }

    fn keep_states(&self, number: u64, batch: &Batch) -> io::Result<()> {
        for (process, change) in &batch.states {
            let path = self.state_path(*process);
            match change {
                Change::Add { at: 0, bytes } => put(&path, bytes)?,
                Change::Add { at, bytes } => {
                    let file = File::options().write(true).open(path)?;
                    file.set_len(*at)?;
                    file.write_all_at(bytes, *at)?;
                }
                Change::End => drop(fs::remove_file(path)),
            }
        }
        put(&self.states.join("last"), number.to_string().as_bytes())?;
        // Before the batch goes, which has them, too.
        Ok(syncfs(File::open(&self.states)?)?)
    }

    /// One that is damaged is dropped.
    fn read_or_drop(&mut self, number: u64) -> io::Result<Option<Batch>> {
        match self.read(number) {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                self.damaged_batches += 1;
                self.remove(number)?;
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn read(&self, number: u64) -> io::Result<Batch> {
        borsh::from_slice(&fs::read(self.path(number))?)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.batches.join(number.to_string())
    }

    fn state_path(&self, process: u64) -> PathBuf {
        self.states.join(format!("{process:016x}"))
    }
}

/// Whole or not at all, also after a power cut.
fn put_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = PathBuf::from(format!("{}.part", path.display()));
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Whole or not at all.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = PathBuf::from(format!("{}.part", path.display()));
    let done = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    // On a full disk, it takes room for nothing.
    done.inspect_err(|_| drop(fs::remove_file(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(rows: u64, at: u64, state: &str) -> Batch {
        let table = Table { name: "heap".into(), columns: "n".into(), rows, bytes: vec![7; 1000] };
        Batch { tables: vec![table], states: vec![(42, Change::Add { at, bytes: state.into() })] }
    }

    #[test]
    fn batches_and_states_outlive_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(folder.path(), 1 << 20, "one").unwrap();
        assert!(Queue::open(folder.path(), 1 << 20, "two").is_err());
        queue.put(&batch(3, 0, "ab")).unwrap();
        queue.put(&batch(4, 2, "cd")).unwrap();
        drop(queue);
        // Killed after the batch was written, and while its state was.
        put(&folder.path().join("batches/3"), &borsh::to_vec(&batch(5, 4, "ef")).unwrap()).unwrap();
        let state = folder.path().join(format!("states/{:016x}", 42));
        fs::write(&state, [fs::read(&state).unwrap(), b"e".to_vec()].concat()).unwrap();
        fs::write(folder.path().join("batches/4.part"), "half").unwrap();
        let mut queue = Queue::open(folder.path(), 1 << 20, "two").unwrap();
        assert_eq!(
            (&*queue.id, queue.waiting(), queue.state(42).unwrap()),
            ("one", 3, b"abcdef".to_vec())
        );
        assert_eq!(queue.processes(), [42]);
        for expected in [(1, 3), (2, 4), (3, 5)] {
            let (number, batch) = queue.first().unwrap().unwrap();
            assert_eq!((number, batch.tables[0].rows), expected);
            queue.remove(number).unwrap();
        }
        drop(queue);
        // Numbers are not used again.
        let mut queue = Queue::open(folder.path(), 1 << 20, "two").unwrap();
        queue.put(&Batch { states: vec![(42, Change::End)], ..batch(1, 0, "") }).unwrap();
        assert_eq!((queue.first().unwrap().unwrap().0, queue.state(42)), (4, None));
    }

    #[test]
    fn full_disk_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(folder.path(), 1 << 20, "one").unwrap();
        queue.put(&batch(1, 0, "ab")).unwrap();
        // A folder in the place of a file, which cannot be written then.
        let [second, last] = ["batches/2", "states/last"].map(|name| folder.path().join(name));
        fs::create_dir(&second).unwrap();
        queue.put(&batch(2, 2, "cd")).unwrap_err();
        assert_eq!((queue.waiting(), queue.state(42).unwrap()), (1, b"ab".to_vec()));
        assert!(!folder.path().join("batches/2.part").exists());
        fs::remove_dir(&second).unwrap();
        fs::remove_file(&last).unwrap();
        fs::create_dir(&last).unwrap();
        // The batch is kept, and its states are not all.
        queue.put(&batch(2, 2, "cd")).unwrap();
        queue.settle().unwrap_err();
        queue.put(&batch(3, 4, "ef")).unwrap_err();
        // Those before it can be sent, which makes room.
        assert_eq!(queue.first().unwrap().unwrap().0, 1);
        drop(queue);
        let mut queue = Queue::open(folder.path(), 1 << 20, "one").unwrap();
        queue.remove(1).unwrap();
        queue.first().unwrap_err();
        fs::remove_dir(&last).unwrap();
        queue.put(&batch(3, 4, "ef")).unwrap();
        assert_eq!((queue.waiting(), queue.state(42).unwrap()), (2, b"abcdef".to_vec()));
        // Damaged ones keep no other from being sent.
        fs::write(&second, "").unwrap();
        assert_eq!(queue.first().unwrap().unwrap().0, 3);
        fs::write(folder.path().join("batches/3"), "?").unwrap();
        drop(queue);
        let mut queue = Queue::open(folder.path(), 1 << 20, "one").unwrap();
        assert_eq!((queue.first().unwrap().is_none(), queue.damaged_batches), (true, 1));
        assert!(queue.last_kept_ns().is_some());
    }

    #[test]
    fn full_queue_drops_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Queue::open(folder.path(), 2500, "one").unwrap();
        let dropped = [1, 2, 3, 4].map(|rows| {
            queue.put(&batch(rows, 0, "a")).unwrap();
            queue.dropped_rows
        });
        assert_eq!(dropped, [0, 0, 1, 1 + 2]);
        assert_eq!(queue.first().unwrap().unwrap().0, 3);
        // One that is larger than all that may wait is sent all the same.
        let large = Batch {
            tables: vec![Table { bytes: vec![0; 9000], ..batch(9, 0, "a").tables.remove(0) }],
            states: vec![],
        };
        queue.put(&large).unwrap();
        assert_eq!((queue.dropped_rows, queue.waiting()), (1 + 2 + 3 + 4, 1));
    }
}
