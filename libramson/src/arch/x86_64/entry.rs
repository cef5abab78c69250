//! The beginning of a function of another object, as far as a hook needs it: which instructions make room for a jump, and whether they may move.
//!
//! The jump comes behind the first instruction, which stays: the kernel runs a copy of the instruction at which it is asked to stop (uprobes,
//! which sit at a function's first byte) and goes on behind it. With a jump in that place it would go on inside the jump.

use super::decode::{Flow, Instruction, Opcode, decode};
use ramson_format::MemberState;

/// Bytes of `jmp rel32`.
pub const JUMP_BYTES: usize = 5;

/// A function whose beginning may be moved.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    /// Bytes of the first instruction, behind which the jump comes; 0 if it is a jump itself, in whose place the other one comes.
    pub first_bytes: usize,
    /// Offset of the first instruction that is not moved.
    pub moved_end: usize,
    pub undo: Undo,
    /// The first instruction sets flags: it is run once more before those that are moved.
    pub sets_flags: bool,
}

/// What brings the registers back to what they were before the first instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Undo {
    /// Nothing: it may run twice, and has changed no register that a hook looks at.
    #[default]
    Nothing,
    /// It has pushed this register.
    Pop(u8),
    /// It has taken so much from this register.
    Add(u8, i32),
}

/// Registers that a function may change.
const CHANGEABLE: u16 =
    1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11;
const RSP: u8 = 4;

/// Looks at the function that begins with `code`. `padding_bytes` behind it are nobody's; `wanted` are the registers that a hook looks at, a bit each.
pub fn examine(code: &[u8], padding_bytes: usize, wanted: u16) -> Result<Entry, MemberState> {
    let first = decode(code).ok_or(MemberState::FirstInstruction)?;
    let (first_bytes, undo, sets_flags) = match first.flow {
        Flow::Jump(_) => (0, Undo::Nothing, false),
        Flow::Next => {
            let (undo, sets_flags) =
                undo(code, &first, wanted).ok_or(MemberState::FirstInstruction)?;
            (first.bytes, undo, sets_flags)
        }
        _ => return Err(MemberState::FirstInstruction),
    };
    let least = first_bytes + JUMP_BYTES;
    if least > code.len() + padding_bytes {
        return Err(MemberState::TooShort);
    }
    let mut moved_end = first_bytes;
    while moved_end < least {
        let rest = code.get(moved_end..).ok_or(MemberState::TooShort)?;
        let instruction = decode(rest).ok_or(MemberState::Unmovable)?;
        moved_end += instruction.bytes;
        match instruction.flow {
            Flow::Next | Flow::Conditional(_) => {}
            // Whatever follows is reached by jumps only, or never.
            Flow::End | Flow::Jump(_) | Flow::IndirectJump => break,
            Flow::Fixed(_) | Flow::Call(_) | Flow::IndirectCall => {
                return Err(MemberState::Unmovable);
            }
        }
    }
    Ok(Entry { first_bytes, moved_end, undo, sets_flags })
}

impl Entry {
    /// Whether nothing but the function's beginning may lead to this offset.
    pub fn is_taken(&self, offset: i64) -> bool {
        let end = self.moved_end.max(self.first_bytes + JUMP_BYTES) as i64;
        (self.first_bytes as i64..end).contains(&offset) && offset != 0
    }
}

/// Returns what undoes an instruction, and whether it sets flags.
fn undo(code: &[u8], instruction: &Instruction, wanted: u16) -> Option<(Undo, bool)> {
    let &Instruction { opcode, rex, modrm, modrm_at, bytes, .. } = instruction;
    let (mode, reg, rm) = modrm.map_or((0, 0, 0), |modrm| {
        (modrm >> 6, modrm >> 3 & 7 | (rex & 4) << 1, modrm & 7 | (rex & 1) << 3)
    });
    let is_plain = instruction.prefixes == 0;
    match opcode {
        Opcode::OneByte(push @ 0x50..=0x57) if is_plain => {
            let register = push & 7 | (rex & 1) << 3;
            (register != RSP).then_some((Undo::Pop(register), false))
        }
        // sub register, number.
        Opcode::OneByte(by @ (0x81 | 0x83))
            if mode == 3 && reg & 7 == 5 && rex & 8 != 0 && is_plain =>
        {
            let number = match by {
                0x83 => *code.get(modrm_at + 1)? as i8 as i32,
                _ => i32::from_le_bytes(*code.get(modrm_at + 1..)?.first_chunk()?),
            };
            let is_unread = rm == RSP || code.get(bytes..).is_some_and(sets_all_flags);
            (wanted & 1 << rm == 0 && is_unread).then_some((Undo::Add(rm, number), false))
        }
        // endbr64 and nops.
        Opcode::Of0f(0x1e) if code.get(..bytes) == Some(&[0xf3, 0x0f, 0x1e, 0xfa]) => {
            Some((Undo::Nothing, false))
        }
        Opcode::Of0f(0x1f) => Some((Undo::Nothing, false)),
        Opcode::OneByte(0x90) if rex == 0 && is_plain => Some((Undo::Nothing, false)),
        _ if is_comparison(opcode, reg & 7) => Some((Undo::Nothing, true)),
        _ => {
            let (written, read, sets_flags) = moved_registers(code, instruction, mode, reg, rm)?;
            let may_change = 1 << written & CHANGEABLE & !wanted != 0;
            (may_change && read & 1 << written == 0).then_some((Undo::Nothing, sets_flags))
        }
    }
}

