//! A running program is recorded from now on, and left as it was found (docs/internals/attach.md).

mod act;
mod bounded;
mod detach;
mod guest;
mod inside;
mod library;
mod loader;
mod object;
mod preflight;
mod set;
mod site;
mod slots;

pub use detach::{Detached, detach};
pub use set::{Changes, Set, set};

use crate::outside::{milliseconds, refused, with_process};
use act::{act, loader_of, number};
use bounded::Bounded;
use guest::{Guest, ListedSlot, State, name_of};
use library::Functions;
use loader::RESTART;
use object::{Object, words};
use ramson_format::control::{self, Action, MOST_LISTED, Orders, Request};
use ramson_format::{DEFAULT_FILE_BYTES, Inside, flags};
use ramson_process::{ProcessMemory, clock, identify, read_smaps};
use ramson_reader::Allocator;
use ramson_source::{Failure, Target, find_target, gone};
use serde::Serialize;
use site::Site;
use std::time::Duration;

/// How to record.
pub struct Options<'a> {
    /// Mean bytes from one sample to the next.
    pub interval_bytes: u64,
    /// Bound of the CPU time of samples, in millionths; 0 is none.
    pub max_overhead_ppm: u32,
    /// After that no samples are taken any more.
    pub duration: Option<Duration>,
    /// For the profile; as the process sees it. `None`: the usual one of its user.
    pub directory: Option<&'a [u8]>,
    /// The bytes of libramson.so.
    pub library: &'a [u8],
    /// Allocators inside the executable and libraries are recorded, too.
    pub inside: bool,
}

/// A process that is recorded from now on, or was already.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Attached {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// It was recorded before.
    pub was_recorded: bool,
    /// How long it has been recorded, in milliseconds, if that is known.
    pub recorded_for_ms: Option<f64>,
    /// Mean bytes from one sample to the next.
    pub interval_bytes: u64,
    /// Objects that call allocation functions through pointers.
    pub objects: usize,
    /// Those of them whose calls are not seen, or not all.
    pub missed: Vec<String>,
    /// Pointers that lead to hooks.
    pub slots: u64,
    /// Allocators whose functions have hooks inside an object: `jemalloc in the executable`.
    pub inside: Vec<String>,
    /// Libraries that it loads from now on are seen, too.
    pub follows: bool,
    /// Place of the profile: a file, or the process's memory.
    pub profile: Option<String>,
    /// The profile ends with the process: no directory could be written.
    pub is_in_memory: bool,
    /// How long a thread was stopped, each time.
    pub stopped_ms: Vec<f64>,
    /// From the first look on.
    pub elapsed_ms: f64,
}

/// Records a running program from now on.
pub fn attach(target: &Target, options: &Options) -> Result<Attached, Failure> {
    with_process(target, |process| record(Site::open(target, process)?, options))
}

/// Fails if the process cannot be recorded from now on, as far as that can be told without doing anything to it. Returns whether its allocator
/// is reached with `Options::inside` only.
pub fn attachable(target: &Target) -> Result<bool, Failure> {
    with_process(target, |process| {
        let mut site = Site::open(target, process)?;
        let (found, objects) = site.guest()?;
        let state = state_of(&site, found.as_ref())?;
        refuse_silent(&site, found.as_ref(), state)?;
        let is_inside = site.callee.allocators.inside().is_some();
        preflight::check(target, &site.callee.process, &site.callee.allocators, is_inside)?;
        Functions::find(&mut site.callee, &objects).map(|_| is_inside)
    })
}

