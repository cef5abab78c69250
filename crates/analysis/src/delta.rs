//! Allocations and frees of a process between two moments, as a profile: each value is the later moment's less the earlier one's.

use crate::named::{Detail, Named, name, unnamed};
use crate::naming::Names;
use crate::overlap;
use ramson_format::Kind;
use ramson_profile::{Profile, merge};
use ramson_reader::{Counting, Snapshot};
use ramson_source::{Failure, Recording};

/// Returns the change of the heap in requested bytes, with names. Blocks that are live at both moments cancel; live values are negative if more was freed
/// than allocated. `duration_ns` is the time that the profile says to cover, up to the later moment.
pub fn delta(
    first: &Recording,
    later: &Recording,
    duration_ns: u64,
    names: &Names,
) -> Result<Named, Failure> {
    let ended =
        || Failure::failed(format!("{}: now runs another program (exec). Try again", first.origin));
    let parts = overlap::split(&first.snapshot, &later.snapshot).ok_or_else(ended)?;
    let of = |recording: &Recording, snapshot| {
        let snapshot = Snapshot { counting: Counting::Requested, ..snapshot };
        unnamed(&recording.with(snapshot), Detail::Labels, Some(Kind::Heap))
    };
    let after = of(later, parts.new);
    let end_ns = after.time_unix_ns;
    let interval_bytes = after.interval_bytes;
    let change = merge(vec![after, negative(of(first, parts.old))]).map_err(|different| {
        Failure::failed(format!("{}: {different}. Try again", first.origin))
    })?;
    let profile = Profile {
        time_unix_ns: end_ns,
        start_unix_ns: end_ns.saturating_sub(duration_ns),
        interval_bytes,
        ..change
    };
    let mut symbolizer = names.search.symbolizer(Some(later))?;
    Ok(name(later, names, &mut symbolizer, profile))
}

fn negative(mut profile: Profile) -> Profile {
    for value in profile.samples.iter_mut().flat_map(|sample| &mut sample.values) {
        *value = -*value;
    }
    profile
}
