//! How to undo one frame, as 64 bits: compiled from the unwind tables once per code address, then cached.
//!
//! Three values matter on x86-64: the canonical frame address (CFA), where the return address lies just below it, and the
//! caller's frame pointer. Tables that need more than a rule can say end the walk; tests compare with framehop.

use super::modules::Place;
use super::{Caller, StackView};
use crate::arch::SIGNAL_TRAMPOLINE;
use crate::arch::dwarf::{FRAME_POINTER as FRAME_POINTER_REGISTER, RETURN_ADDRESS, STACK_POINTER};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CommonInformationEntry, EhFrame,
    EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian, Reader, Register,
    UnwindExpression, UnwindSection,
};

/// Kinds of rules. The others need no operands.
const FROM_STACK_POINTER: u64 = 1;
const FROM_FRAME_POINTER: u64 = 2;
/// CFA is the word at frame pointer + offset: functions that align their stack.
const FROM_SAVED_WORD: u64 = 3;
pub const OUTERMOST: u64 = 4;
pub const SIGNAL: u64 = 5;
pub const FRAME_POINTER: u64 = 6;
const UNKNOWN: u64 = 7;

/// Where the caller's frame pointer is.
const UNCHANGED: u64 = 0;
const AT_CFA: u64 = 1;
const AT_FRAME_POINTER: u64 = 2;

/// What undoing a frame gives.
pub enum Step {
    Caller(Caller),
    Outermost,
    Failed,
}

/// Bits 0–3 kind, 4–7 where the frame pointer is, 8–31 offset of the CFA, 32–63 offset of the saved frame pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule(u64);

impl Rule {
    const fn of_kind(kind: u64) -> Self {
        Self(kind)
    }

    pub const fn frame_pointer() -> Self {
        Self(FRAME_POINTER)
    }

    pub const fn kind(self) -> u64 {
        self.0 & 15
    }

    fn new(kind: u64, cfa_offset: i64, saved: u64, saved_offset: i64) -> Self {
        let fits =
            (-(1 << 23)..1 << 23).contains(&cfa_offset) && i32::try_from(saved_offset).is_ok();
        if !fits {
            return Self(UNKNOWN);
        }
        Self(kind | saved << 4 | (cfa_offset as u64 & 0xff_ffff) << 8 | (saved_offset as u64) << 32)
    }

    /// The caller's registers; `None` if memory outside the view would be needed, or the rule is unknown.
    #[inline]
    pub fn apply(self, registers: Caller, view: &StackView) -> Option<Caller> {
        let cfa_offset = ((self.0 as i32) >> 8) as i64;
        let saved_offset = (self.0 as i64) >> 32;
        let cfa = match self.kind() {
            FROM_STACK_POINTER => registers.stack_pointer.wrapping_add_signed(cfa_offset),
            FROM_FRAME_POINTER => registers.frame_pointer.wrapping_add_signed(cfa_offset),
            FROM_SAVED_WORD => {
                view.read(registers.frame_pointer.wrapping_add_signed(cfa_offset))?
            }
            _ => return None,
        };
        let return_address = view.read(cfa.wrapping_sub(8))?;
        let frame_pointer = match self.0 >> 4 & 15 {
            UNCHANGED => registers.frame_pointer,
            AT_CFA => view.read(cfa.wrapping_add_signed(saved_offset))?,
            _ => view.read(registers.frame_pointer.wrapping_add_signed(saved_offset))?,
        };
        Some(Caller {
            lookup_address: return_address.wrapping_sub(1),
            stack_pointer: cfa,
            frame_pointer,
        })
    }
}

const LOWEST_CODE: u64 = 4096;
const HIGHEST_CODE: u64 = 1 << 47;

/// `push rbp; mov rbp, rsp`: for code without unwind tables.
pub struct FramePointerRule;

impl FramePointerRule {
    pub fn apply(registers: Caller, view: &StackView) -> Option<Caller> {
        let frame = registers.frame_pointer;
        let is_plausible = frame >= registers.stack_pointer;
        let frame_pointer = is_plausible.then(|| view.read(frame)).flatten()?;
        let return_address = view.read(frame.wrapping_add(8))?;
        // 0 ends the stack; nothing else below the first page that can be mapped, or above user space, is code.
        let is_code =
            return_address == 0 || LOWEST_CODE <= return_address && return_address < HIGHEST_CODE;
        is_code.then_some(Caller {
            lookup_address: return_address.wrapping_sub(1),
            stack_pointer: frame.wrapping_add(16),
            frame_pointer,
        })
    }
}

