//! Layout of the data of the C library's allocator, by version, on x86-64.
//!
//! Source: `struct malloc_state`, `struct malloc_par` and `tcache_perthread_struct` in malloc/malloc.c, `struct _heap_info` in
//! malloc/arena.c, of each version of the tables, as compiled. docs/internals/explain.md says which of them were run.

use std::ops::Range;

/// `struct malloc_state`: offsets from its start, and from its top on the distance from that, which no version changed.
pub mod arena {
    /// 0 while it is free.
    pub const MUTEX: usize = 0;
    /// From here to the top.
    pub const FASTBINS: usize = 0x10;
    pub const BINS: usize = 0x10;
    pub const NEXT: usize = 0x810;
    pub const ATTACHED_THREADS: usize = 0x820;
    pub const SYSTEM_MEM: usize = 0x828;
    pub const MAX_SYSTEM_MEM: usize = 0x830;
    pub const BYTES: usize = 0x838;
    /// Bin 0 does not exist.
    pub const BIN_COUNT: usize = 127;
}

/// `struct malloc_par`: distances that no version changed.
pub mod parameters {
    /// From `n_mmaps`.
    pub const NO_DYN_THRESHOLD: usize = 12;
    /// From `mmapped_mem`, as those below.
    pub const SBRK_BASE: usize = 16;
    pub const TCACHE_BINS: usize = 24;
    /// As far as it is read.
    pub const BYTES: usize = 48;
}

/// Bits of a chunk's size.
pub mod chunk {
    pub const PREV_INUSE: u64 = 1;
    pub const IS_MMAPPED: u64 = 2;
    pub const NON_MAIN_ARENA: u64 = 4;
    pub const FLAGS: u64 = 7;
    pub const ALIGNMENT: u64 = 16;
    /// Bytes that a chunk in use takes for itself: its size word. The word before the size word is the last of the chunk below.
    pub const OVERHEAD_BYTES: u64 = 8;
    /// Bytes that `malloc_trim` leaves at the start of a free chunk: `struct malloc_chunk`.
    pub const TRIM_KEEPS_BYTES: u64 = 48;
    /// The smallest that is not a marker at the end of a heap.
    pub const LEAST_BYTES: u64 = 32;
    /// The largest that a setting lets into fastbins (`MAX_FAST_SIZE`).
    pub const MOST_FASTBIN_BYTES: u64 = 176;
}

/// Heaps of arenas other than the main one begin at multiples of this.
pub const HEAP_BYTES: u64 = 64 << 20;

/// `tcache_perthread_struct`: a counter for each bin, then a list for each.
#[derive(Clone, Copy, Debug)]
pub struct TcacheLayout {
    pub bins: usize,
    /// Bytes of a counter.
    pub count_bytes: usize,
    /// Whether a counter says how many more chunks there is room for, not how many there are.
    pub counts_room: bool,
}

/// Bins of a tcache whose chunks all have one size. Each of those behind them holds sizes from one power of two to the next.
pub const SMALL_TCACHE_BINS: usize = 64;

impl TcacheLayout {
    /// The size of the chunk that holds it.
    pub fn chunk_bytes(&self) -> u64 {
        let content = (self.bins * (self.count_bytes + 8)) as u64;
        (content + chunk::OVERHEAD_BYTES).next_multiple_of(chunk::ALIGNMENT)
    }

    /// The sizes of the chunks in a bin.
    pub fn sizes(&self, bin: usize) -> Range<u64> {
        let small = |bin: usize| chunk::LEAST_BYTES + chunk::ALIGNMENT * bin as u64;
        match bin.checked_sub(SMALL_TCACHE_BINS) {
            None => small(bin)..small(bin + 1),
            // The first of them begins where the small ones end.
            Some(large) => (1024 << large).max(small(SMALL_TCACHE_BINS))..2048 << large,
        }
    }
}

/// Facts that differ between versions.
#[derive(Debug)]
pub struct Layout {
    /// First and last minor version of 2.x.
    pub minor: (u32, u32),
    /// Offset of an arena's top.
    pub top: usize,
    /// Offset of the parameters' bytes per huge page of heaps; not before 2.35.
    pub hp_pagesize: Option<usize>,
    pub n_mmaps: usize,
    pub mmapped_mem: usize,
    pub tcache: TcacheLayout,
    /// Bytes of `struct _heap_info`, padding included.
    pub heap_header_bytes: u64,
    /// Whether heaps of huge pages are four of these pages long, not as long as others.
    pub has_heaps_of_huge_pages: bool,
    /// Whether links of fastbins and tcache are mangled with their own address.
    pub has_safe_linking: bool,
    /// Bytes of a mapped chunk that its size leaves out. If this is not 0, such chunks go to tcaches, the bit of huge pages is in the word before the
    /// size, and every `mremap` adds so much to the sum of mapped bytes that is not there (to 2.44).
    pub mapped_header_bytes: u64,
    /// Without a setting, arenas are at most so many a core.
    pub arenas_a_core: u64,
}

impl Layout {
    /// Returns the layout of a version; `None` if the version is not known.
    pub fn of((major, minor): (u32, u32)) -> Option<&'static Self> {
        let is_it = |layout: &&Self| (layout.minor.0..=layout.minor.1).contains(&minor);
        LAYOUTS.iter().find(is_it).filter(|_| major == 2)
    }
}

const LAYOUT_27: Layout = Layout {
    minor: (27, 29),
    top: 0x60,
    hp_pagesize: None,
    n_mmaps: 40,
    mmapped_mem: 56,
    tcache: TcacheLayout { bins: 64, count_bytes: 1, counts_room: false },
    heap_header_bytes: 0x20,
    has_heaps_of_huge_pages: false,
    has_safe_linking: false,
    mapped_header_bytes: 0,
    arenas_a_core: 8,
};
const LAYOUT_30: Layout = Layout {
    minor: (30, 31),
    tcache: TcacheLayout { bins: 64, count_bytes: 2, counts_room: false },
    ..LAYOUT_27
};
const LAYOUT_32: Layout = Layout { minor: (32, 34), has_safe_linking: true, ..LAYOUT_30 };
const LAYOUT_35: Layout = Layout {
    minor: (35, 41),
    hp_pagesize: Some(48),
    n_mmaps: 60,
    mmapped_mem: 80,
    heap_header_bytes: 0x30,
    has_heaps_of_huge_pages: true,
    ..LAYOUT_32
};
const LAYOUT_42: Layout = Layout {
    minor: (42, 42),
    tcache: TcacheLayout { bins: 76, count_bytes: 2, counts_room: true },
    has_heaps_of_huge_pages: false,
    ..LAYOUT_35
};
const LAYOUT_43: Layout = Layout {
    minor: (43, 43),
    top: 0x8,
    hp_pagesize: Some(56),
    n_mmaps: 68,
    mmapped_mem: 88,
    mapped_header_bytes: 16,
    ..LAYOUT_42
};
const LAYOUT_44: Layout = Layout { minor: (44, 44), arenas_a_core: 1, ..LAYOUT_43 };

/// Layouts of all versions that are known; the newest last.
pub static LAYOUTS: [Layout; 7] =
    [LAYOUT_27, LAYOUT_30, LAYOUT_32, LAYOUT_35, LAYOUT_42, LAYOUT_43, LAYOUT_44];
