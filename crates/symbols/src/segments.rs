//! Addresses at which the loader maps a file's bytes.

use std::fs::File;
use std::path::{Path, PathBuf};

use borsh::{BorshDeserialize, BorshSerialize};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use ramson_apart::{Apart, Owner, for_owner};
use ramson_paths::{Links, Root};

use crate::asked;
use crate::elf::{class_of, program_headers};
use crate::rooted::{read_path, write_buf};

const PAGE: u64 = 1 << 12;

/// A place in a file.
#[derive(BorshSerialize, BorshDeserialize)]
pub(crate) struct Offset {
    #[borsh(serialize_with = "write_buf", deserialize_with = "read_path")]
    path: PathBuf,
    offset: u64,
}

/// The address, as linked, at which the ELF file at `path` is mapped from this offset on. A profile of `named_by` names the path.
pub fn address_of_offset(path: &Path, offset: u64, named_by: Owner) -> Option<u64> {
    let question = Offset { path: path.to_owned(), offset };
    let Some(by) = for_owner(named_by) else { return address(&question) };
    address_below(&Root::ours(), &question).or_else(|| their_address(&by, &question))
}

/// The same of a file in a directory that the user named.
pub fn address_of_offset_in(directory: &Path, path: &Path, offset: u64) -> Option<u64> {
    let path = directory.join(path.strip_prefix("/").unwrap_or(path));
    address(&Offset { path, offset })
}

fn their_address(by: &Apart, question: &Offset) -> Option<u64> {
    by.ask_for::<Option<u64>>(asked::ADDRESS, question).ok()?
}

/// The same in this process's root directory.
pub(crate) fn address(question: &Offset) -> Option<u64> {
    address_below(&Root::at(Path::new("/")).ok()?, question)
}

fn address_below(root: &Root, question: &Offset) -> Option<u64> {
    let opened = root.open(&question.path, Links::WithinRoot).ok()?;
    match for_owner(opened.facts.owner) {
        Some(by) => their_address(&by, question),
        None => address_in_file(&opened.file, question.offset),
    }
}

fn address_in_file(file: &File, offset: u64) -> Option<u64> {
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
