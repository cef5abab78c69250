//! SRC, for commands that read profiles, where names are looked for, and how they are shown.

use super::values::one_of;
use crate::output::hint;
use clap::Args;
use ramson_analysis::naming::{Demangle, Names, Search};
use std::path::PathBuf;

/// The forms that name running processes, profiled or not.
pub const PROCESSES: &str =
    "Process ID, name (redis-server), tree:PID, unit:NAME, cgroup:PATH, or a profile's file";
/// All forms.
const SOURCES: &str = "Process ID, name (redis-server), tree:PID, unit:NAME, cgroup:PATH, file, address or - (stdin); with a history also SRC@-1h";

/// The source of one profile.
#[derive(Args)]
pub struct SourceFlags {
    #[arg(value_name = "SRC", help = SOURCES)]
    pub source: String,
    #[command(flatten)]
    pub names: NameFlags,
}

/// The sources of profiles that are summed.
#[derive(Args)]
pub struct SourcesFlags {
    #[arg(value_name = "SRC", required = true, help = SOURCES)]
    pub sources: Vec<String>,
    #[command(flatten)]
    pub names: NameFlags,
}

const DEMANGLE: [(&str, Demangle); 3] =
    [("full", Demangle::Full), ("short", Demangle::Short), ("none", Demangle::None)];

#[derive(Args, Clone)]
pub struct SearchFlags {
    /// Also look for debug files in DIR (repeatable)
    #[arg(long, value_name = "DIR")]
    pub debug_path: Vec<PathBuf>,
    /// Look for binaries and debug files first in DIR, a copy of a machine's root directory
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Name the addresses of a file without mappings (a Seastar log, Redpanda's JSON) from PATH, the program that wrote them
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// Also fetch debug files by build ID from the servers in DEBUGINFOD_URLS (or set RAMSON_DEBUGINFOD=1);
    /// as root, never for programs of other users
    #[arg(long)]
    pub debuginfod: bool,
}

#[derive(Args, Clone)]
pub struct NameFlags {
    #[command(flatten)]
    pub search: SearchFlags,
    /// How to show C++ and Rust names: full, short (without parameters and template arguments), or
    /// none (as in the symbol table)
    #[arg(long, default_value = "full", value_parser = one_of(DEMANGLE), hide_possible_values = true)]
    pub demangle: Demangle,
}

impl SearchFlags {
    /// The places in which names are looked for.
    pub fn search(&self) -> Search {
        Search {
            debug_paths: self.debug_path.clone(),
            sysroot: self.sysroot.clone(),
            binary: self.binary.clone(),
            debuginfod: self.debuginfod,
            is_for_owner: false,
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
