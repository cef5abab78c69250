//! The slow paths of mmap, munmap and mremap: what the program maps itself, as a second kind of memory.
//!
//! Beside a system call there is no fast path to protect, so each call comes here twice, before and after the real function.
//! What goes is taken out of the table before (afterwards another thread may own the addresses), and put back if the call
//! fails. Mappings of files are not recorded, nor what the allocator underneath maps: malloc hands that out.

use crate::arch;
use crate::hooks::rearm;
use crate::parking::parked;
use crate::process;
use crate::record::{Cut, Taken};
use crate::{resolve, walk};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ramson_format::{Kind, PAGE_BYTES, extent_flags};

/// From here on a mapping is always recorded.
const ALWAYS_BYTES: u64 = 1 << 20;
/// What all these functions but munmap return when they fail.
const MAP_FAILED: u64 = u64::MAX;

/// The six argument registers of a call.
pub type Arguments = [u64; 6];

/// What one call keeps on the program's stack around the real function.
pub struct Call {
    /// First what MAP_FIXED or MREMAP_FIXED maps over, then what is unmapped or moved.
    taken: Taken,
    /// How much of it is mapped over.
    replaced: usize,
}

/// Where a hook was called from.
#[derive(Clone, Copy)]
struct Site {
    /// The stack pointer at the hook's entry.
    entry: u64,
    frame_pointer: u64,
}

/// Which first pages belong to mappings of files, by hash: mremap does not say what it grows. A wrong answer, which takes a
/// hash collision, puts a mapping that small programs hardly ever grow on the wrong side.
static FILE_STARTS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

fn file_start(address: u64) -> (&'static AtomicU64, u64) {
    let page = address / PAGE_BYTES;
    (&FILE_STARTS[(page / 64) as usize % FILE_STARTS.len()], 1 << (page % 64))
}

fn is_file(address: u64) -> bool {
    let (word, bit) = file_start(address);
    word.load(Relaxed) & bit != 0
}

