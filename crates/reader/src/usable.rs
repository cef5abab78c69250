//! How many bytes an allocator hands out for a request: what the program may use of the block.
//!
//! Sources: glibc's malloc/malloc.c (`request2size`), jemalloc's doc/jemalloc.xml.in (size classes), gperftools'
//! src/common.cc (`SizeMap::Init`). Tests compare with `malloc_usable_size` of the libraries.

use crate::snapshot::{Allocator, LiveSample, Mapping, Snapshot};
use ramson_format::{AllocatorKind, PRELOADED_FAMILY};
use std::collections::HashMap;
use std::sync::LazyLock;

const PAGE_BYTES: u64 = 4096;
/// glibc maps blocks of this size and more one by one, unless told otherwise.
const GLIBC_MAPPED_BYTES: u64 = 128 << 10;
const TCMALLOC_PAGE_BYTES: u64 = 8 << 10;
const TCMALLOC_MOST_SMALL_BYTES: u64 = 256 << 10;

/// The allocator whose rounding is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rounding {
    /// None is known: the requested bytes count.
    #[default]
    Unknown,
    /// The C library's.
    Glibc,
    /// jemalloc 4 and newer, with pages of 4 KiB.
    Jemalloc,
    /// That of gperftools.
    Tcmalloc,
}

/// The rounding of each family of a snapshot.
pub struct Roundings {
    preloaded: Rounding,
    /// Of the families from 1 on, as far as they are known.
    inside: HashMap<u8, Rounding>,
}

impl Roundings {
    /// Returns those of the allocators that a snapshot has samples of.
    pub fn of(snapshot: &Snapshot) -> Self {
        let known = |it: &Allocator| match AllocatorKind::of(it.kind)? {
            AllocatorKind::Jemalloc => Some((it.family, Rounding::Jemalloc)),
            AllocatorKind::Tcmalloc => Some((it.family, Rounding::Tcmalloc)),
            AllocatorKind::Mimalloc
            | AllocatorKind::Snmalloc
            | AllocatorKind::GoogleTcmalloc
            | AllocatorKind::Other => None,
        };
        let inside = snapshot.allocators.iter().filter_map(known).collect();
        Self { preloaded: Rounding::of(&snapshot.mappings), inside }
    }

    /// Returns the bytes of a live block that the program may use.
    pub fn usable_bytes(&self, live: &LiveSample) -> u64 {
        let rounding = match live.family {
            PRELOADED_FAMILY => self.preloaded,
            family => self.inside.get(&family).copied().unwrap_or_default(),
        };
        rounding.usable_bytes(live.size, live.address)
    }
}

impl Rounding {
    /// Returns the rounding of a program's allocator, by its mapped files: one that takes the place of the C library's counts.
    fn of(mappings: &[Mapping]) -> Self {
        let of_name = |mapping: &Mapping| {
            let path = mapping.path.trim_end_matches(" (deleted)");
            let name = path.rsplit('/').next().unwrap_or_default();
            let known = [
                (3, "libjemalloc", Self::Jemalloc),
                (3, "libtcmalloc", Self::Tcmalloc),
                (2, "libmimalloc", Self::Unknown),
                (1, "libc.so.6", Self::Glibc),
                (1, "libc-2.", Self::Glibc),
            ];
            known.into_iter().find(|(_, start, _)| name.starts_with(start))
        };
        let found = mappings.iter().filter_map(of_name).max_by_key(|(rank, ..)| *rank);
        found.map(|(.., rounding)| rounding).unwrap_or_default()
    }

    /// Returns the bytes of the block at `address` that the program may use, of `size` that it asked for.
    fn usable_bytes(self, size: u64, address: u64) -> u64 {
        let usable = match self {
            Self::Unknown => Some(size),
            Self::Glibc => glibc(size, address),
            Self::Jemalloc => jemalloc(size),
            Self::Tcmalloc => tcmalloc(size),
        };
        usable.unwrap_or(size)
    }
}

/// The 8 bytes of the size in front of the next block are the block's own. `None`: the size is too large for a block.
fn glibc(size: u64, address: u64) -> Option<u64> {
    // A block that was mapped by itself begins behind two words.
    if size >= GLIBC_MAPPED_BYTES && address % PAGE_BYTES == 16 {
        return Some(size.checked_add(16)?.checked_next_multiple_of(PAGE_BYTES)? - 16);
    }
    Some((size.checked_add(8)?.checked_next_multiple_of(16)? - 8).max(24))
}

/// Four classes to each power of two; from 16 to 128 bytes, one to each 16 bytes.
fn jemalloc(size: u64) -> Option<u64> {
    match size {
        0..=8 => Some(8),
        9..=128 => size.checked_next_multiple_of(16),
        _ => size.checked_next_multiple_of(1 << ((size - 1).ilog2() - 2)),
    }
}

