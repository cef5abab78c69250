//! The hooks on x86-64. A fast path is a countdown or a page filter test, then a jump to the real function: no frame, no
//! call. `tests/golden` holds its disassembly. A slow path keeps the arguments on the program's stack, calls the real
//! function, and gives the stack pointer at entry to the walker, so that walks begin at the caller.
//!
//! Every slow path carries unwind tables: an exception that the real `operator new` throws passes through it.

use crate::hooks;
use crate::process::PAGE_FILTER;
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::ffi::CStr;

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

/// `$stub`: the first call finds all real functions, then goes on where `$target` then leads.
macro_rules! unresolved {
    ($stub:ident, $target:ident) => {
        unresolved!($stub, $target, hooks::bind_all);
    };
    ($stub:ident, $target:ident, $bind:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $stub() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                ".cfi_adjust_cfa_offset 24",
                "call {bind}",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -24",
                "jmp qword ptr [rip + {target}]",
                ".cfi_endproc",
                bind = sym $bind,
                target = sym $target,
            )
        }
    };
}

/// The slow path of an allocation of `$size` bytes (a register): decide, call the real function, record.
macro_rules! allocation_slow {
    ($slow:ident, $next:ident, $size:literal, $record:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $slow() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                ".cfi_adjust_cfa_offset 24",
                concat!("push ", $size),
                concat!("push ", $size),
                ".cfi_adjust_cfa_offset 16",
                concat!("mov rdi, ", $size),
                "call {rearm}",
                "mov rdi, [rsp + 32]",
                "mov rsi, [rsp + 24]",
                "mov rdx, [rsp + 16]",
                "test rax, rax",
                "jz 2f",
                "mov [rsp], rax",
                "call qword ptr [rip + {next}]",
                "mov rdi, rax",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp]",
                "lea rcx, [rsp + 40]",
                "mov r8, rbp",
                "mov r9, [rsp + 32]",
                "call {record}",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_adjust_cfa_offset 40",
                "2:",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                rearm = sym hooks::rearm,
                record = sym $record,
                next = sym $next,
            )
        }
    };
}

/// A hook on an allocation whose size is the argument in `$size`.
macro_rules! allocation {
    ($name:literal, $hook:ident, $slow:ident, $stub:ident, $next:ident, $size:literal, $record:path) => {
        static $next: Target = Target::new($stub);
        unresolved!($stub, $next);
        allocation_slow!($slow, $next, $size, $record);

        #[unsafe(naked)]
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn $hook() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
                concat!("sub qword ptr fs:[rax], ", $size),
                "jb {slow}",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// The slow path of a deallocation: take the record out, then let the real function free.
macro_rules! deallocation_slow {
    ($slow:ident, $next:ident) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $slow() {
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                "push rsi",
                "push rdx",
                ".cfi_adjust_cfa_offset 24",
                "call {forget}",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                ".cfi_adjust_cfa_offset -24",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                forget = sym hooks::forget,
                next = sym $next,
            )
        }
    };
}

/// A hook on a deallocation of the pointer in rdi.
macro_rules! deallocation {
    ($name:literal, $hook:ident, $slow:ident, $stub:ident, $next:ident) => {
        static $next: Target = Target::new($stub);
        unresolved!($stub, $next);
        deallocation_slow!($slow, $next);

        #[unsafe(naked)]
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn $hook() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, rdi",
                "lea rcx, [rip + {filter}]",
                "shr rax, 12",
                "and eax, 0xffffff",
                "cmp byte ptr [rcx + rax], 0",
                "jne {slow}",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                filter = sym PAGE_FILTER,
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// A C++ operator. `$entry` leads to the real operator if that only calls malloc or free, which count already, and to
/// a counting fast path if the operator is the allocator's own.
macro_rules! operator_new {
    ($name:literal, $hook:ident, $slow:ident, $stub:ident, $entry:ident, $next:ident, $counted:ident) => {
        static $entry: Target = Target::new($stub);
        static $next: Target = Target::new($stub);
        unresolved!($stub, $entry, hooks::bind_operators);
        allocation_slow!($slow, $next, "rdi", hooks::record);

        #[unsafe(naked)]
        unsafe extern "C" fn $counted() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, qword ptr [rip + ramson_thread@GOTTPOFF]",
                "sub qword ptr fs:[rax], rdi",
                "jb {slow}",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                slow = sym $slow,
                next = sym $next,
            )
        }
        jump!($name, $hook, $entry);
    };
}

