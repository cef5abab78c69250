//! Orders from outside to a running process with libramson: the words at `ramson_control` in its memory, and the table at `ramson_slots`.
//! Whoever may trace the process writes them through /proc/PID/mem; the library checks all of it before it uses any.

use crate::atomic::AtomicU64;
use crate::settings::PATH_BYTES;
use crate::{FILE_BYTES_RANGE, mix};

/// Changes with anything in this file.
pub const LAYOUT: u64 = 3;
/// The symbol of `Control`.
pub const CONTROL_SYMBOL: &str = "ramson_control";
/// The symbol of the `Slot`s, `MOST_SLOTS` of them.
pub const SLOTS_SYMBOL: &str = "ramson_slots";
/// The symbol of the `Place`s, `MOST_PLACES` of them.
pub const PLACES_SYMBOL: &str = "ramson_places";
/// The function that does what is asked, given to dl_iterate_phdr(3) as its callback: the loader then unloads no object.
pub const ACT_SYMBOL: &str = "ramson_act";
/// The function that begins to record, or ends it, as was asked. Without arguments.
pub const SETTLE_SYMBOL: &str = "ramson_settle";

/// Slots that can be written in one process: first those that are listed from outside, …
pub const MOST_SLOTS: usize = 1 << 14;
/// … at most so many, and behind them those of objects that were loaded later, which the library lists itself.
pub const MOST_LISTED: usize = MOST_SLOTS - (1 << 12);
/// Places in code that hooks inside objects are written to.
pub const MOST_PLACES: usize = 1 << 12;
/// Most bytes that a thread allocates itself before it looks at its orders.
pub const LOOK_BYTES: u64 = 64 << 20;
/// The same while no samples are taken. Allocations between switching samples on and the next look are not seen.
pub const LOOK_BYTES_PAUSED: u64 = 128 << 10;
/// Longest sampling interval that may be asked for.
pub const MOST_INTERVAL_BYTES: u64 = crate::settings::MAX_INTERVAL_BYTES;
/// An overhead of 100%.
const MOST_OVERHEAD_PPM: u64 = 1_000_000;

/// The functions that have hooks, by number.
pub const HOOKED: [&str; 41] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "free_sized",
    "free_aligned_sized",
    "_exit",
    "_Exit",
    "abort",
    "prctl",
    "syscall",
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
];
/// The first so many of them allocate or free.
pub const ALLOCATING: usize = 12;

/// How to sample from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orders {
    /// Mean bytes from one sample to the next; at least 1.
    pub interval_bytes: u64,
    /// Bound of the CPU time of samples, in millionths; 0 is none.
    pub max_overhead_ppm: u32,
    /// No samples are taken; frees of blocks that were sampled are recorded.
    pub is_off: bool,
    /// CLOCK_MONOTONIC after which none are taken; 0 is never.
    pub until_monotonic_ns: u64,
    /// Tells one order from the next.
    pub number: u64,
}

/// Words of orders, the check among them.
pub const ORDER_WORDS: usize = 6;

impl Orders {
    /// As they are written.
    pub fn words(&self) -> [u64; ORDER_WORDS] {
        let mut words = [
            self.interval_bytes,
            self.max_overhead_ppm as u64,
            self.is_off as u64,
            self.until_monotonic_ns,
            self.number,
            0,
        ];
        words[ORDER_WORDS - 1] = check(&words[..ORDER_WORDS - 1]);
        words
    }

    /// `None`: not whole, out of range, or none were given yet.
    pub fn of_words(words: &[u64; ORDER_WORDS]) -> Option<Self> {
        let [interval_bytes, max_overhead_ppm, is_off, until_monotonic_ns, number, found] = *words;
        let is_whole = found == check(&words[..ORDER_WORDS - 1]);
        let is_in_range = (1..=MOST_INTERVAL_BYTES).contains(&interval_bytes)
            && max_overhead_ppm <= MOST_OVERHEAD_PPM
            && is_off <= 1;
        (is_whole && is_in_range).then_some(Self {
            interval_bytes,
            max_overhead_ppm: max_overhead_ppm as u32,
            is_off: is_off == 1,
            until_monotonic_ns,
            number,
        })
    }
}

