//! heaptrack's interpreted text, versions 1 to 3: every allocation and free, so all numbers are exact.
//!
//! Each line begins with its kind; numbers are hexadecimal, and tables count from 1. `v` versions, `X` command line, `s`
//! string (from version 3 on with its length), `i` instruction pointer with module and frames, `t` node of the call
//! tree, `a` size at a node, `+` and `-` allocation and free of an `a`, `c` milliseconds. As read by heaptrack's own
//! `AccumulatedTraceData::read`.

use crate::build::{Builder, OVERHEAD_BYTES, TABLE_BYTES};
use crate::defect::ImportError;
use crate::format::Format;
use crate::import::{DropFrames, Imported, InuseAt};
use crate::input::{Input, Stop};
use ramson_profile::{Estimate, Function, Line, Location, LookupAddress, SampleType};
use std::collections::HashMap;
use std::sync::Arc;

const NEWEST_VERSION: u64 = 3;
/// heaptrack records 64; inlined frames are not counted.
const MOST_FRAMES: usize = 1024;

/// An `a` line, with what happened to it.
#[derive(Default)]
struct Allocation {
    size: u64,
    node: usize,
    allocated: u64,
    live: i64,
    /// Change of `live` since the peak with this number.
    since_peak: i64,
    peak: u64,
}

/// A `t` line.
struct Node {
    /// Position in `Profile::locations`; `None` if the line names none.
    location: Option<u32>,
    /// Position in the table + 1; 0 at the root. Smaller than its own.
    parent: usize,
}

#[derive(Default)]
struct Reading {
    version: u64,
    builder: Builder,
    strings: Vec<Arc<str>>,
    functions: HashMap<(Arc<str>, Arc<str>), usize>,
    nodes: Vec<Node>,
    allocations: Vec<Allocation>,
    live_bytes: i128,
    peak_bytes: i128,
    /// How many peaks there were; `since_peak` of an earlier one counts as 0.
    peak: u64,
}

pub fn read(input: &mut Input, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    let mut reading = Reading::default();
    input.each_line(|input, line| {
        if reading.version >= 3 && line.starts_with(b"s ") {
            read_whole_string(line, input);
        }
        reading.take(line, input)
    })?;
    // Past a memory bound the stacks that still fit are given.
    let _ = reading.add_samples(input, inuse_at);
    reading.builder.profile.interval_bytes = 1;
    Ok(Imported {
        profile: reading.builder.profile,
        format: Format::Heaptrack,
        sample_types: SampleType::ALL.to_vec(),
        default_sample_type: SampleType::InuseSpace,
        drop_frames: DropFrames::Allocators,
        defects: Vec::new(),
    })
}

/// A string with its length may contain line ends.
fn read_whole_string(line: &mut Vec<u8>, input: &mut Input) {
    let mut words = line.splitn(3, |&byte| byte == b' ').skip(1);
    let length = words.next().and_then(hex).and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|&length| length <= MOST_STRING_BYTES) else { return };
    let head = line.len() - words.next().map_or(0, <[u8]>::len);
    while line.len() - head < length {
        let Some(more) = input.line() else { return };
        line.push(b'\n');
        line.extend_from_slice(more);
    }
}

/// Names of C++ templates are long, but not longer.
const MOST_STRING_BYTES: usize = 1 << 20;

