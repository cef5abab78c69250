//! Content of an ELF file: its build ID, for which a few hundred bytes are read, and on demand its sections.
//!
//! Files are read, never mapped: a file that shrinks under a mapping would kill the reader, and with containers the
//! owner of the file may be another user.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use borsh::{BorshDeserialize, BorshSerialize};
use libdeflater::DecompressionError;
use object::read::elf::{CompressionHeader, FileHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};
use object::{CompressedData, CompressedFileRange, CompressionFormat, Endianness, elf};
use ramson_apart::{Owner, for_owner};
use ramson_paths::{Facts, Refusal, RegularFile};

use crate::budget::Budget;
use crate::build_id::build_id;
use crate::rooted::{Readers, RootedPath};

/// Bytes of a section's name that are kept: no section that is used has a longer name.
const MAX_NAME_BYTES: usize = 64;
/// A file with a CRC-32 is not read to its end if it is larger.
const MAX_CRC_BYTES: u64 = 4 << 30;
/// Some sections are read more than once; they are small.
const READ_AGAIN_BYTES: u64 = 1 << 20;
/// Larger tables are refused as damage.
pub(crate) const MAX_SECTIONS: u32 = 1 << 16;
const MAX_SEGMENTS: u32 = 1 << 16;
/// Deflate cannot do better than 1 : 1032; a header that claims more lies.
const MAX_COMPRESSION_RATIO: u64 = 1100;

/// Which file it was, and whose: if it is the same, so is the content.
#[derive(Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified_ns: i128,
    owner: u32,
}

impl From<Facts> for Identity {
    fn from(facts: Facts) -> Self {
        let Facts { device, inode, bytes, modified_ns, owner, .. } = facts;
        Self { device, inode, size_bytes: bytes, modified_ns, owner: owner.user }
    }
}

/// Why a file could not be opened as ELF.
pub(crate) enum OpenError {
    Missing,
    Unreadable(String),
    /// It is this owner's, whose worker has to read it.
    Theirs(Owner),
}

impl From<Refusal> for OpenError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Missing => Self::Missing,
            other => Self::Unreadable(other.to_string()),
        }
    }
}

/// An open ELF file. At first only its build ID has been read.
pub(crate) struct ElfFile {
    /// For messages.
    pub path: PathBuf,
    /// Place of the file by name; `None`: it was found through a process.
    pub place: Option<RootedPath>,
    /// Folder of the file, in which its parts are looked for.
    pub folder: RootedPath,
    pub identity: Identity,
    /// Who must be able to read its parts, too.
    pub readers: Readers,
    /// Belongs to root or to the user who runs this.
    pub is_trusted: bool,
    /// Lower-case hex; empty if there is none.
    pub build_id: String,
    /// May be shared with the other files of the binary.
    pub budget: Budget,
    /// Bytes that were not read yet: no more than these are read, because sections do not overlap.
    unread_bytes: AtomicU64,
    pub file: File,
    sections: OnceLock<Result<Sections, String>>,
}

impl ElfFile {
    pub fn open(place: &RootedPath, readers: Readers) -> Result<Self, OpenError> {
        let opened = match readers {
            Readers::Caller => Some(place.open()?),
            Readers::All => place.open_to_all()?,
        };
        let opened =
            opened.ok_or_else(|| OpenError::Unreadable("not every user may read it".into()))?;
        let folder = place.folder_of(&opened).unwrap_or_else(|| place.parent());
        let found = Self::of(opened, place.shown(), folder)?;
        Ok(Self { place: Some(place.clone()), readers, ..found })
    }

    /// The file that a process maps and calls `place`.
    pub fn mapped(opened: RegularFile, place: &RootedPath) -> Result<Self, OpenError> {
        Self::of(opened, place.shown(), place.parent())
    }

    fn of(opened: RegularFile, path: PathBuf, folder: RootedPath) -> Result<Self, OpenError> {
        let RegularFile { file, facts, .. } = opened;
        if for_owner(facts.owner).is_some() {
            return Err(OpenError::Theirs(facts.owner));
        }
        let build_id = hex(&build_id(&file).map_err(OpenError::Unreadable)?);
        let is_trusted = facts.is_trusted();
        Ok(Self {
            path,
            place: None,
            readers: Readers::Caller,
            folder,
            identity: facts.into(),
            is_trusted,
            build_id,
            budget: Budget::of(is_trusted),
            unread_bytes: AtomicU64::new(facts.bytes.saturating_add(READ_AGAIN_BYTES)),
            file,
            sections: OnceLock::new(),
        })
    }

