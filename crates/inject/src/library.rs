//! Where a library's functions are in a process, and the pieces of the C library's code that a call returns through.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Sym};

type Header = elf::FileHeader64<object::Endianness>;

/// Addresses in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// `pop %rdi; ret`; its last byte alone is `ret`.
    pub pop_rdi: u64,
    /// raise(3).
    pub raise: u64,
    /// The C library's call of rt_sigreturn, to which its signal handlers return.
    pub restorer: u64,
}

/// A library as a process has it mapped.
pub struct Library {
    file: Vec<u8>,
    bias: u64,
    /// File offset, size and address of its code.
    code: Vec<(u64, u64, u64)>,
}

impl Library {
    /// From the file's bytes, and where the process has some offset of it.
    pub fn new(file: Vec<u8>, mapped_at: u64, mapped_offset: u64) -> Option<Self> {
        let header = Header::parse(file.as_slice()).ok()?;
        let endian = header.endian().ok()?;
        let mut loads = Vec::new();
        let mut code = Vec::new();
        for segment in header.program_headers(endian, file.as_slice()).ok()? {
            if segment.p_type(endian) != elf::PT_LOAD {
                continue;
            }
            let (offset, address) = (segment.p_offset(endian), segment.p_vaddr(endian));
            loads.push((offset, segment.p_filesz(endian), address));
            if segment.p_flags(endian).0 & elf::PF_X.0 != 0 {
                code.push((offset, segment.p_filesz(endian), address));
            }
        }
        let is_in = |&&(offset, bytes, _): &&(u64, u64, u64)| {
            (offset & !4095..offset + bytes).contains(&mapped_offset)
        };
        let &(offset, _, address) = loads.iter().find(is_in)?;
        let bias = mapped_at.wrapping_sub(address.wrapping_add(mapped_offset).wrapping_sub(offset));
        Some(Self { bias, code, file })
    }

    /// The address of an exported function.
    pub fn function(&self, name: &str) -> Option<u64> {
        let header = Header::parse(self.file.as_slice()).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, self.file.as_slice()).ok()?;
        let symbols = sections.symbols(endian, self.file.as_slice(), elf::SHT_DYNSYM).ok()?;
        let symbol = symbols.iter().find(|symbol| {
            symbol.st_type() == elf::STT_FUNC
                && symbol.st_shndx(endian) != elf::SHN_UNDEF
                && symbols.symbol_name(endian, symbol).is_ok_and(|found| found == name.as_bytes())
        })?;
        Some(self.bias.wrapping_add(symbol.st_value(endian)))
    }

    /// The pieces of code that a call returns through, if this is the C library.
    pub fn code(&self) -> Option<Code> {
        Some(Code {
            pop_rdi: self.find_code(b"\x5f\xc3")?,
            raise: self.function("raise")?,
            // mov $15, %rax; syscall
            restorer: self.find_code(b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05")?,
        })
    }

    /// The code of the C library's malloc: what it exports of it, with a margin for what it does not.
    pub fn malloc_code(&self) -> Option<std::ops::Range<u64>> {
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
    pub fn errno_offset_at(&self) -> Option<u64> {
        let address = self.function("__errno_location")?;
        let code = self.bytes_at(address.wrapping_sub(self.bias), 24)?;
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
        self.code.iter().find_map(|&(offset, bytes, address)| {
            let range = usize::try_from(offset).ok()?..usize::try_from(offset + bytes).ok()?;
            let at =
                self.file.get(range)?.windows(pattern.len()).position(|code| code == pattern)?;
            Some(self.bias.wrapping_add(address + at as u64))
        })
    }

    fn bytes_at(&self, file_address: u64, length: usize) -> Option<&[u8]> {
        self.code.iter().find_map(|&(offset, bytes, address)| {
            let inside = file_address.checked_sub(address).filter(|&inside| inside < bytes)?;
            let start = usize::try_from(offset + inside).ok()?;
            self.file.get(start..start + length)
        })
    }
}