/// Rules by code address, two ways per set. An entry is valid if its two words agree, so torn or racing stores are misses.
pub struct RuleCache([[AtomicU64; 2]; CACHE_ENTRIES]);

const CACHE_ENTRIES: usize = 8192;
/// 2^64 over the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl RuleCache {
    fn set_of(address: u64) -> usize {
        (address.wrapping_mul(MULTIPLIER) >> 51) as usize & (CACHE_ENTRIES - 2)
    }

    /// What the first word of an entry must be. The product spreads a rule's few bits over the word, so that the words of two
    /// entries together are not a third one.
    fn check_of(address: u64, generation: u32, rule: u64) -> u64 {
        (address ^ (generation as u64) << 48) ^ rule.wrapping_mul(MULTIPLIER)
    }

    #[inline]
    pub fn get(&self, address: u64, generation: u32) -> Option<Rule> {
        let set = Self::set_of(address);
        self.0.get(set..set + 2)?.iter().find_map(|[check, rule]| {
            let rule = rule.load(Relaxed);
            let is_it = check.load(Relaxed) == Self::check_of(address, generation, rule);
            (is_it && rule != 0).then_some(Rule(rule))
        })
    }

    /// The newest rule of a set is first; the one that was first becomes second.
    pub fn put(&self, address: u64, generation: u32, rule: Rule) {
        let set = Self::set_of(address);
        if let Some([first, second]) = self.0.get(set..set + 2) {
            second[0].store(first[0].load(Relaxed), Relaxed);
            second[1].store(first[1].load(Relaxed), Relaxed);
            first[0].store(Self::check_of(address, generation, rule.0), Relaxed);
            first[1].store(rule.0, Relaxed);
        }
    }
}

type Bytes = EndianSlice<'static, LittleEndian>;

/// Evaluates the unwind tables of `module` for `lookup_address`.
#[cold]
pub fn compile(module: &Place, lookup_address: u64) -> Rule {
    let entry = entry_for(module, lookup_address);
    let may_be_trampoline =
        entry.as_ref().is_none_or(|(_, _, entry)| entry.cie().is_signal_trampoline());
    if may_be_trampoline && is_trampoline(module, lookup_address) {
        return Rule::of_kind(SIGNAL);
    }
    let Some((tables, bases, entry)) = entry else {
        return Rule::of_kind(FRAME_POINTER);
    };
    let mut row = Row::default();
    let mut cie_instructions = entry.cie().instructions(&tables, &bases);
    if row.run(&tables, &mut cie_instructions, entry.cie(), 0, u64::MAX).is_none() {
        return Rule::of_kind(UNKNOWN);
    }
    row.initial = row.current;
    let mut instructions = entry.instructions(&tables, &bases);
    match row.run(&tables, &mut instructions, entry.cie(), entry.initial_address(), lookup_address)
    {
        Some(()) => row.current.rule(),
        None => Rule::of_kind(UNKNOWN),
    }
}

/// Whether `lookup_address` + 1 is the kernel's signal trampoline.
fn is_trampoline(module: &Place, lookup_address: u64) -> bool {
    let first = lookup_address.wrapping_add(1);
    let last = first.wrapping_add(SIGNAL_TRAMPOLINE.len() as u64 - 1);
    let code = module.code_start..module.code_end;
    // SAFETY: the bytes lie in a loaded, readable segment of a module that was verified in this walk.
    code.contains(&first)
        && code.contains(&last)
        && unsafe { *(first as *const [u8; SIGNAL_TRAMPOLINE.len()]) } == SIGNAL_TRAMPOLINE
}

