//! Objects that are loaded after the attach: the first sample after the loader has finished writes the hooks into their slots, too.
//!
//! Nothing waits. The thread takes the loader's lock only if no thread has it, its own included, which a load or an unload that has not
//! come to its end would; so every object in the list is whole and bound, and stays while its slots are read and written.

use super::{hook_of, identity, is_listed, is_there, place, slots, write};
use crate::resolve::{self, LinkMap, Pointer};
use crate::sys::{self, permit};
use crate::walk::Elf;
use crate::{counter, loads, process, startup};
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use ramson_format::control::{HOOKED, Loader, Slot, slot_flags, slot_state};

/// Addresses from `Loader`.
static LOCK: AtomicU64 = AtomicU64::new(0);
static TRY_LOCK: AtomicU64 = AtomicU64::new(0);
static UNLOCK: AtomicU64 = AtomicU64::new(0);

/// The process in which slots are being looked for; another one's was copied by fork.
static AT_WORK: AtomicU32 = AtomicU32::new(0);
/// The process in which none may be looked for at present.
static HALTED: AtomicU32 = AtomicU32::new(0);
/// When the last look ended and what it took, in cycles.
static LAST: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Pause between two looks, in times of what the last one took: looks have a hundredth of the time at most.
const PAUSE: u64 = 100;

/// Objects that were looked at, by their record: identity, and a slot that has a hook as long as it is the same object, if it has slots.
static KNOWN: [[AtomicU64; 3]; KNOWN_OBJECTS] =
    [const { [const { AtomicU64::new(0) }; 3] }; KNOWN_OBJECTS];
const KNOWN_OBJECTS: usize = 1 << 11;
/// An object that finds no room so near where it belongs takes another's, which is looked at once more.
const PROBES: usize = 8;

/// Whether objects that come later will be noticed.
pub fn is_on() -> bool {
    loads::count().is_some()
}

/// Follows objects from now on. The `listed` slots have been dealt with; they are those of all objects that are there if the loader, by
/// `count`, has loaded none since they were listed.
pub fn begin(loader: &Loader, listed: &[Slot], count: Option<u64>) {
    loads::follow_count_at(0);
    let is_aligned = [loader.count_at, loader.lock].iter().all(|word| word.is_multiple_of(8));
    let is_known = loader.count_at != 0 && is_aligned && loader.count != 0;
    // SAFETY: whoever asks has found the loader's variables there; the loader itself confirms the count.
    if !is_known || count != Some(unsafe { loads::count_in(loader.count_at) }) {
        return;
    }
    for object in resolve::objects() {
        let is_of_it = |slot: &&Slot| {
            [slot.object.load(Relaxed), slot.dynamic.load(Relaxed)] == identity(object)
        };
        let mut own = listed.iter().filter(is_of_it).peekable();
        if count == Some(loader.count) || own.peek().is_some() {
            let hooked = own.find(|slot| slot.state.load(Relaxed) == slot_state::PATCHED);
            know(object, hooked.map_or(0, |slot| slot.address.load(Relaxed)));
        }
    }
    LOCK.store(loader.lock, Relaxed);
    TRY_LOCK.store(loader.try_lock, Relaxed);
    UNLOCK.store(loader.unlock, Relaxed);
    loads::are_seen(loader.count);
    loads::follow_count_at(loader.count_at);
}

/// Follows objects no more.
pub fn end() {
    loads::follow_count_at(0);
    KNOWN.iter().flatten().for_each(|word| word.store(0, Relaxed));
}

/// Runs `work` while no other thread looks for slots; `None` if one does all the time.
pub fn while_halted<T>(work: impl FnOnce() -> T) -> Option<T> {
    const MOST_LOOKS: u32 = 2_000;
    const BETWEEN_NS: u64 = 50_000;
    let own = sys::process_id();
    // Pairs with the look in `follow`: one of the two sees the other.
    HALTED.store(own, SeqCst);
    let is_free = (0..MOST_LOOKS).any(|_| {
        let at_work = AT_WORK.load(SeqCst);
        // Before the first attach no system call may be made, and nobody looks.
        let is_free = at_work == 0 || at_work != own;
        if !is_free {
            sys::pause(BETWEEN_NS);
        }
        is_free
    });
    let result = is_free.then(work);
    HALTED.store(0, SeqCst);
    result
}

