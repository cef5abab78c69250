//! Finds the real functions: the next definition of a name after ours, in the order in which the loader searches.
//!
//! Reads the loader's own list and the symbol tables in memory instead of calling dlsym, which locks, may allocate,
//! and would tie this library to one C library version.

#[cfg(not(any(test, fuzzing)))]
use crate::sys;
use core::ffi::{CStr, c_char, c_void};

/// The public head of the loader's record of one object (link.h).
#[repr(C)]
pub struct LinkMap {
    pub bias: usize,
    pub name: *const c_char,
    dynamic: *const Dynamic,
    pub next: *const LinkMap,
    previous: *const LinkMap,
}

#[repr(C)]
struct Dynamic {
    tag: usize,
    value: usize,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

/// struct r_debug (link.h).
#[repr(C)]
struct Debug {
    version: i32,
    head: *const LinkMap,
}

const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_VERSYM: usize = 0x6fff_fff0;
const DT_GNU_HASH: usize = 0x6fff_fef5;
/// More dynamic entries, symbols of one chain, or objects than any real program has.
const MAX_STEPS: usize = 1 << 16;

/// The objects of this process, from the head of the loader's list; empty where the C library does not keep one.
pub fn objects() -> impl Iterator<Item = &'static LinkMap> {
    let debug = loader_debug();
    // SAFETY: either null or the loader's own structure, which it keeps for debuggers at all times.
    let mut next = unsafe { debug.as_ref() }.map_or(core::ptr::null(), |debug| debug.head);
    let mut left = MAX_STEPS;
    core::iter::from_fn(move || {
        // SAFETY: list nodes stay while their object is loaded. Walked at the first allocation, before the program could
        // unload anything, and where an operator is called that is none of ours to answer; a dlclose at that moment would break it.
        let object = unsafe { next.as_ref() }?;
        next = object.next;
        left = left.checked_sub(1)?;
        Some(object)
    })
}

#[cfg(not(any(test, fuzzing)))]
fn loader_debug() -> *const Debug {
    let (debug, musl): (*const Debug, *const *const Debug);
    // SAFETY: reads our own GOT, where the loader put the addresses, or 0 as the references are weak.
    unsafe {
        core::arch::asm!(
            ".weak _r_debug, _dl_debug_addr",
            "mov {}, qword ptr [rip + _r_debug@GOTPCREL]",
            "mov {}, qword ptr [rip + _dl_debug_addr@GOTPCREL]",
            out(reg) debug, out(reg) musl, options(nostack, readonly, pure)
        );
    }
    // SAFETY: musl keeps its structure, which begins as glibc's, behind a pointer of its own that is never null. Recording is off there.
    if debug.is_null() && !musl.is_null() { unsafe { *musl } } else { debug }
}

#[cfg(any(test, fuzzing))]
fn loader_debug() -> *const Debug {
    unsafe extern "C" {
        static _r_debug: Debug;
    }
    &raw const _r_debug
}

/// Address of the next definition of `name` after the object whose dynamic section is `own_dynamic`, and that object's
/// record. If there is none after ours (we were not preloaded but linked), then before.
pub fn find_next(name: &CStr, own_dynamic: usize) -> Option<(usize, &'static LinkMap)> {
    let is_ours = |object: &&LinkMap| object.dynamic as usize == own_dynamic;
    let after = objects().skip_while(|object| !is_ours(object)).skip(1);
    let before = objects().take_while(|object| !is_ours(object));
    after.chain(before).find_map(|object| Some((find_in(object, name)?, object)))
}

impl LinkMap {
    /// An address inside the object.
    pub fn inside(&self) -> u64 {
        self.dynamic as u64
    }
}

/// Whether an object defines `name`.
pub fn defines(object: &LinkMap, name: &CStr) -> bool {
    find_in(object, name).is_some()
}

/// Where the function `name` of an object begins and ends, if it is exported with its size.
pub fn extent_in(object: &LinkMap, name: &CStr) -> Option<(u64, u64)> {
    let tables = Tables::of(object)?;
    // SAFETY: the hash table gave the index, so the symbol table has it.
    let symbol = unsafe { &*tables.symbols.add(tables.lookup(name)?) };
    let start = object.bias.wrapping_add(symbol.value) as u64;
    Some((start, start.checked_add(symbol.size as u64)?))
}

/// Address of `name` in one object, if it defines it.
pub fn find_in(object: &LinkMap, name: &CStr) -> Option<usize> {
    let tables = Tables::of(object)?;
    let index = tables.lookup(name)?;
    // SAFETY: the hash table gave `index`, so the symbol table has it.
    let symbol = unsafe { &*tables.symbols.add(index) };
    let address = object.bias + symbol.value;
    const STT_GNU_IFUNC: u8 = 10;
    if symbol.info & 15 == STT_GNU_IFUNC {
        // SAFETY: an indirect function's value is its resolver, which takes nothing and returns the address.
        let resolver: extern "C" fn() -> usize = unsafe { core::mem::transmute(address) };
        return Some(resolver());
    }
    Some(address)
}