macro_rules! operator_delete {
    ($name:literal, $hook:ident, $slow:ident, $stub:ident, $entry:ident, $next:ident, $counted:ident) => {
        static $entry: Target = Target::new($stub);
        static $next: Target = Target::new($stub);
        unresolved!($stub, $entry, hooks::bind_operators);
        deallocation_slow!($slow, $next);

        #[unsafe(naked)]
        unsafe extern "C" fn $counted() {
            naked_asm!(
                ".cfi_startproc",
                "mov rax, rdi",
                "lea rcx, [rip + {filter}]",
                "shr rax, 12",
                "and eax, 0xffffff",
                "cmp byte ptr [rcx + rax], 0",
                "jne {slow}",
                "jmp qword ptr [rip + {next}]",
                ".cfi_endproc",
                filter = sym PAGE_FILTER,
                slow = sym $slow,
                next = sym $next,
            )
        }
        jump!($name, $hook, $entry);
    };
}

macro_rules! jump {
    ($name:literal, $hook:ident, $entry:ident) => {
        #[unsafe(naked)]
        #[unsafe(export_name = $name)]
        unsafe extern "C" fn $hook() {
            naked_asm!(
                ".cfi_startproc",
                "jmp qword ptr [rip + {entry}]",
                ".cfi_endproc",
                entry = sym $entry,
            )
        }
    };
}

allocation!("malloc", malloc, malloc_slow, malloc_stub, NEXT_MALLOC, "rdi", hooks::record);
allocation!(
    "memalign",
    memalign,
    memalign_slow,
    memalign_stub,
    NEXT_MEMALIGN,
    "rsi",
    hooks::record
);
allocation!(
    "aligned_alloc",
    aligned_alloc,
    aligned_alloc_slow,
    aligned_alloc_stub,
    NEXT_ALIGNED_ALLOC,
    "rsi",
    hooks::record
);
allocation!("valloc", valloc, valloc_slow, valloc_stub, NEXT_VALLOC, "rdi", hooks::record);
allocation!("pvalloc", pvalloc, pvalloc_slow, pvalloc_stub, NEXT_PVALLOC, "rdi", hooks::record);
allocation!(
    "posix_memalign",
    posix_memalign,
    posix_memalign_slow,
    posix_memalign_stub,
    NEXT_POSIX_MEMALIGN,
    "rdx",
    hooks::record_posix_memalign
);
deallocation!("free", free, free_slow, free_stub, NEXT_FREE);
deallocation!("free_sized", free_sized, free_sized_slow, free_sized_stub, NEXT_FREE_SIZED);
deallocation!(
    "free_aligned_sized",
    free_aligned_sized,
    free_aligned_sized_slow,
    free_aligned_sized_stub,
    NEXT_FREE_ALIGNED_SIZED
);

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
    naked_asm!("xor edx, edx", "jmp {slow}", slow = sym realloc_slow)
}

#[unsafe(naked)]
unsafe extern "C" fn realloc_due() {
    naked_asm!("mov edx, 1", "jmp {slow}", slow = sym realloc_slow)
}

/// edx tells whether a sample is due. The stack holds, upwards from rsp, what `hooks::Reallocation` names.
#[unsafe(naked)]
unsafe extern "C" fn realloc_slow() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "push rdx",
        "push 0",
        "push 0",
        ".cfi_adjust_cfa_offset 40",
        "mov rdi, rsp",
        "call {begin}",
        "mov rdi, [rsp + 32]",
        "mov rsi, [rsp + 24]",
        "call qword ptr [rip + {next}]",
        "mov rdi, rax",
        "mov rsi, rsp",
        "lea rdx, [rsp + 40]",
        "mov rcx, rbp",
        "call {end}",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        begin = sym hooks::realloc_begin,
        end = sym hooks::realloc_end,
        next = sym NEXT_REALLOC,
    )
}

/// reallocarray is realloc of the product, in every C library; an overflow goes to the real one, which refuses it.
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
        "mov rsi, rax",
        "jmp {realloc}",
        "2:",
        "jmp qword ptr [rip + {next}]",
        ".cfi_endproc",
        realloc = sym realloc,
        next = sym NEXT_REALLOCARRAY,
    )
}
static NEXT_REALLOCARRAY: Target = Target::new(reallocarray_stub);
unresolved!(reallocarray_stub, NEXT_REALLOCARRAY);

