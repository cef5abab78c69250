//! A program is left as it was found.

use super::act::{act, loader_of, number};
use super::guest::{Guest, ListedSlot};
use super::inside;
use super::library::{self, Functions};
use super::site::Site;
use super::theirs;
use crate::outside::{milliseconds, refused, with_process};
use ramson_format::DEFAULT_FILE_BYTES;
use ramson_format::control::{Action, MOST_LISTED, Orders, Request, slot_state};
use ramson_source::{Failure, Target, gone};
use serde::Serialize;

/// A process that is not recorded any more, or was not.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Detached {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Pointers that have again what they had.
    pub slots: u64,
    /// Places in code that have again what they had.
    pub places: usize,
    /// Pointers that other code has changed since, and that lead to hooks by way of that code.
    pub kept: u64,
    /// How long a thread was stopped, each time.
    pub stopped_ms: Vec<f64>,
    /// From the first look on.
    pub elapsed_ms: f64,
}

/// Leaves a program as it was found.
pub fn detach(target: &Target) -> Result<Detached, Failure> {
    with_process(target, |process| remove(Site::open(target, process)?))
}

fn remove(mut site: Site) -> Result<Detached, Failure> {
    let target = site.target();
    let (found, objects) = site.guest()?;
    let left_open = library::left_open(target.pid);
    let is_there = found.is_some();
    if !is_there && left_open.is_none() {
        return Ok(detached(&site, 0, 0, 0));
    }
    let functions = Functions::find(&mut site.callee, &objects)?;
    if let Some(place) = left_open {
        let closed =
            site.calling(|caller, stops| library::close(caller, &functions, &place, stops));
        // Without hooks there is nothing to undo; a descriptor that stays is harmless.
        if is_there {
            closed?;
        }
    }
    let mut slots = 0;
    let mut kept = 0;
    let mut places = 0;
    if let Some(guest) = found {
        let state = guest.state(target, site.memory())?;
        guest.rename(target, site.memory())?;
        if !state.is_attached && !guest.was_brought(&site.callee.areas) {
            let next = format!("\"ramson set {} --off\" stops sampling", target.pid);
            return Err(refused(
                target,
                "it was started under ramson, so its hooks cannot be removed",
                &next,
            ));
        }
        places = inside::leave(&mut site, &guest)?;
        let listed = guest.slots(target, site.memory())?;
        let later = guest.later_slots(target, site.memory())?;
        let before = [&listed[..], &later].concat();
        if state.patched > 0 || before.iter().any(ListedSlot::is_patched) {
            let theirs = theirs(&guest, target, site.memory(), &objects)?;
            slots = theirs.iter().filter(|slot| slot.is_patched()).count() as u64;
            kept = restore(&mut site, &functions, &guest, [&listed, &later])?;
        }
    }
    Ok(detached(&site, slots - kept.min(slots), kept, places))
}

fn detached(site: &Site, slots: u64, kept: u64, places: usize) -> Detached {
    Detached {
        pid: site.target().pid,
        name: site.target().name.clone(),
        slots,
        kept,
        places,
        stopped_ms: site.stopped_ms(),
        elapsed_ms: milliseconds(site.begin.elapsed()),
    }
}

/// Returns how many slots lead elsewhere by now.
fn restore(
    site: &mut Site,
    functions: &Functions,
    guest: &Guest,
    [listed, later]: [&[ListedSlot]; 2],
) -> Result<u64, Failure> {
    let target = site.target();
    let orders = guest.state(target, site.memory())?.orders;
    let orders = orders.ok_or_else(|| gone(target))?;
    guest.order(target, &Orders { is_off: true, number: number(), ..orders })?;
    let request = Request {
        action: Action::Detach,
        slots: listed.len() as u64,
        interval_bytes: orders.interval_bytes,
        max_overhead_ppm: orders.max_overhead_ppm,
        file_bytes: DEFAULT_FILE_BYTES,
        tried_filters: None,
        pid: 0,
        program_headers: 0,
        entropy: 0,
        number: number() & (u64::MAX >> 8),
        loader: loader_of(site, functions, 0),
    };
    act(site, functions, guest, &request, &[])?;
    let is_kept = |(before, after): &(&ListedSlot, &ListedSlot)| {
        before.is_patched() && after.state == slot_state::OTHER
    };
    let kept = |before: &[ListedSlot], after: &[ListedSlot]| {
        before.iter().zip(after).filter(is_kept).count() as u64
    };
    let came_later = guest.later_slots(target, site.memory())?;
    let kept = kept(listed, &guest.slots(target, site.memory())?) + kept(later, &came_later);
    let empty =
        ListedSlot { object: 0, dynamic: 0, address: 0, before: 0, hook: 0, flags: 0, state: 0 };
    guest.list(target, 0, &vec![empty; listed.len()])?;
    guest.list(target, MOST_LISTED, &vec![empty; came_later.len()])?;
    Ok(kept)
}