fn hex(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

impl Reading {
    fn take(&mut self, line: &[u8], input: &mut Input) -> Result<(), Stop> {
        let Some((&kind, rest)) = line.split_first() else { return Ok(()) };
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        let mut numbers = rest.split(|&byte| byte == b' ').map(hex);
        let mut next = || numbers.next().flatten().ok_or(Stop::BadLine);
        match kind {
            b'+' => self.count(next()?, 1),
            b'-' => self.count(next()?, -1),
            b't' => {
                let location = next()? as usize;
                let parent = next()? as usize;
                input.charge(size_of::<Node>())?;
                let locations = self.builder.profile.locations.len();
                let location = location.checked_sub(1).filter(|&at| at < locations);
                let location = location.map(|at| at as u32);
                // A parent that comes later could close a circle.
                let is_parent_known = parent <= self.nodes.len();
                let parent = if is_parent_known { parent } else { 0 };
                // Kept even if it is bad, so that positions stay right.
                self.nodes.push(Node { location, parent });
                if location.is_some() && is_parent_known { Ok(()) } else { Err(Stop::BadLine) }
            }
            b'a' => {
                let size = next()?;
                let node = next()? as usize;
                input.charge(size_of::<Allocation>())?;
                self.allocations.push(Allocation { size, node, ..Allocation::default() });
                Ok(())
            }
            b's' => self.string(rest, input),
            b'i' => {
                next()?;
                self.location(rest, input)
            }
            b'v' if self.version > 0 => Err(Stop::Error(ImportError::Concatenated)),
            b'v' => {
                next()?;
                // Before version 1.0 of heaptrack there was one number for both.
                self.version = next().unwrap_or(1);
                match self.version {
                    1..=NEWEST_VERSION => Ok(()),
                    other => Err(Stop::Error(ImportError::HeaptrackVersion(other))),
                }
            }
            b'X' => {
                let program = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
                let name = program.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                self.builder.profile.command = String::from_utf8_lossy(name).into_owned();
                Ok(())
            }
            b'x' | b'm' => Err(Stop::Error(ImportError::RawHeaptrack)),
            // Comments, time, RSS, pages, attached, suppressions.
            b'#' | b'c' | b'R' | b'I' | b'A' | b'S' => Ok(()),
            _ => Err(Stop::BadLine),
        }
    }

    fn string(&mut self, rest: &[u8], input: &mut Input) -> Result<(), Stop> {
        input.charge(size_of::<Arc<str>>() + rest.len() + OVERHEAD_BYTES)?;
        let text = match self.version {
            3.. => rest.splitn(2, |&byte| byte == b' ').nth(1).unwrap_or_default(),
            _ => rest,
        };
        self.strings.push(String::from_utf8_lossy(text).into());
        Ok(())
    }

    /// `i ADDRESS MODULE [FUNCTION FILE LINE]…`, the innermost frame first.
    fn location(&mut self, rest: &[u8], input: &mut Input) -> Result<(), Stop> {
        let numbers: Option<Vec<u64>> = rest.split(|&byte| byte == b' ').map(hex).collect();
        let numbers = numbers.unwrap_or_default();
        input.charge(size_of::<Location>() + OVERHEAD_BYTES + TABLE_BYTES)?;
        let address = numbers.first().copied().unwrap_or(0);
        let module = self.text(numbers.get(1).copied().unwrap_or(0));
        let mut lines = Vec::new();
        for frame in numbers.get(2..).unwrap_or_default().chunks(3) {
            let at = |position: usize| frame.get(position).copied().unwrap_or(0);
            let name = self.text(at(0));
            if !name.is_empty() {
                let line = u32::try_from(at(2)).unwrap_or(0);
                lines.push(Line { function: self.function(name, self.text(at(1)), input)?, line });
            }
        }
        if lines.is_empty() {
            // The file does not tell where the module was mapped: only the address in that process is left.
            let module = module.rsplit('/').next().unwrap_or_default();
            let name = format!("{address:#x} in {}", if module.is_empty() { "?" } else { module });
            lines.push(Line { function: self.function(name.into(), "".into(), input)?, line: 0 });
        }
        // heaptrack has subtracted 1 from return addresses already.
        let address = LookupAddress(address);
        self.builder.profile.locations.push(Location {
            mapping: None,
            address,
            lines,
            offset: None,
        });
        Ok(())
    }

    fn text(&self, number: u64) -> Arc<str> {
        let position = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        position.and_then(|at| self.strings.get(at).cloned()).unwrap_or_default()
    }

    fn function(
        &mut self,
        name: Arc<str>,
        file: Arc<str>,
        input: &mut Input,
    ) -> Result<usize, Stop> {
        input.charge(size_of::<Line>())?;
        let key = (name, file);
        if let Some(&known) = self.functions.get(&key) {
            return Ok(known);
        }
        let known = 2 * size_of::<Function>() + 2 * OVERHEAD_BYTES;
        input.charge(known + key.0.len() + TABLE_BYTES)?;
        let (name, file) = key.clone();
        let functions = &mut self.builder.profile.functions;
        functions.push(Function { system_name: name.clone(), name, file });
        self.functions.insert(key, functions.len() - 1);
        Ok(functions.len() - 1)
    }

    /// Counts an allocation or, with -1, a free of an `a` line.
    fn count(&mut self, number: u64, change: i64) -> Result<(), Stop> {
        // Version 0 named pointers here; it is refused.
        let index = usize::try_from(number).map_err(|_| Stop::BadLine)?;
        let allocation = self.allocations.get_mut(index).ok_or(Stop::BadLine)?;
        allocation.allocated += u64::from(change > 0);
        allocation.live += change;
        if allocation.peak != self.peak {
            allocation.peak = self.peak;
            allocation.since_peak = 0;
        }
        allocation.since_peak += change;
        self.live_bytes += i128::from(allocation.size) * i128::from(change);
        if self.live_bytes > self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            self.peak += 1;
        }
        Ok(())
    }

    fn add_samples(&mut self, input: &mut Input, inuse_at: InuseAt) -> Result<(), Stop> {
        let mut of_node: HashMap<usize, [f64; 4]> = HashMap::new();
        for allocation in &self.allocations {
            let is_changed = inuse_at == InuseAt::Peak && allocation.peak == self.peak;
            let since = if is_changed { allocation.since_peak } else { 0 };
            let live = (allocation.live - since) as f64;
            let all = allocation.allocated as f64;
            let size = allocation.size as f64;
            let sums = of_node.entry(allocation.node).or_default();
            for (sum, value) in sums.iter_mut().zip([all, all * size, live, live * size]) {
                *sum += value;
            }
        }
        let mut of_node: Vec<(usize, [f64; 4])> = of_node.into_iter().collect();
        of_node.sort_unstable_by_key(|&(node, _)| node);
        let mut stack = Vec::new();
        for (node, values) in of_node {
            if values == [0.0; 4] {
                continue;
            }
            stack.clear();
            let mut next = node;
            // Parents are smaller than their children: this ends.
            while let Some(node) = next.checked_sub(1).and_then(|at| self.nodes.get(at)) {
                stack.extend(node.location);
                next = node.parent;
                if stack.len() == MOST_FRAMES {
                    break;
                }
            }
            self.builder.add(input, &stack, values.map(Estimate::exact))?;
        }
        Ok(())
    }
}