operator_new!("_Znwm", znwm, znwm_slow, znwm_stub, ENTRY_ZNWM, NEXT_ZNWM, znwm_counted);
operator_new!("_Znam", znam, znam_slow, znam_stub, ENTRY_ZNAM, NEXT_ZNAM, znam_counted);
operator_new!(
    "_ZnwmRKSt9nothrow_t",
    znwm_nothrow,
    znwm_nothrow_slow,
    znwm_nothrow_stub,
    ENTRY_ZNWM_NT,
    NEXT_ZNWM_NT,
    znwm_nothrow_counted
);
operator_new!(
    "_ZnamRKSt9nothrow_t",
    znam_nothrow,
    znam_nothrow_slow,
    znam_nothrow_stub,
    ENTRY_ZNAM_NT,
    NEXT_ZNAM_NT,
    znam_nothrow_counted
);
operator_new!(
    "_ZnwmSt11align_val_t",
    znwm_aligned,
    znwm_aligned_slow,
    znwm_aligned_stub,
    ENTRY_ZNWM_AL,
    NEXT_ZNWM_AL,
    znwm_aligned_counted
);
operator_new!(
    "_ZnamSt11align_val_t",
    znam_aligned,
    znam_aligned_slow,
    znam_aligned_stub,
    ENTRY_ZNAM_AL,
    NEXT_ZNAM_AL,
    znam_aligned_counted
);
operator_new!(
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    znwm_aligned_nothrow,
    znwm_aligned_nothrow_slow,
    znwm_aligned_nothrow_stub,
    ENTRY_ZNWM_ALNT,
    NEXT_ZNWM_ALNT,
    znwm_aligned_nothrow_counted
);
operator_new!(
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    znam_aligned_nothrow,
    znam_aligned_nothrow_slow,
    znam_aligned_nothrow_stub,
    ENTRY_ZNAM_ALNT,
    NEXT_ZNAM_ALNT,
    znam_aligned_nothrow_counted
);
operator_delete!("_ZdlPv", zdl, zdl_slow, zdl_stub, ENTRY_ZDL, NEXT_ZDL, zdl_counted);
operator_delete!("_ZdaPv", zda, zda_slow, zda_stub, ENTRY_ZDA, NEXT_ZDA, zda_counted);
operator_delete!(
    "_ZdlPvRKSt9nothrow_t",
    zdl_nothrow,
    zdl_nothrow_slow,
    zdl_nothrow_stub,
    ENTRY_ZDL_NT,
    NEXT_ZDL_NT,
    zdl_nothrow_counted
);
operator_delete!(
    "_ZdaPvRKSt9nothrow_t",
    zda_nothrow,
    zda_nothrow_slow,
    zda_nothrow_stub,
    ENTRY_ZDA_NT,
    NEXT_ZDA_NT,
    zda_nothrow_counted
);
operator_delete!(
    "_ZdlPvm",
    zdl_sized,
    zdl_sized_slow,
    zdl_sized_stub,
    ENTRY_ZDL_SZ,
    NEXT_ZDL_SZ,
    zdl_sized_counted
);
operator_delete!(
    "_ZdaPvm",
    zda_sized,
    zda_sized_slow,
    zda_sized_stub,
    ENTRY_ZDA_SZ,
    NEXT_ZDA_SZ,
    zda_sized_counted
);
operator_delete!(
    "_ZdlPvSt11align_val_t",
    zdl_aligned,
    zdl_aligned_slow,
    zdl_aligned_stub,
    ENTRY_ZDL_AL,
    NEXT_ZDL_AL,
    zdl_aligned_counted
);
operator_delete!(
    "_ZdaPvSt11align_val_t",
    zda_aligned,
    zda_aligned_slow,
    zda_aligned_stub,
    ENTRY_ZDA_AL,
    NEXT_ZDA_AL,
    zda_aligned_counted
);
operator_delete!(
    "_ZdlPvmSt11align_val_t",
    zdl_sized_aligned,
    zdl_sized_aligned_slow,
    zdl_sized_aligned_stub,
    ENTRY_ZDL_SZAL,
    NEXT_ZDL_SZAL,
    zdl_sized_aligned_counted
);
operator_delete!(
    "_ZdaPvmSt11align_val_t",
    zda_sized_aligned,
    zda_sized_aligned_slow,
    zda_sized_aligned_stub,
    ENTRY_ZDA_SZAL,
    NEXT_ZDA_SZAL,
    zda_sized_aligned_counted
);
operator_delete!(
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    zdl_aligned_nothrow,
    zdl_aligned_nothrow_slow,
    zdl_aligned_nothrow_stub,
    ENTRY_ZDL_ALNT,
    NEXT_ZDL_ALNT,
    zdl_aligned_nothrow_counted
);
operator_delete!(
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    zda_aligned_nothrow,
    zda_aligned_nothrow_slow,
    zda_aligned_nothrow_stub,
    ENTRY_ZDA_ALNT,
    NEXT_ZDA_ALNT,
    zda_aligned_nothrow_counted
);

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
                "call {finish}",
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

