//! x86-64: thread-local storage, system calls and the few instructions that Rust has no word for.

pub mod decode;
pub mod entry;
#[cfg(not(any(test, fuzzing)))]
pub mod hooks;
pub mod probes;
#[cfg(not(any(test, fuzzing)))]
pub mod trampoline;

mod kernel;
pub use kernel::{O_DIRECTORY, O_NOFOLLOW, Stat, nr};

use super::Thread;
use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl ramson_thread",
    ".hidden ramson_thread",
    ".type ramson_thread,@object",
    ".size ramson_thread, {thread_bytes}",
    "ramson_thread: .zero {thread_bytes}",
    ".popsection",
    thread_bytes = const size_of::<Thread>(),
);

// Functions that the compiler calls for bulk memory; hidden, so that the program keeps its own.
#[cfg(not(any(test, fuzzing)))]
global_asm!(
    ".pushsection .text.ramson_memory,\"ax\",@progbits",
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".hidden memcpy, memmove, memset, memcmp, bcmp, strlen",
    // The stack pointer stays where it is in all of them.
    ".cfi_startproc",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdi",
    "sub rcx, rsi",
    "cmp rcx, rdx",
    "jae 2f",
    "lea rsi, [rsi + rdx - 1]",
    "lea rdi, [rdi + rdx - 1]",
    "mov rcx, rdx",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "memcpy:",
    "mov rax, rdi",
    "2:",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "3:",
    "test rdx, rdx",
    "jz 4f",
    "movzx eax, byte ptr [rdi]",
    "movzx ecx, byte ptr [rsi]",
    "inc rdi",
    "inc rsi",
    "dec rdx",
    "sub eax, ecx",
    "jz 3b",
    "4:",
    "ret",
    "strlen:",
    "mov rax, -1",
    "5:",
    "inc rax",
    "cmp byte ptr [rdi + rax], 0",
    "jne 5b",
    "ret",
    ".cfi_endproc",
    ".popsection",
);

/// The calling thread's state.
#[inline(always)]
pub fn thread() -> &'static Thread {
    let address: *const Thread;
    // SAFETY: the offset of an initial-exec symbol is a link-time constant that the loader puts in the GOT; fs:0 holds
    // the thread pointer itself (x86-64 TLS ABI). The storage lives as long as the thread, and only this thread
    // uses the reference (it is not Sync).
    unsafe {
        asm!(
            "mov {address}, qword ptr fs:[0]",
            "add {address}, qword ptr [rip + ramson_thread@GOTTPOFF]",
            address = out(reg) address,
            options(nostack, readonly, pure),
        );
        &*address
    }
}

/// Offset of the countdown from the thread pointer, the same in every thread.
pub fn countdown_offset() -> i32 {
    let offset: i64;
    // SAFETY: a load from our own GOT.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + ramson_thread@GOTTPOFF]",
            offset = out(reg) offset,
            options(nostack, readonly, pure),
        );
    }
    offset as i32
}

/// One past the calling thread's stack, if the C library put the thread control block on top of it, as it does for
/// every thread but the first.
#[inline]
pub fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: fs:0 holds the thread pointer (x86-64 TLS ABI).
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, pure)) };
    pointer
}

/// The stack pointer, more or less: it lies in the caller's frame.
#[inline(always)]
pub fn stack_pointer() -> u64 {
    let pointer;
    // SAFETY: copies a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    pointer
}

/// The cycle counter.
///
/// # Safety
/// The program must not have forbidden to read it.
#[inline]
pub unsafe fn cycles() -> u64 {
    // SAFETY: rdtsc has no precondition in user mode beyond ours.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A raw system call; returns a negated errno on failure. errno itself stays as it is.
///
/// # Safety
/// The arguments must be valid for the call: ramson's own memory, or the program's where it is only read.
#[inline]
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel's x86-64 convention; the caller vouches for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Ends the process: only for states that the code shows to be impossible.
pub fn trap() -> ! {
    // SAFETY: ud2 raises SIGILL.
    unsafe { asm!("ud2", options(noreturn, nostack)) }
}

/// DWARF numbers of the registers that unwinding needs.
pub mod dwarf {
    pub const FRAME_POINTER: u16 = 6;
    pub const STACK_POINTER: u16 = 7;
    pub const RETURN_ADDRESS: u16 = 16;
}

/// The kernel's signal trampoline: `mov rax, 15; syscall`. glibc's and musl's `__restore_rt` are these bytes.
pub const SIGNAL_TRAMPOLINE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Places at which a call and a function's first instructions put things.
pub mod frame_layout {
    /// Pushed by the call instruction.
    pub const RETURN_ADDRESS_BELOW_CFA: u64 = 8;
    /// After `push rbp; mov rbp, rsp`.
    pub const RETURN_ADDRESS_BEHIND_FRAME_POINTER: u64 = 8;
    /// Both of them.
    pub const FRAME_RECORD_BYTES: u64 = 16;
    /// End of user space without five-level page tables, beyond which no loader puts code.
    pub const HIGHEST_CODE: u64 = 1 << 47;
}

/// The return address of a call, and the caller's stack pointer after it.
///
/// # Safety
/// `entry` is the stack pointer at the first instruction of the function that was called.
#[inline(always)]
pub unsafe fn return_of_call(entry: u64) -> (u64, u64) {
    // SAFETY: the call instruction pushed it there. An `entry` that is read after the function returned would break it.
    (unsafe { *(entry as *const u64) }, entry + 8)
}

/// Places at which a signal frame keeps the interrupted registers, relative to the stack pointer at the trampoline: struct ucontext starts there, its
/// general registers at byte 40 in the order r8…r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
pub mod signal_frame {
    pub const FRAME_POINTER: u64 = 40 + 10 * 8;
    pub const STACK_POINTER: u64 = 40 + 15 * 8;
    pub const INSTRUCTION_POINTER: u64 = 40 + 16 * 8;
}

/// Length of `add rsp, n; ret`.
pub const FRAME_END_BYTES: usize = 5;

/// How far the stack pointer lies below the return address, if these instructions are `add rsp, n; ret`.
pub fn frame_ended_by(code: [u8; FRAME_END_BYTES]) -> Option<i64> {
    match code {
        [0x48, 0x83, 0xc4, bytes @ 0..0x80, 0xc3] if bytes % 8 == 0 => Some(bytes as i64),
        _ => None,
    }
}
