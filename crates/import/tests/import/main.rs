//! Foreign files as their producers wrote them, and what becomes of them when they are cut, damaged or made up.

mod hostile;
mod message;
mod pprof;
mod producers;
mod read_ahead;
mod tables;
mod texts;
mod unrecognized;

use ramson_import::{ImportError, Imported, InuseAt, import};
use ramson_profile::{FrameTable, SampleType};
use std::path::Path;

/// A file of `tests/golden/import`.
fn golden(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/import");
    std::fs::read(directory.join(name)).unwrap()
}

const GOLDEN: [&str; 10] = [
    "go.pb.gz",
    "gperftools.heap",
    "heaptrack.gz",
    "heaptrack.zst",
    "jemalloc-without-threads.heap",
    "jemalloc.heap",
    "malloc_info.xml",
    "memleak.txt",
    "redpanda.json",
    "symbolized.heap",
];

fn read(bytes: &[u8]) -> Result<Imported, ImportError> {
    import(bytes, InuseAt::End)
}

fn total(imported: &Imported, of: SampleType) -> f64 {
    imported.profile.total(of).value
}

/// The stack's functions, leaf first, with its values.
fn stacks(imported: &Imported) -> Vec<(Vec<String>, [f64; 4])> {
    let frames = FrameTable::new(&imported.profile);
    let samples = imported.profile.samples.iter().map(|sample| {
        let names = frames.stack(sample).map(|at| frames.name(at.frame).name.to_string());
        (names.collect(), sample.values.map(|value| value.value))
    });
    samples.collect()
}
