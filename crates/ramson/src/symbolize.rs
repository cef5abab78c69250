//! `ramson symbolize`: writes the names into a profile, so that it can be read where its binaries are not.

use crate::answers::Symbolized;
use crate::flags::SymbolizeFlags;
use crate::output::{hint, print_json};
use crate::output_file::{cannot_write, check_free, replace, write_file};
use crate::run::compact;
use crate::table::say_what_is_missing;
use ramson_analysis::named::{Detail, Kinds, take_named, unnamed};
use ramson_analysis::naming::{Demangle, Names, Search, carried, name};
use ramson_encode::pprof;
use ramson_paths::RegularFile;
use ramson_profile::SampleType;
use ramson_reader::ReadAt;
use ramson_source::{Failure, Opened, Recording, open_one};
use ramson_symbols::SymbolDefect;
use rustix::process::getuid;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
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
            answer(flags, output, None, &named.missing_symbols)
        }
    }
}

/// Keeps all records and puts the names behind them.
fn symbolize_own(flags: &SymbolizeFlags, recording: &Recording) -> Result<(), Failure> {
    if recording.past.is_some() {
        return Err(Failure::usage(format!(
            "{}: a history has no file to put names into. \"ramson mark {} -o FILE\" makes one",
            flags.source, flags.source
        )));
    }
    let file = Path::new(&recording.origin);
    let shown = file.display();
    if recording.running.is_some() {
        return Err(Failure::usage(format!(
            "{shown}: its process still runs and writes to it. Wait for its end, or export its present state: ramson export {shown} -f pprof -o FILE"
        )));
    }
    let target = flags.output.as_deref().unwrap_or(file);
    check_free(target, flags.force || flags.output.is_none())?;
    let unreadable =
        |error| Failure::failed(format!("{shown}: {error}. Check that it can be read"));
    let RegularFile { file: profile_file, .. } =
        recording.file().ok_or_else(|| unreadable(io::ErrorKind::NotFound.into()))?;
    let model = profile_file.metadata().map_err(unreadable)?;
    // A file that root writes for another user goes back to that user if it stays in place; another file stays root's.
    let is_strangers = getuid().is_root() && model.uid() != 0;
    let search = Search { is_for_owner: flags.output.is_none(), ..flags.search.search() };
    let mut profile = unnamed(recording, Detail::Stacks, None);
    let mut symbolizer = search.symbolizer(Some(recording))?;
    let missing = name(&mut profile, Some(recording), &mut symbolizer);
    let names = carried(&profile);
    // A file that was cut is kept as it is.
    let content = compact::compacted(&profile_file).or_else(|_| whole(&profile_file));
    let mut content = content.map_err(unreadable)?;
    content.extend(names.to_block());
    let model = Some(&model).filter(|_| !is_strangers || flags.output.is_none());
    let written = replace(target, model, |out| out.write_all(&content));
    written.map_err(|error| cannot_write(target, &error))?;
    let (named, all) = (names.count(), profile.locations.len());
    hint(&format!("{named} of {all} addresses have names, in {}", target.display()));
    say_what_is_missing(&missing);
    answer(flags, target, Some((named, all)), &missing)
}

fn answer(
    flags: &SymbolizeFlags,
    file: &Path,
    counts: Option<(usize, usize)>,
    missing: &[SymbolDefect],
) -> Result<(), Failure> {
    if !flags.json {
        return Ok(());
    }
    let (named, addresses) = counts.unzip();
    let missing_symbols = missing.iter().map(ToString::to_string).collect();
    print_json("symbolize", &Symbolized { file: file.into(), named, addresses, missing_symbols })
}

fn whole(file: &File) -> io::Result<Vec<u8>> {
    let length = file.length()?;
    if length > file.most_bytes() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut content = vec![0; length as usize];
    file.read_exact_at(&mut content, 0)?;
    Ok(content)
}
