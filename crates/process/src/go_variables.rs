//! Where the variables of Go's runtime are, found in its code: stripped programs have no symbols of data.

use crate::binary::Binary;
use crate::blocks::{Blocks, words_in};
use crate::process_memory::ProcessMemory;
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, ReadRef, SymbolKind, elf};
use ramson_pclntab::{Pclntab, is_go};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Pairs of functions: both refer to only one common variable, or part of one, or to only one of two words (tried with Go 1.21 to 1.27).
const BUCKETS: [&str; 2] = ["runtime.stkbucket", "runtime.mProf_FlushLocked"];
const INTERVAL: [&str; 2] = ["runtime.allocmcache", "runtime.profilealloc"];
const ARENAS: [&str; 2] = ["runtime.(*mheap).freeSpanLocked", "runtime.findObject"];
const CONTROLLER: [&str; 2] = ["runtime.gcinit", "runtime.(*mcache).allocLarge"];
const STATISTICS: [&str; 2] = ["runtime.(*mcache).refill", "runtime.(*mheap).grow"];
const GOROUTINES: [&str; 2] = ["runtime.allgadd", "runtime.forEachG"];
/// The same by their symbols, which an executable that is not stripped has.
const VARIABLES: [&str; 6] = [
    "runtime.mbuckets",
    "runtime.MemProfileRate",
    "runtime.mheap_",
    "runtime.gcController",
    "runtime.memstats",
    "runtime.allgs",
];
/// Where the arenas are in runtime.mheap_.
const ARENAS_OFFSET_21: u64 = 65_944;
const ARENAS_OFFSET: u64 = 66_008;
/// More than any function of the runtime has: the largest has 16 KiB.
const MOST_CODE_BYTES: u64 = 64 << 10;
/// The oldest minor version whose layouts are known.
const OLDEST: u64 = 21;

/// Why the heap data of a Go runtime cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum NoGoHeap {
    /// MemProfileRate is 0.
    Off,
    /// Built with this version, before 1.21.
    Old(String),
    /// The variables, or the list of buckets, are not where this version should have them.
    Unreadable(String),
}

/// Where the runtime of a Go program has its variables, in memory.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub struct Runtime {
    /// `go1.26.8`.
    pub version: String,
    /// Added to the file's addresses where it is mapped.
    pub bias: u64,
    /// An address of the executable.
    pub at: u64,
    /// runtime.mbuckets.
    pub buckets: u64,
    /// runtime.MemProfileRate.
    pub interval: u64,
    /// The arenas of runtime.mheap_.
    pub arenas: u64,
    /// runtime.gcController.
    pub controller: u64,
    /// runtime.memstats.
    pub statistics: u64,
    /// runtime.allgs; `None`: not found.
    pub goroutines: Option<u64>,
}

impl Runtime {
    /// Finds them in a process of the user who runs this, or in a worker. `None`: it is no Go program, or cannot be looked at.
    pub fn of(pid: u32) -> Option<Result<Self, NoGoHeap>> {
        let content = Binary::executable(pid)?.if_ours()?;
        is_go(&content).then_some(())?;
        let version = match version(&content) {
            Some(version) if minor(&version) >= OLDEST => version,
            older => return Some(Err(NoGoHeap::Old(older.unwrap_or_default()))),
        };
        let memory = Blocks::of(ProcessMemory::open(pid).ok()?);
        let layout = Layout::of(&content)?;
        let symbols = symbols(&content);
        let at = headers_of(pid)?;
        let bias = at.wrapping_sub(layout.headers);
        let code = |address: u64, bytes: &mut [u8]| memory.fill(address.wrapping_add(bias), bytes);
        let arenas = if minor(&version) < 22 { ARENAS_OFFSET_21 } else { ARENAS_OFFSET };
        let table = OnceCell::new();
        let find = |symbol: &str, offset: u64, functions| {
            let by_code = || {
                let table = table.get_or_init(|| Pclntab::read(&content, |_| true)).as_ref()?;
                only(&layout.common(table, functions, &code)?)
            };
            let by_name = symbols.get(symbol).map(|address| address + offset);
            by_name.or_else(by_code).map(|address| address.wrapping_add(bias))
        };
        let found = || {
            Some(Self {
                version: version.clone(),
                bias,
                at,
                buckets: find("runtime.mbuckets", 0, BUCKETS)?,
                interval: find("runtime.MemProfileRate", 0, INTERVAL)?,
                arenas: find("runtime.mheap_", arenas, ARENAS)?,
                controller: find("runtime.gcController", 0, CONTROLLER)?,
                statistics: find("runtime.memstats", 0, STATISTICS)?,
                goroutines: find("runtime.allgs", 0, GOROUTINES),
            })
        };
        let found = found();
        Some(found.ok_or(NoGoHeap::Unreadable(version)))
    }

