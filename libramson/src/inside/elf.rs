//! Sections, symbols and code of an ELF file.

use crate::sys::{self, File};
use crate::walk::{PT_LOAD, ProgramHeader};
use core::ffi::CStr;

/// A file, mapped for reading.
pub struct ElfFile {
    start: *const u8,
    bytes: usize,
}

impl Drop for ElfFile {
    fn drop(&mut self) {
        sys::unmap(self.start.cast_mut(), self.bytes);
    }
}

/// Elf64_Shdr.
#[repr(C)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    bytes: u64,
    link: u32,
    info: u32,
    alignment: u64,
    entry_bytes: u64,
}

const PF_RX: u32 = 5;

/// Elf64_Sym.
#[repr(C)]
pub struct Entry {
    pub name: u32,
    pub info: u8,
    other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

pub const SHT_SYMTAB: u32 = 2;
const SHT_NOTE: u32 = 7;
pub const SHT_DYNSYM: u32 = 11;

/// A file with more symbols counts as one without, because the look through them would hold up the program.
const MOST_ENTRIES: u64 = 1 << 22;

impl ElfFile {
    pub fn map(file: &File) -> Option<Self> {
        let bytes = file.stat().ok()?.bytes as usize;
        let start = file.map_to_read(bytes).ok()?;
        Some(Self { start, bytes })
    }

    /// The table of `T` at `offset`.
    fn table<T>(&self, offset: u64, count: u64) -> Option<&[T]> {
        let end = count.checked_mul(size_of::<T>() as u64)?.checked_add(offset)?;
        if end > self.bytes as u64 || !offset.is_multiple_of(align_of::<T>() as u64) {
            return None;
        }
        // SAFETY: within the mapping, which stays as long as this; aligned; integers of any value. Somebody who cuts the file off in this
        // moment would break it: its owner, who could take the program's own code away, or root.
        Some(unsafe {
            core::slice::from_raw_parts(self.start.add(offset as usize).cast(), count as usize)
        })
    }

    /// The code that the file has for an address without the object's bias.
    pub fn code_at(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let header: &[u64] = self.table(0, 8)?;
        let segments: &[ProgramHeader] = self.table(*header.get(4)?, *header.get(7)? & 0xffff)?;
        segments.iter().find_map(|segment| {
            let offset = address.checked_sub(segment.address)?;
            let is_inside = offset.checked_add(bytes)? <= segment.file_bytes;
            let is_code = segment.kind == PT_LOAD && segment.flags & PF_RX == PF_RX;
            if is_inside && is_code { self.table(segment.offset + offset, bytes) } else { None }
        })
    }

    fn sections(&self) -> Option<&[Section]> {
        let header: &[u64] = self.table(0, 8)?;
        let at = *header.get(5)?;
        let count = header.get(7)? >> 32 & 0xffff;
        self.table(at, count)
    }

    fn contents(&self, section: &Section) -> Option<&[u8]> {
        self.table(section.offset, section.bytes)
    }

    /// The symbols of the table of this kind, and their names.
    pub fn symbols(&self, kind: u32) -> Option<(&[Entry], &[u8])> {
        let sections = self.sections()?;
        let table = sections.iter().find(|section| section.kind == kind)?;
        let count = table.bytes / size_of::<Entry>() as u64;
        let entries = self.table(table.offset, Some(count).filter(|&it| it <= MOST_ENTRIES)?)?;
        Some((entries, self.contents(sections.get(table.link as usize)?)?))
    }

    /// The build ID, whose note is the first of its section.
    pub fn build_id(&self) -> Option<&[u8]> {
        const NT_GNU_BUILD_ID: u32 = 3;
        const GNU: u32 = u32::from_le_bytes(*b"GNU\0");
        let mut notes = self.sections()?.iter().filter(|section| section.kind == SHT_NOTE);
        notes.find_map(|section| match self.table::<[u32; 4]>(section.offset, 1)? {
            [[4, bytes, NT_GNU_BUILD_ID, GNU]] => self.table(section.offset + 16, *bytes as u64),
            _ => None,
        })
    }

    /// The name of the debug file, in whatever directory.
    pub fn debug_link(&self) -> Option<&[u8]> {
        let header: &[u64] = self.table(0, 8)?;
        let sections = self.sections()?;
        let names = self.contents(sections.get((header.get(7)? >> 48) as usize)?)?;
        let is_it = |section: &&Section| {
            let name = names.get(section.name as usize..);
            name.is_some_and(|name| name.starts_with(b".gnu_debuglink\0"))
        };
        let link = self.contents(sections.iter().find(is_it)?)?;
        let name = CStr::from_bytes_until_nul(link).ok()?.to_bytes();
        (!name.is_empty() && !name.contains(&b'/')).then_some(name)
    }
}
