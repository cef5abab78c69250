//! Answers on disk, one file per build ID, so that a second look at a binary need not open its debug information.
//!
//! A file is: `MAGIC`, which ends in the format's version; CRC-32 of the body, u32; the body, as borsh writes crate
//! version, build ID, origin and answers, none of which came from a file of a stranger. A file that does not read to
//! its last byte, or with another version or CRC, is as good as absent. The later of two writers wins, which loses
//! answers but never mixes them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ramson_paths::{Links, RegularFile, Root};

use crate::answers::{Answers, Origin};
use crate::folder::{Folder, touch};

const MAGIC: &[u8; 12] = b"rmsymbol\x07\0\0\0";
const CRATE_VERSION: &str = env!("CARGO_PKG_VERSION");
const MAX_FILE_BYTES: usize = 64 << 20;

/// A folder of cache files. Every failure means only that the cache does not help.
pub(crate) struct Cache(Folder);

impl Cache {
    pub fn new(path: PathBuf) -> Self {
        Self(Folder { path, extension: "symbols", max_total_bytes: 256 << 20 })
    }

    pub fn load(&self, build_id: &str) -> Option<(Origin, Answers)> {
        let path = self.0.place(build_id)?;
        let folder = Root::at(&self.0.path).ok()?;
        let RegularFile { file, facts, .. } =
            folder.open(Path::new(path.file_name()?), Links::Refused).ok()?;
        // The folder may be another user's, as under sudo.
        if facts.bytes > MAX_FILE_BYTES as u64 || !facts.is_trusted() {
            return None;
        }
        let mut content = Vec::new();
        file.take(MAX_FILE_BYTES as u64).read_to_end(&mut content).ok()?;
        let answers = decode(&content, build_id)?;
        touch(&path);
        Some(answers)
    }

    pub fn store(&self, build_id: &str, origin: &Origin, answers: &Answers) -> Option<()> {
        let path = self.0.place(build_id)?;
        let content = encode(build_id, origin, answers)?;
        let mut file = self.0.temporary().ok()?;
        file.write_all(&content).ok()?;
        file.persist(path).ok()?;
        self.0.evict();
        Some(())
    }
}

fn encode(build_id: &str, origin: &Origin, answers: &Answers) -> Option<Vec<u8>> {
    let body = borsh::to_vec(&(CRATE_VERSION, build_id, origin, answers)).ok()?;
    let content = [MAGIC, &crc32fast::hash(&body).to_le_bytes()[..], &body].concat();
    (content.len() <= MAX_FILE_BYTES).then_some(content)
}

fn decode(content: &[u8], build_id: &str) -> Option<(Origin, Answers)> {
    let (crc32, body) = content.strip_prefix(MAGIC)?.split_first_chunk()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc32) {
        return None;
    }
    let (version, of, origin, answers): (String, String, _, Answers) =
        borsh::from_slice(body).ok()?;
    let is_it = version == CRATE_VERSION && of == build_id && answers.is_valid();
    is_it.then_some((origin, answers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    #[test]
    fn damaged_body_is_harmless() {
        const HEADER_BYTES: usize = 16;
        let mut answers = Answers::default();
        let frame = Frame {
            function: "f(int)".into(),
            system_name: "_Z1fi".into(),
            file: Some("f.cc".into()),
            line: 7,
            offset: Some(9),
        };
        answers.add(16, &[frame.clone(), frame]);
        let mut content = encode("abcd", &Origin::default(), &answers).unwrap();
        assert_eq!(decode(&content, "abcd").unwrap().1.get(16).unwrap().len(), 2);
        assert!(decode(&content, "abce").is_none());
        for at in HEADER_BYTES..content.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut content[at], value);
                let crc = crc32fast::hash(&content[HEADER_BYTES..]);
                content[12..16].copy_from_slice(&crc.to_le_bytes());
                if let Some((_, read)) = decode(&content, "abcd") {
                    read.by_address.keys().for_each(|&address| drop(read.get(address)));
                }
                content[at] = before;
            }
        }
    }
}
