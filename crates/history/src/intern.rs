//! What does not change from snapshot to snapshot, kept once: a process's facts, its mappings, and stacks by content (binary and
//! address in its file for each frame), which processes of one program share.

use crate::schema::HistoryError;
use crate::stack_numbers::StackNumbers;
use hashbrown::HashMap;
use ramson_format::mix;
use ramson_reader::{Header, LookupAddress, Mapping, Snapshot, Stack};
use rusqlite::{Connection, OptionalExtension, params};

/// What the history knows already of one process.
#[derive(Debug)]
pub struct Known {
    pub id: i64,
    stacks: StackNumbers,
    /// Of the stacks of the last snapshot: the next one mostly has the same ones, and then new ones.
    last: Vec<u32>,
    mappings: Vec<Mapping>,
    /// By path and build ID.
    binaries: HashMap<(String, Vec<u8>), i64>,
}

fn identity(header: &Header) -> [i64; 4] {
    [
        i64::from(header.pid),
        header.process_start_ticks as i64,
        header.start_realtime_ns as i64,
        header.run_id as i64,
    ]
}

/// The process that this header is of.
pub fn find_process(connection: &Connection, header: &Header) -> rusqlite::Result<Option<i64>> {
    let mut query = connection.prepare_cached(
        "SELECT id FROM processes WHERE pid = ?1 AND start_ticks = ?2 AND start_unix_ns = ?3 AND run_id = ?4",
    )?;
    query.query_row(identity(header), |row| row.get(0)).optional()
}

fn insert_process(connection: &Connection, header: &Header, name: &str) -> rusqlite::Result<i64> {
    let [pid, ticks, start, run] = identity(header);
    connection.execute(
        "INSERT INTO processes (pid, start_ticks, start_unix_ns, run_id, start_monotonic_ns, start_cycles, start_cycles_ns, \
         configured_interval_bytes, max_overhead_ppm, name, comm, exe, command) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            pid,
            ticks,
            start,
            run,
            header.start_monotonic_ns as i64,
            header.start_cycles as i64,
            header.start_cycles_ns as i64,
            header.configured_interval_bytes as i64,
            header.max_overhead_ppm,
            name,
            header.comm,
            header.exe,
            header.command.join("\0"),
        ],
    )?;
    Ok(connection.last_insert_rowid())
}

/// The header of a process, without the numbers that change.
pub fn header(connection: &Connection, process: i64) -> rusqlite::Result<Header> {
    let query = "SELECT pid, start_ticks, start_unix_ns, run_id, start_monotonic_ns, start_cycles, start_cycles_ns, \
                 configured_interval_bytes, max_overhead_ppm, comm, exe, command FROM processes WHERE id = ?1";
    connection.query_row(query, [process], |row| {
        let unsigned = |index| row.get::<_, i64>(index).map(|value| value as u64);
        let command: String = row.get(11)?;
        Ok(Header {
            pid: row.get(0)?,
            process_start_ticks: unsigned(1)?,
            start_realtime_ns: unsigned(2)?,
            run_id: unsigned(3)?,
            start_monotonic_ns: unsigned(4)?,
            start_cycles: unsigned(5)?,
            start_cycles_ns: unsigned(6)?,
            configured_interval_bytes: unsigned(7)?,
            max_overhead_ppm: row.get(8)?,
            comm: row.get(9)?,
            exe: row.get(10)?,
            command: command
                .split('\0')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            ..Header::default()
        })
    })
}

/// The mappings of a process, in the order in which it met them.
pub fn mappings(connection: &Connection, process: i64) -> rusqlite::Result<Vec<Mapping>> {
    let mut query = connection.prepare(
        "SELECT start, end, file_offset, bias, epoch_from, epoch_to, path, build_id \
         FROM mappings JOIN binaries ON binaries.id = binary WHERE process = ?1 ORDER BY number",
    )?;
    let rows = query.query_map([process], |row| {
        let unsigned = |index| row.get::<_, i64>(index).map(|value| value as u64);
        Ok(Mapping {
            start: unsigned(0)?,
            end: unsigned(1)?,
            file_offset: unsigned(2)?,
            bias: unsigned(3)?,
            epochs: row.get(4)?..row.get(5)?,
            path: row.get(6)?,
            build_id: row.get(7)?,
        })
    })?;
    rows.collect()
}

