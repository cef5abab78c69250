//! The slow paths of mmap, munmap and mremap: what the program maps itself, as a second kind of
//! memory.
//!
//! Large mappings come here, and unmappings that begin or end where the page filter says "maybe". A
//! range to be unmapped is taken out of the table before the call (afterwards another thread may
//! own the addresses), and put back if the call fails. Mappings of files are not recorded, nor what
//! the allocator underneath maps: malloc hands that out.

use crate::arch::{self, hooks::Call};
use crate::orders::Pace;
use crate::parking::parked;
use crate::record::Taken;
use crate::{families, process, walk};
use core::ops::Range;
use ramson_format::{EXTENT_LEAST_BYTES, PAGE_BYTES, live_flags};

/// Result of an mremap that fails.
const MAP_FAILED: u64 = u64::MAX;

/// Whole pages; `None` where the kernel refuses, and of what a call returns when it fails.
fn pages(start: u64, bytes: u64) -> Option<Range<u64>> {
    /// With five levels of page tables.
    const USER_END: u64 = 1 << 56;
    let bytes = bytes.checked_next_multiple_of(PAGE_BYTES)?;
    let is_range = start.is_multiple_of(PAGE_BYTES) && bytes > 0;
    let end = start.checked_add(bytes).filter(|&end| end <= USER_END)?;
    is_range.then_some(start..end)
}

/// The program is about to unmap `range`, or to map over it: recording ends if the profile is
/// there.
fn leave(range: Option<&Range<u64>>) {
    if let Some(range) = range {
        process::forget_profile_in(range);
    }
    if let (Some(range), Some(recorder)) = (range, process::recorder()) {
        let file = recorder.profile().file.mapped();
        if file.start < range.end && range.start < file.end {
            process::end_recording(recorder);
        }
    }
}

/// Takes out what `range`, which the program is about to unmap, begins and ends with.
fn take(range: Option<&Range<u64>>) -> Taken {
    leave(range);
    let taken = range.zip(process::recorder()).map(|(range, recorder)| recorder.take(range));
    taken.unwrap_or_default()
}

/// The kernel has answered: `unmapped` is gone, or all is as it was.
fn settle(taken: &Taken, unmapped: Option<&Range<u64>>) {
    match (process::recorder(), unmapped) {
        (Some(recorder), Some(range)) => recorder.complete_unmapping(taken, range),
        (Some(recorder), None) => recorder.restore_extents(taken),
        (None, _) => {}
    }
}

/// `range` is mapped, over what was there if that was asked for. It has `flags` if it is anonymous
/// memory, which is recorded if it is large.
fn complete(range: Range<u64>, is_over: bool, flags: Option<u32>, call: &Call) {
    if let Some(recorder) = process::recorder() {
        recorder.complete_overmapping(&range, is_over);
    }
    let Some(flags) = flags else { return };
    let bytes = range.end - range.start;
    let caller = walk::Caller::at_hook(call.entry(), call.frame_pointer);
    if bytes < EXTENT_LEAST_BYTES
        || !matches!(process::pace(), Pace::Sampling(_))
        || walk::is_of_allocator(caller.lookup_address.0)
        || families::is_in_allocator(caller.lookup_address.0)
    {
        return;
    }
    let thread = arch::thread();
    parked(thread, || {
        if let Some(recorder) = process::recorder_for_sample(thread) {
            recorder.record_extent(thread, range, flags, &caller);
            process::settle(recorder);
        }
    });
}

/// mmap. The extents that it maps over are looked for afterwards: the addresses are the program's then as before.
pub extern "C" fn map(call: &Call) -> u64 {
    const MAP_SHARED: u64 = 1;
    const MAP_FIXED: u64 = 0x10;
    const MAP_ANONYMOUS: u64 = 0x20;
    const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
    let [address, length, protection, map_flags, ..] = call.arguments;
    let is_over = map_flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED;
    if is_over {
        leave(pages(address, length).as_ref());
    }
    let result = call.real();
    // Hazard, never seen: a program maps huge pages (MAP_HUGETLB) with a length that is not a
    // multiple of their size. The mapping is recorded with the length that was asked for.
    if let Some(range) = pages(result, length) {
        let reserved = if protection == 0 { live_flags::RESERVED } else { 0 };
        let shared = if map_flags & MAP_SHARED != 0 { live_flags::SHARED } else { 0 };
        let is_anonymous = map_flags & MAP_ANONYMOUS != 0;
        complete(range, is_over, is_anonymous.then_some(reserved | shared), call);
    }
    result
}

/// munmap.
pub extern "C" fn unmap(call: &Call) -> u64 {
    let [address, length, ..] = call.arguments;
    let range = pages(address, length);
    let taken = take(range.as_ref());
    let result = call.real();
    settle(&taken, range.as_ref().filter(|_| result as i32 == 0));
    result
}

/// mremap. A mapping that moves or grows is a new one, just as a block that realloc moved is a new allocation.
pub extern "C" fn remap(call: &Call) -> u64 {
    const MREMAP_FIXED: u64 = 2;
    const MREMAP_DONTUNMAP: u64 = 4;
    let [start, old_length, new_length, flags, new_start, _] = call.arguments;
    let is_fixed = flags & MREMAP_FIXED != 0;
    let old_stays = old_length == 0 || flags & MREMAP_DONTUNMAP != 0;
    let old = pages(start, old_length.max(1));
    // In place.
    let cut_off = pages(start, new_length)
        .zip(old.as_ref())
        .map(|(new, old)| new.end..old.end)
        .filter(|range| !is_fixed && !old_stays && range.start <= range.end);
    if is_fixed {
        leave(pages(new_start, new_length).as_ref());
    }
    let shrinks = cut_off.is_some();
    let leaving = if shrinks { cut_off.filter(|range| !range.is_empty()) } else { old };
    let taken = take(leaving.as_ref());
    let result = call.real();
    settle(&taken, leaving.as_ref().filter(|_| result != MAP_FAILED && !old_stays));
    if !shrinks && let Some(new) = pages(result, new_length) {
        // Unknown memory may be a file's.
        complete(new, is_fixed, taken.flags(), call);
    }
    result
}
