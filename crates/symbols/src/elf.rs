//! What is in an ELF file: its build ID (read from a few hundred bytes), and on demand its
//! sections.
//!
//! Files are read, never mapped: a file that shrinks under a mapping would kill the reader, and
//! with containers the owner of the file may be another user.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libdeflater::DecompressionError;
use object::Endianness;
use object::elf;
use object::read::ReadCache;
use object::read::elf::{CompressionHeader, FileHeader, ProgramHeader, SectionHeader};

use crate::content::Content;

/// Larger notes, sections and tables are refused as damage.
const MAX_NOTES_BYTES: u64 = 1 << 20;
const MAX_SECTION_BYTES: u64 = 8 << 30;
const MAX_SECTIONS: u32 = 1 << 16;
/// Deflate cannot do better than 1 : 1032; a header that claims more lies.
const MAX_COMPRESSION_RATIO: u64 = 1100;

/// What `stat` says of a file's content: if it is the same, so is the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub size_bytes: u64,
    pub modified_ns: u64,
}

impl Identity {
    /// `None` if there is no regular file at `path`.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        metadata.is_file().then(|| Self::from_metadata(&metadata))
    }

    fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        let seconds_ns = metadata.mtime().wrapping_mul(1_000_000_000);
        let modified_ns = seconds_ns.wrapping_add(metadata.mtime_nsec()) as u64;
        Self { size_bytes: metadata.size(), modified_ns }
    }
}

/// Why a file could not be opened as ELF.
pub(crate) enum OpenError {
    Missing,
    Unreadable(String),
}

/// An open ELF file. Only its build ID has been read.
pub(crate) struct ElfFile {
    pub path: PathBuf,
    pub identity: Identity,
    /// Lower-case hex; empty if there is none.
    pub build_id: String,
    content: Content,
}