/// The stacks of a process by their number, with its own addresses and without counters.
pub fn stacks(
    connection: &Connection,
    process: i64,
    mappings: &[Mapping],
) -> Result<Vec<Stack>, HistoryError> {
    let places = Places::of(connection, process, mappings)?;
    let mut query = connection.prepare(
        "SELECT number, frames, epoch, flags, first_monotonic_ns \
         FROM process_stacks JOIN stacks ON stacks.id = stack WHERE process = ?1 ORDER BY number",
    )?;
    let mut rows = query.query([process])?;
    let mut stacks = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(0)? != stacks.len() as i64 {
            return Err(HistoryError::Damaged);
        }
        let frames = row.get_ref(1)?.as_blob().map_err(|_| HistoryError::Damaged)?;
        let epoch = row.get(2)?;
        stacks.push(Stack {
            frames: places.runtime_addresses(frames, epoch).ok_or(HistoryError::Damaged)?,
            epoch,
            flags: row.get(3)?,
            first_monotonic_ns: row.get::<_, i64>(4)? as u64,
            ..Stack::default()
        });
    }
    Ok(stacks)
}

/// Where a process had its binaries.
struct Places<'a> {
    by_binary: HashMap<i64, Vec<&'a Mapping>>,
}

impl<'a> Places<'a> {
    fn of(
        connection: &Connection,
        process: i64,
        mappings: &'a [Mapping],
    ) -> rusqlite::Result<Self> {
        let mut query =
            connection.prepare("SELECT binary FROM mappings WHERE process = ?1 ORDER BY number")?;
        let binaries = query.query_map([process], |row| row.get(0))?;
        let mut by_binary: HashMap<i64, Vec<&Mapping>> = HashMap::new();
        for (binary, mapping) in binaries.zip(mappings) {
            by_binary.entry(binary?).or_default().push(mapping);
        }
        Ok(Self { by_binary })
    }

    fn runtime_addresses(&self, mut frames: &[u8], epoch: u32) -> Option<Vec<LookupAddress>> {
        let mut addresses = Vec::new();
        while !frames.is_empty() {
            let binary = take_number(&mut frames)?;
            let address = take_number(&mut frames)?;
            if binary == 0 {
                addresses.push(LookupAddress(address));
                continue;
            }
            let places = self.by_binary.get(&(binary as i64))?;
            let at = |mapping: &&&Mapping| {
                let runtime = address.wrapping_add(mapping.bias);
                mapping.epochs.contains(&epoch) && (mapping.start..mapping.end).contains(&runtime)
            };
            let mapping = places.iter().find(at).or(places.first())?;
            addresses.push(LookupAddress(address.wrapping_add(mapping.bias)));
        }
        Some(addresses)
    }
}

fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

impl Known {
    /// What there is of the process of this header; it is added if there is nothing.
    pub fn load(
        connection: &Connection,
        header: &Header,
        name: &str,
    ) -> Result<Self, HistoryError> {
        let id = match find_process(connection, header)? {
            Some(id) => id,
            None => insert_process(connection, header, name)?,
        };
        let mappings = mappings(connection, id)?;
        let mut numbers = StackNumbers::default();
        for stack in stacks(connection, id, &mappings)? {
            numbers.push(stack);
        }
        Ok(Self { id, stacks: numbers, last: Vec::new(), mappings, binaries: HashMap::new() })
    }

