//! What is kept of a process from one look to the next: on disk, since those of all processes would not fit into memory. It is a row of
//! records, of which the first is from nothing; once the others are as long as it is, all become one.

use crate::changes::{Counted, StackKey, Step, put};
use crate::layout::ProcessRow;
use crate::queue::Change;
use borsh::{BorshDeserialize, BorshSerialize};

/// Facts about a process that outlive the agent.
#[derive(Default)]
pub struct State {
    /// As it was sent last.
    pub row: ProcessRow,
    /// What is counted.
    pub counted: Counted,
    /// Its stacks, ascending, and the hashes of their names.
    pub names: Vec<(StackKey, u64)>,
    /// Bytes on disk: of the first record, and of all.
    first_bytes: u64,
    bytes: u64,
}

/// What a look has found.
#[derive(BorshSerialize, BorshDeserialize)]
pub struct Record {
    /// The process as it is sent.
    pub row: ProcessRow,
    /// New ones.
    pub names: Vec<(StackKey, u64)>,
    /// What has changed.
    pub step: Step,
}

impl State {
    /// Reads it. `None`: it has no whole record.
    pub fn read(mut left: &[u8]) -> Option<Self> {
        let all = left.len();
        let mut state = Self::default();
        while let Ok(record) = Record::deserialize(&mut left) {
            state.apply(record);
            state.bytes = (all - left.len()) as u64;
            if state.first_bytes == 0 {
                state.first_bytes = state.bytes;
            }
        }
        (state.bytes > 0).then_some(state)
    }

    /// What is to be done on disk.
    pub fn change(self, record: Record) -> Change {
        let Ok(more) = borsh::to_vec(&record) else { return Change::End };
        let is_long = self.bytes + more.len() as u64 > 2 * self.first_bytes;
        if self.bytes > 0 && !is_long {
            return Change::Add { at: self.bytes, bytes: more };
        }
        let mut state = self;
        state.apply(record);
        let Self { row, counted, names, .. } = state;
        let whole = Record { row, names, step: counted.whole() };
        borsh::to_vec(&whole).map_or(Change::End, |bytes| Change::Add { at: 0, bytes })
    }

    fn apply(&mut self, record: Record) {
        self.row = record.row;
        self.counted.apply(record.step);
        put(&mut self.names, record.names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_one_when_they_are_long() {
        let mut disk: Vec<u8> = Vec::new();
        let mut longest = 0;
        for look in 0..40 {
            let state = State::read(&disk).unwrap_or_default();
            let names: Vec<_> =
                (0..if look == 0 { 100 } else { 3 }).map(|it| (look * 1000 + it, it)).collect();
            let row = ProcessRow { pid: look as u32, ..ProcessRow::default() };
            let Change::Add { at, bytes } =
                state.change(Record { row, names, step: Step::default() })
            else {
                panic!("it has not ended");
            };
            disk.truncate(at as usize);
            disk.extend(bytes);
            longest = longest.max(disk.len());
            let read = State::read(&disk).unwrap();
            assert_eq!((read.row.pid, read.names.len()), (look as u32, 100 + 3 * look as usize));
            assert!(read.names.is_sorted());
            // A record that was not written whole is not there, and is written over.
            let torn = State::read(&[&disk[..], &disk[..9]].concat()).unwrap();
            assert_eq!(torn.bytes, disk.len() as u64);
        }
        let whole = State::read(&disk).unwrap();
        assert!(longest < 2 * disk.len() && whole.first_bytes > 16 * 100);
    }
}
