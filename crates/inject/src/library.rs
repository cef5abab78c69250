//! Where a library's functions are in a process, and the pieces of the C library's code that a call returns through.

use object::read::elf::{ElfFile64, ElfSegment64};
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, ReadRef, elf};
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
    /// Where the offset of errno is.
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
    /// From the file's bytes, and where the process has some offset of it.
    pub fn new(file: Bytes, mapped_at: u64, mapped_offset: u64) -> Option<Self> {
        let elf = Elf::parse(file).ok()?;
        let mut segments = elf.segments().map(|segment| (segment.file_range(), segment.address()));
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

    /// The address of an exported variable, and what it has before the program starts.
    pub fn variable(&self, name: &str) -> Option<(u64, &'a [u8])> {
        let mut symbols = self.elf.dynamic_symbols();
        let symbol = symbols.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))?;
        let (address, bytes) = (symbol.address(), symbol.size());
        let data =
            self.elf.segments().find_map(|segment| segment.data_range(address, bytes).ok()?);
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

    /// What it exports of malloc, with a margin for what it does not.
    fn malloc_code(&self) -> Option<Range<u64>> {
        /// 10 KiB of glibc 2.36 lie before the first of these; in other versions it may be more.
        const MARGIN_BYTES: u64 = 32 << 10;
        let names =
            ["malloc", "free", "calloc", "realloc", "memalign", "malloc_trim", "malloc_info"];
        let found: Option<Vec<u64>> = names.iter().map(|name| self.function(name)).collect();
        let found = found?;
        let (first, last) = (found.iter().min()?, found.iter().max()?);
        Some(first.saturating_sub(MARGIN_BYTES)..last.saturating_add(MARGIN_BYTES))
    }

    /// Where the C library keeps errno, from the thread pointer: as `__errno_location` finds it. The result is the address of that offset.
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