fn record(mut site: Site, options: &Options) -> Result<Attached, Failure> {
    let target = site.target();
    let (found, objects) = site.guest()?;
    let state = state_of(&site, found.as_ref())?;
    if state.is_some_and(|state| !state.is_attached) && target.profile.is_some() {
        return Ok(answer(&site, true, true, &[], 0, Vec::new()));
    }
    refuse_silent(&site, found.as_ref(), state)?;
    let Site { callee, .. } = &site;
    let facts = preflight::check(target, &callee.process, &callee.allocators, options.inside)?;
    let functions = Functions::find(&mut site.callee, &objects)?;
    let is_running = state.is_some_and(|state| {
        state.patched > 0 && state.orders.is_some_and(|orders| !is_over(&orders))
    });
    let guest = match found {
        Some(guest) => {
            if let Some(place) = library::left_open(target.pid) {
                site.calling(|caller, stops| library::close(caller, &functions, &place, stops))?;
            }
            guest
        }
        None => load(&mut site, &functions, options.library)?,
    };
    guest.rename(target, site.memory())?;
    let count = words(site.memory(), site.loader.count_at).map_or(0, |[count]| count);
    let (_, objects) = site.guest()?;
    let listed = slots_of(&site, &objects)?;
    let known = guest.slots(target, site.memory())?;
    let later = guest.later_slots(target, site.memory())?;
    let fresh = fresh(&[&known[..], &later].concat(), &listed.slots);
    let is_idle = is_running && fresh.is_empty() && target.profile.is_some() && !options.inside;
    if !is_idle {
        let total = enlist(&guest, target, &known, &fresh)?;
        if !is_running {
            guest.order(target, &orders_of(options))?;
        }
        let request = request_of(options, &facts, total);
        if options.inside {
            let directory = options.directory.unwrap_or_default();
            inside::enter(&mut site, &functions, &guest, &request, directory)?;
        }
        let loader = loader_of(&site, &functions, count);
        let request = Request { loader, ..request };
        act(&mut site, &functions, &guest, &request, options.directory.unwrap_or_default())?;
    }
    let after = theirs(&guest, target, site.memory(), &objects)?;
    let (objects, missed) = slots::coverage(&listed, &after);
    let missed = named(site.memory(), &missed);
    let follows = guest.state(target, site.memory())?.follows;
    Ok(answer(&site, is_running, follows, &after, objects, missed))
}

/// State of the library in the process; `None` if it is not there.
fn state_of(site: &Site, guest: Option<&Guest>) -> Result<Option<State>, Failure> {
    guest.map(|guest| guest.state(site.target(), site.memory())).transpose()
}

/// Fails if the process was started with a library that has not set itself up yet: there is nothing to attach to.
fn refuse_silent(site: &Site, guest: Option<&Guest>, state: Option<State>) -> Result<(), Failure> {
    let (target, callee) = (site.target(), &site.callee);
    let is_silent = state.is_some_and(|state| !state.is_attached && state.outcome == 0);
    if !is_silent || guest.is_some_and(|guest| guest.was_brought(&callee.areas)) {
        return Ok(());
    }
    if let Some(inside) = callee.allocators.inside() {
        return Err(preflight::unseen(target, inside));
    }
    let next = "Wait until it has allocated more, or set a smaller interval with \"ramson set\"";
    Err(refused(target, "it was started with libramson.so, which has recorded nothing yet", next))
}

/// The slots of objects that are in the loader's list.
fn slots_of(site: &Site, objects: &[Object]) -> Result<slots::Found, Failure> {
    let target = site.target();
    // Every object that is in the list now has then been loaded completely.
    let is_free = site.loader.is_seen_free(site.memory(), Duration::from_secs(1));
    is_free.then_some(()).ok_or_else(|| loader::busy(target))?;
    let areas = read_smaps(target.pid).map_err(|_| gone(target))?;
    let bounded = Bounded::new(site.memory(), &site.allowance);
    let listed = slots::find(&bounded, objects, &areas);
    if bounded.is_used_up() { Err(loader::too_large(target)) } else { Ok(listed) }
}

/// Returns the slots of the program's own objects, as the table has them by now.
fn theirs(
    guest: &Guest,
    target: &Target,
    memory: &ProcessMemory,
    objects: &[Object],
) -> Result<Vec<ListedSlot>, Failure> {
    let is_theirs = |slot: &ListedSlot| {
        let is_it =
            |object: &Object| (object.record, object.dynamic_at) == (slot.object, slot.dynamic);
        slot.object != guest.record && objects.iter().any(is_it)
    };
    let mut slots = guest.slots(target, memory)?;
    slots.extend(guest.later_slots(target, memory)?);
    slots.retain(is_theirs);
    Ok(slots)
}

fn request_of(options: &Options, facts: &preflight::Facts, slots: u64) -> Request {
    Request {
        action: Action::Attach,
        slots,
        interval_bytes: options.interval_bytes,
        max_overhead_ppm: options.max_overhead_ppm,
        file_bytes: DEFAULT_FILE_BYTES,
        tried_filters: facts.filters,
        pid: facts.own_pid,
        program_headers: facts.program_headers,
        entropy: number(),
        number: number() & (u64::MAX >> 8),
        loader: control::Loader::default(),
    }
}

