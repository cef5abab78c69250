//! Functions by which an allocator is called, by name, and what each does.

/// Number of an argument, in the order of the registers that hold them: rdi, rsi, rdx, rcx.
pub type Argument = u8;

/// What a call does to the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Returns a block of so many bytes.
    Allocate(Argument),
    /// Returns a block of as many bytes as the product says.
    AllocateProduct(Argument, Argument),
    /// Stores the address of a block of so many bytes where the first argument says; returns 0 if it could.
    AllocateInto(Argument),
    /// Frees that block.
    Free(Argument),
    /// Returns a block of so many bytes with the contents of another one, which it frees unless it is the same.
    Reallocate {
        /// The other block.
        block: Argument,
        /// Bytes of the new one.
        size: Argument,
    },
    /// The same of a product.
    ReallocateProduct {
        /// The other block.
        block: Argument,
        /// Factors of the new one's bytes.
        sizes: [Argument; 2],
    },
    /// Nothing: its presence tells which allocator this is.
    Mark,
}

impl Work {
    /// Arguments that say what the call does.
    pub fn arguments(self) -> impl Iterator<Item = Argument> {
        let [a, b, c] = match self {
            Allocate(size) => [Some(size), None, None],
            // The first says where the block's address goes.
            AllocateInto(size) => [Some(size), Some(0), None],
            AllocateProduct(count, size) => [Some(count), Some(size), None],
            Free(block) => [Some(block), None, None],
            Reallocate { block, size } => [Some(block), Some(size), None],
            ReallocateProduct { block, sizes: [count, size] } => {
                [Some(block), Some(count), Some(size)]
            }
            Mark => [None; 3],
        };
        [a, b, c].into_iter().flatten()
    }
}

/// Functions that have their names in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "most are the names of allocators")]
pub enum Names {
    /// The C library's names, which any allocator may have.
    C,
    /// jemalloc's own, behind the prefix that its names in C have, too.
    Jemalloc,
    /// C++'s operators.
    Operators,
    Mimalloc,
    Tcmalloc,
    Snmalloc,
    /// Of the tcmalloc that is no part of gperftools; its other functions have the names of [`Names::C`] and [`Names::Operators`].
    GoogleTcmalloc,
}

/// A function of an allocator.
#[derive(Debug)]
pub struct Member {
    /// Behind the prefix, if it may have one.
    pub name: &'static str,
    /// The functions that it is one of.
    pub names: Names,
    /// What a call of it does.
    pub work: Work,
}

use Names::*;
use Work::*;

const fn member(names: Names, name: &'static str, work: Work) -> Member {
    Member { name, names, work }
}

const REALLOC: Work = Reallocate { block: 0, size: 1 };

