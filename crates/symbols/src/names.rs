//! Function names from a symbol table: one name per address, found by binary search.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Sym};

use crate::elf::{ElfFile, Sections};

/// Symbols may overlap; a lookup looks at no more enclosing ones than this.
const MAX_ENCLOSING: usize = 64;
/// A longer name is cut: no linker's name is that long.
const MAX_NAME_BYTES: usize = 64 << 10;
/// First bytes of a symbol's name, which tell whether the symbol is of a function.
const PREFIX_BYTES: usize = 2;
/// Bytes that are compared to find the plainest of several names at one address.
const MAX_COMPARED_BYTES: usize = 1 << 8;
/// Bytes that are kept of a symbol or made of it meanwhile, as a multiple of its bytes in the table.
const KEPT_RATIO: u64 = 3;

/// The functions of one `.symtab` or `.dynsym`.
pub(crate) struct Names {
    /// By start; no two have the same.
    functions: Vec<Function>,
    /// For each function the largest end among it and all before it: says when to stop looking for an enclosing one.
    largest_ends: Vec<u64>,
    strings: Vec<u8>,
}

struct Function {
    start: u64,
    end: u64,
    name_offset: u32,
}

/// A symbol while names are chosen. The smallest of several at one address (`rank`, then name) is taken.
struct Candidate {
    start: u64,
    size_bytes: u64,
    section_end: u64,
    rank: u8,
    name_offset: u32,
}

impl Names {
    /// Reads the table of type `kind`. `Ok(None)`: the file has none, or no function in it.
    pub fn read(file: &ElfFile, kind: elf::SectionType) -> Result<Option<Self>, String> {
        let sections = file.sections()?;
        let Some(table) = sections.all.iter().find(|section| section.kind == kind) else {
            return Ok(None);
        };
        let strings = sections.all.get(table.link).ok_or("symbol table without strings")?;
        let strings = file.read(strings)?;
        let content = file.read(table)?;
        file.budget.take(content.len() as u64 * KEPT_RATIO)?;
        let candidates = if sections.is_64 {
            candidates::<elf::FileHeader64<Endianness>>(sections, &content, &strings)
        } else {
            candidates::<elf::FileHeader32<Endianness>>(sections, &content, &strings)
        };
        let functions = choose(candidates, &strings);
        if functions.is_empty() {
            return Ok(None);
        }
        let mut largest_end = 0;
        let largest_ends = functions.iter().map(|function| {
            largest_end = function.end.max(largest_end);
            largest_end
        });
        let largest_ends = largest_ends.collect();
        Ok(Some(Self { functions, largest_ends, strings }))
    }

    /// The name of the innermost function that spans `address`.
    pub fn find(&self, address: u64) -> Option<String> {
        let function = self.function(address)?;
        let name = name_at(&self.strings, function.name_offset, MAX_NAME_BYTES);
        Some(String::from_utf8_lossy(without_version(name)).into_owned())
    }

    /// Start address of the innermost function that spans `address`.
    pub fn start(&self, address: u64) -> Option<u64> {
        self.function(address).map(|function| function.start)
    }

    fn function(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        for index in (0..after).rev().take(MAX_ENCLOSING) {
            if self.largest_ends[index] <= address {
                return None;
            }
            let function = &self.functions[index];
            if address < function.end {
                return Some(function);
            }
        }
        None
    }

    /// Bytes held, about.
    pub fn size_bytes(&self) -> u64 {
        (self.strings.len() + self.functions.len() * (size_of::<Function>() + 8)) as u64
    }
}

fn candidates<E: FileHeader<Endian = Endianness>>(
    sections: &Sections,
    content: &[u8],
    strings: &[u8],
) -> Vec<Candidate> {
    let endian = sections.endian;
    let count = content.len() / size_of::<E::Sym>();
    let Ok((symbols, _)) = object::pod::slice_from_bytes::<E::Sym>(content, count) else {
        return Vec::new();
    };
    let mut found = Vec::with_capacity(count / 2);
    for symbol in symbols {
        let is_function = matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let is_label = symbol.st_type() == elf::STT_NOTYPE;
        let section = symbol.st_shndx(endian);
        if !(is_function || is_label) || section == elf::SHN_UNDEF {
            continue;
        }
        let code = sections.all.get(usize::from(section.0)).filter(|section| section.is_code);
        // A label counts only in code; a function may be in a section whose index is too large for this field.
        if is_label && code.is_none() {
            continue;
        }
        let name = name_at(strings, symbol.st_name(endian), PREFIX_BYTES);
        if name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L") {
            continue;
        }
        let start: u64 = symbol.st_value(endian).into();
        let size_bytes: u64 = symbol.st_size(endian).into();
        let section_end =
            code.map_or(u64::MAX, |section| section.address.saturating_add(section.size_bytes));
        let rank = match symbol.st_bind() {
            elf::STB_GLOBAL => 0,
            elf::STB_WEAK => 1,
            _ => 2,
        };
        let rank = rank + if size_bytes == 0 { 4 } else { 0 } + if is_label { 8 } else { 0 };
        let name_offset = symbol.st_name(endian);
        found.push(Candidate { start, size_bytes, section_end, rank, name_offset });
    }
    found
}

/// One function per start; labels inside a function go; what has no size ends where the next begins.
fn choose(mut candidates: Vec<Candidate>, strings: &[u8]) -> Vec<Function> {
    let plainness = |candidate: &Candidate| {
        let name = name_at(strings, candidate.name_offset, MAX_COMPARED_BYTES);
        let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
        // Mangled names begin with an underscore that says nothing.
        let underscores = if name.starts_with(b"_Z") { 0 } else { underscores };
        (underscores, name.len(), name)
    };
    candidates.sort_unstable_by(|a, b| {
        let by_rank = (a.start, a.rank).cmp(&(b.start, b.rank));
        by_rank.then_with(|| plainness(a).cmp(&plainness(b)))
    });
    candidates.dedup_by_key(|candidate| candidate.start);
    let mut spanned_to = 0;
    candidates.retain(|candidate| {
        let is_inside = candidate.size_bytes == 0 && candidate.start < spanned_to;
        spanned_to = spanned_to.max(candidate.start.saturating_add(candidate.size_bytes));
        !is_inside
    });
    let next_starts = candidates.iter().skip(1).map(|next| next.start).chain([u64::MAX]);
    let functions = candidates.iter().zip(next_starts).map(|(candidate, next_start)| {
        let end = match candidate.size_bytes {
            0 => next_start.min(candidate.section_end),
            size => candidate.start.saturating_add(size),
        };
        Function { start: candidate.start, end, name_offset: candidate.name_offset }
    });
    functions.collect()
}

/// At most the first `most_bytes` of a name.
fn name_at(strings: &[u8], offset: u32, most_bytes: usize) -> &[u8] {
    let rest = strings.get(offset as usize..).unwrap_or_default();
    let rest = &rest[..rest.len().min(most_bytes)];
    rest.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// `memcpy@@GLIBC_2.14` is `memcpy`.
fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().position(|&byte| byte == b'@') {
        None | Some(0) => name,
        Some(at) => &name[..at],
    }
}