fn is_over(orders: &Orders) -> bool {
    let until_ns = orders.until_monotonic_ns;
    orders.is_off || until_ns != 0 && until_ns <= clock::monotonic_ns()
}

fn orders_of(options: &Options) -> Orders {
    let until = options.duration.map(|time| clock::monotonic_ns() + time.as_nanos() as u64);
    Orders {
        interval_bytes: options.interval_bytes,
        max_overhead_ppm: options.max_overhead_ppm,
        is_off: false,
        until_monotonic_ns: until.unwrap_or(0),
        number: number(),
    }
}

fn load(site: &mut Site, functions: &Functions, library: &[u8]) -> Result<Guest, Failure> {
    let target = site.target();
    site.calling(|caller, stops| library::load(caller, functions, library, stops))?;
    if let (Some(guest), _) = site.guest()? {
        return Ok(guest);
    }
    site.calling(|caller, stops| {
        library::forget_error(caller, functions, stops);
        Ok(())
    })?;
    let why = "its loader refused libramson.so: no room is left for thread-local storage, or executable memory is forbidden";
    Err(refused(target, why, RESTART))
}

/// Those that are not hooked already.
fn fresh(known: &[ListedSlot], listed: &[ListedSlot]) -> Vec<ListedSlot> {
    let is_known = |slot: &&ListedSlot| {
        known.iter().any(|other| {
            other.is_patched()
                && (other.object, other.dynamic, other.address)
                    == (slot.object, slot.dynamic, slot.address)
        })
    };
    listed.iter().filter(|slot| !is_known(slot)).copied().collect()
}

/// Puts the slots into the table, behind those that are hooked. Returns its length.
fn enlist(
    guest: &Guest,
    target: &Target,
    known: &[ListedSlot],
    fresh: &[ListedSlot],
) -> Result<u64, Failure> {
    let used = known.iter().rposition(ListedSlot::is_patched).map_or(0, |last| last + 1);
    let room = MOST_LISTED - used;
    let fresh = &fresh[..fresh.len().min(room)];
    guest.list(target, used, fresh)?;
    Ok((used + fresh.len()) as u64)
}

fn named(memory: &ProcessMemory, records: &[u64]) -> Vec<String> {
    let name = |&record: &u64| {
        let name = name_of(memory, record)?;
        let name = identify::base_name(&name).to_owned();
        Some(if name.is_empty() { "the executable".to_owned() } else { name })
    };
    records.iter().filter_map(name).collect()
}

fn answer(
    site: &Site,
    was_recorded: bool,
    follows: bool,
    slots: &[ListedSlot],
    objects: usize,
    missed: Vec<String>,
) -> Attached {
    let target = site.target();
    let found = find_target(&target.pid.to_string()).ok();
    let profile = found.and_then(|target| target.profile);
    let header = profile.as_ref().map(|recording| &recording.snapshot.header);
    let start_ns = header.map(|header| header.live_since_ns()).filter(|_| was_recorded);
    // An earlier attach may have had hooks in them.
    let is_inside = header.is_some_and(|header| Inside::of(header.inside) != Inside::Off);
    let allocators = profile.as_ref().filter(|_| is_inside).map(|it| &it.snapshot.allocators);
    let inside = allocators.map(|all| all.iter().filter_map(Allocator::hooked_name).collect());
    let in_memory = flags::MEMFD | flags::PRIVATE;
    Attached {
        pid: target.pid,
        name: target.name.clone(),
        was_recorded,
        recorded_for_ms: start_ns.map(|start_ns| {
            milliseconds(Duration::from_nanos(clock::monotonic_ns().saturating_sub(start_ns)))
        }),
        interval_bytes: header.map_or(0, |header| match header.configured_interval_bytes {
            0 => header.interval_bytes,
            configured => configured,
        }),
        objects,
        missed,
        slots: slots.iter().filter(|slot| slot.is_patched()).count() as u64,
        inside: inside.unwrap_or_default(),
        follows,
        is_in_memory: header.is_some_and(|header| header.flags & in_memory != 0),
        profile: profile.map(|recording| recording.origin),
        stopped_ms: site.stopped_ms(),
        elapsed_ms: milliseconds(site.begin.elapsed()),
    }
}
