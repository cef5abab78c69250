//! `ramson list`: which profiles there are.

use crate::flags::ListFlags;
use crate::output::{hint, print, print_json, remark};
use crate::run::prune::{self, Bounds, Pruned};
use crate::table;
use ramson_analysis::listing::{self, Listing, Wanted};
use ramson_source::{Failure, places};
use serde::Serialize;

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
    let listing = listing::list(&wanted);
    if flags.json {
        return print_json("list", &ListAnswer { listing, pruned });
    }
    pruned.iter().for_each(remark);
    listing.unreadable.iter().for_each(remark);
    match listing.left_out {
        _ if !listing.profiles.is_empty() => print(&table::listing::text(&listing, flags.rows)),
        0 => {
            hint("no profiles. Start a program with \"ramson run -- CMD\"");
            Ok(())
        }
        count => Err(Failure::not_found(format!(
            "no profile matches (of {count}). \"ramson list\" shows them all"
        ))),
    }
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
