//! Where the variables of Go's runtime are, found in its code: stripped programs have no symbols of data.

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSection, ReadRef, elf};
use ramson_pclntab::Pclntab;
use std::collections::BTreeSet;
use std::ops::Range;

/// A variable is the only one to which both functions refer (tried with Go 1.21 to 1.27).
const BUCKETS: [&str; 2] = ["runtime.stkbucket", "runtime.mProf_FlushLocked"];
const INTERVAL: [&str; 2] = ["runtime.allocmcache", "runtime.profilealloc"];
/// The largest function of the runtime has 16 KiB.
const MOST_CODE_BYTES: u64 = 64 << 10;

/// Addresses of the runtime's variables, in the file.
#[derive(Debug)]
pub struct Variables {
    /// runtime.mbuckets.
    pub buckets: u64,
    /// runtime.MemProfileRate.
    pub interval: u64,
}

/// What a program's file says about where it is in memory. Addresses are the file's.
pub struct Layout {
    /// The address of the program headers.
    pub headers: u64,
    /// Where variables are.
    writable: Vec<Range<u64>>,
}

impl Layout {
    /// Of an executable.
    pub fn of<'data, R: ReadRef<'data>>(content: R) -> Option<Self> {
        let file = ElfFile64::<LittleEndian, R>::parse(content).ok()?;
        let endian = file.endian();
        let loaded = file.elf_program_headers().iter();
        let loaded: Vec<_> =
            loaded.filter(|header| header.p_type(endian) == elf::PT_LOAD).collect();
        let first = loaded.iter().find(|header| header.p_offset(endian) == 0)?;
        let headers = first.p_vaddr(endian).checked_add(file.elf_header().e_phoff(endian))?;
        let is_writable = |header: &&&elf::ProgramHeader64<LittleEndian>| {
            header.p_flags(endian).contains(elf::PF_W)
        };
        let writable = loaded.iter().filter(is_writable).map(|header| {
            let start = header.p_vaddr(endian);
            start..start.saturating_add(header.p_memsz(endian))
        });
        Some(Self { headers, writable: writable.collect() })
    }
}

impl Variables {
    /// Finds them. `code` reads from an address of the file on.
    pub fn find(
        table: &Pclntab,
        layout: &Layout,
        code: impl Fn(u64, &mut [u8]) -> bool,
    ) -> Option<Self> {
        let referred = |name: &str| {
            let function = table.function(name)?;
            let bytes = function.end.checked_sub(function.start)?;
            let mut content = vec![0; bytes.min(MOST_CODE_BYTES) as usize];
            code(function.start, &mut content).then(|| layout.referred(function.start, &content))
        };
        let common = |[first, second]: [&str; 2]| {
            let all: Vec<u64> =
                referred(first)?.intersection(&referred(second)?).copied().collect();
            <[u64; 1]>::try_from(all).ok().map(|[only]| only)
        };
        Some(Self { buckets: common(BUCKETS)?, interval: common(INTERVAL)? })
    }
}

impl Layout {
    /// Words among the variables to which code at `start` may refer: each four bytes are taken for a distance from their end, which they are where an
    /// instruction ends with them.
    fn referred(&self, start: u64, code: &[u8]) -> BTreeSet<u64> {
        let distances = code.windows(4).zip(start + 4..);
        let targets = distances.map(|(distance, end)| {
            let distance = i32::from_le_bytes(distance.try_into().unwrap_or_default());
            end.wrapping_add_signed(distance.into())
        });
        let is_variable = |target: &u64| {
            target.is_multiple_of(8) && self.writable.iter().any(|range| range.contains(target))
        };
        targets.filter(is_variable).collect()
    }
}

/// The version that a Go program was built with, as `go1.26.8` (debug/buildinfo). `None`: it was built before Go 1.18, or is no Go program.
pub fn version<'data, R: ReadRef<'data>>(content: R) -> Option<String> {
    /// Flags, of which this one means that texts follow.
    const FLAGS: usize = 15;
    const HAS_TEXTS: u8 = 2;
    const TEXTS: usize = 32;
    /// A longer one has its length in two bytes.
    const MOST_BYTES: usize = 127;
    let file = ElfFile64::<LittleEndian, R>::parse(content).ok()?;
    let info = file.section_by_name(".go.buildinfo")?.data().ok()?;
    (info.get(FLAGS)? & HAS_TEXTS != 0).then_some(())?;
    let length = usize::from(*info.get(TEXTS)?).min(MOST_BYTES);
    let text = info.get(TEXTS + 1..TEXTS + 1 + length)?;
    let is_plain = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    Some(text.iter().take_while(is_plain).map(|&byte| char::from(byte)).collect())
}
