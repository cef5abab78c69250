//! The build ID of an ELF file, from its notes: a few hundred bytes are read.

use std::fs::File;

use object::read::ReadCache;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{Endianness, elf};

use crate::elf::{MAX_SECTIONS, class_of, program_headers};

/// Notes beyond this are not read.
const MAX_NOTES_BYTES: u64 = 1 << 20;

/// Empty if there is none.
pub(crate) fn build_id(file: &File) -> Result<Vec<u8>, String> {
    match class_of(file) {
        Some(elf::ELFCLASS64) => build_id_of::<elf::FileHeader64<Endianness>>(file),
        Some(elf::ELFCLASS32) => build_id_of::<elf::FileHeader32<Endianness>>(file),
        _ => Err("not an ELF file".to_owned()),
    }
}

fn build_id_of<E: FileHeader<Endian = Endianness>>(file: &File) -> Result<Vec<u8>, String> {
    let cache = ReadCache::new(file);
    let text = |error: object::read::Error| error.to_string();
    let (endian, header, segments) = program_headers::<E>(&cache)?;
    let mut left_bytes = MAX_NOTES_BYTES;
    let mut notes = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_NOTE)
        .filter(|segment| fits(&mut left_bytes, segment.p_filesz(endian).into()))
        .filter_map(|segment| segment.notes(endian, &cache).ok().flatten());
    if let Some(id) = notes.find_map(|notes| build_id_note(endian, notes)) {
        return Ok(id);
    }
    // Some tools leave the segments of a separate debug file pointing nowhere; its sections are right.
    if header.shnum(endian, &cache).map_err(text)? > MAX_SECTIONS {
        return Err("too many sections".into());
    }
    let sections = header.section_headers(endian, &cache).map_err(text)?.iter();
    let mut left_bytes = MAX_NOTES_BYTES;
    let mut notes = sections
        .filter(|section| section.sh_type(endian) == elf::SHT_NOTE)
        .filter(|section| fits(&mut left_bytes, section.sh_size(endian).into()))
        .filter_map(|section| section.notes(endian, &cache).ok().flatten());
    Ok(notes.find_map(|notes| build_id_note(endian, notes)).unwrap_or_default())
}

/// Takes so much of what is left, if there is so much.
fn fits(left_bytes: &mut u64, bytes: u64) -> bool {
    let rest = left_bytes.checked_sub(bytes);
    *left_bytes = rest.unwrap_or(*left_bytes);
    rest.is_some()
}

fn build_id_note<E: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    mut notes: NoteIterator<'_, E>,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_owned());
        }
    }
    None
}
