//! Which memory a walk may read.
//!
//! A thread's own stack ends at a known address (the C library puts the thread control block on top of it; the kernel tells
//! the first thread's). The part between a stack pointer and that end is checked once and then read directly. Any other
//! stack (coroutine, alternate signal stack) is copied by the kernel, which stops at an unreadable page instead of faulting.

use super::frames::{Caller, StackMemory};
use crate::arch::{self, Thread};
use crate::sys::{self, Lines, Range, permit};

const PAGE_BYTES: u64 = 4096;
/// Pages asked about in one system call.
const PAGES_PER_CALL: usize = 32;
/// Deepest stack that is read directly.
const MAX_DIRECT_BYTES: u64 = 16 << 20;

/// The part of a thread's descriptor that has its stack's place, in words; and what the C library puts on top of a stack at most.
const DESCRIPTOR_WORDS: usize = 2304 / 8;
const MAX_DESCRIPTOR_BYTES: u64 = 64 << 10;

/// A readable part of the stack: runtime addresses `low..high`, whose bytes lie `shift` further on (0 if read directly).
#[derive(Clone, Copy, Debug)]
pub struct StackView {
    low: u64,
    high: u64,
    shift: u64,
    pub is_foreign: bool,
}

impl StackMemory for StackView {
    #[inline]
    fn read(&self, address: u64) -> Option<u64> {
        let is_inside = address >= self.low && address < self.high && address.is_multiple_of(8);
        // SAFETY: [low, high) was checked to be readable, or is a copy; both ends are multiples of 8.
        is_inside.then(|| unsafe { *(address.wrapping_add(self.shift) as *const u64) })
    }
}

/// A walk to a new place takes 1.9 KB of stack (tests/programs/paint.c).
const WALK_BYTES: u64 = 4096;

/// Whether the caller is on an alternate signal stack with no room for a walk. The memory below it may be anybody's.
#[inline]
pub fn is_short_of_stack(thread: &Thread, caller: &Caller) -> bool {
    let is_own = (thread.stack_low.get()..thread.stack_high.get()).contains(&caller.stack_pointer);
    !is_own && is_short_signal_stack(caller.stack_pointer)
}

#[cold]
fn is_short_signal_stack(stack_pointer: u64) -> bool {
    sys::signal_stack()
        .is_ok_and(|stack| stack.is_in_use && stack_pointer.saturating_sub(stack.low) < WALK_BYTES)
}

/// The view of the current stack for a walk from `caller`: the thread's own stack directly, another one as a copy in `copy`.
pub fn view_of(
    thread: &Thread,
    caller: &Caller,
    pid: u32,
    main_high: u64,
    copy: &mut [u8],
) -> StackView {
    let stack_pointer = caller.stack_pointer;
    if (thread.stack_low.get()..thread.stack_high.get()).contains(&stack_pointer) {
        return own_view(thread, stack_pointer);
    }
    if !permit::is_full() {
        if extend(thread, stack_pointer, u64::MAX, pid, main_high) {
            return own_view(thread, stack_pointer);
        }
        // The call pushed its return address here, so that much of the page is readable; more of it cannot be told.
        let low = stack_pointer & !7;
        let high = (low & !(PAGE_BYTES - 1)) + PAGE_BYTES;
        return StackView { low, high, shift: 0, is_foreign: true };
    }
    // First what a coroutine needs, as it needs it at every sample; a thread's own stack is extended once.
    let view = copy_of(stack_pointer & !7, pid, copy);
    let is_cut_by_hole = view.high - view.low < copy.len() as u64 & !7;
    let hole = if is_cut_by_hole { view.high } else { u64::MAX };
    if extend(thread, stack_pointer, hole, pid, main_high) {
        return own_view(thread, stack_pointer);
    }
    view
}

fn own_view(thread: &Thread, stack_pointer: u64) -> StackView {
    let high = thread.stack_high.get();
    StackView { low: stack_pointer & !7, high, shift: 0, is_foreign: false }
}

/// Lowers `stack_low` to the page of `stack_pointer`, if everything in between is readable. From `hole` on it is known not to be.
#[cold]
fn extend(thread: &Thread, stack_pointer: u64, hole: u64, pid: u32, main_high: u64) -> bool {
    let is_near = |high: u64| {
        high.checked_sub(stack_pointer).is_some_and(|bytes| (1..=MAX_DIRECT_BYTES).contains(&bytes))
    };
    let (mut low, mut high) = (thread.stack_low.get(), thread.stack_high.get());
    // The kernel keeps other mappings 128 MiB away from there, whichever thread runs on it.
    let is_main = is_near(main_high);
    if high == 0 {
        high = (if is_main { main_high } else { arch::thread_pointer() }) & !7;
        low = high;
    }
    let mut lowest = stack_pointer & !(PAGE_BYTES - 1);
    let is_below = stack_pointer < low && low <= hole && is_near(high);
    let mut is_readable = || {
        if permit::is_full() {
            return readable_until(pid, lowest, low) >= low;
        }
        // Memory must not be probed here: the first thread's stack has no holes; another's is asked about as a whole, once.
        if is_main {
            return true;
        }
        let Some(recorded) = recorded_low().filter(|&low| stack_pointer >= low) else {
            // A coroutine's or a signal's stack comes by at every sample: reading the list of mappings each time would be dear.
            return false;
        };
        let around = readable_around(lowest).filter(|&(_, end)| end >= low);
        around.is_some_and(|(start, _)| {
            lowest = start.max(recorded).max(high.saturating_sub(MAX_DIRECT_BYTES));
            stack_pointer >= lowest
        })
    };
    if !is_below || !is_readable() {
        return false;
    }
    thread.stack_low.set(lowest);
    thread.stack_high.set(high);
    true
}

