//! `ramson merge`: several profiles as one.

use crate::assemble::Detail;
use crate::export::write_file;
use crate::failure::Failure;
use crate::naming::NameOptions;
use crate::shared;
use crate::source::{self, Opened};
use crate::text;
use clap::Args;
use ramson_encode::pprof;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Equal stacks of the same binary (by build ID, else by path) become one and their values add up, as \"go tool pprof -proto A B\"
does it. The result is pprof's format; it does not carry the intervals of the estimates.

Examples:
  ramson merge worker-*.ramson -o workers.pb.gz")]
pub struct MergeOptions {
    /// Profiles: process IDs, name:NAME of processes, files, http:// addresses
    #[arg(value_name = "SRC", required = true)]
    pub sources: Vec<String>,
    #[command(flatten)]
    pub names: NameOptions,
    /// Write here
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
}

pub fn merge(options: &MergeOptions) -> Result<(), Failure> {
    let mut sources: Vec<Opened> =
        options.sources.iter().map(|source| source::open(source)).collect::<Result<_, _>>()?;
    for (index, source) in sources.iter().enumerate() {
        let is_again = |other: &&Opened| match (other, source) {
            (Opened::Own(other), Opened::Own(source)) => {
                shared::is_same_process(&other.snapshot, &source.snapshot)
            }
            _ => false,
        };
        if let Some(other) = sources[..index].iter().find(is_again) {
            text::hint(&format!(
                "{} and {} are of one process: what both hold counts twice",
                other.origin(),
                source.origin()
            ));
        }
    }
    let profiles = sources
        .iter_mut()
        .map(|source| {
            let named = source.take_named(&options.names, Detail::Labels, None)?;
            Ok(named.profile)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let merged = ramson_profile::merge(profiles).map_err(|different| {
        Failure::usage(format!(
            "{}: {different}. Merge profiles of one kind",
            options.sources[different.index]
        ))
    })?;
    write_file(&options.output, options.force, |out| {
        pprof::write(&merged, out, &pprof::Options::default())
    })
}
