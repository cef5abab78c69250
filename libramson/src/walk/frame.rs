//! One frame of a stack: the registers in it, and the memory where its caller's are.

use crate::arch;
use ramson_format::{LookupAddress, ReturnAddress};

/// The memory of a stack, as far as it may be read: all that a walk sees of the world beside its rules.
pub trait StackMemory {
    /// The word at runtime address `address`, if it is aligned and may be read.
    fn read(&self, address: u64) -> Option<u64>;
}

/// Registers of the function that called a hook, and of each one above it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Inside the call instruction.
    pub lookup_address: LookupAddress,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
}

impl Caller {
    /// `entry` is the stack pointer when the hook was entered.
    pub fn at_hook(entry: u64, frame_pointer: u64) -> Self {
        // SAFETY: the hook was called with this stack pointer.
        let (return_address, stack_pointer) = unsafe { arch::return_of_call(entry) };
        let lookup_address = ReturnAddress(return_address).lookup();
        Self { lookup_address, stack_pointer, frame_pointer }
    }
}
