//! `ramson list`: which profiles there are.

use crate::flags::ListFlags;
use crate::output::{hint, print, print_json, remark};
use crate::run::prune::{self, Bounds, Pruned};
use crate::table;
use ramson_analysis::listing::{self, Listing, Wanted};
use ramson_source::{Failure, places};
use serde::Serialize;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Rows that have not come by then are shown in a table of their own: a user's profiles may take seconds.
const SOON: Duration = Duration::from_millis(800);

/// The answer, with what was removed before.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ListAnswer {
    #[serde(flatten)]
    pub listing: Listing,
    /// The profiles that --prune removed; absent without, or if there is no such directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pruned: Option<Pruned>,
}

pub fn list(flags: &ListFlags) -> Result<(), Failure> {
    // Before the list, so that it shows what is left.
    let pruned = flags.prune.then(|| prune(flags)).flatten();
    let wanted = Wanted { is_running: flags.running, user: flags.user, words: flags.words.clone() };
    if flags.json {
        let listing = listing::list(&wanted);
        return print_json("list", &ListAnswer { listing, pruned });
    }
    pruned.iter().for_each(remark);
    let (says, hears) = channel();
    thread::spawn(move || {
        // Whoever hears ends last.
        listing::list_each(&wanted, |part, is_late| says.send((part, is_late)).unwrap_or_default());
    });
    let soon = parts(&hears, Some(Instant::now() + SOON));
    let (mut count, is_any) = (soon.left_out, !soon.profiles.is_empty());
    show(&soon, flags.rows)?;
    let late = parts(&hears, None);
    count += late.left_out;
    show(&late, flags.rows)?;
    match count {
        _ if is_any || !late.profiles.is_empty() => Ok(()),
        0 => {
            hint("no profiles. Start a program with \"ramson run -- CMD\"");
            Ok(())
        }
        count => {
            let wanted = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
            Err(Failure::not_found(format!(
                "{wanted}: none of {count} profiles matches. \"ramson list\" shows them all"
            )))
        }
    }
}

/// Collects the parts that come until then, or all of them. Only other users' profiles may come later.
fn parts(hears: &Receiver<(Listing, bool)>, until: Option<Instant>) -> Listing {
    let mut listing = Listing::default();
    let mut may_end = false;
    loop {
        let part = match until.filter(|_| may_end) {
            Some(until) => hears.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
            None => hears.recv().ok(),
        };
        let Some((part, is_of_others)) = part else { return listing };
        may_end |= !is_of_others;
        listing.add(part);
    }
}

fn show(listing: &Listing, rows: usize) -> Result<(), Failure> {
    listing.unreadable.iter().for_each(remark);
    if listing.profiles.is_empty() {
        return Ok(());
    }
    print(&table::listing::text(listing, rows))
}

fn prune(flags: &ListFlags) -> Option<Pruned> {
    let default = Bounds::from_environment();
    let bounds = Bounds {
        age_ns: flags.max_age.unwrap_or(default.age_ns),
        total_bytes: flags.max_total.unwrap_or(default.total_bytes),
        ..default
    };
    prune::prune(&places::own_profile_directory(), bounds)
}
