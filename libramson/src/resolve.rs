//! Finds the real functions: the next definition of a name after ours, in the order in which the loader searches.
//!
//! Reads the loader's own list and the symbol tables in memory instead of calling dlsym, which locks, may allocate,
//! and would tie this library to one C library version.

mod tables;

use crate::sys;
use core::ffi::{CStr, c_char, c_void};
use tables::{Dynamic, Tables};
pub use tables::{Pointer, each_pointer, has_text_relocations};

/// The public head of the loader's record of one object (link.h).
#[repr(C)]
pub struct LinkMap {
    pub bias: usize,
    pub name: *const c_char,
    /// An address inside the object.
    pub dynamic: *const Dynamic,
    pub next: *const LinkMap,
    pub previous: *const LinkMap,
}

/// struct r_debug (link.h).
#[repr(C)]
struct Debug {
    version: i32,
    head: *const LinkMap,
    breakpoint: usize,
    state: i32,
}

/// More dynamic entries, symbols of one chain, or objects than any real program has.
const MAX_STEPS: usize = 1 << 16;

/// The objects of this process, from the head of the loader's list; empty where the C library does not keep one.
pub fn objects() -> impl Iterator<Item = &'static LinkMap> {
    let debug = loader_debug();
    // SAFETY: either null or the loader's own structure, which it keeps for debuggers at all times.
    let mut next = unsafe { debug.as_ref() }.map_or(core::ptr::null(), |debug| debug.head);
    let mut left = MAX_STEPS;
    core::iter::from_fn(move || {
        // SAFETY: list nodes stay while their object is loaded. Walked whole only at the first allocation, before the program could
        // unload anything; a dlclose at that moment would break it.
        let object = unsafe { next.as_ref() }?;
        next = object.next;
        left = left.checked_sub(1)?;
        Some(object)
    })
}

/// The same up to `last`, without a look at what follows it, which may be unloaded at any moment; none if it is null.
pub fn objects_until(last: *const LinkMap) -> impl Iterator<Item = &'static LinkMap> {
    let mut objects = objects();
    let mut is_past = last.is_null();
    core::iter::from_fn(move || {
        let object = if is_past { None } else { objects.next() }?;
        is_past = core::ptr::eq(object, last);
        Some(object)
    })
}

/// The address of a symbol of the loader's, as it put it into our GOT; 0 where it has none, as the reference is weak.
macro_rules! weak {
    ($symbol:literal) => {{
        let address: usize;
        // SAFETY: a load from our own GOT.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, readonly, pure)
            );
        }
        address
    }};
}

fn loader_debug() -> *const Debug {
    let debug = weak!("_r_debug") as *const Debug;
    let musl = weak!("_dl_debug_addr") as *const *const Debug;
    // SAFETY: musl keeps its structure, which begins as glibc's, behind a pointer of its own that is never null. Recording is off there.
    if debug.is_null() && !musl.is_null() { unsafe { *musl } } else { debug }
}

/// Whether the list is whole at this moment; false while it changes.
pub fn is_list_whole() -> bool {
    let debug = loader_debug();
    // SAFETY: as in `objects`; the loader writes the word while debuggers read it.
    !debug.is_null() && unsafe { (&raw const (*debug).state).read_volatile() } == 0
}

/// Address of the empty function that the loader calls when its list changes.
pub fn loader_event() -> Option<u64> {
    // SAFETY: as in `objects`.
    let address = unsafe { loader_debug().as_ref() }?.breakpoint;
    (address != 0).then_some(address as u64)
}

/// Whether an object is the executable, which is the first in the list.
pub fn is_executable(object: &LinkMap) -> bool {
    objects().next().is_some_and(|first| core::ptr::eq(first, object))
}

/// Whether an object uses one of `names` of another one.
pub fn imports_any(object: &LinkMap, names: &[&CStr]) -> bool {
    Tables::of(object).is_some_and(|tables| tables.imports_any(names))
}

