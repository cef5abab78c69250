//! `.gnu_debugdata`: an xz-compressed ELF file inside the binary, with the function symbols that `.dynsym` lacks. Fedora
//! and its relatives ship every binary with one.

use std::fs::File;
use std::io::{self, Read};

use lzma_rust2::XzReader;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::elf::ElfFile;

/// A larger one is refused as damage: the real ones have a few hundred kilobytes.
const MAX_UNPACKED_BYTES: u64 = 64 << 20;
/// Memory that the decoder may allocate, in KiB: `xz -9` takes 65 MiB.
const MAX_DECODER_KIB: u32 = 80 << 10;

/// The ELF file inside `file`. `Ok(None)`: it has none.
pub(crate) fn mini_debug_file(file: &ElfFile) -> Result<Option<ElfFile>, String> {
    let Some(section) = file.section(".gnu_debugdata") else { return Ok(None) };
    let packed = file.read(section)?;
    let unpacked = || {
        let memory = memfd_create("ramson-symbols", MemfdFlags::CLOEXEC);
        let mut memory: File = memory.map_err(|error| error.to_string())?.into();
        // This decoder hands out what it has as it goes, and has a bound for its dictionary; lzma-rs collects a whole block first.
        let reader = XzReader::new_mem_limit(&packed[..], true, MAX_DECODER_KIB);
        let most = MAX_UNPACKED_BYTES + 1;
        let count =
            io::copy(&mut reader.take(most), &mut memory).map_err(|error| error.to_string())?;
        if count == most {
            return Err("larger than any mini debug information".to_owned());
        }
        let mini = file.unpacked(memory).map_err(|error| error.to_string())?;
        mini.sections().map(|_| ())?;
        Ok(mini)
    };
    unpacked().map(Some).map_err(|error: String| format!(".gnu_debugdata: {error}"))
}
