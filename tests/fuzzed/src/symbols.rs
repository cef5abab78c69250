//! Sources of names: binaries, the cache, names that a profile carries, maps of compiled code.

use crate::choices::{Choices, sized};
use crate::elf_image::{CODE, Elf};
use crate::seed::{Seed, joined};
use ramson_symbols::{
    Binary, CarriedNames, CodeAddress, FileAddress, Options, PerfMap, RuntimeAddress, SeenAddress,
    Symbolizer,
};
use std::os::unix::fs::chown;
use std::path::Path;
use tempfile::TempDir;

/// Whatever the bytes of a binary, the symbolizer answers for each address: ELF headers, symbol tables, compressed sections,
/// DWARF. The first eight bytes are the step between the addresses asked for.
pub fn read_symbols(bytes: &[u8]) {
    let Some((step, content)) = bytes.split_first_chunk() else { return };
    let folder = TempDir::new().expect("the temporary directory can be written");
    let path = folder.path().join("binary");
    std::fs::write(&path, content).expect("the same");
    let step = u64::from_le_bytes(*step);
    symbolize(&path, std::array::from_fn(|index| FileAddress(step.wrapping_mul(index as u64))));
}

/// The same of a file that the input describes.
pub fn elf_sections(bytes: &[u8]) {
    let folder = TempDir::new().expect("the temporary directory can be written");
    let path = Elf::of(&mut Choices(bytes)).write_to(folder.path());
    symbolize(&path, std::array::from_fn(|index| FileAddress(CODE + 3 * index as u64)));
}

/// As root of a stranger's files, which have the smaller budget.
fn symbolize(path: &Path, addresses: [FileAddress; 16]) {
    const STRANGER: u32 = 1501;
    if rustix::process::geteuid().is_root() {
        let folder = path.parent().expect("a folder of this target's own");
        for file in std::fs::read_dir(folder).expect("it was just made").flatten() {
            chown(file.path(), Some(STRANGER), None).expect("root may give it away");
        }
    }
    let path = path.display().to_string();
    let binary = Binary { path, build_id: String::new(), pid: None };
    let answer = Symbolizer::new(Options::default()).symbolize(&binary, &addresses);
    assert_eq!(answer.frames.len(), addresses.len());
    if let Some(defect) = answer.defect {
        assert_eq!(defect.to_string().lines().count(), 1);
    }
}

/// Whatever the body of a cache file, behind a correct checksum: its answers can be used, or it counts as absent.
pub fn read_symbol_cache(bytes: &[u8]) {
    const BUILD_ID: &str = "0123456789abcdef";
    let folder = TempDir::new().expect("the temporary directory can be written");
    let mut body = Vec::new();
    // A cache file names the version of the crate that wrote it.
    for text in [env!("CARGO_PKG_VERSION"), BUILD_ID] {
        body.extend((text.len() as u32).to_le_bytes());
        body.extend(text.as_bytes());
    }
    body.extend(bytes);
    let mut content = b"rmsymbol\x06\0\0\0".to_vec();
    content.extend(crc32fast::hash(&body).to_le_bytes());
    content.extend(body);
    let path = folder.path().join(format!("{BUILD_ID}.symbols"));
    std::fs::write(path, content).expect("it can be written");
    let cache_dir = Some(folder.path().to_owned());
    let options = Options { cache_dir, ..Options::default() };
    let binary = Binary { path: "/nowhere".into(), build_id: BUILD_ID.into(), pid: None };
    let addresses = [0, 1, 16, 4096, u64::MAX].map(FileAddress);
    let answer = Symbolizer::new(options).symbolize(&binary, &addresses);
    assert_eq!(answer.frames.len(), addresses.len());
}

/// Whatever the names that a profile brings along, between a correct checksum and footer: they can be asked for, or there are
/// none.
pub fn read_carried_names(body: &[u8]) {
    let mut content = body.to_vec();
    content.extend((body.len() as u64).to_le_bytes());
    content.extend(crc32fast::hash(body).to_le_bytes());
    content.extend(1_u32.to_le_bytes());
    content.extend(b"\x89ramson-names\r\n\x1a");
    let Some(names) = CarriedNames::in_bytes(&content) else { return };
    let binary = Binary { path: "/a".into(), build_id: "0f".into(), pid: None };
    for address in [0, 16, 4096, u64::MAX] {
        let outside = CodeAddress::Outside(RuntimeAddress(address));
        for at in [outside, CodeAddress::InBinary(&binary, FileAddress(address))] {
            let frames = names.get(at).unwrap_or_default();
            assert!(frames.len() <= body.len());
        }
    }
    // The names that were read can be written, and are the same when they are read again.
    let again = CarriedNames::in_bytes(&names.to_block()).expect("its own block");
    assert_eq!(again.count(), names.count());
}

