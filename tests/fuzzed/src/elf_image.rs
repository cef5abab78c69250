//! ELF files with impossible proportions: sections that overlap and claim gigabytes of a sparse file, DWARF that nests without
//! end, symbols that share one long name, mini debug information that unpacks to far more than it is.

use crate::choices::Choices;
use crate::seed::joined;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Address of the program's code.
pub const CODE: u64 = 0x1000;
const CODE_BYTES: u64 = 0x1000;
const MOST_DEPTH: u64 = 1 << 15;
const MOST_FUNCTIONS: u64 = 1 << 14;
const MOST_SYMBOLS: u64 = 1 << 16;
const MOST_NAME_BYTES: u64 = 1 << 20;
const MOST_CHUNKS: u64 = 1 << 12;
const MOST_FILE_BYTES: u64 = 1 << 34;
const MOST_LINKED_BYTES: u64 = 1 << 40;
/// `.gnu_debuglink`: a name, and a checksum that is wrong.
const LINK: &[u8] = b"linked\0\0\x01\x02\x03\x04";
/// Sections that a reader of names may want; the first few have content here, the others are only claimed.
const NAMES: [&str; 15] = [
    ".shstrtab",
    ".debug_abbrev",
    ".debug_info",
    ".symtab",
    ".strtab",
    ".gnu_debugdata",
    ".gnu_debuglink",
    ".debug_str",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_addr",
    ".debug_str_offsets",
    ".debug_aranges",
];
const SYMTAB: usize = 3;
/// LZMA2: two megabytes of zeroes, beginning anew, so that they can be had again and again.
const ZEROES: &[u8] = include_bytes!("zeroes.lzma2");

struct Section {
    offset: u64,
    bytes: u64,
}

/// A binary that the input describes, as pieces of a file that is sparse elsewhere.
pub struct Elf {
    pieces: Vec<(u64, Vec<u8>)>,
    length: u64,
    /// Length of the file that it links to; 0: it links to none.
    linked_bytes: u64,
}

impl Elf {
    /// Takes the decisions.
    pub fn of(choices: &mut Choices) -> Self {
        let info = debug_info(choices);
        let (symtab, strtab) = symbols(choices);
        let packed = mini_debug_info(choices.size(MOST_CHUNKS));
        let linked_bytes = choices.size(MOST_LINKED_BYTES);
        let link = if linked_bytes > 0 { LINK.to_vec() } else { Vec::new() };
        let names: Vec<u8> =
            NAMES.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
        let mut pieces = Vec::new();
        let mut sections = Vec::new();
        let mut end = 64;
        for content in [names, ABBREVIATIONS.to_vec(), info, symtab, strtab, packed, link] {
            sections.push(Section { offset: end, bytes: content.len() as u64 });
            let next = end + (content.len() as u64).next_multiple_of(8);
            pieces.push((end, content));
            end = next;
        }
        sections.resize_with(NAMES.len(), || Section { offset: end, bytes: 0 });
        let table = end;
        let length = (table + 64 * (NAMES.len() as u64 + 1)).max(choices.size(MOST_FILE_BYTES));
        for _ in 0..choices.byte() {
            let section = &mut sections[usize::from(choices.byte()) % NAMES.len()];
            section.offset = choices.size(MOST_FILE_BYTES);
            section.bytes = choices.size(MOST_FILE_BYTES);
        }
        pieces.push((table, section_headers(&sections)));
        pieces.push((0, file_header(table)));
        Self { pieces, length, linked_bytes }
    }

    /// Writes it, and beside it the file that it links to: as it is itself, but for the length. Returns its path.
    pub fn write_to(&self, folder: &Path) -> PathBuf {
        let path = folder.join("binary");
        self.write(&path, self.length);
        if self.linked_bytes > 0 {
            self.write(&folder.join("linked"), self.linked_bytes);
        }
        path
    }

    fn write(&self, path: &Path, length: u64) {
        let file = File::create(path).expect("the folder can be written");
        for (offset, piece) in &self.pieces {
            file.write_all_at(piece, *offset).expect("there is room");
        }
        file.set_len(length).expect("files may be sparse here");
    }
}

fn file_header(section_table: u64) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    for half in [3_u16, 62] {
        header.extend(half.to_le_bytes());
    }
    header.extend(1_u32.to_le_bytes());
    for word in [0, 0, section_table] {
        header.extend(word.to_le_bytes());
    }
    header.extend(0_u32.to_le_bytes());
    for half in [64, 56, 0, 64, NAMES.len() as u16 + 1, 1] {
        header.extend(half.to_le_bytes());
    }
    header
}

