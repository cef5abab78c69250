//! What holds of every format that is imported.

use ramson_import::{InuseAt, import};

/// Whatever `bytes` follow `start`, by which a format is recognized, the reader returns: a profile whose indices are valid, or
/// an error that can be shown.
pub fn check_import(start: &[u8], bytes: &[u8]) {
    match import(&[start, bytes].concat()[..], InuseAt::Peak) {
        Ok(imported) => {
            assert_eq!(imported.profile.check_indices(), Ok(()));
            assert!(imported.sample_types.contains(&imported.default_sample_type));
            assert!(imported.defects.iter().all(|defect| !defect.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