struct Operator {
    name: &'static CStr,
    entry: &'static Target,
    next: &'static Target,
    stub: unsafe extern "C" fn(),
    counted: unsafe extern "C" fn(),
    otherwise: &'static CStr,
}

const fn plain(name: &'static CStr, next: &'static Target, otherwise: &'static CStr) -> Plain {
    Plain { name, next, otherwise }
}

static PLAIN: [Plain; 13] = [
    plain(c"malloc", &NEXT_MALLOC, c"malloc"),
    plain(c"free", &NEXT_FREE, c"free"),
    plain(c"calloc", &NEXT_CALLOC, c"calloc"),
    plain(c"realloc", &NEXT_REALLOC, c"realloc"),
    plain(c"reallocarray", &NEXT_REALLOCARRAY, c"realloc"),
    plain(c"memalign", &NEXT_MEMALIGN, c"memalign"),
    plain(c"aligned_alloc", &NEXT_ALIGNED_ALLOC, c"memalign"),
    plain(c"posix_memalign", &NEXT_POSIX_MEMALIGN, c"posix_memalign"),
    plain(c"valloc", &NEXT_VALLOC, c"valloc"),
    plain(c"pvalloc", &NEXT_PVALLOC, c"valloc"),
    plain(c"free_sized", &NEXT_FREE_SIZED, c"free"),
    plain(c"free_aligned_sized", &NEXT_FREE_ALIGNED_SIZED, c"free"),
    plain(c"_exit", &NEXT_EXIT, c"_exit"),
];

