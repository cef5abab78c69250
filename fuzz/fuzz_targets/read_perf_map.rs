//! Whatever a runtime wrote as its map of compiled code, and whatever address is asked for: a name of the map, or none. The first
//! eight bytes are the address.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_symbols::{PerfMap, RuntimeAddress};

fuzz_target!(|bytes: &[u8]| {
    let Some((address, content)) = bytes.split_first_chunk() else { return };
    let text = String::from_utf8_lossy(content);
    let map = PerfMap::parse(&text);
    let address = u64::from_le_bytes(*address);
    for address in [address, address.wrapping_sub(1), 0, u64::MAX] {
        if let Some(name) = map.find(RuntimeAddress(address)) {
            assert!(!name.is_empty() && text.contains(name));
        }
    }
});
