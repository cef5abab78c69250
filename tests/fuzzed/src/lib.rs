//! Properties that each reader of foreign bytes must keep for any bytes. `make fuzz` looks for inputs that break one; `make test` replays
//! the seeds, old findings among them, and fixed mutations of them (`replay`).
//!
//! Most targets take the bytes as the file. Those that are described (`choices`) take them as a description of
//! one: mutations of files have neither right checksums nor impossible proportions.
#![forbid(unsafe_code)]

mod choices;
mod elf_image;
mod history;
mod import;
pub mod mutation;
mod open;
mod process;
mod profile;
mod profile_image;
pub mod seed;
mod symbols;

pub use open::OPEN;

use seed::Seed;

/// One way into the readers.
pub struct Target {
    /// As fuzz/fuzz_targets has it.
    pub name: &'static str,
    /// Panics where something does not hold.
    pub check: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Seed>,
    /// Mutations of seeds in a replay.
    pub mutations: u64,
}

impl Target {
    const fn new(
        name: &'static str,
        check: fn(&[u8]),
        seeds: fn() -> Vec<Seed>,
        mutations: u64,
    ) -> Self {
        Self { name, check, seeds, mutations }
    }

    /// The seeds that are not in the list of what still breaks a reader; or, the other way around, those in it.
    pub fn seeds_that_are(&self, is_open: bool) -> Vec<Seed> {
        let mut seeds = (self.seeds)();
        seeds.retain(|seed| OPEN.contains(&(self.name, &seed.name)) == is_open);
        seeds
    }
}

fn none() -> Vec<Seed> {
    Vec::new()
}

/// All of them, except those that need libramson itself (fuzz/fuzz_targets/guest_*).
pub const TARGETS: [Target; 21] = [
    Target::new("read_profile", profile::read_profile, profile::whole_files, 4000),
    Target::new("profile_regions", profile::profile_regions, profile::regions, 80),
    Target::new("follow_profile", profile::follow_profile, profile::followed_files, 2000),
    Target::new("import_any", import::import_any, import::real_files, 2000),
    Target::new("import_pprof", import::import_pprof, import::pprof_files, 1500),
    Target::new("pprof_messages", import::pprof_messages, import::messages, 60),
    Target::new("import_jemalloc", import::import_jemalloc, import::jemalloc_texts, 2000),
    Target::new("import_gperftools", import::import_gperftools, import::gperftools_texts, 2000),
    Target::new("import_heaptrack", import::import_heaptrack, import::heaptrack_texts, 4000),
    Target::new("import_collapsed", import::import_collapsed, import::collapsed_texts, 4000),
    Target::new("read_symbols", symbols::read_symbols, symbols::small_files, 2000),
    Target::new("elf_sections", symbols::elf_sections, symbols::elf_files, 80),
    Target::new("read_symbol_cache", symbols::read_symbol_cache, none, 2000),
    Target::new("read_carried_names", symbols::read_carried_names, symbols::carried_names, 4000),
    Target::new("read_perf_map", symbols::read_perf_map, symbols::perf_maps, 4000),
    Target::new("read_history", history::read_history, history::rows, 2000),
    Target::new("history_views", history::history_views, history::views, 100),
    Target::new("read_allocator_books", process::read_allocator_books, process::books, 2000),
    Target::new("read_go_memory", process::read_go_memory, process::go_memory, 1000),
    Target::new("read_texts", process::read_texts, process::texts, 4000),
    Target::new("smaps_text", process::smaps_text, process::smaps, 100),
];

/// By its name.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target of ramson_fuzzed::TARGETS")
}