/// Writes hooks into the slots of objects that are new, if that can be done at this moment.
#[cold]
pub fn follow() {
    let begin_cycles = counter::cycles();
    let [ended, took] = LAST.each_ref().map(|word| word.load(Relaxed));
    let is_too_soon = begin_cycles != 0 && begin_cycles.wrapping_sub(ended) / PAUSE < took;
    // In a child that shares its parent's memory, the parent's threads go on meanwhile.
    let is_own = startup::recorded_thread_id() == sys::thread_id();
    if is_too_soon || !permit::is_full() || !is_own || !is_lock_free() {
        return;
    }
    // Hazard, never seen: the thread takes a fault while it writes the pointers, and leaves the signal handler by siglongjmp. The loader's lock
    // stays taken.
    sys::without_signals(|| while_locked(look));
    let now = counter::cycles();
    LAST[1].store(now.wrapping_sub(begin_cycles), Relaxed);
    LAST[0].store(now, Relaxed);
    if let Some(recorder) = process::started() {
        recorder.charge(begin_cycles);
    }
}

/// `pthread_mutex_t`: the word, and how often its owner has it.
fn lock_words() -> [u32; 2] {
    let word = LOCK.load(Relaxed) as *const AtomicU32;
    // SAFETY: `begin` was given the loader's lock, which is never unloaded.
    unsafe { [(*word).load(Relaxed), (*word.add(1)).load(Relaxed)] }
}

fn is_lock_free() -> bool {
    lock_words() == [0, 0]
}

/// Runs `work` with the loader's lock, if that is free.
fn while_locked(work: impl FnOnce()) {
    let [lock, try_lock, unlock] = [&LOCK, &TRY_LOCK, &UNLOCK].map(|word| word.load(Relaxed));
    let _ = with_lock(&Loader { lock, try_lock, unlock, ..Loader::default() }, work);
}

/// Runs `work` with the lock that the loader has while it loads or unloads: an object that is being bound is in its list already, and its pages must
/// stay writable. `None`: another thread has it, or this one. If the lock is not known, there are no other threads.
pub fn with_lock<T>(loader: &Loader, work: impl FnOnce() -> T) -> Option<T> {
    type Function = unsafe extern "C" fn(*mut c_void) -> i32;
    // SAFETY: whoever asks gave the C library's functions of this type, or 0.
    let [try_lock, unlock] = [loader.try_lock, loader.unlock]
        .map(|address| unsafe { core::mem::transmute::<u64, Option<Function>>(address) });
    let (Some(try_lock), Some(unlock)) = (try_lock, unlock) else { return Some(work()) };
    let lock = loader.lock as *mut c_void;
    // SAFETY: the lock is a recursive mutex that nobody has destroyed. Neither function calls others of the program.
    unsafe {
        if try_lock(lock) != 0 {
            return None;
        }
        // More than once is had by a load that this thread is in. Behind the word is how often its owner has it.
        let is_alone = (*(loader.lock as *const AtomicU32).add(1)).load(Relaxed) == 1;
        let result = is_alone.then(work);
        unlock(lock);
        result
    }
}

fn look() {
    let own_process = sys::process_id();
    AT_WORK.store(own_process, SeqCst);
    if HALTED.load(SeqCst) != own_process
        && let Some(count) = loads::count()
        && resolve::is_list_whole()
    {
        // Before and after, as in `attach`.
        counter::ask_again();
        loads::are_seen(count);
        if let Some(own) = resolve::own_object() {
            look_at_all(own);
        }
        counter::ask_again();
    }
    AT_WORK.store(0, SeqCst);
}

// Hazard, never seen: another thread forks while this one writes the pointers of a library. The pages of these pointers may stay writable in
// the child.
fn look_at_all(own: &'static LinkMap) {
    let hooks = Hooks::of(own);
    for object in resolve::objects() {
        if core::ptr::eq(object, own) || is_known(object, &hooks) {
            continue;
        }
        let is_all = list(object, &hooks);
        let used = &slots().1[..slots().1.partition_point(|slot| slot.address.load(Relaxed) != 0)];
        write(used, is_listed, |slot, word| place(own, slot, word));
        let is_its = |slot: &&Slot| {
            slot.state.load(Relaxed) == slot_state::PATCHED
                && [slot.object.load(Relaxed), slot.dynamic.load(Relaxed)] == identity(object)
        };
        // An object with pointers that may lead anywhere yet is looked at again.
        if is_all {
            know(object, used.iter().find(is_its).map_or(0, |slot| slot.address.load(Relaxed)));
        }
    }
}

/// The hooks, and where they go on.
struct Hooks {
    hooks: [u64; HOOKED.len()],
    reals: [u64; HOOKED.len()],
}

impl Hooks {
    fn of(own: &LinkMap) -> Self {
        let mut found = Self { hooks: [0; HOOKED.len()], reals: [0; HOOKED.len()] };
        for number in 0..HOOKED.len() {
            let slot = Slot { hook: (number as u64).into(), ..Slot::default() };
            if let Some((hook, real)) = hook_of(own, &slot) {
                found.hooks[number] = hook;
                found.reals[number] = real;
            }
        }
        found
    }
}

