//! `ramson timeline`: what the history of a process has, moment by moment.

use crate::flags::TimelineFlags;
use crate::output::{print, print_json};
use crate::table;
use ramson_analysis::timeline::timeline as answer;
use ramson_source::Failure;

pub fn timeline(flags: &TimelineFlags) -> Result<(), Failure> {
    let timeline = answer(&flags.source, if flags.csv { 0 } else { flags.rows })?;
    match (flags.json, flags.csv) {
        (true, _) => print_json("timeline", &timeline),
        (false, true) => print(&table::timeline::csv(&timeline)),
        (false, false) => print(&table::timeline::text(&timeline)),
    }
}
