//! Our own profiles.

use crate::choices::{Choices, sized};
use crate::profile_image::Image;
use crate::seed::{Seed, joined};
use ramson_reader::{Follower, ReadAt, Snapshot};
use std::io::Read;

/// Whatever the bytes, the reader returns: a snapshot whose numbers can be used as indices, or an error that can be shown.
pub fn read_profile(bytes: &[u8]) {
    read(bytes);
}

/// The same of a file that the input describes.
pub fn profile_regions(bytes: &[u8]) {
    read(&Image::of(&mut Choices(bytes)).into_file());
}

fn read<S: ReadAt + ?Sized>(source: &S) {
    let snapshot = match Snapshot::read(source) {
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
}

/// Whatever a profile becomes from one look to the next, what is read of it can be used. The first two bytes count patches of
/// twelve bytes, an offset and a word; they make the second image of the first.
pub fn follow_profile(bytes: &[u8]) {
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
            let stacks = snapshot.stacks.len();
            assert!(snapshot.live.iter().all(|sample| sample.stack < stacks));
            assert!(snapshot.extents.iter().all(|extent| extent.stack < stacks));
        }
    }
}

/// Mappings, bytes of their path, samples, stacks.
fn proportions(numbers: [u64; 4]) -> Vec<u8> {
    joined(numbers.map(sized).as_flattened(), &[0])
}

/// A small whole profile.
fn small() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = Image::of(&mut Choices(&proportions([3, 9, 20, 5]))).into_file();
    file.read_to_end(&mut bytes).expect("it is ours");
    bytes
}

/// Seeds of `read_profile`.
pub fn whole_files() -> Vec<Seed> {
    vec![Seed::new("small", small())]
}

/// Seeds of `follow_profile`.
pub fn followed_files() -> Vec<Seed> {
    let patch = [1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    vec![Seed::new("small", joined(&patch, &small()))]
}

/// Seeds of `profile_regions`.
pub fn regions() -> Vec<Seed> {
    let plain = proportions([3, 9, 20, 5]);
    // Each of the seven regions begins behind the header and reaches to the end of a file of 4 GiB, of which a page is there.
    let mut overlapping = joined(&proportions([0; 4]), &sized(4 << 30));
    overlapping.push(7);
    for (row, entry_bytes) in
        ramson_format::REGION_KINDS.map(|kind| kind.entry_bytes()).into_iter().enumerate()
    {
        overlapping.push(row as u8);
        overlapping.extend(sized(4096));
        overlapping.extend(sized(((4 << 30) - (1 << 20)) / entry_bytes));
    }
    // A single one, in a hole as long.
    let mut hole = joined(&proportions([0; 4]), &sized(4 << 30));
    hole.extend([1, ramson_format::RegionKind::Strings as u8]);
    hole.extend([sized(4096), sized(4 << 30)].as_flattened());
    vec![
        Seed::new("plain", plain),
        Seed::new("one-long-path", proportions([2, 1 << 20, 1, 1])),
        Seed::new(
            "shared-frames",
            joined(&[sized(1), sized(9), sized(2000), sized(1000)].concat(), &[1]),
        ),
        Seed::of_finding(1, "overlapping-regions", overlapping),
        Seed::of_finding(1, "a-hole-of-4-GiB", hole),
        Seed::of_finding(
            2,
            "1000-mappings-with-one-path-of-4-MiB",
            proportions([1000, 4 << 20, 0, 0]),
        ),
        Seed::of_finding(2, "240000-mappings", proportions([240_000, 9, 0, 0])),
    ]
}
