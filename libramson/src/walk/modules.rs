//! The objects that walks have met: where their unwind tables are, and whether they are still what they were.
//!
//! `_dl_find_object` tells without a lock which object is at an address. Objects that were there at the first allocation stay
//! for good; others are asked about once per walk, because dlclose may have taken them away and put others in their place.

use crate::resolve::{self, FoundObject, LinkMap};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// More objects than that are walked by frame pointers only.
pub const MAX_MODULES: usize = 1024;
const HINTS: usize = 256;
/// Objects that one walk remembers to have verified; more are verified again.
const VERIFIED: usize = 8;

const READY: u32 = 2;
const GONE: u32 = 3;

/// Told of every object when it is first met, to write it into the profile.
pub trait NewMapping {
    /// Returns the index that `replaced` will be called with.
    fn add(&self, mapping: &MappingFacts) -> u32;
    /// The object is no longer at its address. The stack epoch moves on.
    fn replaced(&self, index: u32);
}

/// An object as the profile describes it.
pub struct MappingFacts<'a> {
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    /// Empty for the executable itself.
    pub path: &'a [u8],
    pub build_id: &'a [u8],
}

/// What a rule is compiled from.
#[derive(Clone, Copy)]
pub struct Place {
    pub start: u64,
    pub unwind_header: u64,
    /// The segment that has the unwind tables.
    pub unwind_start: u64,
    pub unwind_end: u64,
    /// Differs between two objects that were at the same address.
    pub generation: u32,
}

struct Module {
    state: AtomicU32,
    is_permanent: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
    unwind_header: AtomicU64,
    unwind_start: AtomicU64,
    unwind_end: AtomicU64,
    link_map: AtomicU64,
    /// Address of a word that tells this object from others (in its build ID), and the word.
    identity_at: AtomicU64,
    identity: AtomicU64,
    mapping: AtomicU32,
    generation: AtomicU32,
}

/// All objects. All zero is the initial state.
pub struct Modules {
    count: AtomicU32,
    generation: AtomicU32,
    hints: [AtomicU32; HINTS],
    modules: [Module; MAX_MODULES],
}

/// What one walk knows already.
pub struct Cursor {
    current: Option<(u64, u64, Place)>,
    verified: [u32; VERIFIED],
    verified_count: usize,
}

impl Cursor {
    pub fn new() -> Self {
        Self { current: None, verified: [u32::MAX; VERIFIED], verified_count: 0 }
    }
}

impl Modules {
    /// The object at `address`, as it is now.
    #[inline]
    pub fn covering(
        &self,
        address: u64,
        cursor: &mut Cursor,
        sink: &impl NewMapping,
    ) -> Option<Place> {
        if let Some((start, end, place)) = cursor.current
            && (start..end).contains(&address)
        {
            return Some(place);
        }
        let index = self.find(address, cursor, sink)?;
        let module = self.modules.get(index as usize)?;
        let place = module.place();
        cursor.current = Some((module.start.load(Relaxed), module.end.load(Relaxed), place));
        Some(place)
    }

    fn find(&self, address: u64, cursor: &mut Cursor, sink: &impl NewMapping) -> Option<u32> {
        let hint = self.hints.get((address >> 14) as usize % HINTS)?;
        let hinted = hint.load(Relaxed);
        let known = match self.modules.get(hinted as usize) {
            Some(module) if module.covers(address) => Some(hinted),
            _ => self.scan(address),
        };
        if let Some(index) = known {
            hint.store(index, Relaxed);
            if self.is_still_there(index, address, cursor) {
                return Some(index);
            }
            self.retire(index, sink);
        }
        let found = resolve::object_at(address)?;
        let index = self.register(&found, sink)?;
        hint.store(index, Relaxed);
        Some(index)
    }

    #[cold]
    fn scan(&self, address: u64) -> Option<u32> {
        let count = self.count.load(Acquire).min(MAX_MODULES as u32);
        (0..count).rev().find(|&index| self.modules[index as usize].covers(address))
    }

