//! The slow path of hooks inside other objects, on both sides of the function's own work.

use crate::arch::hooks::inside::Call;
use crate::arch::trampoline::Hook;
use crate::hooks::{self, Block};
use crate::record::Claim;
use ramson_format::members::{MEMBERS, Work};

fn work_of(hook: &Hook) -> Work {
    MEMBERS.get(hook.member as usize).map_or(Work::Mark, |member| member.work)
}

fn product(call: &Call, [count, size]: [u8; 2]) -> u64 {
    call.argument(count).saturating_mul(call.argument(size))
}

/// The function is about to run.
pub extern "C" fn before(call: &mut Call) {
    let (hook, is_due) = call.take_hook();
    let entry = call.entry();
    let work = work_of(hook);
    let size = match work {
        Work::Allocate(size) | Work::AllocateInto(size) | Work::Reallocate { size, .. } => {
            call.argument(size)
        }
        Work::AllocateProduct(count, size) => product(call, [count, size]),
        Work::ReallocateProduct { sizes, .. } => product(call, sizes),
        Work::Free(_) | Work::Mark => 0,
    };
    // Before anything parks the countdown, which would forget that it has borrowed.
    let drawn_with = if is_due { hooks::rearm(size, entry) } else { 0 };
    let claimed = match work {
        Work::Free(block) => {
            let block = Block { address: call.argument(block), family: hook.family };
            if let Some(claim) = hooks::claim_block(block) {
                hooks::complete_free(claim, block.address, entry, call.frame_pointer);
            }
            None
        }
        Work::Reallocate { block, .. } | Work::ReallocateProduct { block, .. } => {
            let block = Block { address: call.argument(block), family: hook.family };
            hooks::claim_for_realloc(block).map(|claim| (claim, block))
        }
        _ => None,
    };
    call.is_followed = (drawn_with != 0 || claimed.is_some()) as u64;
    let (claim, address) = claimed.map_or((0, 0), |(claim, block)| (claim.bits(), block.address));
    let result_at = call.argument(0);
    call.kept = [
        core::ptr::from_ref(hook) as u64,
        size,
        drawn_with,
        claim,
        if claim == 0 { result_at } else { address },
    ];
}

/// The function has returned.
pub extern "C" fn after(call: &mut Call) {
    let [hook, size, drawn_with, claim, address] = call.kept;
    // SAFETY: `before` has put the address of a hook there, and hooks stay.
    let hook = unsafe { &*(hook as *const Hook) };
    let result = call.rax;
    let returned = match work_of(hook) {
        // SAFETY: the function succeeded, so it has just stored through this pointer.
        Work::AllocateInto(_) if result as i32 == 0 => unsafe { *(address as *const u64) },
        Work::AllocateInto(_) => 0,
        _ => result,
    };
    let (entry, frame_pointer) = (call.entry(), call.frame_pointer);
    if let Some(claim) = Claim::of_bits(claim) {
        let block = Block { address, family: hook.family };
        hooks::settle_realloc(claim, block, [result, size], entry, frame_pointer);
    }
    if drawn_with != 0 {
        let block = Block { address: returned, family: hook.family };
        hooks::record_block(block, size, drawn_with, entry, frame_pointer);
    }
}
