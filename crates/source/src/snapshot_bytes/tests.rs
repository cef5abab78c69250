//! Snapshots that are written come back when they are read.

use super::*;
use ramson_format::{HEALTH, Kind, LIFETIME_BUCKETS, MEMBER_STATES};
use ramson_reader::{Extent, FailedAllocation, LookupAddress};

fn stacks() -> Vec<Stack> {
    let mut stacks = [Kind::Heap, Kind::Mmap].map(Stack::overflow).to_vec();
    for number in 0..300u64 {
        let flags = if number % 7 == 0 { Kind::Mmap.stack_flags() } else { 0 };
        stacks.push(Stack {
            frames: (0..=number % 40)
                .map(|frame| LookupAddress(0x40_0000 + number * 100 + frame))
                .collect(),
            epoch: number as u32 % 3,
            flags,
            sampled_alloc_objects: number,
            sampled_alloc_bytes: number * 10,
            sampled_freed_objects: number / 2,
            sampled_freed_bytes: number * 5,
            alloc_objects: number as f64 * 1.5,
            alloc_space: number as f64 * 15.0,
            freed_objects: (number / 2) as f64 * 1.5,
            freed_space: number as f64 * 7.5,
            alloc_objects_variance: 0.1,
            alloc_space_variance: 0.2,
            first_monotonic_ns: number + 1,
            lifetimes: [number; LIFETIME_BUCKETS],
        });
    }
    stacks
}

fn failure(failure: FailedAllocation) -> Option<Box<FailedAllocation>> {
    Some(Box::new(failure))
}

fn header() -> Header {
    Header {
        state: 3,
        pid: 42,
        exit_status: -1,
        comm: "first-thread".into(),
        exe: "/usr/bin/x".into(),
        command: vec!["x".into(), "-y".into()],
        health: (0..HEALTH.len() as u64).collect(),
        run_id: u64::MAX,
        interval_bytes: 512 << 10,
        last_monotonic_ns: 99,
        end: Some(Box::new(format::End::of(format::Way::Signalled(11)))),
        failures: 3,
        last_failure: failure(FailedAllocation {
            size: 1 << 40,
            monotonic_ns: 98,
            stack: 5,
            tid: 8,
        }),
        aborts: 1,
        last_abort: failure(FailedAllocation { size: 1 << 20, monotonic_ns: 99, stack: 6, tid: 9 }),
        ..Header::default()
    }
}

fn example() -> Snapshot {
    let live = (0..500u64).map(|number| LiveSample {
        address: 0x7f00_0000_0000 + number * 16,
        size: number,
        inverse_probability: 1.0 + number as f64,
        monotonic_ns: number,
        stack: number as usize % 300,
        tid: 7,
        family: (number % 3) as u8,
    });
    let mapping = |number: u32| Mapping {
        start: u64::from(number) << 30,
        end: (u64::from(number) << 30) + 4096,
        file_offset: 4096,
        bias: u64::from(number),
        epochs: number..if number == 1 { 5 } else { u32::MAX },
        path: format!("/usr/lib/{number}.so"),
        build_id: vec![number as u8; number as usize * 10],
    };
    let extent = |number: u64| Extent {
        start: number << 20,
        bytes: 4096 * number,
        monotonic_ns: number,
        stack: 1,
        tid: 9,
        is_reserved: number == 2,
        is_shared: number == 3,
    };
    let freed = |number: u64| Freed {
        number,
        address: number << 12,
        size: number * 3,
        alloc_monotonic_ns: number,
        free_monotonic_ns: number * 2,
        alloc_stack: number as usize,
        free_stack: (number != 4).then_some(6),
        alloc_tid: 7,
        free_tid: 8,
    };
    let allocator = |family: u8| Allocator {
        family,
        kind: u32::from(family),
        object: u64::from(family) << 32,
        path: format!("/usr/lib/{family}.so"),
        samples: 1000 * u64::from(family),
        missed_frees: u64::from(family),
        states: (0..MEMBER_STATES).map(|number| (number % 10) as u8).collect(),
    };
    Snapshot {
        header: header(),
        mappings: (0..3).map(mapping).collect(),
        // The second entry is not there.
        allocators: [1, 3].map(allocator).to_vec(),
        stacks: stacks(),
        live: live.collect(),
        extents: (1..4).map(extent).collect(),
        freed: (1..9).rev().map(freed).collect(),
        max_freed: 1024,
        ..Snapshot::default()
    }
}

#[test]
fn snapshot_is_read_as_written() {
    let written = example();
    let bytes = snapshot_bytes(&written, &written.header);
    let mut read = Snapshot::read(bytes.as_slice()).unwrap();
    assert!(read.header.committed_bytes > 0);
    read.header.committed_bytes = 0;
    assert_eq!(read, written);
    let nothing = Snapshot {
        stacks: written.stacks[..2].to_vec(),
        live: vec![],
        mappings: vec![],
        extents: vec![],
        freed: vec![],
        ..written
    };
    let read = Snapshot::read(snapshot_bytes(&nothing, &nothing.header).as_slice()).unwrap();
    assert_eq!((read.stacks, read.defects), (nothing.stacks, vec![]));
}
