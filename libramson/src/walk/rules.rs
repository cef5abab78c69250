//! How to undo one frame: compiled from the unwind tables once per code address, then cached as 64 bits.
//!
//! Three values matter: the canonical frame address (CFA), the return address, which lies just below it, and the caller's frame
//! pointer. Tables that need more than a rule can say end the walk; tests compare with framehop.

use super::frames::{Caller, StackMemory};
use crate::arch::frame_layout::{
    FRAME_RECORD_BYTES, HIGHEST_CODE, RETURN_ADDRESS_BEHIND_FRAME_POINTER, RETURN_ADDRESS_BELOW_CFA,
};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ramson_format::ReturnAddress;

/// Rule that undoes one frame. Formulas give the caller's `(sp, bp)` by the frame's own; `*` reads memory.
// Tags of one byte: with those that the compiler would choose, each frame costs a walk about 18 instructions more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rule {
    /// `(sp, bp) = (cfa, frame pointer)`, return address `*(cfa - 8)`.
    Restore(Cfa, FramePointer),
    /// `(sp, bp) = (bp + 16, *bp)`, return address `*(bp + 8)`, if they are plausible: for code without unwind tables.
    FollowFramePointer,
    /// The signal frame that the kernel put at `sp` has all three.
    Signal,
    /// Function that none called: the stack ends here.
    Outermost,
    /// Tables that are damaged, or ask for more than a rule can say.
    Unknown,
}

/// The canonical frame address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cfa {
    /// `sp + offset`.
    StackPointer(i64),
    /// `bp + offset`.
    FramePointer(i64),
    /// `*(bp + offset)`: functions that align their stack.
    SavedWord(i64),
}

/// The caller's frame pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FramePointer {
    /// `bp`.
    Unchanged,
    /// `*(cfa + offset)`.
    AtCfa(i64),
    /// `*(bp + offset)`.
    AtOwn(i64),
}

/// The caller's registers by `Rule::Restore`; `None` if memory that may not be read would be needed.
#[inline(always)]
pub fn restore(
    cfa: Cfa,
    frame_pointer: FramePointer,
    registers: Caller,
    memory: &impl StackMemory,
) -> Option<Caller> {
    let beside = |offset| registers.frame_pointer.wrapping_add_signed(offset);
    let cfa = match cfa {
        Cfa::StackPointer(offset) => registers.stack_pointer.wrapping_add_signed(offset),
        Cfa::FramePointer(offset) => beside(offset),
        Cfa::SavedWord(offset) => memory.read(beside(offset))?,
    };
    let return_address = memory.read(cfa.wrapping_sub(RETURN_ADDRESS_BELOW_CFA))?;
    let frame_pointer = match frame_pointer {
        FramePointer::Unchanged => registers.frame_pointer,
        FramePointer::AtCfa(offset) => memory.read(cfa.wrapping_add_signed(offset))?,
        FramePointer::AtOwn(offset) => memory.read(beside(offset))?,
    };
    Some(Caller {
        lookup_address: ReturnAddress(return_address).lookup(),
        stack_pointer: cfa,
        frame_pointer,
    })
}

const LOWEST_CODE: u64 = 4096;

/// The frame pointer points at the caller's, behind which the return address lies: for code without unwind tables.
#[inline(always)]
pub fn follow_frame_pointer(registers: Caller, memory: &impl StackMemory) -> Option<Caller> {
    let frame = registers.frame_pointer;
    let is_plausible = frame >= registers.stack_pointer;
    let frame_pointer = is_plausible.then(|| memory.read(frame)).flatten()?;
    let return_address = memory.read(frame.wrapping_add(RETURN_ADDRESS_BEHIND_FRAME_POINTER))?;
    // 0 ends the stack; nothing else below the first page that can be mapped, or above user space, is code.
    let is_code = return_address == 0 || (LOWEST_CODE..HIGHEST_CODE).contains(&return_address);
    is_code.then_some(Caller {
        lookup_address: ReturnAddress(return_address).lookup(),
        stack_pointer: frame.wrapping_add(FRAME_RECORD_BYTES),
        frame_pointer,
    })
}

