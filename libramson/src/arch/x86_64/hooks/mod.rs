//! The hooks on x86-64. A fast path is a countdown or a page filter test, then a jump to the real function: no frame, no
//! call. `tests/golden` holds its disassembly. A slow path keeps the arguments on the program's stack, calls the real
//! function, and gives the stack pointer at entry to the walker, so that walks begin at the caller.
//!
//! Every slow path carries unwind tables: an exception that the real `operator new` throws passes through it.

use crate::page_filter::PAGE_FILTER;
use crate::{attach, hooks, resolve};
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::CStr;

#[macro_use]
mod paths;
mod extents;
pub mod inside;
pub mod operators;

/// A code address that a hook jumps to. Before the real function is known it is a stub that finds it.
#[repr(transparent)]
struct Target(UnsafeCell<unsafe extern "C" fn()>);

// SAFETY: aligned words, stored only by `bind`, where every thread would store the same value.
unsafe impl Sync for Target {}

impl Target {
    const fn new(stub: unsafe extern "C" fn()) -> Self {
        Self(UnsafeCell::new(stub))
    }

    fn set(&self, address: usize) {
        // SAFETY: `address` is that of a function (a symbol of a loaded object or a stub below).
        unsafe { self.0.get().cast::<usize>().write_volatile(address) };
    }

    fn get(&self) -> usize {
        // SAFETY: the cell is a static of ours, so it is there, aligned and initialised; other threads write it only whole. A cell of another
        // size than a pointer would give a wrong one.
        unsafe { self.0.get().cast::<usize>().read_volatile() }
    }

    fn is_bound_beyond(&self, stub: unsafe extern "C" fn()) -> bool {
        self.get() != stub as usize
    }
}

/// The real function of a hook. Called with more arguments than it takes, it leaves the others alone.
type Real = unsafe extern "C" fn(u64, u64, u64, u64, ...) -> u64;

/// One call of a hook, as its slow path has put it on the program's stack.
#[repr(C)]
pub struct Call {
    real: Real,
    pub arguments: [u64; 6],
    pub frame_pointer: u64,
    return_address: u64,
}

impl Call {
    /// The stack pointer at the hook's entry.
    pub fn entry(&self) -> u64 {
        (&raw const self.return_address) as u64
    }

    /// Calls the real function, and returns its result.
    pub fn real(&self) -> u64 {
        let [a, b, c, d, e, f] = self.arguments;
        // SAFETY: the program called the hook with these arguments, and so would have called the real function.
        unsafe { (self.real)(a, b, c, d, e, f) }
    }
}

/// A hook on an allocation whose size is the argument in `$size`.
macro_rules! allocation {
    ($module:ident, $name:literal, $size:literal, $record:path) => {
        mod $module {
            use super::*;
            next!();
            allocation_slow!(slow, $size, $record);
            allocation_fast!(
                #[unsafe(export_name = $name)]
                hook,
                $size
            );
        }
    };
}

/// A hook on a deallocation of the pointer in rdi.
macro_rules! deallocation {
    ($module:ident, $name:literal) => {
        mod $module {
            use super::*;
            next!();
            deallocation_slow!(slow);
            deallocation_fast!(
                #[unsafe(export_name = $name)]
                hook
            );
        }
    };
}

allocation!(malloc, "malloc", "rdi", hooks::record);
allocation!(memalign, "memalign", "rsi", hooks::record);
allocation!(aligned_alloc, "aligned_alloc", "rsi", hooks::record);
allocation!(valloc, "valloc", "rdi", hooks::record);
allocation!(pvalloc, "pvalloc", "rdi", hooks::record);
allocation!(posix_memalign, "posix_memalign", "rdx", hooks::record_posix_memalign);
deallocation!(free, "free");
deallocation!(free_sized, "free_sized");
deallocation!(free_aligned_sized, "free_aligned_sized");

mod calloc {
    use super::*;
    next!();
    allocation_slow!(slow, "rcx", hooks::record);

    // An overflowing product goes to the real calloc, which refuses it.
    naked!(
        #[unsafe(export_name = "calloc")]
        hook,
        [
            "mov rax, rdi",
            "mul rsi",
            "jo 2f",
            "mov rcx, rax",
            "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
            "sub qword ptr fs:[rax], rcx",
            "jb {slow}",
            "2:",
            "jmp qword ptr [rip + {next}]",
        ],
        slow = sym slow,
        next = sym NEXT,
    );
}

mod realloc {
    use super::*;
    next!();
    instead!(known, hooks::realloc_known);
    instead!(due, hooks::realloc_due);

    naked!(
        #[unsafe(export_name = "realloc")]
        hook,
        [
            "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
            "sub qword ptr fs:[rax], rsi",
            "jb {due}",
            slow_if_on_known_page!("{known}"),
            "jmp qword ptr [rip + {next}]",
        ],
        due = sym due,
        known = sym known,
        filter = sym PAGE_FILTER,
        next = sym NEXT,
    );
}

/// reallocarray is realloc of the product, in every C library; more than any object can have goes to the real one, which refuses
/// it with an errno that may be another than its realloc's (mimalloc).
mod reallocarray {
    use super::*;
    next!();
    naked!(
        #[unsafe(export_name = "reallocarray")]
        hook,
        [
            "mov rcx, rdx",
            "mov rax, rsi",
            "mul rdx",
            "mov rdx, rcx",
            "jo 2f",
            "test rax, rax",
            "js 2f",
            "mov rsi, rax",
            // Whoever comes first; not by way of the linker's table, which has no unwind tables.
            "jmp qword ptr [rip + realloc@GOTPCREL]",
            "2:",
            "jmp qword ptr [rip + {next}]",
        ],
        next = sym NEXT,
    );
}

