//! Facts that tell an ELF file of another user from all other files, as the helper that read it says.

use std::fs::File;
use std::os::fd::AsFd;

use borsh::{BorshDeserialize, BorshSerialize};
use ramson_apart::{Apart, Failure, Owner, Request, for_owner};

use crate::binary::is_build_id;

pub(crate) const IDENTIFY: u8 = 0x10;
pub(crate) const CRC32: u8 = 0x11;

/// Link to a separate debug file.
#[derive(Clone, BorshSerialize, BorshDeserialize)]
pub(crate) struct DebugLink {
    /// A file name without a directory.
    pub name: Vec<u8>,
    pub crc32: u32,
}

impl DebugLink {
    /// Whether it names a file in any directory.
    pub fn is_name(&self) -> bool {
        let name = &self.name[..];
        !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b".."
    }
}

/// Facts about an ELF file, so that more can be found that belongs to it.
#[derive(Default, BorshSerialize, BorshDeserialize)]
pub(crate) struct ElfFacts {
    pub build_id: String,
    pub link: Option<DebugLink>,
    pub supplement: Option<(Vec<u8>, String)>,
    pub has_lines: bool,
    /// Why its sections cannot be read.
    pub damage: Option<String>,
}

/// The same as a helper told it.
pub(crate) struct Identified {
    pub by: Apart,
    pub build_id: String,
    pub link: Option<DebugLink>,
    pub supplement: Option<(Vec<u8>, String)>,
    pub has_lines: bool,
    pub damage: Option<String>,
}

impl Identified {
    /// `None`: a file of this user is read here.
    pub fn by_owner(file: &File, owner: Owner) -> Option<Result<Self, String>> {
        for_owner(owner).map(|by| Self::of(by, file))
    }

    fn of(by: Apart, file: &File) -> Result<Self, String> {
        let request = Request { kind: IDENTIFY, body: &[], files: &[file.as_fd()] };
        let answer = by.ask(&request).map_err(|failure| failure.to_string())?;
        let answer: Result<ElfFacts, String> =
            borsh::from_slice(&answer).map_err(|_| Failure::BadAnswer.to_string())?;
        let ElfFacts { build_id, link, supplement, has_lines, damage } = answer?;
        let is_id = |id: &str| id.is_empty() || is_build_id(id);
        let build_id = Some(build_id).filter(|id| is_id(id)).unwrap_or_default();
        let supplement = supplement.filter(|(_, id)| is_id(id));
        Ok(Self { by, build_id, link, supplement, has_lines, damage })
    }

    pub fn crc32(&self, file: &File) -> Option<u32> {
        let request = Request { kind: CRC32, body: &[], files: &[file.as_fd()] };
        borsh::from_slice(&self.by.ask(&request).ok()?).ok()?
    }
}
