//! Parts that do not change from snapshot to snapshot, kept once: a process's facts, its mappings, and stacks by content (binary and
//! address in its file for each frame), which processes of one program share.

use crate::guard::Budget;
use crate::schema::{HistoryError, rows, unsigned};
use hashbrown::{Equivalent, HashMap};
use prost::encoding::{decode_varint, encode_varint};
use ramson_format::{Kind, Root, mix};
use ramson_reader::{Header, LookupAddress, Mapping, Snapshot, Stack};
use rusqlite::{Connection, OptionalExtension, params};

/// Parts of one process that the history contains already.
#[derive(Debug)]
pub struct Known {
    pub id: i64,
    stacks: StackNumbers,
    mappings: Vec<(i64, Mapping)>,
}

fn identity(header: &Header) -> [i64; 4] {
    let (pid, start_ns, run_id) = header.identity();
    let ticks = header.process_start_ticks;
    [i64::from(pid), ticks as i64, start_ns as i64, run_id as i64]
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
         configured_interval_bytes, max_overhead_ppm, name, comm, exe, command, root) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
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
            header.joined_command(),
            header.root.as_ref().map(|root| root.to_bytes()),
        ],
    )?;
    Ok(connection.last_insert_rowid())
}

/// The header of a process, without the numbers that change.
pub fn header(connection: &Connection, process: i64) -> rusqlite::Result<Header> {
    let query = "SELECT pid, start_ticks, start_unix_ns, run_id, start_monotonic_ns, start_cycles, start_cycles_ns, \
                 configured_interval_bytes, max_overhead_ppm, comm, exe, command, root FROM processes WHERE id = ?1";
    connection.query_row(query, [process], |row| {
        let mut header = Header {
            pid: row.get(0)?,
            process_start_ticks: unsigned(row, 1)?,
            start_realtime_ns: unsigned(row, 2)?,
            run_id: unsigned(row, 3)?,
            start_monotonic_ns: unsigned(row, 4)?,
            start_cycles: unsigned(row, 5)?,
            start_cycles_ns: unsigned(row, 6)?,
            configured_interval_bytes: unsigned(row, 7)?,
            max_overhead_ppm: row.get(8)?,
            comm: row.get(9)?,
            exe: row.get(10)?,
            ..Header::default()
        };
        header.set_command(&row.get::<_, String>(11)?);
        let root = row.get::<_, Option<Vec<u8>>>(12)?;
        header.root = root.and_then(|root| Root::from_bytes(&root)).map(Box::new);
        Ok(header)
    })
}

/// The mappings of a process with their binaries, in the order in which it met them.
pub fn mappings(connection: &Connection, process: i64) -> rusqlite::Result<Vec<(i64, Mapping)>> {
    let query = "SELECT start, end, file_offset, bias, epoch_from, epoch_to, path, build_id, binary \
                 FROM mappings JOIN binaries ON binaries.id = binary WHERE process = ?1 ORDER BY number";
    rows(connection, query, [process], |row| {
        let mapping = Mapping {
            start: unsigned(row, 0)?,
            end: unsigned(row, 1)?,
            file_offset: unsigned(row, 2)?,
            bias: unsigned(row, 3)?,
            epochs: row.get(4)?..row.get(5)?,
            path: row.get(6)?,
            build_id: row.get(7)?,
        };
        Ok((row.get(8)?, mapping))
    })
}

/// The stacks of a process by their number, with its own addresses and without counters.
pub fn stacks(
    connection: &Connection,
    process: i64,
    mappings: &[(i64, Mapping)],
    budget: &Budget,
) -> Result<Vec<Stack>, HistoryError> {
    let mut places: HashMap<i64, Vec<&Mapping>> = HashMap::new();
    for (binary, mapping) in mappings {
        places.entry(*binary).or_default().push(mapping);
    }
    let mut query = connection.prepare(
        "SELECT number, frames, epoch, flags, first_monotonic_ns \
         FROM process_stacks JOIN stacks ON stacks.id = stack WHERE process = ?1 ORDER BY number",
    )?;
    let mut rows = query.query([process])?;
    let mut stacks = Vec::new();
    let mut bytes = 0;
    let mut steps = budget.steps;
    while let Some(row) = rows.next()? {
        if row.get::<_, i64>(0)? != stacks.len() as i64 {
            return Err(HistoryError::Damaged);
        }
        let frames = row.get_ref(1)?.as_blob().map_err(|_| HistoryError::Damaged)?;
        // An address may take a byte or two.
        bytes += (size_of::<Stack>() + frames.len() * size_of::<LookupAddress>()) as u64;
        let epoch = row.get(2)?;
        stacks.push(Stack {
            frames: runtime_addresses(&places, frames, epoch, &mut steps)
                .ok_or(HistoryError::Damaged)?,
            epoch,
            flags: row.get(3)?,
            first_monotonic_ns: unsigned(row, 4)?,
            ..Stack::default()
        });
        if bytes > budget.stack_bytes {
            return Err(HistoryError::OverBudget);
        }
    }
    Ok(stacks)
}

