//! The two kinds of memory that a profile tells apart.

use crate::stack_flags;

/// Origin of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Kind {
    /// The malloc family and operator new.
    #[default]
    Heap = 0,
    /// Anonymous memory that the program mapped itself.
    Mmap = 1,
}

/// Both kinds. The first stacks of a file are their overflow stacks, in this order.
pub const KINDS: [Kind; 2] = [Kind::Heap, Kind::Mmap];

impl Kind {
    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Heap => "heap",
            Kind::Mmap => "mmap",
        }
    }

    /// The number of the overflow stack.
    pub const fn overflow_stack(self) -> u32 {
        self as u32
    }

    /// The bits of `Stack::flags` that say it.
    pub const fn stack_flags(self) -> u32 {
        match self {
            Kind::Heap => 0,
            Kind::Mmap => stack_flags::MMAP,
        }
    }

    /// The kind of a stack with these flags.
    pub const fn of_stack(flags: u32) -> Self {
        if flags & stack_flags::MMAP == 0 { Kind::Heap } else { Kind::Mmap }
    }
}
