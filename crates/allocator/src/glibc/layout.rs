//! Where the C library's allocator keeps what, by version, on x86-64.
//!
//! Source: `struct malloc_state`, `struct malloc_par` and `tcache_perthread_struct` in malloc/malloc.c, `struct _heap_info` in
//! malloc/arena.c, of each version of the tables, as compiled. 2.31, 2.36 and 2.41 were run.

/// Offsets in `struct malloc_state`: the same since 2.27.
pub mod arena {
    /// 0 while it is free.
    pub const MUTEX: u64 = 0;
    pub const FLAGS: usize = 4;
    pub const FASTBINS: usize = 0x10;
    pub const FASTBIN_COUNT: usize = 10;
    pub const TOP: usize = 0x60;
    pub const BINS: usize = 0x70;
    /// Bin 0 does not exist.
    pub const BIN_COUNT: usize = 127;
    pub const NEXT: usize = 0x870;
    pub const ATTACHED_THREADS: usize = 0x880;
    pub const SYSTEM_MEM: usize = 0x888;
    pub const MAX_SYSTEM_MEM: usize = 0x890;
    pub const BYTES: usize = 0x898;
}

/// Bits of a chunk's size.
pub mod chunk {
    pub const PREV_INUSE: u64 = 1;
    pub const IS_MMAPPED: u64 = 2;
    pub const NON_MAIN_ARENA: u64 = 4;
    pub const FLAGS: u64 = 7;
    pub const ALIGNMENT: u64 = 16;
    /// Of a chunk in use: its size word. The word before it is the last of the chunk below.
    pub const OVERHEAD_BYTES: u64 = 8;
    /// What `malloc_trim` leaves at the start of a free chunk: `struct malloc_chunk`.
    pub const TRIM_KEEPS_BYTES: u64 = 48;
    /// The smallest that is not a marker at the end of a heap.
    pub const LEAST_BYTES: u64 = 32;
}

/// Heaps of arenas other than the main one begin at multiples of this.
pub const HEAP_BYTES: u64 = 64 << 20;

/// Offsets in `struct malloc_par`.
#[derive(Debug)]
pub struct ParametersLayout {
    /// Bytes per huge page of heaps; not before 2.35.
    pub hp_pagesize: Option<usize>,
    pub n_mmaps: usize,
    pub no_dyn_threshold: usize,
    pub mmapped_mem: usize,
    pub sbrk_base: usize,
    pub tcache_bins: usize,
    pub bytes: usize,
}

/// What differs between versions.
#[derive(Debug)]
pub struct Layout {
    /// First and last minor version of 2.x.
    pub minor: (u32, u32),
    /// Of `struct _heap_info`, padding included.
    pub heap_header_bytes: u64,
    pub parameters: &'static ParametersLayout,
    /// Of a counter of the tcache.
    pub tcache_count_bytes: usize,
    /// Whether links of fastbins and tcache are mangled with their own address.
    pub has_safe_linking: bool,
}

/// Bins of a tcache.
pub const TCACHE_BINS: usize = 64;

impl Layout {
    /// The size of the chunk that holds a tcache.
    pub fn tcache_chunk_bytes(&self) -> u64 {
        let content = (TCACHE_BINS * (self.tcache_count_bytes + 8)) as u64;
        (content + chunk::OVERHEAD_BYTES).next_multiple_of(chunk::ALIGNMENT)
    }

    /// Of version 2.`minor`; `None` where it is not known.
    pub fn of(minor: u32) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| (layout.minor.0..=layout.minor.1).contains(&minor))
    }
}

static PARAMETERS_27: ParametersLayout = ParametersLayout {
    hp_pagesize: None,
    n_mmaps: 40,
    no_dyn_threshold: 52,
    mmapped_mem: 56,
    sbrk_base: 72,
    tcache_bins: 80,
    bytes: 112,
};

static PARAMETERS_35: ParametersLayout = ParametersLayout {
    hp_pagesize: Some(48),
    n_mmaps: 60,
    no_dyn_threshold: 72,
    mmapped_mem: 80,
    sbrk_base: 96,
    tcache_bins: 104,
    bytes: 136,
};

static LAYOUTS: [Layout; 4] = [
    Layout {
        minor: (27, 29),
        heap_header_bytes: 0x20,
        parameters: &PARAMETERS_27,
        tcache_count_bytes: 1,
        has_safe_linking: false,
    },
    Layout {
        minor: (30, 31),
        heap_header_bytes: 0x20,
        parameters: &PARAMETERS_27,
        tcache_count_bytes: 2,
        has_safe_linking: false,
    },
    Layout {
        minor: (32, 34),
        heap_header_bytes: 0x20,
        parameters: &PARAMETERS_27,
        tcache_count_bytes: 2,
        has_safe_linking: true,
    },
    Layout {
        minor: (35, 41),
        heap_header_bytes: 0x30,
        parameters: &PARAMETERS_35,
        tcache_count_bytes: 2,
        has_safe_linking: true,
    },
];
