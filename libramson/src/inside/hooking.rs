//! The hooks of one object: which functions it has, which of them can be hooked, and the writing.
//!
//! One call is counted once. Functions of an allocator call each other, and jump to each other, which leaves no return address to tell
//! by: those calls and jumps are led past the hook of the function that they go to. (Where an allocator's other code calls such a function,
//! the return address tells: `is_in_allocator`.)

use super::list::List;
use super::places::{self, Change, Way};
use super::symbols::{self, ObjectFile, Symbol};
use crate::arch::decode::{Flow, Instruction, Opcode, decode};
use crate::arch::entry::{self, Entry};
use crate::arch::trampoline::{self, Addresses, HOOK_BYTES, ORIGINAL_AT};
use crate::resolve::{self, LinkMap};
use crate::sys::{self, File};
use core::ffi::CStr;
use ramson_format::members::{self, Names, Work};
use ramson_format::{AllocatorKind, MEMBER_STATES, MemberState, PRELOADED_FAMILY};

/// Functions in one object that may be an allocator's by their names; more are not looked at.
const MOST_SYMBOLS: usize = 1 << 13;
/// Functions of one allocator.
const MOST_FUNCTIONS: usize = 512;
/// Places in which one function of an allocator calls another.
const MOST_CALLS: usize = 512;
/// Pointers through which an object calls functions of its own allocator.
const MOST_SLOTS: usize = 64;
/// Functions with an allocator's name, members or not.
const MOST_NAMED: usize = 1 << 14;
/// Jumps reach so far, less what an object may take.
const REACH: u64 = 1 << 30;
/// Code of an allocator that is so close is one range: functions that only one file of it can call lie between, under any name.
const GAP_BYTES: u64 = 8 << 10;
/// Bytes of padding behind a function that are looked at.
const MOST_PADDING: usize = 16;

#[derive(Clone, Copy)]
struct Function<'a> {
    symbol: Symbol<'a>,
    /// The part of it that is seldom run; of 0 bytes if there is none.
    cold: Symbol<'a>,
    entry: Entry,
    /// Address of its hook's fast path, once it is written.
    fast: u64,
    state: MemberState,
}

/// Functions that are one allocator, or may be.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Group<'a> {
    names: Names,
    prefix: &'a [u8],
}

impl<'a> Group<'a> {
    fn of(symbol: &Symbol<'a>) -> Option<Self> {
        Some(match symbol.names()? {
            _ if symbol.is_joined => Self { names: Names::Mimalloc, prefix: b"" },
            names @ (Names::Mimalloc | Names::Snmalloc) => Self { names, prefix: b"" },
            _ => Self { names: Names::C, prefix: symbol.prefix },
        })
    }

    /// Whether functions whose names begin so are of the allocator.
    fn begins(&self, name: &[u8]) -> bool {
        let starts: &[&[u8]] = match self.names {
            Names::Mimalloc => &[b"mi_", b"_mi_"],
            Names::Snmalloc => &[b"sn_", b"_ZN8snmalloc", b"_ZNK8snmalloc"],
            _ if !self.prefix.is_empty() => &[self.prefix],
            _ => &[b"je_", b"tc_", b"_ZN8tcmalloc", b"_ZNK8tcmalloc"],
        };
        starts.iter().any(|start| name.starts_with(start))
    }
}

/// A place in which one function calls another: its address, what is to be written, and how much of it.
#[derive(Clone, Copy)]
struct Patch {
    at: u64,
    bytes: [u8; 6],
    length: usize,
}

/// Memory for the code of an allocator's hooks.
#[derive(Clone, Copy, Default)]
pub struct Area {
    pub start: u64,
    pub bytes: u64,
}

/// Memory for one look at an object.
struct Scratch<'a> {
    symbols: List<Symbol<'a>, MOST_SYMBOLS>,
    functions: List<Function<'a>, MOST_FUNCTIONS>,
    /// Addresses of pointers, and the functions that they lead to.
    slots: List<(u64, usize), MOST_SLOTS>,
    patches: List<Patch, MOST_CALLS>,
    ranges: List<[u64; 2], MOST_NAMED>,
}

