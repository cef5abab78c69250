//! Runtime addresses of code: where a call returns to, and where its name is looked up.

/// Where a frame is looked up: what executes in the leaf, in a caller the return address − 1, so that
/// the call is met and not what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupAddress(pub u64);

/// Where execution goes on after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReturnAddress(pub u64);

impl LookupAddress {
    /// Where the call returns to, if it is one.
    pub fn return_address(self) -> ReturnAddress {
        ReturnAddress(self.0.saturating_add(1))
    }
}

impl ReturnAddress {
    /// Where the call is looked up.
    pub fn lookup(self) -> LookupAddress {
        LookupAddress(self.0.saturating_sub(1))
    }
}
