//! Facts that the loader and the C library tell at the first allocation, before the program could unload anything. Inherited by forked children.

use crate::arch;
use crate::resolve::{self, LinkMap};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

/// See `recorded_thread_id`; 0 if there is none.
static THREAD_ID_OFFSET: AtomicU64 = AtomicU64::new(0);
/// See `clock_address`.
static CLOCK_ADDRESS: AtomicUsize = AtomicUsize::new(0);
/// The last object in the loader's list.
static LAST_OBJECT: AtomicPtr<LinkMap> = AtomicPtr::new(core::ptr::null_mut());

/// See `executable_start`.
static EXECUTABLE_START: AtomicU64 = AtomicU64::new(0);

/// Looks around, before anything is unloaded. `program_headers`: the executable's, in memory; `last`: that object and those in front of it came
/// with the program.
pub fn learn(program_headers: u64, last: Option<&LinkMap>) {
    // They follow the ELF header, on its page.
    EXECUTABLE_START.store(program_headers & !0xfff, Relaxed);
    if let Some(last) = last {
        LAST_OBJECT.store(core::ptr::from_ref(last).cast_mut(), Relaxed);
    }
    // Later another thread may unload what the search meets.
    THREAD_ID_OFFSET.store(resolve::thread_id_offset(), Relaxed);
    let clock = resolve::find_next(c"__vdso_clock_gettime", 0);
    CLOCK_ADDRESS.store(clock.map_or(0, |(address, _)| address), Relaxed);
}

/// Returns the start of the executable, which no entry of the loader's list says; 0 if the kernel did not tell.
pub fn executable_start() -> u64 {
    EXECUTABLE_START.load(Relaxed)
}

/// The last of `objects`; null if there is none.
pub fn last_object() -> *const LinkMap {
    LAST_OBJECT.load(Relaxed)
}

/// The objects that were there at the start, which are never unloaded.
pub fn objects() -> impl Iterator<Item = &'static LinkMap> {
    resolve::objects_until(LAST_OBJECT.load(Relaxed))
}

/// The C library's record of this thread's id; 0 if it does not tell debuggers where that is.
pub fn recorded_thread_id() -> u32 {
    let offset = THREAD_ID_OFFSET.load(Relaxed);
    if offset == 0 {
        return 0;
    }
    // SAFETY: `struct pthread` begins at the thread pointer and is longer than that: the C library has named the place of this field.
    unsafe { *((arch::thread_pointer() + offset) as *const u32) }
}

/// Returns the address of the vDSO's clock_gettime; 0 if there is none.
pub fn clock_address() -> usize {
    CLOCK_ADDRESS.load(Relaxed)
}
