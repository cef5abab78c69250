#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (ramson_fuzzed::target("read_go_memory").check)(bytes));