/// All functions that are looked for. A function's number is its index.
pub static MEMBERS: &[Member] = &[
    member(C, "malloc", Allocate(0)),
    member(C, "free", Free(0)),
    member(C, "calloc", AllocateProduct(0, 1)),
    member(C, "realloc", REALLOC),
    member(C, "reallocarray", ReallocateProduct { block: 0, sizes: [1, 2] }),
    member(C, "posix_memalign", AllocateInto(2)),
    member(C, "aligned_alloc", Allocate(1)),
    member(C, "memalign", Allocate(1)),
    member(C, "valloc", Allocate(0)),
    member(C, "pvalloc", Allocate(0)),
    member(C, "cfree", Free(0)),
    member(C, "free_sized", Free(0)),
    member(C, "free_aligned_sized", Free(0)),
    member(Jemalloc, "mallocx", Allocate(0)),
    member(Jemalloc, "rallocx", REALLOC),
    member(Jemalloc, "dallocx", Free(0)),
    member(Jemalloc, "sdallocx", Free(0)),
    member(Jemalloc, "mallctl", Mark),
    // Redis's, since 8.0.
    member(Jemalloc, "malloc_with_usize", Allocate(0)),
    member(Jemalloc, "calloc_with_usize", AllocateProduct(0, 1)),
    member(Jemalloc, "realloc_with_usize", REALLOC),
    member(Jemalloc, "free_with_usize", Free(0)),
    member(Operators, "_Znwm", Allocate(0)),
    member(Operators, "_Znam", Allocate(0)),
    member(Operators, "_ZnwmRKSt9nothrow_t", Allocate(0)),
    member(Operators, "_ZnamRKSt9nothrow_t", Allocate(0)),
    member(Operators, "_ZnwmSt11align_val_t", Allocate(0)),
    member(Operators, "_ZnamSt11align_val_t", Allocate(0)),
    member(Operators, "_ZnwmSt11align_val_tRKSt9nothrow_t", Allocate(0)),
    member(Operators, "_ZnamSt11align_val_tRKSt9nothrow_t", Allocate(0)),
    member(Operators, "_ZdlPv", Free(0)),
    member(Operators, "_ZdaPv", Free(0)),
    member(Operators, "_ZdlPvRKSt9nothrow_t", Free(0)),
    member(Operators, "_ZdaPvRKSt9nothrow_t", Free(0)),
    member(Operators, "_ZdlPvm", Free(0)),
    member(Operators, "_ZdaPvm", Free(0)),
    member(Operators, "_ZdlPvSt11align_val_t", Free(0)),
    member(Operators, "_ZdaPvSt11align_val_t", Free(0)),
    member(Operators, "_ZdlPvmSt11align_val_t", Free(0)),
    member(Operators, "_ZdaPvmSt11align_val_t", Free(0)),
    member(Operators, "_ZdlPvSt11align_val_tRKSt9nothrow_t", Free(0)),
    member(Operators, "_ZdaPvSt11align_val_tRKSt9nothrow_t", Free(0)),
    member(Tcmalloc, "tc_malloc", Allocate(0)),
    member(Tcmalloc, "tc_free", Free(0)),
    member(Tcmalloc, "tc_free_sized", Free(0)),
    member(Tcmalloc, "tc_cfree", Free(0)),
    member(Tcmalloc, "tc_calloc", AllocateProduct(0, 1)),
    member(Tcmalloc, "tc_realloc", REALLOC),
    member(Tcmalloc, "tc_memalign", Allocate(1)),
    member(Tcmalloc, "tc_posix_memalign", AllocateInto(2)),
    member(Tcmalloc, "tc_valloc", Allocate(0)),
    member(Tcmalloc, "tc_pvalloc", Allocate(0)),
    member(Tcmalloc, "tc_malloc_skip_new_handler", Allocate(0)),
    member(Mimalloc, "mi_malloc", Allocate(0)),
    member(Mimalloc, "mi_malloc_small", Allocate(0)),
    member(Mimalloc, "mi_zalloc", Allocate(0)),
    member(Mimalloc, "mi_zalloc_small", Allocate(0)),
    member(Mimalloc, "mi_calloc", AllocateProduct(0, 1)),
    member(Mimalloc, "mi_mallocn", AllocateProduct(0, 1)),
    member(Mimalloc, "mi_realloc", REALLOC),
    member(Mimalloc, "mi_reallocf", REALLOC),
    member(Mimalloc, "mi_rezalloc", REALLOC),
    member(Mimalloc, "mi_reallocn", ReallocateProduct { block: 0, sizes: [1, 2] }),
    member(Mimalloc, "mi_recalloc", ReallocateProduct { block: 0, sizes: [1, 2] }),
    member(Mimalloc, "mi_reallocarray", ReallocateProduct { block: 0, sizes: [1, 2] }),
    member(Mimalloc, "mi_malloc_aligned", Allocate(0)),
    member(Mimalloc, "mi_malloc_aligned_at", Allocate(0)),
    member(Mimalloc, "mi_zalloc_aligned", Allocate(0)),
    member(Mimalloc, "mi_zalloc_aligned_at", Allocate(0)),
    member(Mimalloc, "mi_calloc_aligned", AllocateProduct(0, 1)),
    member(Mimalloc, "mi_calloc_aligned_at", AllocateProduct(0, 1)),
    member(Mimalloc, "mi_realloc_aligned", REALLOC),
    member(Mimalloc, "mi_realloc_aligned_at", REALLOC),
    member(Mimalloc, "mi_rezalloc_aligned", REALLOC),
    member(Mimalloc, "mi_rezalloc_aligned_at", REALLOC),
    member(Mimalloc, "mi_umalloc", Allocate(0)),
    member(Mimalloc, "mi_umalloc_small", Allocate(0)),
    member(Mimalloc, "mi_umalloc_aligned", Allocate(0)),
    member(Mimalloc, "mi_uzalloc", Allocate(0)),
    member(Mimalloc, "mi_uzalloc_small", Allocate(0)),
    member(Mimalloc, "mi_uzalloc_aligned", Allocate(0)),
    member(Mimalloc, "mi_ucalloc", AllocateProduct(0, 1)),
    member(Mimalloc, "mi_urealloc", REALLOC),
    member(Mimalloc, "mi_ufree", Free(0)),
    member(Mimalloc, "mi_free", Free(0)),
    member(Mimalloc, "mi_cfree", Free(0)),
    member(Mimalloc, "mi_free_size", Free(0)),
    member(Mimalloc, "mi_free_aligned", Free(0)),
    member(Mimalloc, "mi_free_size_aligned", Free(0)),
    member(Mimalloc, "mi_posix_memalign", AllocateInto(2)),
    member(Mimalloc, "mi_memalign", Allocate(1)),
    member(Mimalloc, "mi_aligned_alloc", Allocate(1)),
    member(Mimalloc, "mi_valloc", Allocate(0)),
    member(Mimalloc, "mi_pvalloc", Allocate(0)),
    member(Mimalloc, "mi_new", Allocate(0)),
    member(Mimalloc, "mi_new_nothrow", Allocate(0)),
    member(Mimalloc, "mi_new_aligned", Allocate(0)),
    member(Mimalloc, "mi_new_aligned_nothrow", Allocate(0)),
    member(Mimalloc, "mi_new_n", AllocateProduct(0, 1)),
    member(Mimalloc, "mi_new_realloc", REALLOC),
    member(Mimalloc, "mi_new_reallocn", ReallocateProduct { block: 0, sizes: [1, 2] }),
    member(Mimalloc, "mi_heap_malloc", Allocate(1)),
    member(Mimalloc, "mi_heap_malloc_small", Allocate(1)),
    member(Mimalloc, "mi_heap_zalloc", Allocate(1)),
    member(Mimalloc, "mi_heap_calloc", AllocateProduct(1, 2)),
    member(Mimalloc, "mi_heap_mallocn", AllocateProduct(1, 2)),
    member(Mimalloc, "mi_heap_malloc_aligned", Allocate(1)),
    member(Mimalloc, "mi_heap_malloc_aligned_at", Allocate(1)),
    member(Mimalloc, "mi_heap_zalloc_aligned", Allocate(1)),
    member(Mimalloc, "mi_heap_zalloc_aligned_at", Allocate(1)),
    member(Mimalloc, "mi_heap_calloc_aligned", AllocateProduct(1, 2)),
    member(Mimalloc, "mi_heap_calloc_aligned_at", AllocateProduct(1, 2)),
    member(Mimalloc, "mi_heap_realloc", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_reallocf", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_rezalloc", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_realloc_aligned", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_realloc_aligned_at", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_rezalloc_aligned", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_rezalloc_aligned_at", Reallocate { block: 1, size: 2 }),
    member(Mimalloc, "mi_heap_reallocn", ReallocateProduct { block: 1, sizes: [2, 3] }),
    member(Mimalloc, "mi_heap_recalloc", ReallocateProduct { block: 1, sizes: [2, 3] }),
    member(Mimalloc, "mi_heap_alloc_new", Allocate(1)),
    member(Mimalloc, "mi_heap_alloc_new_n", AllocateProduct(1, 2)),
    member(Snmalloc, "sn_malloc", Allocate(0)),
    member(Snmalloc, "sn_free", Free(0)),
    member(Snmalloc, "sn_calloc", AllocateProduct(0, 1)),
    member(Snmalloc, "sn_realloc", REALLOC),
    member(Snmalloc, "sn_rust_alloc", Allocate(1)),
    member(Snmalloc, "sn_rust_alloc_zeroed", Allocate(1)),
    member(Snmalloc, "sn_rust_dealloc", Free(0)),
    member(Snmalloc, "sn_rust_realloc", Reallocate { block: 0, size: 3 }),
    member(GoogleTcmalloc, "MallocExtension_Internal_GetStats", Mark),
];

