//! The flags that say where names are looked for, and how they are shown.

use super::values::one_of;
use crate::output::hint;
use clap::Args;
use ramson_analysis::naming::{Demangle, Names, Search};
use std::path::PathBuf;

const DEMANGLE: [(&str, Demangle); 3] =
    [("full", Demangle::Full), ("short", Demangle::Short), ("none", Demangle::None)];

#[derive(Args, Clone)]
pub struct SearchFlags {
    /// Also look for debug files in this directory (repeatable)
    #[arg(long, value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// Look for binaries and debug files in this copy of a machine's root directory first
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub struct NameFlags {
    #[command(flatten)]
    pub search: SearchFlags,
    /// Names of C++ and Rust functions: full, short (without parameters and template arguments), or
    /// none (as the linker has them)
    #[arg(long, default_value = "full", value_parser = one_of(DEMANGLE), hide_possible_values = true)]
    pub demangle: Demangle,
}

impl SearchFlags {
    /// Where names are looked for.
    pub fn search(&self) -> Search {
        Search {
            debug_paths: self.debug_path.clone(),
            sysroot: self.sysroot.clone(),
            on_fetch: Some(|address| hint(&format!("fetching {address}"))),
        }
    }
}

impl NameFlags {
    /// Which names are shown.
    pub fn names(&self) -> Names {
        Names { search: self.search.search(), demangle: self.demangle }
    }
}
