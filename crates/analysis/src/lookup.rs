//! Names of single addresses of a process.

use crate::named::mapping;
use crate::naming::{self, Names};
use ramson_profile::{Location, LookupAddress, Profile, cut_excess, printable};
use ramson_source::{Failure, Recording};

/// Names the function in whose code each address is, as one line of text. Addresses without a name are left out. If another mapping
/// replaced a mapping, the later one counts.
pub fn names_of(
    recording: &Recording,
    names: &Names,
    addresses: &[u64],
) -> Result<Vec<(u64, String)>, Failure> {
    let mappings = &recording.snapshot.mappings;
    let mapping_at = |address: u64| {
        mappings.iter().rposition(|mapping| (mapping.start..mapping.end).contains(&address))
    };
    let location = |&address: &u64| Location {
        mapping: mapping_at(address),
        address: LookupAddress(address),
        offset: None,
        lines: Vec::new(),
    };
    let mut profile = Profile {
        mappings: mappings.iter().map(mapping).collect(),
        locations: addresses.iter().map(location).collect(),
        ..Profile::default()
    };
    let mut symbolizer = names.search.symbolizer(Some(recording))?;
    naming::name(&mut profile, Some(recording), &mut symbolizer);
    cut_excess(&mut profile);
    names.show(&mut profile);
    let named = addresses.iter().zip(&profile.locations).filter_map(|(&address, location)| {
        // The last one is the function itself, the others were inlined into it.
        let function = &profile.functions[location.lines.last()?.function];
        Some((address, printable(&function.name).into_owned()))
    });
    Ok(named.collect())
}
