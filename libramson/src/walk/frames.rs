//! The walker's core: from one frame's registers to the next, by rules. It knows neither the process nor where rules and memory come
//! from, so that it walks recorded stacks as well.

use super::rules::{Rule, follow_frame_pointer, restore};
use crate::arch::{self, signal_frame};
use ramson_format::{LookupAddress, MAX_DEPTH, ReturnAddress, stack_flags};

/// The memory of a stack, as far as it may be read: all that a walk sees of the world beside its rules.
pub trait StackMemory {
    /// The word at runtime address `address`, if it is aligned and may be read.
    fn read(&self, address: u64) -> Option<u64>;
}

/// Registers of the function that called a hook, and of each one above it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Inside the call instruction.
    pub lookup_address: LookupAddress,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
}

impl Caller {
    /// `entry` is the stack pointer when the hook was entered.
    pub fn at_hook(entry: u64, frame_pointer: u64) -> Self {
        // SAFETY: the hook was called with this stack pointer.
        let (return_address, stack_pointer) = unsafe { arch::return_of_call(entry) };
        let lookup_address = ReturnAddress(return_address).lookup();
        Self { lookup_address, stack_pointer, frame_pointer }
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

/// Walks from `caller` and fills `frames`; `rule_for` tells how to undo the frame of the code at an address. Returns how many frames
/// there are, and how it ended.
#[inline(always)]
pub fn walk(
    caller: Caller,
    memory: &impl StackMemory,
    frames: &mut [LookupAddress; MAX_DEPTH],
    mut rule_for: impl FnMut(LookupAddress) -> Rule,
) -> (usize, End) {
    // Kept in registers: as a struct they would go through memory, and loads would wait for narrower stores.
    let Caller { mut lookup_address, mut stack_pointer, mut frame_pointer } = caller;
    #[expect(clippy::needless_range_loop, reason = "an iterator takes one more register")]
    for index in 0..MAX_DEPTH {
        frames[index] = lookup_address;
        let rule = rule_for(lookup_address);
        let registers = Caller { lookup_address, stack_pointer, frame_pointer };
        match step(rule, registers, memory) {
            Ok(next) => Caller { lookup_address, stack_pointer, frame_pointer } = next,
            Err(end) => return (index + 1, end),
        }
    }
    (MAX_DEPTH, End::Cut)
}

/// Undoes one frame: the caller's, or how the walk ends.
#[inline(always)]
pub fn step(rule: Rule, registers: Caller, memory: &impl StackMemory) -> Result<Caller, End> {
    let next = match rule {
        Rule::Restore(cfa, frame_pointer) => restore(cfa, frame_pointer, registers, memory),
        Rule::FollowFramePointer => match follow_frame_pointer(registers, memory) {
            None if registers.frame_pointer == 0 => return Err(End::Outermost),
            next => next,
        },
        Rule::Signal => return signal_step(registers, memory),
        Rule::Outermost => return Err(End::Outermost),
        Rule::Unknown => return Err(End::Failed),
    };
    let next = next.ok_or(End::Failed)?;
    // A return address of 0 ends the stack by convention; the stack grows down, so callers lie above.
    if next.lookup_address.return_address().0 == 0 {
        return Err(End::Outermost);
    }
    if next.stack_pointer <= registers.stack_pointer { Err(End::Failed) } else { Ok(next) }
}

/// From a signal handler's caller, the trampoline, to the interrupted function.
#[cold]
fn signal_step(registers: Caller, memory: &impl StackMemory) -> Result<Caller, End> {
    let at =
        |offset: u64| memory.read(registers.stack_pointer.wrapping_add(offset)).ok_or(End::Failed);
    Ok(Caller {
        lookup_address: LookupAddress(at(signal_frame::INSTRUCTION_POINTER)?),
        stack_pointer: at(signal_frame::STACK_POINTER)?,
        frame_pointer: at(signal_frame::FRAME_POINTER)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::rules::{Cfa, FramePointer};
    use std::collections::HashMap;

    /// A stack that was recorded: its words from `low` on.
    struct Recorded {
        low: u64,
        words: &'static [u64],
    }

    impl StackMemory for Recorded {
        fn read(&self, address: u64) -> Option<u64> {
            let offset = address.checked_sub(self.low)?;
            offset.is_multiple_of(8).then(|| self.words.get(offset as usize / 8).copied())?
        }
    }

    const LOW: u64 = 0x7ffc_0000_1000;
    const MAIN: u64 = 0x40_1136;
    const LIBC: u64 = 0x7f00_0002_724a;
    const START: u64 = 0x40_1061;

    /// leaf, which has pushed nothing; middle, with a frame pointer; main, which has 16 bytes of locals; the C library's start.
    static WORDS: [u64; 10] = [
        0x40_1200,  // returns into middle
        0,          // a local of middle
        LOW + 0x38, // middle saved main's frame pointer
        MAIN,       // returns into main
        1,          // main's locals
        2,
        LIBC,   // returns into the C library
        0x1111, // where main's frame pointer points
        START,  // returns into _start
        0,
    ];

    fn caller() -> Caller {
        // leaf was called from the hook's caller: its return address is the first word.
        Caller {
            lookup_address: LookupAddress(0x40_1300),
            stack_pointer: LOW,
            frame_pointer: LOW + 0x10,
        }
    }

    fn rules() -> HashMap<u64, Rule> {
        HashMap::from([
            (0x40_1300, Rule::Restore(Cfa::StackPointer(8), FramePointer::Unchanged)),
            (0x40_11ff, Rule::Restore(Cfa::FramePointer(16), FramePointer::AtCfa(-16))),
            (MAIN - 1, Rule::Restore(Cfa::StackPointer(24), FramePointer::Unchanged)),
            (LIBC - 1, Rule::FollowFramePointer),
            (START - 1, Rule::Outermost),
        ])
    }

    fn walk_words(words: &'static [u64], rules: &HashMap<u64, Rule>) -> (Vec<u64>, End) {
        let memory = Recorded { low: LOW, words };
        let mut frames = [LookupAddress(0); MAX_DEPTH];
        let rule_for = |at: LookupAddress| rules.get(&at.0).copied().unwrap_or(Rule::Unknown);
        let (depth, end) = walk(caller(), &memory, &mut frames, rule_for);
        (frames[..depth].iter().map(|frame| frame.0).collect(), end)
    }

    #[test]
    fn recorded_stack_walks_to_outermost() {
        let expected = vec![0x40_1300, 0x40_11ff, MAIN - 1, LIBC - 1, START - 1];
        assert_eq!(walk_words(&WORDS, &rules()), (expected, End::Outermost));
    }

    #[test]
    fn cut_or_ruleless_stack_ends() {
        let (frames, end) = walk_words(&WORDS[..6], &rules());
        assert_eq!((frames.len(), end), (3, End::Failed));
        let mut fewer = rules();
        fewer.remove(&(MAIN - 1));
        let (frames, end) = walk_words(&WORDS, &fewer);
        assert_eq!((frames, end), (vec![0x40_1300, 0x40_11ff, MAIN - 1], End::Failed));
    }

    #[test]
    fn looping_rule_ends() {
        let mut looping = rules();
        let stays = Rule::Restore(Cfa::StackPointer(0), FramePointer::Unchanged);
        looping.insert(0x40_11ff, stays);
        let (frames, end) = walk_words(&WORDS, &looping);
        assert_eq!((frames.len(), end), (2, End::Failed));
    }
}
