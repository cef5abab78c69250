//! The slow paths of mmap, munmap and mremap: what the program maps itself, as a second kind of
//! memory.
//!
//! Large mappings come here, and unmappings that begin or end where the page filter says "maybe".
//! What is unmapped is taken out of the table before (afterwards another thread may own the
//! addresses), and put back if the call fails. Mappings of files are not recorded, nor what the
//! allocator underneath maps: malloc hands that out.

use crate::parking::parked;
use crate::process;
use crate::record::Taken;
use crate::{arch, resolve, walk};
use core::mem::MaybeUninit;
use core::ops::Range;
use ramson_format::{EXTENT_LEAST_BYTES, Kind, PAGE_BYTES, live_flags};

/// What mmap and mremap return when they fail.
const MAP_FAILED: u64 = u64::MAX;

/// The six argument registers of a call.
pub type Arguments = [u64; 6];

/// Where a hook was called from.
#[derive(Clone, Copy)]
struct Site {
    /// The stack pointer at the hook's entry.
    entry: u64,
    frame_pointer: u64,
}

/// Whole pages; `None` where the kernel refuses.
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
    if let (Some(range), Some(recorder)) = (range, process::recorder())
        && recorder.has_file_in(range)
    {
        process::end_recording(recorder);
    }
}

/// Takes out what `range`, which the program is about to unmap, begins and ends with.
fn take(range: Option<Range<u64>>) -> Taken {
    leave(range.as_ref());
    let taken = range.zip(process::recorder()).map(|(range, recorder)| recorder.take(&range));
    taken.unwrap_or_default()
}

fn restore(taken: &Taken) {
    if let Some(recorder) = process::recorder() {
        recorder.restore_extents(taken);
    }
}

fn complete(taken: &Taken, range: Option<Range<u64>>) {
    if let (Some(recorder), Some(range)) = (process::recorder(), range) {
        recorder.complete_unmapping(taken, &range);
    }
}

/// Records a new mapping of anonymous memory if it is large.
fn record(range: Range<u64>, flags: u32, site: Site) {
    let bytes = range.end - range.start;
    let caller = walk::Caller::at_hook(site.entry, site.frame_pointer);
    if bytes < EXTENT_LEAST_BYTES
        || resolve::may_be_allocator(caller.lookup_address.0)
        || process::interval().is_none()
    {
        return;
    }
    let thread = arch::thread();
    parked(thread, || {
        // Address space that the process cannot touch is no sample that could be lost.
        let counted = if flags & live_flags::RESERVED == 0 { bytes } else { 0 };
        if let Some(recorder) = process::recorder_for_sample(thread, Kind::Mmap, counted, 1.0) {
            recorder.record_extent(thread, range, flags, caller);
        }
    });
}

fn is_mapped_over(map_flags: u64) -> bool {
    const MAP_FIXED: u64 = 0x10;
    const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
    map_flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED
}

/// Before mmap. What it maps over is looked for afterwards: the addresses are the program's then as
/// before.
pub extern "C" fn map_begin(_: &mut MaybeUninit<Taken>, arguments: &Arguments) {
    let [address, length, _, map_flags, ..] = *arguments;
    if is_mapped_over(map_flags) {
        leave(pages(address, length).as_ref());
    }
}

/// After it.
pub extern "C" fn map_end(
    result: u64,
    _: &MaybeUninit<Taken>,
    arguments: &Arguments,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    const MAP_SHARED: u64 = 1;
    const MAP_ANONYMOUS: u64 = 0x20;
    let [_, length, protection, map_flags, ..] = *arguments;
    let Some(range) = pages(result, length).filter(|_| result != MAP_FAILED) else { return result };
    if let Some(recorder) = process::recorder() {
        recorder.complete_overmapping(&range, is_mapped_over(map_flags));
    }
    if map_flags & MAP_ANONYMOUS != 0 {
        let reserved = if protection == 0 { live_flags::RESERVED } else { 0 };
        let shared = if map_flags & MAP_SHARED != 0 { live_flags::SHARED } else { 0 };
        record(range, reserved | shared, Site { entry, frame_pointer });
    }
    result
}

/// Before munmap.
pub extern "C" fn unmap_begin(taken: &mut MaybeUninit<Taken>, arguments: &Arguments) {
    let [address, length, ..] = *arguments;
    taken.write(take(pages(address, length)));
}

/// After it. The other arguments that every such function gets are of no use here.
pub extern "C" fn unmap_end(result: u64, taken: &Taken, arguments: &Arguments) -> u64 {
    let [address, length, ..] = *arguments;
    match result as i32 {
        0 => complete(taken, pages(address, length)),
        _ => restore(taken),
    }
    result
}

/// What an mremap does, as far as its arguments tell.
struct Remap {
    /// What is unmapped: all of the old range, or its end where it shrinks in place. `None`:
    /// nothing.
    leaving: Option<Range<u64>>,
    /// It is mapped elsewhere as well (MREMAP_DONTUNMAP, or an old length of 0).
    leaving_stays: bool,
    shrinks_in_place: bool,
    /// Mapped over.
    target: Option<Range<u64>>,
}

impl Remap {
    /// `None`: the kernel refuses.
    fn of(arguments: &Arguments) -> Option<Self> {
        const MREMAP_FIXED: u64 = 2;
        const MREMAP_DONTUNMAP: u64 = 4;
        let [start, old_length, new_length, flags, new_start, _] = *arguments;
        let is_fixed = flags & MREMAP_FIXED != 0;
        let leaving_stays = old_length == 0 || flags & MREMAP_DONTUNMAP != 0;
        let old = pages(start, old_length.max(1))?;
        let new_end = pages(start, new_length)?.end;
        let shrinks_in_place = !is_fixed && !leaving_stays && new_end < old.end;
        let leaving = if shrinks_in_place { new_end..old.end } else { old.clone() };
        let is_nothing = !is_fixed && !leaving_stays && new_end == old.end;
        Some(Self {
            leaving: (!is_nothing).then_some(leaving),
            leaving_stays,
            shrinks_in_place,
            target: if is_fixed { pages(new_start, new_length) } else { None },
        })
    }
}

/// Before mremap.
pub extern "C" fn remap_begin(taken: &mut MaybeUninit<Taken>, arguments: &Arguments) {
    let remap = Remap::of(arguments);
    leave(remap.as_ref().and_then(|remap| remap.target.as_ref()));
    taken.write(take(remap.and_then(|remap| remap.leaving)));
}

/// After it. What moved or grew is a new mapping, as a block that realloc moved is a new
/// allocation.
pub extern "C" fn remap_end(
    result: u64,
    taken: &Taken,
    arguments: &Arguments,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    let remap = Remap::of(arguments).filter(|_| result != MAP_FAILED);
    let (Some(remap), Some(recorder)) = (remap, process::recorder()) else {
        restore(taken);
        return result;
    };
    let flags = recorder.flags_of(taken);
    if remap.leaving_stays {
        recorder.restore_extents(taken);
    } else {
        complete(taken, remap.leaving.clone());
    }
    if remap.leaving.is_none() || remap.shrinks_in_place {
        return result;
    }
    let Some(new) = pages(result, arguments[2]) else { return result };
    recorder.complete_overmapping(&new, remap.target.is_some());
    // Of what is not known nothing tells whether it is a file's.
    if flags != 0 {
        record(new, flags & !live_flags::EXTENT, Site { entry, frame_pointer });
    }
    result
}
