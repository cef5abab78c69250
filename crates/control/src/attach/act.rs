//! Has the library do its work in the process, on a thread that is borrowed.

use super::guest::Guest;
use super::library::Functions;
use super::loader::RESTART;
use super::site::Site;
use crate::outside::refused;
use ramson_format::control::{self, Action, Request, outcome};
use ramson_inject::{Argument, Step};
use ramson_source::Failure;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// How often the library is asked again while a thread of the program loads or unloads an object, …
const MOST_ACTS: u32 = 100;
/// … after so long.
const BETWEEN_ACTS: Duration = Duration::from_millis(10);

/// Tells one request from the next, and seeds samplers.
pub fn number() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40)) >> 8
}

/// Returns what the library needs to notice objects that come later.
pub fn loader_of(site: &Site, functions: &Functions, count: u64) -> control::Loader {
    functions.mutex.map_or_else(control::Loader::default, |[try_lock, unlock]| control::Loader {
        count_at: site.loader.count_at,
        count,
        lock: site.loader.lock(),
        try_lock,
        unlock,
    })
}

/// Has the library do what is asked.
pub fn act(
    site: &mut Site,
    functions: &Functions,
    guest: &Guest,
    request: &Request,
    directory: &[u8],
) -> Result<(), Failure> {
    let target = site.target();
    guest.request(target, request, directory)?;
    let arguments = [Argument::Word(guest.act), Argument::Word(0)];
    let steps = [Step::new(functions.dl_iterate_phdr, &arguments), Step::new(guest.settle, &[])];
    let (first, rest) = match request.action {
        // Two short stops harm less than a long one.
        Action::Attach => steps.split_at(1),
        // An attach follows, or a refusal, after which nothing is recorded.
        Action::Prepare => (&steps[..1], &steps[..0]),
        // Nobody would do later what a detach leaves undone.
        Action::Detach => (&steps[..], &steps[..0]),
    };
    for _ in 0..MOST_ACTS {
        site.call(first)?;
        let state = guest.state(target, site.memory())?;
        if Guest::is_done(&state, request.number) {
            return if rest.is_empty() { Ok(()) } else { site.call(rest) };
        }
        if state.outcome & 0xff == outcome::UNKNOWN {
            return Err(refused(target, "ramson does not know its C library", RESTART));
        }
        sleep(BETWEEN_ACTS);
    }
    let why =
        "it keeps loading libraries, or another ramson is attaching to it or detaching from it";
    Err(refused(target, why, "Try again"))
}
