//! The frame that a thread finds on its stack: where the function returns to, and how the thread becomes what it was.
//!
//! The function returns to `raise` in the C library, which tells us (where the program has handlers for all signals that might, its next
//! system call does), and that to the kernel's rt_sigreturn, which restores all registers and the blocked signals. So the thread finds its way
//! back also if its tracer has gone and does not see the signal.

use crate::library::Code;
use crate::trace::Registers;

/// Code segment of 64-bit programs.
pub const USER_CS: u64 = 0x33;
/// Bytes below the stack pointer that are the function's that made the system call (System V ABI).
const RED_ZONE_BYTES: u64 = 128;
/// Alignment of XSAVE's area.
const XSAVE_ALIGNMENT: u64 = 64;
/// Direction flag and single steps, which a called function must not find set.
const CLEARED_FLAGS: u64 = 0x400 | 0x100;
/// Words of the chain of returns before `struct ucontext`.
const CHAIN_WORDS: u64 = 5;

/// `struct ucontext` up to its signal mask (arch/x86/include/uapi/asm/ucontext.h, sigcontext.h): offsets.
mod context {
    pub const FLAGS: usize = 0;
    pub const STACK_FLAGS: usize = 24;
    pub const REGISTERS: usize = 40;
    pub const SELECTORS: usize = 184;
    pub const FLOATING_POINT: usize = 224;
    pub const MASK: usize = 296;
    pub const BYTES: usize = 304;
    /// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
    pub const ALL_FLAGS: u64 = 7;
    /// A value that the kernel refuses, so that the alternate stack stays as it is.
    pub const NO_STACK_FLAGS: u64 = 0x7fff_fff0;
}

/// `struct _fpx_sw_bytes` inside of XSAVE's area, and the word behind it.
mod software {
    pub const OFFSET: usize = 464;
    pub const MAGIC_1: u32 = 0x4650_5853;
    pub const MAGIC_2: u32 = 0x4650_5845;
    /// Offset in XSAVE's header of the bits that tell which parts are in use.
    pub const USED: usize = 512;
}

/// State that the thread is to have again afterwards.
pub struct Past<'a> {
    pub registers: &'a Registers,
    pub extended_state: &'a [u8],
    pub blocked_signals: u64,
}

/// Bytes for the thread's stack.
pub struct Frame {
    /// Address of the bytes: the stack pointer at the function's entry.
    pub start: u64,
    pub bytes: Vec<u8>,
    /// Address of `data` in them.
    pub data: u64,
    /// And what the thread becomes again.
    pub context: u64,
}

/// Lays out the stack below the one that `past` has; `data` is what the function gets pointers to.
pub fn lay_out(past: &Past, code: &Code, signal: Option<i32>, data: &[u8]) -> Frame {
    let top = past.registers.rsp - RED_ZONE_BYTES;
    let data_at = (top - data.len() as u64) & !15;
    let state_bytes = past.extended_state.len() as u64;
    let state_at = (data_at - state_bytes - 4) & !(XSAVE_ALIGNMENT - 1);
    let context_at = (state_at - context::BYTES as u64) & !15;
    // At a function's entry the stack pointer is 8 off a multiple of 16: here for the one called and for `raise`.
    let start = context_at - 8 * CHAIN_WORDS;
    let mut bytes = vec![0; (top - start) as usize];
    let mut put = |address: u64, content: &[u8]| {
        let offset = (address - start) as usize;
        bytes[offset..offset + content.len()].copy_from_slice(content);
    };
    let only_return = code.pop_rdi + 1;
    let raise = if signal.is_some() { code.raise } else { only_return };
    let signal = signal.unwrap_or(0) as u64;
    let chain = [code.pop_rdi, signal, only_return, raise, code.restorer];
    for (index, word) in chain.iter().enumerate() {
        put(start + 8 * index as u64, &word.to_le_bytes());
    }
    put(context_at, &context(past, state_at));
    put(state_at, &extended_state(past.extended_state));
    put(state_at + state_bytes, &software::MAGIC_2.to_le_bytes());
    put(data_at, data);
    Frame { start, bytes, data: data_at, context: context_at }
}

fn context(past: &Past, state_at: u64) -> [u8; context::BYTES] {
    let r = past.registers;
    let mut bytes = [0; context::BYTES];
    let mut put = |offset: usize, word: u64| {
        bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    };
    put(context::FLAGS, context::ALL_FLAGS);
    put(context::STACK_FLAGS, context::NO_STACK_FLAGS);
    let in_order = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx,
        r.rax, r.rcx, r.rsp, r.rip, r.eflags,
    ];
    for (index, word) in in_order.into_iter().enumerate() {
        put(context::REGISTERS + 8 * index, word);
    }
    put(context::SELECTORS, r.cs | r.ss << 48);
    put(context::FLOATING_POINT, state_at);
    put(context::MASK, past.blocked_signals);
    bytes
}

