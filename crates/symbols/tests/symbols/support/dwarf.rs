//! Debug information (DWARF 4) made by hand: one function from `START` on, and what is in it.
#![allow(dead_code)]

use super::elf::{Content, uleb128};

pub const START: u64 = 0x1000;
pub const LENGTH: u64 = 0x1000;

const COMPILE_UNIT: u64 = 0x11;
const SUBPROGRAM: u64 = 0x2e;
const INLINED_SUBROUTINE: u64 = 0x1d;
const LEXICAL_BLOCK: u64 = 0x0b;
const NAME_STRING: [u64; 2] = [0x03, 0x08];
const LOW_PC_ADDRESS: [u64; 2] = [0x11, 0x01];
const HIGH_PC_DATA8: [u64; 2] = [0x12, 0x07];
const STATEMENTS: [u64; 2] = [0x10, 0x17];
const RANGES: [u64; 2] = [0x55, 0x17];

/// The codes of `abbreviations`.
pub const UNIT: u8 = 1;
pub const FUNCTION: u8 = 2;
pub const INLINED: u8 = 3;
pub const UNIT_WITH_LINES: u8 = 4;
pub const INLINED_IN_RANGES: u8 = 5;
pub const BLOCK: u8 = 6;

pub fn abbreviation(code: u64, tag: u64, has_children: bool, attributes: &[[u64; 2]]) -> Vec<u8> {
    let attributes = attributes.iter().flatten().flat_map(|&number| uleb128(number));
    let head = [uleb128(code), uleb128(tag), vec![u8::from(has_children)]].concat();
    head.into_iter().chain(attributes).chain([0, 0]).collect()
}

pub fn abbreviations() -> Vec<u8> {
    let named = [NAME_STRING, LOW_PC_ADDRESS, HIGH_PC_DATA8];
    let of_unit = [LOW_PC_ADDRESS, HIGH_PC_DATA8, STATEMENTS];
    [
        abbreviation(UNIT.into(), COMPILE_UNIT, true, &of_unit[..2]),
        abbreviation(FUNCTION.into(), SUBPROGRAM, true, &named),
        abbreviation(INLINED.into(), INLINED_SUBROUTINE, true, &named),
        abbreviation(UNIT_WITH_LINES.into(), COMPILE_UNIT, true, &of_unit),
        abbreviation(INLINED_IN_RANGES.into(), INLINED_SUBROUTINE, false, &[RANGES]),
        abbreviation(BLOCK.into(), LEXICAL_BLOCK, false, &[]),
        vec![0],
    ]
    .concat()
}

/// A unit of these entries.
pub fn unit(entries: &[u8]) -> Vec<u8> {
    let header = [4_u16.to_le_bytes().as_slice(), &0_u32.to_le_bytes(), &[8]].concat();
    let length = (header.len() + entries.len()) as u32;
    [length.to_le_bytes().as_slice(), &header, entries].concat()
}

/// An entry of a unit that spans the function.
pub fn unit_entry() -> Vec<u8> {
    [[UNIT].as_slice(), &span()].concat()
}

/// An entry of a function, or of one that is inlined.
pub fn entry(code: u8, name: &str) -> Vec<u8> {
    [[code].as_slice(), name.as_bytes(), &[0], &span()].concat()
}

fn span() -> Vec<u8> {
    [START.to_le_bytes(), LENGTH.to_le_bytes()].concat()
}

/// `f`, with functions inlined into each other this deep.
pub fn nested(depth: usize) -> Content {
    let inlined = entry(INLINED, "i").repeat(depth);
    let entries = [unit_entry(), entry(FUNCTION, "f"), inlined, vec![0; depth + 2]].concat();
    vec![(".debug_abbrev", abbreviations()), (".debug_info", unit(&entries))]
}

/// `f`, with `count` functions inlined, all of them in the same `count` ranges.
pub fn in_ranges(count: usize) -> Content {
    let inlined = [INLINED_IN_RANGES, 0, 0, 0, 0].repeat(count);
    let entries = [unit_entry(), entry(FUNCTION, "f"), inlined, vec![0; 2]].concat();
    let range = [START.to_le_bytes(), (START + LENGTH).to_le_bytes()].concat();
    let ranges = [range.repeat(count), vec![0; 16]].concat();
    let info = unit(&entries);
    vec![(".debug_abbrev", abbreviations()), (".debug_info", info), (".debug_ranges", ranges)]
}

/// `f`, with `count` entries of one byte that have `attributes` attributes of no bytes each.
pub fn with_attributes(count: usize, attributes: usize) -> Content {
    const FLAG_PRESENT: [u64; 2] = [0x3f, 0x19];
    let long = abbreviation(7, LEXICAL_BLOCK, false, &vec![FLAG_PRESENT; attributes]);
    let mut table = abbreviations();
    table.pop();
    let table = [table, long, vec![0]].concat();
    let entries = [unit_entry(), entry(FUNCTION, "f"), vec![7; count], vec![0; 2]].concat();
    vec![(".debug_abbrev", table), (".debug_info", unit(&entries))]
}

/// `count` units of `f` that share one long table of abbreviations.
pub fn sharing_a_table(count: usize) -> Content {
    let mut table = abbreviations();
    table.pop();
    let others = (7..count as u64).flat_map(|code| abbreviation(code, LEXICAL_BLOCK, false, &[]));
    let table = table.into_iter().chain(others).chain([0]).collect();
    let one = unit(&[unit_entry(), entry(FUNCTION, "f"), vec![0; 2]].concat());
    vec![(".debug_abbrev", table), (".debug_info", one.repeat(count))]
}

/// `f`, and a line program with a row per byte.
pub fn with_rows(count: usize) -> Content {
    let unit_entry = [[UNIT_WITH_LINES].as_slice(), &span(), &[0; 4]].concat();
    let entries = [unit_entry, entry(FUNCTION, "f"), vec![0; 2]].concat();
    // Instruction length, operations, default is_stmt, line base and range, opcode base, lengths of the standard opcodes; no directories.
    let mut header = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0];
    header.extend([b"f.c".as_slice(), &[0, 0, 0, 0, 0]].concat());
    let set_address = [[0, 9, 2].as_slice(), &START.to_le_bytes()].concat();
    // Each advances the address by one and the line by none.
    let program = [set_address, vec![13 + 14 + 5; count], vec![0, 1, 1]].concat();
    let after_length = [(header.len() as u32).to_le_bytes().as_slice(), &header, &program].concat();
    let length = (2 + after_length.len()) as u32;
    let lines = [length.to_le_bytes().as_slice(), &4_u16.to_le_bytes(), &after_length].concat();
    let info = unit(&entries);
    vec![(".debug_abbrev", abbreviations()), (".debug_info", info), (".debug_line", lines)]
}
