//! The text formats of jemalloc and gperftools: raw counts per stack of addresses, then the process's mappings.
//!
//! jemalloc's `heap_v2`: the interval, totals, then for each stack a line of return addresses and lines of counts for all
//! threads (`t*`) and, unless they were left out, for each (`t0`, `t1` …).
//!
//! gperftools' text: `heap profile: n: s [an: as] @ KIND/N`, then a line `n: s [an: as] @ addresses` per stack. KIND says
//! how the numbers came about. `heapprofile` (HEAPPROFILE) and `growthz` count every allocation. `heap_v2/N` is Poisson
//! sampling with mean N; `heap/N`, which Go writes with `debug=1`, the same with mean N/2 (jeprof, `ReadHeapProfile`;
//! google/pprof, `parseHeapHeader`).

use crate::build::{Builder, UNKNOWN};
use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use crate::maps;
use crate::weight::{Pair, weigh};
use ramson_profile::{ReturnAddress, SampleType};

/// Deeper stacks than allocators record are cut at the root.
const MOST_FRAMES: usize = 4096;

/// Raw numbers of a record: live, and since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    inuse: Pair,
    alloc: Pair,
}

pub fn read_jemalloc(input: &mut Input) -> Result<Imported, ImportError> {
    let header = String::from_utf8_lossy(input.line().unwrap_or_default()).into_owned();
    let interval = header.trim().strip_prefix("heap_v2/").and_then(|text| text.parse().ok());
    let mut has_stack = false;
    // 0 is what `jeprof` takes for "weighted already", and what our own export writes.
    read(input, Format::Jemalloc, interval.unwrap_or(0), |text, input, line| {
        if let Some(addresses) = line.strip_prefix('@') {
            has_stack = true;
            return text.set_stack(input, addresses);
        }
        let counts = line.strip_prefix('t').and_then(|line| line.split_once(':'));
        let (thread, counts) = counts.ok_or(Stop::BadLine)?;
        let (counts, _) = parse_counts(counts).ok_or(Stop::BadLine)?;
        // Counts before the first stack are the totals.
        if thread == "*" && has_stack { text.add(input, &counts) } else { Ok(()) }
    })
}

pub fn read_gperftools(input: &mut Input) -> Result<Imported, ImportError> {
    let header = String::from_utf8_lossy(input.line().unwrap_or_default()).into_owned();
    read(input, Format::Gperftools, interval_of(&header), |text, input, line| {
        let (counts, rest) = parse_counts(line).ok_or(Stop::BadLine)?;
        let addresses = rest.trim_start().strip_prefix('@').ok_or(Stop::BadLine)?;
        text.set_stack(input, addresses)?;
        text.add(input, &counts)
    })
}

/// Mean bytes between samples; 1 if there is every allocation, 0 if the header does not say.
fn interval_of(header: &str) -> u64 {
    let kind = header.split_once('@').map_or("", |(_, kind)| kind).trim();
    let (name, number) = kind.split_once('/').unwrap_or((kind, ""));
    match (name, number.parse::<u64>()) {
        ("heapprofile" | "growthz" | "growth" | "fragmentationz", _) => 1,
        ("heap_v2" | "heapz_v2", Ok(interval)) => interval.max(1),
        ("heap", Ok(doubled)) => (doubled / 2).max(1),
        _ => 0,
    }
}

/// Reads what follows the header: lines for `take`, up to the mappings.
fn read(
    input: &mut Input,
    format: Format,
    interval_bytes: u64,
    mut take: impl FnMut(&mut HeapText, &mut Input, &str) -> Result<(), Stop>,
) -> Result<Imported, ImportError> {
    let mut text = HeapText::default();
    text.builder.profile.interval_bytes = interval_bytes;
    let mut defects = vec![ImportDefect::NoMappings];
    input.each_line(|input, line| {
        let line = String::from_utf8_lossy(line);
        match line.trim() {
            // Go's comments hold names and statistics.
            line if line.is_empty() || line.starts_with('#') => Ok(()),
            line if line.starts_with("MAPPED_LIBRARIES:")
                || line.starts_with("--- Memory map:") =>
            {
                maps::read(input, &mut text.builder.profile);
                defects.clear();
                Err(Stop::End)
            }
            line => take(&mut text, input, line),
        }
    })?;
    defects.extend((interval_bytes == 0).then_some(ImportDefect::NoInterval));
    let HeapText { builder: Builder { mut profile, .. }, has_alloc, .. } = text;
    let mut sample_types = SampleType::ALL.to_vec();
    if !has_alloc {
        sample_types = vec![SampleType::InuseObjects, SampleType::InuseSpace];
        for sample in &mut profile.samples {
            sample.values[SampleType::AllocObjects as usize] = UNKNOWN;
            sample.values[SampleType::AllocSpace as usize] = UNKNOWN;
        }
    }
    let default_sample_type = SampleType::InuseSpace;
    let drop_frames = DropFrames::Allocators;
    Ok(Imported { profile, format, sample_types, default_sample_type, drop_frames, defects })
}

