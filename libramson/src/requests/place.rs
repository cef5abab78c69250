//! Whether a thread that is at the end of a malloc may call another function of the allocator there: not if a signal's handler, fork
//! or the allocator itself called that malloc, for then it may be in the middle of something, with locks or, in a program of one
//! thread, without. Where that cannot be told, it may not.

use super::lever::Lever;
use crate::arch::{self, SIGNAL_TRAMPOLINE, Thread};
use crate::record::Recorder;
use crate::walk::{self, Caller};
use crate::{resolve, sys};
use core::ffi::CStr;
use ramson_format::Reason;

/// All that serving takes below the hook are 2.1 KiB with glibc 2.36 …
const GLIBC_ROOM_BYTES: u64 = 8 << 10;
/// … and 5.2 KiB with jemalloc 5.3 and tcmalloc; jemalloc puts a pointer to each of up to 4,096 arenas there.
const ROOM_BYTES: u64 = 48 << 10;
const PAGE_BYTES: u64 = 4096;
/// Through these the allocator is entered, or all of its locks are taken while handlers of the program run.
const ENTRANCES: [&CStr; 13] = [
    c"malloc",
    c"free",
    c"calloc",
    c"realloc",
    c"memalign",
    c"aligned_alloc",
    c"posix_memalign",
    c"valloc",
    c"pvalloc",
    c"malloc_trim",
    c"malloc_info",
    c"fork",
    c"_Fork",
];

type Extent = (u64, u64);

fn contains(extent: Extent, address: u64) -> bool {
    (extent.0..extent.1).contains(&address)
}

/// Why it may not, if so.
pub fn check(
    recorder: &Recorder,
    thread: &Thread,
    caller: Caller,
    lever: &Lever,
) -> Result<(), Reason> {
    let view = walk::known_view(thread, caller.stack_pointer).ok_or(Reason::Stack)?;
    if sys::signal_stack().map_or(true, |stack| stack.is_in_use) {
        return Err(Reason::Stack);
    }
    let room_bytes = if lever.is_glibc() { GLIBC_ROOM_BYTES } else { ROOM_BYTES };
    let here = arch::stack_pointer();
    let lowest = here.saturating_sub(room_bytes) & !(PAGE_BYTES - 1);
    if walk::readable_until(recorder.pid(), lowest, here) < here {
        return Err(Reason::Room);
    }
    let forbidden = forbidden_code(lever).ok_or(Reason::Allocator)?;
    let (mut is_inside, mut is_in_handler) = (false, false);
    let is_whole = recorder.is_whole(caller, &view, |address| {
        is_inside |= forbidden.iter().any(|&extent| contains(extent, address));
        is_in_handler |= ends_a_handler(recorder.pid(), address.wrapping_add(1));
    });
    // A handler's frame that unwind tables hide would still have its return on the stack.
    let mut words = view.words();
    is_in_handler |= words.any(|word| is_signal_return(word, lever.libc_code));
    if !is_whole || is_in_handler {
        return Err(Reason::Frames);
    }
    if is_inside { Err(Reason::Inside) } else { Ok(()) }
}

/// Code in which no frame may be. The C library's is the program's way to malloc all the time, so of that only the functions count.
fn forbidden_code(lever: &Lever) -> Option<[Extent; ENTRANCES.len() + 1]> {
    let mut extents = [(0, 0); ENTRANCES.len() + 1];
    for (extent, name) in extents.iter_mut().zip(ENTRANCES) {
        *extent = resolve::extent_in(lever.libc, name).unwrap_or_default();
    }
    if !lever.is_glibc() {
        let object = resolve::object_at(lever.allocator.inside())?;
        *extents.last_mut()? = (object.start, object.end);
    }
    Some(extents)
}

/// Whether code that a function returns to makes the system call with which a signal's handler ends, as it does where that does not return
/// through the C library. Such code has no unwind tables, and what lies before it may have whatever tables.
fn ends_a_handler(pid: u32, address: u64) -> bool {
    const RT_SIGRETURN: u8 = 15;
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // endbr64; mov $15, %rax; syscall
    let mut code = [0; 13];
    let bytes = sys::read_own_memory(pid, &[[address as usize, code.len()]], &mut code);
    let code = code.get(..bytes).unwrap_or_default();
    let at = code.windows(SYSCALL.len()).position(|instruction| instruction == SYSCALL);
    at.and_then(|at| code.get(..at)).is_some_and(|before| before.contains(&RT_SIGRETURN))
}

/// Whether a word refers to the code by which a signal's handler returns.
fn is_signal_return(word: u64, code: Extent) -> bool {
    const BYTES: u64 = SIGNAL_TRAMPOLINE.len() as u64;
    // SAFETY: in the C library's code, which is readable and stays.
    word >= code.0
        && word.checked_add(BYTES).is_some_and(|end| end <= code.1)
        && unsafe { *(word as *const [u8; SIGNAL_TRAMPOLINE.len()]) == SIGNAL_TRAMPOLINE }
}
