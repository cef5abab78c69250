//! Our reading of the unwind tables against gimli's, for the functions of the C and C++ libraries and of a big program.

use crate::arch::SIGNAL_TRAMPOLINE;
use crate::walk::objects::Place;
use crate::walk::rules::{Cfa, FramePointer, Rule};
use crate::walk::unwind_tables;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, Encoding, EndianSlice, Format,
    FrameDescriptionEntry, LittleEndian, Operation, ReaderOffset, Register, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use std::ops::Range;
use std::path::{Path, PathBuf};

type Bytes = EndianSlice<'static, LittleEndian>;

/// An object's file, laid out in memory as the loader would.
pub struct Image {
    pub place: Place,
    pub bases: BaseAddresses,
    pub tables: EhFrame<Bytes>,
    code: Range<u64>,
}

impl Image {
    pub fn load(path: &Path) -> Self {
        let file = std::fs::read(path).unwrap();
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        let count = u16::from_le_bytes(file[56..58].try_into().unwrap()) as usize;
        let headers: Vec<[u64; 7]> = (0..count)
            .map(|index| std::array::from_fn(|field| word(64 + index * 56 + field * 8)))
            .collect();
        let of_kind = |kind: u32| headers.iter().filter(move |header| header[0] as u32 == kind);
        let end = of_kind(1).map(|load| load[2] + load[5]).max().unwrap();
        let start = of_kind(1).next().unwrap()[2] & !4095;
        let memory = Box::leak(vec![0u8; (end - start) as usize].into_boxed_slice());
        for &[_, offset, address, _, file_bytes, ..] in of_kind(1) {
            let from = &file[offset as usize..(offset + file_bytes) as usize];
            memory[(address - start) as usize..][..from.len()].copy_from_slice(from);
        }
        let base = memory.as_ptr() as u64;
        let runtime = |header: &[u64; 7]| {
            let low = base + header[2] - start;
            low..low + header[4]
        };
        let code = of_kind(1).filter(|load| load[0] >> 32 & 1 != 0).map(runtime);
        let code = code.max_by_key(|range| range.end - range.start).unwrap();
        let header = runtime(of_kind(0x6474_e550).next().unwrap());
        let segment = of_kind(1).map(runtime).find(|range| range.contains(&header.start)).unwrap();
        Self::at(base..base + end - start, header.start, segment, code)
    }

    /// Tables that are in memory already.
    pub fn at(whole: Range<u64>, header: u64, tables: Range<u64>, code: Range<u64>) -> Self {
        let bytes = |from: u64| {
            // SAFETY: the caller's range.
            let bytes = unsafe {
                std::slice::from_raw_parts(from as *const u8, (tables.end - from) as usize)
            };
            EndianSlice::new(bytes, LittleEndian)
        };
        let bases = BaseAddresses::default().set_eh_frame_hdr(header);
        let parsed = EhFrameHdr::from(bytes(header)).parse(&bases, 8).unwrap();
        let gimli::Pointer::Direct(frames) = parsed.eh_frame_ptr() else { panic!() };
        let place = Place {
            start: whole.start,
            end: whole.end,
            unwind_header: header,
            unwind_start: tables.start,
            unwind_end: tables.end,
            code_start: code.start,
            code_end: code.end,
            ..Place::default()
        };
        let bases = bases.set_eh_frame(frames).set_text(whole.start);
        Self { place, bases, tables: EhFrame::from(bytes(frames)), code }
    }

    pub fn entries(&self) -> impl Iterator<Item = FrameDescriptionEntry<Bytes>> {
        let mut entries = self.tables.entries(&self.bases);
        std::iter::from_fn(move || {
            loop {
                match entries.next().unwrap()? {
                    CieOrFde::Cie(_) => {}
                    CieOrFde::Fde(partial) => {
                        return Some(partial.parse(EhFrame::cie_from_offset).unwrap());
                    }
                }
            }
        })
    }

    fn byte(&self, address: u64) -> Option<u8> {
        // SAFETY: inside the image's code.
        self.code.contains(&address).then(|| unsafe { *(address as *const u8) })
    }

    /// Whether bytes that end at `address` may be a call: what `lookup_address` of a caller is.
    fn may_end_a_call(&self, address: u64) -> bool {
        let byte = |back: u64| self.byte(address.wrapping_sub(back)).unwrap_or(0);
        let distance = i32::from_le_bytes([byte(3), byte(2), byte(1), byte(0)]) as i64;
        let target = (address + 1).wrapping_add_signed(distance);
        let is_direct = byte(4) == 0xe8 && self.code.contains(&target);
        // call register; call [rip + offset]; call [register + offset].
        is_direct
            || byte(1) == 0xff && byte(0) & 0xf8 == 0xd0
            || byte(5) == 0xff && byte(4) == 0x15
            || byte(2) == 0xff && byte(1) & 0xf8 == 0x50
    }
}

/// Room for a row without the heap.
struct Room;

impl<T: ReaderOffset> UnwindContextStorage<T> for Room {
    type Rules = [(Register, RegisterRule<T>); 32];
    type Stack = [UnwindTableRow<T, Self>; 8];
}

