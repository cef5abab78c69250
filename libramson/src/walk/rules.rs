//! How to undo one frame, as 64 bits: compiled from the unwind tables once per code address, then cached.
//!
//! Three values matter: the canonical frame address (CFA), the return address, which lies just below it, and the caller's frame
//! pointer. Tables that need more than a rule can say end the walk; tests compare with framehop.

use super::frames::{Caller, StackMemory};
use crate::arch::frame_layout::{
    FRAME_RECORD_BYTES, HIGHEST_CODE, RETURN_ADDRESS_BEHIND_FRAME_POINTER, RETURN_ADDRESS_BELOW_CFA,
};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ramson_format::ReturnAddress;

/// Kinds of rules. The others need no operands.
pub const FROM_STACK_POINTER: u64 = 1;
pub const FROM_FRAME_POINTER: u64 = 2;
/// CFA is the word at frame pointer + offset: functions that align their stack.
pub const FROM_SAVED_WORD: u64 = 3;
pub const OUTERMOST: u64 = 4;
pub const SIGNAL: u64 = 5;
pub const FRAME_POINTER: u64 = 6;
pub const UNKNOWN: u64 = 7;

/// Places of the caller's frame pointer.
pub const UNCHANGED: u64 = 0;
pub const AT_CFA: u64 = 1;
pub const AT_FRAME_POINTER: u64 = 2;

/// Bits 0–3 kind, 4–7 where the frame pointer is, 8–31 offset of the CFA, 32–63 offset of the saved frame pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule(pub u64);

impl Rule {
    pub const fn of_kind(kind: u64) -> Self {
        Self(kind)
    }

    pub const fn kind(self) -> u64 {
        self.0 & 15
    }

    pub fn new(kind: u64, cfa_offset: i64, saved: u64, saved_offset: i64) -> Self {
        let fits =
            (-(1 << 23)..1 << 23).contains(&cfa_offset) && i32::try_from(saved_offset).is_ok();
        if !fits {
            return Self(UNKNOWN);
        }
        Self(kind | saved << 4 | (cfa_offset as u64 & 0xff_ffff) << 8 | (saved_offset as u64) << 32)
    }

    /// The caller's registers; `None` if memory that may not be read would be needed, or the rule is unknown.
    #[inline(always)]
    pub fn apply(self, registers: Caller, memory: &impl StackMemory) -> Option<Caller> {
        let cfa_offset = ((self.0 as i32) >> 8) as i64;
        let saved_offset = (self.0 as i64) >> 32;
        let kind = self.kind();
        let is_from_stack_pointer = kind == FROM_STACK_POINTER;
        let base =
            if is_from_stack_pointer { registers.stack_pointer } else { registers.frame_pointer };
        let mut cfa = base.wrapping_add_signed(cfa_offset);
        if kind > FROM_FRAME_POINTER {
            cfa = if kind == FROM_SAVED_WORD { memory.read(cfa)? } else { return None };
        }
        let return_address = memory.read(cfa.wrapping_sub(RETURN_ADDRESS_BELOW_CFA))?;
        let frame_pointer = match self.0 >> 4 & 15 {
            UNCHANGED => registers.frame_pointer,
            AT_CFA => memory.read(cfa.wrapping_add_signed(saved_offset))?,
            _ => memory.read(registers.frame_pointer.wrapping_add_signed(saved_offset))?,
        };
        Some(Caller {
            lookup_address: ReturnAddress(return_address).lookup(),
            stack_pointer: cfa,
            frame_pointer,
        })
    }
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
    pub fn get(&self, address: u64, is_valid: impl Fn(u32) -> bool) -> Option<Rule> {
        Self::sets_of(address).into_iter().find_map(|set| self.get_in(set, address, &is_valid))
    }

    /// The same, if it is near.
    #[inline]
    pub fn get_near(&self, address: u64, is_valid: impl Fn(u32) -> bool) -> Option<Rule> {
        self.get_in(Self::sets_of(address)[0], address, is_valid)
    }

    #[inline]
    fn get_in(&self, set: usize, address: u64, is_valid: impl Fn(u32) -> bool) -> Option<Rule> {
        self.0.get(set..set + 2)?.iter().find_map(|[check, rule]| {
            let rule = rule.load(Relaxed);
            let scope = check.load(Relaxed) ^ Self::check_of(address, 0, rule);
            let is_it = scope << (64 - SCOPE_SHIFT) == 0 && rule != 0;
            (is_it && is_valid((scope >> SCOPE_SHIFT) as u32)).then_some(Rule(rule))
        })
    }

    /// The newest rule of a set is first; the one that was first becomes second. A near set that is full stays as it is: what three
    /// hot addresses share would change at every walk.
    pub fn put(&self, address: u64, scope: u32, rule: Rule) {
        let [near, far] = Self::sets_of(address);
        let is_full = self.0.get(near + 1).is_some_and(|[_, rule]| rule.load(Relaxed) != 0);
        let set = if is_full { far } else { near };
        if let Some([first, second]) = self.0.get(set..set + 2) {
            second[0].store(first[0].load(Relaxed), Relaxed);
            second[1].store(first[1].load(Relaxed), Relaxed);
            first[0].store(Self::check_of(address, scope, rule.0), Relaxed);
            first[1].store(rule.0, Relaxed);
        }
    }
}
