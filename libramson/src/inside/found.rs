//! Allocators in one object: which functions each has, and which of them can be hooked.

mod writing;

use super::code::{code_at, target_of};
use super::list::List;
use super::symbols::{self, ObjectFile, Symbol};
use crate::arch::entry::{self, Entry};
use crate::arch::trampoline;
use crate::resolve::{self, LinkMap};
use crate::sys;
use core::ffi::CStr;
use ramson_format::members::{self, Names, Work};
use ramson_format::{AllocatorKind, MEMBER_STATES, MemberState};

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
            _ if has(Names::GoogleTcmalloc) => AllocatorKind::GoogleTcmalloc,
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
