//! Functions, inlined calls and source lines from DWARF.

use std::path::PathBuf;
use std::sync::Arc;

use addr2line::{LookupContinuation, LookupResult};
use gimli::{EndianArcSlice, RunTimeEndian, SectionId};
use object::Endianness;

use crate::elf::{ElfFile, Sections};
use crate::split::Split;

/// Content of a section, shared with what was parsed from it.
pub(crate) type Bytes = EndianArcSlice<RunTimeEndian>;

/// More inlined calls at one address than any compiler makes.
const MAX_INLINED: usize = 1 << 10;
/// A longer name is dropped: no compiler's name is that long.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The debug information of one binary. Units are read when an address first falls into them.
pub(crate) struct Lines {
    context: addr2line::Context<Bytes>,
    split: Split,
    size_bytes: u64,
}

/// One function activation as DWARF has it.
pub(crate) struct LineFrame<'a> {
    /// Linkage name if DWARF has one, else the plain name.
    pub name: Option<String>,
    pub file: Option<&'a str>,
    pub line: u32,
}

impl Lines {
    /// Loads the sections of `file` and, if it was split by `dwz`, those of its supplement.
    pub fn open(
        (file, sections): (&ElfFile, &Sections),
        supplement: Option<(&ElfFile, &Sections)>,
    ) -> Result<Self, String> {
        let mut size_bytes = 0;
        let mut load = |opened: (&ElfFile, &Sections), id: SectionId| {
            let content = bytes(opened, if is_used(id) { id.name() } else { "" })?;
            size_bytes += content.len() as u64;
            Ok::<_, String>(content)
        };
        let mut dwarf = gimli::Dwarf::load(|id| load((file, sections), id))?;
        if let Some(supplement) = supplement {
            dwarf.load_sup(|id| load(supplement, id))?;
        }
        let context = addr2line::Context::from_dwarf(dwarf).map_err(|error| error.to_string())?;
        Ok(Self { context, split: Split::of(file), size_bytes })
    }

    /// Calls `each` for every function activation at `address`, inlined ones first.
    pub fn find(&mut self, address: u64, mut each: impl FnMut(LineFrame<'_>)) -> gimli::Result<()> {
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
            let name = frame.function.filter(|function| {
                use gimli::Reader;
                function.name.len() <= MAX_NAME_BYTES
            });
            let name = name.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
            let location = frame.location;
            let line = location.as_ref().and_then(|location| location.line).unwrap_or(0);
            let file = location.and_then(|location| location.file);
            each(LineFrame { name, file, line });
        }
        Ok(())
    }

    /// Bytes of debug sections held.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes + self.split.size_bytes
    }

    /// A part outside the file that was needed and is not there.
    pub fn missing_part(&self) -> Option<&PathBuf> {
        self.split.missing.as_ref()
    }
}

/// The section of this name; empty if there is none.
pub(crate) fn bytes((file, sections): (&ElfFile, &Sections), name: &str) -> Result<Bytes, String> {
    let endian = match sections.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let content = match sections.named(name) {
        Some(section) => file.read(sections, section)?,
        None => Arc::from([]),
    };
    Ok(Bytes::new(content, endian))
}

/// Sections that say nothing about functions and lines stay on disk.
fn is_used(id: SectionId) -> bool {
    use SectionId::*;
    matches!(
        id,
        DebugAbbrev
            | DebugAddr
            | DebugAranges
            | DebugInfo
            | DebugLine
            | DebugLineStr
            | DebugRanges
            | DebugRngLists
            | DebugStr
            | DebugStrOffsets
    )
}
