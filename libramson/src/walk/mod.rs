//! The walker: lookup addresses of the current stack, leaf first, without a lock, a library call or a fault.
//!
//! Each frame is undone by a rule of 64 bits, compiled once per code address from the unwind tables (`rules`), kept in a
//! lock-free cache. Stack memory is read only inside a view that is known to be readable (`stack`). Code without unwind tables
//! (JIT) is looked at once, and falls back to frame pointers.

mod elf;
mod objects;
mod rules;
mod stack;
mod stack_reach;
mod unwind_tables;

pub use objects::{MappingFacts, NewMapping, Objects};
pub use stack::StackView;
#[cfg(fuzzing)]
pub use {elf::build_id_in, objects::Place, unwind_tables::compile};

use crate::arch::{FRAME_END_BYTES, Thread, frame_ended_by, signal_frame};
use crate::sys::{self, permit};
use objects::{Cursor, PERMANENT};
use ramson_format::{MAX_DEPTH, stack_flags};
use rules::{FramePointerRule, Rule, RuleCache, Step};

/// Registers of the function that called a hook.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Return address − 1: inside the call instruction.
    pub lookup_address: u64,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
}

impl Caller {
    /// `entry` is the stack pointer when the hook was entered.
    pub fn at_hook(entry: u64, frame_pointer: u64) -> Self {
        // SAFETY: the call instruction that led to the hook pushed the return address there.
        let return_address = unsafe { *(entry as *const u64) };
        Self {
            lookup_address: return_address.wrapping_sub(1),
            stack_pointer: entry + 8,
            frame_pointer,
        }
    }
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the outermost frame.
    Outermost,
    /// At `MAX_DEPTH`.
    Cut,
    /// At a frame that could not be undone.
    Failed,
}

impl End {
    /// The bits of `Stack::flags` that say it.
    pub const fn stack_flags(self) -> u32 {
        match self {
            End::Outermost => 0,
            End::Cut => stack_flags::CUT,
            End::Failed => stack_flags::INCOMPLETE,
        }
    }
}

/// Result of a walk; the frames are in the caller's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    pub depth: usize,
    pub end: End,
    /// Rules that were not in the cache.
    pub rules_compiled: u64,
}

/// What walks share within one process. All zero is the initial state.
pub struct Walker {
    rules: RuleCache,
    pub objects: Objects,
}

impl Walker {
    /// Walks from `caller` through `view` and fills `frames`. Mappings that are met for the first time go to `sink`.
    pub fn walk(
        &self,
        caller: Caller,
        view: &StackView,
        frames: &mut [u64; MAX_DEPTH],
        sink: &impl NewMapping,
    ) -> Walked {
        let mut search = Search {
            cursor: Cursor::new(),
            unclaimed_scope: self.objects.unclaimed_scope(),
            rules_compiled: 0,
        };
        // Kept in registers: as a struct they would go through memory, and loads would wait for narrower stores.
        let Caller { mut lookup_address, mut stack_pointer, mut frame_pointer } = caller;
        for (index, frame) in frames.iter_mut().enumerate() {
            *frame = lookup_address;
            let is_valid = |scope| scope == PERMANENT || scope == search.unclaimed_scope;
            let rule = match self.rules.get(lookup_address, is_valid) {
                Some(rule) => rule,
                None => self.rule_in_object(lookup_address, &mut search, sink),
            };
            let registers = Caller { lookup_address, stack_pointer, frame_pointer };
            let end = match step(rule, registers, view) {
                Step::Caller(next) => {
                    Caller { lookup_address, stack_pointer, frame_pointer } = next;
                    continue;
                }
                Step::Outermost => End::Outermost,
                Step::Failed => End::Failed,
            };
            return Walked { depth: index + 1, end, rules_compiled: search.rules_compiled };
        }
        Walked { depth: MAX_DEPTH, end: End::Cut, rules_compiled: search.rules_compiled }
    }