/// Task of `act`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Action {
    /// Take the settings, find the real functions, and write the hooks into the slots that are listed.
    Attach = 1,
    /// Put back what the slots had. What the places in code had has been put back already.
    Detach = 2,
    /// Find the allocators inside objects, make hooks for them, and list the places that are to be written for these.
    Prepare = 3,
}

impl Action {
    /// By its number.
    pub const fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Attach),
            2 => Some(Self::Detach),
            3 => Some(Self::Prepare),
            _ => None,
        }
    }
}

/// Request to `act`. The settings count at the first attach only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in the library's settings")]
pub struct Request {
    pub action: Action,
    /// Slots in the table.
    pub slots: u64,
    pub interval_bytes: u64,
    pub max_overhead_ppm: u32,
    pub file_bytes: u64,
    /// The filters that let through all that the library does; `None`: none were looked at.
    pub tried_filters: Option<u64>,
    /// The process, as it is called in its own namespace.
    pub pid: u32,
    /// Address of the executable's program headers.
    pub program_headers: u64,
    pub entropy: u64,
    /// Tells one request from the next.
    pub number: u64,
    /// By which the library notices objects that come later.
    pub loader: Loader,
}

/// The process's loader, as addresses; all 0 is one that is not known well enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Loader {
    /// Its count of objects that it has loaded, …
    pub count_at: u64,
    /// … and what that was before the slots were listed.
    pub count: u64,
    /// The lock that it has while it loads or unloads.
    pub lock: u64,
    /// pthread_mutex_trylock(3).
    pub try_lock: u64,
    /// pthread_mutex_unlock(3).
    pub unlock: u64,
}

/// Words of a request, the check among them.
pub const REQUEST_WORDS: usize = 16;

impl Request {
    /// As they are written; `directory` is what is written behind them.
    pub fn words(&self, directory: &[u64; DIRECTORY_WORDS]) -> [u64; REQUEST_WORDS] {
        let mut words = [
            self.action as u64,
            self.slots,
            self.interval_bytes,
            self.max_overhead_ppm as u64,
            self.file_bytes,
            self.tried_filters.map_or(u64::MAX, |filters| filters),
            self.pid as u64,
            self.program_headers,
            self.entropy,
            self.number,
            self.loader.count_at,
            self.loader.count,
            self.loader.lock,
            self.loader.try_lock,
            self.loader.unlock,
            0,
        ];
        words[REQUEST_WORDS - 1] = request_check(&words, directory);
        words
    }

    /// `None`: not whole, or out of range.
    pub fn of_words(
        words: &[u64; REQUEST_WORDS],
        directory: &[u64; DIRECTORY_WORDS],
    ) -> Option<Self> {
        let [
            action,
            slots,
            interval_bytes,
            ppm,
            file_bytes,
            filters,
            pid,
            headers,
            entropy,
            number,
            count_at,
            count,
            lock,
            try_lock,
            unlock,
            found,
        ] = *words;
        let is_in_range = slots <= MOST_LISTED as u64
            && pid <= u32::MAX as u64
            && (1..=MOST_INTERVAL_BYTES).contains(&interval_bytes)
            && ppm <= MOST_OVERHEAD_PPM
            && (FILE_BYTES_RANGE.0..=FILE_BYTES_RANGE.1).contains(&file_bytes);
        let request = Self {
            action: Action::of(action)?,
            slots,
            interval_bytes,
            max_overhead_ppm: ppm as u32,
            file_bytes,
            tried_filters: Some(filters).filter(|&filters| filters != u64::MAX),
            pid: pid as u32,
            program_headers: headers,
            entropy,
            number,
            loader: Loader { count_at, count, lock, try_lock, unlock },
        };
        (is_in_range && found == request_check(words, directory)).then_some(request)
    }
}

fn request_check(words: &[u64; REQUEST_WORDS], directory: &[u64; DIRECTORY_WORDS]) -> u64 {
    mix(check(&words[..REQUEST_WORDS - 1]), check(directory))
}

fn check(words: &[u64]) -> u64 {
    words.iter().fold(0x636f_6e74, |hash, &word| mix(hash, word))
}

/// A path, as words of eight bytes each; 0 after its end.
pub const DIRECTORY_WORDS: usize = PATH_BYTES / 8;

