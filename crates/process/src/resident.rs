//! What the kernel counts as resident, in parts that add up to it.

use crate::glibc::{Arena, Books};
use crate::identify::base_name;
use crate::mappings::{Backing, Mapping};

/// A part of RSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In blocks that the program has, by the allocator's books.
    Live,
    /// Kept free: at the top of arenas.
    Top,
    /// Kept free: whole pages inside of free chunks.
    FreePages,
    /// Kept free: free chunks' parts of pages that are in use.
    FreeChunks,
    /// Kept free: in fastbins.
    Fastbins,
    /// Kept free: in tcaches.
    Tcaches,
    /// The allocator's own.
    Metadata,
    /// In arenas, but not walked.
    NotWalked,
    /// Anonymous memory elsewhere: mmap by the program, a runtime's heap, an allocator whose books cannot be read.
    Anonymous,
    /// Zeros in transparent huge pages there.
    Padding,
    /// Variables of programs and libraries.
    Data,
    /// Of threads.
    Stacks,
    /// Code and constants.
    FilesPrivate,
    /// Files that are written through.
    FilesShared,
    /// tmpfs, memfd, System V.
    Shmem,
    /// Its library, tables and profile file.
    Ramson,
    /// vdso and the like.
    Kernel,
    /// What changed while it was looked at; may be negative.
    Moved,
}

impl Part {
    /// All of them, in the order in which they are shown, with the names of `--json`.
    pub const ALL: [(Self, &str); 18] = [
        (Self::Live, "live"),
        (Self::Top, "kept_top"),
        (Self::FreePages, "kept_whole_pages"),
        (Self::FreeChunks, "kept_in_used_pages"),
        (Self::Fastbins, "kept_fastbins"),
        (Self::Tcaches, "kept_tcaches"),
        (Self::Metadata, "allocator_metadata"),
        (Self::NotWalked, "not_walked"),
        (Self::Anonymous, "own_mmaps"),
        (Self::Padding, "huge_page_padding"),
        (Self::Data, "data"),
        (Self::Stacks, "stacks"),
        (Self::FilesPrivate, "files_private"),
        (Self::FilesShared, "files_shared"),
        (Self::Shmem, "shmem"),
        (Self::Ramson, "ramson"),
        (Self::Kernel, "kernel"),
        (Self::Moved, "moved"),
    ];

    /// Whether it is memory that the program freed.
    pub fn is_kept_free(self) -> bool {
        use Part::*;
        matches!(self, Top | FreePages | FreeChunks | Fastbins | Tcaches)
    }
}

/// RSS in parts, and what stands beside it. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// The sum of the parts.
    pub rss: u64,
    parts: [i64; Part::ALL.len()],
    /// Not resident.
    pub swap: u64,
    /// Of the anonymous memory, in transparent huge pages.
    pub anonymous_huge: u64,
    /// Not part of RSS.
    pub hugetlb: u64,
}

impl Explained {
    /// The bytes of a part.
    pub fn part(&self, part: Part) -> i64 {
        self.parts[part as usize]
    }

    /// The sum of what is kept free.
    pub fn kept_free(&self) -> i64 {
        let kept = Part::ALL.iter().filter(|(part, _)| part.is_kept_free());
        kept.map(|&(part, _)| self.part(part)).sum()
    }

    /// Moves what an allocator says of itself out of the anonymous memory, in this order, as far as there is any.
    pub fn divide_anonymous(&mut self, parts: &[(Part, u64)]) {
        for &(part, bytes) in parts {
            let moved = self.part(Part::Anonymous).max(0).min(bytes.min(i64::MAX as u64) as i64);
            self.add(Part::Anonymous, -moved);
            self.add(part, moved);
        }
    }

    fn add(&mut self, part: Part, bytes: i64) {
        self.parts[part as usize] += bytes;
    }
}

/// Whether a mapping is ramson's: the library and the anonymous memory right behind it, the profile file, and anonymous memory that is
/// neither to be dumped nor to become huge pages, as the page filter and the tables are.
pub fn is_ramsons(mapping: &Mapping, previous: Option<&Mapping>, profile: Option<&str>) -> bool {
    let is_library = |mapping: &Mapping| base_name(&mapping.path) == "libramson.so";
    let is_unnamed = mapping.path.is_empty();
    let follows_library =
        previous.is_some_and(|last| last.end == mapping.start && is_library(last));
    is_library(mapping)
        || Some(mapping.path.as_str()) == profile
        || mapping.path.starts_with("/memfd:ramson")
        || is_unnamed && (follows_library || mapping.has_flag("dd") && mapping.has_flag("nh"))
}

