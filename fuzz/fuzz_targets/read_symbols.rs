//! Whatever the bytes of a binary, the symbolizer answers for each address: ELF headers, symbol tables, compressed sections, DWARF.
//! The first eight bytes are the step between the addresses asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_symbols::{Binary, FileAddress, Options, Symbolizer};

fuzz_target!(|bytes: &[u8]| {
    let Some((step, content)) = bytes.split_first_chunk() else { return };
    let path = std::env::temp_dir().join(format!("ramson-fuzz-symbols-{}", std::process::id()));
    std::fs::write(&path, content).expect("the temporary directory can be written");
    let step = u64::from_le_bytes(*step);
    let address = |index: u64| FileAddress(index.wrapping_mul(step));
    let addresses: Vec<FileAddress> = (0..16).map(address).collect();
    let binary = Binary { path: path.display().to_string(), build_id: String::new(), pid: None };
    let answer = Symbolizer::new(Options::default()).symbolize(&binary, &addresses);
    std::fs::remove_file(&path).expect("it was just written");
    assert_eq!(answer.frames.len(), addresses.len());
    if let Some(defect) = answer.defect {
        assert_eq!(defect.to_string().lines().count(), 1);
    }
});
