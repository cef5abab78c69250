//! `ramson list`: which profiles there are.

use crate::flags::ListFlags;
use crate::output::{hint, print, print_json, remark};
use crate::run::prune::{self, Bounds};
use crate::table;
use ramson_analysis::listing;
use ramson_source::{Failure, places};

pub fn list(flags: &ListFlags) -> Result<(), Failure> {
    if flags.prune {
        prune(flags);
    }
    let listing = listing::list();
    if flags.json {
        return print_json("list", &listing);
    }
    listing.unreadable.iter().for_each(remark);
    if listing.profiles.is_empty() {
        hint("no profiles. Start a program with \"ramson run -- CMD\"");
        return Ok(());
    }
    print(&table::listing::text(&listing))
}

/// Before the list, so that it shows what is left.
fn prune(flags: &ListFlags) {
    let default = Bounds::from_environment();
    let bounds = Bounds {
        age_ns: flags.max_age.unwrap_or(default.age_ns),
        total_bytes: flags.max_total.unwrap_or(default.total_bytes),
    };
    let directory = places::own_profile_directory();
    if let Some(summary) = prune::prune(&directory, bounds) {
        hint(&format!("{}: {summary}", directory.display()));
    }
}
