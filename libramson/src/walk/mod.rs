//! The walker: return addresses of the current stack, leaf first, without a lock, a library call or a fault.
//!
//! Each frame is undone by a rule of 64 bits, compiled once per code address from the unwind tables (`rules`), kept in a
//! lock-free cache. Stack memory is read only inside a view that is known to be readable (`stack`). Code without unwind tables
//! (JIT) falls back to frame pointers.

mod elf;
mod modules;
mod rules;
mod stack;

pub use modules::{MappingFacts, Modules, NewMapping};
pub use stack::StackView;

use crate::arch::{Thread, signal_frame};
use modules::Cursor;
use ramson_format::MAX_DEPTH;
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
    pub modules: Modules,
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
        let mut cursor = Cursor::new();
        let mut registers = caller;
        let mut rules_compiled = 0;
        for (index, frame) in frames.iter_mut().enumerate() {
            *frame = registers.lookup_address;
            let module = self.modules.covering(registers.lookup_address, &mut cursor, sink);
            let rule = match module {
                Some(module) => self
                    .rules
                    .get(registers.lookup_address, module.generation)
                    .unwrap_or_else(|| {
                        rules_compiled += 1;
                        let rule = rules::compile(module, registers.lookup_address);
                        self.rules.put(registers.lookup_address, module.generation, rule);
                        rule
                    }),
                None => Rule::frame_pointer(),
            };
            let depth = index + 1;
            let end = match step(rule, registers, view) {
                Step::Caller(next) => {
                    registers = next;
                    continue;
                }
                Step::Outermost => End::Outermost,
                Step::Failed => End::Failed,
            };
            return Walked { depth, end, rules_compiled };
        }
        Walked { depth: MAX_DEPTH, end: End::Cut, rules_compiled }
    }
}

/// Undoes one frame.
#[inline]
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

#[cfg(test)]
mod tests;
