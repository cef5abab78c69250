//! Answers on disk, one file per build ID, so that a second look at a binary need not open its debug information.
//!
//! A file is: `MAGIC`; format version, u32; CRC-32 of the body, u32; the body. All integers little-endian. The body:
//! crate version, build ID, source, files considered, debug link, strings, frames, addresses; each list is a u32 count
//! and its items. A file that does not read to its last byte, or with another version or CRC, is as good as absent.
//! Writers write another file and rename it, so readers and other writers see whole files only; of two writers the
//! later wins, which loses answers but never mixes them.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::answers::Answers;
use crate::binary::is_build_id;
use crate::codec::{Input, put, put_answers, put_bytes};
use crate::elf::{DebugLink, Identity};
use crate::evict::{TEMPORARY, evict, touch};
use crate::frame::SymbolSource;

const MAGIC: &[u8; 8] = b"rmsymbol";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
const MAX_FILE_BYTES: u64 = 64 << 20;
const MAX_TOTAL_BYTES: u64 = 256 << 20;
const EXTENSION: &str = "symbols";

/// A folder of cache files. Every failure means only that the cache does not help.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn load(&self, build_id: &str) -> Option<Answers> {
        let path = self.path(build_id)?;
        if Identity::of(&path)?.size_bytes > MAX_FILE_BYTES {
            return None;
        }
        let answers = decode(&fs::read(&path).ok()?, build_id)?;
        touch(&path);
        Some(answers)
    }

    pub fn store(&self, build_id: &str, answers: &Answers) -> Option<()> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let path = self.path(build_id)?;
        let content = encode(answers, build_id)?;
        // Paths and names of other people's programs are nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).ok()?;
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{build_id}.{}.{count}.{TEMPORARY}", std::process::id());
        let temporary = self.folder.join(temporary);
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&temporary);
        let written = file.and_then(|mut file| file.write_all(&content));
        if written.and_then(|()| fs::rename(&temporary, path)).is_err() {
            let _ = fs::remove_file(&temporary);
        }
        evict(&self.folder, EXTENSION, MAX_TOTAL_BYTES);
        Some(())
    }

    fn path(&self, build_id: &str) -> Option<PathBuf> {
        is_build_id(build_id).then(|| self.folder.join(format!("{build_id}.{EXTENSION}")))
    }
}

fn encode(answers: &Answers, build_id: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(answers.frames.len() * 32 + 4096);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    put_bytes(&mut out, env!("CARGO_PKG_VERSION").as_bytes());
    put_bytes(&mut out, build_id.as_bytes());
    let (kind, path) = match &answers.source {
        SymbolSource::None | SymbolSource::Carried => (0, Path::new("")),
        SymbolSource::Dwarf { path } => (1, path.as_path()),
        SymbolSource::Symtab { path } => (2, path.as_path()),
        SymbolSource::Dynsym { path } => (3, path.as_path()),
    };
    put(&mut out, kind);
    put_bytes(&mut out, path.as_os_str().as_bytes());
    for identities in [answers.source_identity.as_slice(), &answers.considered] {
        put(&mut out, identities.len() as u32);
        for identity in identities {
            out.extend_from_slice(&identity.size_bytes.to_le_bytes());
            out.extend_from_slice(&identity.modified_ns.to_le_bytes());
        }
    }
    let (name, crc32) = answers.link.as_ref().map_or((&[][..], 0), |link| (&link.name, link.crc32));
    put_bytes(&mut out, name);
    put(&mut out, crc32);
    put_answers(&mut out, answers);
    let crc = crc32fast::hash(&out[HEADER_BYTES..]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    (out.len() as u64 <= MAX_FILE_BYTES).then_some(out)
}

fn decode(content: &[u8], build_id: &str) -> Option<Answers> {
    let body = content.get(HEADER_BYTES..)?;
    if content[..8] != *MAGIC
        || content[8..12] != VERSION.to_le_bytes()
        || content[12..16] != crc32fast::hash(body).to_le_bytes()
    {
        return None;
    }
    let mut input = Input::of(body);
    if input.bytes()? != env!("CARGO_PKG_VERSION").as_bytes()
        || input.bytes()? != build_id.as_bytes()
    {
        return None;
    }
    let mut answers = Answers::default();
    let kind = input.u32()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(input.bytes()?.to_owned()));
    answers.source = match kind {
        0 => SymbolSource::None,
        1 => SymbolSource::Dwarf { path },
        2 => SymbolSource::Symtab { path },
        3 => SymbolSource::Dynsym { path },
        _ => return None,
    };
    let source_identity = input.list(16, Input::identity)?;
    answers.source_identity = source_identity.first().copied();
    answers.considered = input.list(16, Input::identity)?;
    let (name, crc32) = (input.bytes()?.to_owned(), input.u32()?);
    answers.link = (!name.is_empty()).then_some(DebugLink { name, crc32 });
    input.answers(&mut answers)?;
    input.is_empty().then_some(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correct_checksum_does_not_make_a_damaged_body_dangerous() {
        let mut answers = Answers::default();
        let frame = answers.frame(&"f(int)".into(), &"_Z1fi".into(), Some(&"f.cc".into()), 7);
        answers.add(16, [frame, frame]);
        let mut content = encode(&answers, "abcd").unwrap();
        assert_eq!(decode(&content, "abcd").unwrap().get(16).unwrap().len(), 2);
        assert!(decode(&content, "abce").is_none());
        for at in HEADER_BYTES..content.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut content[at], value);
                let crc = crc32fast::hash(&content[HEADER_BYTES..]);
                content[12..16].copy_from_slice(&crc.to_le_bytes());
                if let Some(read) = decode(&content, "abcd") {
                    read.by_address.keys().for_each(|&address| drop(read.get(address)));
                }
                content[at] = before;
            }
        }
    }
}
