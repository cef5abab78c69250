//! The numbers of a process's stacks in its history, by what they are.

use hashbrown::{DefaultHashBuilder, HashTable};
use ramson_format::Kind;
use ramson_reader::{LookupAddress, Stack};
use std::hash::BuildHasher;

/// What tells a stack from another within a process, as its profile does.
#[derive(Debug)]
struct Identity {
    kind: Kind,
    epoch: u32,
    frames: Vec<LookupAddress>,
}

impl Identity {
    fn of(stack: Stack) -> Self {
        Self { kind: stack.kind(), epoch: stack.epoch, frames: stack.frames }
    }

    fn parts(&self) -> (Kind, u32, &[LookupAddress]) {
        (self.kind, self.epoch, &self.frames)
    }
}

fn parts(stack: &Stack) -> (Kind, u32, &[LookupAddress]) {
    (stack.kind(), stack.epoch, &stack.frames)
}

/// Stacks by their number, and the numbers by what they are.
#[derive(Debug, Default)]
pub struct StackNumbers {
    stacks: Vec<Identity>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl StackNumbers {
    pub fn find(&self, stack: &Stack) -> Option<u32> {
        let is_it = |&number: &u32| self.is(number, stack);
        self.numbers.find(self.hasher.hash_one(parts(stack)), is_it).copied()
    }

    pub fn is(&self, number: u32, stack: &Stack) -> bool {
        self.stacks[number as usize].parts() == parts(stack)
    }

    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Gives the next number to a stack that has none.
    pub fn push(&mut self, stack: Stack) {
        let stack = Identity::of(stack);
        let hash = self.hasher.hash_one(stack.parts());
        let number = self.stacks.len() as u32;
        self.stacks.push(stack);
        let rehash = |&number: &u32| self.hasher.hash_one(self.stacks[number as usize].parts());
        self.numbers.insert_unique(hash, number, rehash);
    }
}
