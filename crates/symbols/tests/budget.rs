//! Files that take all memory, all time or all stack of who reads them.

#[path = "symbols/support/mod.rs"]
mod support;

use ramson_symbols::{Binary, Options, Symbolized, Symbolizer};
use std::os::unix::fs::chown;
use std::path::Path;
use support::dwarf::*;
use support::elf::*;
use support::*;

const STRANGER: u32 = 1501;

fn given_to_stranger(path: &Path) {
    chown(path, Some(STRANGER), Some(STRANGER)).expect("as root");
}

#[track_caller]
fn reason(symbolized: &Symbolized) -> String {
    symbolized.defect.as_ref().expect("a defect").to_string()
}

const DEBUG_SECTIONS: [&str; 4] = [".debug_abbrev", ".debug_info", ".debug_line", ".debug_str"];

#[test]
fn overlapping_sections_are_not_read() {
    let folder = Folder::new();
    let path = folder.path("sparse");
    let claim = |name| Claim { name, offset: 4096, bytes: 150 << 20 };
    write_elf(&path, &[], &DEBUG_SECTIONS.map(claim), 200 << 20);
    let text = reason(&symbolize(&binary(&path, ""), &[1]));
    assert!(text.contains("overlaps other sections"), "{text}");
}

#[test]
fn sections_share_one_bound() {
    let folder = Folder::new();
    let path = folder.path("sparse");
    let claims = [(".debug_info", 4096), (".debug_str", 512 << 20)];
    let claims = claims.map(|(name, offset)| Claim { name, offset, bytes: 300 << 20 });
    write_elf(&path, &[], &claims, 1 << 30);
    given_to_stranger(&path);
    let strange = reason(&symbolize(&binary(&path, ""), &[1]));
    assert!(strange.contains("more than the 512 MiB allowed"), "{strange}");
}

#[test]
fn section_ends_with_its_file() {
    let folder = Folder::new();
    let path = folder.path("short");
    let claim = Claim { name: ".debug_info", offset: 64, bytes: 1 << 20 };
    write_elf(&path, &[], &[claim], 0);
    let text = reason(&symbolize(&binary(&path, ""), &[1]));
    assert!(text.contains(".debug_info: lies outside the file"), "{text}");
}

/// Peak of what this process had resident since it was last asked to forget it.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn overlapping_notes_are_not_kept() {
    let folder = Folder::new();
    let path = folder.path("notes");
    let claim = |offset| Claim { name: ".note", offset, bytes: 1 << 20 };
    let claims: Vec<Claim> = (64..4064).map(claim).collect();
    write_elf(&path, &[], &claims, 2 << 20);
    symbolize(&binary(&path, ""), &[1]);
    assert!(peak_kib() < 3 << 20, "{} KiB", peak_kib());
}

#[test]
fn huge_debug_link_is_not_followed() {
    let folder = Folder::new();
    let link = [b"huge\0\0\0\0".as_slice(), &[1, 2, 3, 4]].concat();
    write_elf(&folder.path("program"), &[(".gnu_debuglink", link)], &[], 0);
    // As large as a file may be here, and with the same build ID: none.
    let huge = folder.path("huge");
    let terabytes = |exponent: &u32| {
        write_elf(&huge, &[], &[], 0);
        std::fs::File::options().write(true).open(&huge).unwrap().set_len(1 << exponent).is_ok()
    };
    assert!([43, 42, 41, 40, 39].iter().any(terabytes));
    let asked = Binary { pid: None, ..binary(&folder.path("program"), "") };
    let start_ns = own_cpu_ns();
    assert!(symbolize(&asked, &[1]).frames[0].is_empty());
    assert!(own_cpu_ns() - start_ns < 5_000_000_000);
}

#[test]
fn mini_debug_bomb_is_refused() {
    let folder = Folder::new();
    let status = std::process::Command::new("sh")
        .args(["-c", "head -c 65M /dev/zero | xz -1 > bomb.xz"])
        .current_dir(&folder.0)
        .status();
    assert!(status.unwrap().success());
    let bomb = std::fs::read(folder.path("bomb.xz")).unwrap();
    write_elf(&folder.path("bomb"), &[(".gnu_debugdata", bomb)], &[], 0);
    let text = reason(&symbolize(&binary(&folder.path("bomb"), ""), &[1]));
    assert!(text.contains("larger than any mini debug information"), "{text}");
}

