//! The hooks of an allocator that was found, and their writing.
//!
//! One call is counted once. Functions of an allocator call each other, and jump to each other, which leaves no return address to tell
//! by: those calls and jumps are led past the hook of the function that they go to. (Where an allocator's other code calls such a function,
//! the return address tells: `is_in_allocator`.)

use super::{Area, Found, Function, Patch, REACH};
use crate::arch::decode::{Flow, Instruction, Opcode, decode};
use crate::arch::entry;
use crate::arch::trampoline::{self, Addresses, HOOK_BYTES, ORIGINAL_AT};
use crate::inside::code::{code_at, target_of};
use crate::inside::list::List;
use crate::inside::places::{self, Change, Way};
use crate::sys::{self, File};
use ramson_format::{MemberState, PRELOADED_FAMILY};

impl Found<'_> {
    /// The function that has its hook at this address.
    fn hooked_at(&self, address: u64) -> Option<usize> {
        let bias = self.object.bias as u64;
        self.scratch.functions.all().iter().position(|function| {
            function.state == MemberState::Hooked && bias + function.symbol.address == address
        })
    }

    /// The function to which an instruction at `at` leads, through a pointer or not.
    fn called_by(&self, at: u64, code: &[u8], instruction: &Instruction) -> Option<usize> {
        if let Some(target) = target_of(at, instruction) {
            return self.hooked_at(target).or_else(|| self.behind_stub(target));
        }
        let is_indirect = matches!(instruction.flow, Flow::IndirectCall | Flow::IndirectJump);
        if is_indirect { self.behind_pointer(at, code, instruction) } else { None }
    }

    /// The function to which the linker's stub at `address` leads, if one is there.
    fn behind_stub(&self, address: u64) -> Option<usize> {
        const STUB_BYTES: u64 = 16;
        let in_code =
            self.file.code_at(address.wrapping_sub(self.object.bias as u64), STUB_BYTES).is_some();
        let code = code_at(address, if in_code { STUB_BYTES } else { 0 });
        let first = decode(code)?;
        if first.flow == Flow::IndirectJump {
            return self.behind_pointer(address, code, &first);
        }
        // Behind endbr64.
        let rest = code.get(first.bytes..)?;
        let second = decode(rest).filter(|second| second.flow == Flow::IndirectJump)?;
        self.behind_pointer(address + first.bytes as u64, rest, &second)
    }

    fn behind_pointer(&self, at: u64, code: &[u8], instruction: &Instruction) -> Option<usize> {
        let distance = code.get(instruction.displacement_at?..)?.first_chunk()?;
        let end = at + instruction.bytes as u64;
        let pointer = end.wrapping_add_signed(i32::from_le_bytes(*distance) as i64);
        let (_, named) = *self.scratch.slots.all().iter().find(|slot| slot.0 == pointer)?;
        // Two names may be one function's.
        let named = self.scratch.functions.all().get(named)?;
        self.hooked_at(self.object.bias as u64 + named.symbol.address)
    }

    /// Address of the code that runs a function as if it had no hook.
    fn past(area: u64, function: usize) -> u64 {
        Self::place_of(area, function) + ORIGINAL_AT
    }

    /// Notes what is to be written so that calls among functions with hooks lead past these. Functions whose jumps are too short for that are
    /// refused; true if there was one.
    fn lead_past(&mut self, area: u64) -> bool {
        let bias = self.object.bias as u64;
        let mut is_one_refused = false;
        self.scratch.patches.clear();
        for from in 0..self.scratch.functions.all().len() {
            let Some(&Function { symbol, cold, entry, state, .. }) =
                self.scratch.functions.all().get(from)
            else {
                continue;
            };
            if state != MemberState::Hooked {
                continue;
            }
            let mut is_too_short = false;
            let mut found: List<Patch, 32> = List::new();
            for part in [symbol, cold] {
                let start = bias + part.address;
                let code = code_at(start, part.bytes);
                let _ = entry::each_branch(code, &mut |offset, instruction| {
                    // Those that move are led past as they are copied.
                    if part.address == symbol.address && offset < entry.moved_end {
                        return;
                    }
                    let at = start + offset as u64;
                    let rest = code.get(offset..).unwrap_or_default();
                    let Some(to) = self.called_by(at, rest, instruction) else { return };
                    let patch = patch(at, instruction, Self::past(area, to));
                    is_too_short |= !patch.is_some_and(|patch| found.push(patch));
                });
            }
            let patches = &mut self.scratch.patches;
            if is_too_short || !found.all().iter().all(|&patch| patches.push(patch)) {
                self.refuse(from, MemberState::ShortJump);
                is_one_refused = true;
            }
        }
        is_one_refused
    }

    fn refuse(&mut self, function: usize, state: MemberState) {
        if let Some(function) = self.scratch.functions.all_mut().get_mut(function) {
            function.state = state;
        }
    }

    /// Writes the hooks, as those of `family`, into `area`, which nobody uses any more, if that is near and large enough, and the ways to them as
    /// `way` says. Returns the area that they are in.
    pub fn hook(&mut self, family: u8, addresses: &Addresses, area: Area, way: Way) -> Area {
        let area = self.place(area);
        if !area.is_some_and(|area| self.write(family, addresses, area.start, way)) {
            let misses_frees = self.misses_frees();
            for function in self.scratch.functions.all_mut() {
                if function.state == MemberState::Hooked {
                    function.state = if misses_frees {
                        MemberState::WithoutFrees
                    } else {
                        MemberState::NotWritten
                    };
                }
            }
        }
        area.unwrap_or_default()
    }

    /// Memory for the code of the hooks.
    fn place(&self, area: Area) -> Option<Area> {
        let functions = self.scratch.functions.all();
        let near = self.object.bias as u64 + functions.first()?.symbol.address;
        let bytes = (functions.len() * HOOK_BYTES).next_multiple_of(4096);
        if area.bytes >= bytes as u64 && area.start.abs_diff(near) < REACH {
            return Some(area);
        }
        let start = sys::map_code(bytes, near, REACH).ok()?;
        Some(Area { start, bytes: bytes as u64 })
    }

    /// False: nothing leads to a hook.
    fn write(&mut self, family: u8, addresses: &Addresses, area: u64, way: Way) -> bool {
        let count = self.scratch.functions.all().len();
        let Ok(memory) = sys::open_own_memory() else { return false };
        // Which functions have hooks is settled before anything is written: no jump may lead to a hook that is not there.
        while self.refuses_one_more(family, addresses, area) {}
        if self.misses_frees() {
            return false;
        }
        // First what nobody runs yet, then the ways there.
        let mut is_one = false;
        for index in 0..count {
            let Some((code, fast)) = self.code_of(index, family, addresses, area) else { continue };
            if !memory.write_at(Self::place_of(area, index), &code.bytes) {
                return false;
            }
            is_one = true;
            if let Some(function) = self.scratch.functions.all_mut().get_mut(index) {
                function.fast = fast;
            }
        }
        let family = u64::from(family - PRELOADED_FAMILY);
        let is_written = |patch: &Patch| {
            let bytes = patch.bytes.get(..patch.length).unwrap_or_default();
            places::put(&memory, way, &Change { address: patch.at, bytes, end: patch.at, family })
        };
        let most = count + self.scratch.patches.all().len();
        if !is_one
            || !places::have_room(way, most)
            || !self.scratch.patches.all().iter().all(is_written)
        {
            return false;
        }
        for index in 0..count {
            self.write_jump(&memory, index, family, way);
        }
        true
    }

    /// Refuses functions whose hooks do not fit, and those whose calls of others cannot be led past; true if there was one.
    fn refuses_one_more(&mut self, family: u8, addresses: &Addresses, area: u64) -> bool {
        let mut is_changed = false;
        for index in 0..self.scratch.functions.all().len() {
            let is_hooked = self.is_hooked(index);
            if is_hooked && self.code_of(index, family, addresses, area).is_none() {
                self.refuse(index, MemberState::Unmovable);
                is_changed = true;
            }
        }
        self.lead_past(area) | is_changed
    }

    /// Whether a function by which most blocks are freed or moved has no hook: what lives could not be told.
    fn misses_frees(&self) -> bool {
        let is_usual = |function: &&Function| function.symbol.is_usual_free();
        let is_refused = |function: &Function| {
            !matches!(function.state, MemberState::Hooked | MemberState::Alias)
        };
        self.scratch.functions.all().iter().filter(is_usual).any(is_refused)
    }

    fn is_hooked(&self, index: usize) -> bool {
        let function = self.scratch.functions.all().get(index);
        function.is_some_and(|function| function.state == MemberState::Hooked)
    }

    /// Address of a function's hook.
    fn place_of(area: u64, index: usize) -> u64 {
        area + (index * HOOK_BYTES) as u64
    }

    /// The code of a function's hook, and where its fast path begins. `None`: it has none, or it does not fit.
    fn code_of(
        &self,
        index: usize,
        family: u8,
        addresses: &Addresses,
        area: u64,
    ) -> Option<(trampoline::Code, u64)> {
        let &Function { symbol, entry, state, .. } = self.scratch.functions.all().get(index)?;
        if state != MemberState::Hooked {
            return None;
        }
        let address = self.object.bias as u64 + symbol.address;
        let past = |target: u64| match self.hooked_at(target).or_else(|| self.behind_stub(target)) {
            Some(function) => Self::past(area, function),
            None => target,
        };
        let function = trampoline::Function {
            code: code_at(address, entry.moved_end as u64),
            address,
            entry,
            work: symbol.work(),
            family,
            member: symbol.member,
        };
        trampoline::hook_code(&function, Self::place_of(area, index), addresses, &past)
    }

    fn write_jump(&self, memory: &File, index: usize, family: u64, way: Way) {
        let Some(function) = self.scratch.functions.all().get(index) else { return };
        if function.state != MemberState::Hooked {
            return;
        }
        let start = self.object.bias as u64 + function.symbol.address;
        let address = start + function.entry.first_bytes as u64;
        let end = start + function.entry.moved_end as u64;
        if let Some(jump) = trampoline::jump(address, function.fast) {
            places::put(memory, way, &Change { address, bytes: &jump, end, family });
        }
    }
}

