//! The walker: lookup addresses of the current stack, leaf first, without a lock, a library call or a fault.
//!
//! Each frame is undone by a rule, compiled once per code address from the unwind tables (`rules`), kept as 64 bits in a
//! lock-free cache. The core (`frames`) sees stack memory only through a view that is known to be readable (`stack`). Code without unwind tables
//! (JIT) is looked at once, and falls back to frame pointers.

mod elf;
mod frames;
mod goroutine;
mod loaded;
mod objects;
mod rules;
mod stack;
mod stack_reach;
mod unwind_tables;

pub use elf::{Elf, PT_LOAD, ProgramHeader, hide_data};
pub use frames::{Caller, End};
pub use loaded::is_of_allocator;
pub use objects::{MappingFacts, NewMapping, Objects};
pub use stack::{StackView, is_short_of_stack, know_stack, view_of};
#[cfg(fuzzing)]
pub use {elf::build_id_in, objects::Place, unwind_tables::compile};

use crate::arch::{FRAME_END_BYTES, frame_ended_by};
use crate::sys::{self, permit};
use objects::{Cursor, PERMANENT};
use ramson_format::{LookupAddress, MAX_DEPTH};
use rules::{Cfa, FramePointer, Packed, Rule, RuleCache};

/// Result of a walk; the frames are in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    pub depth: usize,
    pub end: End,
    /// Rules that were not in the cache.
    pub rules_compiled: u64,
}

/// State that walks share. Forked children inherit what is known of code and objects.
pub struct Walker {
    rules: RuleCache,
    pub objects: Objects,
}

/// See `Walker`.
// SAFETY: integers; all zero is the initial state.
pub static WALKER: Walker = unsafe { core::mem::zeroed() };

impl Walker {
    /// Walks from `caller` through `view` and fills `frames`. Mappings that are met for the first time go to `sink`.
    pub fn walk(
        &self,
        caller: Caller,
        view: &StackView,
        frames: &mut [LookupAddress; MAX_DEPTH],
        sink: &impl NewMapping,
    ) -> Walked {
        let mut search = Search {
            cursor: Cursor::default(),
            unclaimed_scope: self.objects.unclaimed_scope(),
            rules_compiled: 0,
        };
        let (depth, end) = frames::walk(caller, view, frames, |lookup_address| {
            let near = self.rules.get_near(lookup_address.0, search.is_valid());
            let beyond = || self.rule_beyond(lookup_address.0, &mut search, sink);
            near.unwrap_or_else(beyond).unpack()
        });
        Walked { depth, end, rules_compiled: search.rules_compiled }
    }

    /// The rule for code for which there is none near. Apart, so that the walk itself has registers for what it needs at each frame.
    #[inline(never)]
    fn rule_beyond(&self, address: u64, search: &mut Search, sink: &impl NewMapping) -> Packed {
        if let Some(rule) = self.rules.get(address, search.is_valid()) {
            return rule;
        }
        let Some(place) = self.objects.covering(address, &mut search.cursor, sink) else {
            let rule = rule_of_unclaimed(address);
            return self.rules.put(address, search.unclaimed_scope, rule);
        };
        self.rules.get(address, |scope| scope == place.scope()).unwrap_or_else(|| {
            search.rules_compiled += 1;
            self.rules.put(address, place.scope(), unwind_tables::compile(place, address))
        })
    }
}

/// For code of no object, and so without tables. If the code does nothing after the call but end its frame, as CPython's
/// perf trampolines do, the code itself says how large the frame is; otherwise there are frame pointers at best.
#[cold]
fn rule_of_unclaimed(address: u64) -> Rule {
    let mut code = [0; FRAME_END_BYTES];
    let range = [address.wrapping_add(1) as usize, code.len()];
    // The address came from a stack: nothing says that there is code, or memory.
    let is_read = permit::is_full()
        && sys::read_own_memory(sys::process_id(), &[range], &mut code) == code.len();
    match is_read.then(|| frame_ended_by(code)).flatten() {
        Some(frame_bytes) => {
            Rule::Restore(Cfa::StackPointer(frame_bytes + 8), FramePointer::Unchanged)
        }
        None => Rule::FollowFramePointer,
    }
}

/// State of one walk.
struct Search {
    cursor: Cursor,
    /// From before the walk asked about any object.
    unclaimed_scope: u32,
    rules_compiled: u64,
}

impl Search {
    /// Whether a rule of this scope holds, whatever object may be at its address now.
    #[inline]
    fn is_valid(&self) -> impl Fn(u32) -> bool + use<> {
        let unclaimed_scope = self.unclaimed_scope;
        move |scope| scope == PERMANENT || scope == unclaimed_scope
    }
}

#[cfg(test)]
mod tests;
