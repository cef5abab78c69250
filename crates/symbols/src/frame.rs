//! A frame: what an address is called.

use std::sync::Arc;

use borsh::{BorshDeserialize, BorshSerialize};

/// One function activation at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Demangled, in full with parameters.
    pub function: Arc<str>,
    /// As the linker knows it (mangled); the same as `function` in C.
    pub system_name: Arc<str>,
    /// Source file as the compiler recorded it.
    pub file: Option<Arc<str>>,
    /// 1-based; 0 if unknown.
    pub line: u32,
    /// Bytes from the start of the function that the symbol table has at the address, into which others may be inlined; `None` if unknown.
    pub offset: Option<u32>,
}

/// Origin of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum SymbolSource {
    /// Nowhere.
    #[default]
    None,
    /// Debug information: inlined calls, files and lines.
    Dwarf,
    /// The full symbol table: function names only.
    Symtab,
    /// The dynamic symbol table: names of exported functions only.
    Dynsym,
    /// The profile itself.
    Carried,
    /// The table that each Go program has for its own tracebacks: inlined calls, files and lines.
    Pclntab,
}

impl SymbolSource {
    /// Whether nothing else knows more.
    pub(crate) fn is_best(self) -> bool {
        matches!(self, Self::Dwarf | Self::Pclntab)
    }
}
