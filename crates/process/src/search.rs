//! Searches in binaries, and their results.

use borsh::{BorshDeserialize, BorshSerialize};

/// Search in a binary.
#[derive(Clone, Copy, Debug, BorshSerialize, BorshDeserialize)]
pub enum Search {
    /// Version and package of the C library.
    GlibcVersion,
    /// Version of jemalloc, in its library.
    JemallocVersion,
    /// Whether it is a program of 32 bits.
    Is32Bit,
    /// Why the program cannot be profiled, and what to do.
    Obstacle,
    /// Whose heap the executable has, if it is not malloc's.
    Heap,
    /// Allocators inside it.
    Allocators,
    /// The allocator that is linked into the executable: glibc's, if that may be, or one that its symbols tell.
    Linked {
        /// Whether glibc's may be.
        may_be_static: bool,
    },
    /// The variable of the environment that configures the jemalloc inside it.
    JemallocVariable,
    /// The largest variables, by its symbols.
    Variables,
    /// The function at an offset in the file, by its symbols.
    Function(u64),
}

/// Result of a search.
#[derive(Debug, Default, BorshSerialize, BorshDeserialize)]
pub enum Found {
    /// It is not there.
    #[default]
    Nothing,
    /// Names; never none.
    Texts(Vec<String>),
    /// Version and package.
    Version((u32, u32), String),
    /// Names as the linker has them, and bytes; never none.
    Sizes(Vec<(String, u64)>),
    /// It is so.
    Yes,
}

impl Found {
    pub(crate) fn texts(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        if texts.is_empty() { Self::Nothing } else { Self::Texts(texts) }
    }

    /// The first of the names.
    pub fn text(self) -> Option<String> {
        self.all_texts().into_iter().next()
    }

    /// Names with their bytes.
    pub fn sizes(self) -> Vec<(String, u64)> {
        if let Self::Sizes(sizes) = self { sizes } else { Vec::new() }
    }

    /// All names.
    pub fn all_texts(self) -> Vec<String> {
        if let Self::Texts(texts) = self { texts } else { Vec::new() }
    }
}