    /// One of which only the statistics are known.
    #[cfg(test)]
    pub fn at_statistics(version: &str, statistics: u64) -> Self {
        let (bias, at, buckets, interval, arenas, controller) = (0, 0, 0, 0, 0, 0);
        let (version, goroutines) = (version.into(), None);
        Self { version, bias, at, buckets, interval, arenas, controller, statistics, goroutines }
    }

    /// 26 of `go1.26.8`.
    pub fn minor(&self) -> u64 {
        minor(&self.version)
    }
}

/// Addresses of the runtime's variables by their names, where the file has symbols.
fn symbols<'data, R: ReadRef<'data>>(content: R) -> HashMap<String, u64> {
    let file = ElfFile64::<LittleEndian, R>::parse(content);
    let all = file.iter().flat_map(|file| file.symbols().collect::<Vec<_>>());
    let of_runtime = all.filter(|symbol| symbol.kind() == SymbolKind::Data);
    let named =
        of_runtime.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())));
    named.filter(|(name, _)| VARIABLES.contains(&&**name)).collect()
}

/// Where the program headers of the executable are, by the auxiliary vector (AT_PHDR of getauxval(3)): pairs of words.
fn headers_of(pid: u32) -> Option<u64> {
    const MOST_BYTES: u64 = 4096;
    const HEADERS: u64 = 3;
    let vector = watched::start(pid, "auxv", MOST_BYTES).ok()?;
    let mut pairs = vector.chunks_exact(16).map(words_in::<2>);
    pairs.find_map(|[kind, value]| (kind == HEADERS).then_some(value))
}

/// The minor version: 26 of `go1.26.8`, 27 of `devel go1.27-…`. Without one, it counts as newer than all.
fn minor(version: &str) -> u64 {
    let digits = version.split_once("go1.").map_or("", |(_, minor)| minor);
    let end = digits.find(|it: char| !it.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(u64::MAX)
}

/// What a program's file says about where it is in memory. Addresses are the file's.
struct Layout {
    /// The address of the program headers.
    headers: u64,
    /// Where variables are.
    writable: Vec<Range<u64>>,
}

impl Layout {
    /// Of an executable.
    fn of<'data, R: ReadRef<'data>>(content: R) -> Option<Self> {
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

impl Layout {
    /// Words to which both functions refer. `code` reads from an address of the file on.
    fn common(
        &self,
        table: &Pclntab<'_>,
        functions: [&str; 2],
        code: &impl Fn(u64, &mut [u8]) -> bool,
    ) -> Option<BTreeSet<u64>> {
        let [first, second] = functions.map(|name| {
            let function = table.function(name)?;
            let bytes = function.end.checked_sub(function.start)?;
            let mut content = vec![0; bytes.min(MOST_CODE_BYTES) as usize];
            code(function.start, &mut content).then(|| self.referred(function.start, &content))
        });
        Some(first?.intersection(&second?).copied().collect())
    }

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

/// The only one of these words; the only one that another follows, if there are several.
fn only(words: &BTreeSet<u64>) -> Option<u64> {
    if words.len() == 1 {
        return words.first().copied();
    }
    let mut of_two = words.iter().filter(|&&word| words.contains(&word.saturating_add(8)));
    of_two.next().filter(|_| of_two.next().is_none()).copied()
}

/// The version that a Go program was built with, as `go1.26.8` (debug/buildinfo). `None`: it was built before Go 1.18, or is no Go program.
fn version<'data, R: ReadRef<'data>>(content: R) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_minor() {
        let minors = ["go1.26.8", "devel go1.27-3f0", "x"].map(minor);
        assert_eq!(minors, [26, 27, u64::MAX]);
    }

    #[test]
    fn code_refers_by_distance() {
        let layout = Layout { headers: 0, writable: vec![0x3000..0x3800, 0x3800..0x4000] };
        // mov rax, [rip + 0xff9] at 0x2000, of 7 bytes; mov rcx, [rip + 0x2ff1], beyond the variables; then to a word that is not aligned.
        let code = [
            &[0x48, 0x8b, 0x05, 0xf9, 0x0f, 0, 0][..],
            &[0x48, 0x8b, 0x0d, 0xf1, 0x2f, 0, 0],
            &[0x48, 0x8b, 0x0d, 0xef, 0x0f, 0, 0],
        ];
        let referred = layout.referred(0x2000, &code.concat());
        assert_eq!(Vec::from_iter(referred), [0x3000]);
    }
}
