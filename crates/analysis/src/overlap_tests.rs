use super::*;
use ramson_reader::Header;

/// Stacks 1… of `alloc` bytes each, with that variance; live samples of 64 bytes as (address, time, stack).
fn snapshot(run_id: u64, alloc: &[f64], live: &[(u64, u64, usize)]) -> Snapshot {
    let header = Header {
        pid: 7,
        interval_bytes: 512,
        start_monotonic_ns: 1,
        start_realtime_ns: 2,
        process_start_ticks: 3,
        last_monotonic_ns: 4,
        run_id,
        ..Header::default()
    };
    let stack = |(index, &bytes): (usize, &f64)| Stack {
        frames: vec![LookupAddress(index as u64); index],
        alloc_objects: bytes / 64.0,
        alloc_space: bytes,
        alloc_objects_variance: bytes / 64.0,
        alloc_space_variance: bytes,
        ..Stack::default()
    };
    let sample = |&(address, monotonic_ns, stack): &(u64, u64, usize)| LiveSample {
        address,
        size: 64,
        inverse_probability: 8.0,
        monotonic_ns,
        stack,
        tid: 7,
        ..LiveSample::default()
    };
    Snapshot {
        header,
        stacks: alloc.iter().enumerate().map(stack).collect(),
        live: live.iter().map(sample).collect(),
        ..Snapshot::default()
    }
}

fn addresses(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.live.iter().map(|live| live.address).collect()
}

fn alloc(snapshot: &Snapshot) -> Vec<(f64, f64)> {
    snapshot.stacks.iter().map(|stack| (stack.alloc_space, stack.alloc_space_variance)).collect()
}

#[test]
fn blocks_live_in_both_are_shared() {
    let old = snapshot(1, &[0.0, 640.0, 64.0], &[(0x10, 5, 1), (0x20, 6, 1), (0x30, 7, 2)]);
    // 0x20 was freed and its address used again, 0x30 was freed.
    let new = snapshot(1, &[0.0, 960.0, 64.0, 128.0], &[(0x10, 5, 1), (0x20, 9, 3)]);
    let parts = split(&old, &new).unwrap();
    assert_eq!(addresses(&parts.shared), [0x10]);
    assert_eq!(addresses(&parts.old), [0x20, 0x30]);
    assert_eq!(addresses(&parts.new), [0x20]);
    let nothing = (0.0, 0.0);
    assert_eq!(alloc(&parts.old), [nothing; 3]);
    assert_eq!(alloc(&parts.new), [nothing, (320.0, 320.0), nothing, (128.0, 128.0)]);
    assert_eq!(alloc(&parts.shared), [nothing, (640.0, 640.0), (64.0, 64.0), nothing]);
}

#[test]
fn shared_and_own_parts_add_up() {
    let one = snapshot(1, &[0.0, 640.0, 64.0], &[(0x10, 5, 1), (0x30, 7, 2)]);
    let other = snapshot(1, &[0.0, 960.0], &[(0x10, 5, 1)]);
    for (old, new) in [(&one, &other), (&other, &one)] {
        let parts = split(old, new).unwrap();
        let sum = |snapshot: &Snapshot| alloc(snapshot).iter().map(|alloc| alloc.0).sum::<f64>();
        assert_eq!(sum(&parts.old) + sum(&parts.shared), sum(old));
        assert_eq!(sum(&parts.new) + sum(&parts.shared), sum(new));
        assert_eq!(parts.old.live.len() + parts.shared.live.len(), old.live.len());
        assert_eq!(parts.new.live.len() + parts.shared.live.len(), new.live.len());
    }
}

#[test]
fn different_processes_share_nothing() {
    assert!(split(&snapshot(1, &[0.0], &[]), &snapshot(2, &[0.0], &[])).is_none());
}
