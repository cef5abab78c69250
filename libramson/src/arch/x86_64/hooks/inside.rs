//! The slow path of hooks inside other objects. Callers there may rely on registers that the function itself leaves alone, whatever the calling
//! convention says: all are as they were when the function begins, and as it left them when its caller goes on. This library's code
//! and the functions that it calls use no vector register beyond its lower half, and those instructions leave upper halves alone.

use crate::arch::trampoline::Hook;
use crate::hooks_inside as calls;
use core::arch::naked_asm;
use core::mem::offset_of;

/// One call, on the program's stack.
#[repr(C)]
pub struct Call {
    vectors: [[u64; 2]; 16],
    pub rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    pub frame_pointer: u64,
    /// Set by `calls::before`: the function is to be called from here, and `calls::after` behind it.
    pub is_followed: u64,
    /// For `calls::after`.
    pub kept: [u64; 5],
    /// The hook, with the lowest bit set if the countdown has borrowed; then where the function goes on without a hook.
    pub hook: u64,
    return_address: u64,
}

/// Bytes below `Call::hook`.
const FRAME_BYTES: usize = offset_of!(Call, hook);
// The function finds the stack as its caller aligned it.
const _: () = assert!(FRAME_BYTES.is_multiple_of(16));

impl Call {
    /// The stack pointer at the function's entry.
    pub fn entry(&self) -> u64 {
        (&raw const self.return_address) as u64
    }

    /// Argument by its number.
    pub fn argument(&self, number: u8) -> u64 {
        match number {
            0 => self.rdi,
            1 => self.rsi,
            2 => self.rdx,
            _ => self.rcx,
        }
    }

    /// Returns the hook that was called, and whether the countdown has borrowed. Before the function's address is in its place.
    pub fn take_hook(&mut self) -> (&'static Hook, bool) {
        // SAFETY: the hook's own code has put its address there, with a bit that an aligned address has not. Hooks stay.
        let hook = unsafe { &*((self.hook & !1) as *const Hook) };
        let is_due = self.hook & 1 != 0;
        self.hook = hook.original;
        (hook, is_due)
    }
}

macro_rules! each_register {
    ($way:ident) => {
        concat!(
            $way!("rax", "256"),
            $way!("rcx", "264"),
            $way!("rdx", "272"),
            $way!("rsi", "280"),
            $way!("rdi", "288"),
            $way!("r8", "296"),
            $way!("r9", "304"),
            $way!("r10", "312"),
            $way!("r11", "320"),
            $way!("rbp", "328"),
        )
    };
}

macro_rules! each_vector {
    ($way:ident) => {
        concat!(
            $way!("xmm0", "0"),
            $way!("xmm1", "16"),
            $way!("xmm2", "32"),
            $way!("xmm3", "48"),
            $way!("xmm4", "64"),
            $way!("xmm5", "80"),
            $way!("xmm6", "96"),
            $way!("xmm7", "112"),
            $way!("xmm8", "128"),
            $way!("xmm9", "144"),
            $way!("xmm10", "160"),
            $way!("xmm11", "176"),
            $way!("xmm12", "192"),
            $way!("xmm13", "208"),
            $way!("xmm14", "224"),
            $way!("xmm15", "240"),
        )
    };
}

macro_rules! keep {
    ($register:literal, $at:literal) => {
        concat!("mov [rsp + ", $at, "], ", $register, "\n")
    };
}
macro_rules! bring_back {
    ($register:literal, $at:literal) => {
        concat!("mov ", $register, ", [rsp + ", $at, "]\n")
    };
}
macro_rules! keep_vector {
    ($register:literal, $at:literal) => {
        concat!("movups [rsp + ", $at, "], ", $register, "\n")
    };
}
macro_rules! bring_vector_back {
    ($register:literal, $at:literal) => {
        concat!("movups ", $register, ", [rsp + ", $at, "]\n")
    };
}
const _: () = assert!(offset_of!(Call, rax) == 256 && offset_of!(Call, frame_pointer) == 328);

// Entered by a jump, with the hook pushed above the return address.
naked!(
    slow,
    [
        ".cfi_adjust_cfa_offset 8",
        "lea rsp, [rsp - {frame}]",
        ".cfi_adjust_cfa_offset {frame}",
        each_register!(keep),
        each_vector!(keep_vector),
        "mov rdi, rsp",
        call!("{before}"),
        each_vector!(bring_vector_back),
        each_register!(bring_back),
        "cmp qword ptr [rsp + {followed}], 0",
        "jne 2f",
        "lea rsp, [rsp + {frame} + 8]",
        ".cfi_adjust_cfa_offset -{frame} - 8",
        "jmp qword ptr [rsp - 8]",
        ".cfi_adjust_cfa_offset {frame} + 8",
        "2:",
        "call qword ptr [rsp + {frame}]",
        each_register!(keep),
        each_vector!(keep_vector),
        "mov rdi, rsp",
        call!("{after}"),
        each_vector!(bring_vector_back),
        each_register!(bring_back),
        "lea rsp, [rsp + {frame} + 8]",
        ".cfi_adjust_cfa_offset -{frame} - 8",
        "ret",
    ],
    frame = const FRAME_BYTES,
    followed = const offset_of!(Call, is_followed),
    before = sym calls::before,
    after = sym calls::after,
);

/// Address of the slow path.
pub fn slow_path() -> u64 {
    slow as *const () as u64
}

// Called by the loader in place of its empty function, which debuggers watch.
naked!(
    loader_has_changed,
    [call_between!("{follow}"), "ret"],
    follow = sym crate::inside::follow,
);

/// Address of what is called when the loader's list has changed.
pub fn loader_hook() -> u64 {
    loader_has_changed as *const () as u64
}
