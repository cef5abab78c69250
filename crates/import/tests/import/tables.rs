//! Tables that tools print into logs, and Redpanda's document of the same.

use crate::{read, stacks, total};
use ramson_import::{Format, ImportDefect, ImportError};
use ramson_profile::SampleType::{AllocSpace, InuseObjects, InuseSpace};

/// As bcc 0.26 formats it (tools/memleak.py).
const MEMLEAK: &str = "Attaching to pid 4711, Ctrl+C to quit.\n\
    [11:16:33] Top 10 stacks with outstanding allocations:\n\
    \taddr = 7f31a0 size = 4000\n\
    \t8000 bytes in 2 allocations from stack\n\
    \t\t0x0000000000401136\tload_orders+0x9 [leak]\n\t\t0x0000000000401176\tmain+0x20 [leak]\n\
    [11:16:36] Top 10 stacks with outstanding allocations:\n\
    \t12000 bytes in 3 allocations from stack\n\
    \t\t0x0000000000401136\tload_orders+0x9 [leak]\n\t\t0x0000000000401176\tmain+0x20 [leak]\n\
    \t\t0x00007f0000001000\t__libc_start_call_main+0x7a [libc.so.6]\n\
    \t100000 bytes in 1 allocations from stack\n\
    \t\t0x0000000000401150\t_ZN4shop6decodeEv+0x9 [leak]\n\t\t0x0000000000401170\t[unknown] [libshop.so]\n";

#[test]
fn memleak_s_last_table_counts() {
    let imported = read(MEMLEAK.as_bytes()).unwrap();
    assert_eq!(imported.format, Format::Memleak);
    assert_eq!(imported.sample_types, [InuseObjects, InuseSpace]);
    assert_eq!(imported.defects, [ImportDefect::EarlierTables(1)]);
    assert_eq!((total(&imported, InuseSpace), total(&imported, InuseObjects)), (112_000.0, 4.0));
    assert!(total(&imported, AllocSpace).is_nan());
    let names: Vec<Vec<String>> = stacks(&imported).into_iter().map(|(names, _)| names).collect();
    assert_eq!(names[0], ["load_orders", "main", "__libc_start_call_main"]);
    assert_eq!(names[1], ["_ZN4shop6decodeEv", "0x401170 in libshop.so"]);
    assert_eq!(imported.profile.mappings[0].path, "leak");
}

#[test]
fn a_full_table_has_the_largest_stacks_only() {
    let full = MEMLEAK.replace("Top 10", "Top 2");
    let defects = read(full.as_bytes()).unwrap().defects;
    assert_eq!(defects, [ImportDefect::EarlierTables(1), ImportDefect::LargestOnly(2)]);
}

#[test]
fn memleak_of_libbpf_tools_is_read() {
    let text = "using default object: libc.so.6\n[1:2:3] Top 10 stacks with outstanding allocations:\n\
        4000 bytes in 1 allocations from stack\n\taddr = 0x7f0000001000 size = 4000\n\
        \t0 [<0000000000401136>] load_orders+0x9 [/srv/leak]\n\t1 [<0000000000401176>] main+0x20 [/srv/leak]\n";
    let imported = read(text.as_bytes()).unwrap();
    assert_eq!(stacks(&imported)[0].0, ["load_orders", "main"]);
    assert_eq!(total(&imported, InuseSpace), 4000.0);
    assert_eq!(imported.defects, []);
}

#[test]
fn seastar_s_sites_are_read_from_a_log() {
    let text = "INFO  2026-11-27 [shard 0] redpanda - starting\n\
        ERROR 2026-11-27 [shard 1] seastar_memory - Dumping seastar memory diagnostics\n\
        Alloc sites legend:\n    size: the estimated total size of all allocations at this stack\n\
        Top-N alloc sites - size count stack:\n\
        8388608 2 0x402000 0x404000 /opt/redpanda/lib/libc.so.6+0x27189\n\
        host redpanda[7]: 4194304 1 0x403000 0x404000\nterminating\n";
    let imported = read(text.as_bytes()).unwrap();
    assert_eq!((imported.format, &imported.sample_types[..]), (Format::Seastar, &[InuseSpace][..]));
    assert_eq!(total(&imported, InuseSpace), 12_582_912.0);
    assert_eq!(imported.defects, [ImportDefect::LargestOnly(2)]);
    let profile = &imported.profile;
    let first = &profile.locations[profile.samples[0].locations[0] as usize];
    // Not one less: Seastar has subtracted 1 already.
    assert_eq!((first.address.0, first.mapping), (0x402000, Some(0)));
    let paths: Vec<&str> = profile.mappings.iter().map(|mapping| &*mapping.path).collect();
    assert_eq!(paths, ["[program]", "/opt/redpanda/lib/libc.so.6"]);
    let twice = read(text.repeat(2).as_bytes()).unwrap();
    assert_eq!(total(&twice, InuseSpace), 12_582_912.0);
    assert_eq!(twice.defects[0], ImportDefect::EarlierTables(1));
}

/// As memory_sampling.cc of Redpanda formats them: when memory is out, and when little is left.
#[test]
fn redpanda_s_lines_are_read() {
    let site = "size: 8388608 count: 2 at: 0x402000 0x404000 /opt/redpanda/lib/libc.so.6+0x27189";
    let other = "size: 4194304 count: 1 at: 0x403000 0x404000";
    let header = "Alloc sites legend:\n    count: the number of live samples at this stack\nTop-N alloc sites:\n";
    let dumped =
        format!("{header}{site}\n{other}\nIf you work at Redpanda please refer to https://x\n");
    let logged = format!(
        "INFO - 214748364 bytes of available memory left - Top-N alloc sites: {site}|{other}\n"
    );
    for text in [dumped, logged] {
        let imported = read(text.as_bytes()).unwrap();
        assert_eq!(total(&imported, InuseSpace), 12_582_912.0, "{text}");
        assert_eq!(imported.defects, [ImportDefect::LargestOnly(2)], "{text}");
        assert_eq!(imported.profile.samples[0].locations.len(), 3, "{text}");
    }
}

#[test]
fn redpanda_s_shards_add_up() {
    let text = r#"[{"shard": 0, "allocation_sites": [{"size": 8388608, "count": 2, "backtrace": "0x402000 0x404000"}]},
        {"shard": 1, "allocation_sites": [{"size": 1048576, "count": 1, "backtrace": "0x402000 0x404000"},
        {"size": 4096, "count": 1, "backtrace": "no address"}]}]"#;
    let imported = read(text.as_bytes()).unwrap();
    assert_eq!((imported.format, imported.profile.samples.len()), (Format::Seastar, 1));
    assert_eq!(total(&imported, InuseSpace), 9_437_184.0);
    assert_eq!(imported.defects, [ImportDefect::BadLines(1)]);
    let cut = read(&text.as_bytes()[..text.len() - 10]);
    assert!(matches!(cut, Err(ImportError::Unrecognized(why)) if why.contains("Redpanda")));
}
