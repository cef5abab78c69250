//! ELF files made by hand, as no compiler makes them.
#![allow(dead_code)]

use std::fs::File;
use std::io::Write;
use std::path::Path;

const PROGBITS: u32 = 1;
const STRTAB: u32 = 3;
const NOTE: u32 = 7;
const HEADER_BYTES: usize = 64;

/// Sections by name.
pub type Content = Vec<(&'static str, Vec<u8>)>;

/// A section: its name, and where in the file it claims to be.
pub struct Claim {
    pub name: &'static str,
    pub offset: u64,
    pub bytes: u64,
}

/// Writes an ELF file with these sections, which hold their bytes, and `claims`, which hold whatever is there, of `length` bytes if it is longer.
pub fn write_elf(path: &Path, sections: &[(&'static str, Vec<u8>)], claims: &[Claim], length: u64) {
    let mut content = vec![0; HEADER_BYTES];
    let mut all = Vec::new();
    for (name, bytes) in sections {
        all.push((*name, PROGBITS, content.len() as u64, bytes.len() as u64));
        content.extend(bytes);
    }
    all.extend(claims.iter().map(|claim| {
        let kind = if claim.name.starts_with(".note") { NOTE } else { PROGBITS };
        (claim.name, kind, claim.offset, claim.bytes)
    }));
    let mut names = vec![0];
    let mut name_offsets = Vec::new();
    for name in all.iter().map(|(name, ..)| *name).chain([".shstrtab"]) {
        name_offsets.push(names.len() as u32);
        names.extend([name.as_bytes(), &[0]].concat());
    }
    all.push((".shstrtab", STRTAB, content.len() as u64, names.len() as u64));
    content.extend(names);
    let table_at = content.len() as u64;
    content.extend([0; 64]);
    for ((_, kind, offset, bytes), name) in all.iter().zip(name_offsets) {
        content.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
        let numbers = [0, 0, *offset, *bytes, 0, 1, 0];
        content.extend(numbers.map(u64::to_le_bytes).concat());
    }
    content[..HEADER_BYTES].copy_from_slice(&header(table_at, all.len() as u16 + 1));
    let mut file = File::create(path).unwrap();
    file.write_all(&content).unwrap();
    file.set_len(length.max(content.len() as u64)).unwrap();
}

fn header(table_at: u64, sections: u16) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // A shared library for x86-64, version 1.
    header[16..24].copy_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
    header[40..48].copy_from_slice(&table_at.to_le_bytes());
    header[52..54].copy_from_slice(&64_u16.to_le_bytes());
    header[58..60].copy_from_slice(&64_u16.to_le_bytes());
    header[60..62].copy_from_slice(&sections.to_le_bytes());
    header[62..64].copy_from_slice(&(sections - 1).to_le_bytes());
    header
}

pub fn uleb128(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { byte } else { byte | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}