    /// The ELF file that was inside this one and is now in `file`.
    pub fn unpacked(&self, file: File) -> io::Result<Self> {
        let size_bytes = file.metadata()?.len();
        Ok(Self {
            path: self.path.clone(),
            place: self.place.clone(),
            readers: self.readers,
            folder: self.folder.clone(),
            identity: Identity { size_bytes, ..self.identity },
            is_trusted: self.is_trusted,
            build_id: self.build_id.clone(),
            budget: self.budget.clone(),
            unread_bytes: AtomicU64::new(size_bytes + READ_AGAIN_BYTES),
            file,
            sections: OnceLock::new(),
        })
    }

    /// Takes what it unpacks from the budget of `other`, another file of the same binary.
    pub fn share_budget(&mut self, other: &Self) {
        if self.is_trusted == other.is_trusted {
            self.budget = other.budget.clone();
        }
    }

    /// Whether its names may be told of other programs: no stranger has put it there, or the user named its directory.
    pub fn is_chosen(&self) -> bool {
        self.is_trusted || self.folder.is_named_by_user()
    }

    /// Why its sections cannot be read, if they cannot.
    pub fn damage(&self) -> Option<String> {
        self.sections().err()
    }

    /// Whether it has debug information.
    pub fn has_lines(&self) -> bool {
        self.section(".debug_info").is_some()
    }

    /// The section headers, which are read once.
    pub fn sections(&self) -> Result<&Sections, String> {
        let read = || match class_of(&self.file) {
            Some(elf::ELFCLASS64) => sections_of::<elf::FileHeader64<Endianness>>(&self.file),
            Some(elf::ELFCLASS32) => sections_of::<elf::FileHeader32<Endianness>>(&self.file),
            _ => Err("not an ELF file".to_owned()),
        };
        self.sections.get_or_init(read).as_ref().map_err(String::clone)
    }

    /// The section with this name and some content; `.zdebug_x` counts as `.debug_x`.
    pub fn section(&self, name: &str) -> Option<&Section> {
        let is_it = |section: &&Section| {
            let old = section.name.strip_prefix(".zdebug_");
            section.size_bytes > 0
                && (section.name == name || old.is_some() && old == name.strip_prefix(".debug_"))
                && !matches!(section.kind, elf::SHT_NOBITS | elf::SHT_NULL)
        };
        self.sections().ok()?.all.iter().find(is_it)
    }

    /// Reads a section's content, decompressed.
    pub fn read(&self, section: &Section) -> Result<Vec<u8>, String> {
        let CompressedFileRange { format, offset, compressed_size, uncompressed_size } =
            section.content.clone()?;
        let fail = |reason: &str| Err(format!("{}: {reason}", section.name));
        let end = offset.checked_add(compressed_size);
        if end.is_none_or(|end| end > self.identity.size_bytes) {
            return fail("lies outside the file");
        }
        if uncompressed_size / MAX_COMPRESSION_RATIO > compressed_size + 1 {
            return fail(&format!("claims {uncompressed_size} bytes"));
        }
        let unread = |left: u64| left.checked_sub(compressed_size);
        if self.unread_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unread).is_err() {
            return fail("overlaps other sections");
        }
        let unpacked_bytes = if format == CompressionFormat::None { 0 } else { uncompressed_size };
        self.budget
            .take(compressed_size.saturating_add(unpacked_bytes))
            .or_else(|reason| fail(&reason).map(drop))?;
        let mut data = zeroes(compressed_size as usize)?;
        self.file.read_exact_at(&mut data, offset).map_err(|error| error.to_string())?;
        let unpacked = match format {
            CompressionFormat::None => return Ok(data),
            CompressionFormat::Zlib => inflated(&data, uncompressed_size as usize),
            _ => {
                let packed = CompressedData { format, data: &data, uncompressed_size };
                packed.decompress().map(Into::into).map_err(|error| error.to_string())
            }
        };
        unpacked.or_else(|error| fail(&error))
    }

    /// CRC-32 of the whole file, as `.gnu_debuglink` wants it; `None` if that is too much to read.
    pub fn crc32(&self) -> Option<u32> {
        if self.identity.size_bytes > MAX_CRC_BYTES
            || self.budget.take(self.identity.size_bytes).is_err()
        {
            return None;
        }
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 18];
        let mut offset = 0;
        loop {
            match self.file.read_at(&mut buffer, offset).ok()? {
                0 => return Some(hasher.finalize()),
                count => {
                    hasher.update(&buffer[..count]);
                    offset += count as u64;
                    // It may grow meanwhile.
                    if offset > self.identity.size_bytes {
                        return None;
                    }
                }
            }
        }
    }
}

