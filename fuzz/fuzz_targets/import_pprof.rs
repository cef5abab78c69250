//! Whatever the bytes, the reader of pprof files returns: a profile whose indices are valid, or an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_import::{Moment, import};

fuzz_target!(|bytes: &[u8]| {
    // A sample type, so that what follows is taken for pprof.
    let bytes = [b"\x0a\x04\x08\x01\x10\x02", bytes].concat();
    match import(&bytes[..], Moment::Peak) {
        Ok(imported) => {
            assert_eq!(imported.profile.check_indices(), Ok(()));
            assert!(imported.sample_types.contains(&imported.default_sample_type));
            assert!(imported.defects.iter().all(|defect| !defect.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
