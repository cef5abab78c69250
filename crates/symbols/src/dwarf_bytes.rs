//! The bytes of a section as DWARF readers take them: with the order of the bytes in a number.

use gimli::{EndianSlice, RunTimeEndian};
use object::Endianness;

use crate::elf::{ElfFile, Sections};

/// Content of a section.
pub(crate) type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

pub(crate) fn endian(sections: &Sections) -> RunTimeEndian {
    match sections.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    }
}

/// The content of the section of this name; empty if there is none.
pub(crate) fn bytes(file: &ElfFile, sections: &Sections, name: &str) -> Result<Vec<u8>, String> {
    sections.named(name).map_or(Ok(Vec::new()), |section| file.read(sections, section))
}
