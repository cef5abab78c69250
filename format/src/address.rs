//! Addresses of code in a stack, of which there are two that differ by one byte.

/// Address to which a function returns: after the call instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ReturnAddress(pub u64);

/// A runtime address that every table is searched for: in the call instruction, or an instruction that a signal interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct LookupAddress(pub u64);

impl ReturnAddress {
    /// Inside the call.
    #[inline]
    pub const fn lookup(self) -> LookupAddress {
        LookupAddress(self.0.wrapping_sub(1))
    }
}

impl LookupAddress {
    /// Returns the address to which the call returns, if this is a call.
    #[inline]
    pub const fn return_address(self) -> ReturnAddress {
        ReturnAddress(self.0.wrapping_add(1))
    }
}