/// Puts the slots of an object that lead, or will lead, to hooked functions into the table. False: of some it is not known yet.
fn list(object: &'static LinkMap, hooks: &Hooks) -> bool {
    let Some(elf) = Elf::at(object.bias as u64) else { return true };
    let mut is_all = true;
    let code = elf.code().unwrap_or_default();
    let mut is_one_malloc = None;
    resolve::each_pointer(object, &mut |pointer: &Pointer| {
        if !elf.is_data(pointer.address as u64) || !pointer.address.is_multiple_of(8) {
            return;
        }
        // SAFETY: an aligned word of a segment of the object, which is loaded.
        let before = unsafe { (*(pointer.address as *const AtomicU64)).load(Relaxed) };
        let is_unbound = pointer.may_be_lazy && (code.0..code.1).contains(&before);
        if before == 0 || !is_unbound && !hooks.reals.contains(&before) {
            return;
        }
        // SAFETY: names in the object's table of strings are C strings.
        let name = unsafe { CStr::from_ptr(pointer.name) }.to_bytes();
        let Some(hook) = HOOKED.iter().position(|known| known.as_bytes() == name) else { return };
        // The function that the pointer will be bound to is known if there is one malloc alone.
        if is_unbound
            && (pointer.is_defined || !*is_one_malloc.get_or_insert_with(is_malloc_defined_once))
        {
            is_all = false;
            return;
        }
        let flags = if is_unbound { slot_flags::LAZY } else { 0 };
        add(object, [pointer.address as u64, before, hook as u64, flags]);
    });
    is_all
}

/// Ours, and the loader's (to 2.31 it has one for itself), are nobody else's.
fn is_malloc_defined_once() -> bool {
    let own = resolve::own_dynamic();
    let is_definer = |object: &&LinkMap| {
        object.dynamic as usize != own
            && resolve::defines(object, c"malloc")
            && !resolve::defines(object, c"_r_debug")
    };
    resolve::objects().filter(is_definer).take(2).count() == 1
}

/// In place of what was known of that address, in an entry that was never used, or in one of an object that is gone.
fn add(object: &LinkMap, [address, before, hook, flags]: [u64; 4]) {
    let later = slots().1;
    let at = |slot: &&Slot| [address, 0].contains(&slot.address.load(Relaxed));
    let Some(slot) = later.iter().find(at).or_else(|| later.iter().find(|slot| !is_there(slot)))
    else {
        return;
    };
    slot.state.store(slot_state::FREE, Relaxed);
    let [record, dynamic] = identity(object);
    for (to, word) in [
        (&slot.object, record),
        (&slot.dynamic, dynamic),
        (&slot.address, address),
        (&slot.before, before),
        (&slot.hook, hook),
        (&slot.flags, flags),
    ] {
        to.store(word, Relaxed);
    }
    // A process that is forked now knows what to put back.
    slot.state.store(slot_state::LISTED, Release);
}

fn places_of(record: u64) -> impl Iterator<Item = &'static [AtomicU64; 3]> {
    let first = (record >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53;
    (0..PROBES).map(move |step| &KNOWN[(first as usize + step) % KNOWN_OBJECTS])
}

/// An object with this witness was looked at.
fn know(object: &LinkMap, witness: u64) {
    let [record, dynamic] = identity(object);
    let is_its = |place: &&[AtomicU64; 3]| [record, 0].contains(&place[0].load(Relaxed));
    let Some(place) = places_of(record).find(is_its).or_else(|| places_of(record).next()) else {
        return;
    };
    place.iter().zip([record, dynamic, witness]).for_each(|(to, word)| to.store(word, Relaxed));
}

// Hazard, never seen: a program unloads a library without pointers to hooked functions, and loads another one that has some in the same place
// in memory. The other one counts as known, and gets its hooks at the next attach.
/// Whether it was, and is not another one in that one's place.
fn is_known(object: &LinkMap, hooks: &Hooks) -> bool {
    let [record, dynamic] = identity(object);
    let is_its = |place: &&[AtomicU64; 3]| {
        [place[0].load(Relaxed), place[1].load(Relaxed)] == [record, dynamic]
    };
    let Some(place) = places_of(record).find(is_its) else { return false };
    let witness = place[2].load(Relaxed);
    let mut word = [0; 8];
    // Another object may end before it: the kernel does not fault.
    let range = [[witness as usize, word.len()]];
    witness == 0
        || sys::read_own_memory(sys::process_id(), &range, &mut word) == word.len()
            && hooks.hooks.contains(&u64::from_le_bytes(word))
}
