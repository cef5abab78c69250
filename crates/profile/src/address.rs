//! Runtime addresses of code: where a call returns to, and where its name is looked up.

/// Where a frame is looked up: what executes in the leaf, in a caller the return address − 1, so that
/// the call is met and not what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupAddress(pub u64);

/// Where execution goes on after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReturnAddress(pub u64);

impl ReturnAddress {
    /// Of the call that is looked up at this address.
    pub fn of(call: LookupAddress) -> Self {
        Self(call.0.saturating_add(1))
    }

    /// Where the call is looked up.
    pub fn lookup(self) -> LookupAddress {
        LookupAddress(self.0.saturating_sub(1))
    }
}