    fn is_still_there(&self, index: u32, address: u64, cursor: &mut Cursor) -> bool {
        let module = &self.modules[index as usize];
        if module.is_permanent.load(Relaxed) != 0 || cursor.verified.contains(&index) {
            return true;
        }
        let is_same = resolve::object_at(address).is_some_and(|found| module.is(&found));
        if is_same && let Some(slot) = cursor.verified.get_mut(cursor.verified_count) {
            *slot = index;
            cursor.verified_count += 1;
        }
        is_same
    }

    fn retire(&self, index: u32, sink: &impl NewMapping) {
        let module = &self.modules[index as usize];
        if module.state.compare_exchange(READY, GONE, Relaxed, Relaxed).is_ok() {
            sink.replaced(module.mapping.load(Relaxed));
        }
    }

    #[cold]
    fn register(&self, found: &FoundObject, sink: &impl NewMapping) -> Option<u32> {
        let header = Elf::at(found.start)?;
        let (unwind_start, unwind_end) = header.segment_around(found.start, found.unwind_header)?;
        let count = self.count.load(Acquire).min(MAX_MODULES as u32);
        for index in 0..count {
            let module = &self.modules[index as usize];
            let overlaps =
                module.start.load(Relaxed) < found.end && module.end.load(Relaxed) > found.start;
            if module.state.load(Acquire) == READY && overlaps {
                self.retire(index, sink);
            }
        }
        // SAFETY: the object was found at an address on our stack, so it is loaded, and its record with it.
        let link_map = unsafe { found.link_map.as_ref()? };
        // SAFETY: the loader's names are C strings.
        let path = unsafe { CStr::from_ptr(link_map.name) }.to_bytes();
        let build_id = header.build_id(found.start).unwrap_or_default();
        let facts = MappingFacts {
            start: found.start,
            end: found.end,
            bias: link_map.bias as u64,
            path,
            build_id,
        };
        let index = self.count.fetch_update(AcqRel, Relaxed, |count| {
            ((count as usize) < MAX_MODULES).then_some(count + 1)
        });
        let index = index.ok()?;
        let module = &self.modules[index as usize];
        let identity_at =
            if build_id.len() >= 8 { build_id.as_ptr() as u64 } else { found.start + 24 };
        module.start.store(found.start, Relaxed);
        module.end.store(found.end, Relaxed);
        module.unwind_header.store(found.unwind_header, Relaxed);
        module.unwind_start.store(unwind_start, Relaxed);
        module.unwind_end.store(unwind_end, Relaxed);
        module.link_map.store(found.link_map as u64, Relaxed);
        module.identity_at.store(identity_at, Relaxed);
        module.identity.store(read_word(identity_at), Relaxed);
        module.is_permanent.store(is_from_start(found.link_map) as u32, Relaxed);
        module.mapping.store(sink.add(&facts), Relaxed);
        module.generation.store(self.generation.fetch_add(1, Relaxed) & 0xffff, Relaxed);
        module.state.store(READY, Release);
        Some(index)
    }
}

/// Whether the loader knew this object when the first memory was allocated; such objects are never unloaded.
fn is_from_start(link_map: *const LinkMap) -> bool {
    let last = crate::process::last_object_at_start();
    let mut is_past = last.is_null();
    resolve::objects()
        .take_while(|&object| {
            let was_past = is_past;
            is_past |= core::ptr::eq(object, last);
            !was_past
        })
        .any(|object| core::ptr::eq(object, link_map))
}

/// An unaligned word of a loaded object.
fn read_word(address: u64) -> u64 {
    // SAFETY: `address` lies in the first pages of an object that was just found loaded at an address on our stack.
    unsafe { (address as *const u64).read_unaligned() }
}

