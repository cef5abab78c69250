//! Profiles of other tools: what they are called, what is said of them, and what of theirs has to be worked out here.

use crate::failure::Failure;
use ramson_import::{
    ACCEPTED, Budget, DropFrames, Format, ImportDefect, ImportError, Imported, InuseAt,
};
use ramson_profile::{Profile, SampleType, drop_allocator_frames, drop_frames};
use ramson_symbols::demangle_written;

/// A profile of another tool.
pub struct Foreign {
    /// File, address or `standard input`.
    pub origin: String,
    /// The imported data; its profile may be taken out.
    pub imported: Imported,
}

fn unreadable(origin: &str, error: &ImportError) -> Failure {
    let next = match error {
        ImportError::Io(_) => "Check that it can be read",
        ImportError::Empty | ImportError::Unrecognized(_) => {
            &format!("Pass a ramson profile (\"ramson run ./prog\" creates one), {ACCEPTED}")
        }
        ImportError::Apart(failure) => failure.next_step(),
        ImportError::OverBudget(bytes) if *bytes < Budget::OWN.memory_bytes => {
            "Save it as a file of your own and pass that: it may take more"
        }
        ImportError::OverBudget(_) => "Take a smaller profile, such as one with a larger interval",
        ImportError::SamplingOff(remedy) => remedy,
        ImportError::NotAHeapProfile(_) | ImportError::OtherKind(_) => "Pass a heap profile",
        ImportError::MallocInfo(_) => &format!("\"ramson explain {origin}\" explains it"),
        ImportError::Concatenated => "Split it into a file for each, and pass these",
        ImportError::Nothing(_) => "Take the profile again",
        ImportError::RawHeaptrack => "Interpret it first: heaptrack --interpret FILE",
        ImportError::HeaptrackVersion(_) => "Convert it with heaptrack_print --print-flamegraph",
    };
    match error {
        ImportError::Unrecognized(_) => Failure::NoProfile {
            object: origin.to_owned(),
            finding: error.to_string(),
            next: next.to_owned(),
        },
        _ => Failure::failed(format!("{origin}: {error}. {next}")),
    }
}

impl Foreign {
    pub(crate) fn of(
        origin: &str,
        imported: Result<Imported, ImportError>,
        inuse_at: InuseAt,
    ) -> Result<Self, Failure> {
        let mut imported = imported.map_err(|error| unreadable(origin, &error))?;
        if inuse_at == InuseAt::Peak && imported.format != Format::Heaptrack {
            return Err(Failure::usage(format!(
                "{origin}@peak: a {} profile holds one moment only. Pass {origin}",
                imported.format
            )));
        }
        demangle(&mut imported.profile);
        Ok(Self { origin: origin.to_owned(), imported })
    }

    /// Its addresses were placed in a binary that the user named.
    pub fn forget_missing_mappings(&mut self) {
        self.imported.defects.retain(|defect| *defect != ImportDefect::NoMappings);
    }

    /// The sample type to count: the one asked for, or the file's default. Fails if the file does not count it.
    pub fn sample_type(&self, asked: Option<SampleType>) -> Result<SampleType, Failure> {
        let wanted = asked.unwrap_or(self.imported.default_sample_type);
        if self.imported.sample_types.contains(&wanted) {
            return Ok(wanted);
        }
        let there: Vec<&str> =
            self.imported.sample_types.iter().map(|there| there.word()).collect();
        Err(Failure::usage(format!(
            "{}: it does not count {}. Pass --count {}",
            self.origin,
            wanted.word(),
            there.join(" or ")
        )))
    }

    /// Says what its format lacks, and what to do instead.
    pub fn lacks(&self, finding: &str) -> Failure {
        Failure::usage(format!("{}: a {} profile {finding}", self.origin, self.imported.format))
    }

    /// Cuts off the frames that the format, or the file itself, wants cut off.
    pub fn drop_frames(&self, profile: &mut Profile) {
        match &self.imported.drop_frames {
            DropFrames::Allocators => drop_allocator_frames(profile),
            DropFrames::Named { drop, keep } => drop_frames(profile, |name| {
                drop.is_match(name) && !keep.as_ref().is_some_and(|keep| keep.is_match(name))
            }),
            // Its profiler records frames of its own.
            DropFrames::Nothing if has_jemalloc_s_profiler(profile) => {
                drop_allocator_frames(profile);
            }
            DropFrames::Nothing => {}
        }
    }
}

/// Gives functions the source's names where the file has the linker's.
fn demangle(profile: &mut Profile) {
    for function in &mut profile.functions {
        let Some(name) = demangle_written(&function.name) else { continue };
        if function.system_name.is_empty() {
            function.system_name = function.name.clone();
        }
        function.name = name.into();
    }
}

/// Whether jemalloc was walking the stack, as in what the crate jemalloc_pprof writes.
fn has_jemalloc_s_profiler(profile: &Profile) -> bool {
    let names = profile.functions.iter().map(|function| &*function.name);
    let mut names = names.map(|name| name.strip_suffix("_impl").unwrap_or(name));
    names.any(|name| {
        matches!(name, "prof_backtrace" | "je_prof_backtrace" | "_rjem_je_prof_backtrace")
    })
}