/// Hides definitions of ours from the loader, as if we had none: what it looks up from now on it finds elsewhere, or not at all.
#[cfg(not(any(test, fuzzing)))]
pub fn hide(names: impl Iterator<Item = &'static CStr> + Clone) {
    let us = objects().find(|object| object.dynamic as usize == own_dynamic());
    let Some(tables) = us.and_then(Tables::of) else { return };
    let found = names.filter_map(|name| tables.lookup(name));
    let Some((first, last)) = found.clone().min().zip(found.clone().max()) else { return };
    // SAFETY: the hash table gave these, so the symbol table has them, in a segment of ours without code. The loader passes over functions
    // whose value is 0; it reads each value before or after. A table that others share with us, or that holds code, would break this.
    unsafe {
        let bytes = (last + 1 - first) * size_of::<Symbol>();
        let _ = sys::while_writable(tables.symbols.add(first).cast(), bytes, || {
            for index in found {
                (&raw mut (*tables.symbols.add(index).cast_mut()).value).write_volatile(0);
            }
        });
    }
}

struct Tables {
    symbols: *const Symbol,
    strings: *const c_char,
    versions: *const u16,
    gnu_hash: *const u32,
    hash: *const u32,
}

impl Tables {
    fn of(object: &LinkMap) -> Option<Self> {
        if object.dynamic.is_null() {
            return None;
        }
        let mut found = [0usize; 5];
        for index in 0..MAX_STEPS {
            // SAFETY: the dynamic section ends with a null tag, where the loop stops.
            let entry = unsafe { &*object.dynamic.add(index) };
            let slot = match entry.tag {
                0 => break,
                DT_SYMTAB => 0,
                DT_STRTAB => 1,
                DT_VERSYM => 2,
                DT_GNU_HASH => 3,
                DT_HASH => 4,
                _ => continue,
            };
            // glibc relocates these in place, other loaders and the vDSO do not.
            let is_relative = entry.value < object.bias;
            found[slot] = if is_relative { entry.value + object.bias } else { entry.value };
        }
        let [symbols, strings, versions, gnu_hash, hash] = found;
        (symbols != 0 && strings != 0).then_some(Self {
            symbols: symbols as *const Symbol,
            strings: strings as *const c_char,
            versions: versions as *const u16,
            gnu_hash: gnu_hash as *const u32,
            hash: hash as *const u32,
        })
    }

    /// A definition of another version than the default one counts where there is none of that: programs are bound to it by the
    /// version that they name, as to all of libc_malloc_debug.so.
    fn lookup(&self, name: &CStr) -> Option<usize> {
        [true, false].into_iter().find_map(|is_default| match self.gnu_hash.is_null() {
            false => self.lookup_gnu(name, is_default),
            true => self.lookup_sysv(name, is_default),
        })
    }

    fn lookup_gnu(&self, name: &CStr, is_default: bool) -> Option<usize> {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte as u32));
        // SAFETY: layout of DT_GNU_HASH: nbuckets, first hashed symbol, bloom words, shift, bloom, buckets, chains. The
        // loader has used this table itself. A chain ends with an odd hash.
        unsafe {
            let table = self.gnu_hash;
            let (buckets, first, bloom_words) = (*table, *table.add(1), *table.add(2));
            if buckets == 0 || bloom_words == 0 {
                return None;
            }
            let bloom = table.add(4).cast::<u64>();
            let word = *bloom.add((hash / 64) as usize % bloom_words as usize);
            let shift = *table.add(3);
            if word >> (hash % 64) & word >> ((hash >> shift) % 64) & 1 == 0 {
                return None;
            }
            let bucket_table = bloom.add(bloom_words as usize).cast::<u32>();
            let chains = bucket_table.add(buckets as usize);
            let start = *bucket_table.add((hash % buckets) as usize);
            if start < first {
                return None;
            }
            for index in start..start.saturating_add(MAX_STEPS as u32) {
                let chain_hash = *chains.add((index - first) as usize);
                if chain_hash | 1 == hash | 1
                    && self.is_definition(index as usize, name, is_default)
                {
                    return Some(index as usize);
                }
                if chain_hash & 1 == 1 {
                    return None;
                }
            }
        }
        None
    }

    fn lookup_sysv(&self, name: &CStr, is_default: bool) -> Option<usize> {
        if self.hash.is_null() {
            return None;
        }
        // SAFETY: DT_HASH begins with nbucket and nchain; nchain is the number of symbols.
        let symbols = unsafe { *self.hash.add(1) } as usize;
        (1..symbols.min(MAX_STEPS)).find(|&index| self.is_definition(index, name, is_default))
    }

    fn is_definition(&self, index: usize, name: &CStr, of_default_version: bool) -> bool {
        const VERSION_HIDDEN: u16 = 0x8000;
        // SAFETY: `index` comes from the hash table; names are offsets into the string table; versions are parallel
        // to the symbols.
        unsafe {
            let symbol = &*self.symbols.add(index);
            let is_default =
                self.versions.is_null() || *self.versions.add(index) & VERSION_HIDDEN == 0;
            symbol.section != 0
                && is_default == of_default_version
                && CStr::from_ptr(self.strings.add(symbol.name as usize)) == name
        }
    }
}

