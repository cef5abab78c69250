//! Allocators inside the executable or a library, whose callers the linker has bound to them: hooks are written into the beginnings of
//! their functions.
//!
//! Objects of the start are looked at before main, while there is one thread. Of later ones the loader tells when it has mapped them and none of
//! their code has run: it calls an empty function for debuggers, in whose place ours is put.
//!
//! The functions are found by name in the object's file, or in its separate debug file; all bytes that matter are compared with what is in memory. Code is
//! written by the kernel (/proc/self/mem), so no page is ever writable and executable at once.

mod code;
mod debug_file;
mod elf;
mod found;
mod list;
mod loader;
pub mod places;
mod symbols;

use crate::arch::hooks::inside::loader_hook;
use crate::arch::trampoline;
use crate::config::Config;
use crate::families::{self, Facts, Family};
use crate::orders;
use crate::resolve::{self, LinkMap};
use crate::sys::{self, Status, permit};
use crate::text::Text;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use found::{Area, Found};
use places::Way;
use ramson_format::{Inside, PRELOADED_FAMILY};

/// The last object in the loader's list when that was last whole.
static LAST: AtomicPtr<LinkMap> = AtomicPtr::new(core::ptr::null_mut());
/// Not 0: hooks were made for a program that runs, and it is not known yet whether they were written.
static IS_PREPARED: AtomicU32 = AtomicU32::new(0);
const REHEARSED_BYTES: usize = 4096;

/// Hooks the allocators inside the objects that came with the program, and follows the loader. At the first call of a hook or before main.
#[cold]
pub fn begin(config: &Config) {
    if config.interval_bytes.is_none() || !config.inside {
        return;
    }
    let Some(status) = Status::read() else { return families::have_become(Inside::NoProc) };
    sys::look_for_filters(Some(&status), config.tried_filters);
    if !permit::is_full() {
        return families::have_become(Inside::Filtered);
    }
    if status.seccomp != Some(0) {
        // What a filter is tried with has no allocator inside, for which this call would be made.
        let near = resolve::own_dynamic() as u64;
        if let Ok(start) = sys::map_code(REHEARSED_BYTES, near, near) {
            sys::unmap(start as *mut u8, REHEARSED_BYTES);
        }
    }
    if status.threads != 1 {
        return families::have_become(Inside::SecondThread);
    }
    resolve::objects().for_each(|object| hook(object, Way::ForGood));
    note_last();
    let is_followed = watch_loader(Way::ForGood);
    families::have_become(if is_followed { Inside::Followed } else { Inside::AtStart });
}

fn watch_loader(way: Way) -> bool {
    resolve::loader_event().is_some_and(|place| loader::watch(place, loader_hook(), way))
}

/// Makes hooks for the allocators inside the objects of a program that runs, and lists the places that are to be written so that they are called. The
/// loader has its lock.
#[cold]
pub fn prepare() {
    let Some(status) = Status::read() else { return families::have_become(Inside::NoProc) };
    if status.seccomp != Some(0) {
        return families::have_become(Inside::Filtered);
    }
    forget_unloaded();
    places::list_again();
    let is_known = |object: &&LinkMap| {
        let [record, _] = identity(object);
        families::families().any(|family| family.object[0].load(Relaxed) == record)
    };
    resolve::objects()
        .filter(|object| !is_known(object))
        .for_each(|object| hook(object, Way::Listed));
    note_last();
    // Where there is no allocator, nobody is stopped to learn of later ones.
    if places::are_any() && !places::has_loader() {
        watch_loader(Way::Listed);
    }
    families::have_become(Inside::AtStart);
    IS_PREPARED.store(1, Relaxed);
}

/// What was to be written from outside has been written, or will not be.
pub fn settle() {
    places::settle();
    let is_prepared = IS_PREPARED.swap(0, Relaxed) != 0;
    let is_any = places::written() > 0;
    families::pause(!is_any);
    if is_any {
        let is_followed = places::is_loader_watched();
        families::have_become(if is_followed { Inside::Followed } else { Inside::AtStart });
    } else if !is_prepared {
        families::have_become(Inside::Off);
    }
}