/// Lowers `stack_low` as far as the stack is readable below `stack_pointer`, for samples after which nothing can be asked any more.
pub fn know_stack(thread: &Thread, stack_pointer: u64, pid: u32, main_high: u64) {
    let is_main =
        main_high.checked_sub(stack_pointer).is_some_and(|bytes| bytes <= MAX_DIRECT_BYTES);
    if is_main || !extend(thread, stack_pointer, u64::MAX, pid, main_high) {
        return;
    }
    let (mut low, high) = (thread.stack_low.get(), thread.stack_high.get());
    let recorded = recorded_low().unwrap_or(0);
    while high - low < MAX_DIRECT_BYTES
        && low > recorded
        && readable_until(pid, low - PAGE_BYTES, low) >= low
    {
        low -= PAGE_BYTES;
    }
    thread.stack_low.set(low);
}

/// Returns the start of the calling thread's own stack, after its guard, by the C library's record in the thread's descriptor: start, length, and the
/// guard's part of the length. `None` for the first thread. Since glibc 2.42 and Linux 6.13 no mapping tells.
#[cold]
fn recorded_low() -> Option<u64> {
    let own = arch::thread_pointer();
    let word = |index: usize| {
        // SAFETY: the descriptor (`struct pthread`) starts there, as its third word says, and is longer in every glibc; what others change in
        // it is of no interest.
        unsafe { (own as *const u64).add(index).read_volatile() }
    };
    if word(2) != own {
        return None;
    }
    (0..DESCRIPTOR_WORDS - 2).find_map(|index| {
        let (start, length, guard) = (word(index), word(index + 1), word(index + 2));
        let end = start.checked_add(length)?;
        let is_stack = (start..end).contains(&own)
            && end - own <= MAX_DESCRIPTOR_BYTES
            && guard < length
            && guard.is_multiple_of(PAGE_BYTES);
        is_stack.then_some(start + guard)
    })
}

/// The readable memory around `address`, from /proc/self/maps.
#[cold]
fn readable_around(address: u64) -> Option<(u64, u64)> {
    let file = sys::open_to_read(c"/proc/self/maps").ok()?;
    let mut lines = Lines::new(&file);
    let (mut low, mut high) = (0, 0);
    while let Some(line) = lines.next() {
        let (range, facts) = str::from_utf8(line).ok()?.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        if !facts.starts_with('r') {
            continue;
        }
        let (start, end) =
            (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        if start > high {
            if high > address {
                break;
            }
            low = start;
        }
        high = end;
    }
    (low..high).contains(&address).then_some((low, high))
}

/// The first page at or after `page` that cannot be read, if there is one before `end`; else `end` or more.
pub fn readable_until(pid: u32, mut page: u64, end: u64) -> u64 {
    if !permit::is_full() {
        return readable_around(page).map_or(page, |(_, high)| high.max(page));
    }
    while page < end {
        let mut ranges: [Range; PAGES_PER_CALL] = [[0; 2]; PAGES_PER_CALL];
        let pages = (end - page).div_ceil(PAGE_BYTES).min(PAGES_PER_CALL as u64);
        for (range, first) in ranges.iter_mut().zip((page..).step_by(PAGE_BYTES as usize)) {
            *range = [first as usize, 1];
        }
        let mut bytes = [0u8; PAGES_PER_CALL];
        let ranges = ranges.get(..pages as usize).unwrap_or_default();
        let readable = sys::read_own_memory(pid, ranges, &mut bytes) as u64;
        page += readable * PAGE_BYTES;
        if readable < pages {
            break;
        }
    }
    page
}

/// As much of the stack above `low` as is readable and fits.
#[cold]
pub fn copy_of(low: u64, pid: u32, copy: &mut [u8]) -> StackView {
    // Whole pages after the first, as the kernel copies a range page by page up to the first that it cannot read.
    let copied = sys::read_own_memory(pid, &[[low as usize, copy.len()]], copy) as u64 & !7;
    StackView {
        low,
        high: low + copied,
        shift: (copy.as_ptr() as u64).wrapping_sub(low),
        is_foreign: true,
    }
}