/// An allocator that was found in an object.
pub struct Found<'a> {
    object: &'static LinkMap,
    file: &'a ObjectFile,
    scratch: &'a mut Scratch<'a>,
    kind: AllocatorKind,
}

/// Looks for allocators in an object; passes each to `visit`.
pub fn find(object: &'static LinkMap, visit: &mut dyn FnMut(&mut Found)) {
    let Some(file) = ObjectFile::open(object) else { return };
    let mut has_leading = false;
    let _ = file.each_function(&members::may_begin, &mut |name, symbol| {
        has_leading |= symbols::function(name, symbol).is_some_and(|it| it.is_leading());
    });
    // Most objects have no such function.
    if !has_leading {
        return;
    }
    let Ok(memory) = sys::map_own(size_of::<Scratch>()) else { return };
    // SAFETY: fresh zeroed memory of the right size, on a page; all zero is a list that is empty.
    let scratch = unsafe { &mut *memory.cast::<Scratch>() };
    let mut found = Found { object, file: &file, scratch, kind: AllocatorKind::Other };
    found.look(visit);
    sys::unmap(memory, size_of::<Scratch>());
}

impl<'a> Found<'a> {
    fn look(&mut self, visit: &mut dyn FnMut(&mut Self)) {
        let symbols = &mut self.scratch.symbols;
        let _ = self.file.each_function(&members::may_begin, &mut |name, symbol| {
            if let Some(function) = symbols::function(name, symbol) {
                symbols.push(function);
            }
        });
        // mimalloc built to take malloc's place: functions of both names call each other.
        let plain = Group { names: Names::C, prefix: b"" };
        let mimalloc = Group { names: Names::Mimalloc, prefix: b"" };
        if self.is_allocator(plain) && self.is_allocator(mimalloc) {
            for symbol in self.scratch.symbols.all_mut() {
                symbol.is_joined = Group::of(symbol) == Some(plain);
            }
        }
        let mut at = 0;
        while let Some(symbol) = self.scratch.symbols.all().get(at) {
            let is_first = |group| {
                let mut leading = self.symbols_of(group).filter(|symbol| symbol.is_leading());
                leading.next().is_some_and(|first| core::ptr::eq(first, symbol))
            };
            let group = Group::of(symbol).filter(|_| symbol.is_leading());
            if let Some(group) = group.filter(|&group| is_first(group) && self.is_allocator(group))
            {
                self.kind = self.kind_of(group);
                self.gather(group);
                visit(self);
            }
            at += 1;
        }
    }

