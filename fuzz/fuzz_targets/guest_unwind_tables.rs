//! Whatever an object's unwind tables are, the walker compiles some rule, and reads nothing outside of them. The first two
//! bytes say where the tables' index begins, the next four which code is asked for; the rest is the segment.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(([a, b, c, d, e, f], segment)) = bytes.split_first_chunk() {
        let index_at = u16::from_le_bytes([*a, *b]);
        guest::fuzzed::compile_rule(segment, index_at, i32::from_le_bytes([*c, *d, *e, *f]));
    }
});
