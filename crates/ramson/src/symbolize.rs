//! `ramson symbolize`: writes the names into a profile, so that it can be read where its binaries are not.

use crate::flags::SymbolizeFlags;
use crate::output::hint;
use crate::output_file::{cannot_write, check_free, replace, write_file};
use crate::run::compact;
use crate::table::say_what_is_missing;
use ramson_analysis::named::{Detail, Kinds, take_named, unnamed};
use ramson_analysis::naming::{Demangle, Names, carried, name};
use ramson_encode::pprof;
use ramson_profile::SampleType;
use ramson_source::{Failure, Opened, Recording, open_one};
use std::fs::{self, File};
use std::path::Path;

pub fn symbolize(flags: &SymbolizeFlags) -> Result<(), Failure> {
    let mut opened = open_one(&flags.source)?;
    match &opened {
        Opened::Recording(recording) => symbolize_own(flags, recording),
        Opened::Foreign(_) => {
            let Some(output) = &flags.output else {
                return Err(Failure::usage(format!(
                    "{}: another tool's profile, which stays as it is. Add -o FILE for a pprof file with names",
                    flags.source
                )));
            };
            let names = Names { search: flags.search.search(), demangle: Demangle::Full };
            let named = take_named(&mut opened, &names, Detail::Labels, Kinds::Usual)?;
            write_file(output, flags.force, |out| {
                pprof::write(&named.profile, out, SampleType::InuseSpace)
            })?;
            say_what_is_missing(&named.missing_symbols);
            Ok(())
        }
    }
}

/// Keeps all records and puts the names behind them.
fn symbolize_own(flags: &SymbolizeFlags, recording: &Recording) -> Result<(), Failure> {
    if recording.past.is_some() {
        return Err(Failure::usage(format!(
            "{}: a history has no file to put names into. \"ramson snap {}\" makes one",
            flags.source, flags.source
        )));
    }
    let file = Path::new(&recording.origin);
    let shown = file.display();
    if recording.running.is_some() {
        return Err(Failure::usage(format!(
            "{shown}: its process still runs and writes to it. Wait for its end, or export what there is: \
             ramson export {shown} -f pprof -o FILE"
        )));
    }
    let target = flags.output.as_deref().unwrap_or(file);
    check_free(target, flags.force || flags.output.is_none())?;
    let mut profile = unnamed(recording, Detail::Stacks, None);
    let mut symbolizer = flags.search.search().symbolizer(Some(recording))?;
    let missing = name(&mut profile, Some(recording), &mut symbolizer);
    let names = carried(&profile);
    let compacted = File::open(file).and_then(|file| compact::compacted(&file));
    // A file that was cut is kept as it is.
    let content = compacted.or_else(|_| fs::read(file));
    let mut content = content
        .map_err(|error| Failure::failed(format!("{shown}: {error}. Check that it can be read")))?;
    content.extend(names.to_block());
    let written = file
        .metadata()
        .and_then(|model| replace(target, Some(&model), |out| out.write_all(&content)));
    written.map_err(|error| cannot_write(target, &error))?;
    let (named, all) = (names.count(), profile.locations.len());
    hint(&format!("{named} of {all} addresses have names, in {}", target.display()));
    say_what_is_missing(&missing);
    Ok(())
}