/// Whether the instruction that `code` begins with sets all flags without a look at them: those from before are not read.
fn sets_all_flags(code: &[u8]) -> bool {
    let Some(Instruction { opcode: Opcode::OneByte(opcode), modrm, .. }) = decode(code) else {
        return false;
    };
    let extension = modrm.unwrap_or(0) >> 3 & 7;
    let is_carry = |operation| matches!(operation, 2 | 3);
    match opcode {
        0..=0x3f => opcode & 7 < 6 && !is_carry(opcode >> 3),
        0x80 | 0x81 | 0x83 => !is_carry(extension),
        0x84 | 0x85 | 0xa8 | 0xa9 => true,
        _ => false,
    }
}

/// cmp and test.
fn is_comparison(opcode: Opcode, extension: u8) -> bool {
    match opcode {
        Opcode::OneByte(0x38..=0x3d | 0x84 | 0x85 | 0xa8 | 0xa9) => true,
        Opcode::OneByte(0x80 | 0x81 | 0x83) => extension == 7,
        Opcode::OneByte(0xf6 | 0xf7) => extension == 0,
        _ => false,
    }
}

/// The register that a simple move writes to, those that it reads, and whether it sets flags.
fn moved_registers(
    code: &[u8],
    instruction: &Instruction,
    mode: u8,
    reg: u8,
    rm: u8,
) -> Option<(u8, u16, bool)> {
    let &Instruction { opcode, rex, modrm_at, .. } = instruction;
    let operand = || {
        if mode == 3 {
            return 1 << rm;
        }
        match (rm & 7, code.get(modrm_at + 1)) {
            (RSP, Some(&sib)) => {
                1 << (sib & 7 | (rex & 1) << 3) | 1 << (sib >> 3 & 7 | (rex & 2) << 2)
            }
            _ => 1 << rm,
        }
    };
    match opcode {
        // mov, lea, movsxd, movzx, movsx.
        Opcode::OneByte(0x8b | 0x8d | 0x63) | Opcode::Of0f(0xb6 | 0xb7 | 0xbe | 0xbf) => {
            Some((reg, operand(), false))
        }
        Opcode::OneByte(0x89) if mode == 3 => Some((rm, 1 << reg, false)),
        // xor of a register with itself.
        Opcode::OneByte(0x31 | 0x33) if mode == 3 && reg == rm => Some((rm, 0, true)),
        Opcode::OneByte(load @ 0xb8..=0xbf) => Some((load & 7 | (rex & 1) << 3, 0, false)),
        Opcode::OneByte(0xc7) if mode == 3 => Some((rm, 0, false)),
        _ => None,
    }
}

