//! The hooks on x86-64. A fast path is a countdown or a page filter test, then a jump to the real function: no frame, no
//! call. `tests/golden` holds its disassembly. A slow path keeps the arguments on the program's stack, calls the real
//! function, and gives the stack pointer at entry to the walker, so that walks begin at the caller.
//!
//! Every slow path carries unwind tables: an exception that the real `operator new` throws passes through it.

use crate::hooks;
use crate::page_filter::PAGE_FILTER;
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::CStr;

#[macro_use]
mod paths;
mod extents;
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

    fn is_bound_beyond(&self, stub: unsafe extern "C" fn()) -> bool {
        // SAFETY: a plain read of an aligned word.
        unsafe { self.0.get().cast::<usize>().read_volatile() != stub as usize }
    }
}

/// A hook on an allocation whose size is the argument in `$size`.
macro_rules! allocation {
    ($module:ident, $name:literal, $size:literal, $record:path) => {
        mod $module {
            use super::*;
            pub static NEXT: Target = Target::new(stub);
            unresolved!(stub, NEXT);
            allocation_slow!(slow, NEXT, $size, $record);
            allocation_fast!(
                #[unsafe(export_name = $name)]
                hook,
                slow,
                NEXT,
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
            pub static NEXT: Target = Target::new(stub);
            unresolved!(stub, NEXT);
            deallocation_slow!(slow, NEXT);
            deallocation_fast!(
                #[unsafe(export_name = $name)]
                hook,
                slow,
                NEXT
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

static NEXT_CALLOC: Target = Target::new(calloc_stub);
unresolved!(calloc_stub, NEXT_CALLOC);
allocation_slow!(calloc_slow, NEXT_CALLOC, "rcx", hooks::record);

/// An overflowing product goes to the real calloc, which refuses it.
#[unsafe(naked)]
#[unsafe(export_name = "calloc")]
unsafe extern "C" fn calloc() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "mul rsi",
        "jo 2f",
        "mov rcx, rax",
        "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
        "sub qword ptr fs:[rax], rcx",
        "jb {slow}",
        "2:",
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        slow = sym calloc_slow,
        next = sym NEXT_CALLOC,
    )
}

static NEXT_REALLOC: Target = Target::new(realloc_stub);
unresolved!(realloc_stub, NEXT_REALLOC);

#[unsafe(naked)]
#[unsafe(export_name = "realloc")]
unsafe extern "C" fn realloc() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
        "sub qword ptr fs:[rax], rsi",
        "jb {due}",
        "mov rax, rdi",
        "lea rcx, [rip + {filter}]",
        "shr rax, 12",
        "and eax, 0xffffff",
        "cmp byte ptr [rcx + rax], 0",
        "jne {known}",
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        due = sym realloc_due,
        known = sym realloc_known,
        filter = sym PAGE_FILTER,
        next = sym NEXT_REALLOC,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn realloc_known() {
    naked_asm!(".cfi_startproc", "xor edx, edx", "jmp {slow}", ".cfi_endproc", slow = sym realloc_slow)
}

#[unsafe(naked)]
unsafe extern "C" fn realloc_due() {
    naked_asm!(".cfi_startproc", "mov edx, 1", "jmp {slow}", ".cfi_endproc", slow = sym realloc_slow)
}

/// edx tells whether a sample is due. The stack holds, upwards from rsp, what `hooks::Reallocation` names: with the return address a
/// multiple of 16, so that the real function finds it as the program aligned it.
#[unsafe(naked)]
unsafe extern "C" fn realloc_slow() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "push 0",
        ".cfi_adjust_cfa_offset 8",
        "push 0",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsp",
        "lea rsi, [rsp + 40]",
        call!("{begin}"),
        "mov rdi, [rsp + 32]",
        "mov rsi, [rsp + 24]",
        "call qword ptr [rip + {next}]",
        "mov rdi, rax",
        "mov rsi, rsp",
        "lea rdx, [rsp + 40]",
        "mov rcx, rbp",
        call!("{end}"),
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        begin = sym hooks::realloc_begin,
        end = sym hooks::realloc_end,
        next = sym NEXT_REALLOC,
    )
}

/// reallocarray is realloc of the product, in every C library; more than any object can have goes to the real one, which refuses
/// it with an errno that may be another than its realloc's (mimalloc).
#[unsafe(naked)]
#[unsafe(export_name = "reallocarray")]
unsafe extern "C" fn reallocarray() {
    naked_asm!(
        ".cfi_startproc",
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
        ".cfi_endproc",
        next = sym NEXT_REALLOCARRAY,
    )
}
static NEXT_REALLOCARRAY: Target = Target::new(reallocarray_stub);
unresolved!(reallocarray_stub, NEXT_REALLOCARRAY);

static NEXT_EXIT: Target = Target::new(exit_stub);
static NEXT_EXIT_C99: Target = Target::new(exit_c99_stub);
unresolved!(exit_stub, NEXT_EXIT);
unresolved!(exit_c99_stub, NEXT_EXIT_C99);

macro_rules! exit_hook {
    ($name:literal, $hook:ident, $next:ident) => {
        #[unsafe(naked)]
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn $hook() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                call!("{finish}"),
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                finish = sym hooks::finish_with_status,
                next = sym $next,
            )
        }
    };
}
exit_hook!("_exit", underscore_exit, NEXT_EXIT);
exit_hook!("_Exit", exit_c99, NEXT_EXIT_C99);

