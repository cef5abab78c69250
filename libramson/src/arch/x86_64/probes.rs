//! USDT probes of sampled allocations and their frees, as SystemTap's notes describe them: `otel_memory:alloc(ptr, size,
//! weighted_bytes)` and `otel_memory:free(ptr)`. A tracer puts a breakpoint on a probe's nop and raises its semaphore.
//!
//! <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>

use core::arch::{asm, global_asm};

// The notes give addresses as linked, and that of `.stapsdt.base`, by which a tool tells whether the file was prelinked since. It
// lies in the segment of the code: perf takes its distance from its place in the file for that of the probes.
global_asm!(
    ".pushsection .stapsdt.base,\"axR\",@progbits",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .byte 0",
    ".size _.stapsdt.base, 1",
    ".popsection",
    ".pushsection .probes,\"aw\",@progbits",
    // A page of the file that no other segment maps, too: the kernel raises a semaphore where it finds its page mapped writable
    // first, and that is also the end of what becomes read-only (RELRO).
    ".balign 4096",
    ".hidden ramson_alloc_semaphore, ramson_free_semaphore",
    ".globl ramson_alloc_semaphore, ramson_free_semaphore",
    ".type ramson_alloc_semaphore, @object",
    ".type ramson_free_semaphore, @object",
    "ramson_alloc_semaphore: .2byte 0",
    ".size ramson_alloc_semaphore, 2",
    "ramson_free_semaphore: .2byte 0",
    ".size ramson_free_semaphore, 2",
    ".popsection",
);

/// The note of a probe at local label 990 whose arguments are at `$arguments`.
macro_rules! note {
    ($name:literal, $semaphore:literal, $arguments:literal) => {
        concat!(
            ".pushsection .note.stapsdt,\"\",@note
            .balign 4
            .4byte 992f - 991f, 994f - 993f, 3
            991: .asciz \"stapsdt\"
            992: .balign 4
            993: .8byte 990b, _.stapsdt.base, ",
            $semaphore,
            "
            .asciz \"otel_memory\"
            .asciz \"",
            $name,
            "\"
            .asciz \"",
            $arguments,
            "\"
            994: .balign 4
            .popsection"
        )
    };
}

unsafe extern "C" {
    // Not 0: somebody listens to that probe.
    static ramson_alloc_semaphore: u16;
    static ramson_free_semaphore: u16;
}

/// A sampled allocation; `weighted_bytes` is what it stands for.
#[inline]
pub fn alloc(address: u64, size: u64, weighted_bytes: f64) {
    // SAFETY: a load of a word of this library's own data, which other processes may change.
    if unsafe { (&raw const ramson_alloc_semaphore).read_volatile() } != 0 {
        fire_alloc(address, size, weighted_bytes as u64);
    }
}

/// A sampled block is about to be freed.
#[inline]
pub fn free(address: u64) {
    // SAFETY: as above.
    if unsafe { (&raw const ramson_free_semaphore).read_volatile() } != 0 {
        fire_free(address);
    }
}

// Not inlined: one place for each probe.
#[cold]
#[inline(never)]
fn fire_alloc(address: u64, size: u64, weighted_bytes: u64) {
    // SAFETY: a nop; the registers are what the note says.
    unsafe {
        asm!(
            "990: nop",
            note!("alloc", "ramson_alloc_semaphore", "8@%rdi 8@%rsi 8@%rdx"),
            in("rdi") address, in("rsi") size, in("rdx") weighted_bytes,
            options(nostack, preserves_flags),
        );
    }
}

#[cold]
#[inline(never)]
fn fire_free(address: u64) {
    // SAFETY: as above.
    unsafe {
        asm!(
            "990: nop",
            note!("free", "ramson_free_semaphore", "8@%rdi"),
            in("rdi") address,
            options(nostack, preserves_flags),
        );
    }
}
