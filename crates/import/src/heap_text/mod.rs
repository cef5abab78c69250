//! The text formats of jemalloc and gperftools: raw counts per stack of addresses, then the process's mappings.

mod gperftools;
mod jemalloc;
mod maps;

pub use gperftools::read as read_gperftools;
pub use jemalloc::read as read_jemalloc;

use crate::build::{Builder, UNKNOWN};
use crate::defect::ImportDefect;
use crate::format::Format;
use crate::import::{DropFrames, Imported};
use crate::input::Input;
use crate::weight::{Pair, Sampling};
use ramson_profile::{ReturnAddress, SampleType};

/// Deeper stacks than allocators record are cut at the root.
const MOST_FRAMES: usize = 4096;

/// Raw numbers of a record: live, and since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    inuse: Pair,
    alloc: Pair,
}

/// The parts that both formats share.
struct HeapText {
    builder: Builder,
    sampling: Sampling,
    /// Whether any record counts allocations that were freed.
    has_alloc: bool,
    bad_lines: u64,
    stack: Vec<u32>,
}

impl HeapText {
    fn new(sampling: Sampling) -> HeapText {
        let builder = Builder::default();
        HeapText { builder, sampling, has_alloc: false, bad_lines: 0, stack: Vec::new() }
    }

    /// Reads the return addresses of a stack, leaf first, and keeps them for `add`.
    fn set_stack(&mut self, input: &mut Input, addresses: &str) -> Option<()> {
        self.stack.clear();
        for word in addresses.split_ascii_whitespace().take(MOST_FRAMES) {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            match u64::from_str_radix(digits, 16) {
                Ok(address) => {
                    let address = ReturnAddress(address);
                    self.stack.push(self.builder.location_of_return(input, address)?);
                }
                Err(_) => {
                    // A stack with a hole is another stack.
                    self.bad_lines += 1;
                    self.stack.clear();
                    return Some(());
                }
            }
        }
        Some(())
    }

    /// Adds a record of the current stack.
    fn add(&mut self, input: &mut Input, counts: &Counts) -> Option<()> {
        let [inuse_objects, inuse_space] = self.sampling.weigh(counts.inuse);
        let [alloc_objects, alloc_space] = self.sampling.weigh(counts.alloc);
        let values = [alloc_objects, alloc_space, inuse_objects, inuse_space];
        if values.iter().all(|value| value.is_nothing()) {
            return Some(());
        }
        self.has_alloc |= counts.alloc.objects > 0.0;
        self.builder.add(input, &self.stack, values)
    }

    fn finish(mut self, format: Format, interval: u64, has_mappings: bool) -> Imported {
        let mut sample_types = vec![SampleType::InuseObjects, SampleType::InuseSpace];
        if self.has_alloc {
            sample_types = SampleType::ALL.to_vec();
        } else {
            for sample in &mut self.builder.profile.samples {
                sample.values[SampleType::AllocObjects as usize] = UNKNOWN;
                sample.values[SampleType::AllocSpace as usize] = UNKNOWN;
            }
        }
        let mut defects = Vec::new();
        if self.bad_lines > 0 {
            defects.push(ImportDefect::BadLines(self.bad_lines));
        }
        if !has_mappings {
            defects.push(ImportDefect::NoMappings);
        }
        self.builder.profile.interval_bytes = interval;
        Imported {
            profile: self.builder.profile,
            format,
            sample_types,
            default_sample_type: SampleType::InuseSpace,
            drop_frames: DropFrames::Allocators,
            defects,
        }
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
    fn counts_are_read_with_and_without_padding() {
        let (counts, rest) = parse_counts("     5:  5242880 [    10: 10485760] @ 0x1 0x2").unwrap();
        assert_eq!(counts.inuse, Pair { objects: 5.0, bytes: 5242880.0 });
        assert_eq!(counts.alloc, Pair { objects: 10.0, bytes: 10485760.0 });
        assert_eq!(rest, " @ 0x1 0x2");
        for wrong in ["", "5", "5: 3", "5: 3 [", "5: x [0: 0]", ": [:]", "5: 3 [1 1]"] {
            assert_eq!(parse_counts(wrong), None, "{wrong}");
        }
    }
}