/// Whatever a runtime wrote as its map of compiled code, and whatever address is asked for: a name of the map, or none. The
/// first eight bytes are the address.
pub fn read_perf_map(bytes: &[u8]) {
    let Some((address, content)) = bytes.split_first_chunk() else { return };
    let text = String::from_utf8_lossy(content);
    let map = PerfMap::parse(content.to_vec());
    let address = u64::from_le_bytes(*address);
    // The address is seen once before and once after the others.
    let addresses = [address, address.wrapping_sub(1), 0, u64::MAX, address].into_iter();
    let seen = |(first_ns, address)| SeenAddress { address, first_ns, last_ns: first_ns };
    let wanted: Vec<SeenAddress> = (0..).zip(addresses).map(seen).collect();
    let names = map.find(&wanted);
    assert!(names.len() == wanted.len() && names.iter().all(|name| text.contains(&**name)));
}

/// Seeds of `read_perf_map`.
pub fn perf_maps() -> Vec<Seed> {
    let map = b"1000 20 one\n1010 8 two words\n0x1000 0x4 three\nffffffffffffffff 1 last\n";
    vec![Seed::new("small", joined(&0x1010_u64.to_le_bytes(), map))]
}

/// Seeds of `read_carried_names`.
pub fn carried_names() -> Vec<Seed> {
    let numbers =
        |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
    let text = |text: &str| joined(&numbers(&[text.len() as u32]), text.as_bytes());
    let mut body = joined(&numbers(&[1]), &[text("/a"), text("0f"), numbers(&[4])].concat());
    body.extend(["", "f", "_Z1fv", "a.c"].map(text).concat());
    body.extend(numbers(&[1, 1, 2, 3, 7, 1, 16, 0, 0, 0, 1]));
    vec![Seed::new("small", body)]
}

/// Functions (0: no debug information), depth, period of blocks; symbols, bytes of a name, kind; chunks of mini debug information. Then no link.
fn described(dwarf: (u64, u64, u8), symbols: (u64, u64, u8), chunks: u64) -> Vec<u8> {
    let mut bytes = [dwarf.0, dwarf.1].map(sized).concat();
    bytes.push(dwarf.2);
    bytes.extend([symbols.0, symbols.1].map(sized).as_flattened());
    bytes.push(symbols.2);
    bytes.extend([sized(chunks), sized(0)].as_flattened());
    bytes
}

/// Seeds of `read_symbols`; fuzz/seeds adds some that gcc makes.
pub fn small_files() -> Vec<Seed> {
    let folder = TempDir::new().expect("the temporary directory can be written");
    let description = described((3, 3, 2), (10, 30, 3), 1);
    let path = Elf::of(&mut Choices(&description)).write_to(folder.path());
    let content = std::fs::read(path).expect("it was just written");
    vec![Seed::new("small", joined(&CODE.to_le_bytes(), &content))]
}

/// Seeds of `elf_sections`.
pub fn elf_files() -> Vec<Seed> {
    let none = (0, 0, 0);
    // Four sections of debug information that are claimed to have most of a file of 2 GiB, each.
    let mut overlapping = joined(&described((1, 1, 0), none, 0), &sized(2 << 30));
    overlapping.push(4);
    for section in [7, 8, 9, 11] {
        overlapping.push(section);
        overlapping.extend([sized(1 << 20), sized(1536 << 20)].as_flattened());
    }
    let linked = |bytes| {
        let mut description = described(none, none, 0);
        description.truncate(description.len() - 3);
        joined(&description, &sized(bytes))
    };
    vec![
        Seed::new("a-linked-file", linked(1 << 16)),
        Seed::of_finding(6, "a-linked-file-of-1-TiB", linked(1 << 40)),
        Seed::new("plain", described((5, 3, 2), (10, 30, 3), 0)),
        Seed::new("small-mini-debug-information", described((1, 0, 0), none, 3)),
        Seed::new("nested-100-deep", described((2, 100, 7), none, 0)),
        Seed::new("one-long-name", described((1, 0, 0), (1 << 14, 1 << 12, 1), 0)),
        Seed::of_finding(
            6,
            "65535-ends-of-one-long-name-at-one-address",
            described(none, (65_535, 64_000, 254), 0),
        ),
        Seed::of_finding(6, "overlapping-sections", overlapping),
        Seed::of_finding(6, "inlined-20000-deep", described((1, 20_000, 0), none, 0)),
        Seed::of_finding(6, "mini-debug-information-of-4-GiB", described((1, 0, 0), none, 2048)),
    ]
}
