//! Whether a thread's own stack really reaches down to where a sample was taken.
//!
//! Readable memory below a thread's stack may be a neighbour's: a coroutine's stack in the same mapping, which can be unmapped
//! while the thread lives. So what a sample added to the known part stays known only if the frames found there lead up to that
//! part, each close to the last.

use super::frames::step;
use super::{Caller, StackView, Walker};
use crate::arch::Thread;
use ramson_format::MAX_DEPTH;

/// Largest distance between two frames that is believed. Less than the smallest stack (16 KiB), so that no step leads over one.
const LARGEST_STEP_BYTES: u64 = 8 << 10;
/// Room between the thread control block and the first frame, for thread-local variables; the smallest stack is larger.
const LARGEST_STATIC_TLS_BYTES: u64 = 12 << 10;

impl Walker {
    /// After a walk from `caller` for which a thread's own stack was extended down from `known_low` (0: nothing was known): takes that
    /// back unless the frames prove it. The first thread has no neighbour below: the kernel keeps a gap.
    #[cold]
    pub fn confirm_stack(
        &self,
        thread: &Thread,
        caller: Caller,
        view: &StackView,
        known_low: u64,
        main_high: u64,
    ) {
        let high = thread.stack_high.get();
        let from_high = high.saturating_sub(LARGEST_STATIC_TLS_BYTES);
        let known_from = if known_low == 0 { from_high } else { known_low };
        if high == main_high & !7 || self.leads_to(known_from, caller, view) {
            return;
        }
        thread.stack_low.set(known_low);
        if known_low == 0 {
            thread.stack_high.set(0);
        }
    }

    fn leads_to(&self, address: u64, caller: Caller, view: &StackView) -> bool {
        let mut registers = caller;
        for _ in 0..MAX_DEPTH {
            if registers.stack_pointer >= address {
                return true;
            }
            // The walk has just put them there. One of an object that is gone could lead astray, but not out of the view.
            let Some(rule) = self.rules.get(registers.lookup_address.0, |_| true) else {
                return false;
            };
            let Ok(next) = step(rule.unpack(), registers, view) else { return false };
            if next.stack_pointer.wrapping_sub(registers.stack_pointer) > LARGEST_STEP_BYTES {
                return false;
            }
            registers = next;
        }
        false
    }
}