fn remember_whether_file(address: u64, is_file: bool) {
    let (word, bit) = file_start(address);
    match is_file {
        true => word.fetch_or(bit, Relaxed),
        // Most mappings are of no file: spare them the store.
        false if word.load(Relaxed) & bit == 0 => 0,
        false => word.fetch_and(!bit, Relaxed),
    };
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

fn take(taken: &mut Taken, range: Option<Range<u64>>) {
    let Some(range) = range else { return };
    let Some(recorder) = process::recorder_or_started() else { return };
    if recorder.has_file_in(&range) {
        process::end_recording(recorder);
    } else if !recorder.has_no_extents() {
        recorder.take(range, taken);
    }
}

fn restore(cuts: &[Cut]) {
    if let Some(recorder) = process::recorder() {
        recorder.restore_all(cuts);
    }
}

fn complete(cuts: &[Cut]) {
    if let Some(recorder) = process::recorder() {
        recorder.complete_all(cuts);
    }
}

/// The kernel has just mapped `range`: what the table has there was unmapped without a hook.
fn heal(range: Range<u64>) {
    if let Some(recorder) = process::recorder()
        && !recorder.has_no_extents()
    {
        recorder.heal(range);
    }
}

/// Records a new mapping of anonymous memory if it is large or a sample.
fn record(range: Range<u64>, flags: u32, site: Site) {
    let bytes = range.end - range.start;
    // SAFETY: the call instruction that led to the hook pushed the return address there.
    let return_address = unsafe { *(site.entry as *const u64) };
    if resolve::may_be_allocator(return_address) || process::interval().is_none() {
        return;
    }
    let inverse_probability = if bytes >= ALWAYS_BYTES {
        1.0
    } else if arch::take_off_countdown(bytes) {
        f64::from_bits(rearm(bytes, site.entry))
    } else {
        0.0
    };
    if inverse_probability == 0.0 {
        return;
    }
    let thread = arch::thread();
    parked(thread, || {
        // Address space that the process cannot touch is no sample that could be lost.
        let counted = if flags & extent_flags::RESERVED == 0 { bytes } else { 0 };
        let recorder =
            process::recorder_for_sample(thread, Kind::Mmap, counted, inverse_probability);
        if let Some(recorder) = recorder {
            let caller = walk::Caller::at_hook(site.entry, site.frame_pointer);
            recorder.record_mapping(thread, range, inverse_probability, flags, caller);
        }
    });
}

/// Before any of them: takes out `replaced`, which will be mapped over, then `leaving`.
fn begin(call: &mut MaybeUninit<Call>, replaced: Option<Range<u64>>, leaving: Option<Range<u64>>) {
    let call = call.write(Call { taken: Taken::new(), replaced: 0 });
    take(&mut call.taken, replaced);
    call.replaced = call.taken.count();
    take(&mut call.taken, leaving);
}

/// Before mmap.
pub extern "C" fn map_begin(call: &mut MaybeUninit<Call>, arguments: &Arguments) {
    const MAP_FIXED: u64 = 0x10;
    const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
    let [address, length, _, flags, ..] = *arguments;
    let replaces = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED;
    let bytes = whole_huge_pages(length, flags);
    begin(call, if replaces { pages(address, bytes) } else { None }, None);
}

/// After it.
pub extern "C" fn map_end(
    result: u64,
    call: &Call,
    arguments: &Arguments,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    const MAP_SHARED: u64 = 1;
    const MAP_ANONYMOUS: u64 = 0x20;
    if result == MAP_FAILED {
        restore(call.taken.cuts(0));
        return result;
    }
    complete(call.taken.cuts(0));
    let [_, length, protection, map_flags, ..] = *arguments;
    let Some(range) = pages(result, whole_huge_pages(length, map_flags)) else { return result };
    heal(range.clone());
    let is_anonymous = map_flags & MAP_ANONYMOUS != 0;
    remember_whether_file(result, !is_anonymous);
    if is_anonymous {
        let reserved = if protection == 0 { extent_flags::RESERVED } else { 0 };
        let shared = if map_flags & MAP_SHARED != 0 { extent_flags::SHARED } else { 0 };
        record(range, reserved | shared, Site { entry, frame_pointer });
    }
    result
}

/// MAP_HUGETLB rounds lengths up to its own pages, whose size may stand in the upper bits; the default is 2 MiB.
fn whole_huge_pages(length: u64, map_flags: u64) -> u64 {
    const MAP_HUGETLB: u64 = 0x4_0000;
    if map_flags & MAP_HUGETLB == 0 {
        return length;
    }
    let shift = match map_flags >> 26 & 63 {
        0 => 21,
        shift => shift,
    };
    length.checked_next_multiple_of(1 << shift).unwrap_or(length)
}

/// Before munmap.
pub extern "C" fn unmap_begin(call: &mut MaybeUninit<Call>, arguments: &Arguments) {
    let [address, length, ..] = *arguments;
    begin(call, None, pages(address, length));
}

/// After it. The other arguments that every such function gets are of no use here.
pub extern "C" fn unmap_end(result: u64, call: &Call) -> u64 {
    match result as i32 {
        0 => complete(call.taken.cuts(0)),
        _ => restore(call.taken.cuts(0)),
    }
    result
}

/// What an mremap does, as far as its arguments tell.
struct Remap {
    /// Empty where MREMAP_FIXED and an old length of 0 make a second mapping of the same memory.
    old: Range<u64>,
    new_bytes: u64,
    /// Mapped over.
    target: Option<Range<u64>>,
    /// MREMAP_DONTUNMAP, or an old length of 0.
    old_stays: bool,
}

impl Remap {
    /// `None`: the kernel refuses.
    fn of(arguments: &Arguments) -> Option<Self> {
        const MREMAP_FIXED: u64 = 2;
        const MREMAP_DONTUNMAP: u64 = 4;
        let [start, old_length, new_length, flags, new_start, _] = *arguments;
        let old_bytes = old_length.checked_next_multiple_of(PAGE_BYTES)?;
        let new = pages(start, new_length)?;
        Some(Self {
            old: start..start.checked_add(old_bytes)?,
            new_bytes: new.end - new.start,
            target: if flags & MREMAP_FIXED == 0 { None } else { pages(new_start, new_length) },
            old_stays: old_bytes == 0 || flags & MREMAP_DONTUNMAP != 0,
        })
    }

    fn grows(&self) -> bool {
        self.new_bytes > self.old.end - self.old.start
    }

    /// The same memory at another place, or the first part of it.
    fn is_move(&self) -> bool {
        self.target.is_some() && !self.grows() && !self.old_stays
    }

    /// The part of the old range that is not there afterwards, at its place.
    fn leaving(&self) -> Option<Range<u64>> {
        if self.old_stays {
            return None;
        }
        if self.target.is_some() || self.grows() {
            return Some(self.old.clone());
        }
        let rest = self.old.start + self.new_bytes..self.old.end;
        (!rest.is_empty()).then_some(rest)
    }
}

/// Before mremap.
pub extern "C" fn remap_begin(call: &mut MaybeUninit<Call>, arguments: &Arguments) {
    let remap = Remap::of(arguments);
    let target = remap.as_ref().and_then(|remap| remap.target.clone());
    begin(call, target, remap.and_then(|remap| remap.leaving()));
}

/// After it. Memory that grew is a new mapping, as a block that realloc grew is a new allocation.
pub extern "C" fn remap_end(
    result: u64,
    call: &Call,
    arguments: &Arguments,
    entry: u64,
    frame_pointer: u64,
) -> u64 {
    let remap = Remap::of(arguments).filter(|_| result != MAP_FAILED);
    let (Some(remap), Some(new)) = (remap, pages(result, arguments[2])) else {
        restore(call.taken.cuts(0));
        return result;
    };
    let was_file = is_file(remap.old.start);
    if result != remap.old.start || remap.grows() {
        heal(new.clone());
        remember_whether_file(result, was_file);
    }
    let old = call.taken.cuts(call.replaced);
    if remap.is_move()
        && let Some(recorder) = process::recorder()
    {
        recorder.complete_all(call.taken.cuts(0).get(..call.replaced).unwrap_or_default());
        recorder.move_all(old, remap.old.start, new);
        return result;
    }
    complete(call.taken.cuts(0));
    // A large mapping that is not known is none of anonymous memory.
    let may_be_anonymous =
        !was_file && (remap.old_stays || remap.old.end - remap.old.start < ALWAYS_BYTES);
    if (remap.grows() || remap.old_stays) && (!old.is_empty() || may_be_anonymous) {
        let flags = old.first().map_or(0, |cut| cut.facts.flags);
        record(new, flags, Site { entry, frame_pointer });
    }
    result
}
