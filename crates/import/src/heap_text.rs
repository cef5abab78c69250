//! The text formats of jemalloc and gperftools: raw counts per stack of addresses, then the process's mappings.
//!
//! jemalloc's `heap_v2`: the interval, totals, then for each stack a line of return addresses and lines of counts for all
//! threads (`t*`) and, unless they were left out, for each (`t0`, `t1` …).
//!
//! gperftools' text: `heap profile: n: s [an: as] @ KIND/N`, then a line `n: s [an: as] @ addresses` per stack. KIND says
//! how the numbers came about. `heapprofile` (HEAPPROFILE) counts every allocation, `growthz` every time tcmalloc took memory
//! from the system. `heap_v2/N` is Poisson sampling with mean N; `heap/N`, which Go writes with `debug=1`, the same with mean N/2 (jeprof, `ReadHeapProfile`;
//! google/pprof, `parseHeapHeader`).

use crate::build::{Builder, UNKNOWN};
use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::heap_symbols::{MARKER, Symbols};
use crate::import::{DropFrames, Imported};
use crate::input::{Input, Stop};
use crate::maps;
use crate::weight::{Pair, weigh};
use ramson_profile::{Pattern, ReturnAddress, SampleType};

/// Deeper stacks than allocators record are cut at the root.
const MOST_FRAMES: usize = 4096;
/// Stacks with less of the total are not all: a counter may change while they are written.
const LEAST_SHARE: f64 = 0.99;

/// Raw numbers of a record: live, and since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    inuse: Pair,
    alloc: Pair,
}

/// Reads either format, from its header on.
pub fn read(input: &mut Input) -> Result<Imported, ImportError> {
    let preface = Preface::read(input)?;
    let mut text = HeapText::default();
    let mut defects = vec![ImportDefect::NoMappings];
    let header = preface.header;
    text.builder.profile.interval_bytes = header.interval_bytes;
    input.each_line(|input, line| {
        let line = String::from_utf8_lossy(line);
        match line.trim() {
            // Go's comments hold names and statistics.
            line if line.is_empty() || line.starts_with('#') => Ok(()),
            line if line.starts_with("MAPPED_LIBRARIES:")
                || line.starts_with("--- Memory map:") =>
            {
                defects.clear();
                let next = maps::read(input, &mut text.builder.profile, is_header);
                Err(if next { Stop::Error(ImportError::Concatenated) } else { Stop::End })
            }
            line if is_header(line.as_bytes()) => Err(Stop::Error(ImportError::Concatenated)),
            // ClickHouse's jemalloc adds the blocks of a stack, and statistics.
            line if line.starts_with("f:") || line.starts_with("frag_util:") => Ok(()),
            line if header.format == Format::Jemalloc => text.take_jemalloc(input, line),
            line => text.take_gperftools(input, line),
        }
    })?;
    let HeapText { builder: Builder { mut profile, .. }, has_alloc, has_totals, bytes, .. } = text;
    if profile.samples.is_empty() {
        if let Some(remedy) = header.sampling_off {
            return Err(ImportError::SamplingOff(remedy.into()));
        }
        // Without jemalloc's totals, or with totals of something, the rest is missing.
        let is_cut = header.format == Format::Jemalloc && has_totals != Some(false);
        if is_cut {
            input.defects.push(ImportDefect::Cut);
        } else if header.interval_bytes != 1 {
            defects.push(ImportDefect::NoSamples);
        }
    }
    // Past a memory bound the names that still fit are given.
    let _ = preface.symbols.name(input, &mut profile);
    defects.extend(header.missing(bytes));
    defects.extend((header.interval_bytes == 0).then_some(ImportDefect::NoInterval));
    let [alloc_objects, alloc_space, inuse_objects, inuse_space] = SampleType::ALL;
    let mut sample_types = SampleType::ALL.to_vec();
    let mut default_sample_type = inuse_space;
    if header.is_growth {
        defects.push(ImportDefect::Growth);
        sample_types = vec![alloc_objects, alloc_space];
        default_sample_type = alloc_space;
    } else if !has_alloc {
        sample_types = vec![inuse_objects, inuse_space];
    }
    for sample in &mut profile.samples {
        for of in SampleType::ALL.into_iter().filter(|of| !sample_types.contains(of)) {
            sample.values[of as usize] = UNKNOWN;
        }
    }
    let format = header.format;
    let drop_frames = if header.is_of_go {
        DropFrames::Named { drop: Pattern::new(GO_ALLOCATOR).expect("a constant"), keep: None }
    } else {
        DropFrames::Allocators
    };
    Ok(Imported { profile, format, sample_types, default_sample_type, drop_frames, defects })
}

