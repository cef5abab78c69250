//! Rows on their way from the look at a process to the queue.

use crate::layout::{FrameRow, HeapRow, MemoryRow, ProcessRow, Row, StackRow, Table};
use crate::queue::{Batch, Change, Queue};
use serde_json::Value;
use std::io;

/// Rows that were found since they were kept last.
#[derive(Default)]
pub struct Rows {
    pub(crate) heap: Vec<HeapRow>,
    pub(crate) stacks: Vec<StackRow>,
    pub(crate) frames: Vec<FrameRow>,
    pub(crate) processes: Vec<ProcessRow>,
    pub(crate) memory: Vec<MemoryRow>,
    pub(crate) states: Vec<(u64, Change)>,
}

/// Takes rows, and has the states of processes.
pub trait Keep {
    /// Fails while states are not as they should be.
    fn settle(&mut self) -> io::Result<()>;
    /// Keeps rows with the states of their processes.
    fn keep(&mut self, rows: Rows) -> io::Result<()>;
    /// State of a process; `None`: it is not known.
    fn state(&self, process: u64) -> Option<Vec<u8>>;
    /// All processes of which something is counted.
    fn processes(&self) -> Vec<u64>;
}

impl Keep for Queue {
    fn settle(&mut self) -> io::Result<()> {
        Self::settle(self)
    }

    fn keep(&mut self, rows: Rows) -> io::Result<()> {
        self.put(&rows.batch())
    }

    fn state(&self, process: u64) -> Option<Vec<u8>> {
        Self::state(self, process)
    }

    fn processes(&self) -> Vec<u64> {
        Self::processes(self)
    }
}

/// Rows for people to read, a JSON object per line; no state is kept.
#[derive(Default)]
pub struct JsonLines(pub String);

impl Keep for JsonLines {
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn keep(&mut self, rows: Rows) -> io::Result<()> {
        self.0 += &rows.to_json_lines();
        Ok(())
    }

    fn state(&self, _: u64) -> Option<Vec<u8>> {
        None
    }

    fn processes(&self) -> Vec<u64> {
        Vec::new()
    }
}

impl Rows {
    /// As they are sent.
    fn batch(self) -> Batch {
        // What others refer to comes first.
        let tables = [
            Table::of(&self.frames),
            Table::of(&self.stacks),
            Table::of(&self.processes),
            Table::of(&self.memory),
            Table::of(&self.heap),
        ];
        Batch {
            tables: tables.into_iter().filter(|table| table.rows > 0).collect(),
            states: self.states,
        }
    }

    /// About so many bytes in memory.
    pub fn bytes(&self) -> usize {
        let of = |(_, change): &(u64, Change)| match change {
            Change::Add { bytes, .. } => bytes.len(),
            Change::End => 0,
        };
        let states: usize = self.states.iter().map(of).sum();
        states + self.heap.len() * size_of::<HeapRow>() + self.frames.len() * size_of::<FrameRow>()
    }

    /// A line for each, for people to read.
    fn to_json_lines(&self) -> String {
        let of_table = |name: &str, rows: serde_json::Result<Value>| match rows {
            Ok(Value::Array(rows)) => rows
                .into_iter()
                .map(|row| format!("{{\"table\":\"{name}\",\"row\":{row}}}\n"))
                .collect(),
            _ => String::new(),
        };
        [
            of_table(FrameRow::TABLE, serde_json::to_value(&self.frames)),
            of_table(StackRow::TABLE, serde_json::to_value(&self.stacks)),
            of_table(ProcessRow::TABLE, serde_json::to_value(&self.processes)),
            of_table(MemoryRow::TABLE, serde_json::to_value(&self.memory)),
            of_table(HeapRow::TABLE, serde_json::to_value(&self.heap)),
        ]
        .concat()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.processes.is_empty() && self.memory.is_empty()
    }
}