/// Passes each instruction of `code` that leads elsewhere to `visit`, with its offset. `None`: an instruction is not known.
pub fn each_branch(code: &[u8], visit: &mut dyn FnMut(usize, &Instruction)) -> Option<()> {
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        let instruction = decode(rest)?;
        if !matches!(instruction.flow, Flow::Next | Flow::End) {
            visit(at, &instruction);
        }
        at += instruction.bytes;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RDI: u16 = 1 << 7;
    const RSI: u16 = 1 << 6;

    /// The beginnings of real functions: jemalloc's malloc, sdallocx, mallocx and rallocx, snmalloc's sn_rust_alloc, and tcmalloc's malloc.
    #[test]
    fn beginnings_of_real_functions_are_taken() {
        let taken = |code: &[u8], wanted| {
            let entry = examine(code, 0, wanted).unwrap();
            (entry.first_bytes, entry.moved_end, entry.undo, entry.sets_flags)
        };
        // cmp rdi, 0x1000; ja +0x93.
        let malloc = [0x48, 0x81, 0xff, 0, 0x10, 0, 0, 0x0f, 0x87, 0x93, 0, 0, 0, 0x90];
        assert_eq!(taken(&malloc, RDI), (7, 13, Undo::Nothing, true));
        // mov r9, rdi; cmp rsi, 0x1000.
        let sdallocx = [0x49, 0x89, 0xf9, 0x48, 0x81, 0xfe, 0, 0x10, 0, 0, 0x77];
        assert_eq!(taken(&sdallocx, RDI), (3, 10, Undo::Nothing, false));
        // push r15; mov r10, rdi; push r14.
        let mallocx = [0x41, 0x57, 0x49, 0x89, 0xfa, 0x41, 0x56, 0xc3];
        assert_eq!(taken(&mallocx, RDI), (2, 7, Undo::Pop(15), false));
        // xor ecx, ecx; jmp.
        let rallocx = [0x31, 0xc9, 0xe9, 0x57, 0xb8, 0xff, 0xff];
        assert_eq!(taken(&rallocx, RDI | RSI), (2, 7, Undo::Nothing, true));
        // sub rdi, 1; sub rsi, 1; sub rsp, 8.
        let sn_rust_alloc = [0x48, 0x83, 0xef, 1, 0x48, 0x83, 0xee, 1, 0x48, 0x83, 0xec, 8];
        assert_eq!(taken(&sn_rust_alloc, RSI), (4, 12, Undo::Add(7, 1), false));
        // mov rax, [rip + …]; mov rcx, …
        let tc_malloc = [0x48, 0x8b, 5, 0x59, 0x8d, 0, 0, 0x48, 0xc7, 0xc0, 1, 2, 3, 4];
        assert_eq!(taken(&tc_malloc, RDI), (7, 14, Undo::Nothing, false));
        // A jump alone; endbr64; sub rsp, 0x118.
        assert_eq!(taken(&[0xe9, 1, 2, 3, 4], RDI), (0, 5, Undo::Nothing, false));
        let endbr64 = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x81, 0xec, 0x18, 1, 0, 0];
        assert_eq!(taken(&endbr64, RDI), (4, 11, Undo::Nothing, false));
        let stack = [0x48, 0x81, 0xec, 0x18, 1, 0, 0, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55];
        assert_eq!(taken(&stack, RDI), (7, 13, Undo::Add(4, 0x118), false));
    }

    #[test]
    fn others_are_refused_with_a_reason() {
        let refused = |code: &[u8], wanted| examine(code, 0, wanted).err();
        let long = |first: &[u8]| [first, &[0x90; 8]].concat();
        use MemberState::*;
        // It changes an argument: mov rdi, rsi; imul rdi, rsi; sub rdi, 1.
        assert_eq!(refused(&long(&[0x48, 0x89, 0xf7]), RDI), Some(FirstInstruction));
        assert_eq!(refused(&long(&[0x48, 0x0f, 0xaf, 0xfe]), RDI), Some(FirstInstruction));
        assert_eq!(refused(&long(&[0x48, 0x83, 0xef, 1]), RDI), Some(FirstInstruction));
        // It cannot run twice: mov rax, [rax]; inc qword ptr [rip]; int3.
        assert_eq!(refused(&long(&[0x48, 0x8b, 0]), RDI), Some(FirstInstruction));
        assert_eq!(refused(&long(&[0x48, 0xff, 5, 0, 0, 0, 0]), RDI), Some(FirstInstruction));
        assert_eq!(refused(&long(&[0xcc]), RDI), Some(FirstInstruction));
        // sub rsi, 8, whose flags jb reads.
        assert_eq!(refused(&long(&[0x48, 0x83, 0xee, 8, 0x72, 2]), RDI), Some(FirstInstruction));
        // Behind it a call, a loop, nothing.
        assert_eq!(refused(&[0x53, 0xe8, 0, 0, 0, 0], RDI), Some(Unmovable));
        assert_eq!(refused(&[0x53, 0x90, 0xe2, 0xfc, 0x90, 0x90], RDI), Some(Unmovable));
        assert_eq!(refused(&[0x53, 0x5b, 0xc3], RDI), Some(TooShort));
        assert!(examine(&[0x53, 0x5b, 0xc3], 3, RDI).is_ok());
    }

    #[test]
    fn jumps_into_moved_bytes_are_seen() {
        let entry = examine(&[0x53, 0x48, 0x89, 0xfb, 0x48, 0x85, 0xdb, 0xc3], 0, RDI).unwrap();
        let taken: Vec<i64> = (-2..10).filter(|&offset| entry.is_taken(offset)).collect();
        assert_eq!(taken, [1, 2, 3, 4, 5, 6]);
        // push rbx; jne to its start, to behind it; call; ret.
        let code = [0x53, 0x75, 0xfd, 0x0f, 0x85, 0xf8, 0xff, 0xff, 0xff, 0xe8, 0, 0, 0, 0, 0xc3];
        let mut found = Vec::new();
        assert_eq!(each_branch(&code, &mut |at, branch| found.push((at, branch.flow))), Some(()));
        let expected = [(1, Flow::Conditional(-1)), (3, Flow::Conditional(-2)), (9, Flow::Call(5))];
        assert_eq!(found, expected);
        assert_eq!(each_branch(&[0x53, 0x06], &mut |_, _| {}), None);
    }
}
