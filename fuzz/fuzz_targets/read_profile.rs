//! Whatever the bytes, the reader returns: a snapshot whose numbers can be used as indices, or an error that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_reader::Snapshot;

fuzz_target!(|bytes: &[u8]| {
    let snapshot = match Snapshot::read(bytes) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for sample in &snapshot.live {
        let stack = &snapshot.stacks[sample.stack];
        assert!(sample.inverse_probability >= 1.0 && sample.inverse_probability.is_finite());
        assert!(sample.address > 1);
        for &address in &stack.frames {
            if let Some(index) = snapshot.mapping_at(address, stack.epoch) {
                assert!(snapshot.mappings[index].start <= address.0);
            }
        }
    }
    assert!(snapshot.stacks[0].frames.is_empty());
    for defect in &snapshot.defects {
        assert!(!defect.to_string().is_empty());
    }
});
