//! `ramson merge`: several profiles as one.

use crate::answers::Merged;
use crate::flags::MergeFlags;
use crate::output::{hint, print_json};
use crate::output_file::{refuse_terminal, write_file};
use ramson_analysis::is_same_process;
use ramson_analysis::named::{Detail, Kinds, take_sum};
use ramson_encode::pprof;
use ramson_profile::SampleType;
use ramson_source::{Failure, Members, Opened, open_all};
use std::path::Path;

pub fn merge(flags: &MergeFlags) -> Result<(), Failure> {
    if flags.json && flags.output == Path::new("-") {
        return Err(Failure::usage("-o -: standard output is either the profile or JSON"));
    }
    refuse_terminal(&flags.output, "pprof")?;
    let Members { opened: mut sources, .. } = open_all(&flags.source.sources)?;
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
    let names = flags.source.names.names();
    let profiles = sources.iter().map(|source| source.origin().to_owned()).collect();
    let merged = take_sum(&mut sources, &names, Detail::Labels, Kinds::Usual)?.profile;
    write_file(&flags.output, flags.force, |out| {
        pprof::write(&merged, out, SampleType::InuseSpace)
    })?;
    if !flags.json {
        return Ok(());
    }
    let file = flags.output.clone();
    print_json("merge", &Merged { file, profiles, stacks: merged.samples.len() })
}
