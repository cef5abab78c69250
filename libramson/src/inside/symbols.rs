//! Functions of allocators in an object's file: its symbol table is not in memory.

use crate::resolve::LinkMap;
use crate::sys;
use core::ffi::CStr;
use ramson_format::members::{self, MEMBERS, Names, Work};

/// A function of an allocator, or the part of one that the compiler set apart, as the file has it.
#[derive(Clone, Copy, Default)]
pub struct Symbol<'a> {
    /// Of `MEMBERS`.
    pub member: u8,
    /// Holds the code of a function that is seldom run (`NAME.cold`).
    pub is_cold: bool,
    pub is_local: bool,
    /// Counts as one of mimalloc's, whatever its name.
    pub is_joined: bool,
    /// In front of the name that `MEMBERS` has.
    pub prefix: &'a [u8],
    /// Address in the file, without the object's bias.
    pub address: u64,
    pub bytes: u64,
}

/// A file, mapped for reading.
pub struct ObjectFile {
    start: *const u8,
    bytes: usize,
}

impl Drop for ObjectFile {
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

/// Elf64_Phdr.
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    alignment: u64,
}

const PT_LOAD: u32 = 1;
const PF_RX: u32 = 5;

/// Elf64_Sym.
#[repr(C)]
struct Entry {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;
const STB_LOCAL: u8 = 0;

impl ObjectFile {
    /// Opens the file of `object`; the executable's, whose name the loader leaves empty, by the kernel's link.
    pub fn open(object: &LinkMap) -> Option<Self> {
        // SAFETY: the loader gives every object a name that ends.
        let name = unsafe { CStr::from_ptr(object.name) };
        let path = if name.is_empty() { c"/proc/self/exe" } else { name };
        let file = sys::open_to_read(path).ok()?;
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
        // moment would break it, and takes the program's own code away, too.
        Some(unsafe {
            core::slice::from_raw_parts(self.start.add(offset as usize).cast(), count as usize)
        })
    }

    /// The code that the file has for an address without the object's bias.
    pub fn code_at(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        let header: &[u64] = self.table(0, 8)?;
        let segments: &[Segment] = self.table(*header.get(4)?, *header.get(7)? & 0xffff)?;
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

    /// Passes each function that is meant, by what its name begins with, to `visit`, with its name; looks through the whole table if the file
    /// has one, else through that of exported functions.
    pub fn each_function<'a>(
        &'a self,
        is_meant: &dyn Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(&'a [u8], Symbol<'a>),
    ) -> Option<()> {
        let sections = self.sections()?;
        let of_kind = |kind| sections.iter().find(|section| section.kind == kind);
        let table = of_kind(SHT_SYMTAB).or_else(|| of_kind(SHT_DYNSYM))?;
        let strings = sections.get(table.link as usize)?;
        let strings: &[u8] = self.table(strings.offset, strings.bytes)?;
        let entries: &[Entry] =
            self.table(table.offset, table.bytes / size_of::<Entry>() as u64)?;
        for entry in entries {
            if entry.info & 15 != STT_FUNC || entry.section == 0 || entry.size == 0 {
                continue;
            }
            let Some(rest) = strings.get(entry.name as usize..) else { continue };
            if !is_meant(rest) {
                continue;
            }
            let Ok(name) = CStr::from_bytes_until_nul(rest) else { continue };
            let symbol = Symbol {
                is_local: entry.info >> 4 == STB_LOCAL,
                address: entry.value,
                bytes: entry.size,
                ..Symbol::default()
            };
            visit(name.to_bytes(), symbol);
        }
        Some(())
    }
}

/// The function of an allocator that a symbol is.
pub fn function<'a>(name: &'a [u8], symbol: Symbol<'a>) -> Option<Symbol<'a>> {
    let whole = name.strip_suffix(b".cold");
    let (member, prefix) = members::of_symbol(whole.unwrap_or(name))?;
    Some(Symbol { member, is_cold: whole.is_some(), prefix: name.get(..prefix)?, ..symbol })
}

impl Symbol<'_> {
    pub fn names(&self) -> Option<Names> {
        MEMBERS.get(self.member as usize).map(|member| member.names)
    }

    /// Whether an allocator may be known by it. With a prefix it must be jemalloc's own, as other functions may end in `malloc`, too.
    pub fn is_leading(&self) -> bool {
        self.prefix.is_empty() || self.names() == Some(Names::Jemalloc)
    }

    /// Whether only jemalloc has a function of this name.
    pub fn is_of_jemalloc(&self) -> bool {
        self.names() == Some(Names::Jemalloc) && !self.is_named("sdallocx")
    }

    /// Whether blocks are usually freed or moved by functions of this name.
    pub fn is_usual_free(&self) -> bool {
        const USUAL: [&str; 16] = [
            "free",
            "realloc",
            "sdallocx",
            "rallocx",
            "free_with_usize",
            "realloc_with_usize",
            "_ZdlPv",
            "_ZdlPvm",
            "mi_free",
            "mi_realloc",
            "mi_realloc_aligned",
            "tc_free",
            "tc_realloc",
            "sn_rust_dealloc",
            "sn_rust_realloc",
            "sn_free",
        ];
        USUAL.into_iter().any(|name| self.is_named(name))
    }

    fn is_named(&self, name: &str) -> bool {
        MEMBERS.get(self.member as usize).is_some_and(|member| member.name == name)
    }

    pub fn work(&self) -> Work {
        MEMBERS.get(self.member as usize).map_or(Work::Mark, |member| member.work)
    }
}