/// How an action went, in `Control::outcome`, with the request's number in the upper bits.
pub mod outcome {
    /// It was done.
    pub const DONE: u64 = 1;
    /// The request was not whole.
    pub const UNREADABLE: u64 = 2;
    /// The C library is not known, or has no malloc of its own.
    pub const UNKNOWN: u64 = 3;
    /// Another thread was writing slots all the time.
    pub const BUSY: u64 = 4;
}

/// The words at `ramson_control`. All zero but the layout is "nothing was asked".
#[repr(C)]
#[derive(Debug)]
#[expect(missing_docs, reason = "their types say what they are")]
pub struct Control {
    pub layout: AtomicU64,
    pub orders: [AtomicU64; ORDER_WORDS],
    pub request: [AtomicU64; REQUEST_WORDS],
    pub directory: [AtomicU64; DIRECTORY_WORDS],
    /// Number of the request that was dealt with, and shifted by 8, how it went.
    pub outcome: AtomicU64,
    /// Not 0: the library came into the running process, and did not start with it.
    pub is_attached: AtomicU64,
    /// Hooks are in place in so many slots.
    pub patched: AtomicU64,
    /// Not 0: objects that are loaded later will be noticed.
    pub follows: AtomicU64,
}

/// Offsets in `Control`.
pub mod offset {
    use super::Control;
    use core::mem::offset_of;
    /// Offset of the orders.
    pub const ORDERS: u64 = offset_of!(Control, orders) as u64;
    /// Offset of the request; the directory follows.
    pub const REQUEST: u64 = offset_of!(Control, request) as u64;
    /// Offset of the outcome; the words that follow tell the state.
    pub const OUTCOME: u64 = offset_of!(Control, outcome) as u64;
}

/// Bits of `Slot::flags`.
pub mod slot_flags {
    /// It has not been bound yet: it leads into the object's own code, which has the loader find the function at the first call.
    pub const LAZY: u64 = 1;
}

/// Values of `Slot::state`.
pub mod slot_state {
    /// It is not looked at.
    pub const FREE: u64 = 0;
    /// Listed from outside.
    pub const LISTED: u64 = 1;
    /// It has our hook, or had at the last look.
    pub const PATCHED: u64 = 2;
    /// It leads elsewhere.
    pub const OTHER: u64 = 3;
    /// Its page cannot be written.
    pub const FAILED: u64 = 4;
    /// It leads to a function that has a hook inside its object.
    pub const INSIDE: u64 = 5;
}

/// Values of `Place::state`.
pub mod place_state {
    /// It is not looked at.
    pub const FREE: u64 = 0;
    /// It is to be written, for the first time.
    pub const LISTED: u64 = 1;
    /// It leads to a hook.
    pub const WRITTEN: u64 = 2;
    /// It has again what it had.
    pub const RESTORED: u64 = 3;
    /// It is to be written, and once was.
    pub const AGAIN: u64 = 4;
}

/// A place in code that is written so that it leads to a hook. It is written from outside while all threads are stopped.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Place {
    /// Its address; 0: the entry was never used.
    pub address: AtomicU64,
    /// Bytes that are written, at most 8.
    pub bytes: AtomicU64,
    /// What was there, the first byte being the lowest, …
    pub before: AtomicU64,
    /// … and what is to be.
    pub after: AtomicU64,
    /// Up to there no thread may be about to execute an instruction behind the first byte.
    pub end: AtomicU64,
    /// Number of the allocator, from 1 on; 0: it is the loader's function.
    pub family: AtomicU64,
    /// See `place_state`.
    pub state: AtomicU64,
}

/// Length of a `Place` in words.
pub const PLACE_WORDS: usize = size_of::<Place>() / 8;

/// A pointer to a hooked function in an object of the process.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slot {
    /// The loader's record of the object.
    pub object: AtomicU64,
    /// The object's dynamic section, which tells it from another with that record.
    pub dynamic: AtomicU64,
    /// Address of the slot.
    pub address: AtomicU64,
    /// Pointer that the slot had, and gets back.
    pub before: AtomicU64,
    /// Number of the function in `HOOKED`.
    pub hook: AtomicU64,
    /// See `slot_flags`.
    pub flags: AtomicU64,
    /// See `slot_state`.
    pub state: AtomicU64,
}

/// Length of a `Slot` in words.
pub const SLOT_WORDS: usize = size_of::<Slot>() / 8;

#[cfg(test)]
mod tests;
