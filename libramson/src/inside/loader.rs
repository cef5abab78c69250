//! The function by which the loader tells debuggers that its list changes.

use super::code::code_at;
use super::places::{self, Change, Way};
use crate::arch::decode::{Opcode, decode};
use crate::arch::{entry, trampoline};
use crate::sys;

/// Whether a jump finds room in what comes behind a function's last instruction, and nobody runs that.
fn is_padding(code: &[u8]) -> bool {
    let is_nop = |opcode| matches!(opcode, Opcode::Of0f(0x1f) | Opcode::OneByte(0x90 | 0xcc));
    let mut at = 0;
    while at < entry::JUMP_BYTES - 1 {
        let Some(nop) = code.get(at..).and_then(decode).filter(|it| is_nop(it.opcode)) else {
            return false;
        };
        at += nop.bytes;
    }
    true
}

/// Has the loader call `hook` in place of the empty function at `place`, if that is what is there; whether it does.
pub fn watch(place: u64, hook: u64, way: Way) -> bool {
    const RETURN: u8 = 0xc3;
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let code = code_at(place, 16);
    let begin = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
    let padding = code.get(begin + 1..);
    let is_empty = code.get(begin) == Some(&RETURN) && padding.is_some_and(is_padding);
    let address = place + begin as u64;
    let write = || {
        let bytes = &trampoline::jump(address, hook)?;
        let change = Change { address, bytes, end: address, family: 0 };
        Some(places::put(&sys::open_own_memory().ok()?, way, &change))
    };
    is_empty && write().unwrap_or(false)
}