/// What is to be written so that an instruction at `at` leads to `target`. `None`: it does not reach.
fn patch(at: u64, instruction: &Instruction, target: u64) -> Option<Patch> {
    let length = instruction.bytes;
    let distance = i32::try_from(target.wrapping_sub(at + length as u64) as i64).ok()?;
    let [a, b, c, d] = distance.to_le_bytes();
    let (bytes, length) = match (instruction.flow, instruction.opcode) {
        (Flow::Jump(_), Opcode::OneByte(0xe9)) if length == 5 => ([0xe9, a, b, c, d, 0], 5),
        (Flow::Call(_), Opcode::OneByte(0xe8)) if length == 5 => ([0xe8, a, b, c, d, 0], 5),
        (Flow::Conditional(_), Opcode::Of0f(condition)) if length == 6 => {
            ([0x0f, condition, a, b, c, d], 6)
        }
        // In place of six bytes that go through a pointer: a prefix that does nothing, and five.
        (Flow::IndirectJump, Opcode::OneByte(0xff)) if length == 6 => ([0x67, 0xe9, a, b, c, d], 6),
        (Flow::IndirectCall, Opcode::OneByte(0xff)) if length == 6 => ([0x67, 0xe8, a, b, c, d], 6),
        _ => return None,
    };
    Some(Patch { at, bytes, length })
}
