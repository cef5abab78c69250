//! Hooks in allocators inside objects: the library in the process makes them, and the places in code that lead to them are written from here.

use super::act::{act, loader_of, number};
use super::guest::{Guest, ListedPlace};
use super::library::Functions;
use super::site::Site;
use crate::outside::{failure, refused};
use ramson_format::control::{Action, Request, place_state};
use ramson_inject::{Patch, Problem, Standstill, write_code};
use ramson_source::Failure;

/// How often the library is asked again while the program loads or unloads objects.
const MOST_TRIES: u32 = 20;

/// Has the places written.
pub fn enter(
    site: &mut Site,
    functions: &Functions,
    guest: &Guest,
    request: &Request,
    directory: &[u8],
) -> Result<(), Failure> {
    let target = site.target();
    for _ in 0..MOST_TRIES {
        let before = site.loader.changes(site.memory());
        let loader = loader_of(site, functions, 0);
        let request = Request { action: Action::Prepare, number: number(), loader, ..*request };
        act(site, functions, guest, &request, directory)?;
        let places = guest.places(target, site.memory())?;
        let is_wanted = |place: &&ListedPlace| {
            ![place_state::FREE, place_state::RESTORED].contains(&place.state)
                && place.is_now(site.memory(), place.before)
        };
        let patches: Vec<Patch> = places
            .iter()
            .filter(is_wanted)
            .map(|place| Patch {
                before: place.before.to_le_bytes(),
                after: place.after.to_le_bytes(),
                group: place.family,
                note: (place.state_at, place_state::WRITTEN),
                ..place.patch()
            })
            .collect();
        if patches.is_empty() {
            return Ok(());
        }
        let is_unchanged = || {
            before.is_some_and(|[is_changing, ..]| is_changing as u32 == 0)
                && site.loader.changes(site.memory()) == before
        };
        let done = write(site, &patches, &is_unchanged)?;
        site.stopped(done.stopped);
        if done.written > 0 {
            return Ok(());
        }
    }
    Err(refused(target, "it keeps loading libraries", "Try again"))
}

/// Has again at all places what was there. Returns how many.
pub fn leave(site: &mut Site, guest: &Guest) -> Result<usize, Failure> {
    let places = guest.places(site.target(), site.memory())?;
    let is_wanted = |(_, place): &(u64, &ListedPlace)| {
        place.state != place_state::FREE && place.is_now(site.memory(), place.after)
    };
    let patches: Vec<Patch> = (0..)
        .zip(&places)
        .filter(is_wanted)
        .map(|(group, place)| Patch {
            before: place.after.to_le_bytes(),
            after: place.before.to_le_bytes(),
            // No instruction begins behind the first byte of a jump.
            end: place.address,
            group,
            note: (place.state_at, place_state::RESTORED),
            ..place.patch()
        })
        .collect();
    if patches.is_empty() {
        return Ok(0);
    }
    let done = write(site, &patches, &|| true)?;
    site.stopped(done.stopped);
    Ok(done.written)
}

fn write(
    site: &Site,
    patches: &[Patch],
    is_meant: &dyn Fn() -> bool,
) -> Result<Standstill, Failure> {
    let target = site.target();
    write_code(&site.callee.process, patches, is_meant).map_err(|problem| {
        let Problem::NoThread(why) = problem else { return failure(target, problem) };
        let why = why.map_or(String::new(), |why| format!(" ({why})"));
        let why = format!("its threads could not all be stopped where code can be written{why}");
        refused(target, &why, "Try again, or restart it under \"ramson run\"")
    })
}