    /// The rule for code whose object has to be asked for first.
    #[inline(never)]
    fn rule_in_object(&self, address: u64, search: &mut Search, sink: &impl NewMapping) -> Rule {
        let Some(place) = self.objects.covering(address, &mut search.cursor, sink) else {
            let rule = rule_of_unclaimed(address);
            self.rules.put(address, search.unclaimed_scope, rule);
            return rule;
        };
        self.rules.get(address, |scope| scope == place.scope()).unwrap_or_else(|| {
            search.rules_compiled += 1;
            let rule = unwind_tables::compile(place, address);
            self.rules.put(address, place.scope(), rule);
            rule
        })
    }
}

/// For code of no object, and so without tables. Where it does nothing after the call but end its frame, as CPython's perf
/// trampolines do, it says itself how large that is; elsewhere there are frame pointers at best.
#[cold]
fn rule_of_unclaimed(address: u64) -> Rule {
    let mut code = [0; FRAME_END_BYTES];
    let range = [address.wrapping_add(1) as usize, code.len()];
    // The address came from a stack: nothing says that there is code, or memory.
    let is_read = permit::is_full()
        && sys::read_own_memory(sys::process_id(), &[range], &mut code) == code.len();
    match is_read.then(|| frame_ended_by(code)).flatten() {
        Some(frame_bytes) => {
            Rule::new(rules::FROM_STACK_POINTER, frame_bytes + 8, rules::UNCHANGED, 0)
        }
        None => Rule::of_kind(rules::FRAME_POINTER),
    }
}

/// What one walk knows.
struct Search {
    cursor: Cursor,
    /// From before the walk asked about any object.
    unclaimed_scope: u32,
    rules_compiled: u64,
}

/// Undoes one frame.
#[inline(always)]
fn step(rule: Rule, registers: Caller, view: &StackView) -> Step {
    let next = match rule.kind() {
        rules::OUTERMOST => return Step::Outermost,
        rules::SIGNAL => return signal_step(registers, view),
        rules::FRAME_POINTER => match FramePointerRule::apply(registers, view) {
            Some(next) => next,
            None if registers.frame_pointer == 0 => return Step::Outermost,
            None => return Step::Failed,
        },
        _ => match rule.apply(registers, view) {
            Some(next) => next,
            None => return Step::Failed,
        },
    };
    // A return address of 0 ends the stack by convention; the stack grows down, so callers lie above.
    if next.lookup_address == u64::MAX {
        return Step::Outermost;
    }
    if next.stack_pointer <= registers.stack_pointer {
        return Step::Failed;
    }
    Step::Caller(next)
}

/// From a signal handler's caller, the trampoline, to the interrupted function.
#[cold]
fn signal_step(registers: Caller, view: &StackView) -> Step {
    let at = |offset: u64| view.read(registers.stack_pointer.wrapping_add(offset));
    let interrupted = at(signal_frame::INSTRUCTION_POINTER)
        .zip(at(signal_frame::STACK_POINTER))
        .zip(at(signal_frame::FRAME_POINTER));
    match interrupted {
        Some(((instruction_pointer, stack_pointer), frame_pointer)) => Step::Caller(Caller {
            lookup_address: instruction_pointer,
            stack_pointer,
            frame_pointer,
        }),
        None => Step::Failed,
    }
}

/// The view of the current stack for a walk from `caller`: the thread's own stack directly, another one as a copy in `copy`.
pub fn view_of(
    thread: &Thread,
    caller: &Caller,
    pid: u32,
    main_high: u64,
    copy: &mut [u8],
) -> StackView {
    stack::view_of(thread, caller.stack_pointer, pid, main_high, copy)
}

/// Whether the caller is on a signal stack that has no room for a walk.
#[inline]
pub fn is_short_of_stack(thread: &Thread, caller: &Caller) -> bool {
    stack::is_short(thread, caller.stack_pointer)
}

/// Learns how far down the thread's own stack is readable, for samples after which nothing can be asked any more.
pub fn know_stack(thread: &Thread, stack_pointer: u64, pid: u32, main_high: u64) {
    stack::know_all(thread, stack_pointer, pid, main_high);
}

#[cfg(test)]
mod tests;
