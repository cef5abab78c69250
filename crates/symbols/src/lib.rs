//! Names and source lines for file addresses, found outside the profiled program: from the binary, from separate
//! debug files, or from a cache of earlier answers. A missing symbol never blocks a report: what is missing comes
//! back as a [`SymbolDefect`] beside what was found.
#![forbid(unsafe_code)]

mod address;
mod answers;
mod asked;
mod binary;
mod budget;
mod build_id;
mod bytes;
mod cache;
mod compiled;
mod debuginfod;
mod declarations;
mod defect;
mod demangle;
mod elf;
mod engine;
mod find;
mod folder;
mod frame;
mod lines;
mod links;
mod mini_debug_file;
mod name_reader;
mod names;
mod names_block;
mod perf_map;
mod rooted;
mod schemes;
mod segments;
mod sources;
mod split;
mod symbolizer;
mod texts;
mod their_names;
mod units;
mod worker;

pub use crate::address::{CodeAddress, FileAddress, RuntimeAddress};
pub use crate::binary::Binary;
pub use crate::compiled::{JitProcess, compiled_names};
pub use crate::debuginfod::ServerOptions;
pub use crate::defect::{LostRoot, SymbolDefect};
pub use crate::demangle::{demangle, demangle_written};
pub use crate::frame::{Frame, SymbolSource};
pub use crate::name_reader::NameReader;
pub use crate::names_block::CarriedNames;
pub use crate::perf_map::{PerfMap, SeenAddress};
pub use crate::rooted::NotedRoot;
pub use crate::segments::{address_of_offset, address_of_offset_in};
pub use crate::symbolizer::{Options, Symbolized, Symbolizer};