/// The section headers of a file.
pub(crate) struct Sections {
    pub endian: Endianness,
    pub is_64: bool,
    pub all: Vec<Section>,
}

/// One section header.
pub(crate) struct Section {
    pub name: String,
    pub kind: elf::SectionType,
    pub address: u64,
    pub size_bytes: u64,
    /// Index of the section that this one refers to: the strings of a symbol table.
    pub link: usize,
    pub is_code: bool,
    content: Result<CompressedFileRange, String>,
}

pub(crate) fn class_of(file: &File) -> Option<elf::FileClass> {
    let mut ident = [0; 5];
    file.read_exact_at(&mut ident, 0).ok()?;
    ident.starts_with(&elf::ELFMAG).then_some(elf::FileClass(ident[4]))
}

/// The program headers of a file; an error if there are more than any linker makes.
pub(crate) fn program_headers<'data, E: FileHeader<Endian = Endianness>>(
    cache: &'data ReadCache<&'data File>,
) -> Result<(Endianness, &'data E, &'data [E::ProgramHeader]), String> {
    let text = |error: object::read::Error| error.to_string();
    let header = E::parse(cache).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    if header.phnum(endian, cache).map_err(text)? > MAX_SEGMENTS {
        return Err("too many segments".into());
    }
    Ok((endian, header, header.program_headers(endian, cache).map_err(text)?))
}

fn sections_of<E: FileHeader<Endian = Endianness>>(file: &File) -> Result<Sections, String> {
    let cache = ReadCache::new(file);
    let text = |error: object::read::Error| error.to_string();
    let header = E::parse(&cache).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    if header.shnum(endian, &cache).map_err(text)? > MAX_SECTIONS {
        return Err("too many sections".into());
    }
    let table = header.sections(endian, &cache).map_err(text)?;
    let mut all = Vec::with_capacity(table.len());
    for header in table.iter() {
        let name = table.section_name(endian, header).unwrap_or_default();
        let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME_BYTES)]).into_owned();
        all.push(Section {
            kind: header.sh_type(endian),
            address: header.sh_addr(endian).into(),
            size_bytes: header.sh_size(endian).into(),
            link: header.sh_link(endian) as usize,
            is_code: header.sh_flags(endian).contains(elf::SHF_EXECINSTR),
            content: content_of(header, endian, &name, &cache),
            name,
        });
    }
    Ok(Sections { endian, is_64: header.is_type_64(), all })
}

/// Range of a section's content in the file, and how the content is packed.
fn content_of<S: SectionHeader<Endian = Endianness>>(
    header: &S,
    endian: Endianness,
    name: &str,
    cache: &ReadCache<&File>,
) -> Result<CompressedFileRange, String> {
    let plain = CompressedFileRange::none(header.file_range(endian));
    let packed =
        header.compression(endian, cache).map_err(|_| "a compressed section is truncated")?;
    if let Some((packed, offset, compressed_size)) = packed {
        let format = match packed.ch_type(endian) {
            elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
            elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
            other => return Err(format!("unknown compression {}", other.0)),
        };
        let uncompressed_size = packed.ch_size(endian).into();
        return Ok(CompressedFileRange { format, offset, compressed_size, uncompressed_size });
    }
    let head = match name.strip_prefix(".zdebug_").and(plain.compressed_size.checked_sub(12)) {
        Some(compressed_size) => (cache.read_bytes_at(plain.offset, 12), compressed_size),
        None => return Ok(plain),
    };
    let (Ok([b'Z', b'L', b'I', b'B', size @ ..]), compressed_size) = head else { return Ok(plain) };
    Ok(CompressedFileRange {
        format: CompressionFormat::Zlib,
        offset: plain.offset + 12,
        compressed_size,
        uncompressed_size: size.iter().fold(0, |size, &byte| size << 8 | u64::from(byte)),
    })
}

/// Exactly `size_bytes` from a zlib stream.
fn inflated(packed: &[u8], size_bytes: usize) -> Result<Vec<u8>, String> {
    let mut content = zeroes(size_bytes)?;
    let mut decompressor = libdeflater::Decompressor::new();
    match decompressor.zlib_decompress(packed, &mut content) {
        Ok(count) if count == size_bytes => Ok(content),
        Ok(_) | Err(DecompressionError::InsufficientSpace) => {
            Err("its size is not the one in its header".into())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn zeroes(size_bytes: usize) -> Result<Vec<u8>, String> {
    // Whether there is room is asked for apart, as zeroed memory cannot be asked for without ending where there is none.
    Vec::<u8>::new().try_reserve_exact(size_bytes).map_err(|error| error.to_string())?;
    Ok(vec![0; size_bytes])
}

/// Lower-case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
