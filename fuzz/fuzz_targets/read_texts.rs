//! Whatever texts say that are not ours: smaps of the kernel, whose names processes choose, and files of suppressions. The first line
//! is a name that the suppressions are asked about.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_process::parse_smaps;
use ramson_leaks::Suppressions;

fuzz_target!(|bytes: &[u8]| {
    parse_smaps(bytes);
    let text = String::from_utf8_lossy(bytes);
    let (name, patterns) = text.split_once('\n').unwrap_or_default();
    match Suppressions::parse(patterns) {
        Ok(suppressions) => {
            let matching = suppressions.matching(std::iter::once(name));
            assert!(matching.is_none_or(|pattern| patterns.contains(pattern)));
        }
        Err(bad) => assert_eq!(bad.to_string().lines().count(), 1),
    }
});
