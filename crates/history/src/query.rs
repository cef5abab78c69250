//! Reading: which processes a history has, what happened when, and one moment of one process as a snapshot.

use crate::apart::Passed;
use crate::database::Database;
use crate::question::{Answer, Moment, Process, Question};
use crate::schema::HistoryError;
use ramson_apart::Failure;
use ramson_reader::Snapshot;
use std::path::Path;

/// A history, opened for reading.
pub struct History(Access);

enum Access {
    Here(Database),
    Apart(Passed),
}

impl History {
    /// Opens a history that may be written to meanwhile. One that belongs to another user is read by a worker, as it was when it was opened.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        Ok(Self(match Passed::open(path)? {
            Some(passed) => Access::Apart(passed),
            None => Access::Here(Database::open(path)?),
        }))
    }

    fn ask(&self, question: Question) -> Result<Answer, HistoryError> {
        match &self.0 {
            Access::Here(database) => database.answer(question),
            Access::Apart(passed) => passed.ask(question),
        }
    }

    fn moments(&self, question: Question) -> Result<Vec<Moment>, HistoryError> {
        match self.ask(question)? {
            Answer::Moments(moments) => Ok(moments),
            _ => Err(HistoryError::Apart(Failure::BadAnswer)),
        }
    }

    fn one(&self, question: Question) -> Result<Option<Moment>, HistoryError> {
        Ok(self.moments(question)?.into_iter().next())
    }

    /// Every process, by the start of its recording.
    pub fn processes(&self) -> Result<Vec<Process>, HistoryError> {
        match self.ask(Question::Processes)? {
            Answer::Processes(processes) => Ok(processes),
            _ => Err(HistoryError::Apart(Failure::BadAnswer)),
        }
    }

    /// The series between two times (both included), each moment once.
    pub fn series(
        &self,
        process: i64,
        from_ns: u64,
        to_ns: u64,
    ) -> Result<Vec<Moment>, HistoryError> {
        self.moments(Question::Series { process, from_ns, to_ns })
    }

    /// The last moment at or before a time.
    pub fn at(&self, process: i64, time_ns: u64) -> Result<Option<Moment>, HistoryError> {
        self.one(Question::At { process, time_ns })
    }

    /// The first moment.
    pub fn first(&self, process: i64) -> Result<Option<Moment>, HistoryError> {
        self.one(Question::First { process })
    }

    /// The moment with the most live bytes.
    pub fn peak(&self, process: i64) -> Result<Option<Moment>, HistoryError> {
        self.one(Question::Peak { process })
    }

    /// The moment of a mark.
    pub fn mark(&self, process: i64, name: &str) -> Result<Option<Moment>, HistoryError> {
        self.one(Question::Mark { process, name: name.to_owned() })
    }

    /// Names and times of the marks of a process.
    pub fn marks(&self, process: i64) -> Result<Vec<(String, u64)>, HistoryError> {
        match self.ask(Question::Marks { process })? {
            Answer::Marks(marks) => Ok(marks),
            _ => Err(HistoryError::Apart(Failure::BadAnswer)),
        }
    }

    /// The whole snapshot of a moment, on the clock of which its header says that it was taken.
    pub fn snapshot(&self, process: i64, moment: &Moment) -> Result<Snapshot, HistoryError> {
        match self.ask(Question::Snapshot { process, moment: Box::new(moment.clone()) })? {
            Answer::Snapshot(snapshot) => Ok(*snapshot),
            _ => Err(HistoryError::Apart(Failure::BadAnswer)),
        }
    }
}

/// Changes between two moments of one process: allocations are a difference; live blocks are those of the later state.
pub fn between(earlier: &Snapshot, later: Snapshot) -> Snapshot {
    let mut range = later;
    for (stack, before) in range.stacks.iter_mut().zip(&earlier.stacks) {
        for (count, before) in stack.lifetimes.iter_mut().zip(before.lifetimes) {
            *count = count.saturating_sub(before);
        }
        let mut before = before.clone();
        let (sampled_before, weighted_before) = before.counters_mut();
        let (sampled, weighted) = stack.counters_mut();
        for (count, before) in sampled.into_iter().zip(sampled_before) {
            *count = count.saturating_sub(*before);
        }
        for (value, before) in weighted.into_iter().zip(weighted_before) {
            *value = (*value - *before).max(0.0);
        }
        if stack.sampled_alloc_objects == 0 {
            // The rest comes from the steps in which counters are kept.
            [stack.alloc_objects, stack.alloc_space] = [0.0; 2];
            [stack.alloc_objects_variance, stack.alloc_space_variance] = [0.0; 2];
        }
    }
    range.header.start_monotonic_ns = earlier.header.last_monotonic_ns;
    range
}
