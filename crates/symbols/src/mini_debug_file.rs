//! `.gnu_debugdata`: an xz-compressed ELF file inside the binary, with the function symbols that `.dynsym` lacks. Fedora
//! and its relatives ship every binary with one.

use std::io::{self, Write};

use crate::elf::{ElfFile, Sections};

/// A larger one is refused as damage: the real ones have a few hundred kilobytes.
const MAX_UNPACKED_BYTES: usize = 256 << 20;

/// The ELF file inside `file`. `Ok(None)`: it has none.
pub(crate) fn mini_debug_file(
    file: &ElfFile,
    sections: &Sections,
) -> Result<Option<(ElfFile, Sections)>, String> {
    let Some(section) = sections.named(".gnu_debugdata") else { return Ok(None) };
    let packed = file.read(sections, section)?;
    let mut unpacked = Bounded(Vec::new());
    let result = lzma_rs::xz_decompress(&mut &packed[..], &mut unpacked);
    result.map_err(|error| format!(".gnu_debugdata: {error}"))?;
    let mini = file.with_content(unpacked.0);
    let sections = mini.sections().map_err(|error| format!(".gnu_debugdata: {error}"))?;
    Ok(Some((mini, sections)))
}

struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_UNPACKED_BYTES {
            return Err(io::Error::other("larger than any mini debug information"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
