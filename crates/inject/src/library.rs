//! Finds a library's functions in a process, and the pieces of the C library's code that a call returns through.

use object::read::elf::{ElfFile64, ElfSegment64};
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, ReadRef, elf};
use std::collections::BTreeMap;
use std::ops::Range;

/// The C library's, as addresses in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// `pop %rdi; ret`; its last byte alone is `ret`.
    pub pop_rdi: u64,
    /// raise(3).
    pub raise: u64,
    /// The C library's call of rt_sigreturn, to which its signal handlers return.
    pub restorer: u64,
    /// Address of the offset of errno.
    pub errno_offset_at: Option<u64>,
    /// The code of malloc: no word of the stack of a thread that computes may refer there.
    pub malloc: Option<Range<u64>>,
}

type Elf<'a, Bytes> = ElfFile64<'a, Endianness, Bytes>;

/// A library as a process has it mapped.
pub struct Library<'a, Bytes: ReadRef<'a>> {
    elf: Elf<'a, Bytes>,
    bias: u64,
}

impl<'a, Bytes: ReadRef<'a>> Library<'a, Bytes> {
    /// Reads the file's bytes. `mapped_at` is the address at which the process has code of the file, `mapped_offset` the code's offset in
    /// the file. Other parts would not tell the bias: if one part ends and the next one begins in the same page of the file, each is mapped
    /// with that page.
    pub fn new(file: Bytes, mapped_at: u64, mapped_offset: u64) -> Option<Self> {
        let elf = Elf::parse(file).ok()?;
        let code = elf.segments().filter(|segment| segment.permissions().executable());
        let mut segments = code.map(|segment| (segment.file_range(), segment.address()));
        let ((offset, _), address) = segments.find(|&((offset, bytes), _)| {
            (offset & !4095..offset.saturating_add(bytes)).contains(&mapped_offset)
        })?;
        let bias = mapped_at.wrapping_sub(address.wrapping_add(mapped_offset).wrapping_sub(offset));
        Some(Self { elf, bias })
    }

    /// The address of an exported function.
    pub fn function(&self, name: &str) -> Option<u64> {
        let symbol = self.elf.dynamic_symbols().find(|symbol| {
            let is_function = symbol.elf_symbol().st_type() == elf::STT_FUNC;
            is_function && symbol.is_definition() && symbol.name() == Ok(name)
        })?;
        Some(self.bias.wrapping_add(symbol.address()))
    }

    /// The address of the first of these functions, exported or not, where all of them are with one prefix in front of their names.
    pub fn function_behind_prefix(&self, names: &[&str]) -> Option<u64> {
        let symbols = self.elf.symbols().chain(self.elf.dynamic_symbols());
        let functions = symbols.filter(|symbol| {
            symbol.elf_symbol().st_type() == elf::STT_FUNC && symbol.is_definition()
        });
        let mut found = vec![BTreeMap::new(); names.len()];
        for symbol in functions {
            let Ok(whole) = symbol.name() else { continue };
            for (name, addresses) in names.iter().zip(&mut found) {
                if let Some(prefix) = whole.strip_suffix(name) {
                    addresses.insert(prefix, symbol.address());
                }
            }
        }
        let (first, others) = found.split_first()?;
        let is_everywhere = |prefix| others.iter().all(|other| other.contains_key(prefix));
        let (_, address) = first.iter().find(|(prefix, _)| is_everywhere(**prefix))?;
        Some(self.bias.wrapping_add(*address))
    }

    /// The address of an exported variable, and what it has before the program starts.
    pub fn variable(&self, name: &str) -> Option<(u64, &'a [u8])> {
        let mut symbols = self.elf.dynamic_symbols();
        let symbol = symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        let address = symbol.address();
        let data = self
            .elf
            .segments()
            .find_map(|segment| segment.data_range(address, symbol.size()).ok()?);
        Some((self.bias.wrapping_add(address), data.unwrap_or_default()))
    }

    /// The pieces of code that a call returns through, if this is the C library.
    pub fn code(&self) -> Option<Code> {
        Some(Code {
            pop_rdi: self.find_code(b"\x5f\xc3")?,
            raise: self.function("raise")?,
            // mov $15, %rax; syscall
            restorer: self.find_code(b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05")?,
            errno_offset_at: self.errno_offset_at(),
            malloc: self.malloc_code(),
        })
    }

    /// Returns the addresses of malloc's exported functions, with a margin for the ones that are not exported.
    fn malloc_code(&self) -> Option<Range<u64>> {
        /// 10 KiB of glibc 2.36 lie before the first of these; in other versions it may be more.
        const MARGIN_BYTES: u64 = 32 << 10;
        let names =
            ["malloc", "free", "calloc", "realloc", "memalign", "malloc_trim", "malloc_info"];
        let found = names.iter().map(|name| self.function(name)).collect::<Option<Vec<u64>>>()?;
        let first = found.iter().min()?;
        let last = found.iter().max()?;
        Some(first.saturating_sub(MARGIN_BYTES)..last.saturating_add(MARGIN_BYTES))
    }

    /// Returns the address of the offset of errno from the thread pointer, which `__errno_location` reads.
    fn errno_offset_at(&self) -> Option<u64> {
        let address = self.function("__errno_location")?;
        let at = address.wrapping_sub(self.bias);
        let code = self.executable().find_map(|segment| segment.data_range(at, 24).ok()?)?;
        let code = code.strip_prefix(b"\xf3\x0f\x1e\xfa").unwrap_or(code);
        let prologue = if code.len() < 24 { 4 } else { 0 };
        // mov offset(%rip), %rax; add %fs:0, %rax; ret
        let rest = code.strip_prefix(b"\x48\x8b\x05")?;
        let (offset, rest) = rest.split_at_checked(4)?;
        if !rest.starts_with(b"\x64\x48\x03\x04\x25\x00\x00\x00\x00\xc3") {
            return None;
        }
        let offset = i32::from_le_bytes(offset.try_into().ok()?);
        Some(address.wrapping_add(prologue + 7).wrapping_add_signed(offset.into()))
    }

    fn find_code(&self, pattern: &[u8]) -> Option<u64> {
        self.executable().find_map(|segment| {
            let mut places = segment.data().ok()?.windows(pattern.len());
            let at = places.position(|code| code == pattern)? as u64;
            Some(self.bias.wrapping_add(segment.address().wrapping_add(at)))
        })
    }

    fn executable(&self) -> impl Iterator<Item = ElfSegment64<'a, '_, Endianness, Bytes>> {
        self.elf.segments().filter(|segment| segment.permissions().executable())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers of a library with such segments: flags, offset, address and length of each.
    fn headers(segments: &[[u64; 4]]) -> Vec<u8> {
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
        file.extend([0, 64, 0].map(u64::to_le_bytes).as_flattened());
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, segments.len() as u8, 0, 64, 0, 0, 0, 0, 0]);
        for &[flags, offset, address, bytes] in segments {
            let kind_and_flags = 1 | flags << 32;
            let words = [kind_and_flags, offset, address, address, bytes, bytes, 4096];
            file.extend(words.map(u64::to_le_bytes).as_flattened());
        }
        file
    }

    #[test]
    fn shared_page_yields_right_bias() {
        // As in glibc 2.41 of Debian 13, where it is data that shares the page.
        let file =
            headers(&[[4, 0, 0, 0x1100], [5, 0x1100, 0x2100, 0x500], [6, 0x1600, 0x3600, 8]]);
        let library = Library::new(&file[..], 0x7000_2000, 0x1000).unwrap();
        assert_eq!(library.bias, 0x7000_0000);
    }
}