/// Addresses in a process of frames by binary; the process had each binary in these `places`. `steps`: places that may be looked at.
fn runtime_addresses(
    places: &HashMap<i64, Vec<&Mapping>>,
    mut frames: &[u8],
    epoch: u32,
    steps: &mut u64,
) -> Option<Vec<LookupAddress>> {
    let mut addresses = Vec::new();
    while !frames.is_empty() {
        let binary = decode_varint(&mut frames).ok()?;
        let mut address = decode_varint(&mut frames).ok()?;
        if binary != 0 {
            let places = places.get(&(binary as i64))?;
            let at = |mapping: &&&Mapping| {
                let runtime = address.wrapping_add(mapping.bias);
                mapping.epochs.contains(&epoch) && (mapping.start..mapping.end).contains(&runtime)
            };
            *steps = steps.checked_sub(places.len() as u64)?;
            let mapping = places.iter().find(at).or(places.first())?;
            address = address.wrapping_add(mapping.bias);
        }
        addresses.push(LookupAddress(address));
    }
    Some(addresses)
}

impl Known {
    /// Loads the process of this header, or adds it if there is none.
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
        stacks(connection, id, &mappings, &Budget::OWN)?
            .into_iter()
            .for_each(|stack| numbers.push(stack));
        Ok(Self { id, stacks: numbers, mappings })
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
        Ok(counts == (self.stacks.count.into(), self.mappings.len() as i64, 1))
    }

    /// The number of each stack of the snapshot; adds what is new.
    pub fn numbers(
        &mut self,
        connection: &Connection,
        snapshot: &Snapshot,
    ) -> rusqlite::Result<Vec<u32>> {
        let binaries = self.add_mappings(connection, &snapshot.mappings)?;
        let mut numbers = Vec::new();
        for stack in &snapshot.stacks {
            numbers.push(self.stacks.find(stack).unwrap_or(self.stacks.count));
            if numbers.last() == Some(&self.stacks.count) {
                self.add_stack(connection, snapshot, stack, &binaries)?;
                self.stacks.push(stack.clone());
            }
        }
        Ok(numbers)
    }

    /// The binary of each.
    fn add_mappings(
        &mut self,
        connection: &Connection,
        mappings: &[Mapping],
    ) -> rusqlite::Result<Vec<i64>> {
        let mut binaries = Vec::new();
        for mapping in mappings {
            let is_it = |(_, known): &(i64, Mapping)| {
                let end = mapping.epochs.end;
                Mapping { epochs: known.epochs.start..end, ..known.clone() } == *mapping
            };
            let number = self.mappings.iter().position(is_it).unwrap_or(self.mappings.len());
            if let Some((binary, known)) = self.mappings.get_mut(number) {
                if known.epochs != mapping.epochs {
                    connection.execute(
                        "UPDATE mappings SET epoch_to = ?3 WHERE process = ?1 AND number = ?2",
                        params![self.id, number as i64, mapping.epochs.end],
                    )?;
                    known.epochs = mapping.epochs.clone();
                }
                binaries.push(*binary);
                continue;
            }
            let binary = binary(connection, mapping)?;
            connection.execute(
                "INSERT INTO mappings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    self.id,
                    number as i64,
                    binary,
                    mapping.start as i64,
                    mapping.end as i64,
                    mapping.file_offset as i64,
                    mapping.bias as i64,
                    mapping.epochs.start,
                    mapping.epochs.end,
                ],
            )?;
            self.mappings.push((binary, mapping.clone()));
            binaries.push(binary);
        }
        Ok(binaries)
    }

    /// With the next number.
    fn add_stack(
        &self,
        connection: &Connection,
        snapshot: &Snapshot,
        stack: &Stack,
        binaries: &[i64],
    ) -> rusqlite::Result<()> {
        let mut frames = Vec::new();
        for &address in &stack.frames {
            let at = snapshot.mapping_at(address, stack.epoch);
            let (binary, bias) = at.map_or((0, 0), |at| (binaries[at], snapshot.mappings[at].bias));
            encode_varint(binary as u64, &mut frames);
            encode_varint(address.0.wrapping_sub(bias), &mut frames);
        }
        let content = content(connection, &frames)?;
        let first_ns = stack.first_monotonic_ns as i64;
        connection
            .prepare_cached("INSERT INTO process_stacks VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute(params![
                self.id,
                self.stacks.count,
                content,
                stack.epoch,
                stack.flags,
                first_ns
            ])?;
        Ok(())
    }
}

fn binary(connection: &Connection, of: &Mapping) -> rusqlite::Result<i64> {
    let key = params![of.path, of.build_id];
    connection.execute("INSERT OR IGNORE INTO binaries (path, build_id) VALUES (?1, ?2)", key)?;
    let query = "SELECT id FROM binaries WHERE path = ?1 AND build_id = ?2";
    connection.query_row(query, key, |row| row.get(0))
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

/// Key that tells a stack from another within a process, as in its profile.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity<Frames>(Kind, u32, Frames);

impl Equivalent<Identity<Vec<LookupAddress>>> for Identity<&[LookupAddress]> {
    fn equivalent(&self, key: &Identity<Vec<LookupAddress>>) -> bool {
        (self.0, self.1, self.2) == (key.0, key.1, &*key.2)
    }
}

/// The numbers of a process's stacks, by what they are.
#[derive(Debug, Default)]
struct StackNumbers {
    numbers: HashMap<Identity<Vec<LookupAddress>>, u32>,
    /// How many were given.
    count: u32,
}

impl StackNumbers {
    fn find(&self, stack: &Stack) -> Option<u32> {
        self.numbers.get(&Identity(stack.kind(), stack.epoch, &*stack.frames)).copied()
    }

    /// Gives a stack the next number.
    fn push(&mut self, stack: Stack) {
        self.numbers.insert(Identity(stack.kind(), stack.epoch, stack.frames), self.count);
        self.count += 1;
    }
}
