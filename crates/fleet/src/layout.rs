//! The tables of the fleet, as deploy/clickhouse/schema.sql makes them, and their rows in ClickHouse's RowBinary.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;

/// Version of the tables, which the table `schema` has.
pub const SCHEMA_VERSION: u32 = 1;

/// A row of a table.
pub trait Row: Serialize {
    /// Name of the table.
    const TABLE: &str;
    /// Its columns, in the order in which they are written.
    const COLUMNS: &str;
    /// Writes the columns.
    fn write(&self, out: &mut RowBinary);
}

/// Rows of one table.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Columns.
    pub columns: String,
    /// How many rows they are.
    pub rows: u64,
    /// In RowBinary.
    pub bytes: Vec<u8>,
}

/// ClickHouse's RowBinary: integers are little-endian, strings and arrays begin with their length (LEB128).
#[derive(Default)]
pub struct RowBinary(Vec<u8>);

impl Table {
    /// The rows of a table.
    pub fn of<R: Row>(rows: &[R]) -> Self {
        let mut out = RowBinary::default();
        rows.iter().for_each(|row| row.write(&mut out));
        Self {
            name: R::TABLE.into(),
            columns: R::COLUMNS.into(),
            rows: rows.len() as u64,
            bytes: out.0,
        }
    }
}

impl RowBinary {
    fn length(&mut self, mut length: usize) {
        while length >= 0x80 {
            self.0.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.0.push(length as u8);
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend(text.as_bytes());
    }

    fn number(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }
}

/// So many samples of one stack, process, minute, size, age and sampling interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeapRow {
    /// The process's service.
    pub service: String,
    /// The build that it runs.
    pub version: String,
    /// Stack that allocated.
    pub stack: u64,
    /// Process.
    pub process: u64,
    /// Seconds since 1970 of the minute's beginning.
    pub minute: u32,
    /// Bytes of each sample.
    pub size: u64,
    /// See `age`.
    pub age: u8,
    /// How many.
    pub n: u32,
    /// Sampling interval in bytes.
    pub interval: u64,
}

impl Row for HeapRow {
    const TABLE: &str = "heap";
    const COLUMNS: &str = "service, version, stack, process, minute, size, age, n, interval";

    fn write(&self, out: &mut RowBinary) {
        out.text(&self.service);
        out.text(&self.version);
        out.number(&self.stack.to_le_bytes());
        out.number(&self.process.to_le_bytes());
        out.number(&self.minute.to_le_bytes());
        out.number(&self.size.to_le_bytes());
        out.number(&[self.age]);
        out.number(&self.n.to_le_bytes());
        out.number(&self.interval.to_le_bytes());
    }
}

/// A stack: its frames, leaf first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Hash of the functions' names.
    pub stack: u64,
    /// Frames.
    pub frames: Vec<u64>,
}

impl Row for StackRow {
    const TABLE: &str = "stacks";
    const COLUMNS: &str = "stack, frames";

    fn write(&self, out: &mut RowBinary) {
        out.number(&self.stack.to_le_bytes());
        out.length(self.frames.len());
        self.frames.iter().for_each(|frame| out.number(&frame.to_le_bytes()));
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameRow {
    /// Hash of the next two.
    pub frame: u64,
    /// Name of the function.
    pub function: String,
    /// Source file; empty if it is not known.
    pub file: String,
}

impl Row for FrameRow {
    const TABLE: &str = "frames";
    const COLUMNS: &str = "frame, function, file";

    fn write(&self, out: &mut RowBinary) {
        out.number(&self.frame.to_le_bytes());
        out.text(&self.function);
        out.text(&self.file);
    }
}

/// A process as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
pub struct ProcessRow {
    /// Hash of host, boot and profile.
    pub process: u64,
    /// Service.
    pub service: String,
    /// Build ID of the executable.
    pub version: String,
    /// Name of the host.
    pub host: String,
    /// systemd unit; empty if it has none.
    pub unit: String,
    /// ID of the container; empty outside of one.
    pub container: String,
    /// UID of the Kubernetes pod; empty outside of one.
    pub pod: String,
    /// Name of the program.
    pub program: String,
    /// Process ID on the host.
    pub pid: u32,
    /// Seconds since 1970.
    pub started: u32,
    /// When it was last seen, in milliseconds since 1970: of several rows, the latest counts.
    pub seen: u64,
    /// When it ended, seconds since 1970; 0: it runs.
    pub ended: u32,
    /// How it ended, in a phrase; empty while it runs.
    pub end: String,
}

impl Row for ProcessRow {
    const TABLE: &str = "processes";
    const COLUMNS: &str = "process, service, version, host, unit, container, pod, program, pid, started, seen, ended, end";

    fn write(&self, out: &mut RowBinary) {
        out.number(&self.process.to_le_bytes());
        let texts = [
            &self.service,
            &self.version,
            &self.host,
            &self.unit,
            &self.container,
            &self.pod,
            &self.program,
        ];
        texts.into_iter().for_each(|text| out.text(text));
        out.number(&self.pid.to_le_bytes());
        out.number(&self.started.to_le_bytes());
        out.number(&self.seen.to_le_bytes());
        out.number(&self.ended.to_le_bytes());
        out.text(&self.end);
    }
}

/// Bytes of one term of a process's RSS in a minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Service.
    pub service: String,
    /// Process.
    pub process: u64,
    /// Seconds since 1970 of the minute's beginning.
    pub minute: u32,
    /// Name of the term, as in `ramson report --json`.
    pub term: String,
    /// Resident bytes; differences that do not add up may be negative.
    pub bytes: i64,
}

impl Row for MemoryRow {
    const TABLE: &str = "memory";
    const COLUMNS: &str = "service, process, minute, term, bytes";

    fn write(&self, out: &mut RowBinary) {
        out.text(&self.service);
        out.number(&self.process.to_le_bytes());
        out.number(&self.minute.to_le_bytes());
        out.text(&self.term);
        out.number(&self.bytes.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_written_as_clickhouse_reads_them() {
        let row = StackRow { stack: 0x0102, frames: vec![3; 200] };
        let table = Table::of(&[row]);
        assert_eq!(table.bytes[..10], [2, 1, 0, 0, 0, 0, 0, 0, 0xc8, 1]);
        assert_eq!(table.bytes.len(), 10 + 200 * 8);
        let row = MemoryRow {
            service: "é".into(),
            process: 1,
            minute: 60,
            term: "free".into(),
            bytes: -1,
        };
        let expected =
            [&[2, 0xc3, 0xa9, 1, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 4][..], b"free", &[0xff; 8]]
                .concat();
        assert_eq!(Table::of(&[row]).bytes, expected);
    }
}
