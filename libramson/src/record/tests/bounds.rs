//! Samples that do not fit are counted.

use super::*;

#[test]
fn dropped_sample_leaves_no_trace() {
    let recording = Recording::new(1 << 20);
    let address = |block: u64| 0x6000_0000_0000 + block * 4096;
    let mut blocks = 0;
    while recording.health(Health::DroppedLive) == 0 {
        recording.record(address(blocks), 1, 0x1000);
        blocks += 1;
        assert!(blocks < 1 << 16);
    }
    assert_eq!(page_filter::of(address(blocks - 1)).load(Relaxed), 0);
    assert_eq!(recording.live().len() as u64, blocks - 1);
    assert_eq!(recording.health(Health::Samples), blocks);
    forget(recording.recorder, address(blocks - 1));
    assert_eq!(recording.health(Health::Frees), 0);
}

#[test]
fn walk_without_scratch_is_dropped() {
    let recording = Recording::new(1 << 20);
    let owners = || recording.recorder.scratches.owners();
    owners().for_each(|owner| owner.store(1, Relaxed));
    recording.record(0x4444_0000, 5, 0x1000);
    assert_eq!(recording.health(Health::DroppedWalks), 1);
    assert_eq!(recording.live(), [0x4444_0000]);
    owners().last().unwrap().store(0, Relaxed);
    recording.record(0x4445_0000, 5, 0x1000);
    assert_eq!(recording.health(Health::DroppedWalks), 1);
}
