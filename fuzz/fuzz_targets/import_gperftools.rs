#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (ramson_fuzzed::target("import_gperftools").check)(bytes));