macro_rules! exit_hook {
    ($module:ident, $name:literal) => {
        mod $module {
            use super::*;
            next!();
            naked!(
                #[unsafe(export_name = $name)]
                hook,
                [push!("rdi"), call!("{finish}"), pop!("rdi"), "jmp qword ptr [rip + {next}]"],
                finish = sym hooks::finish_with_status,
                next = sym NEXT,
            );
        }
    };
}
exit_hook!(underscore_exit, "_exit");
exit_hook!(exit_c99, "_Exit");

mod abort {
    use super::*;
    next!();
    naked!(
        #[unsafe(export_name = "abort")]
        hook,
        ["mov rdi, rsp", "mov rsi, rbp", call!("{before}"), "jmp qword ptr [rip + {next}]"],
        before = sym hooks::before_abort,
        next = sym NEXT,
    );
}

/// A hook on a function that may forbid something that ramson does if its first argument is one of `$numbers`.
macro_rules! confining_hook {
    ($module:ident, $name:literal, [$($number:literal),+], $before:path) => {
        mod $module {
            use super::*;
            next!();
            naked!(
                #[unsafe(export_name = $name)]
                hook,
                [
                    $(concat!("cmp edi, ", $number), "je 2f",)+
                    "jmp qword ptr [rip + {next}]",
                    "2:",
                    call_between!("{before}"),
                    "jmp qword ptr [rip + {next}]",
                ],
                before = sym $before,
                next = sym NEXT,
            );
        }
    };
}
// PR_SET_SECCOMP, PR_SET_TSC and PR_SET_SYSCALL_USER_DISPATCH; SYS_seccomp and SYS_prctl.
confining_hook!(prctl, "prctl", [22, 26, 59], hooks::before_prctl);
confining_hook!(syscall, "syscall", [317, 157], hooks::before_syscall);

/// Fails as the real function would if there were one: no memory.
unsafe extern "C" fn missing() {
    // SAFETY: sets the return register only; the functions that this stands in for return a pointer or nothing.
    unsafe { core::arch::asm!("xor eax, eax", out("rax") _, options(nomem, nostack)) }
}

/// Address of the real malloc, in the allocator that the program has.
pub fn real_malloc() -> u64 {
    malloc::NEXT.get() as u64
}

/// Hooks by name, and the function that is used where the C library has none of that name.
static PLAIN: &[(&CStr, &Target, &CStr)] = &[
    (c"malloc", &malloc::NEXT, c"malloc"),
    (c"free", &free::NEXT, c"free"),
    (c"calloc", &calloc::NEXT, c"calloc"),
    (c"realloc", &realloc::NEXT, c"realloc"),
    (c"reallocarray", &reallocarray::NEXT, c"realloc"),
    (c"memalign", &memalign::NEXT, c"memalign"),
    (c"aligned_alloc", &aligned_alloc::NEXT, c"memalign"),
    (c"posix_memalign", &posix_memalign::NEXT, c"posix_memalign"),
    (c"valloc", &valloc::NEXT, c"valloc"),
    (c"pvalloc", &pvalloc::NEXT, c"valloc"),
    (c"free_sized", &free_sized::NEXT, c"free"),
    (c"free_aligned_sized", &free_aligned_sized::NEXT, c"free"),
    (c"_exit", &underscore_exit::NEXT, c"_exit"),
    (c"_Exit", &exit_c99::NEXT, c"_exit"),
    (c"abort", &abort::NEXT, c"abort"),
    (c"prctl", &prctl::NEXT, c"prctl"),
    (c"syscall", &syscall::NEXT, c"syscall"),
    (c"mmap", &extents::mmap::NEXT, c"mmap64"),
    (c"mmap64", &extents::mmap64::NEXT, c"mmap"),
    (c"munmap", &extents::munmap::NEXT, c"munmap"),
    (c"mremap", &extents::mremap::NEXT, c"mremap"),
];

// Functions that are called from outside: one as a callback of dl_iterate_phdr, which ends at what is not 0; and one by itself.
naked!(
    #[unsafe(export_name = "ramson_act")]
    act,
    [call!("{act}"), "mov eax, 1", "ret"],
    act = sym attach::act,
);
naked!(
    #[unsafe(export_name = "ramson_settle")]
    settle,
    [call!("{settle}"), "ret"],
    settle = sym attach::settle,
);

/// The name of a hook as a C string, and where the hook goes on; `None` if it goes nowhere, or is an operator whose calls other hooks count.
pub fn real_of(name: &str) -> Option<(&'static CStr, usize)> {
    let is_it = |known: &CStr| known.to_bytes() == name.as_bytes();
    let plain = PLAIN.iter().find(|(known, ..)| is_it(known));
    let found = plain
        .map(|(known, next, _)| (*known, next.get()))
        .or_else(|| operators::counting(is_it))?;
    (found.1 != missing as *const () as usize).then_some(found)
}

/// A function found by `bind`'s `find`.
pub struct Found {
    pub address: usize,
    /// The object that defines it defines malloc too, so its operators do not go through ours.
    pub is_of_an_allocator: bool,
    /// The allocator is jemalloc, whose aligned operators do go through ours: they call aligned_alloc by its public name.
    pub is_of_jemalloc: bool,
}

/// Points every hook at the real function that `find` gives for its name.
pub fn bind(find: impl Fn(&CStr) -> Option<Found>) {
    for (name, next, otherwise) in PLAIN {
        // An executable that brings malloc is in front of us: what the C library lacks must end there.
        let in_front = || Some(hooks::found(resolve::find_first(otherwise)?));
        let real = find(name).or_else(in_front).or_else(|| find(otherwise));
        next.set(real.map_or(missing as *const () as usize, |found| found.address));
    }
    operators::bind(find);
}