#[test]
fn huge_dictionary_is_not_allocated() {
    let folder = Folder::new();
    folder.write("plain", "small");
    folder.run("xz -k --lzma2=dict=1GiB plain");
    let packed = std::fs::read(folder.path("plain.xz")).unwrap();
    write_elf(&folder.path("large"), &[(".gnu_debugdata", packed)], &[], 0);
    let text = reason(&symbolize(&binary(&folder.path("large"), ""), &[1]));
    assert!(text.contains("memory"), "{text}");
}

/// Asks an own file and a stranger's with this debug information for the function in it.
fn both(sections: &[(&'static str, Vec<u8>)]) -> [Symbolized; 2] {
    let folder = Folder::new();
    let path = folder.path("program");
    write_elf(&path, sections, &[], 0);
    let own = symbolize(&binary(&path, ""), &[START + 8]);
    given_to_stranger(&path);
    [own, symbolize(&binary(&path, ""), &[START + 8])]
}

#[test]
fn deep_inlining_does_not_overflow() {
    let deepest_real = 60;
    for symbolized in both(&nested(deepest_real)) {
        assert_eq!(symbolized.frames[0].len(), deepest_real + 1, "{:?}", symbolized.defect);
    }
    let start_ns = own_cpu_ns();
    for depth in [20_000, 500_000] {
        for symbolized in both(&nested(depth)) {
            let text = reason(&symbolized);
            assert!(text.contains("nested deeper"), "{depth}: {text}");
        }
    }
    assert!(own_cpu_ns() - start_ns < 5_000_000_000);
}

#[test]
fn excess_attributes_are_refused() {
    for symbolized in both(&with_attributes(100, 40)) {
        assert_eq!(functions(&symbolized), [["f"]]);
    }
    for symbolized in both(&with_attributes(200_000, 50_000)) {
        let text = reason(&symbolized);
        assert!(text.contains("more attributes than any compiler makes"), "{text}");
    }
}

#[test]
fn shared_abbreviations_are_read_once() {
    let start_ns = own_cpu_ns();
    for symbolized in both(&sharing_a_table(5_000)) {
        assert_eq!(functions(&symbolized), [["f"]]);
    }
    // 25 million abbreviations would take longer.
    assert!(own_cpu_ns() - start_ns < 5_000_000_000);
}

#[test]
fn repeated_asking_costs_no_budget() {
    let folder = Folder::new();
    let path = folder.path("program");
    write_elf(&path, &with_rows(400_000), &[], 0);
    given_to_stranger(&path);
    let mut symbolizer = Symbolizer::new(Options::default());
    for offset in 0..200 {
        let addresses = file_addresses(&[START + offset]);
        let symbolized = symbolizer.symbolize(&binary(&path, ""), &addresses);
        assert_eq!(functions(&symbolized), [["f"]], "{offset}: {:?}", symbolized.defect);
    }
}

#[test]
fn a_line_table_names_lines() {
    let [own, strange] = both(&with_rows(1000));
    assert_eq!((&own.frames, own.frames[0][0].line), (&strange.frames, 1));
}

/// Run by hand, with --release: how long each takes, and how much memory.
#[test]
#[ignore = "prints times for people"]
fn measure_hostile_content() {
    type Made = fn() -> Content;
    let named: [(&str, Made); 5] = [
        ("nested 2,000,000 deep", || nested(2_000_000)),
        ("20,000 entries in 20,000 ranges", || in_ranges(20_000)),
        ("60,000,000 rows", || with_rows(60_000_000)),
        ("200,000 entries of 50,000 attributes", || with_attributes(200_000, 50_000)),
        ("30,000 units with 30,000 abbreviations", || sharing_a_table(30_000)),
    ];
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, sections) in named.iter().filter(|(name, _)| name.contains(&only)) {
        let folder = Folder::new();
        let path = folder.path("program");
        write_elf(&path, &sections(), &[], 0);
        if std::env::var_os("OWN").is_none() {
            given_to_stranger(&path);
        }
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let start_ns = own_cpu_ns();
        let symbolized = symbolize(&binary(&path, ""), &[START + 8]);
        let peak = peak_kib();
        let milliseconds = (own_cpu_ns() - start_ns) / 1_000_000;
        println!(
            "{name}: {milliseconds} ms, {peak} KiB, {:?}",
            symbolized.defect.map(|d| d.to_string())
        );
    }
}