fn tcmalloc(size: u64) -> Option<u64> {
    static CLASSES: LazyLock<Vec<u64>> = LazyLock::new(tcmalloc_classes);
    if size > TCMALLOC_MOST_SMALL_BYTES {
        return size.checked_next_multiple_of(TCMALLOC_PAGE_BYTES);
    }
    CLASSES.get(CLASSES.partition_point(|&class| class < size)).copied()
}

/// Small classes of which a span of equally many pages holds equally many blocks are one.
fn tcmalloc_classes() -> Vec<u64> {
    let mut classes: Vec<(u64, u64)> = Vec::new();
    let mut size = 8;
    while size <= TCMALLOC_MOST_SMALL_BYTES {
        let span_bytes = tcmalloc_span_bytes(size);
        match classes.last_mut() {
            Some((last, bytes))
                if *bytes == span_bytes && span_bytes / *last == span_bytes / size =>
            {
                *last = size;
            }
            _ => classes.push((size, span_bytes)),
        }
        size += match size {
            0..16 => 8,
            16..128 => 16,
            _ => ((1 << size.ilog2()) / 8).min(TCMALLOC_PAGE_BYTES),
        };
    }
    classes.into_iter().map(|(size, _)| size).collect()
}

/// A span wastes less than an eighth, and has a quarter of the blocks that threads move at a time.
fn tcmalloc_span_bytes(size: u64) -> u64 {
    let moved = ((64 << 10) / size).clamp(2, 32) / 4;
    let mut bytes = 0;
    loop {
        bytes += TCMALLOC_PAGE_BYTES;
        while bytes % size > bytes / 8 {
            bytes += TCMALLOC_PAGE_BYTES;
        }
        if bytes / size >= moved {
            return bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requested bytes, and those that `malloc_usable_size` names: of jemalloc 5.3.0, and of gperftools 2.10.
    const MEASURED: [(u64, u64, u64); 28] = [
        (1, 8, 8),
        (9, 16, 16),
        (17, 32, 32),
        (33, 48, 48),
        (113, 128, 128),
        (129, 160, 144),
        (177, 192, 192),
        (200, 224, 208),
        (241, 256, 256),
        (257, 320, 288),
        (513, 640, 576),
        (700, 768, 704),
        (1000, 1024, 1024),
        (1025, 1280, 1152),
        (1281, 1536, 1408),
        (1537, 1792, 1792),
        (2049, 2560, 2304),
        (2561, 3072, 2816),
        (4097, 5120, 4608),
        (7000, 7168, 8192),
        (9000, 10240, 9216),
        (16385, 20480, 20480),
        (33000, 40960, 40960),
        (66000, 81920, 73728),
        (100000, 114688, 106496),
        (200000, 229376, 204800),
        (262145, 327680, 270336),
        (5000000, 5242880, 5005312),
    ];

    #[test]
    fn sizes_are_rounded_as_allocators_do() {
        for (size, of_jemalloc, of_tcmalloc) in MEASURED {
            assert_eq!(Rounding::Jemalloc.usable_bytes(size, 0), of_jemalloc, "{size}");
            assert_eq!(Rounding::Tcmalloc.usable_bytes(size, 0), of_tcmalloc, "{size}");
            assert_eq!(Rounding::Unknown.usable_bytes(size, 0), size);
        }
    }

    /// Of glibc 2.36.
    #[test]
    fn glibc_rounds_to_16_less_8() {
        for (size, address, usable) in [
            (0, 0x1000, 24),
            (1, 0x1010, 24),
            (24, 0x1020, 24),
            (25, 0x1010, 40),
            (40, 0x1010, 40),
            (2049, 0x1840, 2056),
            (131072, 0x1bc0, 131080),
            (140000, 0x1010, 143344),
            (262144, 0x1010, 266224),
            (5000000, 0x1010, 5001200),
        ] {
            assert_eq!(Rounding::Glibc.usable_bytes(size, address), usable, "{size}");
        }
    }

    #[test]
    fn hostile_size_stays() {
        for rounding in [Rounding::Glibc, Rounding::Jemalloc, Rounding::Tcmalloc] {
            assert_eq!(rounding.usable_bytes(u64::MAX, 16), u64::MAX);
        }
    }

    #[test]
    fn allocator_beside_the_c_library_counts() {
        let of = |paths: &[&str]| {
            let mapping = |path: &&str| Mapping { path: (*path).into(), ..Mapping::default() };
            Rounding::of(&paths.iter().map(mapping).collect::<Vec<_>>())
        };
        assert_eq!(of(&["/lib/libc.so.6", "/usr/lib/libjemalloc.so.2"]), Rounding::Jemalloc);
        assert_eq!(
            of(&["/lib/libtcmalloc_minimal.so.4 (deleted)", "/lib/libc.so.6"]),
            Rounding::Tcmalloc
        );
        assert_eq!(of(&["/lib/libmimalloc.so.2", "/lib/libc-2.31.so"]), Rounding::Unknown);
        assert_eq!(of(&["/bin/true", "/lib/libc-2.31.so"]), Rounding::Glibc);
        assert_eq!(of(&["/bin/true"]), Rounding::Unknown);
    }
}
