//! pclntab, the table of functions, files, lines and inlined calls that the runtime of each Go program keeps for its own tracebacks (runtime/symtab.go,
//! symtabinl.go and internal/abi/symtab.go of Go 1.20 to 1.27): also in stripped programs. For little-endian 64-bit ELF files.
//!
//! All addresses are those of the file.
#![forbid(unsafe_code)]

mod bytes;
mod module;
mod table;

pub use crate::module::is_go;
pub use crate::table::{GoFrame, Pclntab};
