//! A profile as jemalloc's text format, for `jeprof`: addresses and mappings, to be named from the binaries.
//!
//! `heap_v2/T` holds raw counts, integers that a reader weights by 1/(1 − e^(−s̄/T)) per stack. Ours are sums over blocks of mixed sizes, and
//! intervals that changed: no integers give them back for one T (5.7 T bytes in small blocks are 5 or 6 raw ones). So T is 0, at which
//! `jeprof` leaves counts as they are, and the counts are the estimates. What is lost is the interval, and with it ±.

use ramson_profile::{Estimate, LookupAddress, Profile, SampleType};
use std::io::{self, Write};

/// What a stack that was not recorded is written as: a stack without an address would be added to the one before it.
const NO_ADDRESS: u64 = 1;

/// Whether the profile has the addresses that the format consists of; profiles of names alone do not.
pub fn has_addresses(profile: &Profile) -> bool {
    profile.locations.iter().all(|location| location.address != LookupAddress(0))
}

/// Writes the document. Stacks are return addresses, leaf first. `jeprof` skips negative counts, which only a diff has.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "heap_v2/0")?;
    write_counts(out, SampleType::ALL.map(|of| profile.total(of)))?;
    for sample in &profile.samples {
        write!(out, "@")?;
        for &location in &sample.locations {
            let call = profile.locations[location as usize].address;
            write!(out, " {:#x}", call.return_address().0)?;
        }
        if sample.locations.is_empty() {
            write!(out, " {NO_ADDRESS:#x}")?;
        }
        writeln!(out)?;
        write_counts(out, sample.values)?;
    }
    write_mappings(profile, out)?;
    out.flush()
}

/// Where binaries were, as /proc/PID/maps has it.
pub(crate) fn write_mappings(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nMAPPED_LIBRARIES:")?;
    for mapping in &profile.mappings {
        let (start, end, offset) = (mapping.start, mapping.end, mapping.file_offset);
        let path = mapping.path.replace(char::is_control, "?");
        writeln!(out, "{start:08x}-{end:08x} r-xp {offset:08x} 00:00 0 {path}")?;
    }
    Ok(())
}

/// Unknown values are 0: the format has no other word for them.
fn write_counts(out: &mut dyn Write, values: [Estimate; 4]) -> io::Result<()> {
    let [alloc_objects, alloc_space, objects, space] =
        values.map(|estimate| estimate.value.round() as i64);
    writeln!(out, "  t*: {objects}: {space} [{alloc_objects}: {alloc_space}]")
}