impl ElfFile {
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let unreadable = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenError::Missing,
            _ => OpenError::Unreadable(error.to_string()),
        };
        // Asked before opening: opening a FIFO would wait for its writer.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(OpenError::Unreadable("not a regular file".into()));
        }
        let file = File::open(path).map_err(unreadable)?;
        let identity = Identity::from_metadata(&file.metadata().map_err(unreadable)?);
        let content = Content::Disk(file);
        let build_id = match class_of(&content) {
            Some(elf::ELFCLASS64) => build_id_of::<elf::FileHeader64<Endianness>>(&content),
            Some(elf::ELFCLASS32) => build_id_of::<elf::FileHeader32<Endianness>>(&content),
            _ => Err("not an ELF file".to_owned()),
        };
        let build_id = hex(&build_id.map_err(OpenError::Unreadable)?);
        Ok(Self { path: path.to_owned(), identity, build_id, content })
    }

    /// The ELF file with these bytes, which were inside this one.
    pub fn with_content(&self, bytes: Vec<u8>) -> Self {
        let identity = Identity { size_bytes: bytes.len() as u64, ..self.identity };
        let (path, build_id) = (self.path.clone(), self.build_id.clone());
        Self { path, identity, build_id, content: Content::Memory(bytes) }
    }

    /// Reads the section headers.
    pub fn sections(&self) -> Result<Sections, String> {
        match class_of(&self.content) {
            Some(elf::ELFCLASS64) => sections_of::<elf::FileHeader64<Endianness>>(&self.content),
            Some(elf::ELFCLASS32) => sections_of::<elf::FileHeader32<Endianness>>(&self.content),
            _ => Err("not an ELF file".to_owned()),
        }
    }

    /// Reads a section's content, decompressed.
    pub fn read(&self, sections: &Sections, section: &Section) -> Result<Vec<u8>, String> {
        let Some(Packing { format, size_bytes, header_bytes }) = self.packing(sections, section)?
        else {
            return self.read_raw(section);
        };
        let packed_bytes = section.size_bytes - header_bytes;
        if size_bytes > MAX_SECTION_BYTES || size_bytes / MAX_COMPRESSION_RATIO > packed_bytes + 1 {
            return Err(format!("{}: claims {size_bytes} bytes", section.name));
        }
        let raw = self.read_raw(section)?;
        let data = &raw[header_bytes as usize..];
        let unpacked = match format {
            object::CompressionFormat::Zlib => inflated(data, size_bytes as usize),
            _ => {
                let packed = object::CompressedData { format, data, uncompressed_size: size_bytes };
                packed.decompress().map(Cow::into_owned).map_err(|error| error.to_string())
            }
        };
        unpacked.map_err(|error| format!("{}: {error}", section.name))
    }

    /// How a section is packed, if it is.
    fn packing(&self, sections: &Sections, section: &Section) -> Result<Option<Packing>, String> {
        let is_old = section.name.starts_with(".zdebug_");
        if !section.has_content || !(section.is_compressed || is_old) {
            return Ok(None);
        }
        self.check_extent(section)?;
        let mut head = [0; 24];
        let count = self.content.read_at(&mut head, section.offset);
        let count = count.map_err(|error| error.to_string())? as u64;
        let head = &head[..count.min(section.size_bytes) as usize];
        if section.is_compressed {
            compression_header(sections, head).map(Some)
        } else if head.starts_with(b"ZLIB") {
            let size = head.get(4..12).and_then(|b| b.try_into().ok()).ok_or("section is cut")?;
            let format = object::CompressionFormat::Zlib;
            Ok(Some(Packing { format, size_bytes: u64::from_be_bytes(size), header_bytes: 12 }))
        } else {
            Ok(None)
        }
    }

    fn check_extent(&self, section: &Section) -> Result<(), String> {
        let end = section.offset.checked_add(section.size_bytes);
        let is_inside = end.is_some_and(|end| end <= self.identity.size_bytes);
        match is_inside && section.size_bytes <= MAX_SECTION_BYTES {
            true => Ok(()),
            false => Err(format!("{}: lies outside the file", section.name)),
        }
    }

    fn read_raw(&self, section: &Section) -> Result<Vec<u8>, String> {
        if !section.has_content {
            return Ok(Vec::new());
        }
        self.check_extent(section)?;
        let mut content = vec![0; section.size_bytes as usize];
        let read = self.content.read_exact_at(&mut content, section.offset);
        read.map_err(|error| error.to_string())?;
        Ok(content)
    }

    /// CRC-32 of the whole file, as `.gnu_debuglink` wants it.
    pub fn crc32(&self) -> Option<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 18];
        let mut offset = 0;
        loop {
            match self.content.read_at(&mut buffer, offset).ok()? {
                0 => return Some(hasher.finalize()),
                count => {
                    hasher.update(&buffer[..count]);
                    offset += count as u64;
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
    is_compressed: bool,
    has_content: bool,
    offset: u64,
}

impl Sections {
    /// The section with this name and some content; `.zdebug_x` counts as `.debug_x`.
    pub fn named(&self, name: &str) -> Option<&Section> {
        let is_it = |section: &&Section| {
            let other = section.name.strip_prefix(".zdebug_");
            section.has_content
                && section.size_bytes > 0
                && (section.name == name
                    || (other.is_some() && other == name.strip_prefix(".debug_")))
        };
        self.all.iter().find(is_it)
    }

    pub fn has_lines(&self) -> bool {
        self.named(".debug_info").is_some()
    }
}

/// What the header of a packed section says.
struct Packing {
    format: object::CompressionFormat,
    /// Unpacked.
    size_bytes: u64,
    header_bytes: u64,
}

/// Where a file says that the rest of its debug information is.
pub(crate) struct DebugLink {
    /// A file name without a directory.
    pub name: Vec<u8>,
    pub crc32: u32,
}

/// `.gnu_debuglink`: a name, padding to four bytes, a CRC.
pub(crate) fn debug_link(file: &ElfFile, sections: &Sections) -> Option<DebugLink> {
    let content = file.read(sections, sections.named(".gnu_debuglink")?).ok()?;
    let name = content.split(|&byte| byte == 0).next()?;
    if name.is_empty() || name.contains(&b'/') || name == b"." || name == b".." {
        return None;
    }
    let crc_offset = (name.len() + 1).next_multiple_of(4);
    let crc: [u8; 4] = content.get(crc_offset..crc_offset + 4)?.try_into().ok()?;
    let crc32 = match sections.endian {
        Endianness::Little => u32::from_le_bytes(crc),
        Endianness::Big => u32::from_be_bytes(crc),
    };
    Some(DebugLink { name: name.to_owned(), crc32 })
}

/// `.gnu_debugaltlink`: the path and build ID (hex) of the file with the parts that `dwz` found to be common.
pub(crate) fn supplement_link(file: &ElfFile, sections: &Sections) -> Option<(Vec<u8>, String)> {
    let content = file.read(sections, sections.named(".gnu_debugaltlink")?).ok()?;
    let end = content.iter().position(|&byte| byte == 0)?;
    Some((content[..end].to_owned(), hex(&content[end + 1..])))
}

fn class_of(content: &Content) -> Option<elf::FileClass> {
    let mut ident = [0; 5];
    content.reader().read_exact(&mut ident).ok()?;
    ident.starts_with(&elf::ELFMAG).then_some(elf::FileClass(ident[4]))
}

fn build_id_of<E: FileHeader<Endian = Endianness>>(content: &Content) -> Result<Vec<u8>, String> {
    let cache = ReadCache::new(content.reader());
    let text = |error: object::read::Error| error.to_string();
    let header = E::parse(&cache).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    for segment in header.program_headers(endian, &cache).map_err(text)? {
        if segment.p_type(endian) != elf::PT_NOTE
            || segment.p_filesz(endian).into() > MAX_NOTES_BYTES
        {
            continue;
        }
        if let Ok(Some(notes)) = segment.notes(endian, &cache)
            && let Some(id) = build_id_note(endian, notes)
        {
            return Ok(id);
        }
    }
    // Some tools leave the segments of a separate debug file pointing nowhere; its sections are right.
    if header.shnum(endian, &cache).map_err(text)? > MAX_SECTIONS {
        return Err("too many sections".into());
    }
    for section in header.section_headers(endian, &cache).map_err(text)? {
        if section.sh_size(endian).into() > MAX_NOTES_BYTES {
            continue;
        }
        if let Ok(Some(notes)) = section.notes(endian, &cache)
            && let Some(id) = build_id_note(endian, notes)
        {
            return Ok(id);
        }
    }
    Ok(Vec::new())
}

fn build_id_note<E: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    mut notes: object::read::elf::NoteIterator<'_, E>,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_owned());
        }
    }
    None
}

