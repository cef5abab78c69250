//! Code of hooks on functions inside other objects, made when the object is there: each is a fast path as in `hooks`, the instructions that made
//! room for the jump to it, and a jump back. The program's registers are as the function itself would leave them, because callers in
//! its own object may rely on what it does not change.

use super::decode::{Flow, Instruction, Opcode, decode};
use super::entry::{Entry, JUMP_BYTES, Undo};
use ramson_format::members::{Argument, Work};

/// Room for one hook.
pub const HOOK_BYTES: usize = 320;
/// Offset of the code that runs the function as if there were no hook, from where its room begins.
pub const ORIGINAL_AT: u64 = 48;

/// What a slow path is told of its hook, at the start of its room.
#[repr(C)]
pub struct Hook {
    /// Address of the code that runs the function as if there were no hook.
    pub original: u64,
    pub family: u8,
    /// Of `MEMBERS`.
    pub member: u8,
    unused: [u8; 6],
    /// Addresses that the code goes through: this hook, the same with the lowest bit set, and the slow path.
    own: u64,
    own_due: u64,
    slow: u64,
    filter: u64,
}

/// Addresses that all hooks need.
pub struct Addresses {
    pub slow: u64,
    pub page_filter: u64,
    /// Offset of the countdown from the thread pointer.
    pub countdown: i32,
}

/// Function that is to be hooked.
pub struct Function<'a> {
    /// From its first instruction as far as bytes may move.
    pub code: &'a [u8],
    pub address: u64,
    pub entry: Entry,
    pub work: Work,
    pub family: u8,
    pub member: u8,
}

/// Numbers of the registers that hold arguments, as instructions have them.
const REGISTERS: [u8; 4] = [7, 6, 2, 1];
const RAX: u8 = 0;

/// The register of an argument.
pub fn register(argument: Argument) -> u8 {
    REGISTERS.get(argument as usize).copied().unwrap_or(RAX)
}

/// Code that is being put together for a place in memory.
pub struct Code {
    pub bytes: [u8; HOOK_BYTES],
    pub length: usize,
    at: u64,
    is_too_long: bool,
}

impl Code {
    fn put(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.length..self.length + bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.is_too_long = true,
        }
        self.length += bytes.len();
    }

    fn here(&self) -> u64 {
        self.at + self.length as u64
    }

    /// 32 bits that lead from behind them, and `after` more bytes, to `target`.
    fn put_relative(&mut self, target: u64, after: u64) {
        let distance = target.wrapping_sub(self.here() + 4 + after) as i64;
        match i32::try_from(distance) {
            Ok(distance) => self.put(&distance.to_le_bytes()),
            Err(_) => self.is_too_long = true,
        }
    }

    fn jump(&mut self, target: u64) {
        self.put(&[0xe9]);
        self.put_relative(target, 0);
    }

    /// jcc of this condition.
    fn jump_if(&mut self, condition: u8, target: u64) {
        self.put(&[0x0f, 0x80 | condition & 15]);
        self.put_relative(target, 0);
    }

    /// Leaves room for the distance of a jump that is not known yet.
    fn jump_later(&mut self, opcode: &[u8]) -> usize {
        self.put(opcode);
        self.put(&[0]);
        self.length
    }

    fn land(&mut self, behind: usize) {
        let distance = self.length.wrapping_sub(behind);
        if let Some(place) = behind.checked_sub(1).and_then(|place| self.bytes.get_mut(place)) {
            *place = distance as u8;
        }
        self.is_too_long |= distance > 127;
    }

    /// Copies the instruction that `code`, which lies at `from`, begins with. A jump to a function with a hook leads past that, by `past`.
    fn copy(
        &mut self,
        code: &[u8],
        from: u64,
        instruction: &Instruction,
        past: &dyn Fn(u64) -> u64,
    ) {
        let bytes = code.get(..instruction.bytes).unwrap_or_default();
        let target = |offset: i64| past(from.wrapping_add_signed(offset));
        match (instruction.flow, instruction.displacement_at) {
            (Flow::Jump(offset), _) => self.jump(target(offset)),
            (Flow::Conditional(offset), _) => {
                let (Opcode::OneByte(opcode) | Opcode::Of0f(opcode)) = instruction.opcode else {
                    self.is_too_long = true;
                    return;
                };
                self.jump_if(opcode, target(offset));
            }
            (_, Some(at)) => {
                let Some((before, (distance, after))) = bytes
                    .split_at_checked(at)
                    .and_then(|(before, rest)| Some((before, rest.split_first_chunk()?)))
                else {
                    self.is_too_long = true;
                    return;
                };
                let end = from + bytes.len() as u64;
                let operand = end.wrapping_add_signed(i32::from_le_bytes(*distance) as i64);
                self.put(before);
                self.put_relative(operand, after.len() as u64);
                self.put(after);
            }
            _ => self.put(bytes),
        }
    }

    /// sub qword ptr fs:[countdown], register.
    fn count(&mut self, register: u8, countdown: i32) {
        self.put(&[0x64, 0x48, 0x29, register << 3 | 4, 0x25]);
        self.put(&countdown.to_le_bytes());
    }

    /// mov rax, register.
    fn take(&mut self, register: u8) {
        self.put(&[0x48, 0x89, 0xc0 | register << 3]);
    }
}

const PUSH_RAX_RCX: [u8; 2] = [0x50, 0x51];
const POP_RCX_RAX: [u8; 2] = [0x59, 0x58];
const PUSH_RAX_RDX: [u8; 2] = [0x50, 0x52];
const POP_RDX_RAX: [u8; 2] = [0x5a, 0x58];
const BORROWED: u8 = 2;
const IS_NOT_ZERO: u8 = 5;

