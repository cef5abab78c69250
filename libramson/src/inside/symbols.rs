//! Functions of allocators in an object's file: its symbol table is not in memory.

use super::debug_file;
use super::elf::{ElfFile, SHT_DYNSYM, SHT_SYMTAB};
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

/// The file of an object, and where its functions' names are.
pub struct ObjectFile {
    own: ElfFile,
    /// Has the names that the object was stripped of.
    debug: Option<ElfFile>,
}

const STT_FUNC: u8 = 2;
const STB_LOCAL: u8 = 0;

impl ObjectFile {
    /// Opens the file of `object`; the executable's, whose name the loader leaves empty, by the kernel's link.
    pub fn open(object: &LinkMap) -> Option<Self> {
        // SAFETY: the loader gives every object a name that ends.
        let name = unsafe { CStr::from_ptr(object.name) };
        let path = if name.is_empty() { c"/proc/self/exe" } else { name };
        let file = sys::open_to_read(path).ok()?;
        let own = ElfFile::map(&file)?;
        let has_names = own.symbols(SHT_SYMTAB).is_some();
        let debug = if has_names { None } else { debug_file::find(&file, &own) };
        Some(Self { own, debug })
    }

    /// The code that the file has for an address without the object's bias.
    pub fn code_at(&self, address: u64, bytes: u64) -> Option<&[u8]> {
        self.own.code_at(address, bytes)
    }

    /// Passes each function that is meant, by what its name begins with, to `visit`, with its name; looks through the whole table if the file
    /// or its debug file has one, else through that of exported functions.
    pub fn each_function<'a>(
        &'a self,
        is_meant: &dyn Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(&'a [u8], Symbol<'a>),
    ) -> Option<()> {
        let named = self.debug.as_ref().unwrap_or(&self.own);
        let (entries, strings) = named.symbols(SHT_SYMTAB).or_else(|| named.symbols(SHT_DYNSYM))?;
        for entry in entries {
            if entry.info & 15 != STT_FUNC || entry.section == 0 || entry.size == 0 {
                continue;
            }
            let Some(rest) = strings.get(entry.name as usize..) else { continue };
            // No other memory is read as code, whatever the table says.
            if !is_meant(rest) || self.code_at(entry.value, entry.size).is_none() {
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
