//! The numbers of a process's stacks in its history, by what they are.

use hashbrown::{Equivalent, HashMap};
use ramson_format::Kind;
use ramson_reader::{LookupAddress, Stack};

/// What tells a stack from another within a process, as its profile does.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity<Frames>(Kind, u32, Frames);

impl Equivalent<Identity<Vec<LookupAddress>>> for Identity<&[LookupAddress]> {
    fn equivalent(&self, key: &Identity<Vec<LookupAddress>>) -> bool {
        (self.0, self.1, self.2) == (key.0, key.1, &*key.2)
    }
}

#[derive(Debug, Default)]
pub struct StackNumbers {
    numbers: HashMap<Identity<Vec<LookupAddress>>, u32>,
    /// How many were given.
    pub count: u32,
}

impl StackNumbers {
    pub fn find(&self, stack: &Stack) -> Option<u32> {
        self.numbers.get(&Identity(stack.kind(), stack.epoch, &*stack.frames)).copied()
    }

    /// Gives a stack the next number.
    pub fn push(&mut self, stack: Stack) {
        self.numbers.insert(Identity(stack.kind(), stack.epoch, stack.frames), self.count);
        self.count += 1;
    }
}