fn sections_of<E: FileHeader<Endian = Endianness>>(content: &Content) -> Result<Sections, String> {
    let cache = ReadCache::new(content.reader());
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
        let flags = header.sh_flags(endian);
        all.push(Section {
            name: String::from_utf8_lossy(name).into_owned(),
            kind: header.sh_type(endian),
            address: header.sh_addr(endian).into(),
            size_bytes: header.sh_size(endian).into(),
            link: header.sh_link(endian) as usize,
            is_code: flags.contains(elf::SHF_EXECINSTR),
            is_compressed: flags.contains(elf::SHF_COMPRESSED),
            has_content: !matches!(header.sh_type(endian), elf::SHT_NOBITS | elf::SHT_NULL),
            offset: header.sh_offset(endian).into(),
        });
    }
    Ok(Sections { endian, is_64: header.is_type_64(), all })
}

/// Exactly `size_bytes` from a zlib stream.
fn inflated(packed: &[u8], size_bytes: usize) -> Result<Vec<u8>, String> {
    // Whether there is room is asked for apart, as zeroed memory cannot be asked for without ending where there is none.
    Vec::<u8>::new().try_reserve_exact(size_bytes).map_err(|error| error.to_string())?;
    let mut content = vec![0; size_bytes];
    let mut decompressor = libdeflater::Decompressor::new();
    match decompressor.zlib_decompress(packed, &mut content) {
        Ok(count) if count == size_bytes => Ok(content),
        Ok(_) | Err(DecompressionError::InsufficientSpace) => {
            Err("not of the size that its header says".into())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn compression_header(sections: &Sections, raw: &[u8]) -> Result<Packing, String> {
    fn parse<C: CompressionHeader<Endian = Endianness>>(
        endian: Endianness,
        raw: &[u8],
    ) -> Option<(elf::CompressionType, u64, u64)> {
        let (header, rest) = object::pod::from_bytes::<C>(raw).ok()?;
        Some((
            header.ch_type(endian),
            header.ch_size(endian).into(),
            (raw.len() - rest.len()) as u64,
        ))
    }
    let parsed = if sections.is_64 {
        parse::<elf::CompressionHeader64<Endianness>>(sections.endian, raw)
    } else {
        parse::<elf::CompressionHeader32<Endianness>>(sections.endian, raw)
    };
    let (kind, size_bytes, header_bytes) = parsed.ok_or("a compressed section is cut")?;
    let format = match kind {
        elf::ELFCOMPRESS_ZLIB => object::CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => object::CompressionFormat::Zstandard,
        other => return Err(format!("unknown compression {}", other.0)),
    };
    Ok(Packing { format, size_bytes, header_bytes })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
