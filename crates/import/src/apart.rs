//! Foreign profiles of others: opened here, read by a worker. The worker's answers are checked, because the worker may be in the others'
//! hands.

use crate::defect::{ImportDefect, ImportError};
use crate::format::Format;
use crate::import::{DropFrames, Imported, InuseAt};
use crate::input::Budget;
use crate::wire::WireProfile;
use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Handler, Request};
use ramson_profile::SampleType;
use std::fs::File;
use std::os::fd::AsFd;

const IMPORT: u8 = 0x30;

/// An `Imported`.
#[derive(BorshSerialize, BorshDeserialize)]
struct Answer {
    profile: WireProfile,
    format: Format,
    sample_types: Vec<SampleType>,
    default_sample_type: SampleType,
    drop_frames: DropFrames,
    defects: Vec<ImportDefect>,
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
        borsh::to_vec(&imported.map(Answer::from)).ok()
    }
}

/// The same as `import_file`, read by a worker.
pub fn import_apart(by: &Apart, file: &File, inuse_at: InuseAt) -> Result<Imported, ImportError> {
    let is_at_peak = inuse_at == InuseAt::Peak;
    let body = [u8::from(is_at_peak)];
    let request = Request { kind: IMPORT, body: &body, files: &[file.as_fd()] };
    let answer = by.ask(&request).map_err(ImportError::Apart)?;
    let bad = || ImportError::Apart(Failure::BadAnswer);
    let answer: Result<Answer, ImportError> = borsh::from_slice(&answer).map_err(|_| bad())?;
    answer?.into_imported().ok_or_else(bad)
}

impl From<Imported> for Answer {
    fn from(imported: Imported) -> Self {
        let Imported { profile, format, sample_types, default_sample_type, drop_frames, defects } =
            imported;
        let profile = profile.into();
        Self { profile, format, sample_types, default_sample_type, drop_frames, defects }
    }
}

impl Answer {
    /// `None`: it is none.
    fn into_imported(self) -> Option<Imported> {
        let Self { profile, format, sample_types, default_sample_type, drop_frames, defects } =
            self;
        let profile = profile.into_profile()?;
        Some(Imported { profile, format, sample_types, default_sample_type, drop_frames, defects })
    }
}
