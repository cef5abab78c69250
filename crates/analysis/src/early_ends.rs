//! Stacks that ended before the outermost frame: in which binary, and how many bytes have them. Callers are missing there.

use ramson_format::{Kind, stack_flags};
use ramson_process::identify::base_name;
use ramson_profile::format::{format_bytes, format_percent};
use ramson_reader::{Snapshot, Stack};
use std::collections::BTreeMap;

/// If they have no more than this share of the allocated bytes, nothing is said.
const LEAST_SHARE: f64 = 0.05;
/// Binaries that are named.
const MOST_NAMED: usize = 3;
/// In place of a binary.
const COMPILED: &str = "code compiled at run time";

/// `31.0% of the allocated bytes have stacks that ended early, so callers are missing: 310 MiB in libfoo.so`.
pub fn line(snapshot: &Snapshot) -> Option<String> {
    let heap = || snapshot.stacks.iter().filter(|stack| stack.kind() == Kind::Heap);
    let all: f64 = heap().map(|stack| stack.alloc_space).sum();
    let mut by_binary: BTreeMap<&str, f64> = BTreeMap::new();
    for stack in heap().filter(|stack| stack.flags & stack_flags::INCOMPLETE != 0) {
        *by_binary.entry(end_of(snapshot, stack)).or_default() += stack.alloc_space;
    }
    let early: f64 = by_binary.values().sum();
    if early <= LEAST_SHARE * all {
        return None;
    }
    let mut by_binary: Vec<(&str, f64)> = by_binary.into_iter().collect();
    by_binary.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = by_binary.iter().take(MOST_NAMED);
    let named = named.map(|(binary, bytes)| format!("{} in {binary}", format_bytes(*bytes)));
    Some(format!(
        "{} of the allocated bytes have stacks that ended early, so callers are missing: {}",
        format_percent(early, all),
        named.collect::<Vec<_>>().join(", ")
    ))
}

/// The binary of the last frame that was found: what called it could not be told.
fn end_of<'a>(snapshot: &'a Snapshot, stack: &Stack) -> &'a str {
    let last = stack.frames.last().and_then(|&address| snapshot.mapping_at(address, stack.epoch));
    last.map_or(COMPILED, |mapping| base_name(&snapshot.mappings[mapping].path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ramson_profile::LookupAddress;
    use ramson_reader::Mapping;

    fn stack(address: u64, flags: u32, mib: u32) -> Stack {
        let alloc_space = f64::from(mib << 20);
        let frames = vec![LookupAddress(0x9000), LookupAddress(address)];
        Stack { frames, flags, alloc_space, ..Stack::default() }
    }

    #[test]
    fn bytes_and_binaries_are_named() {
        let mapping = Mapping {
            start: 0x1000,
            end: 0x2000,
            path: "/opt/lib/libfast.so".into(),
            epochs: 0..1,
            ..Mapping::default()
        };
        let early = stack_flags::INCOMPLETE;
        let of = |stacks| {
            line(&Snapshot { stacks, mappings: vec![mapping.clone()], ..Snapshot::default() })
        };
        assert_eq!(
            of(vec![stack(0x1500, early, 20), stack(0x5000, early, 11), stack(0x1500, 0, 69)])
                .unwrap(),
            "31.0% of the allocated bytes have stacks that ended early, so callers are missing: 20.0 MiB in libfast.so, \
             11.0 MiB in code compiled at run time"
        );
        assert_eq!(of(vec![stack(0x1500, early, 5), stack(0x1500, 0, 95)]), None);
        assert_eq!(of(Vec::new()), None);
    }
}