macro_rules! operators {
    ($(($name:literal, $entry:ident, $next:ident, $stub:ident, $counted:ident, $otherwise:literal)),* $(,)?) => {
        static OPERATORS: &[Operator] = &[$(Operator {
            name: $name,
            entry: &$entry,
            next: &$next,
            stub: $stub,
            counted: $counted,
            otherwise: $otherwise,
        }),*];
    };
}
operators![
    (c"_Znwm", ENTRY_ZNWM, NEXT_ZNWM, znwm_stub, znwm_counted, c"malloc"),
    (c"_Znam", ENTRY_ZNAM, NEXT_ZNAM, znam_stub, znam_counted, c"malloc"),
    (
        c"_ZnwmRKSt9nothrow_t",
        ENTRY_ZNWM_NT,
        NEXT_ZNWM_NT,
        znwm_nothrow_stub,
        znwm_nothrow_counted,
        c"malloc"
    ),
    (
        c"_ZnamRKSt9nothrow_t",
        ENTRY_ZNAM_NT,
        NEXT_ZNAM_NT,
        znam_nothrow_stub,
        znam_nothrow_counted,
        c"malloc"
    ),
    (
        c"_ZnwmSt11align_val_t",
        ENTRY_ZNWM_AL,
        NEXT_ZNWM_AL,
        znwm_aligned_stub,
        znwm_aligned_counted,
        c""
    ),
    (
        c"_ZnamSt11align_val_t",
        ENTRY_ZNAM_AL,
        NEXT_ZNAM_AL,
        znam_aligned_stub,
        znam_aligned_counted,
        c""
    ),
    (
        c"_ZnwmSt11align_val_tRKSt9nothrow_t",
        ENTRY_ZNWM_ALNT,
        NEXT_ZNWM_ALNT,
        znwm_aligned_nothrow_stub,
        znwm_aligned_nothrow_counted,
        c""
    ),
    (
        c"_ZnamSt11align_val_tRKSt9nothrow_t",
        ENTRY_ZNAM_ALNT,
        NEXT_ZNAM_ALNT,
        znam_aligned_nothrow_stub,
        znam_aligned_nothrow_counted,
        c""
    ),
    (c"_ZdlPv", ENTRY_ZDL, NEXT_ZDL, zdl_stub, zdl_counted, c"free"),
    (c"_ZdaPv", ENTRY_ZDA, NEXT_ZDA, zda_stub, zda_counted, c"free"),
    (
        c"_ZdlPvRKSt9nothrow_t",
        ENTRY_ZDL_NT,
        NEXT_ZDL_NT,
        zdl_nothrow_stub,
        zdl_nothrow_counted,
        c"free"
    ),
    (
        c"_ZdaPvRKSt9nothrow_t",
        ENTRY_ZDA_NT,
        NEXT_ZDA_NT,
        zda_nothrow_stub,
        zda_nothrow_counted,
        c"free"
    ),
    (c"_ZdlPvm", ENTRY_ZDL_SZ, NEXT_ZDL_SZ, zdl_sized_stub, zdl_sized_counted, c"free"),
    (c"_ZdaPvm", ENTRY_ZDA_SZ, NEXT_ZDA_SZ, zda_sized_stub, zda_sized_counted, c"free"),
    (
        c"_ZdlPvSt11align_val_t",
        ENTRY_ZDL_AL,
        NEXT_ZDL_AL,
        zdl_aligned_stub,
        zdl_aligned_counted,
        c"free"
    ),
    (
        c"_ZdaPvSt11align_val_t",
        ENTRY_ZDA_AL,
        NEXT_ZDA_AL,
        zda_aligned_stub,
        zda_aligned_counted,
        c"free"
    ),
    (
        c"_ZdlPvmSt11align_val_t",
        ENTRY_ZDL_SZAL,
        NEXT_ZDL_SZAL,
        zdl_sized_aligned_stub,
        zdl_sized_aligned_counted,
        c"free"
    ),
    (
        c"_ZdaPvmSt11align_val_t",
        ENTRY_ZDA_SZAL,
        NEXT_ZDA_SZAL,
        zda_sized_aligned_stub,
        zda_sized_aligned_counted,
        c"free"
    ),
    (
        c"_ZdlPvSt11align_val_tRKSt9nothrow_t",
        ENTRY_ZDL_ALNT,
        NEXT_ZDL_ALNT,
        zdl_aligned_nothrow_stub,
        zdl_aligned_nothrow_counted,
        c"free"
    ),
    (
        c"_ZdaPvSt11align_val_tRKSt9nothrow_t",
        ENTRY_ZDA_ALNT,
        NEXT_ZDA_ALNT,
        zda_aligned_nothrow_stub,
        zda_aligned_nothrow_counted,
        c"free"
    ),
];

/// A function found by `bind`'s `find`.
pub struct Found {
    pub address: usize,
    /// The object that defines it defines malloc too, so its operators do not go through ours.
    pub is_of_an_allocator: bool,
}

/// Points every hook at the real function that `find` gives for its name. Operators that are not there yet (a C++
/// library may be loaded later) keep their stub, which asks again.
pub fn bind(find: impl Fn(&CStr) -> Option<Found>) {
    for hook in &PLAIN {
        let real = find(hook.name).or_else(|| find(hook.otherwise));
        hook.next.set(real.map_or(missing as *const () as usize, |found| found.address));
    }
    NEXT_EXIT_C99.set(find(c"_Exit").or_else(|| find(c"_exit")).map_or(0, |found| found.address));
    for operator in OPERATORS {
        if operator.entry.is_bound_beyond(operator.stub) {
            continue;
        }
        if let Some(real) = find(operator.name) {
            operator.next.set(real.address);
            let counted = operator.counted as *const () as usize;
            operator.entry.set(if real.is_of_an_allocator { counted } else { real.address });
        }
    }
}

/// For a call of an operator that no loaded object defines: as good as the C functions can do it.
pub fn bind_missing_operators(find: impl Fn(&CStr) -> Option<Found>) {
    for operator in OPERATORS {
        if !operator.entry.is_bound_beyond(operator.stub) {
            let real = find(operator.otherwise);
            operator.entry.set(real.map_or(missing as *const () as usize, |found| found.address));
        }
    }
}
