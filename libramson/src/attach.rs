//! Into a program that runs, and out of it again: the hooks are written into the slots through which its objects call the functions that
//! they replace, and what the slots had is put back. Which slots there are is found out from outside, where a mistake harms nobody.
//!
//! Both run on a borrowed thread, in a callback of dl_iterate_phdr(3) and with the loader's lock: it loads and unloads nothing meanwhile. A slot is
//! written only if its object is still in the loader's list, and if it leads to the very function that the hook goes on to.

mod later;

pub use later::follow;

use crate::arch::{self, hooks};
use crate::counter;
use crate::orders::{self, CONTROL, Pace};
use crate::parking::parked;
use crate::process;
use crate::resolve::{self, LinkMap};
use crate::sys::{self, Status};
use crate::{families, inside, walk};
use core::ffi::CStr;
use core::sync::atomic::Ordering::*;
use ramson_format::PAGE_BYTES;
use ramson_format::atomic::AtomicU64;
use ramson_format::control::{
    Action, HOOKED, MOST_LISTED, MOST_SLOTS, Request, SLOT_WORDS, Slot, outcome, slot_flags,
    slot_state,
};
use ramson_format::settings::PATH_BYTES;

/// The table of slots, in its own words.
#[repr(transparent)]
pub struct Slots([[AtomicU64; SLOT_WORDS]; MOST_SLOTS]);

/// The slots that are or were listed.
#[unsafe(export_name = "ramson_slots")]
pub static SLOTS: Slots = Slots([const { [const { AtomicU64::new(0) }; SLOT_WORDS] }; MOST_SLOTS]);

/// Those that are listed from outside, and those of objects that came later.
fn slots() -> (&'static [Slot], &'static [Slot]) {
    // SAFETY: a `Slot` is `repr(C)` and of atomic words only, and `SLOT_WORDS` is counted from it, so a row is a slot; a field that is no
    // such word would be read as what the words are not.
    let all = unsafe { &*(&raw const SLOTS).cast::<[Slot; MOST_SLOTS]>() };
    all.split_at(MOST_LISTED)
}

/// An object as dl_iterate_phdr(3) describes it (`struct dl_phdr_info`), in words: the fifth is how many objects were ever loaded.
pub type ObjectInfo = [u64; 6];

/// Does what is asked for in `CONTROL`. `info_bytes` says how much of `info` there is.
pub extern "C" fn act(info: &ObjectInfo, info_bytes: usize) {
    let count = (info_bytes >= size_of::<ObjectInfo>()).then(|| info[4]);
    let words = CONTROL.request.each_ref().map(|word| word.load(Acquire));
    let directory = CONTROL.directory.each_ref().map(|word| word.load(Acquire));
    let Some(request) = Request::of_words(&words, &directory) else {
        return CONTROL.outcome.store(outcome::UNREADABLE, Release);
    };
    let listed = slots().0.get(..request.slots as usize).unwrap_or_default();
    let work = || match request.action {
        Action::Attach => attach(&request, listed, &directory.map(u64::to_le_bytes), count),
        Action::Prepare => prepare(&request, &directory.map(u64::to_le_bytes)),
        Action::Detach => {
            families::pause(true);
            later::end();
            restore(listed);
            restore(slots().1);
            outcome::DONE
        }
    };
    let came = later::with_lock(&request.loader, || later::while_halted(work))
        .flatten()
        .unwrap_or(outcome::BUSY);
    let is_patched =
        |slot: &&Slot| slot.state.load(Relaxed) == slot_state::PATCHED && is_there(slot);
    let patched = slots().0.iter().chain(slots().1).filter(is_patched).count();
    CONTROL.follows.store(later::is_on() as u64, Relaxed);
    CONTROL.patched.store((patched + inside::places::written()) as u64, Relaxed);
    CONTROL.outcome.store(request.number << 8 | came, Release);
}

type Directory = [[u8; 8]; PATH_BYTES / 8];

/// Sets the library up, once. Returns its own record; `None` if the program is not as expected.
fn enter(request: &Request, directory: &Directory) -> Option<&'static LinkMap> {
    let directory = CStr::from_bytes_until_nul(directory.as_flattened()).unwrap_or_default();
    if !process::take_config(request, directory.to_bytes()) {
        return None;
    }
    // Whether a page may be written to is asked of the kernel.
    sys::look_for_filters(Status::read().as_ref(), request.tried_filters);
    resolve::find_first(c"malloc")?;
    let own = resolve::own_object()?;
    if !orders::is_attached() {
        crate::hooks::bind_to_present();
        walk::hide_data(own);
    }
    CONTROL.is_attached.store(1, Release);
    Some(own)
}

fn prepare(request: &Request, directory: &Directory) -> u64 {
    if enter(request, directory).is_none() {
        return outcome::UNKNOWN;
    }
    counter::ask_again();
    inside::prepare();
    counter::ask_again();
    outcome::DONE
}

fn attach(request: &Request, listed: &[Slot], directory: &Directory, count: Option<u64>) -> u64 {
    let Some(own) = enter(request, directory) else { return outcome::UNKNOWN };
    counter::ask_again();
    inside::settle();
    for slots in [listed, slots().1] {
        write(slots, leads_inside, |slot, word| {
            put_back(own, slot, word);
            slot_state::INSIDE
        });
    }
    write(listed, is_listed, |slot, word| place(own, slot, word));
    // A thread that had a hook for malloc before that for prctl has asked too early.
    counter::ask_again();
    later::begin(&request.loader, listed, count);
    outcome::DONE
}

