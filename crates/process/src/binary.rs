//! A file that a process runs or has mapped, read in pieces: it may be of any size, and anyone's.

use crate::areas::Area;
use crate::asked::{PIECE, SEARCH};
use crate::search::{Found, Search};
use crate::watched;
use borsh::{BorshDeserialize, BorshSerialize};
use object::ReadRef;
use ramson_apart::{Apart, for_owner};
use ramson_paths::{
    Facts, Links, MappedFile, Refusal, RegularFile, Root, executable_of, mapped_file,
};
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, absolute};

/// Read of one file, for its texts and once more for its tables.
const MOST_READ_BYTES: u64 = 256 << 20;
/// Most bytes of a file that are looked at.
const MOST_FILE_BYTES: u64 = 16 << 30;
/// Read at once of a text.
const PIECE_BYTES: usize = 1 << 20;
/// A text that is looked for is shorter.
const OVERLAP_BYTES: usize = 4096;
/// Read at once around a name.
const BLOCK_BYTES: u64 = 64 << 10;
/// A name that is looked for is shorter.
const MOST_NAME_BYTES: u64 = 256;
/// Headers and tables of one file.
const MOST_TABLES: usize = 64;

/// Where one is.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub(crate) enum Place {
    /// The executable of a process.
    Executable(u32),
    /// The very file that a process has mapped there, also where it has been replaced on disk since.
    Mapped(u32, Area),
    /// At a path in the root directory of a process.
    At(u32, String),
    /// At a path in our own.
    Own(String),
}

/// A file that a process runs or has mapped.
pub struct Binary(Source);

enum Source {
    Ours(Box<Content>),
    /// A worker of its owner opens it when it is asked.
    Theirs(Apart, Place),
}

impl Binary {
    /// The very file that is mapped, also where it has been replaced on disk since.
    pub fn mapped(pid: u32, area: &Area) -> Option<Self> {
        Self::of_process(pid, Place::Mapped(pid, area.clone()))
    }

    /// The executable of process `pid`.
    pub fn executable(pid: u32) -> Option<Self> {
        Self::of_process(pid, Place::Executable(pid))
    }

    /// The file that is at `path` in the root directory of process `pid` by now.
    pub fn at(pid: u32, path: &str) -> Option<Self> {
        Self::of_process(pid, Place::At(pid, path.into()))
    }

    /// A file of this process's own choice.
    pub fn own(path: &Path) -> Option<Self> {
        let place = Place::Own(absolute(path).ok()?.to_str()?.into());
        Some(Self(Source::Ours(Box::new(Content::of(place.open().ok()?)))))
    }

    fn of_process(pid: u32, place: Place) -> Option<Self> {
        if let Some(by) = watched::owner_of(pid).ok()? {
            return Some(Self(Source::Theirs(by, place)));
        }
        let opened = place.open().ok()?;
        Some(Self(match for_owner(opened.facts.owner) {
            // What another user has put there is read as that user, who has no right to look at the process.
            Some(by) => Source::Theirs(by, Place::Own(opened.name()?.to_str()?.into())),
            None => Source::Ours(Box::new(Content::of(opened))),
        }))
    }

    /// Returns the result of a search in the file. Finds nothing if the worker that looks fails.
    pub fn search(&self, what: Search) -> Found {
        match &self.0 {
            Source::Ours(content) => what.run(content),
            Source::Theirs(by, place) => by.ask_for(SEARCH, &(place, what)).unwrap_or_default(),
        }
    }

    /// Its content, if it is neither another user's file nor one of another user's process.
    pub(crate) fn if_ours(self) -> Option<Content> {
        match self.0 {
            Source::Ours(content) => Some(*content),
            Source::Theirs(..) => None,
        }
    }

    /// Its content, to be read by this process, as one that acts on a process reads what it calls there. Of another user's file, a copy.
    pub fn here(self) -> Option<Content> {
        let (by, place) = match self.0 {
            Source::Ours(content) => return Some(*content),
            Source::Theirs(by, place) => (by, place),
        };
        let copy = File::from(memfd_create("ramson-copy", MemfdFlags::CLOEXEC).ok()?);
        let mut length = 0;
        loop {
            let piece: Vec<u8> = by.ask_for::<Option<_>>(PIECE, &(&place, length)).ok()??;
            if piece.is_empty() {
                return RegularFile::given(copy).ok().map(Content::of);
            }
            copy.write_all_at(&piece, length).ok()?;
            length += piece.len() as u64;
            (length <= MOST_READ_BYTES).then_some(())?;
        }
    }
}

impl Place {
    fn open(&self) -> Result<RegularFile, Refusal> {
        match self {
            Self::Executable(pid) => executable_of(*pid),
            Self::Mapped(pid, area) => {
                let Area { start, end, device, inode, ref path, .. } = *area;
                mapped_file(&MappedFile { pid: *pid, range: start..end, device, inode, path })
            }
            Self::At(pid, path) => Root::of_process(*pid)?.open(Path::new(path), Links::WithinRoot),
            Self::Own(path) => Root::at(Path::new("/"))?.open(Path::new(path), Links::WithinRoot),
        }
    }
}

