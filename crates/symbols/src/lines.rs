//! Functions, inlined calls and source lines from DWARF.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use addr2line::{LookupContinuation, LookupResult};
use gimli::{
    AbbreviationsCacheStrategy, Dwarf, DwarfSections, Reader, RunTimeEndian, Section, SectionId,
};
use object::Endianness;
use ramson_apart::on_all;

use crate::budget::Budget;
use crate::bytes::{Bytes, metered, reason};
use crate::declarations;
use crate::elf::ElfFile;
use crate::split::Split;
use crate::units::by_unit;
use crate::worker::threads;

/// More inlined calls at one address than any compiler makes.
const MAX_INLINED: usize = 1 << 10;
/// A longer name is dropped: no compiler's name is that long.
const MAX_NAME_BYTES: usize = 64 << 10;
/// Fewer addresses are looked up by one thread.
const FEW_ADDRESSES: usize = 64;

/// Sections of fewer bytes in all are read by one thread.
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

pub(crate) fn endian(file: &ElfFile) -> Result<RunTimeEndian, String> {
    Ok(match file.sections()?.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    })
}

/// The debug information of one binary, unpacked.
pub(crate) struct Lines {
    sections: DwarfSections<Vec<u8>>,
    /// Sections that `dwz` moved to another file.
    supplement: Option<DwarfSections<Vec<u8>>>,
    endian: RunTimeEndian,
    pub split: Split,
    size_bytes: u64,
    /// Reading files of strangers is bounded.
    is_strange: bool,
}

/// One thread's view of `Lines`. Units are parsed when an address first falls into them.
pub(crate) struct LineFinder<'a> {
    context: addr2line::Context<Bytes<'a>>,
    split: &'a Split,
    budget: Option<Budget>,
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
    pub fn open(
        file: &ElfFile,
        supplement: Option<&ElfFile>,
        split: Split,
    ) -> Result<Self, String> {
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
        let is_strange = !file.is_trusted;
        let lines = Self { sections, supplement, endian, split, size_bytes, is_strange };
        let budget = file.budget.rest();
        metered(lines.of_reads(&budget), || {
            let dwarf = lines.dwarf();
            check_abbreviations(&dwarf)?;
            dwarf.sup().map_or(Ok(()), check_abbreviations)
        })?;
        lines.finder(&budget)?;
        Ok(lines)
    }

    /// Budget that bounds the reads, if they are bounded.
    fn of_reads<'a>(&self, budget: &'a Budget) -> Option<&'a Budget> {
        Some(budget).filter(|_| self.is_strange)
    }

    fn dwarf<'a>(&'a self) -> Dwarf<Bytes<'a>> {
        let slice = |section: &'a Vec<u8>| Bytes::new(section, self.endian);
        self.sections.borrow_with_sup(self.supplement.as_ref(), slice)
    }

    pub fn finder(&self, budget: &Budget) -> Result<LineFinder<'_>, String> {
        let budget = self.of_reads(budget);
        let context = metered(budget, || {
            let mut dwarf = self.dwarf();
            // Units may share a table, as all do in Go.
            dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
            addr2line::Context::from_dwarf(dwarf).map_err(reason)
        })?;
        Ok(LineFinder { context, split: &self.split, budget: budget.cloned() })
    }

    /// `addresses` in groups that may be looked up by different threads, the one with most work first.
    pub fn groups(&self, addresses: &[u64], budget: &Budget) -> Vec<Vec<u64>> {
        match addresses.len() {
            0..FEW_ADDRESSES => vec![addresses.to_vec()],
            _ => metered(self.of_reads(budget), || by_unit(&self.dwarf(), addresses)),
        }
    }

    /// Bytes of debug sections held.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes + self.split.size_bytes()
    }
}

impl LineFinder<'_> {
    /// Calls `each` for every function activation at `address`, inlined ones first.
    pub fn find(&self, address: u64, each: impl FnMut(LineFrame<'_>)) -> Result<(), String> {
        metered(self.budget.as_ref(), || self.find_unmetered(address, each)).map_err(reason)
    }

    fn find_unmetered(
        &self,
        address: u64,
        mut each: impl FnMut(LineFrame<'_>),
    ) -> gimli::Result<()> {
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

/// An entry may be a single byte, and a reader goes through all attributes that its abbreviation has.
pub(crate) fn check_abbreviations(dwarf: &Dwarf<Bytes<'_>>) -> Result<(), String> {
    let mut checked = HashSet::new();
    let mut units = dwarf.units();
    while let Ok(Some(unit)) = units.next() {
        let offset = unit.debug_abbrev_offset().0;
        let table = dwarf.debug_abbrev.reader().slice().get(offset..).unwrap_or_default();
        if !checked.insert(offset) {
            continue;
        }
        match declarations::are_short(table) {
            Ok(false) => {
                return Err("an entry with more attributes than any compiler makes".into());
            }
            Err(gimli::Error::Io) => return Err(reason(gimli::Error::Io)),
            // The reader tells of it itself, if the unit is needed.
            Ok(true) | Err(_) => {}
        }
    }
    Ok(())
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
    let threads = if total_bytes < FEW_BYTES { 1 } else { threads() };
    let contents =
        on_all(&wanted, threads, || (), |(), (key, file, section)| Ok((*key, file.read(section)?)));
    contents.into_iter().collect()
}