/// What comes before the first stack.
struct Preface {
    header: Header,
    symbols: Symbols,
}

impl Preface {
    fn read(input: &mut Input) -> Result<Self, ImportError> {
        let mut symbols = Symbols::default();
        let mut has_warning = false;
        while let Some(line) = input.line() {
            if is_header(line) {
                let header = Header::parse(&String::from_utf8_lossy(line))?;
                return Ok(Self { header, symbols });
            }
            if line.starts_with(MARKER.as_bytes()) {
                if symbols.read(input).is_err() {
                    break;
                }
            } else if line.starts_with(b"%warn") {
                has_warning = true;
            }
        }
        Err(match input.defects.first() {
            Some(defect) => ImportError::Nothing(Some(defect.clone())),
            None if has_warning => ImportError::SamplingOff(TCMALLOC_REMEDY.into()),
            None => ImportError::Unrecognized(
                "it looks like what pprof --raw writes, but not of a heap".into(),
            ),
        })
    }
}

const TCMALLOC_REMEDY: &str =
    "Set TCMALLOC_SAMPLE_PARAMETER=524288 for the program, and take the profile again";
/// Functions of Go's allocator and of those that call it for the program, which Go itself leaves out of a profile with names.
const GO_ALLOCATOR: &str = r"^(runtime\.(mallocgc|newobject|newarray|makeslice|growslice|makemap|mapassign|makechan|raw(byte|rune)slice|rawstring|slicebytetostring|stringtoslice|concat(string|byte)|convT|profilealloc|(m|large)?alloc)[\w.]*|internal/runtime/maps\..*)$";
const GO_REMEDY: &str = "Leave runtime.MemProfileRate as it is, and take the profile again";

/// Whether the line is the first one of either format.
pub fn is_header(line: &[u8]) -> bool {
    let is_jemalloc = |interval: &[u8]| interval.first().is_some_and(u8::is_ascii_digit);
    line.strip_prefix(b"heap_v2/").is_some_and(is_jemalloc)
        || line.starts_with(b"heap profile:") && line.contains(&b'@')
}

/// The first line of either format.
struct Header {
    format: Format,
    /// Mean bytes between samples; 1 if there is every allocation, 0 if the header does not say.
    interval_bytes: u64,
    /// Counts what the allocator took from the system.
    is_growth: bool,
    /// Go wrote it.
    is_of_go: bool,
    /// Bytes of all stacks, live and since the start; `None`: the header does not say.
    totals: Option<[f64; 2]>,
    /// How to sample, where the header says that nothing was sampled.
    sampling_off: Option<&'static str>,
}

