//! Functions, inlined calls and source lines from DWARF.

use std::borrow::Cow;
use std::collections::HashMap;

use addr2line::{LookupContinuation, LookupResult};
use gimli::{Dwarf, DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::Endianness;

use crate::declarations;
use crate::elf::ElfFile;
use crate::processors::{MAX_THREADS, on_all};
use crate::split::Split;
use crate::units::by_unit;

/// More inlined calls at one address than any compiler makes.
const MAX_INLINED: usize = 1 << 10;
/// A longer name is dropped: no compiler's name is that long.
const MAX_NAME_BYTES: usize = 64 << 10;
/// So few addresses are looked up by one thread.
const FEW_ADDRESSES: usize = 64;

/// Sections of so few bytes in all are read by one thread.
const FEW_BYTES: u64 = 1 << 20;

/// Sections that say nothing about functions and lines stay on disk.
const USED: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Content of a section as DWARF readers take it: with the order of the bytes in a number.
pub(crate) type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

pub(crate) fn endian(file: &ElfFile) -> Result<RunTimeEndian, String> {
    Ok(match file.sections()?.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    })
}

/// The debug information of one binary, unpacked.
pub(crate) struct Lines {
    sections: DwarfSections<Vec<u8>>,
    /// What `dwz` moved elsewhere.
    supplement: Option<DwarfSections<Vec<u8>>>,
    endian: RunTimeEndian,
    pub split: Split,
    size_bytes: u64,
}

/// One thread's view of `Lines`. Units are parsed when an address first falls into them.
pub(crate) struct LineFinder<'a> {
    context: addr2line::Context<Bytes<'a>>,
    split: &'a Split,
}

/// One function activation as DWARF has it.
pub(crate) struct LineFrame<'a> {
    /// Linkage name if DWARF has one, else the plain name.
    pub name: Option<Cow<'a, str>>,
    pub file: Option<&'a str>,
    pub line: u32,
}

impl Lines {
    /// Loads the sections of `file` and, if it was split by `dwz`, those of its supplement.
    pub fn open(file: &ElfFile, supplement: Option<&ElfFile>) -> Result<Self, String> {
        let endian = endian(file)?;
        let mut contents = read(file, supplement)?;
        if let Some(abbreviations) = contents.get_mut(&(false, SectionId::DebugAbbrev)) {
            declarations::hide(abbreviations);
        }
        let size_bytes = contents.values().map(|content| content.len() as u64).sum();
        let mut loaded = |is_supplement: bool| {
            let mut take = |id| contents.remove(&(is_supplement, id)).unwrap_or_default();
            DwarfSections::load(|id| Ok::<_, gimli::Error>(take(id)))
                .map_err(|error| error.to_string())
        };
        let sections = loaded(false)?;
        let supplement = supplement.map(|_| loaded(true)).transpose()?;
        let lines = Self { sections, supplement, endian, split: Split::of(file), size_bytes };
        lines.finder()?;
        Ok(lines)
    }

    fn dwarf<'a>(&'a self) -> Dwarf<Bytes<'a>> {
        let slice = |section: &'a Vec<u8>| Bytes::new(section, self.endian);
        self.sections.borrow_with_sup(self.supplement.as_ref(), slice)
    }

    pub fn finder(&self) -> Result<LineFinder<'_>, String> {
        let context = addr2line::Context::from_dwarf(self.dwarf());
        let context = context.map_err(|error| error.to_string())?;
        Ok(LineFinder { context, split: &self.split })
    }

    /// `addresses` in groups that may be looked up by different threads, the one with most work first.
    pub fn groups(&self, addresses: &[u64]) -> Vec<Vec<u64>> {
        match addresses.len() {
            0..FEW_ADDRESSES => vec![addresses.to_vec()],
            _ => by_unit(&self.dwarf(), addresses),
        }
    }

    /// Bytes of debug sections held.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes + self.split.size_bytes()
    }
}

impl LineFinder<'_> {
    /// Calls `each` for every function activation at `address`, inlined ones first.
    pub fn find(&self, address: u64, mut each: impl FnMut(LineFrame<'_>)) -> gimli::Result<()> {
        let mut lookup = self.context.find_frames(address);
        let mut frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames?,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.split.load(load));
                }
            }
        };
        for _ in 0..MAX_INLINED {
            let Some(frame) = frames.next()? else { break };
            let name = frame.function.filter(|function| function.name.len() <= MAX_NAME_BYTES);
            let name = name.as_ref().and_then(|name| name.raw_name().ok());
            let location = frame.location;
            let line = location.as_ref().and_then(|location| location.line).unwrap_or(0);
            let file = location.and_then(|location| location.file);
            each(LineFrame { name, file, line });
        }
        Ok(())
    }
}

/// Reads the sections that are used, by whether they are the supplement's.
fn read(
    file: &ElfFile,
    supplement: Option<&ElfFile>,
) -> Result<HashMap<(bool, SectionId), Vec<u8>>, String> {
    let files = [(false, Some(file)), (true, supplement)];
    let mut wanted: Vec<_> = files
        .into_iter()
        .filter_map(|(is_supplement, file)| Some((is_supplement, file?)))
        .flat_map(|(is_supplement, file)| USED.map(|id| ((is_supplement, id), file)))
        .filter_map(|(key, file)| Some((key, file, file.section(key.1.name())?)))
        .collect();
    // Unpacking takes as long as there is to unpack.
    wanted.sort_by_key(|(.., section)| std::cmp::Reverse(section.size_bytes));
    // As the file has it: not one of these sizes need be true.
    let sizes = wanted.iter().map(|(.., section)| section.size_bytes);
    let total_bytes = sizes.fold(0, u64::saturating_add);
    let threads = if total_bytes < FEW_BYTES { 1 } else { MAX_THREADS };
    let contents =
        on_all(&wanted, threads, || (), |(), (key, file, section)| Ok((*key, file.read(section)?)));
    contents.into_iter().collect()
}
