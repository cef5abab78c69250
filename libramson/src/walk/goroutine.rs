//! The way on from C code to the goroutine that called it.
//!
//! Go has C code run on the stack of the thread. `runtime.asmcgocall`, which calls it there, has no unwind tables, and leaves the frame
//! pointer as it was on the goroutine's stack (runtime/asm_amd64.s). There, each function has a frame record, and the stack does not move as
//! long as the call lasts (`isShrinkStackSafe` of runtime/stack.go).

use super::elf::Elf;
use super::frames::step;
use super::objects::{Cursor, NewMapping, Place};
use super::rules::follow_frame_pointer;
use super::stack::copy_of;
use super::{Caller, End, StackView, Walker};
use crate::sys::permit;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ramson_format::{LookupAddress, MAX_DEPTH};

/// Start of the object that was asked about last, and 1 if it is Go's.
static LAST_OBJECT: AtomicU64 = AtomicU64::new(0);

fn is_of_go(place: &Place) -> bool {
    let last = LAST_OBJECT.load(Relaxed);
    if last & !1 == place.start {
        return last & 1 != 0;
    }
    let is_of_go = Elf::at(place.start).is_some_and(|elf| elf.is_of_go());
    LAST_OBJECT.store(place.start | u64::from(is_of_go), Relaxed);
    is_of_go
}

impl Walker {
    /// Goes on with a walk from `caller` through `view` that ended in code of Go, by the frame records of the goroutine's stack, parts of which
    /// go into `copy`. Returns how many frames there are then, and how it ended.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "what a walk has")]
    pub fn walk_goroutine(
        &self,
        caller: &Caller,
        view: &StackView,
        depth: usize,
        pid: u32,
        copy: &mut [u8],
        frames: &mut [LookupAddress; MAX_DEPTH],
        sink: &impl NewMapping,
    ) -> (usize, End) {
        let mut cursor = Cursor::default();
        let failed = (depth, End::Failed);
        let Some(mut registers) = self.last_of(*caller, view, depth) else { return failed };
        let is_elsewhere = registers.frame_pointer < registers.stack_pointer && permit::is_full();
        let address = registers.lookup_address.0;
        let place = self.objects.covering(address, &mut cursor, sink).filter(|_| is_elsewhere);
        if !place.is_some_and(is_of_go) {
            return failed;
        }
        registers.stack_pointer = registers.frame_pointer;
        let mut view = None;
        #[expect(clippy::needless_range_loop, reason = "the depth is part of what is returned")]
        for depth in depth..MAX_DEPTH {
            if registers.frame_pointer == 0 {
                return (depth, End::Outermost);
            }
            let next = view.and_then(|view| follow_frame_pointer(registers, &view));
            let next = next.or_else(|| {
                let copied = copy_of(registers.frame_pointer & !7, pid, copy);
                follow_frame_pointer(registers, view.insert(copied))
            });
            let Some(next) = next else { return (depth, End::Failed) };
            let address = next.lookup_address.0;
            let place = self.objects.covering(address, &mut cursor, sink);
            if place.is_none_or(|place| !(place.code_start..place.code_end).contains(&address)) {
                return (depth, End::Failed);
            }
            frames[depth] = next.lookup_address;
            registers = next;
        }
        (MAX_DEPTH, End::Cut)
    }

    /// Registers of the last frame of a walk of so many.
    fn last_of(&self, caller: Caller, view: &StackView, depth: usize) -> Option<Caller> {
        (1..depth).try_fold(caller, |registers, _| {
            // The walk has just put them there.
            let rule = self.rules.get(registers.lookup_address.0, |_| true)?;
            step(rule.unpack(), registers, view).ok()
        })
    }
}
