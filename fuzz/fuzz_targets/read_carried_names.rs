//! Whatever the names that a profile brings along, between a correct checksum and footer: they can be asked for, or there are none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_symbols::{Binary, CarriedNames, CodeAddress, FileAddress, RuntimeAddress};

fuzz_target!(|body: &[u8]| {
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
    // What was read can be written, and is the same then.
    let again = CarriedNames::in_bytes(&names.to_block()).expect("its own block");
    assert_eq!(again.count(), names.count());
});
