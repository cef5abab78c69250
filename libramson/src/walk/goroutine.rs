//! The way on from C code to the goroutine that called it.
//!
//! Go has C code run on the stack of the thread. `runtime.asmcgocall`, which calls it there, has no unwind tables, and leaves the frame
//! pointer as it was on the goroutine's stack (runtime/asm_amd64.s). There, each function has a frame record, and the stack does not move as
//! long as the call lasts (`isShrinkStackSafe` of runtime/stack.go).

use super::elf::Elf;
use super::objects::{Cursor, NewMapping, Place};
use super::rules::follow_frame_pointer;
use super::stack::copy_of;
use super::{Caller, End, Walked, Walker};
use crate::sys::permit;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ramson_format::{LookupAddress, MAX_DEPTH};

/// Whether a walk that ended there may go on in a goroutine.
pub fn may_be_called_by_goroutine(walked: &Walked) -> bool {
    let Caller { stack_pointer, frame_pointer, .. } = walked.last;
    walked.end == End::Failed && frame_pointer < stack_pointer && permit::is_full()
}

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
    /// Goes on with a walk that ended in code of Go, by the frame records of the goroutine's stack, parts of which go into `copy`.
    #[cold]
    pub fn walk_goroutine(
        &self,
        walked: Walked,
        pid: u32,
        copy: &mut [u8],
        frames: &mut [LookupAddress; MAX_DEPTH],
        sink: &impl NewMapping,
    ) -> Walked {
        let mut cursor = Cursor::default();
        let last = self.objects.covering(walked.last.lookup_address.0, &mut cursor, sink);
        if !last.is_some_and(is_of_go) {
            return walked;
        }
        let mut registers = walked.last;
        registers.stack_pointer = registers.frame_pointer;
        let mut view = None;
        #[expect(clippy::needless_range_loop, reason = "the depth is part of what is returned")]
        for depth in walked.depth..MAX_DEPTH {
            let ended = |end| Walked { depth, end, last: registers, ..walked };
            if registers.frame_pointer == 0 {
                return ended(End::Outermost);
            }
            let next = view.and_then(|view| follow_frame_pointer(registers, &view));
            let next = next.or_else(|| {
                let copied = copy_of(registers.frame_pointer & !7, pid, copy);
                follow_frame_pointer(registers, view.insert(copied))
            });
            let Some(next) = next else { return ended(End::Failed) };
            let address = next.lookup_address.0;
            let place = self.objects.covering(address, &mut cursor, sink);
            if place.is_none_or(|place| !(place.code_start..place.code_end).contains(&address)) {
                return ended(End::Failed);
            }
            frames[depth] = next.lookup_address;
            registers = next;
        }
        Walked { depth: MAX_DEPTH, end: End::Cut, ..walked }
    }
}