/// Register and offset, and whether the word there is meant.
fn register_expression(
    tables: &EhFrame<Bytes>,
    expression: &UnwindExpression<usize>,
) -> Option<(Register, i64, bool)> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 5 };
    let mut operations = expression.get(tables).ok()?.operations(encoding);
    let first = operations.next().ok()??;
    let Operation::RegisterOffset { register, offset, .. } = first else { return None };
    match operations.next().ok()? {
        None => Some((register, offset, false)),
        Some(Operation::Deref { size: 8, space: false, .. }) => {
            operations.next().ok()?.is_none().then_some((register, offset, true))
        }
        Some(_) => None,
    }
}

/// The rule that gimli's row asks for, where a rule can say it.
fn expected(tables: &EhFrame<Bytes>, row: &UnwindTableRow<usize, Room>) -> Rule {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Rule::Outermost,
        Some(RegisterRule::Offset(-8)) => {}
        _ => return Rule::Unknown,
    }
    let frame_pointer = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => FramePointer::Unchanged,
        Some(RegisterRule::Offset(offset)) => FramePointer::AtCfa(offset),
        Some(RegisterRule::Expression(expression)) => {
            match register_expression(tables, &expression) {
                Some((X86_64::RBP, offset, false)) => FramePointer::AtOwn(offset),
                _ => return Rule::Unknown,
            }
        }
        Some(_) => return Rule::Unknown,
    };
    let cfa = match row.cfa() {
        &CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => Cfa::StackPointer(offset),
        &CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => Cfa::FramePointer(offset),
        CfaRule::RegisterAndOffset { .. } => return Rule::Unknown,
        CfaRule::Expression(expression) => match register_expression(tables, expression) {
            Some((X86_64::RBP, offset, true)) => Cfa::SavedWord(offset),
            Some((X86_64::RBP, offset, false)) => Cfa::FramePointer(offset),
            _ => return Rule::Unknown,
        },
    };
    Rule::Restore(cfa, frame_pointer)
}

#[derive(Default, Debug)]
struct Count {
    functions: u64,
    rows: u64,
    unknown: u64,
    reachable: u64,
    reachable_unknown: u64,
}

/// Compares every `stride`th function of an object.
fn compare(path: &Path, stride: usize) -> Count {
    let image = Image::load(path);
    let mut context = UnwindContext::<usize, Room>::new_in();
    let mut count = Count::default();
    for entry in image.entries().step_by(stride) {
        count.functions += 1;
        let mut rows = entry.rows(&image.tables, &image.bases, &mut context).unwrap();
        while let Some(row) = rows.next_row().unwrap() {
            let range = row.start_address()..row.end_address();
            if range.is_empty() {
                continue;
            }
            count.rows += 1;
            let middle = range.start + (range.end - range.start) / 2;
            for address in [range.start, middle, range.end - 1] {
                let is_trampoline = entry.cie().is_signal_trampoline()
                    && (1..=9).all(|step| {
                        image.byte(address + step) == Some(SIGNAL_TRAMPOLINE[step as usize - 1])
                    });
                let row_s = expected(&image.tables, row);
                let expected = if is_trampoline { Rule::Signal } else { row_s };
                assert_eq!(
                    unwind_tables::compile(&image.place, address),
                    expected,
                    "{path:?} {row:?}"
                );
            }
            let is_unknown = expected(&image.tables, row) == Rule::Unknown
                && !entry.cie().is_signal_trampoline();
            let is_reachable = range.clone().any(|address| image.may_end_a_call(address));
            count.unknown += is_unknown as u64;
            count.reachable += is_reachable as u64;
            count.reachable_unknown += (is_reachable && is_unknown) as u64;
        }
    }
    count
}

fn object_of(name: &str) -> PathBuf {
    let output = std::process::Command::new("gcc").arg(format!("-print-file-name={name}")).output();
    let output = String::from_utf8(output.expect("these tests need gcc").stdout).unwrap();
    PathBuf::from(output.trim())
}

fn compiler_proper() -> PathBuf {
    let output = std::process::Command::new("g++").arg("-print-prog-name=cc1plus").output();
    let output = String::from_utf8(output.expect("these tests need g++").stdout).unwrap();
    PathBuf::from(output.trim())
}

fn assert_is_covered(path: &Path, stride: usize) {
    let count = compare(path, stride);
    let share = count.reachable_unknown as f64 / count.reachable as f64 * 100.0;
    println!("{}: {count:?}, {share:.3}% of reachable rows unknown", path.display());
    assert!(count.functions > 1000, "{count:?}");
    assert!(share <= 0.5, "{share}%");
}

#[test]
fn c_library_tables_agree_with_gimli() {
    assert_is_covered(&object_of("libc.so.6"), 1);
}

#[test]
fn cpp_library_tables_agree_with_gimli() {
    assert_is_covered(&object_of("libstdc++.so.6"), 1);
}

#[test]
fn large_program_tables_agree_with_gimli() {
    assert_is_covered(&compiler_proper(), if cfg!(debug_assertions) { 16 } else { 1 });
    if Path::new("/usr/bin/node").exists() {
        assert_is_covered(Path::new("/usr/bin/node"), if cfg!(debug_assertions) { 16 } else { 1 });
    }
}
