//! Foreign profiles of others: opened here, read by a helper. The helper's answers are checked, because the helper may be in the others'
//! hands.

use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::{DropFrames, Imported, InuseAt};
use crate::input::Budget;
use crate::wire::WireProfile;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Handler, Request};
use ramson_profile::{Pattern, SampleType};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

const IMPORT: u8 = 0x30;

/// An `Imported`.
#[derive(BorshSerialize, BorshDeserialize)]
struct Answer {
    profile: WireProfile,
    format: Format,
    sample_types: Vec<String>,
    default_sample_type: String,
    drop_frames: Dropped,
    defects: Vec<ImportDefect>,
}

/// `DropFrames`, with the texts of the expressions.
#[derive(BorshSerialize, BorshDeserialize)]
enum Dropped {
    Allocators,
    Named(String, Option<String>),
    Nothing,
}

/// An `ImportError`.
#[derive(BorshSerialize, BorshDeserialize)]
enum Refusal {
    Io(String),
    Empty,
    Unrecognized(String),
    OverBudget(u64),
    NotAHeapProfile(Vec<String>),
    Nothing(Option<ImportDefect>),
    RawHeaptrack,
    HeaptrackVersion(u64),
}

/// Reads foreign profiles that come as descriptors.
#[derive(Default)]
pub struct ForeignReader;

impl Handler for ForeignReader {
    fn kinds(&self) -> &'static [u8] {
        &[IMPORT]
    }

    fn answer(&mut self, _: u8, body: &[u8], files: Vec<File>) -> Option<Vec<u8>> {
        let is_at_peak: bool = borsh::from_slice(body).ok()?;
        let inuse_at = if is_at_peak { InuseAt::Peak } else { InuseAt::End };
        let file = files.into_iter().next()?;
        let imported = crate::import_file(Budget::stranger(), file, inuse_at);
        borsh::to_vec(&imported.map(Answer::from).map_err(Refusal::from)).ok()
    }
}

/// The same as `import_file`, read by a helper.
pub fn import_apart(by: &Apart, file: &File, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    let is_at_peak = inuse_at == InuseAt::Peak;
    let body = [u8::from(is_at_peak)];
    let request = Request { kind: IMPORT, body: &body, files: &[file.as_fd()] };
    let answer = by.ask(&request).map_err(ImportError::Apart)?;
    let bad = || ImportError::Apart(Failure::BadAnswer);
    let answer: Result<Answer, Refusal> = borsh::from_slice(&answer).map_err(|_| bad())?;
    answer.map_err(ImportError::from)?.into_imported().ok_or_else(bad)
}

impl From<Imported> for Answer {
    fn from(imported: Imported) -> Self {
        let Imported { profile, format, sample_types, default_sample_type, drop_frames, defects } =
            imported;
        let text = |pattern: &Pattern| pattern.as_str().to_owned();
        Self {
            profile: profile.into(),
            format,
            sample_types: sample_types.iter().map(|one| one.name().to_owned()).collect(),
            default_sample_type: default_sample_type.name().to_owned(),
            drop_frames: match &drop_frames {
                DropFrames::Allocators => Dropped::Allocators,
                DropFrames::Named { drop, keep } => {
                    Dropped::Named(text(drop), keep.as_ref().map(text))
                }
                DropFrames::Nothing => Dropped::Nothing,
            },
            defects,
        }
    }
}

impl Answer {
    /// `None`: it is none.
    fn into_imported(self) -> Option<Imported> {
        let types = self.sample_types.iter().map(|name| SampleType::from_name(name));
        let sample_types = types.collect::<Option<Vec<_>>>()?;
        let default_sample_type = SampleType::from_name(&self.default_sample_type)?;
        let drop_frames = match self.drop_frames {
            Dropped::Allocators => DropFrames::Allocators,
            Dropped::Named(drop, keep) => {
                let keep = keep.map(|keep| Pattern::new(&keep)).transpose().ok()?;
                DropFrames::Named { drop: Pattern::new(&drop).ok()?, keep }
            }
            Dropped::Nothing => DropFrames::Nothing,
        };
        let (profile, format, defects) = (self.profile.into_profile()?, self.format, self.defects);
        Some(Imported { profile, format, sample_types, default_sample_type, drop_frames, defects })
    }
}

impl From<ImportError> for Refusal {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Io(error) => Self::Io(error.to_string()),
            ImportError::Empty => Self::Empty,
            ImportError::Unrecognized(looks) => Self::Unrecognized(looks),
            ImportError::OverBudget(bytes) => Self::OverBudget(bytes),
            ImportError::NotAHeapProfile(types) => Self::NotAHeapProfile(types),
            ImportError::Nothing(defect) => Self::Nothing(defect),
            ImportError::RawHeaptrack => Self::RawHeaptrack,
            ImportError::HeaptrackVersion(version) => Self::HeaptrackVersion(version),
            ImportError::Apart(failure) => Self::Io(failure.to_string()),
        }
    }
}

impl From<Refusal> for ImportError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Io(text) => Self::Io(io::Error::other(text)),
            Refusal::Empty => Self::Empty,
            Refusal::Unrecognized(looks) => Self::Unrecognized(looks),
            Refusal::OverBudget(bytes) => Self::OverBudget(bytes),
            Refusal::NotAHeapProfile(types) => Self::NotAHeapProfile(types),
            Refusal::Nothing(defect) => Self::Nothing(defect),
            Refusal::RawHeaptrack => Self::RawHeaptrack,
            Refusal::HeaptrackVersion(version) => Self::HeaptrackVersion(version),
        }
    }
}
