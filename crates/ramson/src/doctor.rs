//! `ramson doctor`: what a process's resident memory is, and what its allocator has of it.

use crate::flags::DoctorFlags;
use crate::output::{print, print_json};
use crate::table;
use ramson_analysis::doctor::examine;
use ramson_process::glibc::{Effort, MOST_WALKED_BYTES};
use ramson_source::{Failure, find_target};

/// Stops no thread unless `--ask` is given.
pub fn doctor(flags: &DoctorFlags) -> Result<(), Failure> {
    let target = find_target(&flags.source)?;
    let effort = if flags.exact { Effort::Exact } else { Effort::Survey(MOST_WALKED_BYTES) };
    let names = flags.names.names();
    let mut finding = examine(&target, effort, &names, None)?;
    if flags.ask && finding.statistics.is_err() {
        finding = examine(&target, effort, &names, Some(ramson_control::ask(&target)))?;
    }
    match flags.json {
        true => print_json("doctor", &finding),
        false => print(&table::doctor::text(&finding, flags.rows)),
    }
}
