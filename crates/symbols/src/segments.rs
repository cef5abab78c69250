//! Addresses at which the loader maps a file's bytes.

use std::fs::File;
use std::os::fd::AsFd;

use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use ramson_apart::{Request, for_owner};
use ramson_paths::RegularFile;

use crate::elf::{class_of, program_headers};

const PAGE: u64 = 1 << 12;

pub(crate) const ADDRESS: u8 = 0x14;

/// The address, as linked, at which an ELF file is mapped from this offset on.
pub fn address_of_offset(opened: &RegularFile, offset: u64) -> Option<u64> {
    let RegularFile { file, facts, .. } = opened;
    let Some(by) = for_owner(facts.owner) else { return address_in_file(file, offset) };
    let body = borsh::to_vec(&offset).ok()?;
    let answer = by.ask(&Request { kind: ADDRESS, body: &body, files: &[file.as_fd()] }).ok()?;
    borsh::from_slice(&answer).ok()?
}

/// The same of a file that this process reads.
pub(crate) fn address_in_file(file: &File, offset: u64) -> Option<u64> {
    match class_of(file)? {
        elf::ELFCLASS64 => address_in::<elf::FileHeader64<Endianness>>(file, offset),
        elf::ELFCLASS32 => address_in::<elf::FileHeader32<Endianness>>(file, offset),
        _ => None,
    }
}

fn address_in<E: FileHeader<Endian = Endianness>>(file: &File, offset: u64) -> Option<u64> {
    let cache = ReadCache::new(file);
    let (endian, _, segments) = program_headers::<E>(&cache).ok()?;
    let loaded = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let ranges = loaded.map(|segment| {
        let (start, bytes) = segment.file_range(endian);
        (segment.p_vaddr(endian).into(), start, start.saturating_add(bytes))
    });
    ranges
        .filter(|&(_, start, end)| start & !(PAGE - 1) <= offset && offset < end)
        .map(|(address, start, _): (u64, _, _)| address.wrapping_sub(start).wrapping_add(offset))
        .last()
}