/// Address of the next definition of `name` after the object whose dynamic section is `own_dynamic`, and that object's
/// record. If there is none after ours (we were not preloaded but linked), then before.
pub fn find_next(name: &CStr, own_dynamic: usize) -> Option<(usize, &'static LinkMap)> {
    let is_ours = |object: &&LinkMap| object.dynamic as usize == own_dynamic;
    let after = objects().skip_while(|object| !is_ours(object)).skip(1);
    let before = objects().take_while(|object| !is_ours(object));
    after.chain(before).find_map(|object| Some((find_in(object, name)?, object)))
}

/// The first definition of `name` in front of ours.
pub fn find_first(name: &CStr) -> Option<(usize, &'static LinkMap)> {
    let mut before = objects().take_while(|object| object.dynamic as usize != own_dynamic());
    before.find_map(|object| Some((find_in(object, name)?, object)))
}

/// Our own record.
pub fn own_object() -> Option<&'static LinkMap> {
    objects().find(|object| object.dynamic as usize == own_dynamic())
}

/// Whether an object defines `name`.
pub fn defines(object: &LinkMap, name: &CStr) -> bool {
    find_in(object, name).is_some()
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
pub fn hide(names: impl Iterator<Item = &'static CStr> + Clone) {
    let us = objects().find(|object| object.dynamic as usize == own_dynamic());
    let Some(tables) = us.and_then(Tables::of) else { return };
    let found = names.filter_map(|name| tables.lookup(name));
    let Some((first, last)) = found.clone().min().zip(found.clone().max()) else { return };
    // SAFETY: the hash table gave these, so the symbol table has them, in a segment of ours without code. The loader passes over functions
    // whose value is 0; it reads each value before or after. A table that others share with us, or that holds code, would break this.
    unsafe {
        let bytes = (last + 1 - first) * size_of::<tables::Symbol>();
        let _ = sys::while_writable(tables.symbols.add(first).cast(), bytes, || {
            for index in found {
                (&raw mut (*tables.symbols.add(index).cast_mut()).value).write_volatile(0);
            }
        });
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

fn find_object_function() -> Option<FindObject> {
    let address = weak!("_dl_find_object");
    // SAFETY: the function of this name has this type, and null is `None`.
    unsafe { core::mem::transmute::<usize, Option<FindObject>>(address) }
}

impl FoundObject {
    /// Returns an object as the loader would describe it.
    pub fn new(start: u64, end: u64, link_map: *const LinkMap, unwind_header: u64) -> Self {
        Self { flags: 0, start, end, link_map, unwind_header, reserved: [0; 7] }
    }
}

/// Whether `object_at` knows: since glibc 2.35.
#[inline]
pub fn loader_finds_objects() -> bool {
    find_object_function().is_some()
}

/// The object at `address`, without a lock. `None` for other code, and everywhere on C libraries before glibc 2.35.
pub fn object_at(address: u64) -> Option<FoundObject> {
    let find = find_object_function()?;
    let mut found = core::mem::MaybeUninit::<FoundObject>::uninit();
    // SAFETY: `find` fills the structure if it returns 0; it is async-signal-safe and takes no lock.
    unsafe { (find(address as *mut c_void, found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

/// Returns the address at which the kernel put argc: arguments, environment and auxiliary vector follow. `None` on C libraries without
/// `__libc_stack_end`.
pub fn initial_stack() -> Option<*const usize> {
    let variable = weak!("__libc_stack_end") as *const *const usize;
    // SAFETY: null, or a variable that the loader sets before anything else runs.
    unsafe { variable.as_ref().copied() }
}

/// Returns the offset of the thread's id in `struct pthread`, as the C library tells debuggers (nptl_db's descriptor: size in bits, number of
/// elements, offset); 0 if it does not.
pub fn thread_id_offset() -> u64 {
    let Some((address, _)) = find_next(c"_thread_db_pthread_tid", 0) else { return 0 };
    // SAFETY: the symbol of this name has this type in every glibc.
    let [bits, elements, offset] = unsafe { *(address as *const [u32; 3]) };
    if (bits, elements) == (32, 1) { offset as u64 } else { 0 }
}

/// Our own dynamic section, which identifies us in the loader's list.
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

#[cfg(test)]
mod tests;
