//! `ramson symbolize`: writes the names into a profile, so that it can be read where its binaries are not.

use crate::assemble::{Detail, unnamed};
use crate::export::write_file;
use crate::failure::Failure;
use crate::naming::{self, Demangle, NameOptions, SearchOptions};
use crate::report::say_what_is_missing;
use crate::run::compact;
use crate::source::{self, Opened, Source};
use crate::text;
use clap::Args;
use ramson_encode::pprof;
use ramson_import::Moment;
use ramson_profile::Profile;
use ramson_symbols::{Binary, CarriedNames, Frame};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args)]
#[command(after_help = "\
A profile of ours keeps all that it has; every command takes the names from it first, and looks up what has none where it is
read. A profile of another tool becomes a pprof file with names (-o).

Examples:
  ramson symbolize /var/tmp/ramson-0/redis-server.4711.ramson
  ramson symbolize --sysroot /srv/image core.ramson -o ticket-17.ramson")]
pub struct SymbolizeOptions {
    /// A profile of a process that has ended, or of another tool, such as pprof
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub search: SearchOptions,
    /// Write here instead of into FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

pub fn symbolize(options: &SymbolizeOptions) -> Result<(), Failure> {
    let mut opened = source::open_any_file(&options.file, Moment::End)?;
    match &opened {
        Opened::Own(source) => symbolize_own(options, source),
        Opened::Foreign(_) => {
            let Some(output) = &options.output else {
                return Err(Failure::usage(format!(
                    "{}: another tool's profile, which stays as it is. Add -o FILE for a pprof file with names",
                    options.file.display()
                )));
            };
            let names = NameOptions { search: options.search.clone(), demangle: Demangle::Full };
            let named = opened.take_named(&names, Detail::Labels, None)?;
            write_file(output, options.force, |out| {
                pprof::write(&named.profile, out, &pprof::Options::default())
            })?;
            say_what_is_missing(&named.missing_symbols);
            Ok(())
        }
    }
}

/// Keeps all records and puts the names behind them.
fn symbolize_own(options: &SymbolizeOptions, source: &Source) -> Result<(), Failure> {
    let shown = options.file.display();
    if source.running.is_some() {
        return Err(Failure::usage(format!(
            "{shown}: its process still runs and writes to it. Wait for its end, or export what there is: \
             ramson export {shown} -f pprof -o FILE"
        )));
    }
    let target = options.output.as_ref().unwrap_or(&options.file);
    let is_in_the_way = options.output.is_some() && target.symlink_metadata().is_ok();
    if is_in_the_way && !options.force {
        return Err(Failure::failed(format!(
            "{}: exists. Choose another file, or replace it with --force",
            target.display()
        )));
    }
    let mut profile = unnamed(source, Detail::Stacks, None);
    let mut symbolizer = options.search.symbolizer(Some(source))?;
    let missing = naming::name(&mut profile, Some(source), &mut symbolizer);
    let names = carried(&profile);
    let compacted = File::open(&options.file).and_then(|file| compact::compacted(&file));
    // A file that was cut is kept as it is.
    let content = compacted.or_else(|_| fs::read(&options.file));
    let mut content = content
        .map_err(|error| Failure::failed(format!("{shown}: {error}. Check that it can be read")))?;
    content.extend(names.to_block());
    compact::replace(target, &options.file, &content).map_err(|error| {
        let target = target.display();
        Failure::failed(format!("{target}: cannot be written: {error}. Choose another place"))
    })?;
    let (named, all) = (names.count(), profile.locations.len());
    text::hint(&format!("{named} of {all} addresses have names, in {}", target.display()));
    say_what_is_missing(&missing);
    Ok(())
}

/// The names that a profile has.
pub fn carried(profile: &Profile) -> CarriedNames {
    let mut names = CarriedNames::default();
    for location in &profile.locations {
        let frames: Vec<Frame> = location.lines.iter().map(|line| frame(profile, line)).collect();
        let mapping = location.mapping.map(|mapping| &profile.mappings[mapping]);
        let binary = mapping.map(|mapping| Binary {
            path: mapping.path.clone(),
            build_id: mapping.build_id.clone(),
            pid: None,
        });
        let bias = mapping.map_or(0, |mapping| mapping.bias);
        names.add(binary.as_ref(), location.address.wrapping_sub(bias), &frames);
    }
    names
}

fn frame(profile: &Profile, line: &ramson_profile::Line) -> Frame {
    let function = &profile.functions[line.function];
    let file = Some(&function.file).filter(|file| !file.is_empty()).map(Arc::clone);
    let (name, system_name) = (function.name.clone(), function.system_name.clone());
    Frame { function: name, system_name, file, line: line.line }
}
