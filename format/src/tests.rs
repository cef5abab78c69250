//! The code and FORMAT.md say the same.

use super::*;
use core::mem::offset_of;

#[test]
fn layout_agrees_with_format_md() {
    assert_eq!(size_of::<Header>(), 3536);
    assert_eq!(offset_of!(Header, interval_bytes), 24);
    assert_eq!(offset_of!(Header, run_id), 64);
    assert_eq!(offset_of!(Header, epoch), 80);
    assert_eq!(offset_of!(Header, exe_bytes), 104);
    assert_eq!(offset_of!(Header, comm), 112);
    assert_eq!(offset_of!(Header, regions), 128);
    assert_eq!(RegionKind::RecentFrees.row(), 320);
    assert_eq!(offset_of!(Header, configured_interval_bytes), 456);
    assert_eq!(offset_of!(Header, interval_changes), 468);
    assert_eq!(offset_of!(Header, start_cycles), 472);
    assert_eq!(offset_of!(Header, last_cycles), 488);
    assert_eq!(offset_of!(Header, cpu_ns), 504);
    assert_eq!(offset_of!(Header, exe), 512);
    assert_eq!(offset_of!(Header, command), 1024);
    assert_eq!(offset_of!(Header, health), 2048);
    assert_eq!((FAILURE_OFFSET, ABORT_OFFSET), (3456, 3496));
    assert_eq!(offset_of!(Header, unused) as u64, ROOT_OFFSET);
    assert_eq!(ROOT_OFFSET + ROOT_BYTES as u64, FAILURE_OFFSET);
    assert!(ABORT_OFFSET + size_of::<Failure>() as u64 <= END_OFFSET);
    assert_eq!((offset_of!(Failure, stack), offset_of!(Failure, check)), (24, 32));
    assert_eq!((END_OFFSET, END_OFFSET + END_BYTES as u64), (3584, PAGE_BYTES));
    assert_eq!(size_of::<Region>(), 32);
    assert_eq!(size_of::<Stack>(), 256);
    assert_eq!(offset_of!(Stack, sampled_alloc_objects), 32);
    assert_eq!(offset_of!(Stack, unsampled_alloc_objects), 64);
    assert_eq!(offset_of!(Stack, alloc_objects_variance), 96);
    assert_eq!(offset_of!(Stack, lifetimes), 128);
    assert_eq!(size_of::<LiveSample>(), 48);
    assert_eq!((offset_of!(LiveSample, check), offset_of!(LiveSample, flags)), (32, 40));
    assert_eq!(offset_of!(LiveSample, number), 44);
    assert_eq!(size_of::<Mapping>(), 128);
    assert_eq!(size_of::<Freed>(), 64);
    assert_eq!(offset_of!(Freed, alloc_stack), 40);
    assert_eq!(offset_of!(Freed, check), 56);
    assert_eq!(size_of::<Allocator>(), 256);
    assert_eq!(offset_of!(Allocator, states), 48);
    assert!(members::MEMBERS.len() <= MEMBER_STATES);
}

#[test]
fn regions_do_not_overlap() {
    for shift in 20..33 {
        let file_bytes = 1u64 << shift;
        let mut end = PAGE_BYTES;
        for (kind, region) in REGION_KINDS.iter().zip(plan(file_bytes)) {
            assert!(region.offset >= end && region.offset % PAGE_BYTES == 0);
            assert!(region.capacity >= 32, "{kind:?} of {file_bytes}");
            end = region.offset + region.capacity * kind.entry_bytes();
        }
        assert!(end <= file_bytes, "{end} > {file_bytes}");
    }
}

#[test]
fn live_segments_have_no_gap() {
    for segment in 0..12 {
        let (first, slots) = live_segment(segment);
        assert_eq!(live_segment(segment + 1).0, first + slots);
    }
}

#[test]
fn lifetimes_have_logarithmic_buckets() {
    assert_eq!(lifetime_bucket(0), 0);
    assert_eq!(lifetime_bucket((1 << 17) - 1), 0);
    assert_eq!(lifetime_bucket(1 << 17), 1);
    assert_eq!(lifetime_bucket(u64::MAX), LIFETIME_BUCKETS - 1);
}
