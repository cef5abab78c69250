//! Whatever the bytes, the reader of heaptrack's text returns: a profile whose indices are valid, or an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_import::{Moment, import};

fuzz_target!(|bytes: &[u8]| {
    let bytes = [b"v 10400 3\n", bytes].concat();
    match import(&bytes[..], Moment::Peak) {
        Ok(imported) => {
            assert_eq!(imported.profile.check_indices(), Ok(()));
            assert!(imported.sample_types.contains(&imported.default_sample_type));
            assert!(imported.defects.iter().all(|defect| !defect.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
