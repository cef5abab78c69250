//! Large packed files, which a second thread unpacks.

use flate2::Compression;
use flate2::write::GzEncoder;
use ramson_import::{Budget, InuseAt, import, import_file};
use std::io::{Seek, Write};

/// Two members of more than a megabyte in all.
fn packed_stacks() -> Vec<u8> {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 52
    };
    let mut lines = (0..20_000).map(|_| {
        let stack: String = (0..12).map(|_| format!("f{};", random())).collect();
        format!("{stack}leaf {}\n", random() + 1)
    });
    let members = [lines.by_ref().take(7_000).collect::<String>(), lines.collect()];
    members.iter().flat_map(|member| packed(member.as_bytes())).collect()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    // In blocks as they are, so that little is large.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Results of reading these bytes from a file and as from a pipe.
fn both_ways(bytes: &[u8]) -> [String; 2] {
    assert!(bytes.len() > 1 << 20, "{}: not large", bytes.len());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let imported = [import_file(Budget::OWN, file, InuseAt::End), import(bytes, InuseAt::End)];
    imported.map(|imported| match imported {
        Ok(imported) => {
            let defects = &imported.defects;
            format!("{} {:?} {defects:?}", imported.format, imported.profile.samples)
        }
        Err(error) => error.to_string(),
    })
}

#[test]
fn second_thread_reads_the_same() {
    let whole = packed_stacks();
    let [from_file, from_pipe] = both_ways(&whole);
    assert!(from_file == from_pipe);
    assert!(from_file.ends_with("] []"), "not whole");

    let cut = &whole[..whole.len() - 1000];
    let mut damaged = whole.clone();
    damaged[(1 << 20) + 5000..][..64].fill(0xff);
    for bytes in [cut, &damaged] {
        let [from_file, from_pipe] = both_ways(bytes);
        assert!(from_file == from_pipe);
        assert!(!from_file.ends_with("] []"), "taken for whole");
    }
}

#[test]
fn packed_noise_is_refused_early() {
    let noise: Vec<u8> = packed_stacks().iter().map(|byte| byte | 0x80).collect();
    let [from_file, from_pipe] = both_ways(&packed(&noise));
    assert_eq!(from_file, from_pipe);
}