/// glibc's lock-free answer to "which object is at this address" (dlfcn.h, since 2.35).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FoundObject {
    flags: u64,
    pub start: u64,
    pub end: u64,
    pub link_map: *const LinkMap,
    /// The object's .eh_frame_hdr.
    pub unwind_header: u64,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut FoundObject) -> i32;

#[cfg(not(any(test, fuzzing)))]
fn find_object_function() -> Option<FindObject> {
    let function: *const c_void;
    // SAFETY: reads our own GOT, where the loader put the function's address, or 0 as the reference is weak.
    unsafe {
        core::arch::asm!(
            ".weak _dl_find_object",
            "mov {}, qword ptr [rip + _dl_find_object@GOTPCREL]",
            out(reg) function,
            options(nostack, readonly, pure)
        );
        // Null is `None`.
        core::mem::transmute::<*const c_void, Option<FindObject>>(function)
    }
}

#[cfg(any(test, fuzzing))]
fn find_object_function() -> Option<FindObject> {
    unsafe extern "C" {
        fn _dl_find_object(address: *mut c_void, result: *mut FoundObject) -> i32;
    }
    Some(_dl_find_object)
}

/// The object at `address`, without a lock. `None` for other code, and everywhere on C libraries before glibc 2.35.
pub fn object_at(address: u64) -> Option<FoundObject> {
    let find = find_object_function()?;
    let mut found = core::mem::MaybeUninit::<FoundObject>::uninit();
    // SAFETY: `find` fills the structure if it returns 0; it is async-signal-safe and takes no lock.
    unsafe { (find(address as *mut c_void, found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

/// Whether the code at `address` is of an allocator: of a library that defines malloc. An allocator in the executable is not one
/// that we see, so what it maps is the program's own. True too where it cannot be told, before glibc 2.35.
pub fn may_be_allocator(address: u64) -> bool {
    if find_object_function().is_none() {
        return true;
    }
    // SAFETY: the object's code called us, so it is loaded, and so is its record with the name.
    object_at(address).and_then(|found| unsafe { found.link_map.as_ref() }).is_some_and(|object| {
        // SAFETY: as above; the loader gives every object a name, the executable an empty one.
        let is_executable = unsafe { object.name.is_null() || *object.name == 0 };
        !is_executable && defines(object, c"malloc")
    })
}

/// What the code at `address` may mean by `name`: the definition in its own object.
pub fn find_beside(address: u64, name: &CStr) -> Option<usize> {
    // SAFETY: the object's code called us, so it is loaded, and so is its record.
    let object = unsafe { object_at(address)?.link_map.as_ref() }?;
    find_in(object, name)
}

/// Where the kernel put argc: arguments, environment and auxiliary vector follow. `None` on C libraries without
/// `__libc_stack_end`.
#[cfg(not(any(test, fuzzing)))]
pub fn initial_stack() -> Option<*const usize> {
    let variable: *const *const usize;
    // SAFETY: reads our own GOT; the reference is weak, so null where it is missing.
    unsafe {
        core::arch::asm!(
            ".weak __libc_stack_end",
            "mov {}, qword ptr [rip + __libc_stack_end@GOTPCREL]",
            out(reg) variable,
            options(nostack, readonly, pure)
        );
        variable.as_ref().copied()
    }
}

#[cfg(any(test, fuzzing))]
pub fn initial_stack() -> Option<*const usize> {
    unsafe extern "C" {
        static __libc_stack_end: *const usize;
    }
    // SAFETY: set by the loader before anything else runs.
    Some(unsafe { __libc_stack_end })
}

/// Where `struct pthread` has the thread's id, as the C library tells debuggers (nptl_db's descriptor: size in bits, number of
/// elements, offset); 0 if it does not.
pub fn thread_id_offset() -> u64 {
    let Some((address, _)) = find_next(c"_thread_db_pthread_tid", 0) else { return 0 };
    // SAFETY: the symbol of this name has this type in every glibc.
    let [bits, elements, offset] = unsafe { *(address as *const [u32; 3]) };
    if (bits, elements) == (32, 1) { offset as u64 } else { 0 }
}

/// Our own dynamic section, which identifies us in the loader's list.
#[cfg(not(any(test, fuzzing)))]
pub fn own_dynamic() -> usize {
    let address;
    // SAFETY: the linker defines _DYNAMIC in every shared object.
    unsafe {
        core::arch::asm!(
            ".hidden _DYNAMIC",
            "lea {}, [rip + _DYNAMIC]",
            out(reg) address,
            options(nostack, nomem, pure)
        );
    }
    address
}

/// Tests search every object.
#[cfg(any(test, fuzzing))]
pub fn own_dynamic() -> usize {
    0
}

#[cfg(test)]
mod tests;
