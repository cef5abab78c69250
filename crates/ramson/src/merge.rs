//! `ramson merge`: several profiles as one.

use crate::flags::MergeFlags;
use crate::output::hint;
use crate::output_file::write_file;
use ramson_analysis::is_same_process;
use ramson_analysis::named::{Detail, Kinds, take_named};
use ramson_encode::pprof;
use ramson_source::{Failure, Opened, open};

pub fn merge(flags: &MergeFlags) -> Result<(), Failure> {
    let mut sources: Vec<Opened> =
        flags.sources.iter().map(|source| open(source)).collect::<Result<_, _>>()?;
    for (index, source) in sources.iter().enumerate() {
        let is_again = |other: &&Opened| match (other, source) {
            (Opened::Recording(other), Opened::Recording(source)) => {
                is_same_process(&other.snapshot, &source.snapshot)
            }
            _ => false,
        };
        if let Some(other) = sources[..index].iter().find(is_again) {
            hint(&format!(
                "{} and {} are of one process: what both hold counts twice",
                other.origin(),
                source.origin()
            ));
        }
    }
    let names = flags.names.names();
    let profiles = sources
        .iter_mut()
        .map(|source| {
            let named = take_named(source, &names, Detail::Labels, Kinds::Usual)?;
            Ok(named.profile)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let merged = ramson_profile::merge(profiles).map_err(|different| {
        Failure::usage(format!(
            "{}: {different}. Merge profiles of one kind",
            flags.sources[different.index]
        ))
    })?;
    write_file(&flags.output, flags.force, |out| {
        pprof::write(&merged, out, &pprof::Options::default())
    })
}