/// Begins to record, or ends it. Not within the loader's lock, as files are made.
pub extern "C" fn settle() {
    let thread = arch::thread();
    let is_sampling = matches!(process::pace(), Pace::Sampling(_));
    parked(thread, || {
        let recorder =
            if is_sampling { process::recorder_for_sample(thread) } else { process::recorder() };
        let Some(recorder) = recorder else { return };
        if is_sampling {
            recorder.forget_before_attach();
            process::move_out(recorder, false);
        }
        recorder.note_hooks(CONTROL.patched.load(Relaxed) > 0);
        recorder.tell_allocators();
    });
}

fn is_listed(slot: &Slot) -> bool {
    slot.state.load(Relaxed) == slot_state::LISTED
}

/// Puts back what each slot had, if it still has our hook. A process that was forked while slots were written has some as listed.
fn restore(slots: &[Slot]) {
    let Some(own) = resolve::own_object() else { return };
    let is_ours =
        |slot: &Slot| [slot_state::PATCHED, slot_state::LISTED].contains(&slot.state.load(Relaxed));
    write(slots, is_ours, |slot, word| put_back(own, slot, word));
}

fn put_back(own: &LinkMap, slot: &Slot, word: &AtomicU64) -> u64 {
    let before = slot.before.load(Relaxed);
    let Some((hook, real)) = hook_of(own, slot) else { return slot_state::OTHER };
    match word.compare_exchange(hook, before, AcqRel, Relaxed) {
        // The loader has bound it meanwhile, or an object that was loaded anew: there is no hook.
        Err(now) if now != before && now != real => slot_state::OTHER,
        _ => slot_state::FREE,
    }
}

/// Whether the slot has our hook, and the function has one in its object by now: a call would count twice.
fn leads_inside(slot: &Slot) -> bool {
    let real = HOOKED.get(slot.hook.load(Relaxed) as usize).and_then(|name| hooks::real_of(name));
    slot.state.load(Relaxed) == slot_state::PATCHED
        && real.is_some_and(|(_, real)| families::is_in_hooked(real as u64))
}

/// Puts the hook into a slot that leads to the function that the hook goes on to, or will once it is bound.
fn place(own: &LinkMap, slot: &Slot, word: &AtomicU64) -> u64 {
    let Some((hook, real)) = hook_of(own, slot) else { return slot_state::OTHER };
    if families::is_in_hooked(real) {
        return slot_state::INSIDE;
    }
    let is_lazy = slot.flags.load(Relaxed) & slot_flags::LAZY != 0;
    let before = if is_lazy { slot.before.load(Relaxed) } else { real };
    match word.compare_exchange(before, hook, AcqRel, Relaxed) {
        Ok(_) => {
            slot.before.store(before, Relaxed);
            slot_state::PATCHED
        }
        Err(_) => slot_state::OTHER,
    }
}

/// A hook, and where it goes on; `None` if it must not be used here.
fn hook_of(own: &LinkMap, slot: &Slot) -> Option<(u64, u64)> {
    let name = HOOKED.get(slot.hook.load(Relaxed) as usize)?;
    let (name, real) = hooks::real_of(name)?;
    Some((resolve::find_in(own, name)? as u64, real as u64))
}

/// Gives each slot in a state that is meant a new one by `put`, while its page can be written. Slots of one page that follow each other
/// share that.
fn write(
    slots: &[Slot],
    is_in_state: impl Fn(&Slot) -> bool,
    put: impl Fn(&Slot, &AtomicU64) -> u64,
) {
    let mut rest = slots;
    while let [first, ..] = rest {
        let page = |slot: &Slot| slot.address.load(Relaxed) & !(PAGE_BYTES - 1);
        let is_together = |slot: &&Slot| {
            page(slot) == page(first) && slot.object.load(Relaxed) == first.object.load(Relaxed)
        };
        let count = rest.iter().take_while(is_together).count().max(1);
        let (together, others) = rest.split_at(count);
        rest = others;
        let is_meant = |slot: &&Slot| is_in_state(slot) && is_there(slot);
        if !together.iter().any(|slot| is_meant(&slot)) {
            continue;
        }
        let written = sys::with_page_writable(page(first) as *const u8, || {
            for slot in together.iter().filter(is_meant) {
                // SAFETY: the object is loaded, as no object is unloaded meanwhile; the slot is an aligned word of it on a page that can be
                // written now. A table that lists what is no slot would break it: who may write there may write everywhere.
                let word = unsafe { &*(slot.address.load(Relaxed) as *const AtomicU64) };
                slot.state.store(put(slot, word), Relaxed);
            }
        });
        if written.is_err() {
            together
                .iter()
                .filter(is_meant)
                .for_each(|slot| slot.state.store(slot_state::FAILED, Relaxed));
        }
    }
}

/// Whether the slot's object is still loaded.
fn is_there(slot: &Slot) -> bool {
    let (object, dynamic) = (slot.object.load(Relaxed), slot.dynamic.load(Relaxed));
    slot.address.load(Relaxed).is_multiple_of(8)
        && resolve::objects().any(|known| identity(known) == [object, dynamic])
}

/// Identity of a loaded object, which tells it from the others.
fn identity(object: &LinkMap) -> [u64; 2] {
    [core::ptr::from_ref(object) as u64, object.dynamic as u64]
}