/// Rules by code address, two ways per set; at the start of a page. An entry is valid if its two words agree, so torn or racing stores are misses.
#[repr(align(4096))]
pub struct RuleCache([[AtomicU64; 2]; CACHE_ENTRIES]);

const CACHE_ENTRIES: usize = PAGES * PAGE_ENTRIES;
/// Pages of the cache, and entries of 16 bytes on each.
const PAGES: usize = 32;
const PAGE_ENTRIES: usize = 256;
/// Regions of code have 64 KiB.
const REGION_SHIFT: u32 = 16;
/// Code addresses are shorter; a rule's scope, 16 bits, is kept above them.
const SCOPE_SHIFT: u32 = 48;
/// 2^64 over the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A rule as the cache keeps it, never 0: bits 0–3 base of the CFA, 4–7 place of the frame pointer, 8–31 offset of the CFA, 32–63 offset
/// of the frame pointer. Rules without operands have base 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed(pub u64);

impl Packed {
    const FOLLOW_FRAME_POINTER: Self = Self(1 << 4);
    const SIGNAL: Self = Self(2 << 4);
    const OUTERMOST: Self = Self(3 << 4);
    const UNKNOWN: Self = Self(4 << 4);

    /// A rule with offsets that do not fit becomes unknown.
    pub fn of(rule: Rule) -> Self {
        let (cfa, frame_pointer) = match rule {
            Rule::Restore(cfa, frame_pointer) => (cfa, frame_pointer),
            Rule::FollowFramePointer => return Self::FOLLOW_FRAME_POINTER,
            Rule::Signal => return Self::SIGNAL,
            Rule::Outermost => return Self::OUTERMOST,
            Rule::Unknown => return Self::UNKNOWN,
        };
        let (base, cfa_offset) = match cfa {
            Cfa::StackPointer(offset) => (1, offset),
            Cfa::FramePointer(offset) => (2, offset),
            Cfa::SavedWord(offset) => (3, offset),
        };
        let (place, saved_offset) = match frame_pointer {
            FramePointer::Unchanged => (0, 0),
            FramePointer::AtCfa(offset) => (1, offset),
            FramePointer::AtOwn(offset) => (2, offset),
        };
        if !(-(1 << 23)..1 << 23).contains(&cfa_offset) || i32::try_from(saved_offset).is_err() {
            return Self::UNKNOWN;
        }
        let cfa_bits = cfa_offset as u64 & 0xff_ffff;
        Self(base | place << 4 | cfa_bits << 8 | (saved_offset as u64) << 32)
    }

    #[inline(always)]
    pub fn unpack(self) -> Rule {
        let cfa_offset = ((self.0 as i32) >> 8) as i64;
        let saved_offset = (self.0 as i64) >> 32;
        let place = self.0 >> 4 & 15;
        let cfa = match self.0 & 15 {
            1 => Cfa::StackPointer(cfa_offset),
            2 => Cfa::FramePointer(cfa_offset),
            3 => Cfa::SavedWord(cfa_offset),
            _ => {
                return match self {
                    Self::FOLLOW_FRAME_POINTER => Rule::FollowFramePointer,
                    Self::SIGNAL => Rule::Signal,
                    Self::OUTERMOST => Rule::Outermost,
                    _ => Rule::Unknown,
                };
            }
        };
        let frame_pointer = match place {
            0 => FramePointer::Unchanged,
            1 => FramePointer::AtCfa(saved_offset),
            2 => FramePointer::AtOwn(saved_offset),
            _ => return Rule::Unknown,
        };
        Rule::Restore(cfa, frame_pointer)
    }
}

impl RuleCache {
    /// Two sets. The near ones of one region of code share a page, so that a forked child that meets new code, or a short process,
    /// touches few; where that set is full, another one of all is taken.
    pub fn sets_of(address: u64) -> [usize; 2] {
        let of = |page: u64, set: u64| page as usize * PAGE_ENTRIES + set as usize * 2;
        let product = address.wrapping_mul(MULTIPLIER);
        let set = |product: u64| product >> (64 - (PAGE_ENTRIES / 2).ilog2());
        let page = |product: u64| product >> (64 - PAGES.ilog2());
        let near = of(page((address >> REGION_SHIFT).wrapping_mul(MULTIPLIER)), set(product));
        // Other bits of the product than those that say where the near set is.
        let far = of(page(product << 7), set(product << 12));
        [near, far]
    }