fn section_headers(sections: &[Section]) -> Vec<u8> {
    let mut headers = vec![0; 64];
    let mut name = 0_u32;
    for (index, (section, text)) in sections.iter().zip(NAMES).enumerate() {
        let (kind, link, entry_bytes): (u32, u32, u64) = match index {
            SYMTAB => (2, SYMTAB as u32 + 2, 24),
            0 | 4 => (3, 0, 0),
            _ => (1, 0, 0),
        };
        headers.extend([name, kind].map(u32::to_le_bytes).as_flattened());
        headers.extend([0, 0, section.offset, section.bytes].map(u64::to_le_bytes).as_flattened());
        headers.extend([link, 0].map(u32::to_le_bytes).as_flattened());
        headers.extend([1, entry_bytes].map(u64::to_le_bytes).as_flattened());
        name += text.len() as u32 + 1;
    }
    headers
}

/// 1 a unit, 2 a function, 3 an inlined call of the function before, 4 a block; all have a range, and children.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, //
    2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0, //
    3, 0x1d, 1, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0, 0, //
    4, 0x0b, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, //
    0,
];

fn debug_info(choices: &mut Choices) -> Vec<u8> {
    let functions = choices.size(MOST_FUNCTIONS);
    let depth = choices.size(MOST_DEPTH).min(MOST_DEPTH * 8 / functions.max(1));
    // Inlined calls, or every so many a block.
    let period = u64::from(choices.byte());
    if functions == 0 {
        return Vec::new();
    }
    let range = [CODE, CODE_BYTES].map(u64::to_le_bytes);
    // Behind the length: version 4, abbreviations from 0, addresses of 8 bytes.
    let mut unit = vec![4, 0, 0, 0, 0, 0, 8];
    unit.extend(joined(b"\x01a.c\0", range.as_flattened()));
    for _ in 0..functions {
        let function = unit.len() as u32 + 4;
        unit.extend(joined(b"\x02f\0", range.as_flattened()));
        for level in 0..depth {
            if period > 0 && level % period == 0 {
                unit.push(4);
            } else {
                unit.push(3);
                unit.extend(function.to_le_bytes());
            }
            unit.extend(range.as_flattened());
        }
        unit.resize(unit.len() + depth as usize + 1, 0);
    }
    unit.push(0);
    joined(&(unit.len() as u32).to_le_bytes(), &unit)
}

/// Functions, all of which have the same name, or each a later part of it, at addresses of their own or at the same.
fn symbols(choices: &mut Choices) -> (Vec<u8>, Vec<u8>) {
    let count = choices.size(MOST_SYMBOLS);
    let name_bytes = choices.size(MOST_NAME_BYTES);
    let (kind, most) = (u64::from(choices.byte()), name_bytes.max(1));
    let (stride, distance) = (kind >> 1, kind & 1);
    let mut symtab = vec![0; 24];
    for index in 0..count {
        let name = 1 + index * stride % most;
        symtab.extend((name as u32).to_le_bytes());
        // A global function in some section.
        symtab.extend([0x12, 0, 1, 0]);
        symtab.extend([CODE + index * distance, 1].map(u64::to_le_bytes).as_flattened());
    }
    let mut strtab = vec![b'f'; name_bytes as usize + 2];
    strtab[0] = 0;
    *strtab.last_mut().expect("two at least") = 0;
    (symtab, strtab)
}

/// xz with so many times two megabytes of zeroes; none: no section.
fn mini_debug_info(chunks: u64) -> Vec<u8> {
    if chunks == 0 {
        return Vec::new();
    }
    let flags = [0, 0];
    let with_crc = |bytes: &[u8]| joined(bytes, &crc32fast::hash(bytes).to_le_bytes());
    let mut xz = b"\xfd7zXZ\0".to_vec();
    xz.extend(flags);
    xz.extend(crc32fast::hash(&flags).to_le_bytes());
    // One block of LZMA2 with a dictionary of 8 MiB.
    let block_header = with_crc(&[2, 0, 0x21, 1, 22, 0, 0, 0]);
    let start = xz.len();
    xz.extend(&block_header);
    (0..chunks).for_each(|_| xz.extend(ZEROES));
    xz.push(0);
    let block_bytes = (xz.len() - start) as u64;
    xz.resize(xz.len().next_multiple_of(4), 0);
    let mut index = vec![0, 1];
    let chunk_bytes = 0x1f_ff12;
    [block_bytes, chunks * chunk_bytes]
        .iter()
        .for_each(|&number| variable_length(number, &mut index));
    index.resize(index.len().next_multiple_of(4), 0);
    let index = with_crc(&index);
    xz.extend(&index);
    let footer = joined(&(index.len() as u32 / 4 - 1).to_le_bytes(), &flags);
    xz.extend(crc32fast::hash(&footer).to_le_bytes());
    xz.extend(footer);
    xz.extend(b"YZ");
    xz
}

fn variable_length(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}
