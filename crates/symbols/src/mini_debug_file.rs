//! `.gnu_debugdata`: an xz-compressed ELF file inside the binary, with the function symbols that `.dynsym` lacks. Fedora
//! and its relatives ship every binary with one.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::elf::ElfFile;

/// A larger one is refused as damage: the real ones have a few hundred kilobytes.
const MAX_UNPACKED_BYTES: usize = 256 << 20;

/// The ELF file inside `file`. `Ok(None)`: it has none.
pub(crate) fn mini_debug_file(file: &ElfFile) -> Result<Option<ElfFile>, String> {
    let Some(section) = file.section(".gnu_debugdata") else { return Ok(None) };
    let packed = file.read(section)?;
    let unpacked = || {
        let memory = memfd_create("ramson-symbols", MemfdFlags::CLOEXEC);
        let memory = memory.map_err(|error| error.to_string())?;
        let mut bounded = Bounded { file: memory.into(), left: MAX_UNPACKED_BYTES };
        let result = lzma_rs::xz_decompress(&mut &packed[..], &mut bounded);
        result.map_err(|error| error.to_string())?;
        let mini = file.unpacked(bounded.file).map_err(|error| error.to_string())?;
        mini.sections().map(|_| ())?;
        Ok(mini)
    };
    unpacked().map(Some).map_err(|error: String| format!(".gnu_debugdata: {error}"))
}

struct Bounded {
    file: File,
    left: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len());
        self.left =
            left.ok_or_else(|| io::Error::other("larger than any mini debug information"))?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
