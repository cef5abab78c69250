//! Whatever a profile becomes from one look to the next, what is read of it can be used. The first two bytes count patches of twelve
//! bytes, an offset and a word; they make the second image of the first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ramson_reader::{Follower, Snapshot};

fn check(snapshot: &Snapshot) {
    for sample in &snapshot.live {
        assert!(sample.stack < snapshot.stacks.len());
    }
    for extent in &snapshot.extents {
        assert!(extent.stack < snapshot.stacks.len());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((count, rest)) = bytes.split_first_chunk() else { return };
    let patches = (usize::from(u16::from_le_bytes(*count)) * 12).min(rest.len() / 12 * 12);
    let (patches, image) = rest.split_at(patches);
    let mut later = image.to_vec();
    for patch in patches.chunks_exact(12) {
        let offset = u32::from_le_bytes(patch[..4].try_into().expect("four bytes")) as usize;
        if let Some(word) = later.get_mut(offset..offset.saturating_add(8)) {
            word.copy_from_slice(&patch[4..]);
        }
    }
    let mut follower = Follower::default();
    for image in [image, &later, image] {
        if let Ok(snapshot) = follower.read(image) {
            check(snapshot);
        }
    }
});