fn entry_for(
    module: &Place,
    lookup_address: u64,
) -> Option<(EhFrame<Bytes>, BaseAddresses, FrameDescriptionEntry<Bytes>)> {
    let section = |start: u64| -> Option<Bytes> {
        let length = module.unwind_end.checked_sub(start)? as usize;
        // SAFETY: [unwind_header, unwind_end) is one loaded, readable segment of a module that was verified in this walk.
        let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, length) };
        Some(EndianSlice::new(bytes, LittleEndian))
    };
    let bases = BaseAddresses::default().set_eh_frame_hdr(module.unwind_header);
    let header = EhFrameHdr::from(section(module.unwind_header)?).parse(&bases, 8).ok()?;
    let tables_start = match header.eh_frame_ptr() {
        gimli::Pointer::Direct(address) if address >= module.unwind_start => address,
        _ => return None,
    };
    let bases = bases.set_eh_frame(tables_start).set_text(module.start);
    let tables = EhFrame::from(section(tables_start)?);
    let table = header.table()?;
    let pointer = table.lookup(lookup_address, &bases).ok()?;
    let offset = table.pointer_to_offset(pointer).ok()?;
    let entry = tables.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
    entry.contains(lookup_address).then_some((tables, bases, entry))
}

#[derive(Clone, Copy)]
enum Cfa {
    Unknown,
    Register(Register, i64),
    /// The word at frame pointer + offset.
    SavedWord(i64),
}

#[derive(Clone, Copy, PartialEq)]
enum Saved {
    Unchanged,
    AtCfa(i64),
    AtFramePointer(i64),
    Undefined,
    Unknown,
}

/// The three columns of the unwind table that matter.
#[derive(Clone, Copy)]
struct Columns {
    cfa: Cfa,
    frame_pointer: Saved,
    return_address: Saved,
}

impl Columns {
    fn column(&mut self, register: Register) -> Option<&mut Saved> {
        match register.0 {
            FRAME_POINTER_REGISTER => Some(&mut self.frame_pointer),
            RETURN_ADDRESS => Some(&mut self.return_address),
            _ => None,
        }
    }

    fn set(&mut self, register: Register, saved: Saved) {
        if let Some(column) = self.column(register) {
            *column = saved;
        }
    }

    fn rule(&self) -> Rule {
        match self.return_address {
            Saved::Undefined => return Rule::of_kind(OUTERMOST),
            Saved::AtCfa(-8) => {}
            _ => return Rule::of_kind(UNKNOWN),
        }
        let (saved, saved_offset) = match self.frame_pointer {
            Saved::Unchanged | Saved::Undefined => (UNCHANGED, 0),
            Saved::AtCfa(offset) => (AT_CFA, offset),
            Saved::AtFramePointer(offset) => (AT_FRAME_POINTER, offset),
            Saved::Unknown => return Rule::of_kind(UNKNOWN),
        };
        match self.cfa {
            Cfa::Register(Register(STACK_POINTER), offset) => {
                Rule::new(FROM_STACK_POINTER, offset, saved, saved_offset)
            }
            Cfa::Register(Register(FRAME_POINTER_REGISTER), offset) => {
                Rule::new(FROM_FRAME_POINTER, offset, saved, saved_offset)
            }
            Cfa::SavedWord(offset) => Rule::new(FROM_SAVED_WORD, offset, saved, saved_offset),
            _ => Rule::of_kind(UNKNOWN),
        }
    }
}

/// remember_state nests this deep at most; compilers use one level.
const MAX_REMEMBERED: usize = 4;
/// More instructions than one function's table has.
const MAX_INSTRUCTIONS: usize = 100_000;

struct Row {
    current: Columns,
    initial: Columns,
    remembered: [Columns; MAX_REMEMBERED],
    remembered_count: usize,
}

impl Default for Row {
    fn default() -> Self {
        let columns = Columns {
            cfa: Cfa::Unknown,
            frame_pointer: Saved::Unchanged,
            return_address: Saved::Unknown,
        };
        Self {
            current: columns,
            initial: columns,
            remembered: [columns; MAX_REMEMBERED],
            remembered_count: 0,
        }
    }
}