    /// Returns what the first word of an entry must be. The product spreads a rule's few bits over the word, so that the words of two entries
    /// together are not a third one.
    pub fn check_of(address: u64, scope: u32, rule: u64) -> u64 {
        (address ^ (scope as u64) << SCOPE_SHIFT) ^ rule.wrapping_mul(MULTIPLIER)
    }

    /// The rule for `address`, if there is one of a scope that is valid now.
    pub fn get(&self, address: u64, is_valid: impl Fn(u32) -> bool) -> Option<Packed> {
        Self::sets_of(address).into_iter().find_map(|set| self.get_in(set, address, &is_valid))
    }

    /// The same, if it is near.
    #[inline]
    pub fn get_near(&self, address: u64, is_valid: impl Fn(u32) -> bool) -> Option<Packed> {
        self.get_in(Self::sets_of(address)[0], address, is_valid)
    }

    #[inline]
    fn get_in(&self, set: usize, address: u64, is_valid: impl Fn(u32) -> bool) -> Option<Packed> {
        self.0.get(set..set + 2)?.iter().find_map(|[check, rule]| {
            let rule = rule.load(Relaxed);
            let scope = check.load(Relaxed) ^ Self::check_of(address, 0, rule);
            let is_it = scope << (64 - SCOPE_SHIFT) == 0 && rule != 0;
            (is_it && is_valid((scope >> SCOPE_SHIFT) as u32)).then_some(Packed(rule))
        })
    }

    /// The newest rule of a set is first; the one that was first becomes second. A near set that is full stays as it is: what three
    /// hot addresses share would change at every walk. Returns the rule as the cache keeps it.
    #[cold]
    pub fn put(&self, address: u64, scope: u32, rule: Rule) -> Packed {
        let packed = Packed::of(rule);
        let [near, far] = Self::sets_of(address);
        let is_full = self.0.get(near + 1).is_some_and(|[_, rule]| rule.load(Relaxed) != 0);
        let set = if is_full { far } else { near };
        if let Some([first, second]) = self.0.get(set..set + 2) {
            second[0].store(first[0].load(Relaxed), Relaxed);
            second[1].store(first[1].load(Relaxed), Relaxed);
            first[0].store(Self::check_of(address, scope, packed.0), Relaxed);
            first[1].store(packed.0, Relaxed);
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST_CFA_OFFSET: i64 = (1 << 23) - 1;
    const LARGEST_OFFSET: i64 = i32::MAX as i64;

    #[test]
    fn packed_rules_unpack_unchanged() {
        let mut rules =
            vec![Rule::FollowFramePointer, Rule::Signal, Rule::Outermost, Rule::Unknown];
        for cfa_offset in [0, 8, -16, LARGEST_CFA_OFFSET, !LARGEST_CFA_OFFSET] {
            for cfa in [Cfa::StackPointer, Cfa::FramePointer, Cfa::SavedWord] {
                rules.push(Rule::Restore(cfa(cfa_offset), FramePointer::Unchanged));
                for offset in [0, 8, -16, LARGEST_OFFSET, !LARGEST_OFFSET] {
                    for place in [FramePointer::AtCfa, FramePointer::AtOwn] {
                        rules.push(Rule::Restore(cfa(cfa_offset), place(offset)));
                    }
                }
            }
        }
        for rule in rules {
            assert_ne!(Packed::of(rule).0, 0, "{rule:?}");
            assert_eq!(Packed::of(rule).unpack(), rule);
        }
    }

    #[test]
    fn oversized_offsets_become_unknown() {
        for (cfa_offset, offset) in [
            (LARGEST_CFA_OFFSET + 1, 0),
            (!LARGEST_CFA_OFFSET - 1, 0),
            (0, LARGEST_OFFSET + 1),
            (0, !LARGEST_OFFSET - 1),
        ] {
            let rule = Rule::Restore(Cfa::StackPointer(cfa_offset), FramePointer::AtCfa(offset));
            assert_eq!(Packed::of(rule).unpack(), Rule::Unknown);
        }
    }
}