/// The profile that is made from either format.
#[derive(Default)]
struct HeapText {
    builder: Builder,
    /// Whether any record counts allocations that were freed.
    has_alloc: bool,
    stack: Vec<u32>,
}

impl HeapText {
    /// Reads the return addresses of a stack, leaf first, and keeps them for `add`.
    fn set_stack(&mut self, input: &mut Input, addresses: &str) -> Result<(), Stop> {
        self.stack.clear();
        for word in addresses.split_ascii_whitespace().take(MOST_FRAMES) {
            let Some(address) = maps::hex(word) else {
                // A stack with a hole is another stack.
                input.bad_lines += 1;
                self.stack.clear();
                break;
            };
            self.stack.push(self.builder.location_of_return(input, ReturnAddress(address))?);
        }
        Ok(())
    }

    /// Adds a record of the current stack.
    fn add(&mut self, input: &mut Input, counts: &Counts) -> Result<(), Stop> {
        let interval_bytes = self.builder.profile.interval_bytes;
        let [inuse_objects, inuse_space] = weigh(interval_bytes, counts.inuse);
        let [alloc_objects, alloc_space] = weigh(interval_bytes, counts.alloc);
        let values = [alloc_objects, alloc_space, inuse_objects, inuse_space];
        if values.iter().all(|value| value.is_nothing()) {
            return Ok(());
        }
        self.has_alloc |= counts.alloc.objects > 0.0;
        self.builder.add(input, &self.stack, values)
    }
}

/// `n: s [an: as]` as both formats write it, and what follows it.
fn parse_counts(text: &str) -> Option<(Counts, &str)> {
    let (inuse, rest) = text.split_once('[')?;
    let (alloc, rest) = rest.split_once(']')?;
    let pair = |text: &str| {
        let (objects, bytes) = text.split_once(':')?;
        // Signed: what is freed between two reads of a counter can make one negative.
        let number = |text: &str| text.trim().parse::<i64>().ok();
        Some(Pair { objects: number(objects)? as f64, bytes: number(bytes)? as f64 })
    };
    Some((Counts { inuse: pair(inuse)?, alloc: pair(alloc)? }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_tells_interval() {
        let of = |kind: &str| interval_of(&format!("heap profile: 1: 2 [ 3: 4] @ {kind}"));
        assert_eq!(of("heapprofile"), 1);
        assert_eq!(of("growthz"), 1);
        assert_eq!(of("heap_v2/524288"), 524288);
        assert_eq!(of("heap_v2/1"), 1);
        assert_eq!(of("heap/1048576"), 524288);
        assert_eq!(of("heap_v2"), 0);
        assert_eq!(interval_of("heap profile: 1: 2 [3: 4]"), 0);
    }

    #[test]
    fn counts_are_read_with_padding() {
        let (counts, rest) = parse_counts("     5:  5242880 [    10: 10485760] @ 0x1 0x2").unwrap();
        assert_eq!(counts.inuse, Pair { objects: 5.0, bytes: 5242880.0 });
        assert_eq!(counts.alloc, Pair { objects: 10.0, bytes: 10485760.0 });
        assert_eq!(rest, " @ 0x1 0x2");
        for wrong in ["", "5", "5: 3", "5: 3 [", "5: x [0: 0]", ": [:]", "5: 3 [1 1]"] {
            assert_eq!(parse_counts(wrong), None, "{wrong}");
        }
    }
}
