//! A binary as the profile names it, and its build ID.

use borsh::{BorshDeserialize, BorshSerialize};

/// The binary as the profile names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub struct Binary {
    /// Path as the process saw it; `[vdso]` and the like for the kernel's; may end in ` (deleted)`.
    pub path: String,
    /// Lower-case hex; empty if unknown, and then whatever is at `path` is taken.
    pub build_id: String,
    /// The process, if it still runs: its own view of the file system is searched first, so containers work.
    pub pid: Option<u32>,
}

/// Lower-case hex of a length that notes have; so it is also safe in a file name.
pub(crate) fn is_build_id(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (4..=128).contains(&text.len()) && text.bytes().all(is_hex)
}