/// Whether a symbol may be one of these functions, by its first bytes: nearly all of C++'s and Rust's are told apart so, without a look for
/// where they end.
pub fn may_begin(symbol: &[u8]) -> bool {
    match symbol {
        [b'_', b'Z', third, ..] => matches!(third, b'n' | b'd'),
        [b'_', b'R', ..] => false,
        _ => true,
    }
}

/// The number of the function with this name, and the length of the prefix in front of the name that the table has. A prefix is jemalloc's.
pub fn of_symbol(symbol: &[u8]) -> Option<(u8, usize)> {
    let is_exact =
        matches!(symbol.first_chunk(), Some(b"mi_" | b"tc_" | b"sn_" | b"_Zn" | b"_Zd" | b"Mal"));
    let name = match symbol.strip_prefix(b"mi_theap_") {
        // mimalloc 3 calls a thread's part of a heap so, which its functions take in place of the heap.
        Some(name) => name,
        None => symbol.strip_prefix(b"mi_heap_").unwrap_or(symbol),
    };
    let is_of_heap = name.len() < symbol.len();
    let all = MEMBERS.iter().zip(0u8..);
    if is_exact {
        let is_it = |member: &Member| match member.name.strip_prefix("mi_heap_") {
            Some(rest) => is_of_heap && rest.as_bytes() == name,
            None => !is_of_heap && member.name.as_bytes() == name,
        };
        return all.into_iter().find(|(member, _)| is_it(member)).map(|(_, number)| (number, 0));
    }
    // Nearly all symbols end otherwise.
    if !matches!(
        symbol.last_chunk(),
        Some(b"loc" | b"ree" | b"ocx" | b"ctl" | b"ray" | b"ign" | b"zed" | b"ize")
    ) {
        return None;
    }
    let suffixes = all.take_while(|(member, _)| matches!(member.names, C | Jemalloc));
    let found = suffixes.into_iter().filter_map(|(member, number)| {
        let prefix = symbol.strip_suffix(member.name.as_bytes())?;
        Some((number, prefix.len()))
    });
    // Some end as others do: pvalloc, valloc.
    found.min_by_key(|&(_, prefix)| prefix)
}
