//! The headers of a loaded object, read in place: which parts of it are readable, where its code and its build ID are.

use super::stack::readable_until;
use crate::resolve::LinkMap;
use crate::sys;

/// The ELF header of a loaded object.
pub struct Elf {
    headers: &'static [ProgramHeader],
    start: u64,
    /// Lowest virtual address in the file; what `start` corresponds to.
    first_address: u64,
}

/// Elf64_Phdr.
#[repr(C)]
pub struct ProgramHeader {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    physical: u64,
    pub file_bytes: u64,
    memory_bytes: u64,
    alignment: u64,
}

const PT_NULL: u32 = 0;
pub const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;
const PAGE_BYTES: u64 = 4096;
/// Bytes of the ELF header; the program headers follow. It has their number at that byte.
const ELF_HEADER_BYTES: usize = 64;
const COUNT_AT: usize = 56;
/// Program headers that are read: with the ELF header they take 3,648 bytes of the first page. Linkers make about a dozen.
const MAX_HEADERS: usize = 64;
/// Longest unwind tables of an object without an ELF header; the largest known ones have 14 MiB.
const MAX_TABLE_BYTES: u64 = 16 << 20;

/// From `address` as far as can be read, at most up to `end`.
pub fn readable_from(address: u64, end: u64) -> Option<(u64, u64)> {
    let end = end.min(address.checked_add(MAX_TABLE_BYTES)?);
    let page = address & !(PAGE_BYTES - 1);
    let readable = readable_until(sys::process_id(), page, end).min(end);
    (address != 0 && address < readable).then_some((address, readable))
}

/// Has this library's program headers in memory, which `dl_iterate_phdr` shows the program, name no data to write. Collectors scan that of
/// every object (Boehm's, at each collection): they would read 24 MB of tables, and keep each block whose address is recorded there.
#[cold]
pub fn hide_data(own: &LinkMap) {
    let start = own.bias as *mut u8;
    // SAFETY: an object's addresses begin at 0, with its ELF header. The linker has put the program headers behind that, on a page without
    // code. The loader has done what they say, and reads of them only where segments lie. Code on that page would break this.
    unsafe {
        let count = start.add(COUNT_AT).cast::<u16>().read() as usize;
        let headers = start.add(ELF_HEADER_BYTES).cast::<ProgramHeader>();
        let bytes = count * size_of::<ProgramHeader>();
        let _ = sys::while_writable(headers.cast(), bytes, || {
            for header in (0..count).map(|index| headers.add(index)) {
                let kind = &raw mut (*header).kind;
                let flags = &raw mut (*header).flags;
                match kind.read_volatile() {
                    PT_LOAD => flags.write_volatile(flags.read_volatile() & !PF_W),
                    // Lies in data to write: Boehm's collector warns of one that does not.
                    PT_GNU_RELRO => kind.write_volatile(PT_NULL),
                    _ => {}
                }
            }
        });
    }
}

impl Elf {
    /// `None` if the first page is not readable or does not begin with the ELF header, or if the program headers are not where
    /// linkers put them.
    pub fn at(start: u64) -> Option<Self> {
        if readable_until(sys::process_id(), start, start + 1) <= start {
            return None;
        }
        // SAFETY: the first page was just read. At most 64 headers of 56 bytes after 64 bytes stay in it.
        unsafe {
            let header = start as *const u8;
            if header.cast::<u32>().read_unaligned() != u32::from_le_bytes(*b"\x7fELF") {
                return None;
            }
            let offset = header.add(32).cast::<u64>().read_unaligned();
            let count = header.add(COUNT_AT).cast::<u16>().read_unaligned() as usize;
            if offset != ELF_HEADER_BYTES as u64 || count > MAX_HEADERS {
                return None;
            }
            let headers = header.add(ELF_HEADER_BYTES).cast::<ProgramHeader>();
            let headers = core::slice::from_raw_parts(headers, count);
            let first = headers.iter().find(|header| header.kind == PT_LOAD)?;
            Some(Self { headers, start, first_address: first.address & !(PAGE_BYTES - 1) })
        }
    }