/// Whether what stands behind the restorer's address is what the kernel puts there for a signal's handler. Deep stacks keep such an
/// address of a handler that returned long ago, and what has been written over the rest since is no such context.
pub fn is_context(bytes: &[u8]) -> bool {
    let selectors = bytes.get(context::SELECTORS..context::SELECTORS + 2);
    selectors.is_none_or(|selector| selector == &(USER_CS as u16).to_le_bytes()[..])
}

/// With the words by which the kernel knows that all of it is there.
fn extended_state(state: &[u8]) -> Vec<u8> {
    let mut bytes = state.to_vec();
    let length = state.len() as u32;
    let used = state.get(software::USED..software::USED + 8).unwrap_or(&[0; 8]).to_vec();
    let Some(words) = bytes.get_mut(software::OFFSET..software::USED) else { return bytes };
    words.fill(0);
    words[..4].copy_from_slice(&software::MAGIC_1.to_le_bytes());
    words[4..8].copy_from_slice(&(length + 4).to_le_bytes());
    words[8..16].copy_from_slice(&used);
    words[16..20].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The registers at the first instruction of a function with at most six arguments; the others are 0.
pub fn registers_at_entry(
    past: &Registers,
    function: u64,
    arguments: &[u64],
    frame: &Frame,
) -> Registers {
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    Registers {
        rip: function,
        rsp: frame.start,
        rdi: argument(0),
        rsi: argument(1),
        rdx: argument(2),
        rcx: argument(3),
        r8: argument(4),
        r9: argument(5),
        rax: 0,
        // Not in a system call: the kernel must not begin one again.
        orig_rax: u64::MAX,
        eflags: past.eflags & !CLEARED_FLAGS,
        ..*past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_aligned_below_red_zone() {
        let code = Code {
            pop_rdi: 0x1000,
            raise: 0x2000,
            restorer: 0x3000,
            errno_offset_at: None,
            malloc: None,
        };
        for rsp in (0x7ffd_0000_0000..0x7ffd_0000_0080).step_by(8) {
            let registers = Registers { rsp, rip: 7, cs: USER_CS, ..zero() };
            let past =
                Past { registers: &registers, extended_state: &[1; 832], blocked_signals: 5 };
            let frame = lay_out(&past, &code, Some(23), b"text\0");
            let word = |offset: usize| {
                u64::from_le_bytes(frame.bytes[offset..offset + 8].try_into().unwrap())
            };
            assert_eq!(frame.start % 16, 8);
            assert_eq!(frame.start + frame.bytes.len() as u64, rsp - 128);
            assert_eq!(
                [word(0), word(8), word(16), word(24), word(32)],
                [0x1000, 23, 0x1001, 0x2000, 0x3000]
            );
            assert_eq!(word(40 + context::REGISTERS + 8 * 15), rsp);
            assert_eq!(word(40 + context::MASK), 5);
            assert!(is_context(&frame.bytes[40..]));
            assert!(is_context(&frame.bytes[40..50]), "what cannot be read may be one");
            let mut written_over = frame.bytes[40..].to_vec();
            written_over[context::SELECTORS] = 0;
            assert!(!is_context(&written_over));
            let state = word(40 + context::FLOATING_POINT);
            assert!(state.is_multiple_of(64) && state > frame.start);
            assert_eq!(word((state - frame.start) as usize + 832) as u32, software::MAGIC_2);
            let silent = lay_out(&past, &code, None, b"");
            assert_eq!(silent.bytes[24..32], 0x1001u64.to_le_bytes());
            assert_eq!(silent.context, silent.start + 40);
            let data = (frame.data - frame.start) as usize;
            assert_eq!(&frame.bytes[data..data + 5], b"text\0");
        }
    }

    fn zero() -> Registers {
        Registers {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            rbp: 0,
            rbx: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rax: 0,
            rcx: 0,
            rdx: 0,
            rsi: 0,
            rdi: 0,
            orig_rax: 0,
            rip: 0,
            cs: 0,
            eflags: 0,
            rsp: 0,
            ss: 0,
            fs_base: 0,
            gs_base: 0,
            ds: 0,
            es: 0,
            fs: 0,
            gs: 0,
        }
    }
}
