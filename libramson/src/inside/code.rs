//! Code of objects, and where it leads.

use crate::arch::decode::{Flow, Instruction};

/// The code of an object that is in memory.
pub fn code_at(address: u64, bytes: u64) -> &'static [u8] {
    // SAFETY: the object is loaded, and its file says that so much of a readable segment is there. It is written to only by the kernel.
    unsafe { core::slice::from_raw_parts(address as *const u8, bytes as usize) }
}

/// Address to which an instruction at `at` leads directly.
pub fn target_of(at: u64, instruction: &Instruction) -> Option<u64> {
    match instruction.flow {
        Flow::Jump(offset)
        | Flow::Conditional(offset)
        | Flow::Fixed(offset)
        | Flow::Call(offset) => Some(at.wrapping_add_signed(offset)),
        _ => None,
    }
}
