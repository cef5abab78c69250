//! Names that a worker reads. The worker is this very program: it runs the one test whose name has its argument in it.

#[path = "symbols/support/mod.rs"]
mod support;

use ramson_apart::{Budget, serve_if_asked};
use ramson_paths::Owner;
use ramson_symbols::{NameReader, Options, Symbolizer, address_of_offset};
use std::env::current_exe;
use std::path::Path;
use std::time::Duration;
use support::dwarf::*;
use support::elf::*;
use support::*;

#[test]
fn read_apart_runs_a_worker() {
    serve_if_asked(&mut [&mut NameReader::default()], |_| ());
}

// Budget of every file, also of this user's own.
const BUDGET: Budget = Budget { memory_bytes: 64 << 20, time: Some(Duration::from_secs(60)) };

#[test]
fn worker_tells_file_mapping() {
    ramson_apart::enable(Some(BUDGET), false);
    let address = |path: &Path| address_of_offset(path, 0, Owner::of_user(0));
    // An executable that may be anywhere, and no ELF file.
    assert_eq!(address(&current_exe().unwrap()), Some(0));
    assert_eq!(address(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")), None);
}

#[test]
fn memory_excess_is_a_binary_defect() {
    ramson_apart::enable(Some(BUDGET), false);
    let folder = Folder::new();
    let ask = |name: &str, rows: usize| {
        let path = folder.path(name);
        write_elf(&path, &with_rows(rows), &[], 0);
        let named_by = Some(Owner::of_user(0));
        let mut symbolizer = Symbolizer::new(Options { named_by, ..Options::default() });
        symbolizer.symbolize(&binary(&path, ""), &file_addresses(&[START + 8]))
    };
    assert_eq!(functions(&ask("small", 1000)), [["f"]]);
    let large = ask("large", 3_000_000);
    let text = large.defect.as_ref().expect("a defect").to_string();
    assert!(text.contains("large: no names: reading it takes more than the 64 MiB"), "{text}");
    assert!(text.contains("--budget"), "{text}");
    assert_eq!(functions(&ask("another", 1000)), [["f"]]);
}