/// The loader has changed its list, or is about to. It has its lock.
pub extern "C" fn follow() {
    if !permit::is_full() || !resolve::is_list_whole() {
        return;
    }
    let way = if orders::is_attached() { Way::Noted } else { Way::ForGood };
    let last = LAST.load(Relaxed).cast_const();
    let is_last = |object: &&LinkMap| core::ptr::eq(*object, last);
    // Objects are added behind all others. If the last one is gone, some were unloaded.
    resolve::objects()
        .skip_while(|object| !is_last(object))
        .skip(1)
        .for_each(|object| hook(object, way));
    forget_unloaded();
    note_last();
}

fn note_last() {
    let last = resolve::objects().last().map_or(core::ptr::null(), core::ptr::from_ref);
    LAST.store(last.cast_mut(), Relaxed);
}

fn identity(object: &LinkMap) -> [u64; 2] {
    [core::ptr::from_ref(object) as u64, object.dynamic as u64]
}

fn forget_unloaded() {
    for (family, number) in families::families().zip(1..) {
        let known = family.object.each_ref().map(|word| word.load(Relaxed));
        if !resolve::objects().any(|object| identity(object) == known) {
            family.forget();
            places::forget(number);
        }
    }
}

/// Hooks what allocators an object has inside.
fn hook(object: &'static LinkMap, way: Way) {
    if !may_have_allocator(object) {
        return;
    }
    found::find(object, &mut |found: &mut Found| {
        // SAFETY: the loader gives every object a name that ends.
        let path = unsafe { CStr::from_ptr(object.name) }.to_bytes();
        let kind = found.kind() as u32;
        // One that was unloaded and comes back is the same allocator.
        let is_it = |family: &Family, facts: &Facts| {
            family.object[0].load(Relaxed) == 0 && facts.kind == kind && facts.path() == path
        };
        let both = families::families().zip(families::all());
        let known = both.into_iter().enumerate().find(|(_, (family, facts))| is_it(family, facts));
        let (number, family) = match known {
            Some((number, (family, _))) => (number, family),
            None => match families::next() {
                Some(family) => (families::count() as usize, family),
                None => return,
            },
        };
        let [start, bytes] = family.area.each_ref().map(|word| word.load(Relaxed));
        let area = Area { start, bytes };
        let Area { start, bytes } =
            found.hook(PRELOADED_FAMILY + 1 + number as u8, &addresses(), area, way);
        family.is_unwritten.store(0, Relaxed);
        family.area.iter().zip([start, bytes]).for_each(|(to, word)| to.store(word, Relaxed));
        family.object.iter().zip(identity(object)).for_each(|(to, word)| to.store(word, Relaxed));
        let put = |to: &[[AtomicU64; 2]], ranges: &mut dyn Iterator<Item = [u64; 2]>| {
            for (to, range) in to.iter().zip(ranges) {
                to.iter().zip(range).for_each(|(to, word)| to.store(word, Relaxed));
            }
        };
        put(&family.ranges, &mut found.ranges());
        put(&family.hooked, &mut found.hooked());
        if known.is_none() {
            let mut facts = Facts {
                kind,
                object: object.bias as u64,
                states: found.states(),
                path: Text::new(),
            };
            facts.path.push(path);
            // SAFETY: the loader has its lock, or there is no other thread.
            unsafe { families::add(facts) };
        }
    });
}

fn addresses() -> trampoline::Addresses {
    trampoline::Addresses {
        slow: crate::arch::hooks::inside::slow_path(),
        page_filter: (&raw const crate::page_filter::PAGE_FILTER) as u64,
        countdown: crate::arch::countdown_offset(),
    }
}

/// Whether an object may have an allocator of its own: it asks the kernel for memory, and does not give malloc to others, as those libraries
/// do that the preloaded functions call.
fn may_have_allocator(object: &LinkMap) -> bool {
    let is_executable = resolve::is_executable(object);
    let is_ours = object.dynamic as usize == resolve::own_dynamic();
    !is_ours
        && !object.dynamic.is_null()
        && !resolve::has_text_relocations(object)
        && (is_executable || !resolve::defines(object, c"malloc"))
        && resolve::imports_any(object, &[c"mmap", c"mmap64", c"sbrk", c"syscall"])
}