impl Header {
    fn parse(line: &str) -> Result<Self, ImportError> {
        let mut header = Self {
            format: Format::Gperftools,
            interval_bytes: 0,
            is_growth: false,
            is_of_go: false,
            totals: None,
            sampling_off: None,
        };
        if let Some(interval) = line.trim().strip_prefix("heap_v2/") {
            header.format = Format::Jemalloc;
            // 0 is what `jeprof` takes for "weighted already", and what our own export writes.
            header.interval_bytes = interval.parse().unwrap_or(0);
            return Ok(header);
        }
        let counts = line.split_once(':').and_then(|(_, counts)| parse_counts(counts));
        header.totals = counts.map(|(counts, _)| [counts.inuse.bytes, counts.alloc.bytes]);
        let kind = line.split_once('@').map_or("", |(_, kind)| kind).trim();
        let (name, number) = kind.split_once('/').unwrap_or((kind, ""));
        match (name, number.parse::<u64>()) {
            ("heapprofile", _) => header.interval_bytes = 1,
            ("growthz" | "growth", _) => {
                header.interval_bytes = 1;
                header.is_growth = true;
            }
            ("fragmentationz" | "fragmentation" | "contention" | "contentionz", _) => {
                return Err(ImportError::OtherKind(name.into()));
            }
            ("heap_v2" | "heapz_v2", Ok(0)) => header.sampling_off = Some(TCMALLOC_REMEDY),
            ("heap", Ok(0)) => header.sampling_off = Some(GO_REMEDY),
            ("heap_v2" | "heapz_v2", Ok(interval)) => header.interval_bytes = interval,
            ("heap", Ok(doubled)) => {
                header.interval_bytes = (doubled / 2).max(1);
                header.is_of_go = true;
            }
            _ => {}
        }
        Ok(header)
    }
}

impl Header {
    /// Whether the stacks have fewer bytes than the header says.
    fn missing(&self, bytes: [f64; 2]) -> Option<ImportDefect> {
        let is_short = |&(has, of): &(f64, f64)| has < of * LEAST_SHARE;
        let (has, of) = bytes.into_iter().zip(self.totals?).find(is_short)?;
        Some(ImportDefect::StacksMissing { bytes: has.max(0.0) as u64, of: of as u64 })
    }
}

/// The profile that is made from either format.
#[derive(Default)]
struct HeapText {
    builder: Builder,
    /// Whether any record counts allocations that were freed.
    has_alloc: bool,
    /// Whether jemalloc's totals, which come before the first stack, are more than nothing.
    has_totals: Option<bool>,
    has_stack: bool,
    stack: Vec<u32>,
    /// Bytes as they stand in the file, live and since the start.
    bytes: [f64; 2],
}

impl HeapText {
    fn take_jemalloc(&mut self, input: &mut Input, line: &str) -> Result<(), Stop> {
        if let Some(addresses) = line.strip_prefix('@') {
            self.has_stack = true;
            return self.set_stack(input, addresses);
        }
        let counts = line.strip_prefix('t').and_then(|line| line.split_once(':'));
        let (thread, counts) = counts.ok_or(Stop::BadLine)?;
        let (counts, _) = parse_counts(counts).ok_or(Stop::BadLine)?;
        match thread {
            "*" if self.has_stack => self.add(input, &counts),
            "*" => {
                let is_something = counts.inuse.objects != 0.0 || counts.alloc.objects != 0.0;
                self.has_totals = Some(is_something);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take_gperftools(&mut self, input: &mut Input, line: &str) -> Result<(), Stop> {
        let (counts, rest) = parse_counts(line).ok_or(Stop::BadLine)?;
        let addresses = rest.trim_start().strip_prefix('@').ok_or(Stop::BadLine)?;
        self.set_stack(input, addresses)?;
        self.add(input, &counts)
    }

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
        self.bytes[0] += counts.inuse.bytes;
        self.bytes[1] += counts.alloc.bytes;
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
        let interval_of = |line: &str| Header::parse(line).unwrap().interval_bytes;
        let of = |kind: &str| interval_of(&format!("heap profile: 1: 2 [ 3: 4] @ {kind}"));
        assert_eq!(of("heapprofile"), 1);
        assert_eq!(of("growthz"), 1);
        assert_eq!(of("heap_v2/524288"), 524288);
        assert_eq!(of("heap_v2/1"), 1);
        assert_eq!(of("heap/1048576"), 524288);
        assert_eq!(of("heap_v2"), 0);
        assert_eq!(interval_of("heap profile: 1: 2 [3: 4]"), 0);
        assert_eq!(interval_of("heap_v2/4096"), 4096);
    }

    #[test]
    fn other_kinds_are_refused() {
        let of = |kind: &str| Header::parse(&format!("heap profile: 1: 2 [ 3: 4] @ {kind}"));
        assert!(matches!(of("fragmentationz"), Err(ImportError::OtherKind(_))));
        assert!(of("growth").unwrap().is_growth);
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
