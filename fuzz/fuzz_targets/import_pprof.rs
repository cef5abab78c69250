//! pprof files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_fuzz::check_import;

// A sample type, so that what follows is taken for pprof.
fuzz_target!(|bytes: &[u8]| check_import(b"\x0a\x04\x08\x01\x10\x02", bytes));