impl Module {
    #[inline]
    fn covers(&self, address: u64) -> bool {
        // Pairs with the release store at the end of `register`.
        self.state.load(Acquire) == READY
            && address >= self.start.load(Relaxed)
            && address < self.end.load(Relaxed)
    }

    fn is(&self, found: &FoundObject) -> bool {
        self.start.load(Relaxed) == found.start
            && self.end.load(Relaxed) == found.end
            && self.unwind_header.load(Relaxed) == found.unwind_header
            && self.link_map.load(Relaxed) == found.link_map as u64
            && self.identity.load(Relaxed) == read_word(self.identity_at.load(Relaxed))
    }

    fn place(&self) -> Place {
        Place {
            start: self.start.load(Relaxed),
            unwind_header: self.unwind_header.load(Relaxed),
            unwind_start: self.unwind_start.load(Relaxed),
            unwind_end: self.unwind_end.load(Relaxed),
            generation: self.generation.load(Relaxed),
        }
    }
}

/// The ELF header of a loaded object.
struct Elf {
    headers: &'static [ProgramHeader],
    /// Lowest virtual address in the file; what `start` corresponds to.
    first_address: u64,
}

#[repr(C)]
struct ProgramHeader {
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
const PT_NOTE: u32 = 4;
/// More program headers than fit in the first page with the ELF header.
const MAX_HEADERS: usize = 64;

impl Elf {
    fn at(start: u64) -> Option<Self> {
        // SAFETY: the first page of a loaded object is mapped and readable; it begins with the ELF header unless a linker
        // script left that out, which the magic number tells. At most 64 headers of 56 bytes after 64 bytes stay in it.
        unsafe {
            let header = start as *const u8;
            if header.cast::<u32>().read_unaligned() != u32::from_le_bytes(*b"\x7fELF") {
                return None;
            }
            let offset = header.add(32).cast::<u64>().read_unaligned();
            let count = header.add(56).cast::<u16>().read_unaligned() as usize;
            if offset != 64 || count > MAX_HEADERS {
                return None;
            }
            let headers =
                core::slice::from_raw_parts(header.add(64).cast::<ProgramHeader>(), count);
            let first = headers.iter().find(|header| header.kind == PT_LOAD)?;
            Some(Self { headers, first_address: first.address & !4095 })
        }
    }

    /// The file-backed part of the segment around runtime address `address`.
    fn segment_around(&self, start: u64, address: u64) -> Option<(u64, u64)> {
        self.headers.iter().filter(|header| header.kind == PT_LOAD).find_map(|header| {
            let low = start + (header.address - self.first_address);
            let high = low.checked_add(header.file_bytes)?;
            (low..high).contains(&address).then_some((low, high))
        })
    }

    /// The GNU build ID note's bytes, in place.
    fn build_id(&self, start: u64) -> Option<&'static [u8]> {
        const NT_GNU_BUILD_ID: u32 = 3;
        self.headers.iter().filter(|header| header.kind == PT_NOTE).find_map(|header| {
            let note_start = start + header.address.checked_sub(self.first_address)?;
            self.segment_around(start, note_start)?;
            // SAFETY: notes lie in a loaded, readable segment.
            let notes = unsafe {
                core::slice::from_raw_parts(note_start as *const u8, header.file_bytes as usize)
            };
            let mut rest = notes;
            while let Some((head, body)) = rest.split_first_chunk::<12>() {
                let word = |at: usize| {
                    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
                };
                let name_bytes = (word(0) as usize).next_multiple_of(4);
                let value_bytes = word(4) as usize;
                let value = body.get(name_bytes..)?.get(..value_bytes)?;
                if word(8) == NT_GNU_BUILD_ID && body.starts_with(b"GNU\0") {
                    return Some(value.get(..value_bytes.min(32))?);
                }
                rest = body.get(name_bytes + value_bytes.next_multiple_of(4)..)?;
            }
            None
        })
    }
}
