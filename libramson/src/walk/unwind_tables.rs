//! Reads an object's unwind tables (.eh_frame) and compiles the rule for one code address. gimli parses; what the
//! instructions mean for the three columns that a rule keeps is decided here.

use super::objects::Place;
use super::rules::{self, FramePointer, Rule};
use crate::arch::SIGNAL_TRAMPOLINE;
use crate::arch::dwarf::{FRAME_POINTER as FRAME_POINTER_REGISTER, RETURN_ADDRESS, STACK_POINTER};
use gimli::{
    BaseAddresses, CallFrameInstruction, CallFrameInstructionIter, CommonInformationEntry, EhFrame,
    EhFrameOffset, EndianSlice, FrameDescriptionEntry, LittleEndian, Reader, Register,
    UnwindExpression, UnwindSection,
};

type Bytes = EndianSlice<'static, LittleEndian>;

/// Evaluates the unwind tables of `place` for `lookup_address`.
#[cold]
pub fn compile(place: &Place, lookup_address: u64) -> Rule {
    let entry = entry_for(place, lookup_address);
    let may_be_trampoline =
        entry.as_ref().is_none_or(|(_, _, entry)| entry.cie().is_signal_trampoline());
    if may_be_trampoline && is_trampoline(place, lookup_address) {
        return Rule::Signal;
    }
    let Some((tables, bases, entry)) = entry else {
        return Rule::FollowFramePointer;
    };
    let mut row = Row::default();
    let mut cie_instructions = entry.cie().instructions(&tables, &bases);
    if row.run(&tables, &mut cie_instructions, entry.cie(), 0, u64::MAX).is_none() {
        return Rule::Unknown;
    }
    row.initial = row.current;
    let mut instructions = entry.instructions(&tables, &bases);
    match row.run(&tables, &mut instructions, entry.cie(), entry.initial_address(), lookup_address)
    {
        Some(()) => row.current.rule(),
        None => Rule::Unknown,
    }
}

/// Whether `lookup_address` + 1 is the kernel's signal trampoline.
fn is_trampoline(place: &Place, lookup_address: u64) -> bool {
    let first = lookup_address.wrapping_add(1);
    let last = first.wrapping_add(SIGNAL_TRAMPOLINE.len() as u64 - 1);
    let code = place.code_start..place.code_end;
    // SAFETY: the bytes lie in a loaded, readable segment of a place that was verified in this walk.
    code.contains(&first)
        && code.contains(&last)
        && unsafe { *(first as *const [u8; SIGNAL_TRAMPOLINE.len()]) } == SIGNAL_TRAMPOLINE
}

fn entry_for(
    place: &Place,
    lookup_address: u64,
) -> Option<(EhFrame<Bytes>, BaseAddresses, FrameDescriptionEntry<Bytes>)> {
    let section = |start: u64| -> Option<Bytes> {
        if !(place.unwind_start..place.unwind_end).contains(&start) {
            return None;
        }
        let length = (place.unwind_end - start) as usize;
        // SAFETY: [unwind_header, unwind_end) is one loaded, readable segment of a place that was verified in this walk.
        let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, length) };
        Some(EndianSlice::new(bytes, LittleEndian))
    };
    let index = Index::parse(section(place.unwind_header)?.slice(), place.unwind_header)?;
    let bases = BaseAddresses::default().set_eh_frame(index.tables).set_text(place.start);
    let tables = EhFrame::from(section(index.tables)?);
    let offset = EhFrameOffset(index.entry(lookup_address)?.checked_sub(index.tables)? as usize);
    let entry = tables.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
    entry.contains(lookup_address).then_some((tables, bases, entry))
}

/// `.eh_frame_hdr`: the functions of an object by address, as pairs of function and entry, each relative to the index itself.
/// Read here and not by gimli, which panics on encodings of the count that no linker writes.
struct Index<'a> {
    address: u64,
    /// Address at which `.eh_frame` begins.
    tables: u64,
    pairs: &'a [[u8; 8]],
}

impl<'a> Index<'a> {
    fn parse(bytes: &'a [u8], address: u64) -> Option<Self> {
        // Version 1; the three encodings that linkers write: relative to the field, absolute, relative to the index; 4 bytes each.
        const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (tables, rest) = rest.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let pairs = rest.as_chunks::<8>().0.get(..u32::from_le_bytes(*count) as usize)?;
        let tables =
            address.wrapping_add(4).wrapping_add_signed(i32::from_le_bytes(*tables) as i64);
        (*head == HEAD).then_some(Self { address, tables, pairs })
    }

    fn resolve(&self, [a, b, c, d]: [u8; 4]) -> u64 {
        self.address.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as i64)
    }

    /// Address of the entry of the last function that begins at or before `lookup_address`.
    fn entry(&self, lookup_address: u64) -> Option<u64> {
        let function = |&[a, b, c, d, ..]: &[u8; 8]| self.resolve([a, b, c, d]);
        let after = self.pairs.partition_point(|pair| function(pair) <= lookup_address);
        let &[.., a, b, c, d] = self.pairs.get(after.checked_sub(1)?)?;
        Some(self.resolve([a, b, c, d]))
    }
}

#[derive(Clone, Copy)]
enum Cfa {
    Unknown,
    Register(Register, i64),
    /// The word at frame pointer + offset.
    SavedWord(i64),
}

impl Cfa {
    fn register(&mut self) -> Option<(&mut Register, &mut i64)> {
        if let Self::Register(register, offset) = self { Some((register, offset)) } else { None }
    }
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
            Saved::Undefined => return Rule::Outermost,
            Saved::AtCfa(-8) => {}
            _ => return Rule::Unknown,
        }
        let frame_pointer = match self.frame_pointer {
            Saved::Unchanged | Saved::Undefined => FramePointer::Unchanged,
            Saved::AtCfa(offset) => FramePointer::AtCfa(offset),
            Saved::AtFramePointer(offset) => FramePointer::AtOwn(offset),
            Saved::Unknown => return Rule::Unknown,
        };
        let cfa = match self.cfa {
            Cfa::Register(Register(STACK_POINTER), offset) => rules::Cfa::StackPointer(offset),
            Cfa::Register(Register(FRAME_POINTER_REGISTER), offset) => {
                rules::Cfa::FramePointer(offset)
            }
            Cfa::SavedWord(offset) => rules::Cfa::SavedWord(offset),
            _ => return Rule::Unknown,
        };
        Rule::Restore(cfa, frame_pointer)
    }
}

/// remember_state nests this deep at most; compilers use one level.
const MAX_REMEMBERED: usize = 4;
/// More instructions than one function's table has.
const MAX_INSTRUCTIONS: usize = 100_000;

#[derive(Default)]
struct Row {
    current: Columns,
    initial: Columns,
    remembered: [Columns; MAX_REMEMBERED],
    remembered_count: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { cfa: Cfa::Unknown, frame_pointer: Saved::Unchanged, return_address: Saved::Unknown }
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
            I::DefCfaRegister { register } => *columns.cfa.register()?.0 = register,
            I::DefCfaOffset { offset } => *columns.cfa.register()?.1 = offset as i64,
            I::DefCfaOffsetSf { factored_offset } => {
                *columns.cfa.register()?.1 = factored_offset.checked_mul(scale)?;
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
                let found = frame_pointer_expression(tables, expression);
                let offset = found.and_then(|(offset, is_word)| (!is_word).then_some(offset));
                columns.set(register, offset.map_or(Saved::Unknown, Saved::AtFramePointer));
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
