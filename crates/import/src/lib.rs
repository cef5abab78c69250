//! Foreign heap profiles in: what other tools write becomes ramson's one `Profile`.
//!
//! `recognize` tells formats apart by their content, `input` bounds what a file may cost, `packing` and (on a
//! thread of its own, for a large file) `read_ahead` unpack it. `weight` says what sampled numbers stand for,
//! `build` joins names and stacks; `pprof`, `heap_text` (with `heap_symbols` and `maps`), `heaptrack`, `seastar`, `tables` (with `places`),
//! `fleet` and `collapsed` read formats and return an `import`; `malloc_info` reads what is no profile. docs/reference/formats.md says what each keeps and loses.
//!
//! A reader returns what it could read and the list of defects. Sample values that a format does
//! not have are NaN in the profile, never 0; so is the variance where a format does not say how it
//! sampled. An interval, time or line of 0 is unknown.
#![forbid(unsafe_code)]

mod apart;
mod build;
mod collapsed;
mod defect;
mod fleet;
mod format;
mod heap_symbols;
mod heap_text;
mod heaptrack;
mod import;
mod input;
mod malloc_info;
mod maps;
mod packing;
mod places;
mod pprof;
mod read_ahead;
mod recognize;
mod seastar;
mod tables;
mod weight;
mod wire;

pub use apart::{ForeignReader, import_apart};
pub use defect::{ImportDefect, ImportError};
pub use format::{ACCEPTED, Format};
pub use import::{DropFrames, Imported, InuseAt};
pub use input::{BYTES_PER_BYTE, BYTES_PER_PACKED_BYTE, Budget, FREE_BYTES, MOST_EXPANSION};
pub use malloc_info::{Chunks, InfoArena, MallocInfo};
pub use recognize::looks_like;

use input::Input;
use ramson_profile::{Excess, cut_excess};
use recognize::Recognized;
use std::fs::File;
use std::io::Read;

/// Reads a foreign profile of any known format, packed with gzip, zstd or not at all, within the caller's own budget.
pub fn import(source: impl Read, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    import_within(Budget::OWN, source, inuse_at)
}

/// The same within another budget.
pub fn import_within(
    budget: Budget,
    source: impl Read,
    inuse_at: InuseAt,
) -> Result<Imported, ImportError> {
    read(Input::new(budget, source).map_err(ImportError::Io)?, inuse_at)
}

/// The same from the start of a regular file, with two threads where it is large and packed.
pub fn import_file(budget: Budget, file: File, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    read(Input::of_file(budget, file).map_err(ImportError::Io)?, inuse_at)
}

fn read(mut input: Input, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    let imported = read_format(&mut input, inuse_at);
    match input.exceeded_bytes {
        Some(bytes) => Err(ImportError::OverBudget(bytes)),
        None => with_defects(imported?, input),
    }
}

fn read_format(input: &mut Input, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    match recognize::recognize(input)? {
        Recognized::MallocInfo => Err(malloc_info::read(input)),
        Recognized::Profile(format) => read_profile(format, input, inuse_at),
    }
}

fn read_profile(
    format: Format,
    input: &mut Input,
    inuse_at: InuseAt,
) -> Result<Imported, ImportError> {
    match format {
        Format::Pprof => pprof::read(input),
        Format::Jemalloc | Format::Gperftools => heap_text::read(input),
        Format::Heaptrack => heaptrack::read(input, inuse_at),
        Format::Memleak => tables::read(format, input),
        Format::Seastar => seastar::read(input),
        Format::Fleet => fleet::read(input),
        // No file has it.
        Format::Collapsed => collapsed::read(input),
    }
}

fn with_defects(mut imported: Imported, input: Input) -> Result<Imported, ImportError> {
    let bad_lines = input.bad_lines;
    let mut defects = input.into_defects();
    if imported.profile.samples.is_empty() && !defects.is_empty() {
        return Err(ImportError::Nothing(defects.into_iter().next()));
    }
    defects.extend((bad_lines > 0).then_some(ImportDefect::BadLines(bad_lines)));
    defects.append(&mut imported.defects);
    let Excess { frames, names } = cut_excess(&mut imported.profile);
    defects.extend((frames > 0).then_some(ImportDefect::FramesCut(frames)));
    defects.extend((names > 0).then_some(ImportDefect::NamesCut(names)));
    imported.defects = defects;
    Ok(imported)
}
