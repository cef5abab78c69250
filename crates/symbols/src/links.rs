//! Links from a file to the rest of its debug information.

use borsh::{BorshDeserialize, BorshSerialize};
use object::Endianness;

use crate::elf::{ElfFile, hex};

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

/// `.gnu_debuglink`: a name, padding to four bytes, a CRC.
pub(crate) fn debug_link(file: &ElfFile) -> Option<DebugLink> {
    let content = file.read(file.section(".gnu_debuglink")?).ok()?;
    let name = content.split(|&byte| byte == 0).next()?;
    let crc_offset = (name.len() + 1).next_multiple_of(4);
    let crc: [u8; 4] = content.get(crc_offset..crc_offset + 4)?.try_into().ok()?;
    let crc32 = match file.sections().ok()?.endian {
        Endianness::Little => u32::from_le_bytes(crc),
        Endianness::Big => u32::from_be_bytes(crc),
    };
    Some(DebugLink { name: name.to_owned(), crc32 }).filter(DebugLink::is_name)
}

/// `.gnu_debugaltlink`: the path and build ID (hex) of the file with the parts that `dwz` found to be common.
pub(crate) fn supplement_link(file: &ElfFile) -> Option<(Vec<u8>, String)> {
    let content = file.read(file.section(".gnu_debugaltlink")?).ok()?;
    let end = content.iter().position(|&byte| byte == 0)?;
    Some((content[..end].to_owned(), hex(&content[end + 1..])))
}