impl Row {
    /// Runs instructions from `location` until they pass `target`. `None` if the table is malformed.
    fn run(
        &mut self,
        tables: &EhFrame<Bytes>,
        instructions: &mut CallFrameInstructionIter<'_, Bytes>,
        cie: &CommonInformationEntry<Bytes>,
        mut location: u64,
        target: u64,
    ) -> Option<()> {
        let scale = cie.data_alignment_factor();
        for _ in 0..MAX_INSTRUCTIONS {
            let Some(instruction) = instructions.next().ok()? else { return Some(()) };
            match instruction {
                CallFrameInstruction::SetLoc { address } => location = address,
                CallFrameInstruction::AdvanceLoc { delta } => {
                    let bytes = (delta as u64).wrapping_mul(cie.code_alignment_factor());
                    location = location.wrapping_add(bytes);
                }
                CallFrameInstruction::RememberState => {
                    *self.remembered.get_mut(self.remembered_count)? = self.current;
                    self.remembered_count += 1;
                }
                CallFrameInstruction::RestoreState => {
                    self.remembered_count = self.remembered_count.checked_sub(1)?;
                    self.current = *self.remembered.get(self.remembered_count)?;
                }
                CallFrameInstruction::Restore { register } => {
                    if let Some(&mut initial) = self.initial.column(register) {
                        self.current.set(register, initial);
                    }
                }
                other => self.define(tables, other, scale)?,
            }
            if location > target {
                // The instruction that moved past the target belongs to the next row; rows change only after a move.
                return Some(());
            }
        }
        None
    }

    /// Instructions that change a column.
    fn define(
        &mut self,
        tables: &EhFrame<Bytes>,
        instruction: CallFrameInstruction<usize>,
        scale: i64,
    ) -> Option<()> {
        use CallFrameInstruction as I;
        let columns = &mut self.current;
        match instruction {
            I::DefCfa { register, offset } => columns.cfa = Cfa::Register(register, offset as i64),
            I::DefCfaSf { register, factored_offset } => {
                columns.cfa = Cfa::Register(register, factored_offset.checked_mul(scale)?);
            }
            I::DefCfaRegister { register } => {
                let Cfa::Register(_, offset) = columns.cfa else { return None };
                columns.cfa = Cfa::Register(register, offset);
            }
            I::DefCfaOffset { offset } => {
                let Cfa::Register(register, _) = columns.cfa else { return None };
                columns.cfa = Cfa::Register(register, offset as i64);
            }
            I::DefCfaOffsetSf { factored_offset } => {
                let Cfa::Register(register, _) = columns.cfa else { return None };
                columns.cfa = Cfa::Register(register, factored_offset.checked_mul(scale)?);
            }
            I::DefCfaExpression { expression } => {
                columns.cfa = match frame_pointer_expression(tables, expression) {
                    Some((offset, true)) => Cfa::SavedWord(offset),
                    Some((offset, false)) => {
                        Cfa::Register(Register(FRAME_POINTER_REGISTER), offset)
                    }
                    None => Cfa::Unknown,
                };
            }
            I::Expression { register, expression } => {
                columns.set(
                    register,
                    match frame_pointer_expression(tables, expression) {
                        Some((offset, false)) => Saved::AtFramePointer(offset),
                        _ => Saved::Unknown,
                    },
                );
            }
            I::Undefined { register } => columns.set(register, Saved::Undefined),
            I::SameValue { register } => columns.set(register, Saved::Unchanged),
            I::Offset { register, factored_offset } => {
                columns.set(register, Saved::AtCfa((factored_offset as i64).checked_mul(scale)?));
            }
            I::OffsetExtendedSf { register, factored_offset } => {
                columns.set(register, Saved::AtCfa(factored_offset.checked_mul(scale)?));
            }
            I::ValOffset { register, .. }
            | I::ValOffsetSf { register, .. }
            | I::Register { dest_register: register, .. }
            | I::ValExpression { register, .. } => columns.set(register, Saved::Unknown),
            _ => {}
        }
        Some(())
    }
}

/// Expressions as compilers write them for functions that align their stack: one register plus an offset, and perhaps the
/// word stored there. Offset and whether the word is meant; only for the frame pointer.
fn frame_pointer_expression(
    tables: &EhFrame<Bytes>,
    expression: UnwindExpression<usize>,
) -> Option<(i64, bool)> {
    const BREG_FRAME_POINTER: u8 = 0x70 + FRAME_POINTER_REGISTER as u8;
    const DEREF: u8 = 0x06;
    let mut bytes = expression.get(tables).ok()?.0;
    if bytes.read_u8().ok()? != BREG_FRAME_POINTER {
        return None;
    }
    let offset = bytes.read_sleb128().ok()?;
    match bytes.slice() {
        [] => Some((offset, false)),
        [DEREF] => Some((offset, true)),
        _ => None,
    }
}