static NEXT_ABORT: Target = Target::new(abort_stub);
unresolved!(abort_stub, NEXT_ABORT);

#[unsafe(naked)]
#[unsafe(export_name = "abort")]
unsafe extern "C" fn abort() {
    naked_asm!(
        ".cfi_startproc",
        "mov rdi, rsp",
        "mov rsi, rbp",
        call!("{before}"),
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        before = sym hooks::before_abort,
        next = sym NEXT_ABORT,
    )
}

static NEXT_PRCTL: Target = Target::new(prctl_stub);
static NEXT_SYSCALL: Target = Target::new(syscall_stub);
unresolved!(prctl_stub, NEXT_PRCTL);
unresolved!(syscall_stub, NEXT_SYSCALL);

/// A hook on a function that may forbid something that ramson does if its first argument is one of `$numbers`.
macro_rules! confining_hook {
    ($name:literal, $hook:ident, $next:ident, [$($numbers:literal),+], $before:path) => {
        #[unsafe(naked)]
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn $hook() {
            naked_asm!(
                ".cfi_startproc",
                $(concat!("cmp edi, ", $numbers), "je 2f",)+
                "jmp qword ptr [rip + {next}]",
                "2:",
                push_arguments!(),
                call!("{before}"),
                pop_arguments!(),
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                before = sym $before,
                next = sym $next,
            )
        }
    };
}
// PR_SET_SECCOMP, PR_SET_TSC and PR_SET_SYSCALL_USER_DISPATCH; SYS_seccomp and SYS_prctl.
confining_hook!("prctl", prctl, NEXT_PRCTL, [22, 26, 59], hooks::before_prctl);
confining_hook!("syscall", syscall, NEXT_SYSCALL, [317, 157], hooks::before_syscall);

/// Fails as the real function would if there were one: no memory.
unsafe extern "C" fn missing() {
    // SAFETY: sets the return register only; the functions that this stands in for return a pointer or nothing.
    unsafe { core::arch::asm!("xor eax, eax", out("rax") _, options(nomem, nostack)) }
}

struct Plain {
    name: &'static CStr,
    next: &'static Target,
    /// Used where the C library has no such function.
    otherwise: &'static CStr,
}

const fn plain(name: &'static CStr, next: &'static Target, otherwise: &'static CStr) -> Plain {
    Plain { name, next, otherwise }
}

static PLAIN: [Plain; 21] = [
    plain(c"malloc", &malloc::NEXT, c"malloc"),
    plain(c"free", &free::NEXT, c"free"),
    plain(c"calloc", &NEXT_CALLOC, c"calloc"),
    plain(c"realloc", &NEXT_REALLOC, c"realloc"),
    plain(c"reallocarray", &NEXT_REALLOCARRAY, c"realloc"),
    plain(c"memalign", &memalign::NEXT, c"memalign"),
    plain(c"aligned_alloc", &aligned_alloc::NEXT, c"memalign"),
    plain(c"posix_memalign", &posix_memalign::NEXT, c"posix_memalign"),
    plain(c"valloc", &valloc::NEXT, c"valloc"),
    plain(c"pvalloc", &pvalloc::NEXT, c"valloc"),
    plain(c"free_sized", &free_sized::NEXT, c"free"),
    plain(c"free_aligned_sized", &free_aligned_sized::NEXT, c"free"),
    plain(c"_exit", &NEXT_EXIT, c"_exit"),
    plain(c"_Exit", &NEXT_EXIT_C99, c"_exit"),
    plain(c"abort", &NEXT_ABORT, c"abort"),
    plain(c"prctl", &NEXT_PRCTL, c"prctl"),
    plain(c"syscall", &NEXT_SYSCALL, c"syscall"),
    plain(c"mmap", &extents::mmap::NEXT, c"mmap64"),
    plain(c"mmap64", &extents::mmap64::NEXT, c"mmap"),
    plain(c"munmap", &extents::munmap::NEXT, c"munmap"),
    plain(c"mremap", &extents::mremap::NEXT, c"mremap"),
];

/// A function found by `bind`'s `find`.
pub struct Found {
    pub address: usize,
    /// The object that defines it defines malloc too, so its operators do not go through ours.
    pub is_of_an_allocator: bool,
    /// That allocator is jemalloc, whose aligned operators do: they call aligned_alloc by its public name.
    pub is_of_jemalloc: bool,
}

/// Points every hook at the real function that `find` gives for its name.
pub fn bind(find: impl Fn(&CStr) -> Option<Found>) {
    for hook in &PLAIN {
        let real = find(hook.name).or_else(|| find(hook.otherwise));
        hook.next.set(real.map_or(missing as *const () as usize, |found| found.address));
    }
    operators::bind(find);
}
