//! The terms of RSS, and their parts.

/// Terms that RSS is made of, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Blocks that the program has.
    Live,
    /// Blocks that the program has and the profile does not: from before the attach or the fork, or made unseen.
    Unseen,
    /// Memory that the program freed and the allocator has not returned.
    Free,
    /// Memory that the program or its allocator freed by MADV_FREE: the kernel takes it back when it needs memory.
    LazyFree,
    /// The allocator's own bytes.
    Metadata,
    /// In the areas of an allocator that cannot be read, beyond what lives there: free, its own bytes, and what it rounds up.
    Held,
    /// The heap of a Go program: objects that were live at the end of the last collection, those that are not collected yet, and the rest of their spans.
    GoHeap,
    /// Free memory of a Go program's arenas, which its runtime has not returned yet.
    GoFree,
    /// Memory that a forked child has from its parent: shared, copy on write, or copied since.
    Inherited,
    /// Anonymous memory that the program mapped itself, as far as it was recorded.
    Mmap,
    /// Stacks of threads.
    Stacks,
    /// Mapped binaries, with their variables.
    CodeAndData,
    /// Other mapped files.
    Files,
    /// tmpfs, memfd, System V, shared anonymous memory.
    SharedMemory,
    /// vdso and the like.
    Kernel,
    /// The library, its tables and profile file.
    Ramson,
    /// Anonymous memory of which no more is known.
    Other,
    /// Change of RSS during the measurement; may be negative.
    Moved,
}

impl Term {
    /// All of them, in their order, with the names of `--json`.
    pub const ALL: [(Self, &str); 18] = [
        (Self::Live, "live"),
        (Self::Unseen, "allocated_before_the_attach_or_not_seen"),
        (Self::Free, "free_in_allocator"),
        (Self::LazyFree, "freed_lazily"),
        (Self::Metadata, "allocator_metadata"),
        (Self::Held, "held_by_allocator"),
        (Self::GoHeap, "go_heap"),
        (Self::GoFree, "free_in_go"),
        (Self::Inherited, "inherited_from_parent"),
        (Self::Mmap, "mmap"),
        (Self::Stacks, "stacks"),
        (Self::CodeAndData, "code_and_data"),
        (Self::Files, "files"),
        (Self::SharedMemory, "shared_memory"),
        (Self::Kernel, "kernel"),
        (Self::Ramson, "ramson"),
        (Self::Other, "other_anonymous"),
        (Self::Moved, "changed_during_measurement"),
    ];
}

/// A part of RSS: terms in the detail that `explain` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In blocks that the program has, by the allocator's statistics.
    Live,
    /// Blocks among these that the profile of an attached program or of a forked child does not contain.
    Unseen,
    /// Free: at the top of arenas.
    Top,
    /// Free: whole pages inside free chunks.
    FreePages,
    /// Free: free chunks' parts of pages that are in use.
    FreeChunks,
    /// Free: in fastbins.
    Fastbins,
    /// Free: in tcaches.
    Tcaches,
    /// Freed by MADV_FREE, and not taken by the kernel yet.
    LazyFree,
    /// The allocator's own.
    Metadata,
    /// In areas with live samples whose allocator cannot be read.
    Held,
    /// Free whole pages, by an allocator inside an object that was asked, beside glibc's statistics …
    InsidePages,
    /// … and what it has free on pages that are in use, or in caches.
    InsideChunks,
    /// A Go program's objects that were live at the end of its last collection …
    GoLive,
    /// … those that were allocated since, or died and are not collected yet …
    GoUncollected,
    /// … and memory among objects, for more of their size.
    GoUnused,
    /// Free pages of a Go program's arenas.
    GoFree,
    /// Still shared with the process that forked this one, copy on write.
    Inherited,
    /// The parent's, copied since the fork because one of the two has written to it.
    Copied,
    /// Extents: anonymous memory that the program mapped itself.
    Extents,
    /// Stacks of threads.
    Stacks,
    /// Stacks of threads that have ended and that no thread has joined.
    EndedStacks,
    /// Thread-local variables, which lie on the threads' stacks.
    ThreadLocals,
    /// Stacks of goroutines.
    GoStacks,
    /// What Go's runtime has for itself.
    GoRuntime,
    /// Pages of binaries' files.
    Code,
    /// Variables of binaries.
    Data,
    /// Other files.
    Files,
    /// tmpfs, memfd, System V, shared anonymous memory.
    Shmem,
    /// vdso and the like.
    Kernel,
    /// ramson's library, tables and profile file.
    Ramson,
    /// Anonymous memory elsewhere: a runtime's heap, an allocator whose statistics cannot be read.
    Anonymous,
    /// Zeros in transparent huge pages there.
    Padding,
    /// In arenas, but not walked.
    NotWalked,
    /// Change of RSS during the measurement; may be negative.
    Moved,
}

impl Part {
    /// All of them, in the order in which they are shown, with the names of `--json` and the terms that they belong to.
    pub const ALL: [(Self, &str, Term); 34] = [
        (Self::Live, "live", Term::Live),
        (Self::Unseen, "allocated_before_the_attach_or_not_seen", Term::Unseen),
        (Self::Top, "free_top", Term::Free),
        (Self::FreePages, "free_whole_pages", Term::Free),
        (Self::FreeChunks, "free_in_used_pages", Term::Free),
        (Self::Fastbins, "free_fastbins", Term::Free),
        (Self::Tcaches, "free_tcaches", Term::Free),
        (Self::LazyFree, "freed_lazily", Term::LazyFree),
        (Self::Metadata, "allocator_metadata", Term::Metadata),
        (Self::Held, "held_by_allocator", Term::Held),
        (Self::InsidePages, "free_whole_pages_inside", Term::Held),
        (Self::InsideChunks, "free_in_used_pages_inside", Term::Held),
        (Self::GoLive, "go_live", Term::GoHeap),
        (Self::GoUncollected, "go_not_collected", Term::GoHeap),
        (Self::GoUnused, "go_unused", Term::GoHeap),
        (Self::GoFree, "free_in_go", Term::GoFree),
        (Self::Inherited, "inherited_from_parent", Term::Inherited),
        (Self::Copied, "copied_from_parent", Term::Inherited),
        (Self::Extents, "mmap", Term::Mmap),
        (Self::Stacks, "stacks", Term::Stacks),
        (Self::EndedStacks, "stacks_of_ended_threads", Term::Stacks),
        (Self::ThreadLocals, "thread_local_variables", Term::Stacks),
        (Self::GoStacks, "stacks_of_goroutines", Term::Stacks),
        (Self::GoRuntime, "go_runtime", Term::Metadata),
        (Self::Code, "code", Term::CodeAndData),
        (Self::Data, "data", Term::CodeAndData),
        (Self::Files, "files", Term::Files),
        (Self::Shmem, "shared_memory", Term::SharedMemory),
        (Self::Kernel, "kernel", Term::Kernel),
        (Self::Ramson, "ramson", Term::Ramson),
        (Self::Anonymous, "other_anonymous", Term::Other),
        (Self::Padding, "huge_page_padding", Term::Other),
        (Self::NotWalked, "not_walked", Term::Other),
        (Self::Moved, "changed_during_measurement", Term::Moved),
    ];
}