/// The hook of `function` for the place `at`. `None`: the function is too far away, or its beginning too long.
pub fn hook_code(
    function: &Function,
    at: u64,
    addresses: &Addresses,
    past: &dyn Fn(u64) -> u64,
) -> Option<(Code, u64)> {
    let mut code = Code { bytes: [0xcc; HOOK_BYTES], length: 0, at, is_too_long: false };
    let original = at + ORIGINAL_AT;
    let words = [
        original,
        function.family as u64 | (function.member as u64) << 8,
        at,
        at | 1,
        addresses.slow,
        addresses.page_filter,
    ];
    words.iter().for_each(|word| code.put(&word.to_le_bytes()));
    let entry = &function.entry;
    let copy_from = |code: &mut Code, begin: usize, end: usize| {
        let mut from = begin;
        let mut goes_on = true;
        while from < end
            && let Some(rest) = function.code.get(from..)
            && let Some(instruction) = decode(rest)
        {
            code.copy(rest, function.address + from as u64, &instruction, past);
            goes_on = !matches!(instruction.flow, Flow::End | Flow::Jump(_) | Flow::IndirectJump);
            from += instruction.bytes;
        }
        if goes_on {
            code.jump(function.address + entry.moved_end as u64);
        }
    };
    copy_from(&mut code, 0, entry.moved_end);
    let fast = code.here();
    // The places from which the slow path is reached are filled in when it is known where it begins.
    let mut slow_from = [None; 2];
    let mut to_slow = |code: &mut Code, condition: u8, is_due: bool| {
        code.put(&[0x0f, 0x80 | condition]);
        if let Some(place) = slow_from.iter_mut().find(|place| place.is_none()) {
            *place = Some((code.length, is_due));
        }
        code.put(&[0; 4]);
    };
    match function.work {
        Work::Allocate(size) | Work::AllocateInto(size) => {
            code.count(register(size), addresses.countdown);
            to_slow(&mut code, BORROWED, true);
        }
        Work::AllocateProduct(count, size) => {
            product(&mut code, [count, size], addresses.countdown);
            to_slow(&mut code, BORROWED, true);
        }
        Work::Free(block) => {
            test_filter(&mut code, register(block));
            to_slow(&mut code, IS_NOT_ZERO, false);
        }
        Work::Reallocate { block, size } => {
            code.count(register(size), addresses.countdown);
            to_slow(&mut code, BORROWED, true);
            test_filter(&mut code, register(block));
            to_slow(&mut code, IS_NOT_ZERO, false);
        }
        Work::ReallocateProduct { block, sizes } => {
            product(&mut code, sizes, addresses.countdown);
            to_slow(&mut code, BORROWED, true);
            test_filter(&mut code, register(block));
            to_slow(&mut code, IS_NOT_ZERO, false);
        }
        Work::Mark => return None,
    }
    copy_from(&mut code, if entry.sets_flags { 0 } else { entry.first_bytes }, entry.moved_end);
    for (place, is_due) in slow_from.into_iter().flatten() {
        let distance = (code.length - place - 4) as u32;
        code.bytes.get_mut(place..place + 4)?.copy_from_slice(&distance.to_le_bytes());
        match entry.undo {
            Undo::Nothing => {}
            Undo::Pop(register) if register < 8 => code.put(&[0x58 | register]),
            Undo::Pop(register) => code.put(&[0x41, 0x58 | register & 7]),
            Undo::Add(register, number) => {
                // lea register, [register + number]; rsp and r12 need one byte more.
                code.put(&[0x48 | ((register >> 3) * 5), 0x8d, 0x80 | ((register & 7) * 9)]);
                if register & 7 == 4 {
                    code.put(&[0x24]);
                }
                code.put(&number.to_le_bytes());
            }
        }
        // push qword ptr [rip + own], jmp qword ptr [rip + slow].
        code.put(&[0xff, 0x35]);
        code.put_relative(at + if is_due { 24 } else { 16 }, 0);
        code.put(&[0xff, 0x25]);
        code.put_relative(at + 32, 0);
    }
    (!code.is_too_long && code.length <= HOOK_BYTES).then_some((code, fast))
}

/// Takes the product of two arguments off the countdown. One that overflows is the function's to refuse.
fn product(code: &mut Code, [count, size]: [Argument; 2], countdown: i32) {
    code.put(&PUSH_RAX_RDX);
    code.take(register(count));
    // mul register.
    code.put(&[0x48, 0xf7, 0xe0 | register(size)]);
    let overflow = code.jump_later(&[0x70]);
    code.count(RAX, countdown);
    let done = code.jump_later(&[0xeb]);
    code.land(overflow);
    // clc.
    code.put(&[0xf8]);
    code.land(done);
    code.put(&POP_RDX_RAX);
}

/// Compares the page filter's byte for the page of the pointer in `register` with 0.
fn test_filter(code: &mut Code, register: u8) {
    code.put(&PUSH_RAX_RCX);
    code.take(register);
    // mov rcx, qword ptr [rip + filter].
    code.put(&[0x48, 0x8b, 0x0d]);
    code.put_relative(code.at + 40, 0);
    code.put(&[
        0x48, 0xc1, 0xe8, 12, // shr rax, 12
        0x25, 0xff, 0xff, 0xff, 0, // and eax, 0xffffff
        0x80, 0x3c, 0x01, 0, // cmp byte ptr [rcx + rax], 0
    ]);
    code.put(&POP_RCX_RAX);
}

/// `jmp` from `at` to `target`, if it reaches.
pub fn jump(at: u64, target: u64) -> Option<[u8; JUMP_BYTES]> {
    let distance = i32::try_from(target.wrapping_sub(at + JUMP_BYTES as u64) as i64).ok()?;
    let [a, b, c, d] = distance.to_le_bytes();
    Some([0xe9, a, b, c, d])
}