    fn symbols_of(&self, group: Group<'a>) -> impl Iterator<Item = &Symbol<'a>> {
        self.scratch.symbols.all().iter().filter(move |symbol| Group::of(symbol) == Some(group))
    }

    fn kind_of(&self, group: Group<'a>) -> AllocatorKind {
        let has = |names| self.symbols_of(group).any(|symbol| symbol.names() == Some(names));
        match group.names {
            Names::Mimalloc => AllocatorKind::Mimalloc,
            Names::Snmalloc => AllocatorKind::Snmalloc,
            _ if has(Names::Tcmalloc) => AllocatorKind::Tcmalloc,
            // Others have sdallocx, too.
            _ if self.symbols_of(group).any(|symbol| symbol.is_of_jemalloc()) => {
                AllocatorKind::Jemalloc
            }
            _ => AllocatorKind::Other,
        }
    }

    /// Whether the group is a whole allocator: one that allocates and frees, and has a leading function; without a prefix it must be the executable's, or hidden in a library.
    fn is_allocator(&self, group: Group<'a>) -> bool {
        let has = |is_it: fn(&Symbol) -> bool| self.symbols_of(group).any(is_it);
        let is_whole = has(|symbol| matches!(symbol.work(), Work::Allocate(_)))
            && has(|symbol| matches!(symbol.work(), Work::Free(_)));
        let is_its_own = match group.names {
            Names::C if !group.prefix.is_empty() => has(|symbol| symbol.is_leading()),
            Names::C => {
                has(|symbol| {
                    symbol.names() == Some(Names::C) && matches!(symbol.work(), Work::Free(_))
                }) && (resolve::is_executable(self.object) || !has(|symbol| !symbol.is_local))
            }
            _ => true,
        };
        is_whole && is_its_own
    }

    /// Lists the group's functions, and finds out which can be hooked.
    fn gather(&mut self, group: Group<'a>) {
        let Scratch { symbols, functions, slots, patches, ranges } = &mut *self.scratch;
        functions.clear();
        slots.clear();
        patches.clear();
        ranges.clear();
        let bias = self.object.bias as u64;
        let of_group =
            |symbol: &&Symbol| Group::of(symbol) == Some(group) && symbol.work() != Work::Mark;
        for symbol in symbols.all().iter().filter(of_group).filter(|symbol| !symbol.is_cold) {
            let is_known =
                functions.all().iter().any(|known| known.symbol.address == symbol.address);
            let is_its_cold = |cold: &&Symbol| {
                cold.is_cold && cold.member == symbol.member && Group::of(cold) == Some(group)
            };
            let cold = symbols.all().iter().find(is_its_cold).copied().unwrap_or_default();
            let (entry, state) = match is_known {
                true => (Entry::default(), MemberState::Alias),
                false => examine(self.file, bias, symbol),
            };
            functions.push(Function { symbol: *symbol, cold, entry, fast: 0, state });
        }
        let is_meant = |name: &[u8]| members::may_begin(name) || group.begins(name);
        let _ = self.file.each_function(&is_meant, &mut |name, symbol| {
            let is_of_group = |it: Symbol| !it.is_cold && Group::of(&it) == Some(group);
            // The linker puts seldom run parts of all files together.
            let is_its = group.begins(name) && !name.ends_with(b".cold")
                || symbols::function(name, symbol).is_some_and(is_of_group);
            if is_its {
                let start = bias + symbol.address;
                ranges.push([start, start + symbol.bytes]);
            }
        });
        self.refuse_jumped_into();
        self.join_ranges();
        self.find_slots(group);
    }

    /// Refuses functions into whose beginnings a jump of the group leads.
    fn refuse_jumped_into(&mut self) {
        let bias = self.object.bias as u64;
        let functions = self.scratch.functions.all_mut();
        for from in 0..functions.len() {
            let Some(&Function { symbol, cold, state, .. }) = functions.get(from) else { continue };
            if state == MemberState::Alias {
                continue;
            }
            for part in [symbol, cold] {
                let start = bias + part.address;
                let is_known =
                    entry::each_branch(code_at(start, part.bytes), &mut |at, instruction| {
                        let Some(target) = target_of(start + at as u64, instruction) else {
                            return;
                        };
                        for function in functions.iter_mut() {
                            let offset = target.wrapping_sub(bias + function.symbol.address) as i64;
                            if function.state == MemberState::Hooked
                                && function.entry.is_taken(offset)
                            {
                                function.state = MemberState::JumpInto;
                            }
                        }
                    });
                if is_known.is_none()
                    && let Some(function) = functions.get_mut(from)
                {
                    function.state = MemberState::Unmovable;
                }
            }
        }
    }

    /// Joins what is close.
    fn join_ranges(&mut self) {
        let ranges = &mut self.scratch.ranges;
        let all = ranges.all_mut();
        all.sort_unstable();
        let mut kept = 0_usize;
        for index in 0..all.len() {
            let Some(&[start, end]) = all.get(index) else { break };
            match kept.checked_sub(1).and_then(|last| all.get_mut(last)) {
                Some(last) if start < last[1].saturating_add(GAP_BYTES) => {
                    last[1] = last[1].max(end)
                }
                _ => {
                    if let Some(place) = all.get_mut(kept) {
                        *place = [start, end];
                    }
                    kept += 1;
                }
            }
        }
        ranges.truncate(kept);
    }

    pub fn kind(&self) -> AllocatorKind {
        self.kind
    }

    /// What became of each function, by its number.
    pub fn states(&self) -> [u8; MEMBER_STATES] {
        let mut states = [0; MEMBER_STATES];
        for function in self.scratch.functions.all() {
            if let Some(state) = states.get_mut(function.symbol.member as usize)
                && *state != MemberState::Hooked as u8
            {
                *state = function.state as u8;
            }
        }
        states
    }

    /// Starts and ends of the functions with hooks.
    pub fn hooked(&self) -> impl Iterator<Item = [u64; 2]> {
        let bias = self.object.bias as u64;
        let functions = self.scratch.functions.all().iter();
        let hooked = functions.filter(|function| function.state == MemberState::Hooked);
        let parts = hooked.flat_map(|function| [function.symbol, function.cold]);
        let known = parts.filter(|part| part.bytes > 0);
        known.map(move |part| [bias + part.address, bias + part.address + part.bytes])
    }

    /// Starts and ends of the code in which the allocator lies.
    pub fn ranges(&self) -> impl Iterator<Item = [u64; 2]> {
        self.scratch.ranges.all().iter().copied()
    }

    /// Finds the pointers through which the object calls the group's functions.
    fn find_slots(&mut self, group: Group<'a>) {
        let Scratch { functions, slots, .. } = &mut *self.scratch;
        resolve::each_pointer(self.object, &mut |pointer| {
            if !pointer.is_defined {
                return;
            }
            // SAFETY: names in the object's table of strings are C strings.
            let name = unsafe { CStr::from_ptr(pointer.name) }.to_bytes();
            let Some(symbol) = symbols::function(name, Symbol::default()) else { return };
            let is_it = |function: &Function| {
                function.symbol.member == symbol.member && function.symbol.prefix == symbol.prefix
            };
            if Group::of(&symbol) == Some(group)
                && let Some(function) = functions.all().iter().position(is_it)
            {
                slots.push((pointer.address as u64, function));
            }
        });
    }

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

/// Whether a function can be hooked, as far as it alone tells.
fn examine(file: &ObjectFile, bias: u64, symbol: &Symbol) -> (Entry, MemberState) {
    let refused = |state| (Entry::default(), state);
    let Some(in_file) = file.code_at(symbol.address, symbol.bytes) else {
        return refused(MemberState::Differs);
    };
    let code = code_at(bias + symbol.address, symbol.bytes);
    if code != in_file {
        return refused(MemberState::Differs);
    }
    let behind =
        file.code_at(symbol.address + symbol.bytes, MOST_PADDING as u64).unwrap_or_default();
    let padding_bytes = behind.iter().take_while(|&&byte| byte == 0x90 || byte == 0xcc).count();
    let wanted = symbol
        .work()
        .arguments()
        .fold(0, |all, argument| all | 1 << trampoline::register(argument));
    match entry::examine(code, padding_bytes, wanted) {
        Ok(entry) => (entry, MemberState::Hooked),
        Err(state) => refused(state),
    }
}

/// The code of a function that is in memory.
fn code_at(address: u64, bytes: u64) -> &'static [u8] {
    // SAFETY: the object is loaded, and its file says that so much of a readable segment is there. It is written to only by the kernel.
    unsafe { core::slice::from_raw_parts(address as *const u8, bytes as usize) }
}

/// Address to which an instruction at `at` leads directly.
fn target_of(at: u64, instruction: &Instruction) -> Option<u64> {
    match instruction.flow {
        Flow::Jump(offset)
        | Flow::Conditional(offset)
        | Flow::Fixed(offset)
        | Flow::Call(offset) => Some(at.wrapping_add_signed(offset)),
        _ => None,
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
pub fn watch_loader(place: u64, hook: u64, way: Way) -> bool {
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