    /// Whether no other writer has added stacks or mappings of this process meanwhile.
    pub fn is_current(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut query = connection.prepare_cached(
            "SELECT (SELECT coalesce(max(number) + 1, 0) FROM process_stacks WHERE process = ?1), \
                    (SELECT coalesce(max(number) + 1, 0) FROM mappings WHERE process = ?1), \
                    (SELECT count(*) FROM processes WHERE id = ?1)",
        )?;
        let counts: (i64, i64, i64) =
            query.query_row([self.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(counts == (self.stacks.len() as i64, self.mappings.len() as i64, 1))
    }

    /// The number of each stack of the snapshot; adds what is new.
    pub fn numbers(
        &mut self,
        connection: &Connection,
        snapshot: &Snapshot,
    ) -> rusqlite::Result<&[u32]> {
        self.add_mappings(connection, &snapshot.mappings)?;
        let last = std::mem::take(&mut self.last);
        for (index, stack) in snapshot.stacks.iter().enumerate() {
            let as_last = last.get(index).copied().filter(|&number| self.stacks.is(number, stack));
            let number = match as_last.or_else(|| self.stacks.find(stack)) {
                Some(number) => number,
                None => {
                    let number = self.stacks.len() as u32;
                    self.add_stack(connection, snapshot, stack, number)?;
                    self.stacks.push(stack.clone());
                    number
                }
            };
            self.last.push(number);
        }
        Ok(&self.last)
    }

    fn add_mappings(
        &mut self,
        connection: &Connection,
        mappings: &[Mapping],
    ) -> rusqlite::Result<()> {
        for mapping in mappings {
            let is_it = |known: &Mapping| {
                let end = mapping.epochs.end;
                Mapping { epochs: known.epochs.start..end, ..known.clone() } == *mapping
            };
            match self.mappings.iter().position(is_it) {
                Some(number) if self.mappings[number].epochs == mapping.epochs => continue,
                Some(number) => {
                    connection.execute(
                        "UPDATE mappings SET epoch_to = ?3 WHERE process = ?1 AND number = ?2",
                        params![self.id, number as i64, mapping.epochs.end],
                    )?;
                    self.mappings[number].epochs = mapping.epochs.clone();
                }
                None => {
                    let binary = self.binary(connection, mapping)?;
                    connection.execute(
                        "INSERT INTO mappings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                        params![
                            self.id,
                            self.mappings.len() as i64,
                            binary,
                            mapping.start as i64,
                            mapping.end as i64,
                            mapping.file_offset as i64,
                            mapping.bias as i64,
                            mapping.epochs.start,
                            mapping.epochs.end,
                        ],
                    )?;
                    self.mappings.push(mapping.clone());
                }
            }
        }
        Ok(())
    }

    fn binary(&mut self, connection: &Connection, mapping: &Mapping) -> rusqlite::Result<i64> {
        let key = (mapping.path.clone(), mapping.build_id.clone());
        if let Some(&id) = self.binaries.get(&key) {
            return Ok(id);
        }
        connection.execute(
            "INSERT OR IGNORE INTO binaries (path, build_id) VALUES (?1, ?2)",
            params![key.0, key.1],
        )?;
        let id = connection.query_row(
            "SELECT id FROM binaries WHERE path = ?1 AND build_id = ?2",
            params![key.0, key.1],
            |row| row.get(0),
        )?;
        self.binaries.insert(key, id);
        Ok(id)
    }

    fn add_stack(
        &mut self,
        connection: &Connection,
        snapshot: &Snapshot,
        stack: &Stack,
        number: u32,
    ) -> rusqlite::Result<()> {
        let mut frames = Vec::new();
        for &address in &stack.frames {
            match snapshot.mapping_at(address, stack.epoch).map(|at| &snapshot.mappings[at]) {
                Some(mapping) => {
                    push_number(&mut frames, self.binary(connection, mapping)? as u64);
                    push_number(&mut frames, address.0.wrapping_sub(mapping.bias));
                }
                None => {
                    push_number(&mut frames, 0);
                    push_number(&mut frames, address.0);
                }
            }
        }
        let id = content(connection, &frames)?;
        let mut insert = connection
            .prepare_cached("INSERT INTO process_stacks VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        insert.execute(params![
            self.id,
            number,
            id,
            stack.epoch,
            stack.flags,
            stack.first_monotonic_ns as i64
        ])?;
        Ok(())
    }
}

/// The stack with these frames.
fn content(connection: &Connection, frames: &[u8]) -> rusqlite::Result<i64> {
    let hash = frames.iter().fold(0x6869_7374, |hash, &byte| mix(hash, u64::from(byte))) as i64;
    let mut query =
        connection.prepare_cached("SELECT id FROM stacks WHERE hash = ?1 AND frames = ?2")?;
    if let Some(id) = query.query_row(params![hash, frames], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    let mut insert =
        connection.prepare_cached("INSERT INTO stacks (hash, frames) VALUES (?1, ?2)")?;
    insert.insert(params![hash, frames])
}