    /// The file-backed part of a header's range.
    fn range(&self, header: &ProgramHeader) -> Option<(u64, u64)> {
        let low = self.start.checked_add(header.address.checked_sub(self.first_address)?)?;
        Some((low, low.checked_add(header.file_bytes)?))
    }

    /// Returns the end of its last segment, in memory.
    pub fn end(&self) -> Option<u64> {
        let segments = self.headers.iter().filter(|header| header.kind == PT_LOAD);
        let end =
            segments.map(|header| header.address.saturating_add(header.memory_bytes)).max()?;
        self.start.checked_add(end.checked_sub(self.first_address)?)
    }

    /// Whether the word at `address` is the object's data to write, or was until the loader had set it.
    pub fn is_data(&self, address: u64) -> bool {
        let around = |header: &&ProgramHeader| {
            let low = header.address.wrapping_sub(self.first_address).wrapping_add(self.start);
            (low..low.saturating_add(header.memory_bytes)).contains(&address)
        };
        let mut segments = self.headers.iter().filter(|header| header.kind == PT_LOAD);
        segments.find(around).is_some_and(|segment| segment.flags & (PF_W | PF_X) == PF_W)
    }

    /// Its .eh_frame_hdr.
    pub fn unwind_header(&self) -> Option<u64> {
        let header = self.headers.iter().find(|header| header.kind == PT_GNU_EH_FRAME)?;
        self.range(header).map(|(low, _)| low)
    }

    fn readable_segments(&self) -> impl Iterator<Item = (&ProgramHeader, (u64, u64))> {
        self.headers
            .iter()
            .filter(|header| header.kind == PT_LOAD && header.flags & PF_R != 0)
            .filter_map(|header| Some((header, self.range(header)?)))
    }

    /// The readable segment around runtime address `address`.
    pub fn segment_around(&self, address: u64) -> Option<(u64, u64)> {
        self.readable_segments()
            .map(|(_, range)| range)
            .find(|(low, high)| (low..high).contains(&&address))
    }

    /// The largest segment of code.
    pub fn code(&self) -> Option<(u64, u64)> {
        self.readable_segments()
            .filter(|(header, _)| header.flags & PF_X != 0)
            .max_by_key(|(header, _)| header.file_bytes)
            .map(|(_, range)| range)
    }

    /// The GNU build ID note's bytes, in place.
    pub fn build_id(&self) -> Option<&'static [u8]> {
        self.notes().find_map(build_id_in)
    }

    /// Whether Go's linker has marked it.
    pub fn is_of_go(&self) -> bool {
        const BUILD_ID: u32 = 4;
        self.notes().any(|notes| note_in(notes, BUILD_ID, b"Go\0\0").is_some())
    }

    fn notes(&self) -> impl Iterator<Item = &'static [u8]> {
        self.headers.iter().filter(|header| header.kind == PT_NOTE).filter_map(|header| {
            let (low, high) = self.range(header)?;
            let (_, segment_high) = self.segment_around(low)?;
            let bytes = high.min(segment_high) - low;
            // SAFETY: the range is inside a readable segment of an object that is loaded, as a walk has just found its code on a stack; to unload it
            // meanwhile would break this.
            Some(unsafe { core::slice::from_raw_parts(low as *const u8, bytes as usize) })
        })
    }
}

/// The build ID among `notes`.
pub fn build_id_in(notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let value = note_in(notes, NT_GNU_BUILD_ID, b"GNU\0")?;
    value.get(..value.len().min(32))
}

/// The value of a note of this kind, of the owner of that name.
fn note_in<'a>(notes: &'a [u8], kind: u32, owner: &[u8]) -> Option<&'a [u8]> {
    let mut rest = notes;
    while let Some((head, body)) = rest.split_first_chunk::<12>() {
        let word = |at: usize| {
            let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let name_bytes = (word(0) as usize).next_multiple_of(4);
        let value_bytes = word(4) as usize;
        let value = body.get(name_bytes..)?.get(..value_bytes)?;
        if word(8) == kind && body.starts_with(owner) {
            return Some(value);
        }
        rest = body.get(name_bytes + value_bytes.next_multiple_of(4)..)?;
    }
    None
}
