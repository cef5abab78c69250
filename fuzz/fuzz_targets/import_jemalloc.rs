//! jemalloc's text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_fuzz::check_import;

fuzz_target!(|bytes: &[u8]| check_import(b"heap_v2/512\n", bytes));
