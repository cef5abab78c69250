//! A walk that proves what a thread is in: nothing is guessed, and nothing is left out.

use super::modules::Cursor;
use super::rules::{FROM_FRAME_POINTER, FROM_SAVED_WORD, FROM_STACK_POINTER, OUTERMOST};
use super::{Caller, NewMapping, PERMANENT, Search, StackView, Step, Walker, step};
use ramson_format::MAX_DEPTH;

impl Walker {
    /// Whether unwind tables, or code that says itself how large its frame is, lead from `caller` to the outermost frame. Frame
    /// pointers do not count: a signal handler without them would be passed over; nor does a signal's frame. Each frame's lookup address goes to `visit`.
    #[cold]
    pub fn is_whole(
        &self,
        caller: Caller,
        view: &StackView,
        sink: &impl NewMapping,
        mut visit: impl FnMut(u64),
    ) -> bool {
        let mut search = Search {
            cursor: Cursor::new(),
            unclaimed_scope: self.modules.unclaimed_scope(),
            rules_compiled: 0,
        };
        let mut registers = caller;
        for _ in 0..MAX_DEPTH {
            visit(registers.lookup_address);
            let known = self.rules.get(registers.lookup_address, |scope| scope == PERMANENT);
            let rule = known.unwrap_or_else(|| {
                self.rule_in_object(registers.lookup_address, &mut search, sink)
            });
            match rule.kind() {
                OUTERMOST => return true,
                FROM_STACK_POINTER | FROM_FRAME_POINTER | FROM_SAVED_WORD => {}
                _ => return false,
            }
            let Step::Caller(next) = step(rule, registers, view) else { return false };
            registers = next;
        }
        false
    }
}