/// The content of a file, open.
pub struct Content {
    file: File,
    facts: Facts,
    left_bytes: Cell<u64>,
    /// Each read once, when it is needed.
    blocks: Vec<OnceCell<Vec<u8>>>,
    tables: [OnceCell<(u64, Vec<u8>)>; MOST_TABLES],
}

impl Content {
    /// In a worker.
    pub(crate) fn open(place: &Place) -> Option<Self> {
        place.open().ok().map(Self::of)
    }

    fn of(opened: RegularFile) -> Self {
        let bytes = opened.facts.bytes.min(MOST_FILE_BYTES);
        Self {
            file: opened.file,
            facts: opened.facts,
            left_bytes: Cell::new(MOST_READ_BYTES),
            blocks: (0..bytes.div_ceil(BLOCK_BYTES)).map(|_| OnceCell::new()).collect(),
            tables: [const { OnceCell::new() }; MOST_TABLES],
        }
    }

    /// The permission bits.
    pub(crate) fn mode(&self) -> u32 {
        self.facts.mode
    }

    /// The bytes from an offset on, as many as are passed at once; none at the end.
    pub(crate) fn piece(&self, offset: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PIECE_BYTES];
        let read = self.file.read_at(&mut bytes, offset).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }

    /// Returns the first `LENGTH` bytes of the file; `None` if the file is shorter.
    pub fn head<const LENGTH: usize>(&self) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        Some(bytes)
    }

    /// The first answer that a piece of what is stored gives, in the order of the file. Each place that a short text is at is within a piece.
    pub fn find<T>(&self, mut answer: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        let mut piece = vec![0; OVERLAP_BYTES + PIECE_BYTES];
        let mut kept = 0;
        let mut left = MOST_READ_BYTES;
        let mut at = 0;
        while let Some(stored) = self.stored(at).filter(|_| left > 0) {
            // Bytes kept from before a hole end at the hole.
            kept = if stored.start == at { kept } else { 0 };
            let length = (stored.end - stored.start).min(PIECE_BYTES as u64).min(left) as usize;
            let read = self.file.read_at(&mut piece[kept..kept + length], stored.start).ok()?;
            if read == 0 {
                return None;
            }
            let filled = kept + read;
            if let Some(found) = answer(&piece[..filled]) {
                return Some(found);
            }
            kept = filled.min(OVERLAP_BYTES);
            piece.copy_within(filled - kept..filled, 0);
            left -= read as u64;
            at = stored.start + read as u64;
        }
        None
    }

    /// The first range from `at` on that is no hole.
    fn stored(&self, at: u64) -> Option<Range<u64>> {
        let start = seek(&self.file, SeekFrom::Data(at)).ok()?;
        let end = seek(&self.file, SeekFrom::Hole(start)).unwrap_or(self.facts.bytes);
        (start < end).then_some(start..end)
    }

    fn read(&self, offset: u64, length: u64) -> Option<Vec<u8>> {
        self.left_bytes.set(self.left_bytes.get().checked_sub(length)?);
        let end = offset + length;
        let mut bytes = vec![0; length as usize];
        let mut at = offset;
        // The zeros of a hole stay untouched, and so take no memory.
        while let Some(stored) = self.stored(at).filter(|stored| stored.start < end) {
            let (from, to) = (stored.start, stored.end.min(end));
            let part = (from - offset) as usize..(to - offset) as usize;
            self.file.read_exact_at(&mut bytes[part], from).ok()?;
            at = to;
        }
        Some(bytes)
    }

    fn bytes(&self) -> u64 {
        self.facts.bytes.min(MOST_FILE_BYTES)
    }
}

/// Headers, tables and names of it, within the bound.
impl<'a> ReadRef<'a> for &'a Content {
    fn len(self) -> Result<u64, ()> {
        Ok(self.bytes())
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size == 0 {
            return Ok(&[]);
        }
        let is_it =
            |(start, bytes): &(u64, Vec<u8>)| *start == offset && bytes.len() as u64 == size;
        let mut known = self.tables.iter().map_while(OnceCell::get);
        if let Some((_, bytes)) = known.find(|table| is_it(table)) {
            return Ok(bytes);
        }
        let is_within = offset.checked_add(size).is_some_and(|end| end <= self.bytes());
        let free = self.tables.iter().find(|table| table.get().is_none()).ok_or(())?;
        let bytes = is_within.then(|| self.read(offset, size)).flatten().ok_or(())?;
        Ok(&free.get_or_init(|| (offset, bytes)).1)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let number = range.start / BLOCK_BYTES;
        let block = self.blocks.get(number as usize).ok_or(())?;
        let start = number * BLOCK_BYTES;
        if block.get().is_none() {
            let end = (start + BLOCK_BYTES + MOST_NAME_BYTES).min(self.bytes());
            block.set(self.read(start, end - start).ok_or(())?).map_err(drop)?;
        }
        let name_start = (range.start - start) as usize;
        let rest = block.get().and_then(|block| block.get(name_start..)).ok_or(())?;
        let most = range.end.saturating_sub(range.start).min(MOST_NAME_BYTES) as usize;
        let rest = &rest[..rest.len().min(most)];
        memchr::memchr(delimiter, rest).map(|end| &rest[..end]).ok_or(())
    }
}
