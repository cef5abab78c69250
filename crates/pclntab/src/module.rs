//! Where a file has its pclntab, and what the runtime's own description of the program (moduledata) says about it.

use crate::bytes::word;
use crate::table::{HEAD_BYTES, MAGIC, Pclntab};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection, ReadRef, elf};

/// The section that every Go program has, stripped or not.
const BUILD_INFO: &str = ".go.buildinfo";
/// The table's section; in a position-independent executable before Go 1.26 the second.
const TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Into which an external linker puts the second.
const RELOCATED: &str = ".data.rel.ro";
/// moduledata's own, since Go 1.26.
const MODULE: &str = ".go.module";
/// Where it was before.
const DATA: [&str; 2] = [".noptrdata", ".data"];
const RELOCATIONS: [&str; 2] = [".rela", ".rela.dyn"];

/// Indices of words of moduledata: funcnametab's address, the start of the code, etypes, and the first byte of the functions' further data (gofunc) before Go 1.27
/// and since.
const NAMES: usize = 1;
const TEXT: usize = 22;
const BEFORE_GOFUNC: usize = 39;
const GOFUNC: usize = 40;
const GOFUNC_SINCE_27: usize = 43;
const MODULE_WORDS: usize = 44;

/// Whether the file is a Go program.
pub fn is_go<'data>(data: impl ReadRef<'data>) -> bool {
    let file = ElfFile64::<LittleEndian, _>::parse(data);
    file.is_ok_and(|file| file.section_by_name(BUILD_INFO).is_some())
}

impl<'data> Pclntab<'data> {
    /// Reads the table of a file. `may_read` is asked before each section, with its size in bytes. `None`: the file is of no Go program, or of one before
    /// Go 1.20, or damaged.
    pub fn read<R: ReadRef<'data>>(data: R, may_read: impl Fn(u64) -> bool) -> Option<Self> {
        let file = ElfFile64::<LittleEndian, R>::parse(data).ok()?;
        file.section_by_name(BUILD_INFO)?;
        let image = Image { file, may_read };
        let (address, table) = image.table()?;
        let module = image.module(address, table)?;
        let inline = image.inline_trees(address, table, &module).unwrap_or_default();
        Self::of(table, module.text, inline)
    }
}

/// What moduledata says.
struct Module {
    /// The start of the code.
    text: u64,
    /// The first byte of the functions' further data.
    gofunc: u64,
}

struct Image<'data, R: ReadRef<'data>, F> {
    file: ElfFile64<'data, LittleEndian, R>,
    may_read: F,
}

impl<'data, R: ReadRef<'data>, F: Fn(u64) -> bool> Image<'data, R, F> {
    fn section(&self, name: &str) -> Option<(u64, &'data [u8])> {
        let section = self.file.section_by_name(name)?;
        (self.may_read)(section.size()).then_some(())?;
        Some((section.address(), section.data().ok()?))
    }

    /// The table's address and all bytes from there to the end of its section.
    fn table(&self) -> Option<(u64, &'data [u8])> {
        let own = TABLES.iter().find_map(|name| self.section(name));
        if let Some((_, bytes)) = own {
            return own.filter(|_| is_table(bytes));
        }
        let (address, bytes) = self.section(RELOCATED)?;
        let at = (0..bytes.len()).step_by(8).find(|&at| is_table(&bytes[at..]))?;
        Some((address + at as u64, &bytes[at..]))
    }

    fn module(&self, address: u64, table: &[u8]) -> Option<Module> {
        let relocations = self.relocations();
        let read = |at: u64| self.module_at(at, &relocations, address, table);
        if let Some((own, _)) = self.section(MODULE) {
            return read(own);
        }
        let relocated = relocations.iter().filter(|(_, value)| *value == address);
        if let Some(found) = relocated.map(|(at, _)| *at).find_map(read) {
            return Some(found);
        }
        DATA.iter().find_map(|name| {
            let (start, bytes) = self.section(name)?;
            let words = (0..bytes.len()).step_by(8);
            let mut at = words.filter(|&at| word(bytes, at) == Some(address));
            at.find_map(|at| read(start + at as u64))
        })
    }

    /// moduledata at this address, if it is the one of the table.
    fn module_at(
        &self,
        at: u64,
        relocations: &[(u64, u64)],
        address: u64,
        table: &[u8],
    ) -> Option<Module> {
        let mut words = self.words(at)?;
        let end = at.checked_add(8 * MODULE_WORDS as u64)?;
        for &(place, value) in relocations.iter().filter(|(place, _)| (at..end).contains(place)) {
            words[((place - at) / 8) as usize] = value;
        }
        let names = address.checked_add(word(table, NAMES_OFFSET)?)?;
        let gofunc = if words[GOFUNC] >= words[BEFORE_GOFUNC] { GOFUNC } else { GOFUNC_SINCE_27 };
        (words[0] == address && words[NAMES] == names)
            .then(|| Module { text: words[TEXT], gofunc: words[gofunc] })
    }

    fn words(&self, at: u64) -> Option<[u64; MODULE_WORDS]> {
        let (start, bytes) = self.section_of(at)?;
        let from = (at - start) as usize;
        let all: Option<Vec<u64>> =
            (0..MODULE_WORDS).map(|index| word(bytes, from + 8 * index)).collect();
        all?.try_into().ok()
    }

    fn section_of(&self, address: u64) -> Option<(u64, &'data [u8])> {
        let has_it = |start: u64, size: u64| start != 0 && address.wrapping_sub(start) < size;
        let mut sections = self.file.sections();
        let section = sections.find(|section| has_it(section.address(), section.size()))?;
        (self.may_read)(section.size()).then_some(())?;
        Some((section.address(), section.data().ok()?))
    }

    /// Places that the loader fills with an address in this file, and that address before the bias is added.
    fn relocations(&self) -> Vec<(u64, u64)> {
        const ENTRY_BYTES: usize = 24;
        let sections = RELOCATIONS.iter().filter_map(|name| self.section(name));
        let entries = sections.flat_map(|(_, bytes)| bytes.chunks_exact(ENTRY_BYTES));
        let of = |entry: &[u8]| Some((word(entry, 0)?, word(entry, 8)?, word(entry, 16)?));
        let is_relative = |kind: u64| kind as u32 == elf::R_X86_64_RELATIVE.0;
        let relative = entries.filter_map(of).filter(|&(_, kind, _)| is_relative(kind));
        relative.map(|(place, _, value)| (place, value)).collect()
    }

    /// The bytes from gofunc on.
    fn inline_trees(
        &self,
        address: u64,
        table: &'data [u8],
        module: &Module,
    ) -> Option<&'data [u8]> {
        let within = module.gofunc.checked_sub(address).and_then(|at| table.get(at as usize..));
        within.or_else(|| {
            let (start, bytes) = self.section_of(module.gofunc)?;
            bytes.get((module.gofunc - start) as usize..)
        })
    }
}

/// Offset of funcnameOffset in the table's header.
const NAMES_OFFSET: usize = 32;

fn is_table(bytes: &[u8]) -> bool {
    const QUANTUM_AND_POINTER: [u8; 2] = [1, 8];
    bytes.len() >= HEAD_BYTES
        && bytes.starts_with(&MAGIC)
        && bytes[4..6] == [0, 0]
        && bytes[6..8] == QUANTUM_AND_POINTER
}
