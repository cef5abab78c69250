//! Addresses of code. The name of a caller is looked up at its return address − 1, so that the call is
//! met and not what follows it.

use crate::binary::Binary;

/// As linked in the ELF file; not an offset in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileAddress(pub u64);

/// In the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeAddress(pub u64);

/// Address of an instruction.
#[derive(Clone, Copy, Debug)]
pub enum CodeAddress<'a> {
    /// In a binary.
    InBinary(&'a Binary, FileAddress),
    /// In code that belongs to none, such as what a runtime compiled.
    Outside(RuntimeAddress),
}