/// Divides the mappings of one reading of smaps. `books` were read at about the same time; `is_stack` and `is_shmem` know more than the
/// mappings' names tell, `padding` what of their huge pages is zeros; `profile` is ramson's file in this process.
pub fn explain(
    mappings: &[Mapping],
    books: Option<&Books>,
    is_stack: impl Fn(&Mapping) -> bool,
    is_shmem: impl Fn(&Mapping) -> bool,
    padding: impl Fn(&Mapping) -> u64,
    profile: Option<&str>,
) -> Explained {
    let mut explained = Explained::default();
    let mut previous: Option<&Mapping> = None;
    for mapping in mappings {
        explained.rss += mapping.rss;
        explained.swap += mapping.swap;
        explained.anonymous_huge += mapping.anonymous_huge;
        explained.hugetlb += mapping.hugetlb;
        let (rss, anonymous) = (mapping.rss as i64, mapping.anonymous as i64);
        let follows_data = previous
            .is_some_and(|last| last.end == mapping.start && last.inode != 0 && last.is_writable());
        let is_ramsons = is_ramsons(mapping, previous, profile);
        match mapping.backing() {
            Backing::Anonymous => {
                let rest = match () {
                    () if is_ramsons => Part::Ramson,
                    () if is_stack(mapping) => Part::Stacks,
                    // The zeroed part of a library's variables has no file.
                    () if mapping.path.is_empty() && follows_data => Part::Data,
                    () => Part::Anonymous,
                };
                divide(&mut explained, mapping, books, rest, &padding);
            }
            _ if is_ramsons => explained.add(Part::Ramson, rss),
            Backing::Kernel => explained.add(Part::Kernel, rss),
            Backing::Shmem => explained.add(Part::Shmem, rss),
            Backing::File if is_shmem(mapping) => explained.add(Part::Shmem, rss),
            Backing::File if mapping.is_shared() => explained.add(Part::FilesShared, rss),
            Backing::File => {
                explained.add(Part::Data, anonymous);
                explained.add(Part::FilesPrivate, rss - anonymous);
            }
        }
        previous = Some(mapping);
    }
    if let Some(books) = books {
        add_books(&mut explained, books);
    }
    explained
}

/// Adds what of an anonymous mapping lies outside of the allocator's ranges to `rest`; these follow from the books. The kernel joins mappings
/// that touch, so that blocks of the allocator may lie behind a library's variables, or beside a stack.
fn divide(
    explained: &mut Explained,
    mapping: &Mapping,
    books: Option<&Books>,
    rest: Part,
    padding: &impl Fn(&Mapping) -> u64,
) {
    let (mut covered, mut resident) = (0, 0);
    for range in books.map_or(&[][..], |books| &books.ranges) {
        let (start, end) = (range.start.max(mapping.start), range.end.min(mapping.end));
        if start < end {
            covered += end - start;
            resident += range.presence.resident_bytes(start, end);
        }
    }
    let outside = mapping.rss as i64 - resident as i64;
    let uncovered = (mapping.end - mapping.start - covered) as i64;
    let elsewhere = outside.clamp(0, uncovered);
    let is_the_program_s = rest == Part::Anonymous && elsewhere > 0;
    let padding = if is_the_program_s { (padding(mapping) as i64).min(elsewhere) } else { 0 };
    explained.add(Part::Padding, padding);
    explained.add(rest, elsewhere - padding);
    explained.add(Part::Moved, outside - elsewhere);
}

fn add_books(explained: &mut Explained, books: &Books) {
    let mut add = |part, bytes: u64| explained.add(part, bytes as i64);
    let sum = |part: fn(&Arena) -> u64| books.sum(part);
    let free_pages = sum(|arena| arena.free_page_bytes);
    add(Part::Top, sum(|arena| arena.top.resident_bytes));
    add(Part::FreePages, free_pages);
    add(Part::FreeChunks, sum(|arena| arena.free.resident_bytes) - free_pages);
    add(Part::Fastbins, sum(|arena| arena.fastbins.bytes));
    add(Part::Tcaches, sum(|arena| arena.tcaches.resident_bytes));
    let metadata = sum(|arena| arena.metadata_bytes + arena.tcache_metadata_bytes);
    add(Part::Metadata, metadata + books.chunk_metadata_bytes());
    add(Part::NotWalked, sum(|arena| arena.not_walked_resident_bytes));
    add(Part::Live, books.live_resident_bytes());
    // What the two readings do not agree about.
    let all: i64 = explained.parts.iter().sum();
    explained.add(Part::Moved, explained.rss as i64 - all);
}
