//! Libraries that come and go: the profile blames the one that was at the address then.

use ramson_format::Health;
use ramson_reader::{Snapshot, Stack};
use ramson_tests::{Run, Symbols, health, program_with};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// As the program counts them.
const LIBRARIES: u64 = 200;

/// The number of the plugin that `stack` was in, if its leaf is in one.
fn plugin_of(snapshot: &Snapshot, stack: &Stack, plugin: &Symbols) -> Option<u64> {
    let leaf = *stack.frames.first()?;
    let mapping = &snapshot.mappings[snapshot.mapping_at(leaf, stack.epoch)?];
    let name = Path::new(&mapping.path).file_stem()?.to_str()?;
    let number = name.strip_prefix("plugin_")?.parse().ok()?;
    assert_eq!(plugin.at(leaf.0 - mapping.bias), Some("site_plugin_allocates"), "{mapping:?}");
    assert_eq!(mapping.build_id[..4], u32::to_le_bytes(number as u32), "{mapping:?}");
    Some(number)
}

#[test]
fn unloaded_library_keeps_its_allocations() {
    let plugin = program_with(
        "../hostile/parts/plugin.c",
        "plugin.so",
        &["-shared", "-fPIC", "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233"],
    );
    let program = program_with("../hostile/dlopen_loop.c", "dlopen_loop", &["-D_GNU_SOURCE"]);
    let run = Run::new(program).arg(&plugin);
    let copies = run.directory.path().to_owned();
    let finished = run.arg(&copies).succeed();
    let snapshot = finished.snapshot();
    assert_eq!(snapshot.defects, []);
    assert_eq!(health(&snapshot, Health::DroppedMappings), 0);
    let symbols = Symbols::of(&plugin);
    let numbers: Vec<_> =
        snapshot.stacks.iter().map(|stack| plugin_of(&snapshot, stack, &symbols)).collect();
    // Otherwise nothing was tried: all were at different addresses, or the threads met few of them.
    let plugins = || snapshot.mappings.iter().filter(|mapping| mapping.path.contains("plugin_"));
    let places: HashSet<_> = plugins().map(|mapping| mapping.start).collect();
    assert!(places.len() * 10 < plugins().count(), "{} places", places.len());
    let used: HashSet<_> = numbers.iter().flatten().collect();
    assert_eq!(used.len() as u64, LIBRARIES);
    let mut kept = HashMap::new();
    for sample in snapshot.live.iter().filter(|sample| sample.size >= 100_000) {
        kept.insert(sample.size - 100_000, numbers[sample.stack]);
    }
    let expected: HashMap<_, _> = (0..LIBRARIES).map(|number| (number, Some(number))).collect();
    assert_eq!(kept, expected);
    for (stack, number) in snapshot.stacks.iter().zip(&numbers) {
        if let Some(number) = number {
            let [objects, bytes] = [stack.sampled_alloc_objects, stack.sampled_alloc_bytes];
            let expected = objects * (5000 + number);
            let is_of_main = objects == 1 && bytes == 100_000 + number;
            assert!(
                bytes == expected || is_of_main,
                "plugin {number}: {objects} objects, {bytes} bytes"
            );
        }
    }
}
