//! All foreign formats: which one it is, is up to the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_fuzz::check_import;

fuzz_target!(|bytes: &[u8]| check_import(b"", bytes));
