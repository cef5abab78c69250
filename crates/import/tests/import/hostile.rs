//! Whatever the bytes: a profile whose indices are valid, or an error; each can be shown.

use crate::message::{bytes, number, packed, varint};
use crate::{GOLDEN, golden, read};
use flate2::Compression;
use flate2::write::GzEncoder;
use ramson_import::{FREE_BYTES, ImportDefect, ImportError, InuseAt, MOST_EXPANSION, import};
use std::io::{Read, Write};

/// Reads, and looks at everything.
fn survive(bytes: &[u8]) {
    match import(bytes, InuseAt::Peak) {
        Ok(imported) => {
            assert_eq!(imported.profile.check_indices(), Ok(()));
            assert!(imported.sample_types.contains(&imported.default_sample_type));
            assert!(imported.defects.iter().all(|defect| !defect.to_string().is_empty()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn unpacked(name: &str) -> Vec<u8> {
    let packed = golden(name);
    let mut out = Vec::new();
    match name.rsplit('.').next() {
        Some("gz") => drop(flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut out)),
        Some("zst") => return golden("heaptrack.gz"),
        _ => return packed,
    }
    out
}

#[test]
fn cut_files_are_read_or_refused() {
    for name in GOLDEN {
        let (packed, plain) = (golden(name), unpacked(name));
        for end in 0..packed.len() {
            survive(&packed[..end]);
        }
        // Text has few kinds of places.
        for end in (0..plain.len()).step_by(7) {
            survive(&plain[..end]);
        }
    }
}

#[test]
fn changed_bytes_are_read_or_refused() {
    for name in GOLDEN {
        for mut file in [golden(name), unpacked(name)] {
            for at in (0..file.len()).step_by(2) {
                let was = file[at];
                file[at] = was ^ [1, 0x80, 0x1f][at / 2 % 3];
                survive(&file);
                file[at] = was;
            }
        }
    }
}

#[test]
fn a_cut_profile_says_so() {
    let cut = |name: &str, end: usize| read(&golden(name)[..golden(name).len() - end]).unwrap();
    assert!(cut("heaptrack.gz", 40).defects.contains(&ImportDefect::PackedCut));
    // Samples come first in a pprof file, names last: a cut one has stacks of nothing.
    let go = unpacked("go.pb.gz");
    assert!(matches!(
        read(&go[..go.len() / 2]),
        Err(ImportError::Nothing(Some(ImportDefect::Cut)))
    ));
    assert!(cut("gperftools.heap", 5000).defects.is_empty());
}

#[test]
fn bomb_is_read_to_its_bound() {
    // A field that is passed over: a thousand times smaller when packed.
    const FIELD_BYTES: u64 = 72 << 20;
    let sample_type = bytes(1, &[number(1, 1), number(2, 2)].concat());
    let head = [&sample_type[..], &sample_type, &[0x9a, 1]].concat();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&[head, varint(FIELD_BYTES)].concat()).unwrap();
    for _ in 0..FIELD_BYTES >> 20 {
        gzip.write_all(&[0; 1 << 20]).unwrap();
    }
    let bomb = gzip.finish().unwrap();
    assert!(FREE_BYTES + MOST_EXPANSION * (bomb.len() as u64) < FIELD_BYTES, "{}", bomb.len());
    let bound = ImportDefect::ExpandsTooMuch;
    assert!(matches!(read(&bomb), Err(ImportError::Nothing(Some(defect))) if defect == bound));
}

#[test]
fn memory_of_profile_is_bounded() {
    // Samples of one frame and one value: 10 bytes of file for more than 100 of profile.
    let texts = ["", "space", "bytes"].map(|text| bytes(6, text.as_bytes())).concat();
    let mut file = [bytes(1, &[number(1, 1), number(2, 2)].concat()), texts].concat();
    for id in 1..1_000_000 {
        file.extend(bytes(2, &[packed(1, &[id]), packed(2, &[1])].concat()));
    }
    match read(&file) {
        Err(ImportError::Nothing(Some(ImportDefect::MemoryBound))) => {}
        other => panic!("{:?}", other.map(|imported| imported.defects)),
    }
}

#[test]
fn packed_size_bounds_memory() {
    // Deep stacks of one small number: less than 6 bytes of profile for each of file, but of the packed file hundreds.
    let texts = ["", "space", "bytes"].map(|text| bytes(6, text.as_bytes())).concat();
    let mut file = [bytes(1, &[number(1, 1), number(2, 2)].concat()), texts].concat();
    for depth in 0..52_000 {
        let stack = vec![1; 150 + depth % 100];
        file.extend(bytes(2, &[packed(1, &stack), packed(2, &[1])].concat()));
    }
    file.extend(bytes(4, &[number(1, 1), number(3, 4096)].concat()));
    assert_eq!(read(&file).unwrap().defects, []);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&file).unwrap();
    match read(&gzip.finish().unwrap()) {
        Err(ImportError::Nothing(Some(ImportDefect::PackedMemoryBound))) => {}
        other => panic!("{:?}", other.map(|imported| imported.defects)),
    }
}

#[test]
fn claimed_length_costs_nothing() {
    let mut file = bytes(1, &[number(1, 1), number(2, 2)].concat());
    file.extend([0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    assert!(matches!(read(&file), Err(ImportError::Nothing(Some(ImportDefect::Cut)))));
}
